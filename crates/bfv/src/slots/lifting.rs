//! Between Z_{2^bits} and Z_T, T a product of plaintext primes: Lift(x) = round(T x / 2^bits), Down(y) =
//! round(2^bits y / T).
//!
//! With T >= 2^(2 bits - slack), Lift(x) * y = T/2^bits * (x y mod 2^bits) + e y modulo T with |e| <= 1/2, so
//! for |y| <= 2^(bits-1) the error after Down is at most 2^(slack-2), plus one unit of rounding (Propositions
//! 2 and 3 have slack = 0).
use super::moduli::{SlotRing, MAX_PLAIN_WIDTH, MIN_PLAIN_WIDTH};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tacita_ring::{kernels, AlignedVec, Modulus};
use tacita_rlwe::RlweError;
use zeroize::Zeroize;

/// Largest ring: Z_{2^64}.
pub const MAX_BITS: u32 = 64;

/// Adding and subtracting this rounds a double below 2^51 to an integer.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// How values of one ring travel: its primes and constants.
pub struct Lifting {
    bits: u32,
    rings: Vec<Arc<SlotRing>>,
    /// -2^-bits modulo each prime.
    lift: Vec<u64>,
    /// (T/t)^-1 modulo each prime t.
    cofactors: Vec<u64>,
    /// round(2^128 / t) of each prime.
    fractions: Vec<u128>,
    /// T modulo 2^64.
    product: u64,
}

impl Lifting {
    /// Widths of the primes for a ring of `bits` and errors below 2^slack: the fewest primes that hold 2 bits
    /// - slack bits, all of one width (within the engine's 22 and 49 bits).
    pub fn widths(bits: u32, slack: u32) -> Vec<u32> {
        let need = 2 * bits - slack;
        let count = need.div_ceil(MAX_PLAIN_WIDTH).max(1);
        vec![need.div_ceil(count).max(MIN_PLAIN_WIDTH); count as usize]
    }

    /// The rule of [`Lifting::widths`] with its tables (made once per width in a process).
    ///
    /// # Errors
    /// [`RlweError::Shape`] unless 1 <= bits <= 64 and slack <= bits.
    pub fn new(bits: u32, slack: u32) -> Result<Self, RlweError> {
        if !(1..=MAX_BITS).contains(&bits) || slack > bits {
            let detail = format!("a ring of {bits} bits with a slack of {slack}");
            return Err(RlweError::Shape { op: "lift", detail });
        }
        let widths = Self::widths(bits, slack);
        let rings = widths
            .iter()
            .enumerate()
            .map(|(i, &w)| shared_ring(w, i))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self::with_rings(bits, rings))
    }

    fn with_rings(bits: u32, rings: Vec<Arc<SlotRing>>) -> Self {
        let primes: Vec<Modulus> = rings.iter().map(|r| *r.t()).collect();
        let lift = primes
            .iter()
            .map(|t| t.neg(t.inv(t.pow(2, u64::from(bits)))))
            .collect();
        let others = |t: &Modulus| {
            let others = primes.iter().filter(|o| o.p() != t.p());
            others.fold(1, |product, o| t.mul(product, o.p()))
        };
        Self {
            bits,
            lift,
            cofactors: primes.iter().map(|t| t.inv(others(t))).collect(),
            fractions: primes.iter().map(|t| u128::MAX / u128::from(t.p())).collect(),
            product: primes
                .iter()
                .fold(1, |product: u64, t| product.wrapping_mul(t.p())),
            rings,
        }
    }

    /// The plaintext primes' rings.
    pub fn rings(&self) -> &[Arc<SlotRing>] {
        &self.rings
    }

    /// Ring bits.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// out = Lift(x) modulo the j-th prime, zero where `values` ends; `values` canonical.
    ///
    /// With r the centred T x modulo 2^bits, Lift(x) = (T x - r) / 2^bits is -r / 2^bits modulo every prime.
    pub fn lift(&self, j: usize, values: &[u64], out: &mut [f64]) {
        let up = 64 - self.bits;
        let remainder = |x: &u64| ((self.product.wrapping_mul(*x) << up) as i64) >> up;
        self.residues(j, values.iter().map(remainder), out);
        kernels::mul_scalar_assign(self.rings[j].t(), out, self.lift[j]);
    }

    /// out = the centred y modulo the j-th prime, zero where `values` ends; `values` canonical.
    pub fn plain(&self, j: usize, values: &[u64], out: &mut [f64]) {
        let up = 64 - self.bits;
        self.residues(j, values.iter().map(|y| ((y << up) as i64) >> up), out);
    }

    fn residues(&self, j: usize, values: impl ExactSizeIterator<Item = i64>, out: &mut [f64]) {
        let p = self.rings[j].t().p() as i64;
        let inverse = 1.0 / p as f64;
        let count = values.len();
        for (out, value) in out.iter_mut().zip(values) {
            // the quotient is below 2^43 and off by less than one half and a little, so |rest| < p
            let quotient = (value as f64 * inverse + ROUND) - ROUND;
            let rest = value.wrapping_sub((quotient as i64).wrapping_mul(p));
            *out = (rest + (p & (rest >> 63))) as f64;
        }
        out[count..].fill(0.0);
    }

    /// Down of the first `count` values with these residues (a slice per prime, canonical), which are wiped.
    pub fn down(&self, residues: &mut [AlignedVec], count: usize) -> Vec<u64> {
        for ((limb, ring), &c) in residues.iter_mut().zip(&self.rings).zip(&self.cofactors) {
            kernels::mul_scalar_assign(ring.t(), limb, c);
        }
        let shift = 128 - self.bits;
        let half = 1u128 << (shift - 1);
        let fraction = |i: usize| {
            let terms = residues.iter().zip(&self.fractions);
            terms.fold(half, |sum, (limb, f)| {
                sum.wrapping_add((limb[i] as u64 as u128).wrapping_mul(*f))
            })
        };
        let down = (0..count).map(|i| (fraction(i) >> shift) as u64).collect();
        residues.iter_mut().for_each(|limb| (**limb).zeroize());
        down
    }
}

/// By width and index.
type Rings = HashMap<(u32, usize), Arc<SlotRing>>;

/// The ring of a prime, made once in a process.
fn shared_ring(width: u32, index: usize) -> Result<Arc<SlotRing>, RlweError> {
    static MADE: Mutex<Option<Rings>> = Mutex::new(None);
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let made = made.get_or_insert_default();
    if let Some(ring) = made.get(&(width, index)) {
        return Ok(ring.clone());
    }
    let ring = Arc::new(SlotRing::new(width, index)?);
    made.insert((width, index), ring.clone());
    Ok(ring)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (bits, slack, primes): the corners where a prime more is needed.
    #[test]
    fn the_fewest_primes_hold_the_product_but_for_the_slack() {
        let cases = [
            (32, 15, 1, 49),
            (32, 14, 2, 25),
            (32, 0, 2, 32),
            (49, 0, 2, 49),
            (50, 0, 3, 34),
            (64, 30, 2, 49),
            (64, 29, 3, 33),
            (64, 0, 3, 43),
            (15, 0, 1, 30),
            (10, 9, 1, 22),
        ];
        for (bits, slack, count, width) in cases {
            assert_eq!(Lifting::widths(bits, slack), vec![width; count], "{bits} {slack}");
        }
    }

    fn edges(bits: u32) -> Vec<u64> {
        let mask = u64::MAX >> (64 - bits);
        let mut values = vec![
            0,
            1,
            2,
            mask,
            mask - 1,
            1 << (bits - 1),
            (1 << (bits - 1)) - 1,
            mask / 3,
        ];
        values
            .extend((0..200u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(i as u32) & mask));
        values
    }

    #[test]
    fn products_of_lifted_values_come_down_within_the_slack() {
        for bits in 15..=64 {
            for slack in [0, bits / 2 - 1] {
                let lifting = Lifting::new(bits, slack).unwrap();
                let (mask, values) = (u64::MAX >> (64 - bits), edges(bits));
                let others: Vec<u64> = values.iter().rev().copied().collect();
                let mut products = vec![];
                for (j, ring) in lifting.rings().iter().enumerate() {
                    let (mut x, mut y) = (AlignedVec::zeroed(values.len()), AlignedVec::zeroed(values.len()));
                    lifting.lift(j, &values, &mut x);
                    lifting.plain(j, &others, &mut y);
                    kernels::mul_assign(ring.t(), &mut x, &y);
                    products.push(x);
                }
                let down = lifting.down(&mut products, values.len());
                let allowed = (1i64 << slack.saturating_sub(1)) + 1;
                for ((x, y), z) in values.iter().zip(&others).zip(down) {
                    let error = z.wrapping_sub(x.wrapping_mul(*y)) & mask;
                    let error = ((error << (64 - bits)) as i64) >> (64 - bits);
                    assert!(
                        error.abs() <= allowed,
                        "{bits} bits, slack {slack}: {x} * {y} is off by {error}"
                    );
                }
            }
        }
    }

    #[test]
    fn refuses_rings_it_cannot_carry() {
        assert!(Lifting::new(65, 0).is_err() && Lifting::new(0, 0).is_err() && Lifting::new(20, 21).is_err());
    }
}
