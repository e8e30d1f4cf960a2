//! Bits, and bits times values.
use super::{both, edges, open, shares};
use crate::compare::*;
use crate::testing::join;
use crate::Ring;

/// Two bits of one party, or one bit of two.
type Pair = (Vec<u8>, Vec<u8>);

/// Both bits' four shares, all sixteen cases, `times` times.
fn all_bits(times: usize) -> (Pair, Pair) {
    let bit = |at: u32| (0..16 * times).map(|i| (i >> at & 1) as u8).collect();
    ((bit(0), bit(1)), (bit(2), bit(3)))
}

#[test]
fn gates_on_all_shares() {
    let inputs = all_bits(3);
    let ((x0, y0), (x1, y1)) = inputs.clone();
    let (x, y) = (xor(&x0, &x1), xor(&y0, &y1));
    let found = both(inputs, |party, (x, y)| Ok((and(party, &x, &y)?, not(party, &x))));
    let ((and0, not0), (and1, not1)) = found;
    let (and, not) = (open((and0, and1)), open((not0, not1)));
    for i in 0..x.len() {
        assert_eq!((and[i], not[i]), (x[i] & y[i], 1 ^ x[i]), "case {i}");
    }
    assert!(both(((), ()), |party, ()| Ok(and_fails(party))).0);
}

fn and_fails(party: &mut crate::Party) -> bool {
    super::super::and(party, &[1], &[]).is_err()
}

fn bits_for(count: usize) -> Pair {
    (0..count).map(|i| ((i / 2 % 2) as u8, (i % 7 % 2) as u8)).unzip()
}

#[test]
fn the_multiplexer_keeps_or_drops() {
    for bits in [1, 2, 16, 32, 37, 64] {
        let ring = Ring::new(bits);
        let values = edges(ring);
        let (b, x) = (bits_for(values.len()), shares(ring, &values, 9));
        let chosen = xor(&b.0, &b.1);
        let (left, right) = both(((b.0, x.0), (b.1, x.1)), |party, (b, x)| {
            select(party, &b, &x, ring)
        });
        for (i, got) in join(ring, &left, &right).into_iter().enumerate() {
            assert_eq!(got, values[i] * i64::from(chosen[i]), "{bits} bits, {i}");
        }
    }
}

#[test]
fn one_bit_selects_several_payloads() {
    let rings = [
        Ring::new(20),
        Ring::new(64),
        Ring::new(7),
        Ring::new(44),
        Ring::new(33),
    ];
    let values: Vec<Vec<i64>> = rings
        .iter()
        .map(|&ring| edges(Ring::new(ring.bits()))[..200].to_vec())
        .collect();
    let x: Vec<_> = rings
        .iter()
        .zip(&values)
        .map(|(&ring, v)| shares(ring, v, 4))
        .collect();
    let (left, right): (Vec<_>, Vec<_>) = x.into_iter().unzip();
    let b = bits_for(200);
    let chosen = xor(&b.0, &b.1);
    let (left, right) = both(((b.0, left), (b.1, right)), |party, (b, x)| {
        let payloads: Vec<(&[u64], Ring)> = x.iter().map(Vec::as_slice).zip(rings).collect();
        select_many(party, &b, &payloads)
    });
    for (k, &ring) in rings.iter().enumerate() {
        for (i, got) in join(ring, &left[k], &right[k]).into_iter().enumerate() {
            assert_eq!(got, values[k][i] * i64::from(chosen[i]), "payload {k}, {i}");
        }
    }
}

#[test]
fn bits_become_numbers() {
    for bits in [1, 2, 5, 32, 64] {
        let ring = Ring::new(bits);
        let b = bits_for(57);
        let (left, right) = both(b.clone(), |party, b| to_arithmetic(party, &b, ring));
        for i in 0..57 {
            assert_eq!(
                ring.add(left[i], right[i]),
                u64::from(b.0[i] ^ b.1[i]),
                "{bits} bits"
            );
        }
    }
}

#[test]
fn equality_with_constants_on_all_shares() {
    let ring = Ring::new(4);
    let inputs = super::all_pairs(ring);
    let sums: Vec<i64> = inputs
        .0
        .iter()
        .zip(&inputs.1)
        .map(|(&a, &b)| ring.signed(ring.add(a, b)))
        .collect();
    let constants: Vec<i64> = (-8..8).collect();
    let (left, right) = both(inputs, |party, x| equal(party, &x, ring, &constants));
    for (c, pair) in constants.iter().zip(left.into_iter().zip(right)) {
        let expected: Vec<u8> = sums.iter().map(|s| u8::from(s == c)).collect();
        assert_eq!(open(pair), expected, "constant {c}");
    }
}

#[test]
fn equality_in_wide_rings() {
    for bits in [1, 2, 16, 32, 37, 64] {
        let ring = Ring::new(bits);
        let x = edges(ring);
        let y: Vec<i64> = x
            .iter()
            .enumerate()
            .map(|(i, &x)| {
                ring.signed(ring.reduce((x ^ (i64::from(i % 2 == 0) << (i as u32 % bits))) as u64))
            })
            .collect();
        let (a, b) = (shares(ring, &x, 1), shares(ring, &y, 2));
        let found = open(both(((a.0, b.0), (a.1, b.1)), |party, (x, y)| {
            equal_shares(party, &x, &y, ring)
        }));
        let expected: Vec<u8> = x.iter().zip(&y).map(|(x, y)| u8::from(x == y)).collect();
        assert_eq!(found, expected, "{bits} bits");
    }
}

#[test]
fn ids_become_rows() {
    for (bits, vocabulary, ids) in [
        (6, 37, vec![0, 36, 5, 40]),
        (12, 300, vec![299, 300, 0, 64, 2047]),
        (3, 5, vec![4, 1]),
    ] {
        let ring = Ring::new(bits);
        let rows = open(both(shares(ring, &ids, 6), |party, x| {
            one_hot(party, &x, ring, vocabulary)
        }));
        assert_eq!(rows.len(), ids.len() * vocabulary);
        for (row, &id) in rows.chunks(vocabulary).zip(&ids) {
            let expected: Vec<u8> = (0..vocabulary as i64).map(|c| u8::from(c == id)).collect();
            assert_eq!(row, expected);
        }
    }
}
