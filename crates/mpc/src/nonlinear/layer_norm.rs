//! Layer normalisation: gamma (x - mean) / deviation + beta, gamma and beta known to the server alone.
//! Without the mean it is RMSNorm, the same but for one local step.
//!
//! cols*x - sum(x) is cols*(x - mean), exactly and locally; read with more fraction bits it is v = (x -
//! mean)/scale for a public power of two over cols, |v| < 1. The row sums of v^2 are taken before any
//! truncation; one value a row goes through [`rsqrt`]; v, encrypted once, is used again in the product
//! gamma*v/deviation, which comes in one response. Few values go by oblivious transfer
//! ([`super::norm_of_few`]).
use super::few::FEW;
use super::fixed::{add_public, convert, shape, Fixed};
use super::inverse::{rsqrt, Span};
use super::norm_of_few;
use crate::products::{scaled_rows_by_server, share_operand, sums_of_squares, Rows};
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
const WORK: Ring = Ring::new(56);
/// Errors of the products that fit these primes, in bits: a few 2^-25 of the output, and of a row's sum of
/// squares 2^-10 at the smallest deviation, 2^-12 and less at larger ones.
const SLACK: u32 = 20;

/// Fraction bits and exponents derived from the public bounds.
#[derive(Debug)]
pub(super) struct Layout {
    /// v = (x - mean) cols / 2^up.
    pub up: i32,
    /// Fraction bits of v, of the inverse deviation, of gamma.
    pub value: u32,
    inverse: u32,
    gamma: u32,
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

    fn layout(&self, from: Fixed) -> Result<Layout> {
        let positive = [self.bound, self.least, self.gamma]
            .iter()
            .all(|v| v.is_finite() && *v > 0.0);
        let sane =
            positive && self.epsilon >= 0.0 && self.least <= self.bound && (1..=4096).contains(&self.cols);
        let up = (self.bound * self.cols as f64).log2().ceil() as i32;
        if !sane || up + from.frac as i32 + 2 > from.ring.bits() as i32 {
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

fn check_weights(party: &Party, cols: usize, weights: [Option<&[f64]>; 2]) -> Result<()> {
    let fits = |w: &Option<&[f64]>| {
        if party.is_client() {
            w.is_none()
        } else {
            w.is_none_or(|w| w.len() == cols)
        }
    };
    if weights.iter().all(fits) && (party.is_client() || weights[0].is_some()) {
        return Ok(());
    }
    shape(
        "layer_norm",
        format!("gamma (and beta) of {cols} values are due at the server, none at the client"),
    )
}

/// Layer normalisation of the rows of a (rows, cols) matrix; `gamma` and `beta` at the server, `None` at the
/// client (beta may be `None` at
/// both: zeros). Error at most 3e-4 for |output| <= 8 and deviations within a
/// factor of 20, growing with that factor (2e-4 seen with outliers of 100 and deviations from 0.2 to 20).
///
/// Cost with two plaintext primes of 46 bits: for each element two requests of 334 bits, one response of 476
/// and extensions of about 45, 1190 bits on the wire; a request and a response more, 830 kB, for the row sums
/// and the factors of all rows (2048 at most); about 2 kB for each row. Below [`FEW`] values by oblivious
/// transfer, about 2800 bits for each element and 2 kB for each row; more bits for more powers of two between
/// bound and least deviation.
///
/// # Errors
/// [`crate::MpcError::Shape`] for shapes, bounds that the 56 bits cannot hold, weights on the wrong side;
/// those of the channel.
pub fn layer_norm(
    party: &mut Party,
    x: &[u64],
    from: Fixed,
    norm: &Norm,
    gamma: Option<&[f64]>,
    beta: Option<&[f64]>,
    to: Fixed,
) -> Result<Vec<u64>> {
    check_weights(party, norm.cols, [gamma, beta])?;
    let layout = norm.layout(from)?;
    if x.len() != norm.rows * norm.cols {
        return shape(
            "layer_norm",
            format!("{} values, not {} x {}", x.len(), norm.rows, norm.cols),
        );
    }
    party.measured("layer_norm", |party| {
        let mut out = Vec::with_capacity(x.len());
        for rows in x.chunks(Rows::MOST * norm.cols) {
            let run = if x.len() < FEW {
                norm_of_few::normalised
            } else {
                normalised
            };
            out.extend(run(party, rows, from, norm, &layout, gamma, to)?);
        }
        if let Some(beta) = beta {
            let beta: Vec<u64> = beta.iter().map(|&b| to.encode(b)).collect();
            out.iter_mut()
                .zip(beta.iter().cycle())
                .for_each(|(o, &b)| *o = to.ring.add(*o, b));
        }
        Ok(out)
    })
}

/// gamma (x - mean)/deviation of at most [`Rows::MOST`] rows.
fn normalised(
    party: &mut Party,
    x: &[u64],
    from: Fixed,
    norm: &Norm,
    layout: &Layout,
    gamma: Option<&[f64]>,
    to: Fixed,
) -> Result<Vec<u64>> {
    let work = Fixed {
        ring: WORK,
        frac: layout.value,
    };
    let rows = Rows::new(x.len() / norm.cols, norm.cols)?;
    let v = convert(party, &centred(x, norm, from.ring), read(from, layout), work)?;
    let v = share_operand(party, &rows.lay(&v), WORK, SLACK)?;
    let squares = sums_of_squares(party, &v, &rows)?;
    let (sums, to_inverse) = (2 * layout.value, layout.inverse);
    let inverse = inverse_deviations(
        party,
        squares,
        norm,
        layout,
        [sums, to_inverse].map(|frac| Fixed { ring: WORK, frac }),
    )?;
    let inverse = share_operand(party, &rows.spread(&inverse), WORK, SLACK)?;
    let weights = gamma.map(|gamma| rows.lay(&weights(gamma, x.len(), layout.gamma)));
    let out = scaled_rows_by_server(party, &v, &inverse, &rows, weights.as_deref())?;
    let frac = layout.value + layout.inverse + layout.gamma;
    convert(party, &rows.gather(&out), Fixed { ring: WORK, frac }, to)
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

/// gamma for every row, `count` values.
fn weights(gamma: &[f64], count: usize, frac: u32) -> Vec<u64> {
    let format = Fixed { ring: WORK, frac };
    let encoded: Vec<u64> = gamma.iter().map(|&g| format.encode(g)).collect();
    encoded.iter().cycle().take(count).copied().collect()
}
