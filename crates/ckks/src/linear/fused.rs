//! Transforms on the processor: babies are made block by block where the sums fit into memory, kept in chunks
//! where they do not.
use super::babies::halves;
use super::inner_sums::{pick, InnerSums};
use super::transform::{giants_of, steps_of, EncodedTransform};
use crate::backend::{Context, Pair};
use crate::processor::Processor;
use crate::{Ciphertext, CkksError};
use std::collections::{BTreeMap, BTreeSet};
use tacita_rlwe::keyswitch::Decomposed;
use tacita_rlwe::RnsPoly;

/// Memory for rotated inputs, and for inner sums, that are held at once.
const CHUNK_BYTES: usize = 1 << 29;

impl Context<'_, Processor> {
    /// What [`Backend::transform`](crate::Backend::transform) is on the processor.
    pub(crate) fn fused_sums(
        &self,
        inputs: &[&Ciphertext],
        t: &EncodedTransform,
    ) -> Result<Vec<Pair<RnsPoly>>, CkksError> {
        if t.terms.iter().all(|x| x.giant == 0) {
            self.babies_only(inputs, t)
        } else {
            self.baby_giant(inputs, t)
        }
    }

    /// Few inputs, many outputs: all babies go into all outputs at once, block by block, or in chunks where
    /// there are more outputs than babies or the digits of all inputs are too large.
    pub(super) fn babies_only(
        &self,
        inputs: &[&Ciphertext],
        t: &EncodedTransform,
    ) -> Result<Vec<Pair<RnsPoly>>, CkksError> {
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

    fn baby_giant(
        &self,
        inputs: &[&Ciphertext],
        t: &EncodedTransform,
    ) -> Result<Vec<Pair<RnsPoly>>, CkksError> {
        let (steps, wanted) = (steps_of(t), giants_of(t));
        let digits = self.decompose_inputs(inputs, t)?;
        if self.keeps_sums(t, wanted.len(), &steps) {
            let sums = self.streamed(inputs, &digits, &wanted, t)?;
            drop(digits);
            let mut sums: BTreeMap<(usize, i64), Pair<RnsPoly>> = wanted.into_iter().zip(sums).collect();
            let inner = |j| InnerSums::of(self, t, j, &mut sums);
            return (0..t.outputs)
                .map(inner)
                .map(|mut inner| self.over_inner(&mut inner))
                .collect();
        }
        let babies = self.babies(inputs, &digits, &steps, t)?;
        drop(digits);
        let babies = halves(inputs, &steps, &babies);
        (0..t.outputs)
            .map(|j| self.over_inner(&mut InnerSums::new(self, t, &steps, &babies, j)))
            .collect()
    }

    /// Sums are as large as babies: where there are fewer of them, they are what to keep.
    fn keeps_sums(&self, t: &EncodedTransform, sums: usize, steps: &[(usize, i64)]) -> bool {
        t.lifted && sums <= self.pairs_in_chunk(t).max(steps.len())
    }

    /// How many pairs of this transform fit the working memory.
    pub(super) fn pairs_in_chunk(&self, t: &EncodedTransform) -> usize {
        let pair_bytes = 2 * (t.limbs + self.special(t)) * self.params.rlwe().n() * 8;
        (CHUNK_BYTES / pair_bytes).max(2)
    }

    /// How many babies of several inputs fit it beside the digits that they are made from.
    fn babies_in_chunk(&self, t: &EncodedTransform, steps: &[(usize, i64)]) -> usize {
        let inputs: BTreeSet<usize> = steps.iter().map(|&(input, _)| input).collect();
        let pair = 2 * (t.limbs + self.special(t)) * self.params.rlwe().n() * 8;
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
        let limbs = t.limbs + self.params.rlwe().p_len();
        self.params.rlwe().digits(t.limbs, self.params.rlwe().p_len()) * limbs * self.params.rlwe().n() * 8
    }

    pub(super) fn special(&self, t: &EncodedTransform) -> usize {
        if t.lifted {
            self.params.rlwe().p_len()
        } else {
            0
        }
    }

    fn over_inner(&self, inner: &mut InnerSums<'_>) -> Result<Pair<RnsPoly>, CkksError> {
        let giants = inner.giants();
        if giants.is_empty() && inner.t.horner_step.is_some() {
            return Ok(self.zero_pair(inner.t));
        }
        self.over_giants(inner.t, &giants, |giant| Ok(inner.take(giant)))
    }
}
