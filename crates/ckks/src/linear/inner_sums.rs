//! Inner sums of a baby-step giant-step transform: plaintext vectors times rotated inputs, some giants at a
//! time.
use super::babies::Halves;
use super::{EncodedTransform, Pair};
use crate::Evaluator;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tacita_ring::{kernels, AlignedVec};
use tacita_rlwe::RnsPoly;

/// Coefficients per cache block.
const BLOCK: usize = 2048;

impl Evaluator {
    pub(super) fn zero_pair(&self, t: &EncodedTransform) -> Pair {
        let zero = || RnsPoly::zero(self.rlwe(), t.limbs, self.special(t));
        Pair(zero(), zero())
    }

    pub(super) fn zero_pairs(&self, count: usize, t: &EncodedTransform) -> Vec<Pair> {
        (0..count).map(|_| self.zero_pair(t)).collect()
    }

    /// sums[k] += sum of vector * baby over terms[k] = (baby, vector): limb by limb and block by block, so
    /// that the babies' block stays in cache while all sums read it.
    pub(super) fn accumulate(
        &self,
        sums: &mut [Pair],
        terms: &[Vec<(usize, usize)>],
        babies: &[Halves<'_>],
        t: &EncodedTransform,
    ) {
        let (firsts, seconds): (Vec<_>, Vec<_>) = sums.iter_mut().map(|p| (&mut p.0, &mut p.1)).unzip();
        let inputs = |side: usize| babies.iter().map(|halves| halves[side]).collect::<Vec<_>>();
        self.accumulate_half(firsts, terms, &inputs(0), t);
        self.accumulate_half(seconds, terms, &inputs(1), t);
    }

    fn accumulate_half(
        &self,
        sums: Vec<&mut RnsPoly>,
        terms: &[Vec<(usize, usize)>],
        babies: &[&RnsPoly],
        t: &EncodedTransform,
    ) {
        let rlwe = self.rlwe();
        let limbs = t.limbs + self.special(t);
        let mut by_limb: Vec<Vec<&mut AlignedVec>> = (0..limbs).map(|_| Vec::new()).collect();
        for sum in sums {
            for (row, limb) in by_limb.iter_mut().zip(&mut sum.limbs) {
                row.push(limb);
            }
        }
        by_limb.into_par_iter().enumerate().for_each(|(i, mut row)| {
            let index = if i < t.limbs { i } else { rlwe.p_index(i - t.limbs) };
            let m = rlwe.modulus(index);
            for start in (0..rlwe.n()).step_by(BLOCK) {
                let block = start..(start + BLOCK).min(rlwe.n());
                for (limb, terms) in row.iter_mut().zip(terms) {
                    let products: Vec<(&[f64], &[f64])> = terms
                        .iter()
                        .map(|&(b, v)| {
                            let weights = runs_of(&t.vectors[v][i], &block, rlwe.n());
                            (&babies[b].limbs[i][block.clone()], weights)
                        })
                        .collect();
                    kernels::mac_runs(m, &mut limb[block.clone()], &products);
                }
            }
        });
    }
}

/// The inner sums of one output, computed several giants at a time (largest first) as far as memory allows.
pub(super) struct InnerSums<'a> {
    evaluator: &'a Evaluator,
    pub(super) t: &'a EncodedTransform,
    steps: &'a [(usize, i64)],
    babies: &'a [Halves<'a>],
    output: usize,
    /// Giants not computed yet, ascending.
    pending: Vec<i64>,
    ready: BTreeMap<i64, Pair>,
}

impl<'a> InnerSums<'a> {
    pub(super) fn new(
        evaluator: &'a Evaluator,
        t: &'a EncodedTransform,
        steps: &'a [(usize, i64)],
        babies: &'a [Halves<'a>],
        output: usize,
    ) -> Self {
        let giants: BTreeSet<i64> = t
            .terms
            .iter()
            .filter(|x| x.output == output)
            .map(|x| x.giant)
            .collect();
        let ready = BTreeMap::new();
        let pending = giants.into_iter().collect();
        Self {
            evaluator,
            t,
            steps,
            babies,
            output,
            pending,
            ready,
        }
    }

    /// Of sums that are there: takes those of one output.
    pub(super) fn of(
        evaluator: &'a Evaluator,
        t: &'a EncodedTransform,
        output: usize,
        sums: &mut BTreeMap<(usize, i64), Pair>,
    ) -> Self {
        let mut found = Self::new(evaluator, t, &[], &[], output);
        found.ready = (found.pending.iter())
            .filter_map(|&giant| Some((giant, sums.remove(&(output, giant))?)))
            .collect();
        found
    }

    pub(super) fn largest(&self) -> i64 {
        self.pending.last().copied().unwrap_or(0)
    }

    pub(super) fn giants_zero_last(&self) -> Vec<i64> {
        let nonzero = self.pending.iter().rev().filter(|g| **g != 0);
        nonzero
            .chain(self.pending.iter().find(|g| **g == 0))
            .copied()
            .collect()
    }

    /// The sum of one giant; `None` when it has no terms or was taken before.
    pub(super) fn take(&mut self, giant: i64) -> Option<Pair> {
        while !self.ready.contains_key(&giant) && self.pending.contains(&giant) {
            self.compute_next();
        }
        self.pending.retain(|&other| other != giant);
        self.ready.remove(&giant)
    }

    fn compute_next(&mut self) {
        let e = self.evaluator;
        let keep = self.pending.len().saturating_sub(e.pairs_in_chunk(self.t));
        let giants = self.pending.split_off(keep);
        let wanted: Vec<(usize, i64)> = giants.iter().map(|g| (self.output, *g)).collect();
        let mut sums = e.zero_pairs(giants.len(), self.t);
        e.accumulate(&mut sums, &pick(self.t, self.steps, &wanted), self.babies, self.t);
        self.ready.extend(giants.into_iter().zip(sums));
    }
}

/// For each wanted (output, giant): its terms as (index of the baby in `steps`, vector).
pub(super) fn pick(
    t: &EncodedTransform,
    steps: &[(usize, i64)],
    wanted: &[(usize, i64)],
) -> Vec<Vec<(usize, usize)>> {
    let place: HashMap<(usize, i64), usize> = wanted.iter().enumerate().map(|(k, &key)| (key, k)).collect();
    let mut out = vec![Vec::new(); wanted.len()];
    for x in &t.terms {
        let slot = place.get(&(x.output, x.giant));
        let baby = steps.binary_search(&(x.input, x.baby));
        if let (Some(&k), Ok(b)) = (slot, baby) {
            out[k].push((b, x.vector));
        }
    }
    out
}

/// The run values of a plaintext limb that cover a block of coefficients.
pub(super) fn runs_of<'a>(w: &'a [f64], block: &std::ops::Range<usize>, n: usize) -> &'a [f64] {
    let run = n / w.len();
    &w[block.start / run..block.end.div_ceil(run)]
}
