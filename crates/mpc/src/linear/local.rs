//! Products modulo 2^64 of own shares: the server's x_0 W.
//!
//! Cost: k m n multiply-adds, some 10 Gmac/s a core with AVX-512 (64-bit low products are one instruction
//! there): a fiftieth of the whole product for 128 x 768 x 768.

use rayon::prelude::*;
use std::ops::Range;

/// Rows and columns of the outputs that stay in registers.
const ROWS: usize = 4;
const COLUMNS: usize = 32;
/// Rows of y that are gone through together, from column block to column block: so many pages are read side
/// by side, each from its begin to its end.
const DEPTH: usize = 64;

/// out += x y modulo 2^64: x is k x m, y is m x n (signed or not is the same modulo 2^64), out is k x n, all
/// row-major. Rows are shared out among threads.
pub fn multiply(x: &[u64], y: &[i64], out: &mut [u64], (k, m, n): (usize, usize, usize)) {
    assert!(
        x.len() == k * m && y.len() == m * n && out.len() == k * n,
        "matrix sizes"
    );
    let rows = k.div_ceil(rayon::current_num_threads()).next_multiple_of(ROWS);
    if rows >= k || m * n == 0 {
        return multiply_rows(x, y, out, (k, m, n));
    }
    let parts = out.par_chunks_mut(rows * n).zip(x.par_chunks(rows * m));
    parts.for_each(|(out, x)| multiply_rows(x, y, out, (out.len() / n, m, n)));
}

fn multiply_rows(x: &[u64], y: &[i64], out: &mut [u64], (k, m, n): (usize, usize, usize)) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512dq")]
        fn avx512(x: &[u64], y: &[i64], out: &mut [u64], dims: (usize, usize, usize)) {
            blocks(x, y, out, dims);
        }
        #[target_feature(enable = "avx2")]
        fn avx2(x: &[u64], y: &[i64], out: &mut [u64], dims: (usize, usize, usize)) {
            blocks(x, y, out, dims);
        }
        if is_x86_feature_detected!("avx512dq") && is_x86_feature_detected!("avx512f") {
            // SAFETY: the features were just found on this processor.
            return unsafe { avx512(x, y, out, (k, m, n)) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { avx2(x, y, out, (k, m, n)) };
        }
    }
    blocks(x, y, out, (k, m, n));
}

#[inline(always)]
fn blocks(x: &[u64], y: &[i64], out: &mut [u64], (k, m, n): (usize, usize, usize)) {
    let whole = n - n % COLUMNS;
    for first in (0..m).step_by(DEPTH) {
        let depth = first..m.min(first + DEPTH);
        for column in (0..whole).step_by(COLUMNS) {
            let mut row = 0;
            while row + ROWS <= k {
                block::<ROWS>(x, y, out, (row, column), (m, n), depth.clone());
                row += ROWS;
            }
            (row..k).for_each(|row| block::<1>(x, y, out, (row, column), (m, n), depth.clone()));
        }
    }
    for row in 0..k {
        for (j, &xj) in x[row * m..][..m].iter().enumerate() {
            for (o, &w) in out[row * n + whole..][..n - whole]
                .iter_mut()
                .zip(&y[j * n + whole..])
            {
                *o = o.wrapping_add(xj.wrapping_mul(w as u64));
            }
        }
    }
}

/// R x COLUMNS outputs, summed in registers over a part of the depth.
#[inline(always)]
fn block<const R: usize>(
    x: &[u64],
    y: &[i64],
    out: &mut [u64],
    (row, column): (usize, usize),
    (m, n): (usize, usize),
    depth: Range<usize>,
) {
    let mut sums = [[0u64; COLUMNS]; R];
    for j in depth {
        let w: &[i64; COLUMNS] = y[j * n + column..][..COLUMNS].try_into().expect("whole block");
        for (r, sums) in sums.iter_mut().enumerate() {
            let xj = x[(row + r) * m + j];
            for (s, &w) in sums.iter_mut().zip(w) {
                *s = s.wrapping_add(xj.wrapping_mul(w as u64));
            }
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        let out = &mut out[(row + r) * n + column..][..COLUMNS];
        out.iter_mut()
            .zip(sums)
            .for_each(|(o, &s)| *o = o.wrapping_add(s));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_definition_at_odd_shapes() {
        for (k, m, n) in [
            (1, 1, 1),
            (3, 5, 7),
            (4, 9, 32),
            (9, 2, 65),
            (5, 0, 3),
            (2, 3, 97),
        ] {
            let value = |i: usize| (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let x: Vec<u64> = (0..k * m).map(value).collect();
            let y: Vec<i64> = (0..m * n).map(|i| value(i + 1000) as i64).collect();
            let mut out: Vec<u64> = (0..k * n).map(|i| i as u64).collect();
            multiply(&x, &y, &mut out, (k, m, n));
            for (at, &found) in out.iter().enumerate() {
                let (i, l) = (at / n, at % n);
                let sum = (0..m).fold(at as u64, |s, j| {
                    s.wrapping_add(x[i * m + j].wrapping_mul(y[j * n + l] as u64))
                });
                assert_eq!(found, sum, "{k} {m} {n}");
            }
        }
    }

    #[test]
    fn the_portable_path_is_the_same() {
        let (k, m, n) = (7, 11, 70);
        let x: Vec<u64> = (0..k * m).map(|i| u64::MAX - i as u64).collect();
        let y: Vec<i64> = (0..m * n).map(|i| 1 << (i % 64)).collect();
        let (mut fast, mut plain) = (vec![0; k * n], vec![0; k * n]);
        multiply(&x, &y, &mut fast, (k, m, n));
        blocks(&x, &y, &mut plain, (k, m, n));
        assert_eq!(fast, plain);
    }
}
