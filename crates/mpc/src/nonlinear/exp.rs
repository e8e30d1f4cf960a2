//! exp of numbers that are at most (about) 0, ELU, tanh.
use super::chain::Chain;
use super::fits;
use super::fixed::{check_range, coarse, convert, rescale, shape, subtract, Fixed};
use crate::compare::{below_many, not, select, xor};
use crate::{Party, Result};

/// Fraction bits of the chains.
const NARROW: u32 = 15;
/// Fraction bits of the copy that is compared with the thresholds.
const COARSE: u32 = 4;
/// Below this exp(x) is taken as 0.
pub const EXP_LEAST: f64 = -10.5;
/// Largest input; what an approximate maximum may leave above 0.
pub const EXP_MOST: f64 = 0.25;

/// exp(x) for -2^range < x <= 0.25; 0 below -10.5. Error at most 1.5e-3 near 0 (2e-4 root mean square),
/// falling with exp(x/2) to 1.3e-4 at -10.
///
/// exp(x)/2 is the square of a chain of three squares for exp(x/2)/sqrt(2): the square keeps the error of
/// small values small, which sums over long rows need. Cost for each element: four squares from 17 to 32
/// bits, one threshold on range + 6 bits, a multiplexer of 17 bits: about 1700 bits to Z_{2^32}; 10 rounds,
/// for few values one less, as the threshold is compared beside the first square.
///
/// # Errors
/// [`crate::MpcError::Shape`] for formats or ranges that do not fit; those of the channel.
pub fn exp(party: &mut Party, x: &[u64], from: Fixed, to: Fixed, range: u32) -> Result<Vec<u64>> {
    check_range("exp", range, COARSE)?;
    if range + from.frac + 1 > from.ring.bits() || from.frac < COARSE {
        return shape("exp", format!("|x| < 2^{range} in {from:?}"));
    }
    party.measured("exp", |party| {
        let coarse = coarse(range, COARSE);
        let low = rescale(party, x, from, 1.0, coarse)?;
        let least = coarse.ring.signed(coarse.encode(EXP_LEAST));
        let root = &fits::ROOT_EXP;
        let scaled = rescale(party, x, from, root.sigma, Chain::input(NARROW))?;
        // exp(x)/2 with 15 fraction bits is exp(x) with 14
        let (power, gone) = root.evaluate_squared(party, scaled, NARROW, |party| {
            Ok(below_many(party, &low, coarse.ring, &[least])?.remove(0))
        })?;
        let narrow = Fixed::new(NARROW + 2, NARROW - 1);
        let kept = not(party, &gone);
        let power = select(party, &kept, &power, narrow.ring)?;
        convert(party, &power, narrow, to)
    })
}

/// ELU, exp(x) - 1 below zero and x above, for |x| <= 2^range - 1; error at most 1.5e-3 where
/// both formats have 14 fraction bits.
///
/// x - 1{x < 0} (x + 1) + 1{-10.5 <= x < 0} exp(x): what [`exp`] takes, and a second threshold and a second
/// multiplexer, about 1340 bits for each element. A wrong sign of a tiny x does no harm, as x and exp(x) - 1
/// meet smoothly there.
///
/// # Errors
/// [`crate::MpcError::Shape`] for formats or ranges that do not fit; those of the channel.
pub fn elu(party: &mut Party, x: &[u64], from: Fixed, to: Fixed, range: u32) -> Result<Vec<u64>> {
    let fine = 6;
    check_range("elu", range, NARROW)?;
    if range + from.frac + 1 > from.ring.bits() || from.frac < fine {
        return shape("elu", format!("|x| < 2^{range} in {from:?}"));
    }
    party.measured("elu", |party| {
        let coarse = coarse(range, fine);
        let low = rescale(party, x, from, 1.0, coarse)?;
        let at = [EXP_LEAST, 0.0].map(|t| coarse.ring.signed(coarse.encode(t)));
        let root = &fits::ROOT_EXP;
        let scaled = rescale(party, x, from, root.sigma, Chain::input(NARROW))?;
        // exp(x)/2 with 15 fraction bits is exp(x) with 14
        let (power, below) = root.evaluate_squared(party, scaled, NARROW, |party| {
            below_many(party, &low, coarse.ring, &at)
        })?;
        let power_frac = NARROW - 1;
        let frac = power_frac.min(from.frac);
        let rest = Fixed::new(range + frac + 2, frac);
        let mut result = rescale(party, x, from, 1.0, rest)?;
        let one = if party.is_client() { 0 } else { rest.encode(1.0) };
        let raised: Vec<u64> = result.iter().map(|&v| rest.ring.add(v, one)).collect();
        let inside = xor(&below[0], &below[1]);
        let narrow = Fixed::new(NARROW + 2, power_frac);
        let power = select(party, &inside, &power, narrow.ring)?;
        let power = convert(party, &power, narrow, rest)?;
        subtract(
            &mut result,
            &select(party, &below[1], &raised, rest.ring)?,
            rest.ring,
        );
        let sum: Vec<u64> = result
            .iter()
            .zip(&power)
            .map(|(&r, &p)| rest.ring.add(r, p))
            .collect();
        convert(party, &sum, rest, to)
    })
}

/// tanh(x) for |x| < 2^range; error at most 1.5e-3 (beyond 4, where +-1 is returned, 7e-4).
///
/// Three squares and two multiplexers: about 1650 bits for each element.
///
/// # Errors
/// [`crate::MpcError::Shape`] for formats or ranges that do not fit; those of the channel.
pub fn tanh(party: &mut Party, x: &[u64], from: Fixed, to: Fixed, range: u32) -> Result<Vec<u64>> {
    let fine = 8;
    check_range("tanh", range, fine)?;
    if range + from.frac + 1 > from.ring.bits() || from.frac < fine {
        return shape("tanh", format!("|x| < 2^{range} in {from:?}"));
    }
    party.measured("tanh", |party| {
        let coarse = coarse(range, fine);
        let low = rescale(party, x, from, 1.0, coarse)?;
        let at: Vec<i64> = [-4.0, 0.0, 4.0]
            .iter()
            .map(|&t| coarse.ring.signed(coarse.encode(t)))
            .collect();
        let below = below_many(party, &low, coarse.ring, &at)?;
        let chain = &fits::TANH;
        let wide = Chain::input(NARROW);
        let mut size = rescale(party, x, from, chain.sigma, wide)?;
        let doubled: Vec<u64> = size.iter().map(|&v| wide.ring.add(v, v)).collect();
        let negative = select(party, &below[1], &doubled, wide.ring)?;
        subtract(&mut size, &negative, wide.ring);
        let rest = chain.evaluate(party, size, NARROW)?;
        let narrow = chain.output(NARROW);
        let inside = crate::compare::xor(&below[0], &below[2]);
        let rest = select(party, &inside, &rest, narrow.ring)?;
        // |tanh| = 1 - rest, then the sign
        let one = if party.is_client() { 0 } else { narrow.encode(1.0) };
        let mut result: Vec<u64> = rest.iter().map(|&r| narrow.ring.sub(one, r)).collect();
        let doubled: Vec<u64> = result.iter().map(|&v| narrow.ring.add(v, v)).collect();
        let negative = select(party, &below[1], &doubled, narrow.ring)?;
        subtract(&mut result, &negative, narrow.ring);
        convert(party, &result, narrow, to)
    })
}
