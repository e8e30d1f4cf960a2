//! 1/x and 1/sqrt(x) of positive values over many powers of two.
//!
//! Thresholds at every power of two give s with n = s x in [1/2, 1); a chain of three squares with 22
//! fraction bits gives 1/n or 1/sqrt(n) to 1e-5 relative; one product with s (or a public table of roots of
//! powers of two, picked by the same bits) undoes the scale. No Newton steps, no secret-dependent branch.
use super::chain::Chain;
use super::few::product_any;
use super::fits;
use super::fixed::{add_public, convert, rescale, shape, Fixed};
use crate::compare::{below_many, extend, to_arithmetic};
use crate::{Party, Result, Ring};

/// Fraction bits of the chain.
const FINE: u32 = 22;
/// Fraction bits of the table of roots.
const ROOTS: u32 = 18;
/// Relative error of [`reciprocal`] and [`rsqrt`], rounding of the output's last place aside.
pub const RELATIVE_ERROR: f64 = 3e-5;

/// The interval in which the values lie, as powers of two of the *real* value: 2^low <= x < 2^high.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// log2 of the smallest value.
    pub low: i32,
    /// log2 of what all values stay below.
    pub high: i32,
}

/// Values scaled into [1/2, 1), and the bits that say how.
struct Normalised {
    /// s*x with `top` fraction bits, in a ring of top + 2 bits.
    values: Vec<u64>,
    format: Fixed,
    /// Arithmetic shares (in `ring`) of 1{x < 2^j}, from j = top - 1 downwards.
    bits: Vec<Vec<u64>>,
    ring: Ring,
    /// log2 of the bound on x as an integer.
    top: u32,
}

impl Normalised {
    /// 1 at the server, plus the bits weighed by the table's differences: a public table picked by the
    /// scale's exponent.
    fn pick(&self, party: &Party, table: &[u64]) -> Vec<u64> {
        let mut out = vec![0; self.values.len()];
        add_public(party, &mut out, self.ring, table[0]);
        for (bit, pair) in self.bits.iter().zip(table.windows(2)) {
            let step = pair[1].wrapping_sub(pair[0]);
            out.iter_mut()
                .zip(bit)
                .for_each(|(o, &b)| *o = self.ring.add(*o, step.wrapping_mul(b)));
        }
        out
    }
}

/// Integers of the span's ends: 2^bottom <= x < 2^top.
fn ends(op: &'static str, from: Fixed, span: Span) -> Result<(u32, u32)> {
    let (bottom, top) = (span.low + from.frac as i32, span.high + from.frac as i32);
    let fits =
        bottom >= 0 && top > bottom && top < from.ring.bits() as i32 && top <= 58 && top - bottom <= 32;
    if fits {
        return Ok((bottom as u32, top as u32));
    }
    shape(
        op,
        format!(
            "values from 2^{} to 2^{} in {from:?}: between 1 and 32 powers of two above one unit, below \
            2^58 units",
            span.low, span.high
        ),
    )
}

fn normalise(party: &mut Party, x: &[u64], (bottom, top): (u32, u32), scale_bits: u32) -> Result<Normalised> {
    let work = Ring::new(top + 2);
    let x: Vec<u64> = x.iter().map(|&v| work.reduce(v)).collect();
    let at: Vec<i64> = (bottom + 1..top).rev().map(|j| 1i64 << j).collect();
    let below = below_many(party, &x, work, &at)?;
    let ring = Ring::new(work.bits().max(scale_bits));
    let count = below.len();
    let flat = to_arithmetic(party, &below.concat(), ring)?;
    let bits: Vec<Vec<u64>> = (0..count)
        .map(|j| flat[j * x.len()..(j + 1) * x.len()].to_vec())
        .collect();
    let mut out = Normalised {
        values: x,
        format: Fixed {
            ring: work,
            frac: top,
        },
        bits,
        ring,
        top,
    };
    let powers: Vec<u64> = (0..=count).map(|k| 1 << k).collect();
    let scale: Vec<u64> = out.pick(party, &powers).iter().map(|&s| work.reduce(s)).collect();
    out.values = product_any(party, &out.values, &scale, work, 0)?;
    Ok(out)
}

/// The chain of the normalised values: FINE fraction bits less the exponent.
fn apply(party: &mut Party, n: &Normalised, chain: &Chain) -> Result<Vec<u64>> {
    let wide = Fixed {
        ring: Ring::new(64),
        frac: FINE.min(n.top),
    };
    let values = convert(party, &n.values, n.format, wide)?;
    let scaled = rescale(party, &values, wide, chain.sigma, Chain::input(FINE))?;
    chain.evaluate(party, scaled, FINE)
}

/// factor * y with y from the chain (below 2, FINE - exponent fraction bits) and a factor below 2^bits:
/// exact, in a ring that holds it.
fn restore(
    party: &mut Party,
    y: &[u64],
    chain: &Chain,
    factor: &[u64],
    bits: u32,
) -> Result<(Vec<u64>, Fixed)> {
    let format = chain.output(FINE);
    let ring = Ring::new(bits + FINE + 4);
    let y = extend(party, y, format.ring, ring)?;
    let factor: Vec<u64> = factor.iter().map(|&f| ring.reduce(f)).collect();
    let product = product_any(party, &y, &factor, ring, 0)?;
    Ok((
        product,
        Fixed {
            ring,
            frac: format.frac,
        },
    ))
}

/// Brings a value with any (also negative) number of fraction bits to a format.
fn place(party: &mut Party, x: &[u64], ring: Ring, frac: i32, to: Fixed) -> Result<Vec<u64>> {
    if frac >= 0 {
        return convert(
            party,
            x,
            Fixed {
                ring,
                frac: frac as u32,
            },
            to,
        );
    }
    let up = (-frac) as u32;
    let shifted = Fixed {
        ring: to.ring,
        frac: to.frac + up,
    };
    convert(party, x, Fixed { ring, frac: 0 }, shifted)
}

/// 1/x for 2^low <= x < 2^high, to a relative 3e-5 and a unit of the output. Outside the span the result is
/// arbitrary.
///
/// Cost: high - low thresholds on the span's bits, two products, three squares of 46 bits, extensions. For
/// 1000 values of 8 powers of two, all by oblivious transfer: about 1.5 kB each.
///
/// # Errors
/// [`crate::MpcError::Shape`] for a span outside the ring or an output that does not fit; those of the
/// channel.
pub fn reciprocal(party: &mut Party, x: &[u64], from: Fixed, span: Span, to: Fixed) -> Result<Vec<u64>> {
    let (bottom, top) = ends("reciprocal", from, span)?;
    party.measured("reciprocal", |party| {
        let bits = top - bottom;
        let n = normalise(party, x, (bottom, top), bits + FINE + 4)?;
        let inverse = apply(party, &n, &fits::RECIPROCAL)?;
        let powers: Vec<u64> = (0..bits).map(|k| 1 << k).collect();
        let scale = n.pick(party, &powers);
        let (product, format) = restore(party, &inverse, &fits::RECIPROCAL, &scale, bits)?;
        // 1/x = s / (2^top n) in units, times 2^frac
        let frac = format.frac as i32 + top as i32 - from.frac as i32;
        place(party, &product, format.ring, frac, to)
    })
}

/// factor / sqrt(x) for 2^low <= x < 2^high and a public factor, to a relative 3e-5 and a unit of the output.
///
/// Cost: that of [`reciprocal`].
///
/// # Errors
/// Those of [`reciprocal`].
pub fn rsqrt(
    party: &mut Party,
    x: &[u64],
    from: Fixed,
    span: Span,
    factor: f64,
    to: Fixed,
) -> Result<Vec<u64>> {
    let (bottom, top) = ends("rsqrt", from, span)?;
    party.measured("rsqrt", |party| {
        let count = top - bottom;
        // factor 2^frac/2 sqrt(s) / (2^top/2 sqrt(n)): the constant's mantissa goes into the table, its
        // exponent into the format
        let constant = factor * (0.5 * (from.frac as f64 - top as f64)).exp2();
        let exponent = constant.log2().floor();
        let unit = constant / exponent.exp2() * f64::from(ROOTS).exp2();
        let table: Vec<u64> = (0..count)
            .map(|k| (unit * (0.5 * f64::from(k)).exp2()).round() as u64)
            .collect();
        let bits = ROOTS + 1 + count / 2 + 1;
        let n = normalise(party, x, (bottom, top), bits + FINE + 4)?;
        let root = apply(party, &n, &fits::RSQRT)?;
        let scale = n.pick(party, &table);
        let (product, format) = restore(party, &root, &fits::RSQRT, &scale, bits)?;
        let frac = format.frac as i32 + ROOTS as i32 - exponent as i32;
        place(party, &product, format.ring, frac, to)
    })
}
