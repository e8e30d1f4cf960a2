//! The paper's GELU of four segments (BumbleBee, Algorithm 3 and appendix D), for comparison.
use super::fixed::{add_public, check_range, coarse, convert, rescale, Fixed};
use crate::compare::{below_many, not, select, truncate, xor};
use crate::products::{share_operand, square, sum_of_products};
use crate::{Party, Result};

/// Where the work is done: Z_{2^64}, 18 fraction bits.
const WORK: Fixed = Fixed::new(64, 18);
/// Errors of products that the truncation by 18 bits hides.
const SLACK: u32 = 16;
/// x in (-5, -1.97]: coefficients of 1, x, x^2, x^3.
const LEFT: [f64; 4] = [
    -0.5054031199708174,
    -0.4222658115198386,
    -0.1180761295118195,
    -0.0110341340306157,
];
/// x in (-1.97, 3]: coefficients of 1, x, x^2, x^4, x^6.
const MIDDLE: [f64; 5] = [
    0.0085263215410380,
    0.5,
    0.3603292692789629,
    -0.037688200365904,
    0.0018067462606141,
];
/// Fraction bits of the copy that is compared.
const COARSE: u32 = 6;

fn combine(party: &mut Party, coefficients: &[f64], powers: &[&[u64]]) -> Result<Vec<u64>> {
    let mut sum = vec![0u64; powers[0].len()];
    for (&c, power) in coefficients[1..].iter().zip(powers) {
        let c = WORK.encode(c);
        sum.iter_mut()
            .zip(*power)
            .for_each(|(s, &p)| *s = s.wrapping_add(c.wrapping_mul(p)));
    }
    add_public(
        party,
        &mut sum,
        WORK.ring,
        Fixed {
            frac: 2 * WORK.frac,
            ..WORK
        }
        .encode(coefficients[0]),
    );
    truncate(party, &sum, WORK.ring, WORK.frac)
}

/// x^2, x^3, x^4, x^6; x^3 reuses what was sent for x and x^2.
fn powers(party: &mut Party, x: &[u64]) -> Result<[Vec<u64>; 4]> {
    let (ring, frac) = (WORK.ring, WORK.frac);
    let first = share_operand(party, x, ring, SLACK)?;
    let second = sum_of_products(party, &[(&first, &first)])?;
    let second = truncate(party, &second, ring, frac)?;
    let sent = share_operand(party, &second, ring, SLACK)?;
    let third = sum_of_products(party, &[(&first, &sent)])?;
    let third = truncate(party, &third, ring, frac)?;
    let fourth = sum_of_products(party, &[(&sent, &sent)])?;
    let fourth = truncate(party, &fourth, ring, frac)?;
    let sixth = square(party, &third, ring, SLACK)?;
    let sixth = truncate(party, &sixth, ring, frac)?;
    Ok([second, third, fourth, sixth])
}

/// GELU by the paper's segments. 4757 bits on the wire for each element.
pub(super) fn gelu(party: &mut Party, x: &[u64], from: Fixed, to: Fixed, range: u32) -> Result<Vec<u64>> {
    check_range("gelu", range, WORK.frac)?;
    let coarse = coarse(range, COARSE);
    let low = rescale(party, x, from, 1.0, coarse)?;
    let at: Vec<i64> = [-5.0, -1.97, 3.0]
        .iter()
        .map(|&t| coarse.ring.signed(coarse.encode(t)))
        .collect();
    let below = below_many(party, &low, coarse.ring, &at)?;
    let x = convert(party, x, from, WORK)?;
    let [second, third, fourth, sixth] = powers(party, &x)?;
    let left = combine(party, &LEFT, &[&x, &second, &third])?;
    let middle = combine(party, &MIDDLE, &[&x, &second, &fourth, &sixth])?;
    let pieces = [
        (xor(&below[0], &below[1]), left),
        (xor(&below[1], &below[2]), middle),
        (not(party, &below[2]), x),
    ];
    let mut sum = vec![0u64; pieces[0].1.len()];
    for (bit, value) in &pieces {
        let kept = select(party, bit, value, WORK.ring)?;
        sum.iter_mut().zip(kept).for_each(|(s, k)| *s = s.wrapping_add(k));
    }
    convert(party, &sum, WORK, to)
}
