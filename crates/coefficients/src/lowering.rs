//! Slots to coefficients, as products take them: the first step, on any backend.
use crate::arrangement::{input_level, LIMBS};
use tacita_ckks::backend::{Backend, CiphertextOf as Of};
use tacita_ckks::bootstrap::dft;
use tacita_ckks::linear::EncodedTransform;
use tacita_ckks::params::STC_LEVELS;
use tacita_ckks::{CkksError, Evaluator, Processor};

/// Slots-to-coefficients with one limb more than a bootstrap has, every group leaving the scale as it is.
pub struct ToCoefficients<B: Backend = Processor>(Vec<EncodedTransform<B::Vectors>>);

impl<B: Backend> ToCoefficients<B> {
    /// About 0.4 GB at N = 65536 (256 full-length diagonals at three limbs).
    ///
    /// # Errors
    /// Those of encoding.
    pub fn new(e: &Evaluator<B>) -> Result<Self, CkksError> {
        let (p, top) = (e.params(), STC_LEVELS + LIMBS);
        let encode = |i, t| e.encode_transform(&t, top - i, p.prime(top - i - 1), false);
        Ok(Self(dft::slots_to_coefficients(e.encoder(), p.slots(), encode)?))
    }

    /// Slots to coefficients, two limbs left. One transform at four limbs, one at three.
    ///
    /// # Errors
    /// [`CkksError::Level`] below user level 1; missing keys: see [`crate::required_keys`].
    pub fn apply(&self, e: &Evaluator<B>, ct: &Of<B>) -> Result<Of<B>, CkksError> {
        let (p, needed) = (e.params(), input_level(e.params()));
        if ct.level() < needed {
            return Err(CkksError::Level {
                op: "coefficient product",
                level: p.user_level(ct.level()),
                needed: LIMBS - 1,
            });
        }
        let mut x = e.drop_to(ct, needed)?;
        for t in &self.0 {
            x = e.apply_transform(&[x], t)?.remove(0);
        }
        Ok(x)
    }
}
