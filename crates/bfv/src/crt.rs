//! Between residues modulo the ciphertext primes and integers: rounding to powers of two and back,
//! coefficient by coefficient.
//!
//! Three facts, each of which spares big integers:
//! 1. x/q = sum_i y_i/q_i modulo 1 with y_i = x_i (q/q_i)^-1 mod q_i. In fixed point with 128 fraction bits
//!    (wrapping u128) the sum is off by less than limbs * 2^49 * 2^-128 <= 2^-77.
//! 2. round(q m / 2^k) = (q m + h - r) / 2^k with h = 2^(k-1), r = (q m + h) mod 2^k. Modulo q_i the term q m
//!    vanishes, and r only needs q mod 2^k: the residue is (h - r) * 2^-k mod q_i, exact for any number of
//!    primes.
//! 3. Two primes fit u128: x = x_0 + q_0 ((x_1 - x_0) q_0^-1 mod q_1).
use tacita_ring::{kernels, AlignedVec, Modulus};
use tacita_rlwe::{Parameters, RnsPoly};

/// Constants of the first `limbs` ciphertext primes.
pub struct Crt<'a> {
    params: &'a Parameters,
    limbs: usize,
}

/// Width of the low part when a wide integer is split into two doubles.
const SPLIT: u32 = 49;

impl<'a> Crt<'a> {
    /// For ciphertexts of `limbs` primes.
    pub fn new(params: &'a Parameters, limbs: usize) -> Self {
        assert!(limbs >= 1 && limbs <= params.q_len());
        Self { params, limbs }
    }

    fn modulus(&self, i: usize) -> &Modulus {
        self.params.modulus(i)
    }

    /// q modulo 2^64.
    fn q_low(&self) -> u64 {
        self.params.q()[..self.limbs]
            .iter()
            .fold(1, |x, &q| x.wrapping_mul(q))
    }

    /// round(q m / 2^bits) for every coefficient (1 <= bits <= 64, m < 2^bits), in coefficient form.
    pub fn scale_up(&self, message: &[u64], bits: u32) -> RnsPoly {
        let (q, mask, half) = (self.q_low(), u64::MAX >> (64 - bits), 1u64 << (bits - 1));
        let mut out = RnsPoly::zero(self.params, self.limbs, 0);
        for (i, limb) in out.limbs.iter_mut().enumerate() {
            let m = self.modulus(i);
            for (x, &value) in limb.iter_mut().zip(message) {
                let r = q.wrapping_mul(value).wrapping_add(half) & mask;
                *x = residue(m, i128::from(half) - i128::from(r));
            }
            kernels::mul_scalar_assign(m, limb, m.inv(m.pow(2, u64::from(bits))));
        }
        out
    }

    /// round(2^kappa x / q) mod 2^kappa (kappa <= 72) for every coefficient x of `poly` (coefficient form,
    /// overwritten), handed to `sink` by index. Off by at most half a unit and 2^(kappa - 77).
    pub fn scale_down(&self, poly: &mut RnsPoly, kappa: u32, mut sink: impl FnMut(usize, u128)) {
        assert!((1..=72).contains(&kappa));
        self.scale_for_sum(poly);
        let half = 1u128 << (127 - kappa);
        let inverses: Vec<u128> = self.params.q()[..self.limbs]
            .iter()
            .map(|&q| u128::MAX / u128::from(q))
            .collect();
        for at in 0..self.params.n() {
            let fraction = poly.limbs.iter().zip(&inverses).fold(half, |sum, (y, &inv)| {
                sum.wrapping_add((y[at] as u64 as u128).wrapping_mul(inv))
            });
            sink(at, fraction >> (128 - kappa));
        }
    }

    /// x_i -> x_i (q/q_i)^-1 mod q_i.
    fn scale_for_sum(&self, poly: &mut RnsPoly) {
        for (i, limb) in poly.limbs.iter_mut().enumerate() {
            let m = self.modulus(i);
            let others = (0..self.limbs).filter(|&j| j != i);
            let hat = others.fold(1, |x, j| m.mul(x, self.params.q()[j] % m.p()));
            kernels::mul_scalar_assign(m, limb, m.inv(hat));
        }
    }

    /// The integers 0 <= x < q of a polynomial of one or two limbs (coefficient form), handed to `sink` by
    /// index.
    pub fn integers(&self, poly: &RnsPoly, mut sink: impl FnMut(usize, u128)) {
        if self.limbs == 1 {
            return poly.limbs[0]
                .iter()
                .enumerate()
                .for_each(|(at, &x)| sink(at, x as u128));
        }
        assert_eq!(self.limbs, 2, "integers of one or two primes only");
        let (m0, m1) = (self.modulus(0), self.modulus(1));
        let mut lifted = AlignedVec::scratch(self.params.n());
        kernels::switch_modulus(m0, m1, &mut lifted, &poly.limbs[0]);
        // The lift is of the centred x_0: x = c + q_0 t with c in (-q_0/2, q_0/2), and x + q when that is
        // negative.
        let mut t = AlignedVec::scratch(self.params.n());
        kernels::sub_mul_scalar(m1, &mut t, &poly.limbs[1], &lifted, m1.inv(m0.p() % m1.p()));
        let q = self.product();
        for (at, (&x0, &t)) in poly.limbs[0].iter().zip(t.iter()).enumerate() {
            let x = i128::from(m0.center(x0 as u64)) + i128::from(m0.p()) * (t as i64 as i128);
            sink(at, if x < 0 { (x + q as i128) as u128 } else { x as u128 });
        }
    }

    /// q, of one or two primes.
    pub fn product(&self) -> u128 {
        assert!(self.limbs <= 2, "q does not fit");
        self.params.q()[..self.limbs]
            .iter()
            .map(|&q| u128::from(q))
            .product()
    }

    /// The residues (coefficient form) of unsigned integers below 2^98.
    pub fn residues(&self, values: impl Iterator<Item = u128>) -> RnsPoly {
        let mut out = RnsPoly::zero(self.params, self.limbs, 0);
        let mut high = AlignedVec::zeroed(self.params.n());
        let mut low = AlignedVec::zeroed(self.params.n());
        for (value, (h, l)) in values.zip(high.iter_mut().zip(low.iter_mut())) {
            debug_assert!(value >> (2 * SPLIT) == 0);
            *h = (value >> SPLIT) as u64 as f64;
            *l = (value as u64 & ((1 << SPLIT) - 1)) as f64;
        }
        for (i, limb) in out.limbs.iter_mut().enumerate() {
            let m = self.modulus(i);
            let p = m.p() as f64;
            let fold = |x: f64| if x >= p { x - p } else { x };
            let folded: Vec<f64> = high.iter().map(|&h| fold(h)).collect();
            limb.iter_mut().zip(low.iter()).for_each(|(x, &l)| *x = fold(l));
            kernels::mul_scalar_add_assign(m, limb, &folded, m.pow(2, u64::from(SPLIT)));
        }
        out
    }
}

/// A signed integer below 2^64 in absolute value, modulo p.
fn residue(m: &Modulus, x: i128) -> f64 {
    let r = x.unsigned_abs() as u64 % m.p();
    (if x < 0 { m.neg(r) } else { r }) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::{parameters_olt, NARROW, WIDE};
    use tacita_ring::sample::{uniform, Prng};

    fn random(params: &Parameters, limbs: usize) -> RnsPoly {
        let mut prng = Prng::from_seed([3; 32]);
        let mut poly = RnsPoly::zero(params, limbs, 0);
        for (i, limb) in poly.limbs.iter_mut().enumerate() {
            uniform(&mut prng, params.modulus(i), limb);
        }
        poly
    }

    #[test]
    fn integers_and_residues_are_inverse() {
        let params = parameters_olt().unwrap();
        let crt = Crt::new(&params, NARROW);
        let mut poly = random(&params, NARROW);
        for (at, value) in [0.0, 1.0].into_iter().enumerate() {
            poly.limbs.iter_mut().for_each(|l| l[at] = value);
        }
        (0..NARROW).for_each(|i| poly.limbs[i][2] = (params.q()[i] - 1) as f64);
        let mut values = Vec::new();
        crt.integers(&poly, |_, x| values.push(x));
        assert_eq!(values[..3], [0, 1, crt.product() - 1]);
        assert!(values.iter().all(|&x| x < crt.product()));
        for (i, &q) in params.q()[..NARROW].iter().enumerate() {
            assert!(values
                .iter()
                .zip(poly.limbs[i].iter())
                .all(|(x, &r)| (x % u128::from(q)) as f64 == r));
        }
        assert!(crt.residues(values.into_iter()).limbs == poly.limbs);
    }

    #[test]
    fn scaling_up_is_the_rounded_quotient() {
        let params = parameters_olt().unwrap();
        let crt = Crt::new(&params, NARROW);
        for bits in [1u32, 29, 63, 64] {
            let mask = u64::MAX >> (64 - bits);
            let m: Vec<u64> = (0..params.n() as u64)
                .map(|i| match i {
                    0 => 0,
                    1 => mask,
                    2 => 1 << (bits - 1),
                    _ => i.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask,
                })
                .collect();
            let up = crt.scale_up(&m, bits);
            let q = crt.product();
            let mut at_most = 0;
            crt.integers(&up, |i, x| {
                // 2^bits x - q m lies within half of 2^bits, modulo 2^bits q: compare in two halves of q m.
                let (low, high) = (
                    u128::from(m[i]) * (q & u128::from(u64::MAX)),
                    u128::from(m[i]) * (q >> 64),
                );
                let floor = (high + (low >> 64)) << (64 - bits) | (low as u64 as u128) >> bits;
                let error = (x + q - floor) % q;
                assert!(error <= 1, "bits {bits}, coefficient {i}: {error}");
                at_most = at_most.max(error);
            });
            assert_eq!(at_most, 1, "rounding goes both ways");
        }
    }

    #[test]
    fn scaling_down_inverts_scaling_up() {
        let params = parameters_olt().unwrap();
        for limbs in [NARROW, WIDE] {
            let crt = Crt::new(&params, limbs);
            let m: Vec<u64> = (0..params.n() as u64)
                .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
                .collect();
            for kappa in [64u32, 60, 72] {
                let mut down = Vec::new();
                crt.scale_down(&mut crt.scale_up(&m, 64), kappa, |_, x| down.push(x));
                for (&x, &m) in down.iter().zip(&m) {
                    let exact = (u128::from(m) << 64) >> (128 - kappa);
                    let error = x.wrapping_sub(exact) & ((1 << kappa) - 1);
                    assert!(error <= 1, "kappa {kappa}: {error}");
                }
            }
        }
    }
}
