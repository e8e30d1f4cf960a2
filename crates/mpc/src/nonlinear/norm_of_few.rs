//! Layer normalisation of few values, by oblivious transfer: a row of 576 numbers would leave most of a
//! lattice product's ciphertexts empty.
//!
//! v = (x - mean)/scale as in [`super::layer_norm`]. (1) Squares of v, which grows with them: errors average
//! over the row, and the sum is exact. (2) v times the row's inverse deviation, a short factor that chooses
//! once for all columns, at the few bits that the output needs. (3) Times gamma, whose bits the server
//! chooses by: one cross term.
use super::few::FEW;
use super::fixed::{convert, Fixed};
use super::norm::{centred, inverse_deviations, read, Layout, Norm};
use super::short::{cross, scaled, square, Cross, Factors};
use crate::compare::{extend, shift_rounded};
use crate::ot::Multiples;
use crate::{Party, Result, Ring};

/// Fraction bits of the inverse deviation (v is below 1) and, at most, of gamma.
const INVERSE: u32 = 16;
const GAMMA: u32 = 16;
/// Bits below the squares of the least deviation that their sums need.
const SQUARES: u32 = 17;
/// Fraction bits of the output that are worth having beside v's own error.
const FINEST: u32 = 16;

/// Formats from the public bounds.
struct Formats {
    /// Of v: for the squares; for the product with the inverse, in that product's ring.
    narrow: Fixed,
    value: Fixed,
    /// Low bits of the squares that need not be right.
    drop: u32,
    /// Of the row sums of squares, of the inverse deviations.
    sums: Fixed,
    inverse: Fixed,
    /// Of v/deviation, and of the output before the last conversion.
    unit: Fixed,
    output: Fixed,
    /// Of gamma, offset to be positive, as an integer without its sign.
    gamma: Fixed,
}

impl Formats {
    fn new(norm: &Norm, layout: &Layout, to: Fixed) -> Self {
        let root = (norm.cols as f64).log2() / 2.0;
        // log2 of what |gamma| and |v/deviation| stay below
        let most = norm.gamma.log2().ceil().max(0.0) as u32;
        let reach = layout.ratio.min(root.ceil() as u32);
        let (finest, gamma) = (to.frac.min(FINEST), to.frac.min(GAMMA));
        let value = layout.value;
        let unit = (finest + 2 + most)
            .min(60 - gamma - layout.largest)
            .min(value + INVERSE);
        let output = (finest + 2).min(unit + gamma);
        let high = (layout.span.high + 2 * value as i32 + 2) as u32;
        Self {
            narrow: Fixed::new(value + 3, value),
            value: Fixed::new(value + INVERSE + reach + 3, value),
            drop: (2 * value).saturating_sub(2 * layout.ratio + SQUARES),
            sums: Fixed::new(high, 2 * value),
            inverse: Fixed::new(layout.ratio + INVERSE + 2, INVERSE),
            unit: Fixed::new(unit + reach + 3, unit),
            output: Fixed::new(output + layout.largest + 3, output),
            gamma: Fixed::new(gamma + most + 1, gamma),
        }
    }
}

/// gamma (x - mean)/deviation of fewer than [`FEW`] values.
pub(super) fn normalised(
    party: &mut Party,
    x: &[u64],
    from: Fixed,
    norm: &Norm,
    layout: &Layout,
    gamma: Option<&[f64]>,
    to: Fixed,
) -> Result<Vec<u64>> {
    debug_assert!(x.len() < FEW);
    let formats = Formats::new(norm, layout, to);
    let v = convert(
        party,
        &centred(x, norm, from.ring),
        read(from, layout),
        formats.narrow,
    )?;
    let (sums, v) = sums_of_squares(party, &v, norm.cols, &formats)?;
    let inverse = inverse_deviations(party, sums, norm, layout, [formats.sums, formats.inverse])?;
    let v: Vec<u64> = v.iter().map(|&v| formats.value.ring.reduce(v)).collect();
    let (shares, ring) = (&inverse[..], formats.inverse.ring);
    let factors = Factors {
        shares,
        ring,
        least: 0,
    };
    let drop = formats.value.frac + formats.inverse.frac - formats.unit.frac;
    let unit = scaled(party, &factors, &v, formats.value.ring, drop)?;
    let out = weighed(party, &unit, gamma, &formats)?;
    convert(party, &out, formats.output, to)
}

/// A sum for every row, and v in its ring.
fn sums_of_squares(
    party: &mut Party,
    v: &[u64],
    cols: usize,
    formats: &Formats,
) -> Result<(Vec<u64>, Vec<u64>)> {
    let ring = formats.sums.ring;
    let factors = Factors::signed(v, formats.narrow.ring);
    let (squares, v) = square(party, &factors, ring, formats.drop, true)?;
    let sum = |row: &[u64]| row.iter().fold(0, |sum, &s| ring.add(sum, s));
    Ok((squares.chunks(cols).map(sum).collect(), v))
}

/// gamma times the rows: the server chooses by the bits of gamma + 2^g, its own share's part is local.
fn weighed(party: &mut Party, unit: &[u64], gamma: Option<&[f64]>, formats: &Formats) -> Result<Vec<u64>> {
    let (weight, out) = (formats.gamma, formats.output);
    let drop = formats.unit.frac + weight.frac - out.frac;
    let ring = Ring::new(out.ring.bits() + drop);
    let wide = extend(party, unit, formats.unit.ring, ring)?;
    let least = 1u64 << (weight.ring.bits() - 1);
    let how = Multiples {
        digits: weight.ring.bits(),
        ring,
        drop,
        columns: 1,
    };
    let factor = |&gamma: &f64| {
        let whole = (gamma * f64::from(weight.frac).exp2()).round() as i64;
        (whole + least as i64).clamp(0, weight.ring.mask() as i64) as u64
    };
    let gamma: Option<Vec<u64>> = gamma.map(|gamma| gamma.iter().map(factor).collect());
    let factors: Option<Vec<u64>> =
        gamma.map(|gamma| gamma.iter().cycle().take(unit.len()).copied().collect());
    let term = Cross::one_way(
        factors.is_some(),
        factors.clone().unwrap_or_else(|| wide.clone()),
        how,
    );
    let crossed = party
        .measured("weighed_by_ot", |party| cross(party, &[term]))?
        .remove(0);
    let own = factors.unwrap_or_else(|| vec![0; unit.len()]);
    let local: Vec<u64> = wide
        .iter()
        .zip(&own)
        .map(|(&u, &g)| ring.mul(u, g.wrapping_sub(least)))
        .collect();
    let local = shift_rounded(party, &local, ring, drop);
    Ok(local
        .iter()
        .zip(&crossed)
        .map(|(&l, &c)| out.ring.add(l, c))
        .collect())
}
