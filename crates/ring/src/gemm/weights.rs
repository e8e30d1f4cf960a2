//! Real weights as integers small enough for exact sums in doubles.

use super::ROWS;
use crate::AlignedVec;

/// Largest sum of |w| over a row: 2^53 / 2^24.
pub const MAX_ROW_SUM: f64 = (1u64 << 29) as f64;
/// Largest depth: the slack that the rounding needs is then a small part of the row sum.
const MAX_DEPTH: usize = 1 << 20;

/// A matrix of integers w with one integer multiplier c for each row: row o stands for c_o * w_o.
///
/// Packed for the kernel: blocks of `ROWS` rows, in each the depth, in each the rows (the last block filled
/// with zeros).
#[derive(Clone, Debug)]
pub struct Weights {
    packed: AlignedVec,
    multipliers: Vec<i128>,
    depth: usize,
}

impl Weights {
    /// Rounds `factor` times a matrix `[rows, depth]` to c * w, in as many bits as exact sums admit: c is the
    /// least integer for which the |w| of the row sum to at most [`MAX_ROW_SUM`]. Nothing but the rounding of
    /// w is lost: an entry is off by at most c / 2, that is about the sum of its row's absolute values *
    /// 2^-30 in the units of the matrix (or 1 / (2 factor), when that is more). None for an empty or ragged
    /// matrix, a depth above 2^20, or entries that are not finite or times `factor` sum to 2^90 or more in a
    /// row.
    pub fn round(values: &[f64], depth: usize, factor: f64) -> Option<Self> {
        if values.is_empty() || !(1..=MAX_DEPTH).contains(&depth) || !values.len().is_multiple_of(depth) {
            return None;
        }
        let rows = values.len() / depth;
        let mut packed = AlignedVec::zeroed(rows.div_ceil(ROWS) * ROWS * depth);
        let mut multipliers = Vec::with_capacity(rows);
        for (o, row) in values.chunks_exact(depth).enumerate() {
            let c = multiplier(row, factor)?;
            multipliers.push(c as i128);
            let start = o / ROWS * ROWS * depth + o % ROWS;
            let packed = packed[start..].iter_mut().step_by(ROWS);
            packed.zip(row).for_each(|(w, &x)| *w = (x * factor / c).round());
        }
        Some(Self {
            packed,
            multipliers,
            depth,
        })
    }

    /// These columns alone, in this order, with the integers and multipliers that they have here: their
    /// products add up to those of the whole. Panics at a column that is not there.
    pub fn columns(&self, columns: &[usize]) -> Self {
        let blocks = self.multipliers.len().div_ceil(ROWS);
        let mut packed = AlignedVec::zeroed(blocks * ROWS * columns.len());
        let places = self
            .blocks()
            .flat_map(|block| columns.iter().map(move |&k| &block[k * ROWS..][..ROWS]));
        for (to, from) in packed.chunks_exact_mut(ROWS).zip(places) {
            to.copy_from_slice(from);
        }
        Self {
            packed,
            multipliers: self.multipliers.clone(),
            depth: columns.len(),
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.multipliers.len()
    }
    /// Number of columns.
    pub fn depth(&self) -> usize {
        self.depth
    }
    /// The multiplier c of a row.
    pub fn multiplier(&self, row: usize) -> i128 {
        self.multipliers[row]
    }
    /// The integer w of a row and a column.
    pub fn weight(&self, row: usize, column: usize) -> f64 {
        self.packed[(row / ROWS * self.depth + column) * ROWS + row % ROWS]
    }
    /// The blocks of `ROWS` rows.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &[f64]> {
        self.packed.chunks_exact(self.depth * ROWS)
    }
}

/// The least c for which the rounded row sums to at most [`MAX_ROW_SUM`]: half a unit a column is kept for
/// the rounding and one unit for the error of the sum itself. An integer below 2^62, exactly.
fn multiplier(row: &[f64], factor: f64) -> Option<f64> {
    let sum = row.iter().map(|x| x.abs()).sum::<f64>() * factor;
    let room = MAX_ROW_SUM - 0.5 * row.len() as f64 - 1.0;
    (sum < 90f64.exp2()).then(|| (sum / room).ceil().max(1.0))
}
