//! CKKS presets: one chain shape for every ring degree.
//!
//! | part (bottom first) | limbs | bits | used by |
//! |---|---|---|---|
//! | base | 1 | 50 | mod-raise |
//! | slots-to-coefficients | 2 | 48.0 | bootstrapping, before mod-raise |
//! | residual | 13 | 48.0 | the user's circuit |
//! | modular reduction | 9 | 49.3 | bootstrapping |
//! | coefficients-to-slots | 3 | 49.3 | bootstrapping |
//! | special | 7 | 50 | key switching |
//!
//! Every ciphertext at native level l up to the top residual level has the canonical scale `scales[l]`, defined by
//! scales[l-1] = scales[l]^2 / q_l; the primes are chosen so that these stay near 2^48 (reduced-error CKKS, Kim et al.,
//! ePrint 2020/1118). The scale that bootstrapping returns is scales[top] *by construction*: the slots-to-coefficients
//! matrices carry the factor that makes it so (see `bootstrap`).
use crate::CkksError;
use std::f64::consts::PI;
use tacita_ring::ntt_primes;
use tacita_rlwe::{Parameters, ParametersLiteral};

/// Limbs of slots-to-coefficients.
pub const STC_LEVELS: usize = 2;
/// Limbs of the user's circuit.
pub const RESIDUAL_LEVELS: usize = 13;
/// Levels of the modular reduction: polynomial 5, squarings 3, sine correction 1.
pub const EVAL_MOD_LEVELS: usize = 9;
/// Limbs of coefficients-to-slots.
pub const CTS_LEVELS: usize = 3;
/// Special primes and limbs per key-switching digit.
pub const SPECIAL: usize = 7;
/// log2 of the residual scale.
const LOG_SCALE: f64 = 48.0;
/// log2 of the scale inside bootstrapping.
const LOG_BOOT_SCALE: f64 = 49.3;
/// Bound on |message + q0*I| / q0 after mod-raise: (32 + 1) / 2 for an ephemeral secret of weight 32, plus the message.
pub const MOD_RANGE: f64 = 17.0;
/// Squarings after the polynomial of the modular reduction.
pub const DOUBLINGS: usize = 3;

/// Parameters of CKKS with bootstrapping.
#[derive(Clone, Debug)]
pub struct CkksParameters {
    rlwe: Parameters,
    scales: Vec<f64>,
    boot_scale: f64,
}

impl CkksParameters {
    /// A preset by name: `n16` (128-bit) or `insecure_toy_n9` ... `insecure_toy_n15` (tests only).
    ///
    /// # Errors
    /// [`CkksError::Shape`] for an unknown name.
    pub fn preset(name: &str) -> Result<Self, CkksError> {
        let log_n = match name {
            "n16" => Some(16),
            _ => name.strip_prefix("insecure_toy_n").and_then(|d| d.parse().ok()),
        };
        match log_n {
            Some(l) if (8..=16).contains(&l) => Self::build(name, l),
            _ => Err(CkksError::Shape {
                op: "parameters",
                detail: format!(
                    "unknown preset {name:?}; hint: use \"n16\" (128-bit) or \"insecure_toy_n8\"..\"insecure_toy_n15\""
                ),
            }),
        }
    }

    fn build(name: &str, log_n: u32) -> Result<Self, CkksError> {
        let mut used: Vec<u64> = Vec::new();
        let mut pick = |bits: f64| -> Result<u64, CkksError> {
            let prime = ntt_primes(bits, log_n + 1, 1, &used)?[0];
            used.push(prime);
            Ok(prime)
        };
        let p = (0..SPECIAL).map(|_| pick(50.0)).collect::<Result<Vec<_>, _>>()?;
        let base = pick(50.0)?;
        let boot = (0..EVAL_MOD_LEVELS + CTS_LEVELS)
            .map(|_| pick(LOG_BOOT_SCALE))
            .collect::<Result<Vec<_>, _>>()?;
        let top = STC_LEVELS + RESIDUAL_LEVELS;
        let mut scales = vec![LOG_SCALE.exp2(); top + 1];
        let mut residual = vec![0u64; top];
        for l in (1..=top).rev() {
            let wanted = scales[l] * scales[l] / LOG_SCALE.exp2();
            residual[l - 1] = pick(wanted.log2())?;
            scales[l - 1] = scales[l] * scales[l] / residual[l - 1] as f64;
        }
        let q: Vec<u64> = std::iter::once(base).chain(residual).chain(boot).collect();
        let rlwe = Parameters::new(ParametersLiteral {
            name: name.into(),
            log_n,
            q,
            p,
            digit_limbs: SPECIAL,
        })?;
        Ok(Self {
            rlwe,
            scales,
            boot_scale: LOG_BOOT_SCALE.exp2(),
        })
    }

    /// The RLWE parameters.
    pub fn rlwe(&self) -> &Parameters {
        &self.rlwe
    }
    /// Slots of a ciphertext: N/2.
    pub fn slots(&self) -> usize {
        self.rlwe.n() / 2
    }
    /// Native level of a freshly bootstrapped ciphertext.
    pub fn top_level(&self) -> usize {
        STC_LEVELS + RESIDUAL_LEVELS
    }
    /// Native level at which bootstrapping starts.
    pub fn bottom_level(&self) -> usize {
        STC_LEVELS
    }
    /// User level: rescalings left before a bootstrap is needed.
    pub fn user_level(&self, native: usize) -> i64 {
        native as i64 - STC_LEVELS as i64
    }
    /// Canonical scale at a native level up to [`Self::top_level`].
    pub fn scale(&self, native: usize) -> f64 {
        self.scales[native]
    }
    /// Scale inside the modular reduction.
    pub fn boot_scale(&self) -> f64 {
        self.boot_scale
    }
    /// Prime of native level `l` as a double (exact: below 2^50).
    pub fn prime(&self, l: usize) -> f64 {
        self.rlwe.q()[l] as f64
    }
    /// Scale of the modular reduction's result before it is read as a message: three squarings and a product after the
    /// polynomial's `boot_scale`.
    pub fn eval_mod_output_scale(&self) -> f64 {
        let top = self.top_level();
        (0..=DOUBLINGS)
            .rev()
            .fold(self.boot_scale, |s, i| s * s / self.prime(top + i + 1))
    }
    /// Scale of the coefficients that enter mod-raise: chosen so that bootstrapping ends at `scale(top_level())`.
    /// See `bootstrap::eval_mod` for the factor 24*pi.
    pub fn coefficient_scale(&self) -> f64 {
        self.prime(0) * self.scale(self.top_level()) / (24.0 * PI * self.eval_mod_output_scale())
    }
    /// log2(q0 / coefficient scale): how far messages stay below the base prime.
    pub fn log_message_ratio(&self) -> f64 {
        (self.prime(0) / self.coefficient_scale()).log2()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_full_preset_is_secure_and_its_scales_stay_put() {
        let p = CkksParameters::preset("n16").unwrap();
        assert!(p.rlwe().log_qp() <= 1747.0);
        assert_eq!(p.rlwe().security_bits(), 128);
        for l in 0..=p.top_level() {
            assert!((p.scale(l).log2() - LOG_SCALE).abs() < 0.01);
        }
        assert!((7.0..8.0).contains(&p.log_message_ratio()));
    }

    #[test]
    fn unknown_presets_are_refused() {
        assert!(CkksParameters::preset("n15").is_err());
        assert!(CkksParameters::preset("insecure_toy_n99").is_err());
    }
}
