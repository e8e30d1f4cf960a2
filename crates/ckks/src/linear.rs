//! Linear transforms: out_j = sum over terms (j, G, i, B, v) of rot(v * rot(x_i, B), G).
//!
//! Babies B are hoisted rotations of the inputs (one decomposition per input), kept over QP (*lifted*) so
//! that no mod-down happens before the sums; giants G rotate inner sums. Double hoisting: Bossuat, Mouchet,
//! Troncoso-Pastoriza, Hubaux, Eurocrypt 2021. When all giants are multiples of one step, Horner's rule needs
//! the key of that step alone at the same number of key switches, which is how bootstrapping keys stay small.
mod babies;
mod fused;
mod giants;
mod inner_sums;
mod streamed;
mod tiled;
pub mod transform;
pub use transform::{required_rotations, EncodedTransform, LinearTransform, Term};

use crate::backend::{Backend, CiphertextOf as Of};
use crate::keys::KeyKind;
use crate::{Ciphertext, CkksError, Evaluator};
use rayon::prelude::*;
use std::borrow::Borrow;
use tacita_rlwe::ciphertext::Polynomial;

impl<B: Backend> Evaluator<B> {
    /// Encodes a transform for ciphertexts of `limbs` limbs. `lifted` keeps babies over QP (right for small
    /// plaintexts); otherwise babies are brought back to Q and the plaintexts need no special limbs.
    ///
    /// # Errors
    /// [`CkksError::Shape`] for bad vectors or giants that Horner's step does not divide.
    pub fn encode_transform(
        &self,
        t: &LinearTransform,
        limbs: usize,
        plain_scale: f64,
        lifted: bool,
    ) -> Result<EncodedTransform<B::Vectors>, CkksError> {
        check(t)?;
        let lifted = lifted && t.terms.iter().any(|x| x.baby != 0);
        let special = if lifted { self.rlwe().p_len() } else { 0 };
        let vectors = t
            .vectors
            .par_iter()
            .map(|v| self.encode_periodic(v, plain_scale, limbs, special))
            .collect::<Result<Vec<_>, _>>()?;
        let lengths = vectors.iter().flatten().map(|v| v.len());
        let bytes = lengths.sum::<usize>() * size_of::<f64>();
        Ok(EncodedTransform {
            terms: t.terms.clone(),
            outputs: t.outputs,
            horner_step: t.horner_step,
            vectors: self.backend().vectors(vectors)?,
            bytes,
            limbs,
            lifted,
            plain_scale,
            key: KeyKind::Galois,
        })
    }

    /// Encodes and applies a transform; the outputs have the canonical scale one level below. One level.
    ///
    /// # Errors
    /// [`CkksError::Level`], missing rotation keys, [`CkksError::Shape`].
    pub fn linear<C: Borrow<Of<B>>>(
        &self,
        inputs: &[C],
        t: &LinearTransform,
    ) -> Result<Vec<Of<B>>, CkksError> {
        let inputs: Vec<&Of<B>> = inputs.iter().map(Borrow::borrow).collect();
        let first = inputs.first().ok_or(CkksError::Shape {
            op: "linear",
            detail: "no inputs".into(),
        })?;
        let lowest = inputs.iter().copied().min_by_key(|c| c.level()).unwrap_or(first);
        self.need_level(lowest, "linear", 1)?;
        let (level, scale) = (lowest.level(), lowest.scale);
        let aligned = inputs
            .iter()
            .map(|c| self.aligned(c, level, scale))
            .collect::<Result<Vec<_>, _>>()?;
        let encoded = self.encode_transform(t, level + 1, self.plain_scale(&aligned[0]), true)?;
        self.apply_transform(&aligned, &encoded)
    }

    /// Applies an encoded transform and rescales.
    ///
    /// # Errors
    /// As [`Self::linear`].
    pub fn apply_transform<C: Borrow<Of<B>>>(
        &self,
        inputs: &[C],
        t: &EncodedTransform<B::Vectors>,
    ) -> Result<Vec<Of<B>>, CkksError> {
        let inputs: &[&Of<B>] = &inputs.iter().map(Borrow::borrow).collect::<Vec<_>>();
        self.check_inputs(inputs, t)?;
        let scale = inputs[0].scale * t.plain_scale / self.params().prime(t.limbs - 1);
        let sums = B::transform(&self.context(), inputs, t)?;
        sums.into_iter()
            .map(|p| {
                let down = |x: B::Poly| {
                    if x.p_len() > 0 {
                        self.backend().mod_down_rescale(x)
                    } else {
                        self.backend().rescale(x)
                    }
                };
                Ok(Ciphertext {
                    polys: vec![down(p.0)?, down(p.1)?],
                    scale,
                })
            })
            .collect()
    }

    fn check_inputs(&self, inputs: &[&Of<B>], t: &EncodedTransform<B::Vectors>) -> Result<(), CkksError> {
        let wanted = t.terms.iter().map(|x| x.input + 1).max().unwrap_or(0);
        let bad = inputs.iter().any(|c| c.limbs() != t.limbs);
        if wanted > inputs.len() || bad || t.limbs < 2 {
            return Err(CkksError::Shape {
                op: "linear",
                detail: format!(
                    "transform wants {wanted} inputs of {} limbs, got {} ({:?} limbs)",
                    t.limbs,
                    inputs.len(),
                    inputs.first().map(|c| c.limbs())
                ),
            });
        }
        Ok(())
    }
}

fn check(t: &LinearTransform) -> Result<(), CkksError> {
    let bad_index = t
        .terms
        .iter()
        .find(|x| x.vector >= t.vectors.len() || x.output >= t.outputs);
    let bad_giant = t
        .horner_step
        .and_then(|s| t.terms.iter().find(|x| s <= 0 || x.giant % s != 0 || x.giant < 0));
    match bad_index.or(bad_giant) {
        Some(x) => Err(CkksError::Shape {
            op: "linear",
            detail: format!(
                "term {x:?} does not fit {} vectors, {} outputs, Horner step {:?}",
                t.vectors.len(),
                t.outputs,
                t.horner_step
            ),
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
