//! CKKS presets: a chain with bootstrapping for every ring degree, and shorter ones without ("leveled").
//!
//! With bootstrapping (`n16`, `insecure_toy_n8` ...):
//!
//! | part (bottom first) | limbs | bits | used by |
//! |---|---|---|---|
//! | base | 1 | 44 | mod-raise |
//! | slots-to-coefficients | 2 | 41 | bootstrapping, before mod-raise |
//! | residual | 16 | 35, twelve of 38, 46, 50, 50 | the user's circuit |
//! | modular reduction | 9 | 49.3 | bootstrapping |
//! | coefficients-to-slots | 2 | 41.0, 44.0 | bootstrapping |
//! | special | 9 | 48.86 | key switching |
//!
//! The scale falls: the result of a bootstrap, which is as precise as the scale on which it lands, has 2^48;
//! primes of 50, 50 and 46 bits lead to 2^46, 2^42 and 2^38, where primes of 38 bits keep it; the last one
//! lifts it to the 2^41 of slots-to-coefficients. A digit of key switching takes limbs as long as its product
//! is 5 bits below that of the special primes: 11, 10 and 9 of them. See docs/decisions/0079.
//!
//! Leveled, 128-bit. The base prime leaves decrypted values 8 or 9 bits above the scale (sign included); a
//! rescaling adds an error of sqrt(N (1 + 2N/3) / 12) / scale to each slot, the last column in log2:
//!
//! | preset | log2 scale | depth | special | digits | log2 QP | limit | error |
//! |---|---|---|---|---|---|---|---|
//! | `n13_leveled` | 38 | 3 | 1 | 4 | 212.0 | 214 | -27.1 |
//! | `n14_leveled` | 40 | 7 | 2 | 4 | 429.0 | 430 | -28.1 |
//! | `n15_leveled` | 39 | 17 | 3 | 6 | 862.0 | 868 | -26.1 |
//! | `n16_leveled` | 41 | 34 | 6 | 6 | 1744.0 | 1747 | -27.1 |
//! | `n17_leveled` | 41 | 70 | 11 | 7 | 3470.0 | 3523 | -26.1 |
//!
//! Fewer special primes would buy a level for two or three digits more, more of them cost a level each.
//! `insecure_toy_leveled_n9` ... `n12` have the chain of `n15_leveled` on small rings.
//!
//! Every ciphertext at native level l up to the top residual level has the canonical scale `scales[l]`,
//! defined by `scales[l-1]` = `scales[l]`^2 / q_l; the primes are chosen so that these stay near the scale of
//! the preset (reduced-error CKKS, Kim et al., ePrint 2020/1118). The scale that bootstrapping returns is
//! `scales[top]` *by construction*: the slots-to-coefficients matrices carry the factor that makes it so (see
//! `bootstrap`).
use crate::sparse::{self, RaisedRange};
use crate::CkksError;
use std::f64::consts::PI;
use tacita_ring::ntt_primes;
use tacita_rlwe::{Parameters, ParametersLiteral, RlweError};

/// log2 of the primes of coefficients-to-slots, the lowest first. A diagonal of period p is rounded to
/// sqrt(2 p / 12) / scale, and slots shrink by 2^-0.5 a butterfly: these are errors of 2^-26.4 of the
/// message.
const CTS_BITS: [f64; CTS_LEVELS] = [41.0, 44.0];

/// Limbs of slots-to-coefficients.
pub const STC_LEVELS: usize = 2;
/// Levels of the modular reduction: polynomial 5, squarings 3, sine correction 1.
pub const EVAL_MOD_LEVELS: usize = 9;
/// Limbs of coefficients-to-slots, whose first factor takes none: see `bootstrap`.
pub const CTS_LEVELS: usize = 2;
/// log2 of the scale inside bootstrapping.
const LOG_BOOT_SCALE: f64 = 49.3;
/// Bits of the longest primes.
const LONGEST: f64 = 50.0;
/// Bound on |message + q0*I| / q0 after mod-raise: (32 + 1) / 2 for a sparse secret of weight 32, plus the
/// message.
pub const MOD_RANGE: f64 = 17.0;
/// Squarings after the polynomial of the modular reduction.
pub const DOUBLINGS: usize = 3;

/// What a chain of primes is made of.
#[derive(Clone, Copy, Debug)]
struct Chain {
    base_bits: f64,
    log_scale: f64,
    /// log2 of the scale to which it falls from the top down; `log_scale` where it stays.
    log_floor: f64,
    /// log2 of the scale of slots-to-coefficients, whose errors are a bootstrap's.
    log_bottom: f64,
    /// Limbs under the user's circuit.
    bottom: usize,
    /// Limbs of the user's circuit.
    levels: usize,
    /// Limbs above it.
    boot: usize,
    special_bits: f64,
    /// Special primes.
    special: usize,
    /// Limbs per key-switching digit; none: as many as its bits allow.
    digit_limbs: usize,
}

const BOOTSTRAPPED: Chain = Chain {
    base_bits: 44.0,
    log_scale: 48.0,
    log_floor: 38.0,
    log_bottom: 41.0,
    special_bits: 48.86,
    bottom: STC_LEVELS,
    levels: 16,
    boot: EVAL_MOD_LEVELS + CTS_LEVELS,
    special: 9,
    digit_limbs: 0,
};

impl Chain {
    /// The longest chain without bootstrapping that 128 bits of security allow at N = 2^log_n.
    fn leveled(log_n: u32) -> Option<Self> {
        let (base_bits, log_scale, levels, special) = match log_n {
            13 => (48.0, 38.0, 3, 1),
            14 => (49.0, 40.0, 7, 2),
            15 => (49.0, 39.0, 17, 3),
            16 => (50.0, 41.0, 34, 6),
            17 => (50.0, 41.0, 70, 11),
            _ => return None,
        };
        Some(Self {
            base_bits,
            log_scale,
            log_floor: log_scale,
            log_bottom: log_scale,
            special_bits: LONGEST,
            bottom: 0,
            levels,
            boot: 0,
            special,
            digit_limbs: special,
        })
    }

    /// (log2 N, chain) of a preset.
    fn named(name: &str) -> Option<(u32, Self)> {
        let degree = |digits: &str, allowed: std::ops::RangeInclusive<u32>| {
            digits.parse().ok().filter(|log_n| allowed.contains(log_n))
        };
        if name == "n16" {
            return Some((16, BOOTSTRAPPED));
        }
        if let Some(digits) = name.strip_prefix("insecure_toy_leveled_n") {
            return degree(digits, 9..=12).zip(Self::leveled(15));
        }
        if let Some(digits) = name.strip_prefix("insecure_toy_n") {
            return degree(digits, 8..=16).map(|log_n| (log_n, BOOTSTRAPPED));
        }
        let log_n = degree(name.strip_prefix('n')?.strip_suffix("_leveled")?, 13..=17)?;
        Some((log_n, Self::leveled(log_n)?))
    }
}

/// Parameters of CKKS, with or without bootstrapping.
#[derive(Clone, Debug)]
pub struct CkksParameters {
    rlwe: Parameters,
    chain: Chain,
    scales: Vec<f64>,
}

impl CkksParameters {
    /// A preset by name: `n16` (128-bit, bootstrapping), `n13_leveled` ... `n17_leveled` (128-bit, none), or
    /// for tests `insecure_toy_n8` ... `insecure_toy_n15` and `insecure_toy_leveled_n9` ...
    /// `insecure_toy_leveled_n12`.
    ///
    /// # Errors
    /// [`CkksError::Shape`] for an unknown name.
    pub fn preset(name: &str) -> Result<Self, CkksError> {
        let (log_n, chain) = Chain::named(name).ok_or_else(|| CkksError::Shape {
            op: "parameters",
            detail: format!(
                "unknown preset {name:?}; hint: use \"n16\", \"n13_leveled\"..\"n17_leveled\" (128-bit), \
                \"insecure_toy_n8\"..\"insecure_toy_n15\" or \"insecure_toy_leveled_n9\"..\
                \"insecure_toy_leveled_n12\""
            ),
        })?;
        Self::build(name, log_n, chain)
    }

    fn build(name: &str, log_n: u32, chain: Chain) -> Result<Self, CkksError> {
        let mut used: Vec<u64> = Vec::new();
        let mut pick = |bits: f64| -> Result<u64, CkksError> {
            let prime = ntt_primes(bits, log_n + 1, 1, &used)?[0];
            used.push(prime);
            Ok(prime)
        };
        let p = (0..chain.special)
            .map(|_| pick(chain.special_bits))
            .collect::<Result<Vec<_>, _>>()?;
        let base = pick(chain.base_bits)?;
        let boot_bits = |i: usize| match i.checked_sub(EVAL_MOD_LEVELS) {
            Some(i) => CTS_BITS[i],
            None => LOG_BOOT_SCALE,
        };
        let boot = (0..chain.boot)
            .map(|i| pick(boot_bits(i)))
            .collect::<Result<Vec<_>, _>>()?;
        let (top, scale) = (chain.bottom + chain.levels, chain.log_scale.exp2());
        let mut scales = vec![scale; top + 1];
        let mut residual = vec![0u64; top];
        for l in (1..=top).rev() {
            let floor = if l > chain.bottom + 1 {
                chain.log_floor
            } else {
                chain.log_bottom
            };
            residual[l - 1] = pick((2.0 * scales[l].log2() - floor).min(LONGEST))?;
            scales[l - 1] = scales[l] * scales[l] / residual[l - 1] as f64;
        }
        let q: Vec<u64> = std::iter::once(base).chain(residual).chain(boot).collect();
        let literal = ParametersLiteral {
            name: name.into(),
            log_n,
            q,
            p,
            digit_limbs: chain.digit_limbs,
        };
        if chain.boot > 0 {
            sparse::check_modulus(&literal)?;
        }
        let rlwe = Parameters::new(literal)?;
        let built = Self { rlwe, chain, scales };
        if chain.boot > 0 {
            built.raised_range().check()?;
        }
        Ok(built)
    }

    /// The chain for what is bootstrapped and ends `depth` levels below it, at native level `out`: without
    /// the limbs between. Keys of the whole chain serve, and what ends there has the same limbs in both.
    ///
    /// # Errors
    /// Those of [`Parameters::without`], of a gap that ends before it begins, too.
    pub(crate) fn ending_at(&self, out: usize, depth: usize) -> Result<Self, RlweError> {
        let end = (self.top_level() + 2).saturating_sub(depth);
        let gap = out + 1..end;
        let mut chain = self.chain;
        chain.levels = (out + depth).saturating_sub(1 + chain.bottom);
        let (below, above) = (&self.scales[..=out], self.scales.get(end..).unwrap_or(&[]));
        Ok(Self {
            rlwe: self.rlwe.without(gap)?,
            chain,
            scales: [below, above].concat(),
        })
    }

    /// The same with [`Parameters::with_joined_digits`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn with_joined_digits(&self) -> Result<Self, RlweError> {
        Ok(Self {
            rlwe: self.rlwe.with_joined_digits()?,
            ..self.clone()
        })
    }

    /// log2 of the ciphertext modulus up to which a refresh through a function of `depth` levels is raised,
    /// whose results end at native level `out`: what its key switches and transforms are paid for.
    ///
    /// # Errors
    /// [`RlweError::Parameters`] where the chain has no such levels.
    pub fn log_q_ending_at(&self, out: usize, depth: usize) -> Result<f64, RlweError> {
        let primes = self.ending_at(out, depth)?.rlwe;
        Ok(primes.q().iter().map(|&p| (p as f64).log2()).sum())
    }

    /// The RLWE parameters.
    pub fn rlwe(&self) -> &Parameters {
        &self.rlwe
    }
    /// Slots of a ciphertext: N/2.
    pub fn slots(&self) -> usize {
        self.rlwe.n() / 2
    }
    /// Whether the chain has the primes of bootstrapping. Without them there is no boot scale, and a circuit
    /// ends with the levels that its inputs had.
    pub fn can_bootstrap(&self) -> bool {
        self.chain.boot > 0
    }
    /// Native level of a freshly bootstrapped ciphertext; without bootstrapping the highest of all.
    pub fn top_level(&self) -> usize {
        self.chain.bottom + self.chain.levels
    }
    /// Native level at which bootstrapping starts; without it zero.
    pub fn bottom_level(&self) -> usize {
        self.chain.bottom
    }
    /// User level: rescalings left before a bootstrap is needed.
    pub fn user_level(&self, native: usize) -> i64 {
        native as i64 - self.chain.bottom as i64
    }
    /// The native level of a user level.
    ///
    /// # Errors
    /// [`CkksError::Shape`], naming the operation, for one above the top.
    pub fn native_level(&self, op: &'static str, level: usize) -> Result<usize, CkksError> {
        let native = level.checked_add(self.bottom_level());
        native
            .filter(|&native| native <= self.top_level())
            .ok_or_else(|| CkksError::Shape {
                op,
                detail: format!(
                    "level {level} is above the top level {}; hint: levels are 0 to that",
                    self.user_level(self.top_level())
                ),
            })
    }
    /// Canonical scale at a native level up to [`Self::top_level`].
    pub fn scale(&self, native: usize) -> f64 {
        self.scales[native]
    }
    /// Diagonals of the first factor of coefficients-to-slots: a third of the butterflies, those of the
    /// largest strides, which wrap. None without bootstrapping.
    pub fn raise_diagonals(&self) -> u64 {
        let butterflies = self.slots().trailing_zeros().div_ceil(CTS_LEVELS as u32 + 1);
        u64::from(self.can_bootstrap()) << butterflies
    }
    /// What each factor of coefficients-to-slots multiplies the scale by: equal steps from 17*q0 to the scale
    /// of the modular reduction.
    pub(crate) fn cts_step(&self) -> f64 {
        (self.boot_scale() / (MOD_RANGE * self.prime(0))).powf(1.0 / (CTS_LEVELS + 1) as f64)
    }
    /// Scale after the raise of the modulus and the first factor.
    pub(crate) fn raised_scale(&self) -> f64 {
        MOD_RANGE * self.prime(0) * self.cts_step()
    }
    /// Scale inside the modular reduction.
    pub fn boot_scale(&self) -> f64 {
        LOG_BOOT_SCALE.exp2()
    }
    /// Prime of native level `l` as a double (exact: below 2^50).
    pub fn prime(&self, l: usize) -> f64 {
        self.rlwe.q()[l] as f64
    }
    /// Scale of the modular reduction's result before it is read as a message: three squarings and a product
    /// after the polynomial's `boot_scale`. Panics without bootstrapping.
    pub fn eval_mod_output_scale(&self) -> f64 {
        let top = self.top_level();
        (0..=DOUBLINGS)
            .rev()
            .fold(self.boot_scale(), |s, i| s * s / self.prime(top + i + 1))
    }
    /// Scale of the coefficients that enter mod-raise: chosen so that bootstrapping ends at
    /// `scale(top_level())`. See `bootstrap::eval_mod` for the factor 24*pi.
    pub fn coefficient_scale(&self) -> f64 {
        self.prime(0) * self.scale(self.top_level()) / (24.0 * PI * self.eval_mod_output_scale())
    }
    /// What decides whether a bootstrap fails. Panics without bootstrapping.
    pub fn raised_range(&self) -> RaisedRange {
        RaisedRange::of(&self.rlwe, (-self.log_message_ratio()).exp2())
    }
    /// log2 of the probability that a bootstrap fails: see [`RaisedRange::failure_log2`]. None without
    /// bootstrapping.
    pub fn failure_log2(&self) -> Option<f64> {
        self.can_bootstrap().then(|| self.raised_range().failure_log2())
    }
    /// log2(q0 / coefficient scale): how far messages stay below the base prime.
    pub fn log_message_ratio(&self) -> f64 {
        (self.prime(0) / self.coefficient_scale()).log2()
    }
}

#[cfg(test)]
mod tests;
