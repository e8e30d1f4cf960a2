//! Error bounds, and what follows from them: how many primes, how many dropped bits of a request, which
//! kappa.
//!
//! The result of a product in Z_{2^bits} may be off by 2^slack units. Three things use that up:
//! * noise of the phase, 2^bits / q units each: the error of every request (sigma 3.2, its rounding, 2^drop /
//!   sqrt(12) for dropped bits) times the norm of the plain entries it meets; of the switches that join
//!   requests, times that norm and doubled by each merge; of every merge, doubled by each later one; of the
//!   zero encryption.
//!   Allowed: 8 standard deviations (exceeded with probability below 2^-48 a coefficient) within a quarter;
//! * the response: [`crate::response::ERROR`] units of 2^-kappa, within 0.44;
//! * dropping kappa - bits low bits of both shares, where kappa is the larger: one unit, within a quarter for
//!   slack >= 2.
use crate::params::log_q;
use crate::request::Rounding;
use crate::{BfvError, Result, NARROW, WIDE};
use tacita_rlwe::switching::SIGMA;
use tacita_rlwe::Parameters;

/// Standard deviations that a bound allows for.
const DEVIATIONS: f64 = 8.0;
/// Variance of a secret's coefficient.
const SECRET: f64 = 2.0 / 3.0;
/// Most bits that a request drops (what remains is still wider than the message).
const MAX_DROP: u32 = 46;

/// What the noise of a product depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operands {
    /// log2 of the ring.
    pub bits: u32,
    /// log2 of the allowed error in units of the ring (2..=bits).
    pub slack: u32,
    /// Euclidean norm of all plain entries that one result's ciphertext meets.
    pub norm: f64,
    /// log2 of the merged leaves.
    pub pack: u32,
    /// log2 of those that are joined before they meet the plain entries.
    pub join: u32,
}

impl Operands {
    /// Of the phase, in units of 1, for requests that are not rounded.
    pub(super) fn variance(self, params: &Parameters, limbs: usize) -> f64 {
        let merges = f64::from(self.pack - self.join).exp2().powi(2);
        let each = SIGMA * SIGMA + joining_variance(params, limbs, self.join) * merges;
        each * self.norm.max(1.0).powi(2) + packing_variance(params, limbs, self.pack)
    }
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Form of the requests.
    pub rounding: Rounding,
    /// log2 of the modulus of the responses.
    pub kappa: u32,
}

impl Budget {
    /// The cheapest that keeps the error below 2^slack.
    ///
    /// # Errors
    /// [`BfvError::Shape`] when even three primes do not.
    pub fn new(params: &Parameters, operands: Operands) -> Result<Self> {
        let Operands {
            bits, slack, norm, ..
        } = operands;
        let fail = |detail: String| {
            Err(BfvError::Shape {
                op: "noise budget",
                detail,
            })
        };
        if slack < 2 || bits > 64 || slack >= bits {
            return fail(format!("a slack of {slack} bits in a ring of {bits}"));
        }
        if let Some(budget) = [NARROW, WIDE]
            .iter()
            .find_map(|&limbs| Self::with_primes(params, limbs, operands))
        {
            return Ok(budget);
        }
        fail(format!(
            "plain entries of norm 2^{:.1} in a ring of {bits} bits leave no room for errors \
             below 2^{slack} units; \
             take a smaller ring or more slack",
            norm.log2()
        ))
    }
}

/// log2 of the share of the masked rounding below which noise must stay where a result is opened.
const FLOODED: f64 = 40.0;

impl Budget {
    /// For a result that is opened: all primes, no dropped bits, noise below 2^-40 of the 2^6 units of
    /// 2^-kappa that the masked half is rounded to.
    ///
    /// # Errors
    /// [`BfvError::Shape`] when three primes do not hide that much.
    pub fn opened(params: &Parameters, operands: Operands) -> Result<Self> {
        let budget = Self::with_primes(params, WIDE, operands);
        let noise = operands.norm.log2() + (SIGMA * DEVIATIONS).log2();
        let rounding = log_q(params, WIDE) - f64::from(operands.bits + 9 - operands.slack);
        budget
            .filter(|_| noise + FLOODED <= rounding)
            .ok_or_else(|| BfvError::Shape {
                op: "noise budget",
                detail: format!(
                    "plain entries of norm 2^{:.1} are too large for a result that is opened",
                    operands.norm.log2()
                ),
            })
    }

    /// With a given number of primes, if that is enough for errors below 2^slack.
    pub fn with_primes(params: &Parameters, limbs: usize, operands: Operands) -> Option<Self> {
        let Operands {
            bits, slack, norm, ..
        } = operands;
        let allowed = allowed_variance(params, limbs, bits, slack) - operands.variance(params, limbs);
        let each = allowed / norm.max(1.0).powi(2) - 1.0 / 12.0;
        let drop = (12.0 * each).max(1.0).log2() / 2.0;
        let drop = if limbs <= NARROW {
            (drop as u32).min(MAX_DROP)
        } else {
            0
        };
        (each >= 0.0).then_some(Self {
            rounding: Rounding { limbs, drop },
            kappa: bits + 9 - slack,
        })
    }
}

/// Of the phase, in units of 1.
fn allowed_variance(params: &Parameters, limbs: usize, bits: u32, slack: u32) -> f64 {
    let bound = log_q(params, limbs) - f64::from(bits) + f64::from(slack) - 2.0;
    (bound.exp2() / DEVIATIONS).powi(2)
}

/// Of one switch.
fn switch_variance(params: &Parameters, limbs: usize) -> f64 {
    let n = params.n() as f64;
    let special = params.modulus(params.p_index(0)).p() as f64;
    let digits: f64 = params.q()[..limbs]
        .iter()
        .map(|&q| (q as f64 / special).powi(2) / 12.0)
        .sum();
    digits * n * SIGMA * SIGMA + (1.0 + n * SECRET) / 12.0
}

/// Of the merges and the zero encryption.
fn packing_variance(params: &Parameters, limbs: usize, pack: u32) -> f64 {
    let zero = 2.0 * params.n() as f64 * SECRET * SIGMA * SIGMA;
    zero + switch_variance(params, limbs) * (4f64.powi(pack as i32) - 1.0) / 3.0
}

/// Of the sum of all 2^join joined ciphertexts, times plain entries of norm 1. A level adds two of them, and
/// to half of these a switch: v becomes 2 v or 2 v + 1, so at most 2^join - 1 switches each.
fn joining_variance(params: &Parameters, limbs: usize, join: u32) -> f64 {
    let joined = 2f64.powi(join as i32);
    switch_variance(params, limbs) * joined * (joined - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters_olt;

    fn budget(bits: u32, slack: u32, log_norm: f64) -> Result<Budget> {
        let norm = log_norm.exp2();
        let operands = Operands {
            bits,
            slack,
            norm,
            pack: 6,
            join: 0,
        };
        Budget::new(&parameters_olt().unwrap(), operands)
    }

    #[test]
    fn wide_ciphertexts_only_where_narrow_ones_are_too_noisy() {
        let usual = budget(64, 12, 24.0).unwrap();
        assert_eq!((usual.rounding.limbs, usual.kappa), (NARROW, 61));
        assert!((17..=19).contains(&usual.rounding.drop), "{usual:?}");
        assert_eq!(budget(40, 8, 45.0).unwrap().rounding.limbs, NARROW);
        assert_eq!(budget(64, 8, 69.0).unwrap().rounding.limbs, WIDE);
        assert!(budget(64, 8, 86.0).is_err());
    }

    #[test]
    fn what_is_opened_hides_its_noise() {
        let params = parameters_olt().unwrap();
        let operands = |log_norm: f64| Operands {
            bits: 64,
            slack: 12,
            norm: log_norm.exp2(),
            pack: 0,
            join: 0,
        };
        let budget = Budget::opened(&params, operands(24.0)).unwrap();
        assert_eq!((budget.rounding.limbs, budget.rounding.drop), (WIDE, 0));
        let narrow = Budget::new(&params, operands(24.0)).unwrap();
        assert_eq!(narrow.rounding.limbs, NARROW);
        assert!(Budget::opened(&params, operands(46.0)).is_err());
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(budget(64, 1, 10.0).is_err() && budget(65, 8, 10.0).is_err() && budget(8, 8, 10.0).is_err());
    }
}
