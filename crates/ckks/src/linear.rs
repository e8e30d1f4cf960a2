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
use std::borrow::{Borrow, Cow};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use tacita_rlwe::ciphertext::Polynomial;

/// Bytes of encoded vectors that [`Evaluator::linear`] has at once, or those of one output: a transposition
/// on diagonals of 512 tokens has 128 outputs and 512 vectors of 32,768 numbers, 3.5 GB at level 1.
const ENCODED_BYTES: usize = 2 << 30;

impl<B: Backend> Evaluator<B> {
    /// Encodes a transform for ciphertexts of `limbs` limbs. `lifted` keeps babies over QP (right for small
    /// plaintexts of a transform that rotates inputs); otherwise babies are brought back to Q and the
    /// plaintexts need no special limbs.
    ///
    /// # Errors
    /// [`CkksError::Shape`] for bad vectors or giants that Horner's step does not divide.
    pub fn encode_transform(
        &self,
        t: &LinearTransform<'_>,
        limbs: usize,
        plain_scale: f64,
        lifted: bool,
    ) -> Result<EncodedTransform<B::Vectors>, CkksError> {
        check(t)?;
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
    /// Outputs whose vectors would take too much memory at once are made one after the other, each with the
    /// rotations of the inputs anew. No bit changes.
    ///
    /// # Errors
    /// [`CkksError::Level`], missing rotation keys, [`CkksError::Shape`].
    pub fn linear<C: Borrow<Of<B>>>(
        &self,
        inputs: &[C],
        t: &LinearTransform<'_>,
    ) -> Result<Vec<Of<B>>, CkksError> {
        self.linear_within(inputs, t, ENCODED_BYTES)
    }

    /// most: bytes of encoded vectors at once, or those of one output.
    fn linear_within<C: Borrow<Of<B>>>(
        &self,
        inputs: &[C],
        t: &LinearTransform<'_>,
        most: usize,
    ) -> Result<Vec<Of<B>>, CkksError> {
        check(t)?;
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
        let plain_scale = self.plain_scale(&aligned[0]);
        let each = (level + 1 + self.rlwe().p_len()) * size_of::<f64>();
        let mut outputs = Vec::with_capacity(t.outputs);
        for part in parts_of(t, each, most) {
            let encoded = self.encode_transform(&part, level + 1, plain_scale, t.rotates())?;
            outputs.extend(self.apply_transform(&aligned, &encoded)?);
        }
        Ok(outputs)
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

/// The transform in as few parts, each of neighbouring outputs, as have no more than `most` bytes of encoded
/// vectors, or those of one output. None of several is without terms, of which a device would make nothing.
/// each: bytes of an encoded number over all limbs.
fn parts_of<'a>(t: &'a LinearTransform<'_>, each: usize, most: usize) -> Vec<Cow<'a, LinearTransform<'a>>> {
    let bytes = |v: usize| 2 * t.vectors[v].len() * each;
    if (0..t.vectors.len()).map(bytes).sum::<usize>() <= most {
        return vec![Cow::Borrowed(t)];
    }
    let mut parts: Vec<(Range<usize>, BTreeSet<usize>)> = vec![];
    for output in 0..t.outputs {
        let of_output = t.terms.iter().filter(|x| x.output == output);
        let vectors: BTreeSet<usize> = of_output.map(|x| x.vector).collect();
        let fits = |kept: &BTreeSet<usize>| {
            let both = kept.union(&vectors).map(|&v| bytes(v));
            kept.is_empty() || vectors.is_subset(kept) || both.sum::<usize>() <= most
        };
        match parts.last_mut() {
            Some((range, kept)) if fits(kept) => {
                kept.extend(vectors);
                range.end = output + 1;
            }
            _ => parts.push((output..output + 1, vectors)),
        }
    }
    let part = |(range, kept): (Range<usize>, BTreeSet<usize>)| {
        let numbers: BTreeMap<usize, usize> = kept.iter().zip(0..).map(|(&v, number)| (v, number)).collect();
        let inside = t.terms.iter().filter(|x| range.contains(&x.output));
        let moved = |x: &Term| Term {
            output: x.output - range.start,
            vector: numbers[&x.vector],
            ..*x
        };
        Cow::Owned(LinearTransform {
            vectors: kept.iter().map(|&v| Cow::Borrowed(&*t.vectors[v])).collect(),
            terms: inside.map(moved).collect(),
            outputs: range.len(),
            horner_step: t.horner_step,
        })
    };
    parts.into_iter().map(part).collect()
}

fn check(t: &LinearTransform<'_>) -> Result<(), CkksError> {
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
