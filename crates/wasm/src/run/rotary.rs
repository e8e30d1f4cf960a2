//! Cosines and sines of rotary positions as integers, the same at both parties, whatever the machine
//! (`tacita.two_party.arithmetic.rotary`): fixed-point numbers of 128 bits, no floats.
//!
//! The first angle of each column is scale_i base^(-2 i / size); its multiples follow from it by a recurrence
//! of `GUARD` fraction bits, which loses a unit a token.

const GUARD: u32 = 96;
/// Fraction bits of the first angles.
const FINE: u32 = 112;
const TERMS: i128 = 40;

/// A base, and for each column a scale from 0 to 1; none where all are 1.
pub type Angles<'a> = (f64, &'a [f64]);

/// Cosines and sines of `rows` positions from `first` on, (rows, size / 2) each, with so many fraction bits.
pub fn turned_from(angles: Angles, first: usize, rows: usize, size: usize, fraction: u32) -> [Vec<i64>; 2] {
    let (base, scales) = angles;
    let slower = |index: usize| match scales.get(index) {
        Some(&scale) => scaled(angle(base, index, size), scale),
        None => angle(base, index, size),
    };
    let columns: Vec<_> = (0..size / 2)
        .map(|index| column(slower(index), first + rows, GUARD - fraction))
        .collect();
    let table = |part: usize| {
        let row = |at: usize| columns.iter().map(move |column: &Vec<[i64; 2]>| column[at][part]);
        (first..first + rows).flat_map(row).collect()
    };
    [table(0), table(1)]
}

/// (a b + half) >> bits, exactly.
fn times(a: i128, b: i128, bits: u32) -> i128 {
    const LOW: u128 = u64::MAX as u128;
    let (x, y) = (a.unsigned_abs(), b.unsigned_abs());
    let [(x1, x0), (y1, y0)] = [x, y].map(|v| (v >> 64, v & LOW));
    let (low, middle, other, high) = (x0 * y0, x0 * y1, x1 * y0, x1 * y1);
    let carried = (low >> 64) + (middle & LOW) + (other & LOW);
    let (mut low, mut high) = (
        (low & LOW) | (carried << 64),
        high + (middle >> 64) + (other >> 64) + (carried >> 64),
    );
    if (a < 0) != (b < 0) {
        low = low.wrapping_neg();
        high = (!high).wrapping_add(u128::from(low == 0));
    }
    let (sum, over) = low.overflowing_add(1 << bits >> 1);
    let high = high.wrapping_add(u128::from(over));
    ((high << (128 - bits)) | (sum >> bits)) as i128
}

/// a / b with `FINE` fraction bits, for 0 <= a < b.
fn quotient(mut a: i128, b: i128) -> i128 {
    let mut found = 0;
    for _ in 0..FINE {
        a <<= 1;
        found = found << 1 | i128::from(a >= b);
        a -= if a >= b { b } else { 0 };
    }
    found
}

/// 2 atanh(y) for 0 <= y <= 1/3.
fn double_atanh(y: i128) -> i128 {
    let square = times(y, y, FINE);
    let (mut power, mut total) = (y, y);
    for n in 1..TERMS {
        power = times(power, square, FINE);
        total += power / (2 * n + 1);
    }
    2 * total
}

/// base^(-2 index / size), for a base from 1.
fn angle(base: f64, index: usize, size: usize) -> i128 {
    let one = 1i128 << FINE;
    let exponent = (base.to_bits() >> 52) as i128 - 1023;
    let mantissa = i128::from(base.to_bits() & ((1 << 52) - 1) | 1 << 52); // of 52 fraction bits
    let two = double_atanh(quotient(1 << 40, 3 << 40));
    let log = exponent * two + double_atanh(quotient(mantissa - (1 << 52), mantissa + (1 << 52)));
    let fallen = log * (2 * index as i128) / size as i128;
    let (halved, rest) = (fallen / two, fallen % two);
    let (mut term, mut total) = (one, one);
    for n in 1..TERMS {
        term = -times(term, rest, FINE) / n;
        total += term;
    }
    total >> halved
}

/// angle scale, for a scale from 0 to 1.
fn scaled(angle: i128, scale: f64) -> i128 {
    let bits = scale.abs().to_bits(); // of a zero with a sign, too
    let exponent = 1023 - (bits >> 52) as u32; // of zero and what is next to it 1023: they come to 0
    let mantissa = i128::from(bits & ((1 << 52) - 1) | 1 << 52); // of 52 fraction bits
    times(angle, mantissa, 52).checked_shr(exponent).unwrap_or(0)
}

/// Cosine and sine of an angle up to 1, with `GUARD` fraction bits.
fn first(angle: i128) -> (i128, i128) {
    let (mut cos, mut sin, mut term) = (0i128, 0i128, 1i128 << FINE);
    for n in 0..TERMS {
        let signed = if n % 4 < 2 { term } else { -term };
        *(if n % 2 == 0 { &mut cos } else { &mut sin }) += signed;
        term = times(term, angle, FINE) / (n + 1);
    }
    let coarse = |x: i128| (x + (1 << (FINE - GUARD) >> 1)) >> (FINE - GUARD);
    (coarse(cos), coarse(sin))
}

/// Cosines and sines of the multiples 0, 1, ... of an angle, without the last `drop` bits.
fn column(angle: i128, rows: usize, drop: u32) -> Vec<[i64; 2]> {
    let (c, s) = first(angle);
    let (mut cos, mut sin) = (1i128 << GUARD, 0i128);
    let rounded = |x: i128| ((x + (1 << drop >> 1)) >> drop) as i64;
    let mut pairs = Vec::with_capacity(rows);
    for _ in 0..rows {
        pairs.push([rounded(cos), rounded(sin)]);
        (cos, sin) = (
            times(cos, c, GUARD) - times(sin, s, GUARD),
            times(sin, c, GUARD) + times(cos, s, GUARD),
        );
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_rounded_as_integers_are() {
        for (a, b, wanted) in [
            (3, 5, 4),
            (-3, 5, -4),
            (7, -9, -16),
            (-7, -9, 16),
            (1 << 90, 1 << 30, 1 << 118),
        ] {
            assert_eq!(times(a, b, 2), wanted, "{a} {b}");
        }
        assert_eq!(times((1 << 112) - 1, (1 << 112) - 1, 112), (1 << 112) - 2);
    }

    #[derive(serde::Deserialize)]
    struct Turns {
        base: f64,
        scales: Vec<f64>,
        first: usize,
        bits: u32,
        cos: Vec<Vec<i64>>,
        sin: Vec<Vec<i64>>,
    }

    #[test]
    fn scaled_tables_are_those_of_python() {
        let text = include_str!("../../../../tests/vectors/program/turns.json");
        let cases: Vec<Turns> = serde_json::from_str(text).unwrap();
        assert!(cases.iter().any(|case| case.scales.contains(&0.0)));
        for case in cases {
            let (rows, size) = (case.cos.len(), 2 * case.cos[0].len());
            let found = turned_from((case.base, &case.scales), case.first, rows, size, case.bits);
            assert_eq!(found, [case.cos.concat(), case.sin.concat()], "{:?}", case.scales);
        }
    }

    #[test]
    fn scales_of_any_bits_are_taken() {
        for (scale, wanted) in [(1.0, 96), (0.5, 48), (0.0, 0), (-0.0, 0), (5e-324, 0), (0.25, 24)] {
            assert_eq!(scaled(96, scale), wanted, "{scale}");
        }
    }

    #[test]
    fn tables_are_those_of_floats() {
        for (base, size, offset) in [(1e4, 64, 0), (5e5, 16, 300), (100.0, 8, 3), (1.0, 2, 1)] {
            let [cos, sin] = turned_from((base, &[]), offset, 200, size, 12);
            for (at, (&cos, &sin)) in cos.iter().zip(&sin).enumerate() {
                let (row, index) = (at / (size / 2), at % (size / 2));
                let angle = (offset + row) as f64 * base.powf(-2.0 * index as f64 / size as f64);
                assert!((cos as f64 - angle.cos() * 4096.0).abs() < 0.5001);
                assert!((sin as f64 - angle.sin() * 4096.0).abs() < 0.5001);
            }
        }
    }
}
