//! Slices that kernels read and write a vector at a time.
//!
//! Views carry the one memory invariant: every index is below the common length that [`lengths_fit`] checked,
//! and that length is a multiple of LANES. Their bounds are checked in debug builds only: no index comes from
//! data, and every loop ends at the length that was checked.
use crate::simd::Simd;

#[derive(Clone, Copy)]
pub(super) struct View<'a, S: Simd>(pub(super) S, pub(super) &'a [f64]);
pub struct ViewMut<'a, S: Simd>(pub(super) S, pub(super) &'a mut [f64]);

impl<S: Simd> View<'_, S> {
    #[inline(always)]
    pub(super) fn at(&self, i: usize) -> S::V {
        debug_assert!(i + S::LANES <= self.1.len());
        // SAFETY: i + LANES <= len, by the invariant of the module.
        unsafe { self.0.load(self.1.as_ptr().add(i)) }
    }
}

impl<S: Simd> ViewMut<'_, S> {
    #[inline(always)]
    pub(super) fn at(&self, i: usize) -> S::V {
        debug_assert!(i + S::LANES <= self.1.len());
        // SAFETY: i + LANES <= len, by the invariant of the module.
        unsafe { self.0.load(self.1.as_ptr().add(i)) }
    }
    #[inline(always)]
    pub(super) fn set(&mut self, i: usize, v: S::V) {
        debug_assert!(i + S::LANES <= self.1.len());
        // SAFETY: i + LANES <= len, by the invariant of the module.
        unsafe { self.0.store(self.1.as_mut_ptr().add(i), v) }
    }
}

/// Panics unless all lengths agree; false if they are no multiple of the vector.
#[inline(always)]
pub(super) fn lengths_fit<S: Simd>(n: usize, others: &[usize]) -> bool {
    assert!(
        others.iter().all(|&len| len == n),
        "slices of different lengths: {n} and {others:?}"
    );
    n.is_multiple_of(S::LANES)
}
