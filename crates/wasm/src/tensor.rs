//! Tensors of shares, and what is done to them without a message. Programs come from a peer: every shape and
//! ring is checked here, whatever it says.
use crate::error::{damaged, Result};
use std::ops::Range;
use tacita_mpc::Ring;

/// Values that a tensor may have: far above those of any plan, far below a page's memory.
pub(crate) const MOST: usize = 1 << 25;

/// Canonical residues modulo 2^ring in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    shape: Vec<usize>,
    ring: Ring,
    values: Vec<u64>,
}

/// That a program's step does not fit what it is applied to.
pub(crate) fn misfit<T>(detail: impl Into<String>) -> Result<T> {
    damaged("program", detail)
}

/// The ring of so many bits.
///
/// # Errors
/// Outside 1 to 64.
pub fn ring(bits: u32) -> Result<Ring> {
    if (1..=64).contains(&bits) {
        return Ok(Ring::new(bits));
    }
    misfit(format!("a ring of {bits} bits"))
}

impl Tensor {
    /// Values of a shape, reduced.
    ///
    /// # Errors
    /// When there are others than so many, or too many.
    pub fn new(shape: Vec<usize>, ring: Ring, mut values: Vec<u64>) -> Result<Self> {
        let size = shape.iter().try_fold(1usize, |p, &n| p.checked_mul(n));
        if shape.is_empty() || size != Some(values.len()) || values.len() > MOST {
            return misfit(format!("{} values in the shape {shape:?}", values.len()));
        }
        for value in &mut values {
            *value = ring.reduce(*value);
        }
        Ok(Self { shape, ring, values })
    }

    /// Its shape.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Its ring.
    pub fn ring(&self) -> Ring {
        self.ring
    }

    /// All values.
    pub fn values(&self) -> &[u64] {
        &self.values
    }

    /// The last two sizes, and the product of those before.
    ///
    /// # Errors
    /// For a vector.
    pub fn matrices(&self) -> Result<(usize, usize, usize)> {
        match self.shape[..] {
            [ref before @ .., rows, columns] => Ok((before.iter().product(), rows, columns)),
            _ => misfit("a vector where matrices are needed"),
        }
    }

    /// The same with each value changed, in a ring.
    pub fn map(&self, ring: Ring, f: impl Fn(u64) -> u64) -> Self {
        Self {
            shape: self.shape.clone(),
            ring,
            values: self.values.iter().map(|&x| ring.reduce(f(x))).collect(),
        }
    }

    /// The sum in a ring that both have or more than that.
    ///
    /// # Errors
    /// For other shapes or smaller rings.
    pub fn plus(&self, other: &Self, ring: Ring) -> Result<Self> {
        if self.shape != other.shape || self.ring < ring || other.ring < ring {
            return misfit(format!("a sum of {:?} and {:?}", self.shape, other.shape));
        }
        let sums = self.values.iter().zip(&other.values);
        let values = sums.map(|(&x, &y)| ring.add(x, y)).collect();
        Self::new(self.shape.clone(), ring, values)
    }

    /// (more heads, rows, d) -> (heads, rows of neighbours, d), or back.
    ///
    /// # Errors
    /// For other shapes.
    pub fn grouped(&self, heads: usize) -> Result<Self> {
        let (before, rows, columns) = self.matrices()?;
        if heads == 0 || (before * rows) % heads != 0 {
            return misfit(format!("{heads} heads of {:?}", self.shape));
        }
        Self::new(
            vec![heads, before * rows / heads, columns],
            self.ring,
            self.values.clone(),
        )
    }

    /// The rows of another behind these, in every matrix.
    ///
    /// # Errors
    /// For other sizes or another ring.
    pub fn above(&self, other: &Self) -> Result<Self> {
        let ((before, rows, columns), (others, more, wide)) = (self.matrices()?, other.matrices()?);
        if (before, columns, self.ring) != (others, wide, other.ring) {
            return misfit(format!("rows of {:?} behind {:?}", other.shape, self.shape));
        }
        let part = |values: &[u64], rows: usize, matrix: usize| {
            values[matrix * rows * columns..][..rows * columns].to_vec()
        };
        let parts = (0..before).flat_map(|m| [part(&self.values, rows, m), part(&other.values, more, m)]);
        let values = parts.collect::<Vec<_>>().concat();
        self.shaped(&[rows + more, columns], values)
    }

    /// Blocks of so many columns.
    ///
    /// # Errors
    /// When they are not all.
    pub fn columns(&self, widths: &[usize]) -> Result<Vec<Self>> {
        let (before, rows, columns) = self.matrices()?;
        let total = widths.iter().try_fold(0usize, |sum, &w| sum.checked_add(w));
        if total != Some(columns) {
            return misfit(format!("blocks {widths:?} of {columns} columns"));
        }
        let mut at = 0;
        let mut block = |&width: &usize| {
            let lines = (0..before * rows).map(|line| line * columns + at);
            let values = lines.flat_map(|from| &self.values[from..from + width]).copied();
            let found = self.shaped(&[rows, width], values.collect());
            at += width;
            found
        };
        widths.iter().map(&mut block).collect()
    }

    /// The first rows, or for a negative number the last.
    ///
    /// # Errors
    /// When there are fewer.
    pub fn rows(&self, count: isize) -> Result<Self> {
        let (before, rows, columns) = self.matrices()?;
        let kept = count.unsigned_abs();
        if kept > rows {
            return misfit(format!("{kept} rows of {rows}"));
        }
        let first = if count < 0 { rows - kept } else { 0 };
        let matrices = (0..before).map(|matrix| (matrix * rows + first) * columns);
        let values = matrices.flat_map(|from| &self.values[from..from + kept * columns]);
        self.shaped(&[kept, columns], values.copied().collect())
    }

    /// Some heads and rows of them.
    ///
    /// # Errors
    /// When there are fewer.
    pub fn part(&self, heads: Range<usize>, rows: Range<usize>) -> Result<Self> {
        let (before, all, columns) = self.matrices()?;
        if self.shape.len() != 3 || heads.end > before || rows.end > all {
            return misfit(format!("heads {heads:?} and rows {rows:?} of {:?}", self.shape));
        }
        let shape = vec![heads.len(), rows.len(), columns];
        let lines = heads.map(|head| (head * all + rows.start) * columns);
        let values = lines.flat_map(|from| &self.values[from..from + rows.len() * columns]);
        Self::new(shape, self.ring, values.copied().collect())
    }

    /// Puts a part in its place, as [`Self::part`] takes it.
    ///
    /// # Errors
    /// For a part of other sizes.
    pub fn put(&mut self, heads: Range<usize>, rows: Range<usize>, part: &Self) -> Result<()> {
        let (before, all, columns) = self.matrices()?;
        let fits = part.shape == [heads.len(), rows.len(), columns] && part.ring == self.ring;
        if !fits || heads.end > before || rows.end > all {
            return misfit(format!("{:?} as heads {heads:?} and rows {rows:?}", part.shape));
        }
        let size = rows.len() * columns;
        for (head, values) in heads.zip(part.values.chunks(size.max(1))) {
            self.values[(head * all + rows.start) * columns..][..size].copy_from_slice(values);
        }
        Ok(())
    }

    /// (rows, count * d) -> (count, rows, d).
    ///
    /// # Errors
    /// For other shapes.
    pub fn heads(&self, count: usize) -> Result<Self> {
        let [rows, columns] = self.shape[..] else {
            return misfit(format!("heads of {:?}", self.shape));
        };
        if count == 0 || columns % count != 0 {
            return misfit(format!("{count} heads of {columns} columns"));
        }
        let wide = columns / count;
        let lines = (0..count).flat_map(|head| (0..rows).map(move |row| row * columns + head * wide));
        let values = lines.flat_map(|from| &self.values[from..from + wide]).copied();
        Self::new(vec![count, rows, wide], self.ring, values.collect())
    }

    /// The inverse of [`Self::heads`].
    ///
    /// # Errors
    /// For other shapes.
    pub fn merged(&self) -> Result<Self> {
        let [heads, rows, wide] = self.shape[..] else {
            return misfit(format!("merged {:?}", self.shape));
        };
        let lines = (0..rows).flat_map(|row| (0..heads).map(move |head| (head * rows + row) * wide));
        let values = lines.flat_map(|from| &self.values[from..from + wide]).copied();
        Self::new(vec![rows, heads * wide], self.ring, values.collect())
    }

    /// Rows and columns swapped.
    ///
    /// # Errors
    /// For a vector.
    pub fn transposed(&self) -> Result<Self> {
        let (before, rows, columns) = self.matrices()?;
        let at = |matrix: usize, column: usize| (matrix * rows * columns + column, columns);
        let places = (0..before).flat_map(|m| (0..columns).map(move |c| at(m, c)));
        let values = places.flat_map(|(from, step)| (0..rows).map(move |row| self.values[from + row * step]));
        self.shaped(&[columns, rows], values.collect())
    }

    /// With other last two sizes.
    fn shaped(&self, last: &[usize; 2], values: Vec<u64>) -> Result<Self> {
        let mut shape = self.shape[..self.shape.len() - 2].to_vec();
        shape.extend_from_slice(last);
        Self::new(shape, self.ring, values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(shape: &[usize]) -> Tensor {
        let size = shape.iter().product::<usize>();
        Tensor::new(shape.to_vec(), Ring::new(16), (0..size as u64).collect()).unwrap()
    }

    #[test]
    fn heads_are_taken_apart_and_put_together() {
        let x = counted(&[2, 6]);
        let heads = x.heads(3).unwrap();
        assert_eq!(heads.shape(), [3, 2, 2]);
        assert_eq!(heads.values(), [0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11]);
        assert_eq!(heads.merged().unwrap(), x);
    }

    #[test]
    fn transposing_swaps_rows_and_columns_of_every_matrix() {
        let x = counted(&[2, 2, 3]);
        let turned = x.transposed().unwrap();
        assert_eq!(turned.values(), [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11]);
        assert_eq!(turned.transposed().unwrap(), x);
    }

    #[test]
    fn columns_and_rows_are_cut() {
        let x = counted(&[2, 5]);
        let parts = x.columns(&[2, 3]).unwrap();
        assert_eq!(parts[0].values(), [0, 1, 5, 6]);
        assert_eq!(parts[1].values(), [2, 3, 4, 7, 8, 9]);
        assert_eq!(x.rows(1).unwrap().values(), [0, 1, 2, 3, 4]);
        assert_eq!(x.rows(-1).unwrap().values(), [5, 6, 7, 8, 9]);
    }

    #[test]
    fn parts_are_taken_and_put_back() {
        let x = counted(&[3, 4, 2]);
        let part = x.part(1..3, 1..3).unwrap();
        assert_eq!(part.values(), [10, 11, 12, 13, 18, 19, 20, 21]);
        let mut whole = counted(&[3, 4, 2]).map(x.ring(), |_| 0);
        for (heads, rows) in [(0..1, 0..4), (1..3, 0..1), (1..3, 1..3), (1..3, 3..4)] {
            let part = x.part(heads.clone(), rows.clone()).unwrap();
            whole.put(heads, rows, &part).unwrap();
        }
        assert_eq!(whole, x);
        assert!(x.part(0..4, 0..1).is_err() && x.part(0..1, 4..5).is_err());
        assert!(whole.put(0..1, 0..1, &part).is_err() && whole.put(2..4, 1..3, &part).is_err());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let x = counted(&[2, 5]);
        assert!(x.columns(&[2, 2]).is_err());
        assert!(x.columns(&[usize::MAX, 6]).is_err());
        assert!(x.rows(3).is_err() && x.rows(isize::MIN).is_err());
        assert!(x.heads(0).is_err() && x.heads(2).is_err());
        assert!(x.grouped(0).is_err() && x.grouped(3).is_err());
        assert!(x.above(&counted(&[2, 4])).is_err());
        assert!(x.plus(&counted(&[5, 2]), Ring::new(16)).is_err());
        assert!(x.plus(&x, Ring::new(17)).is_err());
        assert!(ring(0).is_err() && ring(65).is_err());
    }
}
