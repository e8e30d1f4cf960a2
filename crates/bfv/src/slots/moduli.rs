//! One plaintext prime t and the ciphertext primes that carry it.
//!
//! Sizes, for a t of b bits. The mask of a response is uniform modulo Q' (all primes but the top one), so a
//! coefficient of noise e (in units of Q'/t) makes the two shares disagree with probability 2|e|, and one
//! wrong coefficient spoils all slots. 2^25 coefficients per inference at 2^-40 in all leave 2^-65 for each
//! ([`SlotRing::failure_log2`]):
//!
//! * products: the error of a request (3.2, and 1/2 for rounding) times a polynomial of coefficients up to
//!   t/2, 2^(9.4 + b) for eight terms, against Q/t: log2 Q >= 2b + 75;
//! * dropping the top prime and decrypting: about 17 units against Q'/t: log2 Q' >= b + 72.
use tacita_ring::{is_prime, Modulus, NttTable};
use tacita_rlwe::switching::SIGMA;
use tacita_rlwe::{Parameters, ParametersLiteral, RlweError};

/// log2 of the ring degree.
const LOG_N: u32 = 13;
/// Largest width of a prime of the engine.
const MAX_WIDTH: u32 = 50;
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
        let widths = ciphertext_widths(width);
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
        })
    }

    /// Ciphertext parameters; the last prime is dropped from responses.
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
        self.params.q_len() - 1
    }

    /// Bits of every ciphertext prime on the wire, in order.
    pub(super) fn widths(&self) -> &[u32] {
        &self.widths
    }

    /// log2 of the probability that one coefficient of the response to a sum of `terms` products spoils its
    /// slots: twice the mean of |noise| in units of Q'/t. Plain polynomials are taken at their worst, all
    /// coefficients t/2.
    pub fn failure_log2(&self, terms: usize) -> f64 {
        let (n, t) = (self.n() as f64, self.t().p() as f64);
        let log = |primes: &[u64]| primes.iter().map(|&p| (p as f64).log2()).sum::<f64>();
        let q = self.params.q();
        let ternary = 2.0 / 3.0;
        let request = (SIGMA * SIGMA + 1.0 / 12.0) * n * terms as f64 * t * t / 4.0;
        let zero = SIGMA * SIGMA * 2.0 * ternary * n;
        let dropping = (1.0 + ternary * n) / 12.0;
        // the mean of the absolute value of a Gaussian is sqrt(2/pi) of its deviation
        let mean = |variance: f64, modulus: f64| {
            2.0 * (2.0 / std::f64::consts::PI * variance).sqrt() * (t.log2() - modulus).exp2()
        };
        (mean(request + zero, log(q)) + mean(dropping, log(&q[..self.low()]))).log2()
    }
}

/// Widths of the ciphertext primes for a plaintext prime of `width` bits, the one that responses drop last;
/// see the module.
fn ciphertext_widths(width: u32) -> Vec<u32> {
    let total = 2 * width + 75;
    let low = (width + 72).max(total - MAX_WIDTH);
    let count = low.div_ceil(MAX_WIDTH);
    let mut widths: Vec<u32> = (0..count).map(|i| (low + i) / count).collect();
    widths.push(total - low);
    widths
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

    /// Coefficients of all responses of one inference.
    const COEFFICIENTS_LOG2: f64 = 25.0;

    #[test]
    fn every_width_fails_below_two_to_the_minus_forty_per_inference_and_is_secure() {
        for width in MIN_PLAIN_WIDTH..=MAX_PLAIN_WIDTH {
            let ring = SlotRing::new(width, 0).unwrap();
            let failure = ring.failure_log2(8) + COEFFICIENTS_LOG2;
            assert!(failure < -40.0, "{width} bits: 2^{failure:.1}");
            assert!(
                failure > -46.0,
                "{width} bits: 2^{failure:.1} is paid for in traffic"
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

    #[test]
    fn sizes_of_the_common_case() {
        let widths = ciphertext_widths(49);
        assert_eq!(widths, [41, 41, 41, 50]);
        assert_eq!(widths.iter().sum::<u32>(), 173);
    }

    #[test]
    fn refuses_widths_that_the_engine_cannot_carry() {
        assert!(SlotRing::new(21, 0).is_err() && SlotRing::new(50, 0).is_err());
    }
}
