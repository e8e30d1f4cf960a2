//! Layer normalisation: gamma (x - mean) / deviation + beta, gamma and beta known to the server alone.
//! Without the mean it is RMSNorm, the same but for one local step.
//!
//! cols*x - sum(x) is cols*(x - mean), exactly and locally; read with more fraction bits it is v = (x -
//! mean)/scale for a public power of two over cols, |v| < 1. The row sums of v^2 are taken before any
//! truncation; one value a row goes through [`rsqrt`]; v, encrypted once, is used again in the product
//! gamma*v/deviation, which comes in one response. Few values go by oblivious transfer
//! ([`super::norm_of_few`]).
use super::few::FEW;
use super::fixed::{convert, shape, Fixed};
use super::norm::{centred, inverse_deviations, read, Layout, Norm, WORK};
use super::norm_of_few;
use crate::products::{scaled_rows_by_server, share_operand, sums_of_squares, Rows};
use crate::{Party, Result};

/// Errors of the products that fit these primes, in bits: a few 2^-25 of the output, and of a row's sum of
/// squares 2^-10 at the smallest deviation, 2^-12 and less at larger ones.
const SLACK: u32 = 20;

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
/// Cost with two plaintext primes of 46 bits: for each element two requests of 316 bits, one response of 232
/// and extensions of about 45, 910 bits on the wire; a request and a response more, 560 kB, for the row sums
/// and the factors of all rows (2048 at most); about 2 kB for each row. Below [`FEW`] values by oblivious
/// transfer, about 3000 bits for each element and 2 to 10 kB for each row; more bits for more powers of two
/// between bound and least deviation.
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

/// gamma for every row, `count` values.
fn weights(gamma: &[f64], count: usize, frac: u32) -> Vec<u64> {
    let format = Fixed { ring: WORK, frac };
    let encoded: Vec<u64> = gamma.iter().map(|&g| format.encode(g)).collect();
    encoded.iter().cycle().take(count).copied().collect()
}
