//! The last step of a key switch, a block of a limb at a time: the inner levels of all transforms that the
//! block needs, then products, division, addition and permutation while it lies in the first-level cache.
//! Meanwhile the caches are asked for the next block.
use super::divide::{targets, Division, Lift};
use super::stationary::{pair, Ending, Limbs, Switch};
use crate::switching::{special_product, Rows, SwitchingKey};
use crate::RnsPoly;
use rayon::prelude::*;
use std::ops::Range;
use tacita_ring::{kernels, AlignedVec, Lines, Modulus, NttTable, Permutation};

impl Switch<'_> {
    /// Divides the pair. sources: of both halves, see [`Division::source`].
    pub(super) fn divided(
        &self,
        division: &Division,
        (ys0, ys1): &(Vec<AlignedVec>, Vec<AlignedVec>),
        ending: &Ending<'_>,
    ) -> (RnsPoly, RnsPoly) {
        let (lift0, lift1) = rayon::join(|| division.lift(ys0), || division.lift(ys1));
        let pairs = targets(division.keep)
            .into_par_iter()
            .flat_map_iter(|group| self.finished(division, [&lift0, &lift1], ending, &group));
        pair(pairs.collect(), division.keep)
    }

    /// Limbs `group` of the result.
    fn finished(
        &self,
        division: &Division,
        lifts: [&Lift<'_>; 2],
        ending: &Ending<'_>,
        group: &[usize],
    ) -> Vec<Limbs> {
        let digits = self.digits(group);
        let [lifts0, lifts1] = lifts.map(|lift| lift.lifted(group));
        let made = digits.into_iter().zip(lifts0.into_iter().zip(lifts1));
        let target = |(&i, (digits, (l0, l1)))| self.target(division, ending, i, digits, [l0, l1]).finish();
        group.iter().zip(made).map(target).collect()
    }

    /// Limb i, about to be finished. digits: none for its own.
    fn target<'a>(
        &'a self,
        division: &Division,
        ending: &Ending<'a>,
        i: usize,
        digits: Vec<Option<AlignedVec>>,
        lifts: [AlignedVec; 2],
    ) -> Target<'a> {
        let (m, c) = (self.params.modulus(i), division.inverse(i));
        Target {
            m,
            table: self.params.table(i),
            key: (self.key, i),
            own: &self.c1.limbs[i],
            digits,
            lifts,
            c,
            add: ending.add.map(|poly| Some(&poly?.limbs[i][..])),
            e: m.mul(c, special_product(self.params, self.key.special, i)),
            permutation: ending.permutation,
        }
    }
}

/// One ciphertext limb of both halves of the result.
struct Target<'a> {
    m: &'a Modulus,
    table: &'a NttTable,
    /// The key, and which of its limbs.
    key: (&'a SwitchingKey, usize),
    /// The limb of the polynomial that is switched.
    own: &'a [f64],
    /// None where it is `own`.
    digits: Vec<Option<AlignedVec>>,
    lifts: [AlignedVec; 2],
    /// One over the divisor.
    c: u64,
    add: [Option<&'a [f64]>; 2],
    /// P over the divisor.
    e: u64,
    permutation: Option<&'a Permutation>,
}

impl Target<'_> {
    fn finish(mut self) -> Limbs {
        let (table, n) = (self.table, self.table.n());
        for x in self.transformed() {
            table.forward_outer(x);
        }
        let (len, mut ahead) = (n / table.blocks(), Lines::default());
        let mut before = AlignedVec::scratch(len);
        let mut out = [AlignedVec::scratch(n), AlignedVec::scratch(n)];
        for start in (0..n).step_by(len) {
            let part = self.source(start, len);
            if start + len < n {
                self.ask_for(&mut ahead, self.source(start + len, len));
            }
            let block = part.start / len;
            table.forward_block(&mut self.transformed(), block, &mut ahead);
            for (half, out) in out.iter_mut().enumerate() {
                self.end_block(
                    half,
                    part.clone(),
                    (start, &mut out[start..start + len]),
                    &mut before,
                );
            }
        }
        out.into()
    }

    fn transformed(&mut self) -> Vec<&mut [f64]> {
        let limbs = self.digits.iter_mut().flatten().chain(&mut self.lifts);
        limbs.map(|x| &mut x[..]).collect()
    }

    /// Where the block at `start` comes from.
    fn source(&self, start: usize, len: usize) -> Range<usize> {
        let whole = len == self.own.len();
        let from = self
            .permutation
            .filter(|_| !whole)
            .map_or(start, |p| p.source(start, len));
        from..from + len
    }

    /// What a block reads that lies farther away than the second-level cache may reach.
    fn ask_for(&self, ahead: &mut Lines, part: Range<usize>) {
        let roots = self.table.block_roots(part.start / part.len());
        let limbs = self.digits.iter().flatten().chain(&self.lifts).map(|x| &x[..]);
        ahead.clear();
        for x in limbs.chain(self.add.into_iter().flatten()) {
            ahead.add(&x[part.clone()]);
        }
        let (key, at) = self.key;
        key.ask_for(self.digits.len(), at, &part, ahead);
        ahead.add(roots);
    }

    /// One block of one half; `before` is room for it before it is permuted.
    fn end_block(
        &self,
        half: usize,
        part: Range<usize>,
        (start, out): (usize, &mut [f64]),
        before: &mut [f64],
    ) {
        match self.permutation {
            None => self.divide(half, part, out),
            Some(permutation) => {
                self.divide(half, part, before);
                if before.len() == self.own.len() {
                    permutation.apply(out, before);
                } else {
                    permutation.apply_block(out, start, before);
                }
            }
        }
    }

    fn divide(&self, half: usize, part: Range<usize>, out: &mut [f64]) {
        let limbs = self
            .digits
            .iter()
            .map(|x| x.as_ref().map_or(self.own, |x| &x[..]));
        let ds: Vec<&[f64]> = limbs.map(|x| &x[part.clone()]).collect();
        let (key, at) = self.key;
        let add = self.add[half].map(|a| (&a[part.clone()], self.e));
        let lift = &self.lifts[half][part.clone()];
        match key.rows(half, ds.len(), at, &part) {
            Rows::Packed(ks) => kernels::divided_product_packed(self.m, out, &ds, &ks, lift, self.c, add),
            Rows::Doubles(ks) => kernels::divided_product(self.m, out, &ds, &ks, lift, self.c, add),
        }
    }
}
