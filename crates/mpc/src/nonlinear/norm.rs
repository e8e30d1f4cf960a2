//! What both ways of a layer normalisation share: its public bounds, the formats that follow from them, and
//! the deviations of rows.
use super::fixed::{add_public, shape, Fixed};
use super::inverse::{rsqrt, Span};
use crate::{Party, Result, Ring};

/// What is public about a layer normalisation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norm {
    /// Rows of the input.
    pub rows: usize,
    /// Columns: what is normalised over.
    pub cols: usize,
    /// Whether the mean is taken off; if not, read 0 for it everywhere here.
    pub centred: bool,
    /// |x - mean| of every element is below this.
    pub bound: f64,
    /// The deviation of every row is at least this (the root of epsilon counts in).
    pub least: f64,
    /// |gamma| is below this.
    pub gamma: f64,
    /// Added to the variance.
    pub epsilon: f64,
}

/// The ring of the products, with two plaintext primes of 46 bits.
pub(super) const WORK: Ring = Ring::new(56);

/// Fraction bits and exponents derived from the public bounds.
#[derive(Debug)]
pub(super) struct Layout {
    /// v = (x - mean) cols / 2^up.
    pub up: i32,
    /// Fraction bits of v, of the inverse deviation, of gamma.
    pub value: u32,
    pub inverse: u32,
    pub gamma: u32,
    /// Where v's row sums of squares are.
    pub span: Span,
    /// log2 of what 1/deviation of v stays below, and |output|.
    pub ratio: u32,
    pub largest: u32,
}

impl Norm {
    /// The largest |x - mean| that v can hold.
    fn scale(&self, up: i32) -> f64 {
        f64::from(up).exp2() / self.cols as f64
    }

    /// Refuses what [`super::layer_norm`] refuses, before anything is sent.
    ///
    /// # Errors
    /// [`crate::MpcError::Shape`].
    pub fn check(&self, from: Fixed) -> Result<()> {
        self.layout(from).map(drop)
    }

    pub(super) fn layout(&self, from: Fixed) -> Result<Layout> {
        let positive = [self.bound, self.least, self.gamma]
            .iter()
            .all(|v| v.is_finite() && *v > 0.0);
        let sane =
            positive && self.epsilon >= 0.0 && self.least <= self.bound && (1..=4096).contains(&self.cols);
        let up = (self.bound * self.cols as f64).log2().ceil() as i32;
        let bits = from.frac as i32 + up; // of the fraction of what is read
        if !sane || bits < 0 || bits + 2 > from.ring.bits() as i32 {
            return shape("layer_norm", format!("{self:?} of values in {from:?}"));
        }
        let ratio = (self.scale(up) / self.least).log2().ceil().max(1.0);
        let value = (13 + ratio as u32).clamp(16, 22);
        let largest = ((self.cols as f64).sqrt().min(ratio.exp2()) * self.gamma)
            .log2()
            .ceil()
            .max(0.0) as u32;
        let left = WORK.bits().saturating_sub(2 + value + largest);
        let high = (self.cols as f64).log2().floor() as i32 + 1;
        let low = high - 1 - 2 * ratio as i32;
        if left < 20 || ratio > 13.0 {
            return shape(
                "layer_norm",
                format!("{self:?}: deviations over 2^{ratio} and outputs to 2^{largest}"),
            );
        }
        Ok(Layout {
            up,
            value,
            inverse: left / 2,
            gamma: left - left / 2,
            span: Span { low, high },
            ratio: ratio as u32,
            largest,
        })
    }
}

/// x read as (x - mean) cols / 2^up.
pub(super) fn read(from: Fixed, layout: &Layout) -> Fixed {
    Fixed {
        ring: from.ring,
        frac: (from.frac as i32 + layout.up) as u32,
    }
}

/// cols*x, less the row's sum where the mean is taken off: local.
pub(super) fn centred(x: &[u64], norm: &Norm, ring: Ring) -> Vec<u64> {
    let row = |row: &[u64]| {
        let sum = row.iter().fold(0u64, |s, &v| s.wrapping_add(v));
        let sum = if norm.centred { sum } else { 0 };
        row.iter()
            .map(|&v| ring.sub(v.wrapping_mul(norm.cols as u64), sum))
            .collect::<Vec<_>>()
    };
    x.chunks(norm.cols).flat_map(row).collect()
}

/// 1/deviation of v, a value a row, from the row sums of squares; formats of both.
pub(super) fn inverse_deviations(
    party: &mut Party,
    mut squares: Vec<u64>,
    norm: &Norm,
    layout: &Layout,
    [sums, to]: [Fixed; 2],
) -> Result<Vec<u64>> {
    let scale = norm.scale(layout.up);
    let epsilon = sums.encode(norm.epsilon / (scale * scale) * norm.cols as f64);
    add_public(party, &mut squares, sums.ring, epsilon);
    rsqrt(party, &squares, sums, layout.span, (norm.cols as f64).sqrt(), to)
}
