//! Softmax of the rows of a matrix.
use super::exp::exp;
use super::few::product_any;
use super::fixed::{convert, rescale, shape, Fixed};
use super::inverse::{reciprocal, Span};
use crate::compare::{max_rows, shift_rounded, Window};
use crate::{Party, Result, Ring};

/// Fraction bits of the copy in which the maximum is found: it may be 2^-5 off, which exp bears and the
/// division takes out.
const COARSE: u32 = 5;
/// Fraction bits of exponentials.
const POWER: u32 = 14;

/// Shares of a matrix, row by row, |x| < 2^range.
#[derive(Clone, Copy)]
struct Scores<'a> {
    x: &'a [u64],
    rows: usize,
    cols: usize,
    from: Fixed,
    range: u32,
}

impl Scores<'_> {
    fn check(&self) -> Result<()> {
        let (from, range) = (self.from, self.range);
        let fits =
            range + from.frac + 1 < from.ring.bits() && from.frac > COARSE && (1..=24).contains(&range);
        let columns = (1..=1 << 20).contains(&self.cols);
        if fits && columns && self.rows.checked_mul(self.cols) == Some(self.x.len()) {
            return Ok(());
        }
        let (rows, cols, count) = (self.rows, self.cols, self.x.len());
        shape(
            "softmax",
            format!("{count} values, {rows} rows of {cols}, |x| < 2^{range} in {from:?}"),
        )
    }

    /// x less its row's (approximate) maximum, in the input's ring.
    fn below_maximum(&self, party: &mut Party) -> Result<Vec<u64>> {
        let from = self.from;
        let coarse = Fixed::new(self.range + COARSE + 2, COARSE);
        let low = rescale(party, self.x, from, 1.0, coarse)?;
        let window = Window::whole(coarse.ring);
        let most = max_rows(party, &low, self.rows, self.cols, coarse.ring, window)?;
        let most = convert(party, &most, coarse, from)?;
        let rows = self.x.chunks(self.cols).zip(&most);
        Ok(rows
            .flat_map(|(row, &m)| row.iter().map(move |&v| from.ring.sub(v, m)))
            .collect())
    }

    /// The sum of a row of exponentials: one of them is about 1, none above.
    fn span(&self) -> Span {
        let most = self.cols as f64 * 1.1;
        Span {
            low: -1,
            high: most.log2().floor() as i32 + 1,
        }
    }

    fn parts(&self, party: &mut Party, power: Ring, inverse: Fixed) -> Result<(Vec<u64>, Vec<u64>)> {
        self.check()?;
        let shifted = self.below_maximum(party)?;
        let span = self.span();
        let sum = Fixed::new((POWER as i32 + span.high + 2) as u32, POWER);
        let format = Fixed {
            ring: power.max(sum.ring),
            frac: POWER,
        };
        let mut powers = exp(party, &shifted, self.from, format, self.range + 1)?;
        let total = |row: &[u64]| {
            sum.ring
                .reduce(row.iter().fold(0, |s: u64, &v| s.wrapping_add(v)))
        };
        let sums: Vec<u64> = powers.chunks(self.cols).map(total).collect();
        let inverses = reciprocal(party, &sums, sum, span, inverse)?;
        powers.iter_mut().for_each(|p| *p = power.reduce(*p));
        Ok((powers, inverses))
    }
}

/// The two halves of softmax for late normalisation: exp(x - max) with 14 fraction bits in `power`, and one
/// inverse of the sum for each row in `inverse`. Their product is [`softmax`]; it can wait until after the
/// product with the values, which is smaller.
///
/// |x| < 2^range, masked positions included (a score 11 below the row's maximum gives exactly 0).
/// Cost for each element: a comparison of range + 6 bits and a multiplexer for the maximum, [`exp`], and
/// `power` less 17 bits.
///
/// # Errors
/// [`crate::MpcError::Shape`] for shapes and ranges that do not fit; those of the channel.
#[allow(clippy::too_many_arguments)]
pub fn softmax_parts(
    party: &mut Party,
    x: &[u64],
    rows: usize,
    cols: usize,
    from: Fixed,
    range: u32,
    power: Ring,
    inverse: Fixed,
) -> Result<(Vec<u64>, Vec<u64>)> {
    let scores = Scores {
        x,
        rows,
        cols,
        from,
        range,
    };
    party.measured("softmax", |party| scores.parts(party, power, inverse))
}

/// Softmax of every row of a (rows, cols) matrix with |x| < 2^range; error at most 3e-4.
///
/// Cost for each element: that of [`softmax_parts`], one product of 32 bits with the row's inverse, and the
/// way to `to`: 2523 bits.
///
/// # Errors
/// Those of [`softmax_parts`].
pub fn softmax(
    party: &mut Party,
    x: &[u64],
    rows: usize,
    cols: usize,
    from: Fixed,
    range: u32,
    to: Fixed,
) -> Result<Vec<u64>> {
    // exp has 14 fraction bits, the inverse 16: a product below 1.1 with 30 of them fits 32 bits
    let ring = Ring::new(32);
    let scores = Scores {
        x,
        rows,
        cols,
        from,
        range,
    };
    party.measured("softmax", |party| {
        let (powers, inverses) = scores.parts(party, ring, Fixed { ring, frac: 16 })?;
        let inverses: Vec<u64> = inverses
            .iter()
            .flat_map(|&i| std::iter::repeat_n(i, cols))
            .collect();
        let product = product_any(party, &powers, &inverses, ring, 15)?;
        let narrow = shift_rounded(party, &product, ring, 15);
        convert(party, &narrow, Fixed::new(17, 15), to)
    })
}
