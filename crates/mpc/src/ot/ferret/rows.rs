//! Sums of blocks at many positions: the inner loop of the matrix.
use super::params::D;

/// `out[i]` += sum of base at row i's positions. One 16-byte read a position, no bounds check inside the
/// loop: half the instructions of the safe form, so that more rows of cache misses are in flight.
#[cfg(target_arch = "x86_64")]
pub(super) fn add_rows(base: &[u128], rows: &[[u32; D]], out: &mut [u128]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_storeu_si128, _mm_xor_si128};
    let largest = rows.as_flattened().iter().fold(0, |largest, &at| largest.max(at));
    assert!((largest as usize) < base.len(), "a position beyond the inputs");
    let base = base.as_ptr().cast::<__m128i>();
    for (out, row) in out.iter_mut().zip(rows) {
        let target = std::ptr::from_mut(out).cast::<__m128i>();
        // SAFETY: every position is below the length of `base`, as just checked; `target` is a live block;
        // SSE2 is part of x86-64.
        unsafe {
            let mut sum = _mm_loadu_si128(target);
            for &at in row {
                sum = _mm_xor_si128(sum, _mm_loadu_si128(base.add(at as usize)));
            }
            _mm_storeu_si128(target, sum);
        }
    }
}

/// `out[i]` += sum of base at row i's positions.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn add_rows(base: &[u128], rows: &[[u32; D]], out: &mut [u128]) {
    add_rows_portable(base, rows, out);
}

/// The same in safe code, for anything that adds.
pub(super) fn add_rows_portable<T: Copy + std::ops::BitXor<Output = T>>(
    base: &[T],
    rows: &[[u32; D]],
    out: &mut [T],
) {
    for (out, row) in out.iter_mut().zip(rows) {
        *out = row.iter().fold(*out, |sum, &at| sum ^ base[at as usize]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_paths_add_the_same() {
        let base: Vec<u128> = (0..97u128).map(|i| (i + 1).pow(15)).collect();
        let row = |r: u32| std::array::from_fn(|i| (r * 31 + i as u32 * i as u32 * 7) % 97);
        let rows: Vec<[u32; D]> = (0..20).map(row).collect();
        for count in [0usize, 1, 20] {
            let (mut fast, mut portable) = (vec![7; count], vec![7; count]);
            add_rows(&base, &rows, &mut fast);
            add_rows_portable(&base, &rows, &mut portable);
            assert_eq!(fast, portable);
        }
    }

    #[test]
    #[should_panic(expected = "beyond the inputs")]
    fn a_position_beyond_the_inputs_is_refused() {
        add_rows(&[1; 4], &[[4; D]], &mut [0]);
    }
}
