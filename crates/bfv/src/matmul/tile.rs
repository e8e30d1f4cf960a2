//! Plain blocks of the right matrix: some of its columns in column order, modulo a prime.
use super::window::Grid;
use std::ops::Range;
use tacita_ring::Modulus;

/// Rows that are brought into column order together, from a copy: each is in a page of its own, and all may
/// share a set of the cache.
const ROWS: usize = 32;

/// Values between columns: at multiples of their length, often a power of two, all would share a few sets of
/// the caches while they are written together.
const SKEW: usize = 24;

/// log2 of what counts as small: below every prime.
const SMALL: u32 = 48;

/// A signed integer modulo p.
pub fn residue(m: &Modulus, value: i64) -> f64 {
    if value.unsigned_abs() >> SMALL == 0 {
        small_residue(m, value)
    } else {
        m.from_i64(value) as f64
    }
}

/// The same below 2^48 in absolute value, what nearly all are: no division, no branch, and in a form that
/// compilers vectorise (adding 1.5 * 2^52 as an integer and subtracting it as a double converts).
#[inline(always)]
fn small_residue(m: &Modulus, value: i64) -> f64 {
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    let signed = f64::from_bits(SHIFT.to_bits().wrapping_add_signed(value)) - SHIFT;
    signed + f64::from_bits((m.p() as f64).to_bits() & (value >> 63) as u64)
}

/// Some columns of a matrix in column order.
pub struct Tile {
    values: Vec<i64>,
    /// Are all of them below 2^48 in absolute value?
    small: bool,
    /// The head's matrix, and what of it is loaded.
    pub head: usize,
    pub blocks: Range<usize>,
    columns: Range<usize>,
    rows: usize,
}

impl Tile {
    /// Column blocks of a head; `right` are the matrices of all.
    pub fn new(right: &[i64], grid: &Grid, head: usize, blocks: Range<usize>) -> Self {
        let (rows, width) = (grid.dims.m, grid.dims.n);
        let columns = grid.columns(blocks.start).start..grid.columns(blocks.end - 1).end;
        let stride = rows + SKEW;
        let mut values = vec![0; columns.len() * stride];
        let right = &right[head * rows * width..][..rows * width];
        let mut copy = vec![0; ROWS * columns.len()];
        for (block, part) in right.chunks(ROWS * width).enumerate() {
            for (to, row) in copy.chunks_exact_mut(columns.len()).zip(part.chunks_exact(width)) {
                to.copy_from_slice(&row[columns.clone()]);
            }
            for l in 0..columns.len() {
                let to = &mut values[l * stride + block * ROWS..][..part.len() / width];
                let column = copy[l..].iter().step_by(columns.len());
                to.iter_mut().zip(column).for_each(|(t, &v)| *t = v);
            }
        }
        let small = values.iter().fold(0, |all, v| all | v.unsigned_abs()) >> SMALL == 0;
        Self {
            values,
            small,
            head,
            blocks,
            columns,
            rows,
        }
    }

    fn column(&self, column: usize) -> &[i64] {
        &self.values[(column - self.columns.start) * (self.rows + SKEW)..][..self.rows]
    }

    /// The coefficients of right block (beta, gamma) modulo a prime.
    pub fn encode(&self, out: &mut [f64], grid: &Grid, (beta, gamma): (usize, usize), m: &Modulus) {
        let (inner, mw) = (grid.inner(beta), grid.window.mw);
        out.fill(0.0);
        for (l, column) in grid.columns(gamma).enumerate() {
            let values = &self.column(column)[inner.clone()];
            let to = out[l * mw..].iter_mut().zip(values);
            if self.small {
                to.for_each(|(x, &value)| *x = small_residue(m, value));
            } else {
                to.for_each(|(x, &value)| *x = residue(m, value));
            }
        }
    }
}
