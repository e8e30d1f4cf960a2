//! Bootstrapping, slots-to-coefficients first: StC, mod-raise, CtS, modular reduction. Each stage is callable
//! alone. Levels are those of `n16`:
//!
//! | stage | native level | what the ciphertext holds |
//! |---|---|---|
//! | input | 2 | slots w, parts in [-1, 1] |
//! | [`Bootstrapper::slots_to_coefficients`] | 0 | coefficients w (bit-reversed) at scale q0 / 2^7.5 |
//! | [`Bootstrapper::mod_raise`] | 26 | first factor of CtS times coefficients w + q0*I, abs(I) <= 16 |
//! | [`Bootstrapper::coefficients_to_slots`] | 24 | slots (w + q0*I) / (17*q0) |
//! | [`Bootstrapper::modular_reduction`] | 15 | slots w at the canonical scale |
//!
//! Acting on slot values instead of DFT coefficients, the reduction's error is uniform in the slots, and a
//! *real* input needs one reduction instead of two: the imaginary halves of the coefficients are noise that
//! is never read. A *pair* of reals is one complex input whose parts, once reduced, stay apart.
//!
//! The first of the three matrices of coefficients-to-slots is multiplied in by the keys that switch back
//! from the sparse secret: it takes no level, see `raise.rs`.
//!
//! Failure: with the sparse secret of weight 32 the raised value obeys abs(t) <= (1 + 32)/2 + 2^-7.5 for
//! *every* ciphertext, inside the range 17 of the series: that cannot fail, not merely seldom, as long as the
//! message and its noise stay below 2^-7.4 of q0; `sparse::RaisedRange` has the probability, computed from
//! all of these figures.
pub mod dft;
pub mod eval_mod;
mod key_list;
pub(crate) mod raise;
pub mod refresh;

use crate::backend::{Backend, CiphertextOf as Of, Sum};
use crate::linear::EncodedTransform;
use crate::params::DOUBLINGS;
use crate::processor::Processor;
use crate::{CkksError, CkksParameters, Evaluator};
use dft::FACTOR;
use num_complex::Complex64;
use raise::Raise;
use rayon::prelude::*;
use std::borrow::Cow;

pub use key_list::{of_plan, required_keys};

/// What the slots of an input hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Real values: one modular reduction.
    Real,
    /// Complex values: two.
    Complex,
    /// Real values, refreshed with those of the next input, which is of the same pair: one each, but all else
    /// once for both.
    Pair,
}

/// Encoded matrices and series of bootstrapping.
pub struct Bootstrapper<B: Backend = Processor> {
    stc: Vec<EncodedTransform<B::Vectors>>,
    raise: Raise<B>,
    cts: Vec<EncodedTransform<B::Vectors>>,
    series: Vec<Complex64>,
    circle: Vec<Complex64>,
}

impl<B: Backend> Bootstrapper<B> {
    /// Encodes the matrices: about 1 GB at N = 2^16 (two groups have full-length diagonals).
    ///
    /// # Errors
    /// [`CkksError::Shape`] for a preset without bootstrapping; encoding errors.
    pub fn new(e: &Evaluator<B>) -> Result<Self, CkksError> {
        let p = e.params();
        if !p.can_bootstrap() {
            return Err(CkksError::Shape {
                op: "bootstrap",
                detail: format!(
                    "preset {} has {} levels and no primes for bootstrapping; hint: a circuit of at most \
                    that depth, or preset n16",
                    p.rlwe().name(),
                    p.top_level()
                ),
            });
        }
        let stc_scales = stc_scales(p);
        let stc_each = |i, t| {
            let encoded = e.encode_transform(&t, p.bottom_level() + 1 - i, stc_scales[i], false);
            encoded.map(EncodedTransform::with_low_keys)
        };
        let (stc, whole) = rayon::join(
            || dft::slots_to_coefficients(e.encoder(), p.slots(), stc_each),
            || Self::of_coefficients(e),
        );
        Ok(Self { stc: stc?, ..whole? })
    }

    /// Without slots-to-coefficients, for what begins at the raise.
    fn of_coefficients(e: &Evaluator<B>) -> Result<Self, CkksError> {
        let (p, top) = (e.params(), e.rlwe().q_len() - 1);
        let cts_each =
            |i, t| e.encode_transform(&t, top + 1 - i, p.cts_step() * p.prime(top - i), t.rotates());
        let (raise, cts) = rayon::join(
            || Raise::new(e),
            || dft::coefficients_to_slots(e.encoder(), p.slots(), FACTOR, cts_each),
        );
        tacita_ring::trim_heap(); // of the diagonals
        Ok(Self {
            stc: Vec::new(),
            raise: raise?,
            cts: cts?,
            series: eval_mod::coefficients(),
            circle: refresh::circle::coefficients(),
        })
    }

    /// Bytes of the encoded matrices.
    pub fn bytes(&self) -> usize {
        let transforms = self.stc.iter().chain(&self.cts);
        self.raise.bytes() + transforms.map(EncodedTransform::bytes).sum::<usize>()
    }

    /// Refreshes ciphertexts, half as many at once as there are threads: one bootstrap runs 1.8 times faster
    /// on two threads, so more at once would gain little and hold a gigabyte of working memory each. Inputs
    /// at any native level >= 2 with parts in [-1, 1]; results at the top residual level.
    ///
    /// # Errors
    /// [`CkksError::Level`] below the bottom level, [`CkksError::Shape`] for half a pair, missing keys.
    pub fn bootstrap_many(
        &self,
        e: &Evaluator<B>,
        inputs: &[(Of<B>, Content)],
    ) -> Result<Vec<Of<B>>, CkksError> {
        self.many(e, inputs, |c, content| self.bootstrap(e, c, content))
    }

    fn many(
        &self,
        e: &Evaluator<B>,
        inputs: &[(Of<B>, Content)],
        one: impl Fn(&Of<B>, Content) -> Result<Vec<Of<B>>, CkksError> + Sync,
    ) -> Result<Vec<Of<B>>, CkksError> {
        let at_once = (rayon::current_num_threads() / 2).max(1);
        let mut out = Vec::with_capacity(inputs.len());
        for part in joined(e, inputs)?.chunks(at_once) {
            let done: Result<Vec<_>, _> = part.par_iter().map(|(c, content)| one(c, *content)).collect();
            out.extend(done?.into_iter().flatten());
        }
        Ok(out)
    }

    /// Refreshes one ciphertext; a pair comes as a + i b and gives two.
    ///
    /// # Errors
    /// As [`Self::bootstrap_many`].
    pub fn bootstrap(&self, e: &Evaluator<B>, c: &Of<B>, content: Content) -> Result<Vec<Of<B>>, CkksError> {
        let low = self.slots_to_coefficients(e, c)?;
        let raised = self.mod_raise(e, &low)?;
        let slots = self.coefficients_to_slots(e, raised)?;
        self.modular_reduction(e, &slots, content)
    }

    /// Slots -> coefficients: two levels, ends at native level 0.
    ///
    /// # Errors
    /// [`CkksError::Level`] below the bottom level.
    pub fn slots_to_coefficients(&self, e: &Evaluator<B>, c: &Of<B>) -> Result<Of<B>, CkksError> {
        let p = e.params();
        e.need_level(c, "bootstrap", p.bottom_level())?;
        let mut x = e.drop_to(c, p.bottom_level())?;
        for t in &self.stc {
            x = e.apply_transform(&[x], t)?.remove(0);
        }
        Ok(x)
    }

    /// Native level 0 -> top of the chain, times the first factor of coefficients-to-slots. The ciphertext
    /// passes through the sparse secret, so that the multiples of q0 are small; its modulus there is q0 and
    /// one special prime only.
    ///
    /// Cost: see [`keyswitch::switch_products`](tacita_rlwe::keyswitch::switch_products).
    ///
    /// # Errors
    /// Missing keys.
    pub fn mod_raise(&self, e: &Evaluator<B>, c: &Of<B>) -> Result<Of<B>, CkksError> {
        self.raise.apply(e, c, e.rlwe().q_len())
    }

    /// The other factors of coefficients -> slots: two levels. Half the value, so that adding the conjugate
    /// gives the real part.
    ///
    /// # Errors
    /// Missing keys.
    pub fn coefficients_to_slots(&self, e: &Evaluator<B>, c: Of<B>) -> Result<Of<B>, CkksError> {
        let mut x = c;
        for t in &self.cts {
            x = e.apply_transform(&[x], t)?.remove(0);
        }
        Ok(x)
    }

    /// Removes the multiples of q0 from real and imaginary parts: nine levels. Two results of a pair.
    ///
    /// # Errors
    /// Missing keys.
    pub fn modular_reduction(
        &self,
        e: &Evaluator<B>,
        c: &Of<B>,
        content: Content,
    ) -> Result<Vec<Of<B>>, CkksError> {
        // i a + conj(i a) = -2 Im(a)
        let mut out = of_parts(e, c, content, Complex64::i(), |x| {
            self.wave(e, self.exponential(e, x)?)
        })?;
        // The slots hold 24*pi * (w * coefficient scale / q0); reading them in units of w multiplies the
        // scale by that factor, and the coefficient scale was chosen so that the product is the canonical
        // scale.
        let p = e.params();
        for x in &mut out {
            x.scale *= 24.0 * std::f64::consts::PI * p.coefficient_scale() / p.prime(0);
        }
        Ok(out)
    }

    /// z = exp(2*pi*i*t) for t = 17 x within 2^-7.5 of an integer.
    fn exponential(&self, e: &Evaluator<B>, x: &Of<B>) -> Result<Of<B>, CkksError> {
        let mut z = e.chebyshev(x, &self.series, Some(e.params().boot_scale()))?;
        for _ in 0..DOUBLINGS {
            z = e.mul(&z, &z)?;
        }
        Ok(z)
    }

    /// z^2 - 8z, whose imaginary part is -12*pi*(t - round(t)).
    fn wave(&self, e: &Evaluator<B>, z: Of<B>) -> Result<Of<B>, CkksError> {
        let sum = Sum {
            products: vec![(&z, &z)],
            multiples: vec![(&z, Complex64::new(-8.0, 0.0))],
            ..Sum::default()
        };
        e.relinearise_rescale(e.sum(&sum, z.limbs(), z.scale * z.scale)?)
    }
}

/// Inputs, copied only where they had to change.
type Inputs<'a, B> = Vec<(Cow<'a, Of<B>>, Content)>;

/// What goes into each bootstrap: an input, or a + i b of a pair at the bottom level, where it is exact and
/// takes no level, as i is X^(N/2).
fn joined<'a, B: Backend>(
    e: &Evaluator<B>,
    mut inputs: &'a [(Of<B>, Content)],
) -> Result<Inputs<'a, B>, CkksError> {
    let bottom = e.params().bottom_level();
    let mut out = Vec::with_capacity(inputs.len());
    while let [(a, content), rest @ ..] = inputs {
        e.need_level(a, "bootstrap", bottom)?;
        inputs = rest;
        if *content != Content::Pair {
            out.push((Cow::Borrowed(a), *content));
            continue;
        }
        let [(b, Content::Pair), rest @ ..] = rest else {
            return Err(CkksError::Shape {
                op: "bootstrap",
                detail: "one ciphertext of a pair; hint: give both, next to each other".into(),
            });
        };
        e.need_level(b, "bootstrap", bottom)?;
        let i_b = e.mul_i(&e.drop_to(b, bottom)?)?;
        out.push((Cow::Owned(e.add(&e.drop_to(a, bottom)?, &i_b)?), Content::Pair));
        inputs = rest;
    }
    Ok(out)
}

/// Both parts of slots through `half`, as f half + conj(f half): together again, those of a pair apart.
fn of_parts<B: Backend>(
    e: &Evaluator<B>,
    slots: &Of<B>,
    content: Content,
    f: Complex64,
    half: impl Fn(&Of<B>) -> Result<Of<B>, CkksError> + Sync,
) -> Result<Vec<Of<B>>, CkksError> {
    let (one, i) = (Complex64::new(1.0, 0.0), Complex64::i());
    let mirror = e.conjugate(slots)?;
    let real = || half(&combined(e, vec![(slots, one), (&mirror, one)])?);
    let imaginary = || half(&combined(e, vec![(&mirror, i), (slots, -i)])?);
    let whole = |x: Of<B>| combined(e, vec![(&x, f), (&e.conjugate(&x)?, f.conj())]);
    match content {
        Content::Real => Ok(vec![whole(real()?)?]),
        Content::Pair => {
            let (a, b) = rayon::join(|| whole(real()?), || whole(imaginary()?));
            Ok(vec![a?, b?])
        }
        Content::Complex => {
            let (a, b) = rayon::join(real, imaginary);
            let (a, b) = (a?, b?);
            let mirror = e.conjugate(&combined(e, vec![(&a, f), (&b, -i * f)])?)?;
            Ok(vec![combined(e, vec![(&a, f), (&b, i * f), (&mirror, one)])?])
        }
    }
}

/// A sum of multiples of ciphertexts of one level and scale, in one pass.
fn combined<B: Backend>(e: &Evaluator<B>, terms: Vec<(&Of<B>, Complex64)>) -> Result<Of<B>, CkksError> {
    let (limbs, scale) = (terms[0].0.limbs(), terms[0].0.scale);
    let sum = Sum {
        multiples: terms,
        ..Sum::default()
    };
    e.sum(&sum, limbs, scale)
}

/// Plaintext scales of slots-to-coefficients: from the canonical scale to the coefficient scale.
fn stc_scales(p: &CkksParameters) -> Vec<f64> {
    let l = p.bottom_level();
    let first = p.prime(l);
    vec![first, p.coefficient_scale() * p.prime(l - 1) / p.scale(l)]
}
