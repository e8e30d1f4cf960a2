//! The paths agree bit for bit with the integer reference, up to the bound of exact sums.

use super::*;
use crate::simd::testing::same_on_all_paths;
use crate::testing::{edge_limb, random_limb, sample_primes};
use crate::AlignedVec;
use proptest::prelude::*;

/// The largest factor of the engine: a plaintext scale.
const FACTOR: f64 = (1u64 << 48) as f64;

fn inputs<'a>(limbs: &'a [AlignedVec], runs: &'a [f64]) -> Vec<Input<'a>> {
    limbs.iter().map(|limb| Input { limb, runs }).collect()
}

/// The product on all paths, checked to be the same and canonical: `[rows, len]`.
fn agree(m: &Modulus, weights: &Weights, inputs: &[Input<'_>], first: usize, len: usize) -> Vec<Vec<f64>> {
    let out = same_on_all_paths(|| {
        let mut out = vec![vec![1.0; len]; weights.rows()];
        let mut rows: Vec<&mut [f64]> = out.iter_mut().map(|o| &mut o[..]).collect();
        product(m, weights, inputs, first, &mut rows);
        out
    });
    let canonical = |&v: &f64| v.is_sign_positive() && v < m.p() as f64 && v.fract() == 0.0;
    assert!(out.iter().flatten().all(canonical), "not canonical mod {}", m.p());
    out
}

/// Weights in [-1, 1] from a seed.
fn random_values(count: usize, seed: u64) -> Vec<f64> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

fn largest_limb(m: &Modulus, n: usize) -> AlignedVec {
    AlignedVec::from_slice(&vec![(m.p() - 1) as f64; n])
}

#[test]
fn equals_the_sum_of_scaled_limbs() {
    for m in sample_primes(18) {
        let limbs: Vec<_> = (0..9).map(|i| random_limb(&m, 64, i)).collect();
        let weights = Weights::round(&random_values(7 * 9, 3), 9, FACTOR).unwrap();
        let out = agree(&m, &weights, &inputs(&limbs, &[]), 16, 48);
        for (o, i) in (0..7).flat_map(|o| (0..48).map(move |i| (o, i))) {
            let term = |k: usize| {
                let w = m.from_i128(weights.weight(o, k) as i128 * weights.multiplier(o));
                m.mul(w, limbs[k][16 + i] as u64)
            };
            let want = (0..9).fold(0, |sum, k| m.add(sum, term(k)));
            assert_eq!(out[o][i] as u64, want, "row {o}, coefficient {i} mod {}", m.p());
        }
    }
}

/// Every weight of one sign and every residue next to where the halves are largest: sums reach 2^53.
#[test]
fn sums_are_exact_at_the_bound() {
    let depth = 3072;
    for m in sample_primes(18) {
        let middle = (m.p() / 2) as f64;
        let limb = AlignedVec::from_slice(&[vec![middle; 16], vec![middle + 1.0; 16]].concat());
        let limbs: Vec<_> = (0..depth).map(|_| limb.clone()).collect();
        let values: Vec<f64> = [vec![1.0; depth], vec![-1.0; depth], vec![1e-3; depth]].concat();
        let weights = Weights::round(&values, depth, FACTOR).unwrap();
        let sum: f64 = (0..depth).map(|k| weights.weight(0, k)).sum();
        assert!((0.99 * MAX_ROW_SUM..=MAX_ROW_SUM).contains(&sum), "{sum}");
        agree(&m, &weights, &inputs(&limbs, &[]), 0, 32);
    }
}

#[test]
fn one_large_weight_uses_the_whole_room() {
    let m = sample_primes(18)[0];
    let limbs = vec![largest_limb(&m, 64), edge_limb(&m, 64)];
    let weights = Weights::round(&[1.0, 0.0, -1.0, 1e-9, 0.0, 0.0, 1e8, -1e8], 2, FACTOR).unwrap();
    assert!((0.99 * MAX_ROW_SUM..=MAX_ROW_SUM).contains(&weights.weight(0, 0)));
    let out = agree(&m, &weights, &inputs(&limbs, &[]), 0, 64);
    assert!(out[2].iter().all(|&x| x == 0.0));
}

/// Also in another order, with the multiplier of the whole row: a part alone would round finer.
#[test]
fn products_of_columns_add_up_to_those_of_the_whole() {
    for m in sample_primes(18) {
        let limbs: Vec<_> = (0..9).map(|i| random_limb(&m, 64, i)).collect();
        let weights = Weights::round(&random_values(7 * 9, 5), 9, FACTOR).unwrap();
        let whole = agree(&m, &weights, &inputs(&limbs, &[]), 0, 64);
        let mut sums = vec![vec![0; 64]; 7];
        for columns in [&[8, 0, 3][..], &[1], &[2, 7, 6, 5, 4]] {
            let chosen: Vec<_> = columns.iter().map(|&k| limbs[k].clone()).collect();
            let part = agree(&m, &weights.columns(columns), &inputs(&chosen, &[]), 0, 64);
            let pairs = sums.iter_mut().flatten().zip(part.iter().flatten());
            pairs.for_each(|(sum, &x)| *sum = m.add(*sum, x as u64));
        }
        assert!(whole
            .iter()
            .flatten()
            .zip(sums.iter().flatten())
            .all(|(&x, &y)| x as u64 == y));
    }
}

#[test]
fn rounding_is_as_fine_as_promised() {
    for (depth, factor) in [(1, FACTOR), (768, FACTOR), (768, 1024.0), (3072, FACTOR)] {
        let values = random_values(4 * depth, 5);
        let weights = Weights::round(&values, depth, factor).unwrap();
        for (o, row) in values.chunks_exact(depth).enumerate() {
            let sum: f64 = row.iter().map(|x| x.abs()).sum();
            let bound = (1.01 * sum / MAX_ROW_SUM).max(1.0 / factor) / 2.0 + 1e-12;
            let c = weights.multiplier(o) as f64;
            let off = |(k, x): (usize, &f64)| (weights.weight(o, k) * c / factor - x).abs();
            assert!(row.iter().enumerate().map(off).fold(0.0, f64::max) <= bound);
            let integers: f64 = (0..depth).map(|k| weights.weight(o, k).abs()).sum();
            assert!(integers <= MAX_ROW_SUM);
        }
    }
}

#[test]
fn inputs_may_carry_sparse_polynomials() {
    for m in sample_primes(18) {
        let limbs: Vec<_> = (0..4).map(|i| random_limb(&m, 128, i)).collect();
        let runs = edge_limb(&m, 8);
        let weights = Weights::round(&random_values(3 * 4, 9), 4, FACTOR).unwrap();
        for first in [0, 64] {
            let got = agree(&m, &weights, &inputs(&limbs, &runs), first, 64);
            let times = |limb: &AlignedVec| {
                let mut x = AlignedVec::zeroed(128);
                crate::kernels::mul_runs_add_assign(&m, &mut x, limb, &runs);
                x
            };
            let multiplied: Vec<_> = limbs.iter().map(times).collect();
            assert_eq!(got, agree(&m, &weights, &inputs(&multiplied, &[]), first, 64));
        }
    }
}

#[test]
fn pieces_that_are_no_whole_tiles() {
    let m = sample_primes(18)[1];
    let limbs: Vec<_> = (0..3).map(|i| random_limb(&m, 64, i)).collect();
    let weights = Weights::round(&random_values(8 * 3, 1), 3, FACTOR).unwrap();
    let whole = agree(&m, &weights, &inputs(&limbs, &[]), 0, 64);
    let piece = agree(&m, &weights, &inputs(&limbs, &[]), 5, 30);
    for (whole, piece) in whole.iter().zip(&piece) {
        assert_eq!(&whole[5..35], &piece[..]);
    }
}

#[test]
fn refuses_what_cannot_be_rounded() {
    let ragged = Weights::round(&[1.0; 5], 2, FACTOR);
    let empty = Weights::round(&[], 2, FACTOR);
    let shallow = Weights::round(&[1.0], 0, FACTOR);
    assert!(ragged.is_none() && empty.is_none() && shallow.is_none());
    for x in [f64::NAN, f64::INFINITY, -f64::INFINITY, 1e300] {
        assert!(Weights::round(&[1.0, x], 2, FACTOR).is_none());
    }
}

#[test]
#[should_panic]
fn unequal_shapes_are_refused() {
    let m = sample_primes(18)[0];
    let limb = random_limb(&m, 64, 1);
    let weights = Weights::round(&[1.0, 2.0], 2, FACTOR).unwrap();
    product(&m, &weights, &inputs(&[limb], &[]), 0, &mut [&mut [0.0; 64]]);
}

proptest! {
    /// Any shape, scale of the weights and mixture of limbs.
    #[test]
    fn all_paths_agree(
        rows in 1usize..20, depth in 1usize..40, seed in any::<u8>(), log in -60i32..30, prime in 0usize..4
    ) {
        let m = sample_primes(18)[prime];
        let limb = |i: usize| match i % 3 {
            0 => largest_limb(&m, 64),
            1 => edge_limb(&m, 64),
            _ => random_limb(&m, 64, seed.wrapping_add(i as u8)),
        };
        let limbs: Vec<_> = (0..depth).map(limb).collect();
        let size = f64::from(log).exp2();
        let values = random_values(rows * depth, u64::from(seed));
        let values: Vec<f64> = values.iter().map(|x| x * size).collect();
        let weights = Weights::round(&values, depth, FACTOR).unwrap();
        agree(&m, &weights, &inputs(&limbs, &[]), 0, 64);
    }
}
