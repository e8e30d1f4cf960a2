//! Storage of limbs: vectors of doubles on 64-byte boundaries (one cache line, one AVX-512 register).
//!
//! Limb-sized buffers are recycled through [`crate::pool`]: a homomorphic operation needs dozens of them for
//! microseconds each, and page faults on fresh memory would cost more than the arithmetic.

use crate::pool;
use std::ops::{Deref, DerefMut};

const LINE: usize = 8;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct CacheLine([f64; LINE]);

enum Storage {
    Heap(Vec<CacheLine>),
    Pooled(pool::Buffer),
}

/// A `[f64]` of fixed length that starts on a 64-byte boundary.
pub struct AlignedVec {
    storage: Storage,
    len: usize,
}

impl AlignedVec {
    /// `len` zeros.
    pub fn zeroed(len: usize) -> Self {
        let mut out = Self::scratch(len);
        if matches!(out.storage, Storage::Pooled(_)) {
            out.fill(0.0);
        }
        out
    }

    /// `len` initialised but arbitrary doubles, for callers that overwrite all of them.
    pub fn scratch(len: usize) -> Self {
        let storage = match pool::Buffer::take(len) {
            Some(buffer) => Storage::Pooled(buffer),
            None => Storage::Heap(vec![CacheLine([0.0; LINE]); len.div_ceil(LINE)]),
        };
        Self { storage, len }
    }

    /// A copy of `values`.
    pub fn from_slice(values: &[f64]) -> Self {
        let mut out = Self::scratch(values.len());
        out.copy_from_slice(values);
        out
    }
}

impl Clone for AlignedVec {
    fn clone(&self) -> Self {
        Self::from_slice(self)
    }
}

impl Deref for AlignedVec {
    type Target = [f64];
    fn deref(&self) -> &[f64] {
        let start = match &self.storage {
            Storage::Heap(lines) => lines.as_ptr().cast(),
            Storage::Pooled(buffer) => buffer.start(),
        };
        // SAFETY: both storages own at least `len` contiguous initialised doubles (repr(C) without padding;
        // pool buffers are zeroed when made and hold doubles ever after).
        unsafe { std::slice::from_raw_parts(start, self.len) }
    }
}

impl DerefMut for AlignedVec {
    fn deref_mut(&mut self) -> &mut [f64] {
        let start = match &mut self.storage {
            Storage::Heap(lines) => lines.as_mut_ptr().cast(),
            Storage::Pooled(buffer) => buffer.start(),
        };
        // SAFETY: as in `deref`, and `&mut self` makes the borrow unique.
        unsafe { std::slice::from_raw_parts_mut(start, self.len) }
    }
}

impl std::fmt::Debug for AlignedVec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl PartialEq for AlignedVec {
    fn eq(&self, other: &Self) -> bool {
        self[..] == other[..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_on_a_cache_line_for_every_length() {
        for len in [0, 1, 7, 8, 9, 1000] {
            let v = AlignedVec::zeroed(len);
            assert_eq!((v.as_ptr() as usize) % 64, 0);
            assert_eq!(v.len(), len);
        }
    }

    #[test]
    fn recycled_buffers_come_back_zeroed_when_asked() {
        for _ in 0..3 {
            let mut v = AlignedVec::zeroed(1 << 13);
            assert!(v.iter().all(|&x| x == 0.0));
            v.fill(7.0);
            assert_eq!(v.clone(), v);
        }
    }

    #[test]
    fn copies_and_compares() {
        let mut v = AlignedVec::from_slice(&[1.0, 2.0, 3.0]);
        v[1] = 5.0;
        assert_eq!(v.clone(), v);
        assert_eq!(&v[..], &[1.0, 5.0, 3.0]);
    }
}
