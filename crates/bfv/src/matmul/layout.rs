//! Leaves, responses and coefficients.
//!
//! The leaf of (head b, block column gamma, block row alpha) has number (b n' + gamma) k' + alpha: leaves of
//! one column block, which share its weight polynomials, are neighbours. Response r packs the leaves [r 2^p,
//! (r + 1) 2^p). Within it leaf t goes to offset bitreverse_p(t) m_w / 2^p: neighbours in order are merged
//! first, so that the tree can be built while leaves stream in.
//!
//! Leaves of one column block are products with the same weights, so the first `join` levels of the tree,
//! as far as they join block rows, are done on the requests (see [`super::packing`]): what the evaluator
//! makes are nodes of 2^join leaves.
use super::window::Grid;

/// How the results of a product are spread over responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Blocks.
    pub grid: Grid,
    /// log2 of the leaves of a response; 2^pack <= m_w.
    pub pack: u32,
    /// log2 of the block rows that are joined before they meet weights: at most `pack`, and 2^join divides
    /// their number.
    pub join: u32,
}

/// One leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Which of the batch.
    pub head: usize,
    /// Block column.
    pub gamma: usize,
    /// Block row.
    pub alpha: usize,
}

/// A result: its index in the batch x k x n outputs, and its coefficient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Index of the output.
    pub output: usize,
    /// Coefficient of the response.
    pub coefficient: usize,
}

impl Layout {
    /// All leaves.
    pub fn leaves(&self) -> usize {
        self.grid.dims.batch * self.grid.k_blocks() * self.grid.n_blocks()
    }

    /// Block rows that are left once 2^join of them are joined.
    pub fn joined_rows(&self) -> usize {
        self.grid.k_blocks() >> self.join
    }

    /// Responses.
    pub fn responses(&self) -> usize {
        self.leaves().div_ceil(1 << self.pack)
    }

    /// Leaf by number.
    pub fn leaf(&self, number: usize) -> Leaf {
        let (column, alpha) = (number / self.grid.k_blocks(), number % self.grid.k_blocks());
        Leaf {
            head: column / self.grid.n_blocks(),
            gamma: column % self.grid.n_blocks(),
            alpha,
        }
    }

    /// log2 of h of the merge that joins two nodes of `level` merges each: m_w / 2^(level + 1).
    pub fn log_h(&self, level: u32) -> u32 {
        self.grid.window.mw.ilog2() - level - 1
    }

    /// Where leaf `t` of a response starts.
    pub fn offset(&self, t: usize) -> usize {
        let reversed = if self.pack == 0 {
            0
        } else {
            t.reverse_bits() >> (usize::BITS - self.pack)
        };
        reversed * (self.grid.window.mw >> self.pack)
    }

    /// The results in response `r`, in the order in which they travel.
    pub fn places(&self, r: usize) -> Vec<Place> {
        let first = r << self.pack;
        let last = self.leaves().min(first + (1 << self.pack));
        (first..last)
            .flat_map(|number| self.leaf_places(number, first))
            .collect()
    }

    fn leaf_places(&self, number: usize, first: usize) -> Vec<Place> {
        let (grid, leaf, offset) = (self.grid, self.leaf(number), self.offset(number - first));
        let (k, n) = (grid.dims.k, grid.dims.n);
        let mut out = Vec::new();
        for (i, row) in grid.rows(leaf.alpha).enumerate() {
            for (l, column) in grid.columns(leaf.gamma).enumerate() {
                out.push(Place {
                    output: (leaf.head * k + row) * n + column,
                    coefficient: grid.result_at(leaf.head, i, l) + offset,
                });
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matmul::window::{Dims, Window};
    use crate::params::N;

    #[test]
    fn every_result_has_one_place_of_its_own() {
        for (dims, window, pack) in [
            ((5, 70, 9, 3), (2, 32, 4, 1), 5),
            ((5, 70, 9, 3), (2, 32, 4, 2), 3),
            ((8, 128, 8, 32), (8, 128, 1, 8), 7),
            ((128, 32, 128, 12), (64, 32, 4, 1), 5),
            ((1, 1, 1, 1), (1, 1, 1, 1), 0),
        ] {
            let (k, m, n, batch) = dims;
            let (kw, mw, nw, heads) = window;
            let grid = Grid {
                dims: Dims { k, m, n, batch },
                window: Window { kw, mw, nw, heads },
            };
            let layout = Layout { grid, pack, join: 0 };
            let mut seen = vec![false; batch * k * n];
            for r in 0..layout.responses() {
                let mut used = vec![false; N];
                for place in layout.places(r) {
                    assert!(!std::mem::replace(&mut seen[place.output], true));
                    assert!(!std::mem::replace(&mut used[place.coefficient], true));
                }
            }
            assert!(seen.into_iter().all(|s| s));
        }
    }
}
