//! One plaintext prime t and the ciphertext primes that carry it.
//!
//! Sizes, for a t of b bits. The phase of a response has noise x that depends on the evaluator's plaintexts:
//! the errors of the requests (3.2, and 1/2 for rounding) times polynomials of coefficients up to t/2, of
//! standard deviation 2^(8.2 + b) for four terms. A flood hides it: the sum of three uniform integers below
//! W = 2^(b + 61), whose density f on the line is that of three uniform numbers, a quadratic spline. The
//! Hellinger distance squared of f and of f moved by x is at most x^2 I / 4 (Cauchy and Schwarz), with the
//! Fisher information I = 2 sqrt(3) ln(2 + sqrt(3)) / W^2 of f, the integral of f'^2 / f. Squares add up over
//! independent coefficients, and the statistical distance is at most the root of the sum, 1.07 |x| / W. The
//! errors are independent of the plaintexts, so |x|^2 is 2^25 times the variance on average over the errors
//! of an inference of 2^25 coefficients, and its root is at least the mean of |x|: 2^-40.2 in all
//! ([`SlotRing::distance_log2`]). No tail and no real number is in it: the integers are exact.
//!
//! Then both halves are divided by all primes but the low ones, of product Q'. What is left has to decrypt:
//! 3/2 W Q'/Q at most, and the rounding of the halves (sub-Gaussian, of deviation 21.6), against Q'/(2t). One
//! wrong coefficient spoils all slots, and 2^25 at 2^-40 in all leave 2^-65 for each
//! ([`SlotRing::failure_log2`]): log2 Q' >= b + 9 and log2 Q >= 2b + 66 make it 2^-77.9 (a bit less of the
//! first and it is 2^-19, of the second 2^-63).
use tacita_ring::{is_prime, Modulus, NttTable};
use tacita_rlwe::switching::SIGMA;
use tacita_rlwe::{Parameters, ParametersLiteral, RlweError};

/// log2 of the ring degree.
const LOG_N: u32 = 13;
/// Largest width of a prime of the engine.
const MAX_WIDTH: u32 = 50;
/// log2 of W / 2^b; see the module.
const FLOOD: u32 = 61;
/// Variance of a coefficient of the secret.
const TERNARY: f64 = 2.0 / 3.0;
/// The most products in the sum of one response: its 8192 coefficients alone are then within 2^-40.
pub const MOST_TERMS: usize = 8192;
/// Widths of plaintext primes.
pub(super) const MIN_PLAIN_WIDTH: u32 = 22;
pub(super) const MAX_PLAIN_WIDTH: u32 = 49;

/// A plaintext prime with the parameters and constants of its ciphertexts. Tables are large: keep and share
/// it.
pub struct SlotRing {
    params: Parameters,
    plain: NttTable,
    /// Bits of every ciphertext prime on the wire.
    widths: Vec<u32>,
    /// Primes of a response, the first ones.
    low: usize,
}

impl SlotRing {
    /// The `index`-th largest plaintext prime below 2^width (22..=49), and ciphertext primes below the widths
    /// that it needs.
    ///
    /// # Errors
    /// [`RlweError`] when the width is out of range or the primes cannot be found.
    pub fn new(width: u32, index: usize) -> Result<Self, RlweError> {
        Self::over_degree(LOG_N, format!("slots_{width}"), width, index)
    }

    /// **No security**: 64 slots of a prime of 22 bits, so that fuzzing its decoders takes microseconds.
    ///
    /// # Errors
    /// Never in practice: the primes exist.
    pub fn insecure_toy() -> Result<Self, RlweError> {
        Self::over_degree(6, "insecure_slots".into(), MIN_PLAIN_WIDTH, 0)
    }

    fn over_degree(log_n: u32, name: String, width: u32, index: usize) -> Result<Self, RlweError> {
        if !(MIN_PLAIN_WIDTH..=MAX_PLAIN_WIDTH).contains(&width) {
            return Err(RlweError::Parameters(format!(
                "a plaintext prime of {width} bits"
            )));
        }
        let mut used = vec![];
        let mut below = |width: u32, skip: usize| {
            let prime = prime_below(log_n, width, skip, &used);
            used.extend(prime);
            prime.ok_or_else(|| RlweError::Parameters(format!("no prime of {width} bits is left")))
        };
        let t = below(width, index)?;
        let (widths, low) = ciphertext_widths(width);
        let q = widths
            .iter()
            .map(|&w| below(w, 0))
            .collect::<Result<Vec<_>, _>>()?;
        let params = Parameters::new(ParametersLiteral {
            name,
            log_n,
            digit_limbs: q.len(),
            q,
            p: vec![],
        })?;
        let plain = NttTable::new(Modulus::new(t)?, log_n)?;
        Ok(Self {
            params,
            plain,
            widths,
            low,
        })
    }

    /// Ciphertext parameters; a response has the first primes only.
    pub fn params(&self) -> &Parameters {
        &self.params
    }

    /// Slots of a ciphertext.
    pub fn n(&self) -> usize {
        self.params.n()
    }

    /// The plaintext prime.
    pub fn t(&self) -> &Modulus {
        self.plain.modulus()
    }

    /// Transform between coefficients and slots.
    pub(super) fn plain(&self) -> &NttTable {
        &self.plain
    }

    /// Primes of a response.
    pub(super) fn low(&self) -> usize {
        self.low
    }

    /// Bits of every ciphertext prime on the wire, in order.
    pub(super) fn widths(&self) -> &[u32] {
        &self.widths
    }

    /// log2 of W: the flood of a response is a sum of three uniform integers below it.
    pub(super) fn flood_log2(&self) -> u32 {
        FLOOD + self.t().p().ilog2() + 1
    }

    /// Standard deviation of the noise that responses to sums of `terms` products have before the flood, at
    /// the evaluator's worst: all coefficients of its polynomials t/2. With the noise of the encryption of
    /// zero, whose randomness the flood hides as well.
    pub(super) fn products_noise(&self, terms: usize) -> f64 {
        let (n, t) = (self.n() as f64, self.t().p() as f64);
        let requests = (SIGMA * SIGMA + 1.0 / 12.0) * n * terms as f64 * t * t / 4.0;
        let zero = SIGMA * SIGMA * 2.0 * TERNARY * n;
        (requests + zero).sqrt()
    }

    /// log2 of the statistical distance that `coefficients` of responses to sums of `terms` products have
    /// from the flood, the mask and a uniform half alone; see the module.
    pub fn distance_log2(&self, terms: usize, coefficients: f64) -> f64 {
        let information = 12f64.sqrt() * (2.0 + 3f64.sqrt()).ln();
        let moved = coefficients.sqrt() * self.products_noise(terms);
        (information.sqrt() / 2.0 * moved).log2() - f64::from(self.flood_log2())
    }

    /// log2 of the probability that one coefficient of a response spoils its slots: that the rounding exceeds
    /// what the flood leaves of Q'/(2t), of which 2^8 units count where it is wider. The secret is taken 9.5
    /// deviations heavier than the mean.
    pub fn failure_log2(&self) -> f64 {
        let log2 = |primes: &[u64]| primes.iter().map(|&p| (p as f64).log2()).sum::<f64>();
        let (n, q) = (self.n() as f64, self.params.q());
        let step = log2(&q[..self.low]) - (self.t().p() as f64).log2();
        let flood = 1.5 * (f64::from(self.flood_log2()) - log2(&q[self.low..]) - step).exp2();
        let room = (0.5 - flood) * step.min(9.0).exp2();
        let weight = TERNARY * n + 9.5 * (TERNARY / 3.0 * n).sqrt();
        let variance = (1.0 + weight) / 12.0;
        1.0 - room * room / (2.0 * variance) * std::f64::consts::LOG2_E
    }
}

/// Widths of the ciphertext primes for a plaintext prime of `width` bits, and how many of them, the first
/// ones, a response has; see the module.
fn ciphertext_widths(width: u32) -> (Vec<u32>, usize) {
    let total = 2 * width + 66;
    let low = (width + 9).max(total.saturating_sub(2 * MAX_WIDTH));
    let split = |bits: u32| {
        let count = bits.div_ceil(MAX_WIDTH);
        (0..count).map(move |i| (bits + i) / count)
    };
    let widths = split(low).chain(split(total - low)).collect();
    (widths, split(low).count())
}

/// The largest primes = 1 mod 2N below 2^width, but for those in `used` and `skip` others.
fn prime_below(log_n: u32, width: u32, skip: usize, used: &[u64]) -> Option<u64> {
    let step = 2u64 << log_n;
    let top = (1u64 << width) - step + 1;
    (0..(1u64 << (width - 1)) / step)
        .map(|i| top - i * step)
        .filter(|p| !used.contains(p) && is_prime(*p))
        .nth(skip)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a coefficient fails with at most, at every width.
    const FAILURE_LOG2: f64 = -77.9;
    /// Coefficients of all responses of one inference.
    const COEFFICIENTS_LOG2: f64 = 25.0;

    #[test]
    fn every_width_fails_and_tells_with_two_to_the_minus_forty_an_inference_and_is_secure() {
        for width in MIN_PLAIN_WIDTH..=MAX_PLAIN_WIDTH {
            let ring = SlotRing::new(width, 0).unwrap();
            let failure = ring.failure_log2();
            assert!(
                (-80.0..FAILURE_LOG2).contains(&failure),
                "{width} bits: 2^{failure:.1}"
            );
            const { assert!(FAILURE_LOG2 + COEFFICIENTS_LOG2 < -40.0) };
            let distance = ring.distance_log2(4, COEFFICIENTS_LOG2.exp2());
            assert!(ring.distance_log2(MOST_TERMS, 8192.0) < -40.0);
            assert!(
                (-41.0..-40.0).contains(&distance),
                "{width} bits: 2^{distance:.2}"
            );
            assert_eq!(ring.params().security_bits(), 128);
            assert!(ring
                .params()
                .q()
                .iter()
                .zip(ring.widths())
                .all(|(&p, &w)| p < 1 << w));
        }
    }

    /// The integral of f'^2 / f for the density of three uniform numbers, by the midpoint rule.
    #[test]
    fn the_information_of_the_flood_is_that_of_its_density() {
        let steps = 1 << 20;
        let integral: f64 = (0..steps)
            .map(|i| {
                let x = (f64::from(i) + 0.5) * 1.5 / f64::from(steps);
                let (f, slope) = if x < 1.0 {
                    (x * x / 2.0, x)
                } else {
                    (0.75 - (x - 1.5).powi(2), 3.0 - 2.0 * x)
                };
                slope * slope / f
            })
            .sum();
        let information = 2.0 * integral * 1.5 / f64::from(steps);
        let ring = SlotRing::new(30, 0).unwrap();
        let unit = ring.products_noise(1).log2() - f64::from(ring.flood_log2());
        let expected = (information.sqrt() / 2.0).log2() + unit;
        assert!((ring.distance_log2(1, 1.0) - expected).abs() < 1e-6);
    }

    #[test]
    fn sizes_of_the_common_cases() {
        assert_eq!(ciphertext_widths(34), (vec![43, 45, 46], 1));
        assert_eq!(ciphertext_widths(41), (vec![50, 49, 49], 1));
        assert_eq!(ciphertext_widths(49), (vec![32, 32, 50, 50], 2));
    }

    #[test]
    fn refuses_widths_that_the_engine_cannot_carry() {
        assert!(SlotRing::new(21, 0).is_err() && SlotRing::new(50, 0).is_err());
    }
}
