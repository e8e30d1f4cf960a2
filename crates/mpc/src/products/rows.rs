//! Matrices laid into ciphertexts by columns, so that what belongs to a row meets itself.
//!
//! A block of 8192 slots holds whole columns, `rows` slots each: element (row, col) lies at
//! `(col mod c) * rows + row` of block `col / c`. Then the sum of all blocks holds sums over columns, so row
//! sums of squares come in *one* response, whatever the number of columns; and a factor for every row,
//! repeated c times, is one ciphertext that serves all blocks.
use super::operand::Part;
use super::state::SLOTS;
use super::{check_weights, lattice, share_operand, Operand};
use crate::{MpcError, Party, Result};

/// How a (rows, cols) matrix lies.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    rows: usize,
    cols: usize,
    /// Columns of a block.
    together: usize,
}

impl Rows {
    /// Most rows: with more, blocks could be filled by less than four fifths.
    pub const MOST: usize = 2048;

    /// The layout.
    ///
    /// # Errors
    /// [`MpcError::Shape`] unless 1 <= rows <= [`Rows::MOST`] and there is a column.
    pub fn new(rows: usize, cols: usize) -> Result<Self> {
        if !(1..=Self::MOST).contains(&rows) || cols == 0 {
            let detail = format!("{rows} x {cols} values");
            return Err(MpcError::Shape { op: "rows", detail });
        }
        let together = (SLOTS / rows).min(cols);
        Ok(Self { rows, cols, together })
    }

    fn place(&self, row: usize, col: usize) -> usize {
        col / self.together * SLOTS + col % self.together * self.rows + row
    }

    /// Row-major values into blocks, zeros between them.
    pub fn lay(&self, x: &[u64]) -> Vec<u64> {
        let mut laid = vec![0; self.cols.div_ceil(self.together) * SLOTS];
        for (row, values) in x.chunks(self.cols).enumerate() {
            for (col, &value) in values.iter().enumerate() {
                laid[self.place(row, col)] = value;
            }
        }
        laid
    }

    /// Back to row-major values.
    pub fn gather(&self, laid: &[u64]) -> Vec<u64> {
        let row = |row| (0..self.cols).map(move |col| laid[self.place(row, col)]);
        (0..self.rows).flat_map(row).collect()
    }

    /// A value for every row, in every column of one block.
    pub fn spread(&self, values: &[u64]) -> Vec<u64> {
        let mut block: Vec<u64> = values
            .iter()
            .cycle()
            .take(self.rows * self.together)
            .copied()
            .collect();
        block.resize(SLOTS, 0);
        block
    }

    fn check(&self, op: &'static str, laid: &Operand) -> Result<()> {
        let expected = self.cols.div_ceil(self.together) * SLOTS;
        if laid.len() == expected {
            return Ok(());
        }
        let detail = format!("{} laid values, {expected} expected", laid.len());
        Err(MpcError::Shape { op, detail })
    }
}

/// Shares of the sum of x^2 over every row, for x laid by `rows`: one response of 8192 slots in all. Off by
/// at most 2^(slack-2) for each column (and a unit for each column of a block).
///
/// # Errors
/// [`MpcError::Shape`] for an operand of another layout; those of the channel.
pub fn sums_of_squares(party: &mut Party, x: &Operand, rows: &Rows) -> Result<Vec<u64>> {
    rows.check("sums_of_squares", x)?;
    let (ring, share) = (x.ring(), x.share_values());
    let mut local = vec![0; SLOTS];
    for block in share.chunks(SLOTS) {
        local
            .iter_mut()
            .zip(block)
            .for_each(|(sum, &x)| *sum = ring.add(*sum, ring.mul(x, x)));
    }
    let doubled = |block: &[u64]| block.iter().map(|&x| ring.mul(2, x)).collect();
    let part = |(at, block)| Part {
        operand: x,
        only: Some(at),
        multiplier: (!party.is_client()).then(|| doubled(block)),
    };
    let parts: Vec<Part<'_>> = share.chunks(SLOTS).enumerate().map(part).collect();
    let sums = party.measured("products", |party| lattice::evaluate(party, &parts, local))?;
    let total = |row| (0..rows.together).fold(0, |sum, i| ring.add(sum, sums[i * rows.rows + row]));
    Ok((0..rows.rows).map(total).collect())
}

/// Shares of w*x*y, laid, for x laid by `rows`, y one block from [`Rows::spread`], and w (laid) at the server
/// alone (layer norm's gamma). With one ciphertext for all of y, and one request more, Enc(x1*y1):
/// w x y = Enc(x1 y1) w + Enc(x1) w y0 + Enc(y1) w x0 + w x0 y0. The product w*x*y must fit the ring.
///
/// # Errors
/// [`MpcError::Shape`] for operands of other layouts and for a `w` that is missing, misplaced or of another
/// length; those of the channel.
pub fn scaled_rows_by_server(
    party: &mut Party,
    x: &Operand,
    y: &Operand,
    rows: &Rows,
    w: Option<&[u64]>,
) -> Result<Vec<u64>> {
    const OP: &str = "scaled_rows_by_server";
    rows.check(OP, x)?;
    if y.len() != SLOTS || (y.ring(), y.slack()) != (x.ring(), x.slack()) {
        let detail = format!(
            "a factor of {} slots in {:?}, slack {}",
            y.len(),
            y.ring(),
            y.slack()
        );
        return Err(MpcError::Shape { op: OP, detail });
    }
    check_weights(OP, party, w, x.len())?;
    let repeated: Vec<u64> = y.share_values().iter().cycle().take(x.len()).copied().collect();
    let both = share_operand(party, &x.times(&repeated), x.ring(), x.slack())?;
    let local = w.map_or_else(|| vec![0; x.len()], |w| both.times(w));
    let by_y = w.map(|w| {
        repeated
            .iter()
            .zip(w)
            .map(|(&y, &w)| x.ring().mul(y, w))
            .collect()
    });
    let factor = Part {
        operand: y,
        only: Some(0),
        multiplier: w.map(|w| x.times(w)),
    };
    let parts = [
        Part::new(&both, w.map(<[u64]>::to_vec)),
        Part::new(x, by_y),
        factor,
    ];
    party.measured("products", |party| lattice::evaluate(party, &parts, local))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{join, run_both, split};
    use crate::Ring;

    #[test]
    fn laying_and_gathering_are_inverse() {
        for (rows, cols) in [(1, 1), (1, 9000), (3, 5000), (128, 200), (2048, 7), (1639, 3)] {
            let layout = Rows::new(rows, cols).unwrap();
            let x: Vec<u64> = (1..=(rows * cols) as u64).collect();
            let laid = layout.lay(&x);
            assert_eq!(laid.len() % SLOTS, 0);
            assert_eq!(layout.gather(&laid), x);
        }
        assert!(Rows::new(0, 3).is_err() && Rows::new(2049, 3).is_err() && Rows::new(4, 0).is_err());
    }

    #[test]
    fn row_sums_and_scaled_rows_are_those_of_the_matrix() {
        let (ring, slack) = (Ring::new(48), 8);
        for (rows, cols) in [(1usize, 5usize), (100, 200), (129, 130), (2000, 9)] {
            let layout = Rows::new(rows, cols).unwrap();
            let x: Vec<i64> = (0..(rows * cols) as i64)
                .map(|i| (i * 7919) % 2001 - 1000)
                .collect();
            let y: Vec<i64> = (0..rows as i64).map(|i| (i * 31) % 801 - 400).collect();
            let w: Vec<i64> = (0..(rows * cols) as i64).map(|i| (i * 13) % 61 - 30).collect();
            let ((x0, x1), (y0, y1)) = (split(ring, &x, 1), split(ring, &y, 2));
            let weights = layout.lay(&w.iter().map(|&w| ring.from_signed(w)).collect::<Vec<_>>());
            let (client, server) = run_both(((x0, y0), (x1, y1)), |party, (x, y)| {
                party.setup_products()?;
                let x = share_operand(party, &layout.lay(&x), ring, slack)?;
                let sums = sums_of_squares(party, &x, &layout)?;
                let y = share_operand(party, &layout.spread(&y), ring, slack)?;
                let w = (!party.is_client()).then_some(&weights[..]);
                Ok((
                    sums,
                    layout.gather(&scaled_rows_by_server(party, &x, &y, &layout, w)?),
                ))
            });
            let bound = (cols as i64) << (slack - 2);
            for (row, found) in join(ring, &client.0, &server.0).into_iter().enumerate() {
                let expected: i64 = x[row * cols..][..cols].iter().map(|x| x * x).sum();
                assert!(
                    (found - expected).abs() <= bound + cols as i64,
                    "{rows} x {cols}: {found} for {expected}"
                );
            }
            for (i, found) in join(ring, &client.1, &server.1).into_iter().enumerate() {
                let expected = x[i] * y[i / cols] * w[i];
                assert!(
                    (found - expected).abs() <= 1 << slack,
                    "{rows} x {cols}: {found} for {expected}"
                );
            }
        }
    }

    #[test]
    fn other_layouts_are_refused() {
        let ring = Ring::new(32);
        let _ = run_both((vec![1u64; 10], vec![2u64; 10]), |party, x| {
            party.setup_products()?;
            let (layout, x) = (Rows::new(2, 5)?, share_operand(party, &x, ring, 5)?);
            assert!(sums_of_squares(party, &x, &layout).is_err());
            assert!(scaled_rows_by_server(party, &x, &x, &layout, None).is_err());
            Ok(())
        });
    }
}
