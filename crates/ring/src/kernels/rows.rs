//! Limbs that a kernel multiplies by: as doubles, or packed and unpacked in registers as they are read.
use super::view::View;
use crate::ahead::fetch;
use crate::packed::{self, Row, GROUP};
use crate::simd::Simd;
use crate::Modulus;

/// Some limbs of one length, which is a multiple of LANES wherever [`Rows::at`] is called.
pub(super) trait Rows<S: Simd>: Copy {
    fn count(&self) -> usize;
    /// Have all of them this length?
    fn are(&self, len: usize) -> bool;
    /// Values i.. of limb t, for i + LANES <= length.
    fn at(&self, t: usize, i: usize) -> S::V;
    /// Asks the caches for values i.. of limb t, which may lie behind its end.
    fn fetch(&self, t: usize, i: usize);
}

/// As they are.
#[derive(Clone, Copy)]
pub(super) struct Doubles<'a, S: Simd>(pub(super) S, pub(super) &'a [&'a [f64]]);

impl<S: Simd> Rows<S> for Doubles<'_, S> {
    #[inline(always)]
    fn count(&self) -> usize {
        self.1.len()
    }
    #[inline(always)]
    fn are(&self, len: usize) -> bool {
        self.1.iter().all(|row| row.len() == len)
    }
    #[inline(always)]
    fn at(&self, t: usize, i: usize) -> S::V {
        View(self.0, self.1[t]).at(i)
    }
    #[inline(always)]
    fn fetch(&self, t: usize, i: usize) {
        fetch_at(self.1[t], i);
    }
}

/// Residues modulo one prime.
#[derive(Clone, Copy)]
pub(super) struct Packed<'a, S: Simd> {
    s: S,
    rows: &'a [Row<'a>],
    width: usize,
    how: S::Unpacking,
}

impl<'a, S: Simd> Packed<'a, S> {
    #[inline(always)]
    pub(super) fn new(s: S, m: &Modulus, rows: &'a [Row<'a>]) -> Self {
        let width = packed::width(m.p());
        let how = s.unpacking(width);
        Self { s, rows, width, how }
    }
}

impl<S: Simd> Rows<S> for Packed<'_, S> {
    #[inline(always)]
    fn count(&self) -> usize {
        self.rows.len()
    }
    #[inline(always)]
    fn are(&self, len: usize) -> bool {
        self.rows
            .iter()
            .all(|row| row.len() == len && row.holds(self.width))
    }
    #[inline(always)]
    fn at(&self, t: usize, i: usize) -> S::V {
        debug_assert!(i + S::LANES <= self.rows[t].len());
        // SAFETY: a row has its groups of this width and SLACK bytes behind them: `are` says so.
        unsafe {
            let group = self.rows[t].as_ptr().add(i / GROUP * self.width);
            self.s.unpack(group, i % GROUP, &self.how)
        }
    }
    #[inline(always)]
    fn fetch(&self, t: usize, i: usize) {
        fetch(self.rows[t].as_ptr().wrapping_add(i / GROUP * self.width));
    }
}

/// Asks the caches for `x[i]`, which may lie behind the end of x.
#[inline(always)]
pub(super) fn fetch_at(x: &[f64], i: usize) {
    fetch(x.as_ptr().wrapping_add(i).cast());
}
