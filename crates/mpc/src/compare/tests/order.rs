//! Signs and thresholds.
use super::{all_pairs, both, edges, open, shares, LINKS};
use crate::compare::*;
use crate::Ring;

#[test]
fn signs_of_all_shares_of_small_rings() {
    for bits in 1..=6 {
        let ring = Ring::new(bits);
        let inputs = all_pairs(ring);
        let sums: Vec<i64> = inputs
            .0
            .iter()
            .zip(&inputs.1)
            .map(|(&a, &b)| ring.signed(ring.add(a, b)))
            .collect();
        let bits = open(both(inputs, |party, x| negative(party, &x, ring)));
        for (sum, bit) in sums.iter().zip(bits) {
            assert_eq!(bit, u8::from(*sum < 0), "{ring:?} {sum}");
        }
    }
}

#[test]
fn signs_at_the_edges_of_wide_rings() {
    for bits in [7, 16, 17, 32, 37, 63, 64] {
        let ring = Ring::new(bits);
        for link in LINKS {
            let values = edges(ring);
            let inputs = shares(ring, &values, u64::from(bits));
            let found = open(both(inputs, |party, x| {
                party.set_link(link);
                negative(party, &x, ring)
            }));
            for (value, bit) in values.iter().zip(found) {
                assert_eq!(bit, u8::from(*value < 0), "{bits} bits: {value}");
            }
        }
    }
}

#[test]
fn odd_lengths_and_none() {
    let ring = Ring::new(16);
    for len in [0usize, 1, 7, 8191, 8193] {
        let values: Vec<i64> = (0..len as i64).map(|i| (i * 7919) % 32768 - 16384).collect();
        let found = open(both(shares(ring, &values, 5), |party, x| {
            negative(party, &x, ring)
        }));
        let expected: Vec<u8> = values.iter().map(|&v| u8::from(v < 0)).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn order_of_two_shared_values() {
    let ring = Ring::new(20);
    let x: Vec<i64> = (0..500).map(|i| (i * 7919) % 200_000 - 100_000).collect();
    let y: Vec<i64> = x
        .iter()
        .enumerate()
        .map(|(i, x)| if i % 4 == 0 { *x } else { -x + i as i64 % 3 })
        .collect();
    let (a, b) = (shares(ring, &x, 1), shares(ring, &y, 2));
    let inputs = ((a.0, b.0), (a.1, b.1));
    let found = open(both(inputs, |party, (x, y)| less(party, &x, &y, ring)));
    let expected: Vec<u8> = x.iter().zip(&y).map(|(x, y)| u8::from(x < y)).collect();
    assert_eq!(found, expected);
    assert!(both(((), ()), |party, ()| Ok(less(party, &[1], &[], ring).is_err())).0);
}

/// Dropped bits: below zero always found, from 2^drop on never, for every sharing of a small ring and within
/// a window of a wide one.
#[test]
fn dropped_bits_blur_only_what_they_may() {
    for (ring, window) in [
        (Ring::new(6), Window { bits: 6, drop: 2 }),
        (Ring::new(6), Window { bits: 5, drop: 3 }),
    ] {
        let inputs = all_pairs(ring);
        let sums: Vec<i64> = inputs
            .0
            .iter()
            .zip(&inputs.1)
            .map(|(&a, &b)| ring.signed(ring.add(a, b)))
            .collect();
        let found = open(both(inputs, |party, x| negative_within(party, &x, window)));
        let (mut blurred, half) = (0, 1 << (window.bits - 1));
        for (sum, bit) in sums
            .into_iter()
            .zip(found)
            .filter(|(sum, _)| (-half + (1 << window.drop)..half).contains(sum))
        {
            match sum {
                ..=-1 => assert_eq!(bit, 1, "{sum}"),
                s if s >= 1 << window.drop => assert_eq!(bit, 0, "{sum}"),
                _ => blurred += usize::from(bit),
            }
        }
        assert!(blurred > 0);
    }
}

fn thresholds_agree(ring: Ring, thresholds: &[i64], seed: u64) {
    let mut values = edges(Ring::new(ring.bits() - 1));
    values.extend(thresholds.iter().flat_map(|t| [t - 1, *t, t + 1]));
    let half = 1i128 << (ring.bits() - 1);
    values.retain(|&v| {
        thresholds
            .iter()
            .all(|&t| (-half..half).contains(&(i128::from(v) - i128::from(t))))
    });
    let inputs = shares(ring, &values, seed);
    let (left, right) = both(inputs, |party, x| below_many(party, &x, ring, thresholds));
    assert_eq!(left.len(), thresholds.len());
    for (t, pair) in thresholds.iter().zip(left.into_iter().zip(right)) {
        for (value, bit) in values.iter().zip(open(pair)) {
            assert_eq!(bit, u8::from(value < t), "{ring:?} {thresholds:?}: {value} < {t}");
        }
    }
}

#[test]
fn several_thresholds() {
    for bits in [8, 16, 19, 37, 64] {
        let ring = Ring::new(bits);
        let unit = 1i64 << (bits / 4);
        for thresholds in [
            vec![0],
            vec![-4 * unit, -2 * unit, 3 * unit],
            vec![-5 * unit + 1, 0, 5 * unit - 1],
            vec![1, 1 + (1 << (bits - 3)), 1 - (1 << (bits - 3))],
            vec![7, 7],
            (-5..6).map(|i| i * unit).collect(),
        ] {
            thresholds_agree(ring, &thresholds, 3);
        }
    }
    assert!(both(((), ()), |party, ()| below_many(
        party,
        &[],
        Ring::new(9),
        &[1, 2]
    ))
    .0
    .iter()
    .all(Vec::is_empty));
}

/// Thresholds half a ring apart share every digit, and differ in the top bit only.
#[test]
fn thresholds_that_never_part() {
    let ring = Ring::new(8);
    let values: Vec<i64> = (0..64).collect();
    let (left, right) = both(shares(ring, &values, 3), |party, x| {
        below_many(party, &x, ring, &[-64, 64])
    });
    assert_eq!(open((left[0].clone(), right[0].clone())), vec![0; 64]);
    assert_eq!(open((left[1].clone(), right[1].clone())), vec![1; 64]);
    let (left, right) = both(shares(ring, &[-1, 0, 1, 127], 3), |party, x| {
        below_many(party, &x, ring, &[0, -128, 0])
    });
    assert_eq!(open((left[0].clone(), right[0].clone())), [1, 0, 0, 0]);
    assert_eq!(open((left[2].clone(), right[2].clone())), [1, 0, 0, 0]);
}
