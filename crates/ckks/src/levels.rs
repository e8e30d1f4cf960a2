//! Levels and scales: rescaling, and bringing ciphertexts to one level at exactly one scale.
use crate::backend::{Backend, CiphertextOf as Of};
use crate::{Ciphertext, CkksError, Evaluator};
use num_complex::Complex64;
use std::borrow::Cow;
use tacita_rlwe::ciphertext::Polynomial;

/// Two ciphertexts of one level and scale, copied only where they had to change.
pub type Operands<'a, P> = (Cow<'a, Ciphertext<P>>, Cow<'a, Ciphertext<P>>);

/// Relative difference of a scale from the canonical one that is rounding: 2^-36.
const SETTLED: f64 = 1.0 / (1u64 << 36) as f64;

/// Integers from this on round a scale by no more than is settled afterwards; a scale far above another one
/// is brought down in two steps.
const EXACT_FACTOR: f64 = (1u64 << 36) as f64;

/// Integers below this are exact in a double with room for the product by a scale.
const MAX_FACTOR: f64 = (1u64 << 62) as f64;

impl<B: Backend> Evaluator<B> {
    /// Divides by the top prime. One level. Cost: 2 inverse and 2(L-1) forward NTTs.
    ///
    /// # Errors
    /// [`CkksError::Level`] at native level 0.
    pub fn rescale(&self, a: Of<B>) -> Result<Of<B>, CkksError> {
        self.need_level(&a, "rescale", 1)?;
        let scale = self.settled(a.level() - 1, a.scale / self.params().prime(a.level()));
        let polys = a.polys.into_iter().map(|p| self.backend().rescale(p));
        let polys = polys.collect::<Result<_, _>>()?;
        Ok(Ciphertext { polys, scale })
    }

    /// The canonical scale of native level `level` when `scale` is within 2^-36 of it: what rounding left of
    /// a difference would double with every later product, and 2^-36 of a value is far below its noise. Else
    /// `scale`.
    pub(crate) fn settled(&self, level: usize, scale: f64) -> f64 {
        if level > self.params().top_level() {
            return scale;
        }
        let canonical = self.params().scale(level);
        if (scale / canonical - 1.0).abs() < SETTLED {
            canonical
        } else {
            scale
        }
    }

    /// Brings `a` to a lower native level at exactly `scale` (to 2^-38): one multiplication by a constant and
    /// a rescale, two of both where its scale is far above, or a plain truncation when the scale fits.
    ///
    /// # Errors
    /// [`CkksError::Shape`] when `a` is below `level`, or at it with another scale, or when the scales are so
    /// far apart that no integer factor brings one to the other.
    pub fn align_to(&self, a: &Of<B>, level: usize, scale: f64) -> Result<Of<B>, CkksError> {
        if fits(a, level, scale) {
            return self.truncated(a, level + 1);
        }
        let factor = (scale * self.params().prime((level + 1).min(a.level())) / a.scale).round();
        if a.level() <= level || !(1.0..MAX_FACTOR).contains(&factor) {
            return Err(CkksError::Shape {
                op: "align",
                detail: format!(
                    "cannot bring level {} at log2 scale {:.6} to level {level} at {:.6}",
                    a.level(),
                    a.scale.log2(),
                    scale.log2()
                ),
            });
        }
        if factor < EXACT_FACTOR && a.level() > level + 1 {
            let near = (scale * self.params().prime(level + 2) / a.scale).round();
            let lower = self.multiplied(a, level + 1, near)?;
            return self.align_to(&lower, level, scale);
        }
        self.multiplied(a, level, factor)
    }

    /// The limbs of native level `level + 1` times an integer, rescaled.
    fn multiplied(&self, a: &Of<B>, level: usize, factor: f64) -> Result<Of<B>, CkksError> {
        let x = self.truncated(a, level + 2)?;
        let mut x = self.mul_halves(x, Complex64::new(1.0, 0.0), factor)?;
        x.scale *= factor;
        self.rescale(x)
    }

    /// As [`Self::align_to`]; what is there already is not copied.
    ///
    /// # Errors
    /// As [`Self::align_to`].
    pub fn aligned<'a>(&self, a: &'a Of<B>, level: usize, scale: f64) -> Result<Cow<'a, Of<B>>, CkksError> {
        if a.level() == level && fits(a, level, scale) {
            return Ok(Cow::Borrowed(a));
        }
        self.align_to(a, level, scale).map(Cow::Owned)
    }

    /// Drops to native level `level` at the canonical scale there.
    ///
    /// # Errors
    /// As [`Self::align_to`].
    pub fn drop_to(&self, a: &Of<B>, level: usize) -> Result<Of<B>, CkksError> {
        self.align_to(a, level, self.params().scale(level))
    }

    /// Both operands at the lower of their levels.
    ///
    /// # Errors
    /// As [`Self::align_to`].
    pub fn align<'a>(&self, a: &'a Of<B>, b: &'a Of<B>) -> Result<Operands<'a, B::Poly>, CkksError> {
        let level = a.level().min(b.level());
        let scale = if a.level() == level { a.scale } else { b.scale };
        Ok((self.aligned(a, level, scale)?, self.aligned(b, level, scale)?))
    }
}

/// Does `a` serve at `level` and `scale` as it is, but for its limbs above?
pub(crate) fn fits<P: Polynomial>(a: &Ciphertext<P>, level: usize, scale: f64) -> bool {
    // canonical scales of two levels can agree to ten digits on small rings; a difference doubles with every
    // product, so only rounding noise may pass when there is a limb to correct it with
    let near = if a.level() > level { 1e-13 } else { 1e-10 };
    (a.scale / scale - 1.0).abs() < near && a.level() >= level
}
