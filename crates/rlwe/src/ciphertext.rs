//! Ciphertexts: c0 + c1*s (+ c2*s^2) = scale * message, in NTT form.
use crate::{Parameters, RlweError, RnsPoly};

/// A polynomial modulo a product of primes, wherever its residues lie.
pub trait Polynomial {
    /// Number of ciphertext limbs.
    fn q_len(&self) -> usize;
    /// Number of special-prime limbs.
    fn p_len(&self) -> usize;
}

impl Polynomial for RnsPoly {
    fn q_len(&self) -> usize {
        self.q_len
    }
    fn p_len(&self) -> usize {
        self.p_len()
    }
}

/// A ciphertext of degree 1 (or 2 before relinearisation). `scale` is exact: it changes only with the
/// operation that changes it, never by assignment.
#[derive(Clone)]
pub struct Ciphertext<P = RnsPoly> {
    /// The polynomials, lowest power of the secret first.
    pub polys: Vec<P>,
    /// Scale of the message.
    pub scale: f64,
}

impl Ciphertext {
    /// Drops limbs down to `limbs`; the scale is unchanged.
    pub fn truncate(&mut self, limbs: usize) {
        self.polys.iter_mut().for_each(|p| p.truncate(limbs));
    }
    /// A copy with `limbs` limbs.
    pub fn truncated(&self, limbs: usize) -> Self {
        Self {
            polys: self.polys.iter().map(|p| p.truncated(limbs)).collect(),
            scale: self.scale,
        }
    }
}

impl<P: Polynomial> Ciphertext<P> {
    /// Level: number of limbs minus one.
    pub fn level(&self) -> usize {
        self.limbs() - 1
    }
    /// Number of limbs.
    pub fn limbs(&self) -> usize {
        self.polys[0].q_len()
    }
    /// Bytes held in memory.
    pub fn bytes(&self, params: &Parameters) -> usize {
        self.polys.len() * self.limbs() * params.n() * 8
    }
    /// Fails unless both operands have the same number of limbs and scales that agree to 2^-30.
    ///
    /// # Errors
    /// [`RlweError::Shape`] naming both values.
    pub fn check_aligned(&self, other: &Self, op: &'static str) -> Result<(), RlweError> {
        if self.limbs() != other.limbs() || !scales_agree(self.scale, other.scale) {
            return Err(RlweError::Shape {
                op,
                detail: format!(
                    "levels {} and {}, log2 scales {:.6} and {:.6} do not match; hint: align the operands \
                    first",
                    self.level(),
                    other.level(),
                    self.scale.log2(),
                    other.scale.log2()
                ),
            });
        }
        Ok(())
    }
}

/// Whether two scales agree to 2^-30. No if one of them, or their ratio, is not a number.
pub fn scales_agree(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() <= 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_that_are_no_numbers_agree_with_nothing() {
        assert!(scales_agree(1e10, 1e10 * (1.0 + 1e-10)));
        for (a, b) in [
            (1.0, 1.1),
            (0.0, 0.0),
            (f64::NAN, f64::NAN),
            (f64::NAN, 1.0),
            (1.0, 0.0),
        ] {
            assert!(!scales_agree(a, b) && !scales_agree(b, a), "{a} {b}");
        }
        assert!(!scales_agree(f64::INFINITY, f64::INFINITY));
    }
}
