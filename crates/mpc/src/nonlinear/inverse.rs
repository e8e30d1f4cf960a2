//! 1/x and 1/sqrt(x) of positive values over many powers of two.
//!
//! Thresholds at every power of two give s with n = s x in [1/2, 1); a chain of three squares with 22
//! fraction bits gives 1/n or 1/sqrt(n) to 1e-5 relative; one product with s (or a public table of roots of
//! powers of two, picked by the same bits) undoes the scale. No Newton steps, no secret-dependent branch.
//!
//! All by oblivious transfer, for the sake of rounds: the thresholds' bits choose n and the factor at once,
//! out of the shifted copies of x that any share can make of its own; a square takes a round, and so does the
//! product, whose ring is that of the result where it fits 64 bits.
//!
//! Few values wait half as long ([`by_segments`]): six or nine thresholds a power of two choose a polynomial
//! of degree 2, so that one square takes the place of three, and the result is what is chosen.
use super::chain::Chain;
use super::few::droppable;
use super::fits;
use super::fixed::{add_public, convert, shape, Fixed};
use super::short::{scaled, square_beside, square_cost, Factors};
use crate::compare::{below_many, below_prices, extend, select, select_many, shift_rounded, Prices};
use crate::ot::Multiples;
use crate::share::Z64;
use crate::{Party, Result, Ring};

/// Fraction bits of the chain.
const FINE: u32 = 22;
/// Fraction bits of the table of roots.
const ROOTS: u32 = 18;
/// Fraction bits of n where segments' polynomials take it.
const SHORT: u32 = 19;
/// [1/2, 1) in 128ths, and ends of its segments: of 1/sqrt an eighth of what they hold wide, of 1/x an
/// eleventh or less.
const UNIT: u64 = 128;
const ROOT_MARKS: [u64; 7] = [64, 72, 81, 91, 102, 114, UNIT];
const INVERSE_MARKS: [u64; 10] = [64, 69, 74, 80, 87, 94, 101, 109, 118, UNIT];
/// Bits below the least value that thresholds of segments look at.
const LOWEST: u32 = 9;
/// Bits below a unit of the result that its product keeps: it is off by 27 units at most.
const SPARE: i32 = 8;
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

/// What brings values into [1/2, 1), and the factor that undoes it.
struct Normalised {
    /// s*x with [`FINE`] fraction bits in Z_{2^(FINE+2)}.
    unit: Vec<u64>,
    /// The entry of a public table at log2 s.
    factor: Vec<u64>,
}

/// Integers of the span's ends: 2^bottom <= x < 2^top.
fn ends(op: &'static str, from: Fixed, span: Span) -> Result<(u32, u32)> {
    let (bottom, top) = (span.low + from.frac as i32, span.high + from.frac as i32);
    let fits =
        bottom >= 0 && top > bottom && top + 2 <= from.ring.bits() as i32 && top <= 58 && top - bottom <= 32;
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

/// x 2^m / 2^top with so many fraction bits in a ring of two more, for every m below top - bottom: the m-th
/// is n where x is below 2^(top - m), and arbitrary elsewhere. Local.
fn copies(party: &Party, x: &[u64], (bottom, top): (u32, u32), frac: u32) -> Vec<Vec<u64>> {
    let (work, unit) = (Ring::new(top + 2), Ring::new(frac + 2));
    let scaled = |m: u32| -> Vec<u64> {
        let copy = match top.checked_sub(m + frac) {
            Some(down) => shift_rounded(party, x, work, down),
            None => x.iter().map(|&v| v << (m + frac - top)).collect(),
        };
        copy.iter().map(|&n| unit.reduce(n)).collect()
    };
    (0..top - bottom).map(scaled).collect()
}

/// f(x) of few values in the format `to`, f a public decreasing function that a polynomial of degree 2 meets
/// on every segment, whose `marks` are in 128ths; nothing where the other way costs less over the link or the
/// formats ask for it.
///
/// n, and n^2 for every power of two at once, give the values of all segments' polynomials without a message,
/// and the thresholds choose one of them; they may be a 2^-9 off. A power of two below the span has segments
/// too, as the chains of [`restored`] bear values a little below. Rounds: a comparison beside the squares, a
/// choice, and growth where the result's ring is too large for the polynomials.
fn by_segments(
    party: &mut Party,
    x: &[u64],
    (bottom, top): (u32, u32),
    marks: &[u64],
    f: impl Fn(f64) -> f64,
    to: Fixed,
) -> Result<Option<Vec<u64>>> {
    let (whole, bottom) = (bottom, bottom.saturating_sub(1));
    let (count, powers, work) = (x.len(), top - bottom, Ring::new(top + 2));
    let least = f(f64::from(bottom).exp2()).log2().floor() as i32 + to.frac as i32 + 3;
    let narrow = Ring::new(least.clamp(1, to.ring.bits() as i32) as u32);
    // fraction bits of coefficients, whose errors stay below 2^-18 of the least value
    let bits_in = |ring: Ring| (Z64.bits() - 2 * SHORT) as i32 - ring.bits() as i32 + to.frac as i32;
    let precise = |ring: &Ring| f(f64::from(top).exp2()) * f64::from(bits_in(*ring) - 12).exp2() >= 1.0;
    let Some(inner) = [to.ring, narrow].into_iter().find(precise) else {
        return Ok(None);
    };
    let segment = |m: u32| marks.windows(2).rev().map(move |ends| (m, ends[0], ends[1]));
    let segments: Vec<(u32, u64, u64)> = (0..powers).flat_map(segment).collect();
    let cut = bottom.saturating_sub(LOWEST);
    let at = |&(m, low, _): &(u32, u64, u64)| {
        (u128::from(low) << (top - m)).div_ceil(u128::from(UNIT) << cut) as i64
    };
    let thresholds: Vec<i64> = segments[..segments.len() - 1].iter().map(at).collect();
    let (compared, drop) = (Ring::new(top + 2 - cut), droppable("square", Z64, SHORT - 1)?);
    let [apart, grouped] = below_prices(count, compared, &thresholds, party.prices);
    let here = apart.min(grouped)
        + price_of_segments(
            party.prices,
            count,
            (powers, thresholds.len()),
            [inner, to.ring],
            drop,
        );
    if count == 0 || here >= price_of_chain(party.prices, count, (whole, top), to.ring) {
        return Ok(None);
    }
    let bits = bits_in(inner);
    let x: Vec<u64> = x.iter().map(|&v| work.reduce(v)).collect();
    let units = copies(party, &x, (bottom, top), SHORT).concat();
    let (shares, ring, least) = (&units[..], Ring::new(SHORT + 2), 0);
    let factors = Factors { shares, ring, least };
    let low = shift_rounded(party, &x, work, cut);
    let ((squares, units), below) = square_beside(party, &factors, Z64, drop, true, |party| {
        below_many(party, &low, compared, &thresholds)
    })?;
    let below = below.concat();
    let value = |&(m, low, high): &(u32, u64, u64)| {
        let [second, linear, constant] = parabola(
            |n| f(n * f64::from(top - m).exp2()),
            [low, high].map(|end| end as f64 / UNIT as f64),
            bits,
        );
        let each = squares.iter().zip(&units).skip(m as usize * count).take(count);
        let mut sum: Vec<u64> = each
            .map(|(s, n)| {
                s.wrapping_mul(second)
                    .wrapping_add(n.wrapping_mul(linear) << SHORT)
            })
            .collect();
        add_public(party, &mut sum, Z64, constant);
        shift_rounded(party, &sum, Z64, Z64.bits() - inner.bits())
    };
    let values: Vec<Vec<u64>> = segments.iter().map(value).collect();
    let step = |pair: &[Vec<u64>]| -> Vec<u64> {
        let pairs = pair[0].iter().zip(&pair[1]);
        pairs.map(|(a, b)| inner.sub(*b, *a)).collect()
    };
    let steps: Vec<u64> = values.windows(2).flat_map(step).collect();
    let mut sum = values[0].clone();
    for chosen in select(party, &below, &steps, inner)?.chunks(count) {
        sum.iter_mut()
            .zip(chosen)
            .for_each(|(s, &c)| *s = inner.add(*s, c));
    }
    Ok(Some(extend(party, &sum, inner, to.ring)?))
}

/// What [`by_segments`] costs beside its comparisons: squares of copies, choices of steps, growth.
fn price_of_segments(
    prices: Prices,
    count: usize,
    (powers, chosen): (u32, usize),
    [inner, to]: [Ring; 2],
    drop: u32,
) -> u64 {
    let (wire, transfers) = square_cost(Ring::new(SHORT + 2), Z64, drop);
    let growth = u64::from(to.bits() - inner.bits());
    prices.total(count * powers as usize, (wire, transfers + 1), 0)
        + prices.total(count * chosen, (2 * u64::from(inner.bits()) + 2, 2), 2)
        + prices.total(count, (growth + 1, 1), 2 * growth.min(1))
}

/// What [`restored`] costs: thresholds of powers of two, choices of n and the factor, three squares, a
/// product with about the result's ring.
fn price_of_chain(prices: Prices, count: usize, (bottom, top): (u32, u32), to: Ring) -> u64 {
    let (unit, wide) = (Ring::new(FINE + 2), Chain::input(FINE).ring);
    let at: Vec<i64> = (bottom + 1..top).map(|j| 1i64 << j).collect();
    let [apart, grouped] = below_prices(count, Ring::new(top + 2), &at, prices);
    let chosen = (u64::from(2 * (unit.bits() + to.bits()) + 2), 2);
    let [first, other] = [Z64, wide].map(|ring| square_cost(unit, ring, FINE - 5));
    let product = u64::from(2 * Multiples::from(unit).bits());
    apart.min(grouped)
        + prices.total(count * at.len(), chosen, 2)
        + prices.total(count, first, 2)
        + 2 * prices.total(count, other, 2)
        + prices.total(count, (product, 2 * u64::from(unit.bits())), 2)
}

/// Coefficients of n^2, n and 1 of the polynomial that meets f at the Chebyshev nodes of an interval: `bits`
/// fraction bits, of the last 2 [`SHORT`] more. Each makes up for the rounding of those before.
fn parabola(f: impl Fn(f64) -> f64, [low, high]: [f64; 2], bits: i32) -> [u64; 3] {
    let (unit, middle) = (f64::from(bits).exp2(), (low + high) / 2.0);
    let node = 0.75f64.sqrt() * (high - low) / 2.0;
    let [less, value, more] = [middle - node, middle, middle + node].map(f);
    let second = ((less + more - 2.0 * value) / (2.0 * node * node) * unit).round();
    let linear = ((more - less) / (2.0 * node) * unit - 2.0 * middle * second).round();
    let constant = value * unit - middle * (linear + middle * second);
    let constant = (constant * f64::from(2 * SHORT).exp2()).round();
    [second, linear, constant].map(|value| value as i128 as u64)
}

/// n = s x and the entry of `table` (one for every power of two, from the largest values down) for a value
/// each, in `ring`.
///
/// The m-th threshold from above tells whether s is at least 2^m: n and the factor are what they are for s =
/// 1, and what every threshold's bit adds.
fn normalise(
    party: &mut Party,
    x: &[u64],
    (bottom, top): (u32, u32),
    table: &[u64],
    ring: Ring,
) -> Result<Normalised> {
    let (work, unit) = (Ring::new(top + 2), Ring::new(FINE + 2));
    let x: Vec<u64> = x.iter().map(|&v| work.reduce(v)).collect();
    let at: Vec<i64> = (bottom + 1..top).rev().map(|j| 1i64 << j).collect();
    let below = below_many(party, &x, work, &at)?.concat();
    let copies = copies(party, &x, (bottom, top), FINE);
    let steps = |pair: &[Vec<u64>]| -> Vec<u64> {
        pair[0]
            .iter()
            .zip(&pair[1])
            .map(|(a, b)| unit.sub(*b, *a))
            .collect()
    };
    let steps = copies.windows(2).flat_map(steps).collect::<Vec<_>>();
    let mut ones = vec![0; steps.len()];
    add_public(party, &mut ones, ring, 1);
    let chosen = select_many(party, &below, &[(&steps, unit), (&ones, ring)])?;
    let mut out = Normalised {
        unit: copies[0].clone(),
        factor: vec![0; x.len()],
    };
    add_public(party, &mut out.factor, ring, table[0]);
    if x.is_empty() {
        return Ok(out);
    }
    for (m, (steps, bits)) in chosen[0]
        .chunks(x.len())
        .zip(chosen[1].chunks(x.len()))
        .enumerate()
    {
        let more = table[m + 1].wrapping_sub(table[m]);
        out.unit
            .iter_mut()
            .zip(steps)
            .for_each(|(n, &step)| *n = unit.add(*n, step));
        out.factor
            .iter_mut()
            .zip(bits)
            .for_each(|(f, &bit)| *f = ring.add(*f, more.wrapping_mul(bit)));
    }
    Ok(out)
}

/// f(n) 2^-more times the picked entry of `table`, all entries below 2^bits: f by its chain, in the format
/// `to`.
#[allow(clippy::too_many_arguments)]
fn restored(
    party: &mut Party,
    x: &[u64],
    ends: (u32, u32),
    chain: &Chain,
    table: &[u64],
    bits: u32,
    more: i32,
    to: Fixed,
) -> Result<Vec<u64>> {
    let format = chain.output(FINE);
    // where the product's ring leaves that of the result behind the bits that are dropped, nothing grows
    let frac = format.frac as i32 + more;
    let whole = to.ring.bits() as i32 + frac - to.frac as i32;
    let least = (bits + FINE + 4) as i32;
    let ring = Ring::new(if whole > 64 { least } else { whole.max(least) } as u32);
    let n = normalise(party, x, ends, table, ring)?;
    let y = chain.evaluate_unit(party, &n.unit, FINE)?;
    let drop = (frac - to.frac as i32 - SPARE).max(0) as u32;
    let product = scaled(party, &Factors::signed(&y, format.ring), &n.factor, ring, drop)?;
    place(
        party,
        &product,
        Ring::new(ring.bits() - drop),
        frac - drop as i32,
        to,
    )
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
/// Cost: high - low thresholds on the span's bits, as many choices of 24 bits and those of the product, three
/// squares of 24 bits, a product. For 1000 values of 8 powers of two: about 1.5 kB each. Rounds: those of a
/// comparison ([`below_many`]), a choice, three squares, the product, and one where the result's ring and the
/// product's dropped bits take more than 64 together. Of few values, whose bytes cost less than these rounds,
/// nine comparisons a power of two choose a polynomial's value: the rounds of a comparison, a choice, growth.
///
/// # Errors
/// [`crate::MpcError::Shape`] for a span outside the ring or an output that does not fit; those of the
/// channel.
pub fn reciprocal(party: &mut Party, x: &[u64], from: Fixed, span: Span, to: Fixed) -> Result<Vec<u64>> {
    let (bottom, top) = ends("reciprocal", from, span)?;
    party.measured("reciprocal", |party| {
        let unit = f64::from(from.frac).exp2();
        if let Some(y) = by_segments(party, x, (bottom, top), &INVERSE_MARKS, |x| unit / x, to)? {
            return Ok(y);
        }
        let bits = top - bottom;
        let powers: Vec<u64> = (0..bits).map(|k| 1 << k).collect();
        // 1/x = s / (2^top n) in units, times 2^frac
        let more = top as i32 - from.frac as i32;
        restored(
            party,
            x,
            (bottom, top),
            &fits::RECIPROCAL,
            &powers,
            bits,
            more,
            to,
        )
    })
}

/// factor / sqrt(x) for 2^low <= x < 2^high and a public factor, to a relative 3e-5 and a unit of the output.
///
/// Cost: that of [`reciprocal`]; by segments six comparisons a power of two.
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
        let unit = f64::from(from.frac).exp2();
        let root = |x: f64| factor * (unit / x).sqrt();
        if let Some(y) = by_segments(party, x, (bottom, top), &ROOT_MARKS, root, to)? {
            return Ok(y);
        }
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
        let more = ROOTS as i32 - exponent as i32;
        restored(party, x, (bottom, top), &fits::RSQRT, &table, bits, more, to)
    })
}
