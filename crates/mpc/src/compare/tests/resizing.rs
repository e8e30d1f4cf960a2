//! Extension and truncation, with their error statements.
use super::{all_pairs, both, edges, shares};
use crate::compare::*;
use crate::testing::join;
use crate::Ring;

/// Signed sums of all pairs of shares of a small ring.
fn sums(ring: Ring, inputs: &(Vec<u64>, Vec<u64>)) -> Vec<i64> {
    let signed = |(&a, &b)| ring.signed(ring.add(a, b));
    inputs.0.iter().zip(&inputs.1).map(signed).collect()
}

#[test]
fn extension_on_all_shares_within_the_bound() {
    for bits in 1..=6 {
        let (from, to) = (Ring::new(bits), Ring::new(13));
        let inputs = all_pairs(from);
        let sums = sums(from, &inputs);
        let (left, right) = both(inputs, |party, x| extend(party, &x, from, to));
        let quarter = 1i64 << bits >> 2;
        for (sum, got) in sums.iter().zip(join(to, &left, &right)) {
            if (-quarter..quarter.max(1)).contains(sum) {
                assert_eq!(got, *sum, "{bits} bits");
            }
        }
    }
}

#[test]
fn extension_at_the_edges_of_wide_rings() {
    for (from, to) in [
        (16, 17),
        (16, 64),
        (32, 64),
        (37, 64),
        (20, 32),
        (63, 64),
        (64, 64),
        (37, 20),
    ] {
        let (from, to) = (Ring::new(from), Ring::new(to));
        let values = edges(Ring::new(from.bits() - 1));
        let (left, right) = both(shares(from, &values, 3), |party, x| extend(party, &x, from, to));
        let expected: Vec<i64> = values.iter().map(|&v| to.signed(to.from_signed(v))).collect();
        assert_eq!(join(to, &left, &right), expected, "{from:?} to {to:?}");
    }
}

#[test]
fn exact_extension_takes_everything() {
    for (from, to) in [
        (1, 2),
        (2, 9),
        (5, 6),
        (5, 64),
        (32, 64),
        (37, 38),
        (63, 64),
        (16, 9),
    ] {
        let (from, to) = (Ring::new(from), Ring::new(to));
        let (values, inputs) = if from.bits() <= 6 {
            let inputs = all_pairs(from);
            (sums(from, &inputs), inputs)
        } else {
            let values = edges(from);
            let inputs = shares(from, &values, 3);
            (values, inputs)
        };
        let (left, right) = both(inputs, |party, x| extend_exact(party, &x, from, to));
        let expected: Vec<i64> = values.iter().map(|&v| to.signed(to.from_signed(v))).collect();
        assert_eq!(join(to, &left, &right), expected, "{from:?} to {to:?}");
    }
}

/// floor or one more, at every sharing of a small ring within the bound; and unbiased.
#[test]
fn truncation_errs_by_its_statement_and_is_unbiased() {
    let (ring, shift) = (Ring::new(7), 3);
    let inputs = all_pairs(ring);
    let sums = sums(ring, &inputs);
    let (left, right) = both(inputs, |party, x| truncate(party, &x, ring, shift));
    let (mut ups, mut inexact) = (vec![0i64; 128], 0);
    for (&sum, got) in sums.iter().zip(join(ring, &left, &right)) {
        if (-32..32 - 8).contains(&sum) {
            let up = got - (sum >> shift);
            assert!((0..=1).contains(&up), "{sum}: {got}");
            ups[(sum + 64) as usize] += up;
            inexact += 1;
        }
    }
    assert_eq!(inexact, 128 * 56);
    for sum in -32..24i64 {
        // Of 128 sharings, those with a carry less: the expected result is x/8 + 1/8 for the zero share only.
        let expected = 128 * (sum & 7) / 8 + 16;
        assert!(
            (ups[(sum + 64) as usize] - expected).abs() <= 16,
            "{sum}: {} {expected}",
            ups[(sum + 64) as usize]
        );
    }
}

#[test]
fn truncation_between_rings() {
    for (from, shift, to) in [
        (64, 18, 64),
        (64, 36, 16),
        (32, 12, 64),
        (37, 18, 64),
        (37, 5, 37),
        (32, 0, 40),
        (20, 6, 14),
    ] {
        let (from, to) = (Ring::new(from), Ring::new(to));
        let mut values = edges(Ring::new(from.bits() - 1));
        let limit = (1i64 << (from.bits() - 2)) - (1 << shift);
        values.retain(|&v| v < limit);
        let (left, right) = both(shares(from, &values, 3), |party, x| {
            truncate_to(party, &x, from, shift, to)
        });
        for (&value, got) in values.iter().zip(join(to, &left, &right)) {
            let up = to.signed(to.from_signed(got.wrapping_sub(value >> shift)));
            assert!(
                (0..=1).contains(&up) && (up == 0 || shift > 0),
                "{from:?} {shift} {to:?}: {value} {got}"
            );
        }
    }
}

#[test]
fn exact_truncation_is_the_floor() {
    for (bits, shift) in [(5, 2), (5, 4), (6, 1), (6, 0), (2, 1)] {
        let ring = Ring::new(bits);
        let inputs = all_pairs(ring);
        let expected: Vec<i64> = sums(ring, &inputs).iter().map(|s| s >> shift).collect();
        let (left, right) = both(inputs, |party, x| truncate_exact(party, &x, ring, shift));
        assert_eq!(join(ring, &left, &right), expected, "{bits} bits by {shift}");
    }
    for (bits, shift) in [(32, 12), (37, 18), (64, 18), (64, 63), (16, 15)] {
        let ring = Ring::new(bits);
        let values = edges(ring);
        let expected: Vec<i64> = values.iter().map(|v| v >> shift).collect();
        let (left, right) = both(shares(ring, &values, 8), |party, x| {
            truncate_exact(party, &x, ring, shift)
        });
        assert_eq!(join(ring, &left, &right), expected, "{bits} bits by {shift}");
    }
}
