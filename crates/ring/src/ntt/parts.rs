//! One limb transformed by several tasks at once. A limb is a matrix whose rows are its blocks: the levels
//! that join far values run column by column, all others row by row, and neither kind has to do with the
//! others of its kind. Between both kinds all tasks of a limb must have ended, which the borrows of the limb
//! see to.
use super::vector::{Limb, Strip};
use super::{reference, vector, NttTable, Path};
use crate::ahead::Lines;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};

/// Columns of a limb.
pub struct Columns<'a> {
    limb: Limb,
    n: usize,
    strip: Strip,
    borrow: PhantomData<&'a mut [f64]>,
}

/// Consecutive blocks of a limb, as a slice of their values.
pub struct Blocks<'a> {
    limb: Limb,
    n: usize,
    blocks: Range<usize>,
    /// Values of a block.
    len: usize,
    borrow: PhantomData<&'a mut [f64]>,
}

// SAFETY: both stand for a part of a borrowed limb that no other of its kind has, and which they alone reach.
unsafe impl Send for Columns<'_> {}
// SAFETY: as above.
unsafe impl Send for Blocks<'_> {}
// SAFETY: shared ones are only read.
unsafe impl Sync for Blocks<'_> {}

impl Deref for Blocks<'_> {
    type Target = [f64];
    fn deref(&self) -> &[f64] {
        let (start, count) = (self.limb.at(self.blocks.start * self.len), self.blocks.len());
        // SAFETY: these blocks of the limb, which are borrowed with `self` alone.
        unsafe { std::slice::from_raw_parts(start, count * self.len) }
    }
}

impl DerefMut for Blocks<'_> {
    fn deref_mut(&mut self) -> &mut [f64] {
        let (start, count) = (self.limb.at(self.blocks.start * self.len), self.blocks.len());
        // SAFETY: as in `deref`, and `&mut self` makes the borrow unique.
        unsafe { std::slice::from_raw_parts_mut(start, count * self.len) }
    }
}

impl NttTable {
    /// How many blocks [`NttTable::forward_columns`] leaves.
    pub fn block_count(&self) -> usize {
        self.tables().map_or(1, |tables| 1 << tables.log_blocks())
    }

    /// A limb as so many parts (a power of two) of its columns, or as one if it has no more.
    pub fn columns<'a>(&self, x: &'a mut [f64], parts: usize) -> Vec<Columns<'a>> {
        let (limb, n, row) = (Limb::new(x, self.n()), self.n(), self.n() / self.block_count());
        let count = (row / parts.max(1)).next_power_of_two().max(row.min(LEAST));
        let part = |first| Columns {
            limb,
            n,
            strip: Strip { first, count, row },
            borrow: PhantomData,
        };
        (0..row).step_by(count).map(part).collect()
    }

    /// A limb as so many parts (a power of two) of its blocks, or as single blocks if it has no more.
    pub fn blocks<'a>(&self, x: &'a mut [f64], parts: usize) -> Vec<Blocks<'a>> {
        let (limb, n, blocks) = (Limb::new(x, self.n()), self.n(), self.block_count());
        let count = (blocks / parts.max(1)).max(1);
        let part = |first| Blocks {
            limb,
            n,
            blocks: first..first + count,
            len: n / blocks,
            borrow: PhantomData,
        };
        (0..blocks).step_by(count).map(part).collect()
    }

    /// The levels of [`NttTable::forward`] that concern all blocks, in some columns.
    pub fn forward_columns(&self, x: Columns<'_>) {
        let columns = self.own(x.n, x.strip);
        by_lanes!(self, outer_four | outer_eight as run, tables => {
            run(&self.modulus, tables, [x.limb], 0, columns)
        }, {})
    }

    /// The rest of it, for the same blocks of each limb, two limbs at a time. After `forward_columns` of all
    /// columns.
    pub fn forward_blocks(&self, xs: &mut [Blocks<'_>]) {
        for pair in xs.chunks_mut(2) {
            match pair {
                [x, y] => self.blocks_of([x, y]),
                pair => pair.iter_mut().for_each(|x| self.blocks_of([x])),
            }
        }
    }

    /// In how many parts [`NttTable::forward_prefix_blocks`] can do a limb of which only the first `len` (a
    /// power of two) coefficients are not zero: all levels before the blocks are copies, or it is one part.
    pub fn prefix_parts(&self, len: usize) -> usize {
        let levels = self.log_n - len.ilog2();
        let parts = |tables: &super::plan::Tables| 1 << tables.log_blocks();
        let copied = |tables: &&super::plan::Tables| tables.whole_passes(levels) >= tables.log_blocks();
        self.tables().filter(copied).map_or(1, parts)
    }

    /// [`NttTable::forward_prefix`] for one of so many parts; x begins with the `len` coefficients.
    pub fn forward_prefix_blocks(&self, x: &mut Blocks<'_>, len: usize) {
        let blocks = self.same(&[x]);
        assert_eq!(
            blocks.len() * self.prefix_parts(len),
            self.block_count(),
            "forward: parts of another number of coefficients"
        );
        if blocks.len() == self.block_count() {
            return self.forward_prefix(x, len);
        }
        by_lanes!(self, blocks_four | blocks_eight as run, tables => {
            let done = tables.whole_passes(self.log_n - len.ilog2());
            spread(x, len, self.n() >> done);
            run(&self.modulus, tables, [x.limb], blocks, done)
        }, {})
    }

    fn blocks_of<const K: usize>(&self, xs: [&mut Blocks<'_>; K]) {
        let blocks = self.same(&xs);
        by_lanes!(self, blocks_four | blocks_eight as run, tables => {
            run(&self.modulus, tables, xs.map(|x| x.limb), blocks, 0)
        }, {
            xs.into_iter().for_each(|x| self.reference_forward(x));
        })
    }

    /// The same for one block of each limb, which is left congruent to the values and below 2^51. ahead:
    /// lines that the caches are asked for meanwhile.
    pub fn forward_block(&self, xs: &mut [Blocks<'_>], ahead: &mut Lines) {
        for pair in xs.chunks_mut(2) {
            match pair {
                [x, y] => self.block_of([x, y], ahead),
                pair => pair.iter_mut().for_each(|x| self.block_of([x], ahead)),
            }
        }
    }

    fn block_of<const K: usize>(&self, xs: [&mut Blocks<'_>; K], ahead: &mut Lines) {
        let blocks = self.same(&xs);
        assert_eq!(blocks.len(), 1, "forward: one block");
        by_lanes!(self, block_four | block_eight as run, tables => {
            run(&self.modulus, tables, xs.map(|x| x.limb), (blocks.start, 0), ahead)
        }, {
            xs.into_iter().for_each(|x| self.reference_forward(x));
        })
    }

    /// The blocks of limbs of this table, which all have the same ones.
    fn same<const K: usize>(&self, xs: &[&mut Blocks<'_>; K]) -> Range<usize> {
        let (blocks, len) = (xs[0].blocks.clone(), self.n() / self.block_count());
        let fits = |x: &&mut Blocks<'_>| x.n == self.n() && x.blocks == blocks && x.len == len;
        assert!(
            xs.iter().all(fits),
            "blocks of another table, or not the same ones"
        );
        blocks
    }

    /// The columns of a limb of this table; none where they are all.
    fn own(&self, n: usize, strip: Strip) -> Option<Strip> {
        assert!(
            n == self.n() && strip.row == n / self.block_count(),
            "columns of another table"
        );
        (strip.count < strip.row).then_some(strip)
    }

    /// The largest table that [`NttTable::forward_block`] reads.
    pub fn block_roots(&self, block: usize) -> &[f64] {
        self.tables().map_or(&[], |tables| {
            let lanes = &tables.forward.lanes;
            let len = lanes.len() >> tables.log_blocks();
            &lanes[block * len..][..len]
        })
    }

    /// The levels of [`NttTable::inverse_centred`] that concern some blocks, of `from` (a whole limb) or of x
    /// itself. c: as there.
    pub fn inverse_blocks(&self, x: &mut Blocks<'_>, from: Option<&[f64]>, c: u64) {
        let blocks = self.same(&[x]);
        by_lanes!(self, inner_four | inner_eight as run, tables => {
            let from = from.map_or(x.limb, |from| Limb::source(from, self.n()));
            run(&self.modulus, tables, [from, x.limb], blocks, tables.scale(&self.modulus, c))
        }, {
            if let Some(from) = from {
                x.copy_from_slice(from);
            }
            reference::inverse(&self.modulus, self.integers(), x);
            let m = &self.modulus;
            x.iter_mut().for_each(|x| *x = m.center(m.mul(*x as u64, c)) as f64);
        })
    }

    /// The rest of it, in some columns. After `inverse_blocks` of all blocks.
    pub fn inverse_columns(&self, x: Columns<'_>, c: u64) {
        let columns = self.own(x.n, x.strip);
        by_lanes!(self, outer_inverse_four | outer_inverse_eight as run, tables => {
            run(&self.modulus, tables, [x.limb], columns, tables.scale(&self.modulus, c))
        }, {})
    }
}

/// The levels that only copy: the first `len` values and zeros up to `part`, again and again.
pub(super) fn spread(x: &mut [f64], len: usize, part: usize) {
    x[len..part].fill(0.0);
    for at in (part..x.len()).step_by(part) {
        x.copy_within(..part, at);
    }
}

/// Columns of a part, at least: two lines of the caches in a row.
const LEAST: usize = 16;
