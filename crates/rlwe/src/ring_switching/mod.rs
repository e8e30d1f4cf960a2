//! Ring switching: one ciphertext of degree N to N/n ciphertexts of degree n, and back (Gentry, Halevi,
//! Peikert, Smart, ePrint 2012/240).
//!
//! With r = N/n, Y = X^r generates a ring of degree n, and every polynomial is c(X) = sum over i < r of
//! X^i c_i(Y): c_i has the coefficients i, i + r, i + 2r ... of c. A ciphertext (b, a) under a secret *of the
//! subring*, s'(X^r), falls apart in the same way, since multiplication by s' does not mix the c_i:
//! (b_i, a_i) is a ciphertext of coefficients i, i + r ... under s'. So:
//!
//! * down: key switching from s to s'(X^r), then a copy of coefficients ([`RingPair::split`]);
//! * up: the copy backwards ([`RingPair::join`]), then key switching from s'(X^r) to s.
//!
//! Example: N = 65536 and n = 8192 make 8 small ciphertexts; coefficient 8 k + i of the message becomes
//! coefficient k of ciphertext i.
//!
//! **Security.** A sample under s'(X^r) in the large ring *is* r samples under s' in the small one, so the
//! small secret is as hard to find as degree n and the largest modulus it is seen under allow. Both rings of
//! a [`RingPair`] have the same primes, those of the key to the small secret included, and its parameters
//! pass [`crate::security`] at degree n or are refused.
mod keys;
mod polys;

pub use keys::RingSwitchingKeys;

use crate::{Ciphertext, Parameters, ParametersLiteral, RlweError, SecretKey};
use zeroize::Zeroize;

/// Limbs of what comes back: the small ciphertexts are rescaled to the lowest prime first, so that one digit
/// and one special prime make the key.
pub const BACK_LIMBS: usize = 1;

/// A ring and a subring with the same primes: some ciphertext primes of larger parameters and one special
/// prime, one prime a digit.
pub struct RingPair {
    large: Parameters,
    small: Parameters,
}

impl RingPair {
    /// The lowest `limbs` ciphertext primes and the first special prime of `whole`, at its degree and at
    /// 2^log_small. The pair of a preset below 128 bits is named like it, and called insecure.
    ///
    /// # Errors
    /// [`RlweError::Insecure`] when the small ring does not keep 128 bits under these primes;
    /// [`RlweError::Parameters`] for a degree that is not smaller, or too few primes.
    pub fn new(whole: &Parameters, log_small: u32, limbs: usize) -> Result<Self, RlweError> {
        if log_small >= whole.log_n() || limbs == 0 || limbs > whole.q_len() || whole.p_len() == 0 {
            return Err(RlweError::Parameters(format!(
                "ring switching from N = 2^{} to 2^{log_small} with {limbs} of {} primes and {} special \
                 ones; hint: a smaller ring, and a preset with key switching",
                whole.log_n(),
                whole.q_len(),
                whole.p_len()
            )));
        }
        let ring = |log_n: u32| {
            Parameters::new(ParametersLiteral {
                name: format!("{}_subring_n{log_small}", whole.name()),
                log_n,
                q: whole.q()[..limbs].to_vec(),
                p: whole.p()[..1].to_vec(),
                digit_limbs: 1,
            })
        };
        Ok(Self {
            large: ring(whole.log_n())?,
            small: ring(log_small)?,
        })
    }

    /// The ring of degree N with the primes of the pair.
    pub fn large(&self) -> &Parameters {
        &self.large
    }
    /// The ring of degree n.
    pub fn small(&self) -> &Parameters {
        &self.small
    }
    /// r = N/n.
    pub fn ratio(&self) -> usize {
        self.large.n() / self.small.n()
    }

    /// A secret of the parameters that the pair was made from, over the pair's primes.
    pub fn large_secret(&self, secret: &SecretKey) -> SecretKey {
        SecretKey::from_coefficients(&self.large, secret.coefficients().to_vec())
    }

    /// s'(X^r): the small secret as one of the large ring.
    pub fn embedded_secret(&self, small: &SecretKey) -> SecretKey {
        let mut coefficients = vec![0i8; self.large.n()];
        let places = coefficients.iter_mut().step_by(self.ratio());
        places.zip(small.coefficients()).for_each(|(to, &c)| *to = c);
        let embedded = SecretKey::from_coefficients(&self.large, coefficients.clone());
        coefficients.zeroize();
        embedded
    }

    /// The r small ciphertexts of `ct`, which has as many limbs as the pair has primes.
    ///
    /// Cost, for L limbs: a key switch of L digits and one special prime, then 2 L inverse NTTs of degree N
    /// and 2 L r forward ones of degree n. Error: that of the key switch, about sigma sqrt(L N / 12) and the
    /// rounding sqrt(2n/3 / 12).
    ///
    /// # Errors
    /// [`RlweError::Shape`] for another number of limbs; a key of another pair.
    pub fn descend(&self, keys: &RingSwitchingKeys, ct: &Ciphertext) -> Result<Vec<Ciphertext>, RlweError> {
        need_limbs("ring switching", ct, self.large.q_len())?;
        let polys = keys.switch_down(&self.large, ct)?;
        let [b, a] = polys.map(|poly| self.split(&poly));
        let pair = |(b, a)| Ciphertext {
            polys: vec![b, a],
            scale: ct.scale,
        };
        Ok(b.into_iter().zip(a).map(pair).collect())
    }

    /// The large ciphertext of r small ones of one limb and one scale.
    ///
    /// Cost: 2 r inverse NTTs of degree n, 1 forward one of degree N, a key switch of one digit at one limb.
    /// Error: about sigma sqrt(N / 12) and the rounding sqrt(2N/3 / 12).
    ///
    /// # Errors
    /// [`RlweError::Shape`] for another number of ciphertexts or limbs, or scales that differ.
    pub fn ascend(&self, keys: &RingSwitchingKeys, parts: &[Ciphertext]) -> Result<Ciphertext, RlweError> {
        let op = "ring switching back";
        let Some(first) = parts.first().filter(|_| parts.len() == self.ratio()) else {
            let detail = format!("{} ciphertexts, where {} make one", parts.len(), self.ratio());
            return Err(RlweError::Shape { op, detail });
        };
        for part in parts {
            need_limbs(op, part, BACK_LIMBS)?;
            first.check_aligned(part, op)?;
        }
        Ok(Ciphertext {
            polys: keys.switch_up(self, parts),
            scale: first.scale,
        })
    }
}

fn need_limbs(op: &'static str, ct: &Ciphertext, limbs: usize) -> Result<(), RlweError> {
    if ct.limbs() == limbs && ct.polys.len() == 2 {
        return Ok(());
    }
    let detail = format!(
        "a ciphertext of {} limbs and degree {}, where {limbs} and 1 are wanted",
        ct.limbs(),
        ct.polys.len() - 1
    );
    Err(RlweError::Shape { op, detail })
}

#[cfg(test)]
mod tests;
