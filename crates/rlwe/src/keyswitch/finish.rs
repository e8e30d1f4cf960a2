//! The last step of a key switch, a block of a limb at a time: the inner levels of all transforms that the
//! block needs, then products, division, addition and permutation while it lies in the first-level cache.
//! Meanwhile the caches are asked for the next block.
use super::divide::{Division, Lift};
use super::pieces::{targets, Pieces};
use super::stationary::{pair, Ending, Limbs, Switch};
use crate::switching::{special_product, Rows, SwitchingKey};
use crate::RnsPoly;
use rayon::prelude::*;
use std::ops::Range;
use tacita_ring::{kernels, AlignedVec, Blocks, Lines, Modulus, NttTable, Permutation};

impl Switch<'_> {
    /// Divides the pair. sources: of both halves, see [`Division::scale`].
    pub(super) fn divided(
        &self,
        division: &Division,
        (ys0, ys1): &(Vec<AlignedVec>, Vec<AlignedVec>),
        ending: &Ending<'_>,
    ) -> (RnsPoly, RnsPoly) {
        let both = Pieces::of(2, self.params.n());
        let (lift0, lift1) = rayon::join(|| division.lift(ys0, both), || division.lift(ys1, both));
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
        let pieces = Pieces::of(division.keep, self.params.n());
        let digits = self.digits(group, pieces);
        let [lifts0, lifts1] = lifts.map(|lift| lift.lifted(group, pieces));
        let made = group.iter().zip(digits).zip(lifts0.into_iter().zip(lifts1));
        pieces.map(made.collect(), |((&i, digits), (l0, l1))| {
            self.target(division, ending, i).finish(digits, [l0, l1], pieces)
        })
    }

    /// Limb i, about to be finished.
    fn target<'a>(&'a self, division: &Division, ending: &Ending<'a>, i: usize) -> Target<'a> {
        let (m, c) = (self.params.modulus(i), division.inverse(i));
        Target {
            m,
            table: self.params.table(i),
            key: (self.key, self.params.key_limb(i)),
            own: &self.c1.limbs[i],
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
    /// One over the divisor.
    c: u64,
    add: [Option<&'a [f64]>; 2],
    /// P over the divisor.
    e: u64,
    permutation: Option<&'a Permutation>,
}

/// A block of the result, and what it is made of.
struct Block<'a> {
    start: usize,
    /// Where it comes from.
    part: Range<usize>,
    /// That part of the digits that are not the target's own, and of both lifts.
    limbs: Vec<Blocks<'a>>,
    out: [&'a mut [f64]; 2],
}

impl Target<'_> {
    /// digits: none for the target's own.
    fn finish(
        &self,
        mut digits: Vec<Option<AlignedVec>>,
        mut lifts: [AlignedVec; 2],
        pieces: Pieces,
    ) -> Limbs {
        let own: Vec<bool> = digits.iter().map(Option::is_none).collect();
        let n = self.table.n();
        let mut limbs: Vec<&mut [f64]> = digits
            .iter_mut()
            .flatten()
            .chain(&mut lifts)
            .map(|x| &mut x[..])
            .collect();
        pieces.forward_columns(self.table, &mut limbs);
        let mut out = [AlignedVec::scratch(n), AlignedVec::scratch(n)];
        let mut blocks = self.result_blocks(limbs, &mut out);
        let each = blocks.len().div_ceil(pieces.count());
        pieces.map(blocks.chunks_mut(each).collect(), |blocks| {
            self.end_blocks(&own, blocks)
        });
        drop(blocks);
        out.into()
    }

    /// The blocks of the result in order.
    fn result_blocks<'b>(&self, limbs: Vec<&'b mut [f64]>, out: &'b mut [AlignedVec; 2]) -> Vec<Block<'b>> {
        let count = self.table.block_count();
        let len = self.table.n() / count;
        let mut sources: Vec<Vec<Blocks<'b>>> = (0..count).map(|_| Vec::new()).collect();
        for x in limbs {
            let parts = sources.iter_mut().zip(self.table.blocks(x, count));
            parts.for_each(|(source, part)| source.push(part));
        }
        let [out0, out1] = out;
        let outs = out0.chunks_exact_mut(len).zip(out1.chunks_exact_mut(len));
        let block = |(k, (out0, out1)): (usize, (&'b mut [f64], &'b mut [f64]))| {
            let part = self.source(k * len, len);
            Block {
                start: k * len,
                limbs: std::mem::take(&mut sources[part.start / len]),
                part,
                out: [out0, out1],
            }
        };
        outs.enumerate().map(block).collect()
    }

    /// own: by digit, whether it is the target's own.
    fn end_blocks(&self, own: &[bool], blocks: &mut [Block<'_>]) {
        let (mut ahead, mut before) = (Lines::default(), AlignedVec::scratch(blocks[0].part.len()));
        for at in 0..blocks.len() {
            let (done, next) = blocks.split_at_mut(at + 1);
            if let Some(next) = next.first() {
                self.ask_for(&mut ahead, own.len(), next);
            }
            let block = &mut done[at];
            self.table.forward_block(&mut block.limbs, &mut ahead);
            self.end_block(own, block, &mut before);
        }
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
    fn ask_for(&self, ahead: &mut Lines, digits: usize, block: &Block<'_>) {
        let part = &block.part;
        ahead.clear();
        block.limbs.iter().for_each(|x| ahead.add(&x[..]));
        for x in self.add.into_iter().flatten() {
            ahead.add(&x[part.clone()]);
        }
        let (key, at) = self.key;
        key.ask_for(digits, at, part, ahead);
        ahead.add(self.table.block_roots(part.start / part.len()));
    }

    /// Both halves of one block; `before` is room for one before it is permuted.
    fn end_block(&self, own: &[bool], block: &mut Block<'_>, before: &mut [f64]) {
        let (limbs, part) = (&block.limbs, &block.part);
        let mut others = limbs.iter().map(|x| &x[..]);
        let ds: Vec<&[f64]> = own
            .iter()
            .filter_map(|&own| {
                if own {
                    Some(&self.own[part.clone()])
                } else {
                    others.next()
                }
            })
            .collect();
        let lifts = others.collect::<Vec<_>>();
        for (half, (out, lift)) in block.out.iter_mut().zip(lifts).enumerate() {
            match self.permutation {
                None => self.divide(half, part, (&ds, lift), out),
                Some(permutation) => {
                    self.divide(half, part, (&ds, lift), before);
                    if before.len() == self.own.len() {
                        permutation.apply(out, before);
                    } else {
                        permutation.apply_block(out, block.start, before);
                    }
                }
            }
        }
    }

    fn divide(&self, half: usize, part: &Range<usize>, (ds, lift): (&[&[f64]], &[f64]), out: &mut [f64]) {
        let (key, at) = self.key;
        let add = self.add[half].map(|a| (&a[part.clone()], self.e));
        match key.rows(half, ds.len(), at, part) {
            Rows::Packed(ks) => kernels::divided_product_packed(self.m, out, ds, &ks, lift, self.c, add),
            Rows::Doubles(ks) => kernels::divided_product(self.m, out, ds, &ks, lift, self.c, add),
        }
    }
}
