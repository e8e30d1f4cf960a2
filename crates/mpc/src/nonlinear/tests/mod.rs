//! Protocols against floating point, over grids that hit the thresholds, and what they cost.
mod activations;
mod costs;
mod formats;
mod rows;
mod short;

use super::*;
use crate::ot::CotKind;
use crate::testing::{run_both, split};
use crate::{Party, Result, Ring};

pub(super) const WIDE: Fixed = Fixed::new(64, 18);

/// Runs a protocol on shares of real values and returns the real values of its result.
pub(super) fn apply(
    values: &[f64],
    from: Fixed,
    to: Fixed,
    protocol: impl Fn(&mut Party, &[u64]) -> Result<Vec<u64>> + Sync + Send,
) -> Vec<f64> {
    let encoded: Vec<i64> = values.iter().map(|&v| from.ring.signed(from.encode(v))).collect();
    let shares = split(from.ring, &encoded, values.len() as u64 + 17);
    let (left, right) = run_both(shares, |party, x| {
        ready(party)?;
        protocol(party, &x)
    });
    left.iter()
        .zip(&right)
        .map(|(&l, &r)| to.decode(to.ring.add(l, r)))
        .collect()
}

pub(super) fn ready(party: &mut Party) -> Result<()> {
    party.setup_ot(CotKind::InsecureTestDealer)?;
    party.setup_products()
}

/// Largest distance, with where it is.
pub(super) fn largest(values: &[f64], found: &[f64], f: impl Fn(f64) -> f64) -> (f64, f64) {
    assert_eq!(values.len(), found.len());
    let error = |(&x, &y): (&f64, &f64)| ((y - f(x)).abs(), x);
    values
        .iter()
        .zip(found)
        .map(error)
        .fold((0.0, 0.0), |a, b| if b.0 > a.0 { b } else { a })
}

/// `count` points across `[low, high]`.
pub(super) fn grid(low: f64, high: f64, count: usize) -> Vec<f64> {
    (0..count)
        .map(|i| low + (high - low) * i as f64 / (count - 1).max(1) as f64)
        .collect()
}

/// One unit of `from` around every point, and the points.
pub(super) fn around(points: &[f64], from: Fixed) -> Vec<f64> {
    let unit = (-f64::from(from.frac)).exp2();
    points.iter().flat_map(|&p| [p - unit, p, p + unit]).collect()
}

/// Reproducible numbers in (-1, 1).
pub(super) fn noise(count: usize, seed: u64) -> Vec<f64> {
    let ring = Ring::new(40);
    let words = split(ring, &vec![0; count], seed).0;
    words
        .iter()
        .map(|&w| ring.signed(w) as f64 / (1u64 << 39) as f64)
        .collect()
}
