//! The paths agree bit for bit and with exact integers: all shapes, extreme residues, few and many terms.

use super::*;
use crate::simd::testing::same_on_all_paths;
use crate::testing::{edge_limb, random_limb, sample_primes};
use crate::AlignedVec;

/// (rows, columns, terms, length): single entries, ragged tiles, more terms than are added up lazily, no
/// whole vectors.
const SHAPES: [(usize, usize, usize, usize); 6] = [
    (1, 1, 1, 8),
    (2, 3, 1, 264),
    (3, 2, 8, 64),
    (1, 2, 9, 32),
    (2, 1, 19, 520),
    (2, 2, 3, 30),
];

/// The k-th limb of one kind: random, of extreme values, all the residues whose centred values are largest.
fn limb(m: &Modulus, n: usize, kind: usize, k: usize) -> AlignedVec {
    match kind {
        0 => random_limb(m, n, k as u8),
        1 => {
            let mut out = edge_limb(m, n);
            out.rotate_left(k * 3 % n);
            out
        }
        _ => AlignedVec::from_slice(&vec![(m.p() / 2 + (k as u64 + kind as u64) % 2) as f64; n]),
    }
}

fn limbs(m: &Modulus, n: usize, kind: usize, range: std::ops::Range<usize>) -> Vec<AlignedVec> {
    range.map(|k| limb(m, n, kind, k)).collect()
}

fn factors(limbs: &[AlignedVec]) -> Vec<Factor<'_>> {
    limbs.chunks_exact(2).map(|x| [&x[0][..], &x[1][..]]).collect()
}

/// The accumulators after the call, on every path.
fn result(
    m: &Modulus,
    acc: &[AlignedVec],
    left: &[AlignedVec],
    right: &[AlignedVec],
    rows: usize,
    fresh: bool,
) -> Vec<AlignedVec> {
    same_on_all_paths(|| {
        let mut out = acc.to_vec();
        let mut views: Vec<Accumulator<'_>> = out
            .chunks_exact_mut(3)
            .map(|d| {
                let [d0, d1, d2] = d else { unreachable!() };
                [&mut d0[..], &mut d1[..], &mut d2[..]]
            })
            .collect();
        outer(m, &mut views, &factors(left), &factors(right), rows, fresh);
        out
    })
}

#[test]
fn every_row_meets_every_column() {
    for m in sample_primes(18) {
        for (rows, columns, terms, n) in SHAPES {
            for kind in 0..4 {
                let left = limbs(&m, n, kind, 0..2 * terms * rows);
                let right = limbs(&m, n, kind, 50..50 + 2 * terms * columns);
                let acc = limbs(&m, n, kind, 120..120 + 3 * rows * columns);
                for fresh in [false, true] {
                    let out = result(&m, &acc, &left, &right, rows, fresh);
                    let at = |x: &[AlignedVec], k: usize, i: usize| x[k][i] as i128;
                    for (k, limb) in out.iter().enumerate() {
                        let (j, column, part) = (k / 3 / columns, k / 3 % columns, k % 3);
                        for (i, &value) in limb.iter().enumerate() {
                            let term = |c: usize| {
                                let (a, b) = (2 * (c * rows + j), 2 * (c * columns + column));
                                let product = |x: usize, y: usize| at(&left, a + x, i) * at(&right, b + y, i);
                                match part {
                                    0 => product(0, 0),
                                    1 => product(0, 1) + product(1, 0),
                                    _ => product(1, 1),
                                }
                            };
                            let before = if fresh { 0 } else { at(&acc, k, i) };
                            let exact = before + (0..terms).map(term).sum::<i128>();
                            assert_eq!(
                                value as u64,
                                m.from_i128(exact),
                                "{rows} x {columns} x {terms}, entry {k}, {i}"
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn no_terms_leave_or_clear_the_accumulators() {
    let m = sample_primes(18)[0];
    let acc = limbs(&m, 64, 0, 0..6);
    assert!(result(&m, &acc, &[], &[], 2, false) == acc);
    assert!(result(&m, &acc, &[], &[], 2, true)
        .iter()
        .all(|x| x.iter().all(|&v| v == 0.0)));
}

#[test]
#[should_panic(expected = "factors for")]
fn ragged_factors_are_refused() {
    let m = sample_primes(18)[0];
    let (acc, left) = (limbs(&m, 64, 0, 0..6), limbs(&m, 64, 0, 0..6));
    result(&m, &acc, &left, &left[..2], 2, false);
}
