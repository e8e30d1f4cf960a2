//! Dimensions of a product, windows, and the encodings.
use crate::params::N;

/// `batch` products of k x m by m x n.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dims {
    /// Rows of the left matrices.
    pub k: usize,
    /// Common dimension.
    pub m: usize,
    /// Columns of the right matrices.
    pub n: usize,
    /// Number of products (heads).
    pub batch: usize,
}

/// Block sizes: heads * kw * mw * nw <= N, mw a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Rows of a left block.
    pub kw: usize,
    /// Common dimension of a block.
    pub mw: usize,
    /// Columns of a right block.
    pub nw: usize,
    /// Products of the batch whose blocks lie side by side in a request.
    pub heads: usize,
}

/// Dimensions cut into windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// The whole.
    pub dims: Dims,
    /// The blocks.
    pub window: Window,
}

/// min(width, what is left from `at` on).
fn part(at: usize, width: usize, total: usize) -> std::ops::Range<usize> {
    at * width..((at + 1) * width).min(total)
}

impl Grid {
    /// Block rows k / k_w, rounded up.
    pub fn k_blocks(&self) -> usize {
        self.dims.k.div_ceil(self.window.kw)
    }

    /// Blocks along the common dimension.
    pub fn m_blocks(&self) -> usize {
        self.dims.m.div_ceil(self.window.mw)
    }

    /// Block columns.
    pub fn n_blocks(&self) -> usize {
        self.dims.n.div_ceil(self.window.nw)
    }

    /// Rows of block row `alpha`.
    pub fn rows(&self, alpha: usize) -> std::ops::Range<usize> {
        part(alpha, self.window.kw, self.dims.k)
    }

    /// Indices of block `beta` of the common dimension.
    pub fn inner(&self, beta: usize) -> std::ops::Range<usize> {
        part(beta, self.window.mw, self.dims.m)
    }

    /// Columns of block column `gamma`.
    pub fn columns(&self, gamma: usize) -> std::ops::Range<usize> {
        part(gamma, self.window.nw, self.dims.n)
    }

    /// Parts of the batch that have requests of their own, rounded up.
    pub fn groups(&self) -> usize {
        self.dims.batch.div_ceil(self.window.heads)
    }

    /// The part that a product of the batch belongs to.
    pub fn group(&self, head: usize) -> usize {
        head / self.window.heads
    }

    /// Requests for left blocks and, of `crossed` products, for right ones.
    pub fn requests(&self, crossed: bool) -> [usize; 2] {
        let right = if crossed { self.n_blocks() } else { 0 };
        [self.k_blocks(), right].map(|blocks| self.groups() * self.m_blocks() * blocks)
    }

    /// Where the block of a product of the batch begins among those of its part.
    fn shift(&self, head: usize) -> usize {
        let Window { kw, mw, nw, heads } = self.window;
        head % heads * kw * mw * nw
    }

    /// Where (i, l) of a block product lies before packing.
    pub fn result_at(&self, head: usize, i: usize, l: usize) -> usize {
        self.shift(head) + (i * self.window.nw + l) * self.window.mw
    }

    /// Calls `put(coefficient, negated, value)` for every entry of left block (alpha, beta) of the row-major
    /// k x m matrix `x`.
    pub fn left<T: Copy>(&self, x: &[T], alpha: usize, beta: usize, mut put: impl FnMut(usize, bool, T)) {
        let (stride, inner) = (self.window.mw * self.window.nw, self.inner(beta));
        for (i, row) in self.rows(alpha).enumerate() {
            for (j, &value) in x[row * self.dims.m..][inner.clone()].iter().enumerate() {
                match (i * stride).checked_sub(j) {
                    Some(at) => put(at, false, value),
                    None => put(i * stride + N - j, true, value),
                }
            }
        }
    }

    /// Calls `put(coefficient, value)` for every entry of right block (beta, gamma) of the row-major m x n
    /// matrix `y`.
    pub fn right<T: Copy>(&self, y: &[T], beta: usize, gamma: usize, mut put: impl FnMut(usize, T)) {
        let columns = self.columns(gamma);
        for (j, row) in self.inner(beta).enumerate() {
            for (l, &value) in y[row * self.dims.n..][columns.clone()].iter().enumerate() {
                put(l * self.window.mw + j, value);
            }
        }
    }

    /// The N coefficients modulo 2^bits of a request by its number: left blocks by (part of the batch, alpha,
    /// beta), then right blocks by (part, beta, gamma). x, y: shares of the left and right matrices.
    pub fn message(&self, number: usize, x: &[u64], y: &[u64], bits: u32) -> Vec<u64> {
        let [lefts, _] = self.requests(false);
        let of_right = number >= lefts;
        let (at, outer, inner) = if of_right {
            (number - lefts, self.m_blocks(), self.n_blocks())
        } else {
            (number, self.k_blocks(), self.m_blocks())
        };
        let (row, last) = (at / inner, at % inner);
        let (group, first) = (row / outer, row % outer);
        let (mut out, mask) = (vec![0; N], u64::MAX >> (64 - bits));
        let Dims { k, m, n, batch } = self.dims;
        for head in part(group, self.window.heads, batch) {
            let shift = self.shift(head);
            if of_right {
                let y = &y[head * m * n..][..m * n];
                self.right(y, first, last, |at, value| out[shift + at] = value & mask);
                continue;
            }
            self.left(&x[head * k * m..][..k * m], first, last, |at, negated, value| {
                let (to, negated) = if negated && shift > 0 {
                    (shift + at - N, false)
                } else {
                    (shift + at, negated)
                };
                out[to] = if negated { value.wrapping_neg() } else { value } & mask;
            });
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Negacyclic product modulo 2^64.
    fn multiply(a: &[u64], b: &[u64]) -> Vec<u64> {
        let mut out = vec![0u64; N];
        for (i, &x) in a.iter().enumerate().filter(|(_, &x)| x != 0) {
            for (j, &y) in b.iter().enumerate().filter(|(_, &y)| y != 0) {
                let product = x.wrapping_mul(y);
                let at = (i + j) % N;
                out[at] = if i + j < N {
                    out[at].wrapping_add(product)
                } else {
                    out[at].wrapping_sub(product)
                };
            }
        }
        out
    }

    #[test]
    fn block_products_sit_at_multiples_of_the_inner_window() {
        for (batch, k, m, n, heads, kw, mw, nw) in [
            (1, 3, 5, 7, 1, 3, 8, 7),
            (1, 5, 9, 4, 1, 2, 4, 3),
            (2, 4, 64, 2, 1, 4, 64, 2),
            (5, 3, 9, 4, 3, 2, 4, 3),
            (8, 8, 16, 8, 8, 8, 16, 8),
            (1, 1, 1, 1, 1, 1, 1, 1),
        ] {
            let dims = Dims { k, m, n, batch };
            let grid = Grid {
                dims,
                window: Window { kw, mw, nw, heads },
            };
            let x: Vec<u64> = (0..batch * k * m)
                .map(|i| (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
                .collect();
            let y: Vec<u64> = (0..batch * m * n)
                .map(|i| (i as u64 + 7).wrapping_mul(0xbf58_476d_1ce4_e5b9))
                .collect();
            let expected = |head: usize, r: usize, c: usize| {
                (0..m).fold(0u64, |s, j| {
                    s.wrapping_add(x[(head * k + r) * m + j].wrapping_mul(y[(head * m + j) * n + c]))
                })
            };
            let [lefts, _] = grid.requests(true);
            let blocks = |head: usize, alpha: usize, beta: usize, gamma: usize| {
                let left = (grid.group(head) * grid.k_blocks() + alpha) * grid.m_blocks() + beta;
                let right = (grid.group(head) * grid.m_blocks() + beta) * grid.n_blocks() + gamma;
                (left, lefts + right)
            };
            // Requests meet the plain block of one product of the batch, from either side.
            let (mut plain_right, mut plain_left) = (vec![0; N], vec![0; N]);
            for head in 0..batch {
                let (mut out, mut other) = (vec![0u64; k * n], vec![0u64; k * n]);
                for at in 0..grid.k_blocks() * grid.n_blocks() * grid.m_blocks() {
                    let (at, beta) = (at / grid.m_blocks(), at % grid.m_blocks());
                    let (alpha, gamma) = (at / grid.n_blocks(), at % grid.n_blocks());
                    let (left, right) = blocks(head, alpha, beta, gamma);
                    plain_left.fill(0);
                    plain_right.fill(0);
                    grid.right(&y[head * m * n..], beta, gamma, |at, v| plain_right[at] = v);
                    grid.left(&x[head * k * m..], alpha, beta, |at, negated, v: u64| {
                        plain_left[at] = if negated { v.wrapping_neg() } else { v };
                    });
                    let one = multiply(&grid.message(left, &x, &y, 64), &plain_right);
                    let two = multiply(&grid.message(right, &x, &y, 64), &plain_left);
                    for (i, row) in grid.rows(alpha).enumerate() {
                        for (l, column) in grid.columns(gamma).enumerate() {
                            let (to, from) = (row * n + column, grid.result_at(head, i, l));
                            out[to] = out[to].wrapping_add(one[from]);
                            other[to] = other[to].wrapping_add(two[from]);
                        }
                    }
                }
                let right = (0..k * n).map(|at| expected(head, at / n, at % n));
                assert_eq!(out, right.collect::<Vec<_>>(), "{dims:?}");
                assert_eq!(out, other);
            }
        }
    }
}
