//! Where the secret of weight 32 may be seen, and the probability that the multiples of q0 which it bounds
//! are too large.
//!
//! Bootstrapping raises the modulus under that secret (Bossuat, Troncoso-Pastoriza, Hubaux, ePrint 2022/024).
//! Sparse secrets fall to hybrid attacks much sooner than dense ones, so it may be encrypted under a small
//! modulus only: see `bench/kernels/lattice` for what these attacks cost, and docs/decisions/0002 for why the
//! range cannot be left.
use crate::CkksError;
use std::f64::consts::LOG2_E;
use tacita_rlwe::secret::SPARSE_WEIGHT;
use tacita_rlwe::switching::SIGMA;
use tacita_rlwe::{Parameters, ParametersLiteral, RlweError};

/// log2 of the largest modulus that the sparse secret may be seen under; at least 128 bits by
/// `bench/kernels/lattice`.
pub const MAX_LOG_QP: f64 = 115.0;
/// log2 of the smallest ring degree for which that was estimated.
const MIN_LOG_N: u32 = 16;
/// Ciphertext limbs of the key to the sparse secret: more would publish it under a modulus that breaks it.
pub const LIMBS: usize = 1;
/// Largest multiple of q0 after mod-raise, for a secret of weight 32: the modular reduction is fitted to it.
pub(crate) const MAX_MULTIPLE: i64 = 16;
/// Half-width of the intervals, around these multiples, that the modular reduction is fitted on.
pub(crate) const HALF_WIDTH: f64 = 1.05 / 181.0;

/// log2 of the largest probability that a bootstrap may fail with.
const MAX_FAILURE_LOG2: f64 = -128.0;
/// Smaller figures are not told apart: no model of noise is good so far out.
const LEAST_FAILURE_LOG2: f64 = -1000.0;
/// Standard deviation of what a slot holds besides its message when a bootstrap begins: four times the error
/// of the least precise of all slots after one bootstrap.
const INPUT_NOISE: f64 = 1.0 / (1u64 << 16) as f64;

/// Fails unless the sparse secret is hard to find modulo q0 * p0, the product of the lowest prime and the
/// first special one.
///
/// # Errors
/// [`RlweError::Parameters`] naming the bits.
pub(crate) fn check_modulus(l: &ParametersLiteral) -> Result<(), CkksError> {
    let log_qp = (l.q[0] as f64).log2() + l.p.first().map_or(0.0, |&p| (p as f64).log2());
    let too_small = l.log_n < MIN_LOG_N && !l.name.starts_with("insecure_");
    if log_qp > MAX_LOG_QP || too_small {
        let text = format!(
            "{}: a secret of weight {SPARSE_WEIGHT} modulo q0 * p0 of {log_qp:.1} bits at N = 2^{}, \
             allowed are {MAX_LOG_QP} bits from N = 2^{MIN_LOG_N} on; hint: smaller lowest or special primes",
            l.name, l.log_n
        );
        return Err(RlweError::Parameters(text).into());
    }
    Ok(())
}

/// What decides whether the modular reduction gets a value that it was not fitted for.
///
/// After mod-raise each coefficient is t = (c0 + c1 s) / q0 = I + w, with c0, c1 uniform in [-1/2, 1/2] q0, I
/// an integer and w the
/// message and its noise in units of q0. The series is fitted for |I| <= `multiples` and |w| <= `half_width`.
#[derive(Clone, Copy, Debug)]
pub struct RaisedRange {
    /// Nonzero coefficients of the secret: h.
    pub weight: usize,
    /// Largest |I| of the fit: K.
    pub multiples: u32,
    /// Largest |w| of the fit.
    pub half_width: f64,
    /// Largest |message| / q0.
    pub message: f64,
    /// Standard deviation of the noise / q0.
    pub noise: f64,
    /// Coefficients of a ciphertext.
    pub coefficients: usize,
}

impl RaisedRange {
    /// That of a bootstrap on parameters with its primes, for messages up to `message` * q0.
    pub fn of(p: &Parameters, message: f64) -> Self {
        Self {
            weight: SPARSE_WEIGHT,
            multiples: MAX_MULTIPLE as u32,
            half_width: HALF_WIDTH,
            message,
            noise: Self::noise_of(p, message),
            coefficients: p.n(),
        }
    }

    /// Standard deviation of the noise / q0 beside messages up to `message` * q0.
    pub(crate) fn noise_of(p: &Parameters, message: f64) -> f64 {
        (INPUT_NOISE * message).hypot(mod_raise_noise(p))
    }

    /// log2 of an upper bound on the probability that any coefficient of a ciphertext leaves the fit; -1000
    /// for that or less.
    ///
    /// The sum of two tails over all N coefficients:
    /// * I beyond K. Zero when (h + 1)/2 + half_width < K + 1, since abs(t) <= (h + 1)/2 always. Else t is a
    ///   sum of h + 1 uniform variables on [-1/2, 1/2] (Irwin-Hall); by Chernoff's bound, for every x > 0,
    ///   P(abs(t) >= a) <= 2 exp(-x a) (sinh(x/2) / (x/2))^(h+1), at a = K + 1 - half_width and the best x.
    /// * w beyond half_width. At most 2 exp(-d^2/2), d = (half_width - message) / noise, for noise with
    ///   Gaussian tails; certain when the message alone is too large.
    pub fn failure_log2(&self) -> f64 {
        let both_sides_of_all = 1.0 + (self.coefficients as f64).log2();
        let tails = [self.multiples_log2(), self.noise_log2()].map(|tail| tail + both_sides_of_all);
        let larger = tails[0].max(tails[1]);
        let sum = larger + tails.map(|t| (t - larger).exp2()).iter().sum::<f64>().log2();
        sum.clamp(LEAST_FAILURE_LOG2, 0.0)
    }

    fn multiples_log2(&self) -> f64 {
        let terms = self.weight as f64 + 1.0;
        let edge = f64::from(self.multiples) + 1.0 - self.half_width;
        if terms / 2.0 < edge {
            return f64::MIN;
        }
        let exponent = |x: f64| terms * ((x / 2.0).sinh() / (x / 2.0)).ln() - x * edge;
        let best = (1..=2000)
            .map(|i| exponent(f64::from(i) / 20.0))
            .fold(0.0, f64::min);
        best * LOG2_E
    }

    fn noise_log2(&self) -> f64 {
        let deviations = ((self.half_width - self.message) / self.noise).max(0.0);
        -deviations * deviations / 2.0 * LOG2_E
    }

    /// Fails when the probability is above 2^-128.
    ///
    /// # Errors
    /// [`RlweError::Parameters`] naming h, K and the probability.
    pub(crate) fn check(&self) -> Result<(), CkksError> {
        let found = self.failure_log2();
        if found > MAX_FAILURE_LOG2 {
            let text = format!(
                "a bootstrap with h = {} and K = {} fails with probability up to 2^{found:.1}, \
                 allowed is 2^{MAX_FAILURE_LOG2}; hint: K >= h/2, and a message further below q0",
                self.weight, self.multiples
            );
            return Err(RlweError::Parameters(text).into());
        }
        Ok(())
    }
}

/// Standard deviation, in units of q0, of what the end of slots-to-coefficients and mod-raise add to a
/// coefficient: the key to the sparse secret (one special prime: sigma sqrt(N / 12) q0 / p0), the roundings
/// under the dense secret (of the last rescaling) and under the sparse one, and the keys of the raise: as
/// much as the first for each of D diagonals, D at most 2 (N / 2)^(1/3), and 4 sqrt(D) times that, since it
/// comes after a factor that makes the value as much smaller.
fn mod_raise_noise(p: &Parameters) -> f64 {
    let n = p.n() as f64;
    let key = SIGMA * (n / 12.0).sqrt() / p.p()[0] as f64;
    let rounding = |weight: f64| ((1.0 + weight) / 12.0).sqrt() / p.q()[0] as f64;
    let dense = rounding(2.0 * n / 3.0);
    let diagonals = 2.0 * (n / 2.0).cbrt();
    key.hypot(dense)
        .hypot(4.0 * diagonals * key)
        .hypot(rounding(SPARSE_WEIGHT as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> RaisedRange {
        crate::CkksParameters::preset("n16").unwrap().raised_range()
    }

    #[test]
    fn the_full_preset_cannot_leave_the_range() {
        let range = full();
        assert_eq!((range.weight, range.multiples), (32, 16));
        assert_eq!(range.multiples_log2(), f64::MIN);
        assert_eq!(range.failure_log2(), LEAST_FAILURE_LOG2);
        assert!(range.check().is_ok());
    }

    #[test]
    fn a_heavier_secret_or_a_narrower_range_is_seen_and_refused() {
        for bad in [
            RaisedRange { weight: 64, ..full() },
            RaisedRange {
                multiples: 12,
                ..full()
            },
            RaisedRange {
                half_width: full().message,
                ..full()
            },
            RaisedRange {
                noise: 1e-4,
                ..full()
            },
        ] {
            assert!(bad.failure_log2() > -60.0, "{bad:?}");
            let error = bad.check().unwrap_err().to_string();
            assert!(error.contains("fails with probability up to 2^"), "{error}");
        }
        let last = RaisedRange {
            multiples: 15,
            ..full()
        };
        assert!(
            (-1000.0..-100.0).contains(&last.failure_log2()),
            "{}",
            last.failure_log2()
        );
    }

    /// The distribution function of Irwin and Hall at a few places far out, where its alternating sum is
    /// exact enough.
    #[test]
    fn the_bound_is_above_the_exact_tail_and_near_it() {
        for (weight, multiples) in [(32, 12), (32, 14), (64, 20), (64, 24)] {
            let range = RaisedRange {
                weight,
                multiples,
                half_width: 0.0,
                ..full()
            };
            let m = weight + 1;
            let y = m as f64 / 2.0 - f64::from(multiples) - 1.0;
            let factorial: f64 = (1..=m).map(|k| (k as f64).log2()).sum();
            let (mut sum, mut choose) = (0.0, 1.0);
            for k in 0..=(y.floor() as usize) {
                sum += if k % 2 == 0 { choose } else { -choose } * ((y - k as f64) / y).powi(m as i32);
                choose *= (m - k) as f64 / (k + 1) as f64;
            }
            let exact = f64::log2(sum) + m as f64 * y.log2() - factorial;
            let bound = range.multiples_log2();
            assert!(
                (0.0..8.0).contains(&(bound - exact)),
                "{weight} {multiples}: {bound} {exact}"
            );
        }
    }

    #[test]
    fn the_sparse_secret_has_a_small_modulus_only() {
        let literal = |log_n, q0: u64, p0: u64| ParametersLiteral {
            name: "n".into(),
            log_n,
            q: vec![q0],
            p: vec![p0],
            digit_limbs: 1,
        };
        assert!(check_modulus(&literal(16, 1 << 50, 1 << 50)).is_ok());
        assert!(check_modulus(&literal(16, 1 << 58, 1 << 57)).is_ok());
        for bad in [literal(16, 1 << 58, 1 << 58), literal(15, 1 << 50, 1 << 50)] {
            let error = check_modulus(&bad).unwrap_err().to_string();
            assert!(error.contains("weight 32") && error.contains("hint"), "{error}");
        }
    }
}
