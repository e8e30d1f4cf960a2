//! Maxima of rows, by a tournament.
use super::boolean::not;
use super::select::{select, select_many};
use super::sign::{negative_within, Window};
use crate::{MpcError, Party, Result, Ring};

/// Shares of the maximum of every row of a (rows, cols) matrix; differences within the window.
///
/// max(a, b) = b + 1{a >= b}(a - b), ceil(log2 cols) rounds of pairs; an odd column waits. Exact for a window
/// without dropped bits. With `drop`, a level may keep the smaller of two values that differ by less than
/// 2^drop: the result is one of the row's values, at most ceil(log2 cols) * (2^drop - 1) below the maximum,
/// never above. Cost for each of the rows*(cols-1) pairs: a comparison of the window's bits and 2*(ring bits
/// + 1) bits, 2 correlated transfers.
///
/// # Errors
/// Those of the channel; [`MpcError::Shape`] for cols = 0 or another number of elements.
pub fn max_rows(
    party: &mut Party,
    x: &[u64],
    rows: usize,
    cols: usize,
    ring: Ring,
    window: Window,
) -> Result<Vec<u64>> {
    check(x.len(), rows, cols)?;
    party.measured("max", |party| {
        let mut field = Field {
            cols,
            values: x.to_vec(),
        };
        while field.cols > 1 {
            let (first, second) = field.pairs();
            let difference = subtract(&first, &second, ring);
            let wins = negative_within(party, &difference, window)?;
            let wins = not(party, &wins);
            let gain = select(party, &wins, &difference, ring)?;
            field = field.next(&add(&second, &gain, ring));
        }
        Ok(field.values)
    })
}

/// Shares of every row's maximum and of its column (the column in `index`, which must hold cols - 1; of equal
/// values the lowest column wins when nothing is dropped). Errors of dropped bits as in [`max_rows`]. Cost:
/// that of [`max_rows`] and 2*(index bits) bits for each pair.
///
/// # Errors
/// Those of [`max_rows`].
pub fn argmax_rows(
    party: &mut Party,
    x: &[u64],
    rows: usize,
    cols: usize,
    ring: Ring,
    window: Window,
    index: Ring,
) -> Result<(Vec<u64>, Vec<u64>)> {
    check(x.len(), rows, cols)?;
    party.measured("argmax", |party| {
        let own = u64::from(party.is_client());
        let ids = (0..rows).flat_map(|_| (0..cols as u64).map(|c| index.reduce(c * own)));
        let mut ids = Field {
            cols,
            values: ids.collect(),
        };
        let mut field = Field {
            cols,
            values: x.to_vec(),
        };
        while field.cols > 1 {
            let ((a, b), (i, j)) = (field.pairs(), ids.pairs());
            let (difference, step) = (subtract(&a, &b, ring), subtract(&i, &j, index));
            let wins = negative_within(party, &difference, window)?;
            let wins = not(party, &wins);
            let gains = select_many(party, &wins, &[(&difference, ring), (&step, index)])?;
            field = field.next(&add(&b, &gains[0], ring));
            ids = ids.next(&add(&j, &gains[1], index));
        }
        Ok((field.values, ids.values))
    })
}

/// What is left of the tournament, row by row.
struct Field {
    cols: usize,
    values: Vec<u64>,
}

impl Field {
    /// Columns 0, 2, .. and columns 1, 3, .. of the pairs.
    fn pairs(&self) -> (Vec<u64>, Vec<u64>) {
        let pairs = self
            .values
            .chunks_exact(self.cols)
            .flat_map(|row| row.chunks_exact(2));
        pairs.map(|pair| (pair[0], pair[1])).unzip()
    }

    /// The winners, and the column that had no opponent.
    fn next(&self, winners: &[u64]) -> Self {
        let pairs = self.cols / 2;
        let cols = self.cols.div_ceil(2);
        let mut values = Vec::with_capacity(self.values.len() / self.cols * cols);
        for (row, winners) in self
            .values
            .chunks_exact(self.cols)
            .zip(winners.chunks_exact(pairs))
        {
            values.extend_from_slice(winners);
            values.extend_from_slice(&row[2 * pairs..]);
        }
        Self { cols, values }
    }
}

fn subtract(x: &[u64], y: &[u64], ring: Ring) -> Vec<u64> {
    x.iter().zip(y).map(|(&x, &y)| ring.sub(x, y)).collect()
}

fn add(x: &[u64], y: &[u64], ring: Ring) -> Vec<u64> {
    x.iter().zip(y).map(|(&x, &y)| ring.add(x, y)).collect()
}

fn check(len: usize, rows: usize, cols: usize) -> Result<()> {
    if cols > 0 && rows.checked_mul(cols) == Some(len) {
        return Ok(());
    }
    let detail = format!("{len} elements are not {rows} rows of {cols} columns");
    Err(MpcError::Shape {
        op: "max_rows",
        detail,
    })
}
