//! Products with short factors against integers, and what they cost.
use super::*;
use crate::nonlinear::short::{scaled, square, Factors};
use crate::testing::join;

/// Values that |x| < 2^(bits-2) allows, ends first.
fn factors(count: usize, ring: Ring) -> Vec<i64> {
    let most = (1i64 << (ring.bits() - 2)) - 1;
    let mut x: Vec<i64> = split(Ring::new(ring.bits() - 1), &vec![0; count], 9)
        .0
        .iter()
        .map(|&w| w as i64)
        .collect();
    x.iter_mut().for_each(|x| *x -= most + 1);
    x.iter_mut()
        .zip([most, -most - 1, 0, -1, 1])
        .for_each(|(x, edge)| *x = edge);
    x
}

fn values(count: usize, ring: Ring) -> Vec<i64> {
    let edges = [0, -1, 1, ring.signed(1 << (ring.bits() - 1))];
    let mut y: Vec<i64> = split(ring, &vec![0; count], 4)
        .0
        .iter()
        .map(|&w| ring.signed(w))
        .collect();
    y.iter_mut().zip(edges).for_each(|(y, edge)| *y = edge);
    y
}

/// The largest error in units of the result.
fn error(from: Ring, ring: Ring, drop: u32, rows: usize, columns: usize) -> u64 {
    let (x, y) = (factors(rows, from), values(rows * columns, ring));
    let (x_shares, y_shares) = (split(from, &x, 3), split(ring, &y, 5));
    let inputs = ((x_shares.0, y_shares.0), (x_shares.1, y_shares.1));
    let (left, right) = run_both(inputs, |party, (x, y)| {
        party.setup_ot(CotKind::InsecureTestDealer)?;
        scaled(party, &Factors::signed(&x, from), &y, ring, drop)
    });
    assert_eq!(left.len(), rows * columns);
    let result = Ring::new(ring.bits() - drop);
    let off = |i: usize| {
        let exact = ring.signed(ring.from_signed(x[i / columns].wrapping_mul(y[i]))) as i128;
        let expected = (exact + ((1 << drop) >> 1)) >> drop;
        result
            .signed(result.sub(left[i].wrapping_add(right[i]), expected as u64))
            .unsigned_abs()
    };
    (0..left.len()).map(off).max().unwrap_or(0)
}

#[test]
fn products_with_short_factors_are_those_of_the_ring() {
    for (from, bits) in [
        (3u32, 4u32),
        (5, 6),
        (9, 9),
        (20, 12),
        (17, 47),
        (30, 64),
        (62, 64),
    ] {
        for (rows, columns) in [(0, 1), (1, 1), (7, 1), (1, 65), (3, 5)] {
            let (from, ring) = (Ring::new(from), Ring::new(bits));
            assert_eq!(error(from, ring, 0, rows, columns), 0, "{from:?} in {ring:?}");
        }
    }
}

#[test]
fn dropped_bits_cost_a_few_units() {
    for (from, bits, drop) in [
        (9u32, 30u32, 1u32),
        (9, 30, 8),
        (9, 30, 15),
        (28, 47, 23),
        (20, 64, 40),
    ] {
        for (rows, columns) in [(40, 1), (1, 65), (3, 9)] {
            let off = error(Ring::new(from), Ring::new(bits), drop, rows, columns);
            assert!(
                off <= u64::from(drop.min(from)) / 2 + 2,
                "{from} in {bits} less {drop}: {off}"
            );
        }
    }
}

#[test]
fn every_square_and_sharing_of_a_small_ring() {
    for bits in 5..=12 {
        let (from, to) = (Ring::new(3), Ring::new(bits));
        let pairs: Vec<(i64, u64)> = (-2i64..2)
            .flat_map(|x| (0..8).map(move |share| (x, share)))
            .collect();
        let theirs = pairs
            .iter()
            .map(|p| from.sub(from.from_signed(p.0), p.1))
            .collect();
        check_squares(
            &pairs.iter().map(|p| p.0).collect::<Vec<_>>(),
            (pairs.iter().map(|p| p.1).collect(), theirs),
            from,
            to,
        );
    }
    for (from, to) in [(17, 32), (24, 46), (31, 64), (24, 60), (23, 25)] {
        let (from, to) = (Ring::new(from), Ring::new(to));
        for count in [0, 1, 77] {
            let x = factors(count, from);
            check_squares(&x, split(from, &x, 5), from, to);
            assert!(distance_of_squares(&x, split(from, &x, 6), from, to, 11) < 12 << 11);
        }
    }
}

fn check_squares(x: &[i64], shares: (Vec<u64>, Vec<u64>), from: Ring, to: Ring) {
    let off = distance_of_squares(x, shares, from, to, 0);
    assert_eq!(off, 0, "{from:?} to {to:?}");
}

fn distance_of_squares(x: &[i64], shares: (Vec<u64>, Vec<u64>), from: Ring, to: Ring, drop: u32) -> i64 {
    let (left, right) = run_both(shares, |party, x| {
        party.setup_ot(CotKind::InsecureTestDealer)?;
        square(party, &Factors::signed(&x, from), to, drop, true)
    });
    assert_eq!(join(to, &left.1, &right.1), x, "grown from {from:?} to {to:?}");
    let found = join(to, &left.0, &right.0);
    let off = |(&x, &y): (&i64, &i64)| to.signed(to.from_signed(x.wrapping_mul(x).wrapping_sub(y))).abs();
    x.iter().zip(&found).map(off).max().unwrap_or(0)
}

/// Bits for each element.
fn cost(count: usize, run: impl Fn(&mut Party, &[u64]) -> Result<Vec<u64>> + Sync + Send) -> f64 {
    let x = vec![1u64; count];
    let (bytes, _) = run_both((x.clone(), x), |party, x| {
        party.setup_ot(CotKind::InsecureTestDealer)?;
        let (before, rounds) = (party.sent() + party.received(), party.profile().rounds());
        run(party, &x)?;
        assert!(!party.is_client() || party.profile().rounds() - rounds == 1);
        Ok(party.sent() + party.received() - before)
    });
    8.0 * bytes as f64 / count as f64
}

#[test]
fn costs_are_those_of_the_factors_bits() {
    let (short, wide) = (Ring::new(17), Ring::new(32));
    let product = |drop| {
        cost(1000, move |party, x| {
            scaled(party, &Factors::signed(x, short), x, wide, drop)
        })
    };
    // 17 payloads of 32 to 16 bits, one of 15, 18 choices, both ways
    assert!(
        (product(0) / (2.0 * (408.0 + 15.0 + 18.0)) - 1.0).abs() < 0.03,
        "{}",
        product(0)
    );
    // payloads of at most 21 bits
    assert!(
        (product(11) / (2.0 * (342.0 + 15.0 + 18.0)) - 1.0).abs() < 0.03,
        "{}",
        product(11)
    );
    let square = |drop| {
        cost(1000, move |party, x| {
            Ok(square(party, &Factors::signed(x, short), wide, drop, false)?.0)
        })
    };
    assert!(
        (square(0) / (391.0 + 17.0 + 30.0) - 1.0).abs() < 0.03,
        "{}",
        square(0)
    );
    assert!(
        (square(10) / (336.0 + 17.0 + 30.0) - 1.0).abs() < 0.03,
        "{}",
        square(10)
    );
    // a row's factor chooses once
    let row = cost(576, |party, x| {
        scaled(party, &Factors::signed(&x[..1], short), x, wide, 0)
    });
    assert!((row / (2.0 * (408.0 + 15.0)) - 1.0).abs() < 0.03, "{row}");
}
