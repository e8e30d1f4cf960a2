//! Linear transforms: out_j = sum over terms (j, G, i, B, v) of rot(v * rot(x_i, B), G).
//!
//! Babies B are hoisted rotations of the inputs (one decomposition per input), kept over QP (*lifted*) so
//! that no mod-down happens before the sums; giants G rotate inner sums. Double hoisting: Bossuat, Mouchet,
//! Troncoso-Pastoriza, Hubaux, Eurocrypt 2021. When all giants are multiples of one step, Horner's rule needs
//! the key of that step alone at the same number of key switches, which is how bootstrapping keys stay small.
mod babies;
mod inner_sums;
mod streamed;
mod tiled;
mod transform;
use babies::halves;
use inner_sums::{pick, InnerSums};
use transform::Pair;
pub use transform::{required_rotations, EncodedTransform, LinearTransform, Term};

use crate::automorphisms::permuted;
use crate::keys::{galois_of_rotation, KeyKind};
use crate::{Ciphertext, CkksError, Evaluator};
use rayon::prelude::*;
use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use tacita_rlwe::keyswitch::{self, Decomposed};
use tacita_rlwe::RnsPoly;

impl Evaluator {
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
    ) -> Result<EncodedTransform, CkksError> {
        check(t)?;
        let lifted = lifted && t.terms.iter().any(|x| x.baby != 0);
        let special = if lifted { self.rlwe().p_len() } else { 0 };
        let vectors = t
            .vectors
            .par_iter()
            .map(|v| self.encode_periodic(v, plain_scale, limbs, special))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(EncodedTransform {
            terms: t.terms.clone(),
            outputs: t.outputs,
            horner_step: t.horner_step,
            vectors,
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
    pub fn linear<C: Borrow<Ciphertext>>(
        &self,
        inputs: &[C],
        t: &LinearTransform,
    ) -> Result<Vec<Ciphertext>, CkksError> {
        let inputs: Vec<&Ciphertext> = inputs.iter().map(Borrow::borrow).collect();
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
    pub fn apply_transform<C: Borrow<Ciphertext>>(
        &self,
        inputs: &[C],
        t: &EncodedTransform,
    ) -> Result<Vec<Ciphertext>, CkksError> {
        let inputs: &[&Ciphertext] = &inputs.iter().map(Borrow::borrow).collect::<Vec<_>>();
        self.check_inputs(inputs, t)?;
        let scale = inputs[0].scale * t.plain_scale / self.params().prime(t.limbs - 1);
        let sums = if t.terms.iter().all(|x| x.giant == 0) {
            self.babies_only(inputs, t)?
        } else {
            self.baby_giant(inputs, t)?
        };
        sums.into_iter()
            .map(|p| {
                let down = |x: RnsPoly| {
                    if x.p_len() > 0 {
                        keyswitch::mod_down_rescale(self.rlwe(), x)
                    } else {
                        keyswitch::rescale(self.rlwe(), x)
                    }
                };
                Ok(Ciphertext {
                    polys: vec![down(p.0), down(p.1)],
                    scale,
                })
            })
            .collect()
    }

    fn check_inputs(&self, inputs: &[&Ciphertext], t: &EncodedTransform) -> Result<(), CkksError> {
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

    /// Few inputs, many outputs: all babies go into all outputs at once, block by block, or in chunks where
    /// there are more outputs than babies or the digits of all inputs are too large.
    fn babies_only(&self, inputs: &[&Ciphertext], t: &EncodedTransform) -> Result<Vec<Pair>, CkksError> {
        let wanted: Vec<(usize, i64)> = (0..t.outputs).map(|j| (j, 0)).collect();
        let steps = steps_of(t);
        let rotated: BTreeSet<usize> = steps.iter().filter(|x| x.1 != 0).map(|x| x.0).collect();
        if self.keeps_sums(t, wanted.len(), &steps) && rotated.len() * self.digit_bytes(t) <= CHUNK_BYTES {
            let digits = self.decompose_inputs(inputs, t)?;
            return self.streamed(inputs, &digits, &wanted, t);
        }
        let mut sums = self.zero_pairs(wanted.len(), t);
        let mut digits: Vec<Option<Decomposed>> = inputs.iter().map(|_| None).collect();
        for part in steps.chunks(self.babies_in_chunk(t, &steps)) {
            self.keep_digits(inputs, part, &mut digits);
            let babies = self.babies(inputs, &digits, part, t)?;
            self.accumulate(
                &mut sums,
                &pick(t, part, &wanted),
                &halves(inputs, part, &babies),
                t,
                false,
            );
        }
        Ok(sums)
    }

    fn baby_giant(&self, inputs: &[&Ciphertext], t: &EncodedTransform) -> Result<Vec<Pair>, CkksError> {
        let (steps, wanted) = (steps_of(t), giants_of(t));
        let digits = self.decompose_inputs(inputs, t)?;
        if self.keeps_sums(t, wanted.len(), &steps) {
            let sums = self.streamed(inputs, &digits, &wanted, t)?;
            drop(digits);
            let mut sums: BTreeMap<(usize, i64), Pair> = wanted.into_iter().zip(sums).collect();
            let inner = |j| InnerSums::of(self, t, j, &mut sums);
            return (0..t.outputs)
                .map(inner)
                .map(|mut inner| self.over_giants(&mut inner))
                .collect();
        }
        let babies = self.babies(inputs, &digits, &steps, t)?;
        drop(digits);
        let babies = halves(inputs, &steps, &babies);
        (0..t.outputs)
            .map(|j| self.over_giants(&mut InnerSums::new(self, t, &steps, &babies, j)))
            .collect()
    }

    /// Sums are as large as babies: where there are fewer of them, they are what to keep.
    fn keeps_sums(&self, t: &EncodedTransform, sums: usize, steps: &[(usize, i64)]) -> bool {
        t.lifted && sums <= self.pairs_in_chunk(t).max(steps.len())
    }

    /// The inner sums of one output, rotated by their giants and added up.
    fn over_giants(&self, inner: &mut InnerSums<'_>) -> Result<Pair, CkksError> {
        match inner.t.horner_step {
            Some(step) => self.horner(inner, step),
            None => self.sum_giants(inner),
        }
    }

    /// How many pairs of this transform fit the working memory.
    fn pairs_in_chunk(&self, t: &EncodedTransform) -> usize {
        let pair_bytes = 2 * (t.limbs + self.special(t)) * self.rlwe().n() * 8;
        (CHUNK_BYTES / pair_bytes).max(2)
    }

    /// How many babies of several inputs fit it beside the digits that they are made from.
    fn babies_in_chunk(&self, t: &EncodedTransform, steps: &[(usize, i64)]) -> usize {
        let inputs: BTreeSet<usize> = steps.iter().map(|&(input, _)| input).collect();
        let pair = 2 * (t.limbs + self.special(t)) * self.rlwe().n() * 8;
        let each = pair + self.digit_bytes(t) * inputs.len() / steps.len().max(1);
        let room = if inputs.len() > 1 {
            CHUNK_BYTES / 4
        } else {
            CHUNK_BYTES
        };
        (room / each).max(2)
    }

    /// Of the digits of one input.
    fn digit_bytes(&self, t: &EncodedTransform) -> usize {
        let limbs = t.limbs + self.rlwe().p_len();
        self.rlwe().digits(t.limbs, self.rlwe().p_len()) * limbs * self.rlwe().n() * 8
    }

    fn special(&self, t: &EncodedTransform) -> usize {
        if t.lifted {
            self.rlwe().p_len()
        } else {
            0
        }
    }

    fn horner(&self, inner: &mut InnerSums<'_>, step: i64) -> Result<Pair, CkksError> {
        let mut giant = inner.largest();
        let mut acc = inner.take(giant).unwrap_or_else(|| self.zero_pair(inner.t));
        while giant > 0 {
            giant -= step;
            acc = self.rotate_pair(acc, step, inner.t)?;
            if let Some(part) = inner.take(giant) {
                self.add_pair(&mut acc, part);
            }
        }
        Ok(acc)
    }

    fn sum_giants(&self, inner: &mut InnerSums<'_>) -> Result<Pair, CkksError> {
        let mut acc: Option<Pair> = None;
        for g in inner.giants_zero_last() {
            let Some(sum) = inner.take(g) else { continue };
            let part = if g == 0 {
                sum
            } else {
                self.rotate_pair(sum, g, inner.t)?
            };
            match &mut acc {
                Some(a) => self.add_pair(a, part),
                None => acc = Some(part),
            }
        }
        acc.ok_or(CkksError::Shape {
            op: "linear",
            detail: "an output has no terms".into(),
        })
    }

    /// Rotates a pair over Q or QP; the result is over QP.
    fn rotate_pair(&self, p: Pair, steps: i64, t: &EncodedTransform) -> Result<Pair, CkksError> {
        let rlwe = self.rlwe();
        let galois = galois_of_rotation(self.params(), steps);
        let key = self.keys().get((t.key)(galois), p.1.q_len)?;
        let over_qp = p.1.p_len() > 0;
        let c1 = if over_qp {
            keyswitch::mod_down(rlwe, p.1)
        } else {
            p.1
        };
        let perm = self.permutation(galois);
        let (u0, u1) = keyswitch::switch_over(rlwe, &c1, key, |at, (mut u0, u1)| {
            keyswitch::add_to_limb(rlwe, &mut u0, at, (&p.0, key.special));
            (permuted(&u0, &perm), permuted(&u1, &perm))
        })?;
        Ok(Pair(u0, u1))
    }

    /// acc += part, where acc is over QP whenever part is, or part is over Q.
    fn add_pair(&self, acc: &mut Pair, part: Pair) {
        let rlwe = self.rlwe();
        if acc.0.p_len() == part.0.p_len() {
            acc.0.add_assign(rlwe, &part.0);
            acc.1.add_assign(rlwe, &part.1);
        } else {
            acc.0.add_lifted(rlwe, &part.0);
            acc.1.add_lifted(rlwe, &part.1);
        }
    }
}

/// Memory for rotated inputs, and for inner sums, that are held at once.
const CHUNK_BYTES: usize = 1 << 29;

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

/// The sums that are rotated: (output, giant).
fn giants_of(t: &EncodedTransform) -> Vec<(usize, i64)> {
    let set: BTreeSet<(usize, i64)> = t.terms.iter().map(|x| (x.output, x.giant)).collect();
    set.into_iter().collect()
}

fn steps_of(t: &EncodedTransform) -> Vec<(usize, i64)> {
    let set: BTreeSet<(usize, i64)> = t.terms.iter().map(|x| (x.input, x.baby)).collect();
    set.into_iter().collect()
}

#[cfg(test)]
mod tests;
