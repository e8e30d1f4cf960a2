//! Maxima of rows.
use super::{both, shares, LINKS};
use crate::compare::*;
use crate::testing::join;
use crate::{Party, Ring};

fn matrix(rows: usize, cols: usize, range: i64) -> Vec<i64> {
    (0..(rows * cols) as i64)
        .map(|i| (i * i * 7919 + i * 31) % (2 * range) - range)
        .collect()
}

#[test]
fn maxima_of_every_width() {
    let ring = Ring::new(16);
    let shapes = [
        (1, 1),
        (3, 2),
        (2, 3),
        (5, 7),
        (1, 8),
        (4, 9),
        (3, 33),
        (0, 5),
        (2, 65),
    ];
    for ((rows, cols), link) in shapes
        .into_iter()
        .flat_map(|shape| LINKS.map(|link| (shape, link)))
    {
        let values = matrix(rows, cols, 1 << 14);
        let inputs = shares(ring, &values, 2);
        let (left, right) = both(inputs, |party, x| {
            party.set_link(link);
            max_rows(party, &x, rows, cols, ring, Window::whole(ring))
        });
        let expected: Vec<i64> = values
            .chunks(cols)
            .map(|row| *row.iter().max().unwrap())
            .collect();
        assert_eq!(join(ring, &left, &right), expected, "{rows} x {cols}");
    }
    assert!(
        both(((), ()), |party, ()| Ok(max_rows(
            party,
            &[],
            1,
            0,
            ring,
            Window::whole(ring)
        )
        .is_err()))
        .0
    );
}

/// Groups of four or eight where bytes count, of sixteen where rounds do.
#[test]
fn the_longer_the_link_the_fewer_the_levels() {
    let (rows, cols, ring) = (4, 64, Ring::new(16));
    let [bytes, _, rounds] = LINKS.map(|link| {
        let inputs = shares(ring, &matrix(rows, cols, 1 << 14), 2);
        let work = |party: &mut Party, x: Vec<u64>| {
            party.set_link(link);
            max_rows(party, &x, rows, cols, ring, Window::whole(ring))?;
            let cost = &party.profile().costs()["max"];
            Ok((cost.sent + cost.received, cost.rounds))
        };
        both(inputs, work).0
    });
    assert!(bytes.0 < rounds.0 && rounds.1 < bytes.1, "{bytes:?} {rounds:?}");
}

#[test]
fn a_dropped_bit_costs_what_it_may() {
    let (ring, rows, cols) = (Ring::new(32), 40, 21);
    let window = Window { bits: 18, drop: 6 };
    let values = matrix(rows, cols, 1 << 10);
    let (left, right) = both(shares(ring, &values, 2), |party, x| {
        max_rows(party, &x, rows, cols, ring, window)
    });
    let mut short = 0;
    for (row, got) in values.chunks(cols).zip(join(ring, &left, &right)) {
        let loss = row.iter().max().unwrap() - got;
        assert!(row.contains(&got) && (0..=5 * 63).contains(&loss), "{loss}");
        short += usize::from(loss > 0);
    }
    assert!(short > 0);
}

#[test]
fn the_column_of_the_maximum() {
    let (ring, index) = (Ring::new(20), Ring::new(5));
    for (rows, cols) in [(4, 1), (6, 2), (7, 13), (3, 32)] {
        let mut values = matrix(rows, cols, 1 << 17);
        values[0] = *values.iter().max().unwrap();
        let inputs = shares(ring, &values, 2);
        let ((max0, arg0), (max1, arg1)) = both(inputs, |party, x| {
            argmax_rows(party, &x, rows, cols, ring, Window::whole(ring), index)
        });
        let (max, arg) = (
            join(ring, &max0, &max1),
            arg0.iter().zip(&arg1).map(|(&a, &b)| index.add(a, b)),
        );
        for ((row, max), arg) in values.chunks(cols).zip(max).zip(arg) {
            let best = *row.iter().max().unwrap();
            let first = row.iter().position(|v| *v == best).unwrap() as u64;
            assert_eq!((max, arg), (best, first), "{rows} x {cols}");
        }
    }
}
