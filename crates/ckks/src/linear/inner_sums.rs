//! Inner sums of a baby-step giant-step transform: plaintext vectors times rotated inputs, some giants at a
//! time.
use super::babies::Halves;
use super::tiled::Tiled;
use super::transform::EncodedTransform;
use crate::backend::{Context, Pair};
use crate::processor::Processor;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tacita_ring::{kernels, AlignedVec, Modulus};
use tacita_rlwe::RnsPoly;

/// Coefficients per cache block.
const BLOCK: usize = 2048;

impl Context<'_, Processor> {
    pub(super) fn zero_pair(&self, t: &EncodedTransform) -> Pair<RnsPoly> {
        let zero = || RnsPoly::zero(self.params.rlwe(), t.limbs, self.special(t));
        Pair(zero(), zero())
    }

    pub(super) fn zero_pairs(&self, count: usize, t: &EncodedTransform) -> Vec<Pair<RnsPoly>> {
        (0..count).map(|_| self.zero_pair(t)).collect()
    }

    /// Pairs that hold anything.
    pub(super) fn scratch_pairs(&self, count: usize, t: &EncodedTransform) -> Vec<Pair<RnsPoly>> {
        let limbs = t.limbs + self.special(t);
        let scratch = || RnsPoly {
            limbs: (0..limbs)
                .map(|_| AlignedVec::scratch(self.params.rlwe().n()))
                .collect(),
            q_len: t.limbs,
        };
        (0..count).map(|_| Pair(scratch(), scratch())).collect()
    }

    /// The prime of limb `at` of a polynomial over Q and P that has so many limbs over Q.
    pub(super) fn index(&self, at: usize, limbs: usize) -> usize {
        if at < limbs {
            at
        } else {
            self.params.rlwe().p_index(at - limbs)
        }
    }

    /// `sums[k]` += sum of vector * baby over `terms[k]` = (baby, vector), or = where they are fresh: limb by
    /// limb and block by block, so that the babies' block stays in cache while all sums read it.
    pub(super) fn accumulate(
        &self,
        sums: &mut [Pair<RnsPoly>],
        terms: &[Vec<(usize, usize)>],
        babies: &[Halves<'_>],
        t: &EncodedTransform,
        fresh: bool,
    ) {
        let tiled = Tiled::new(self.params.rlwe().n(), terms, t);
        by_limb(sums).into_par_iter().enumerate().for_each(|(at, row)| {
            let place = (self.params.rlwe().modulus(self.index(at, t.limbs)), at);
            match &tiled {
                Some(tiled) => add_tiles(place, row, tiled, babies, fresh),
                None => self.add_terms(place, row, terms, babies, t, fresh),
            }
        });
    }

    /// One limb, term by term.
    pub(super) fn add_terms(
        &self,
        (m, at): (&Modulus, usize),
        sums: [Vec<&mut AlignedVec>; 2],
        terms: &[Vec<(usize, usize)>],
        babies: &[Halves<'_>],
        t: &EncodedTransform,
        fresh: bool,
    ) {
        let n = self.params.rlwe().n();
        let add = if fresh {
            kernels::sum_runs
        } else {
            kernels::mac_runs
        };
        for (half, mut sums) in sums.into_iter().enumerate() {
            for start in (0..n).step_by(BLOCK) {
                let block = start..(start + BLOCK).min(n);
                for (limb, terms) in sums.iter_mut().zip(terms) {
                    let term = |&(b, v): &(usize, usize)| {
                        let weights = runs_of(&t.vectors[v][at], &block, n);
                        (&babies[b][half].limbs[at][block.clone()], weights)
                    };
                    let products: Vec<(&[f64], &[f64])> = terms.iter().map(term).collect();
                    add(m, &mut limb[block.clone()], &products);
                }
            }
        }
    }
}

/// One limb, by tiles.
fn add_tiles(
    (m, at): (&Modulus, usize),
    mut sums: [Vec<&mut AlignedVec>; 2],
    tiled: &Tiled<'_>,
    babies: &[Halves<'_>],
    fresh: bool,
) {
    let mut workspace = tiled.workspace(at, babies.len());
    for part in tiled.blocks() {
        for (half, panels) in workspace.panels.iter_mut().enumerate() {
            for &b in tiled.used() {
                panels.set(b, &babies[b][half].limbs[at][part.clone()]);
            }
        }
        let blocks = sums
            .each_mut()
            .map(|half| half.iter_mut().map(|limb| &mut limb[part.clone()]).collect());
        tiled.add(m, part.start, &mut workspace, blocks, fresh);
    }
}

/// The limbs of both halves of all pairs: by limb, by half.
pub(super) fn by_limb(sums: &mut [Pair<RnsPoly>]) -> Vec<[Vec<&mut AlignedVec>; 2]> {
    let limbs = sums.first().map_or(0, |pair| pair.0.limbs.len());
    let mut rows: Vec<[Vec<&mut AlignedVec>; 2]> = (0..limbs).map(|_| [Vec::new(), Vec::new()]).collect();
    for Pair(first, second) in sums {
        for (row, (x0, x1)) in rows.iter_mut().zip(first.limbs.iter_mut().zip(&mut second.limbs)) {
            row[0].push(x0);
            row[1].push(x1);
        }
    }
    rows
}

/// The inner sums of one output, computed several giants at a time (largest first) as far as memory allows.
pub(super) struct InnerSums<'a> {
    context: &'a Context<'a, Processor>,
    pub(super) t: &'a EncodedTransform,
    steps: &'a [(usize, i64)],
    babies: &'a [Halves<'a>],
    output: usize,
    /// Giants not computed yet, ascending.
    pending: Vec<i64>,
    ready: BTreeMap<i64, Pair<RnsPoly>>,
}

impl<'a> InnerSums<'a> {
    pub(super) fn new(
        context: &'a Context<'a, Processor>,
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
            context,
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
        context: &'a Context<'a, Processor>,
        t: &'a EncodedTransform,
        output: usize,
        sums: &mut BTreeMap<(usize, i64), Pair<RnsPoly>>,
    ) -> Self {
        let mut found = Self::new(context, t, &[], &[], output);
        found.ready = (found.pending.iter())
            .filter_map(|&giant| Some((giant, sums.remove(&(output, giant))?)))
            .collect();
        found
    }

    /// Those that were not taken, ascending.
    pub(super) fn giants(&self) -> Vec<i64> {
        self.pending.clone()
    }

    /// The sum of one giant; `None` when it has no terms or was taken before.
    pub(super) fn take(&mut self, giant: i64) -> Option<Pair<RnsPoly>> {
        while !self.ready.contains_key(&giant) && self.pending.contains(&giant) {
            self.compute_next();
        }
        self.pending.retain(|&other| other != giant);
        self.ready.remove(&giant)
    }

    fn compute_next(&mut self) {
        let e = self.context;
        let keep = self.pending.len().saturating_sub(e.pairs_in_chunk(self.t));
        let giants = self.pending.split_off(keep);
        let wanted: Vec<(usize, i64)> = giants.iter().map(|g| (self.output, *g)).collect();
        let mut sums = e.scratch_pairs(giants.len(), self.t);
        let terms = pick(self.t, self.steps, &wanted);
        e.accumulate(&mut sums, &terms, self.babies, self.t, true);
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
