//! A refresh through a function that ends low: the modulus is raised no further than the result needs.
//!
//! What a product of coefficients takes is one level above the bottom. A refresh that returns 10 levels for
//! it throws nine of them away, and they cost the most: a key switch at L limbs takes ceil(L/7) (L + 7)
//! transforms. Through GELU by 10 harmonics (four levels) to user level 1 the chain is
//!
//! | step | limbs, as ever | limbs here |
//! |---|---|---|
//! | mod-raise, coefficients-to-slots | 28 to 25 | 19 to 16 |
//! | series, three squarings | 25 to 17 | 16 to 8 |
//! | polynomial in z | 17 to 13 | 8 to 4 |
//!
//! Primes below the residual top are of 48 bits, so scales are the canonical ones there: 2^48 in place of
//! 2^49.3, z loses 1.3 bits. Above it every level has the scale of which the square is the one below.
use super::{circle, Harmonics};
use crate::bootstrap::raise::Raise;
use crate::bootstrap::{dft, eval_mod, of_parts, Content, FACTOR};
use crate::linear::EncodedTransform;
use crate::params::{CkksParameters, CTS_LEVELS, DOUBLINGS};
use crate::{polynomial, Ciphertext, CkksError, Evaluator};
use num_complex::Complex64;

/// Encoded matrices of a refresh through functions of one depth to one level.
pub struct ShallowRefresh {
    raise: Raise,
    cts: Vec<EncodedTransform>,
    circle: Vec<Complex64>,
    levels: Levels,
}

/// Native levels of a refresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Levels {
    /// Of the raised ciphertext.
    raised: usize,
    /// Of the slots t / 17.
    slots: usize,
    /// Of z.
    phase: usize,
    /// Of the result.
    out: usize,
}

impl Levels {
    fn new(p: &CkksParameters, depth: usize, out: usize) -> Result<Self, CkksError> {
        let phase = out + depth;
        let slots = phase + DOUBLINGS + polynomial::depth(eval_mod::DEGREE);
        let raised = slots + CTS_LEVELS;
        if p.can_bootstrap() && raised < p.rlwe().q_len() {
            return Ok(Self {
                raised,
                slots,
                phase,
                out,
            });
        }
        let (name, limbs) = (p.rlwe().name(), p.rlwe().q_len());
        Err(CkksError::Shape {
            op: "refresh",
            detail: format!(
                "{depth} levels that end at native level {out} take a bootstrap of {} limbs, preset {name} \
                 has {limbs}; hint: end lower",
                raised + 1
            ),
        })
    }

    fn depth(&self) -> usize {
        self.phase - self.out
    }
}

/// Canonical up to the residual top; above it the square is the scale one level below.
fn scale(p: &CkksParameters, level: usize) -> f64 {
    let top = p.top_level();
    (top + 1..=level).fold(p.scale(level.min(top)), |s, l| (s * p.prime(l)).sqrt())
}

impl ShallowRefresh {
    /// For functions of `depth` levels ([`Harmonics::depth`]) whose results end at native level `out`.
    /// Encodes coefficients-to-slots: about 0.5 GB at N = 2^16.
    ///
    /// # Errors
    /// [`CkksError::Shape`] where that takes more limbs than there are.
    pub fn new(e: &Evaluator, depth: usize, out: usize) -> Result<Self, CkksError> {
        let p = e.params();
        let levels = Levels::new(p, depth, out)?;
        let step = (scale(p, levels.slots) / p.raised_scale()).powf(1.0 / CTS_LEVELS as f64);
        let encode = |i, t| {
            let level = levels.raised - i;
            e.encode_transform(&t, level + 1, step * p.prime(level), true)
        };
        Ok(Self {
            raise: Raise::new(e)?,
            cts: dft::coefficients_to_slots(e.encoder(), p.slots(), FACTOR, encode)?,
            circle: circle::coefficients(),
            levels,
        })
    }

    /// Bytes of the encoded matrices.
    pub fn bytes(&self) -> usize {
        self.raise.bytes() + self.cts.iter().map(EncodedTransform::bytes).sum::<usize>()
    }

    /// Coefficients at native level 0, already times [`super::MULTIPLE`] -> f of the slots.
    ///
    /// # Errors
    /// [`CkksError::Shape`] for a function of another depth; missing keys.
    pub fn refresh(
        &self,
        e: &Evaluator,
        low: &Ciphertext,
        content: Content,
        f: &Harmonics,
    ) -> Result<Vec<Ciphertext>, CkksError> {
        if f.depth() != self.levels.depth() {
            let (found, made) = (f.depth(), self.levels.depth());
            let detail = format!("a function of {found} levels in a refresh made for {made}");
            return Err(CkksError::Shape {
                op: "refresh",
                detail,
            });
        }
        let mut x = self.raise.apply(e, low, self.levels.raised + 1)?;
        for t in &self.cts {
            x = e.apply_transform(&[x], t)?.remove(0);
        }
        let out = e.params().scale(self.levels.out);
        of_parts(e, &x, content, Complex64::new(1.0, 0.0), |part| {
            e.power_series(&self.phase(e, part)?, &f.halves, Some(out))
        })
    }

    /// Slots t / 17 -> exp(2 pi i t).
    fn phase(&self, e: &Evaluator, x: &Ciphertext) -> Result<Ciphertext, CkksError> {
        let series = scale(e.params(), self.levels.phase + DOUBLINGS);
        let mut z = e.chebyshev(x, &self.circle, Some(series))?;
        for _ in 0..DOUBLINGS {
            z = e.mul(&z, &z)?;
        }
        Ok(z)
    }
}
