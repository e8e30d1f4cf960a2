//! Storage of limbs: vectors of doubles on 64-byte boundaries (one cache line, one AVX-512 register).

use std::ops::{Deref, DerefMut};

const LINE: usize = 8;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct CacheLine([f64; LINE]);

/// A `[f64]` of fixed length that starts on a 64-byte boundary.
#[derive(Clone)]
pub struct AlignedVec {
    lines: Vec<CacheLine>,
    len: usize,
}

impl AlignedVec {
    /// `len` zeros.
    pub fn zeroed(len: usize) -> Self {
        Self {
            lines: vec![CacheLine([0.0; LINE]); len.div_ceil(LINE)],
            len,
        }
    }

    /// A copy of `values`.
    pub fn from_slice(values: &[f64]) -> Self {
        let mut out = Self::zeroed(values.len());
        out.copy_from_slice(values);
        out
    }
}

impl Deref for AlignedVec {
    type Target = [f64];
    fn deref(&self) -> &[f64] {
        // SAFETY: `lines` owns at least `len` contiguous initialised doubles (repr(C), no padding).
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }
}

impl DerefMut for AlignedVec {
    fn deref_mut(&mut self) -> &mut [f64] {
        // SAFETY: as in `deref`, and `&mut self` makes the borrow unique.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
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
    fn copies_and_compares() {
        let mut v = AlignedVec::from_slice(&[1.0, 2.0, 3.0]);
        v[1] = 5.0;
        assert_eq!(v.clone(), v);
        assert_eq!(&v[..], &[1.0, 5.0, 3.0]);
    }
}
