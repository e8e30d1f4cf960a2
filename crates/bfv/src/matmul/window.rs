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

/// Block sizes: kw * mw * nw <= N, mw a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Rows of a left block.
    pub kw: usize,
    /// Common dimension of a block.
    pub mw: usize,
    /// Columns of a right block.
    pub nw: usize,
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

    /// Where (i, l) of a block product lies before packing.
    pub fn result_at(&self, i: usize, l: usize) -> usize {
        (i * self.window.nw + l) * self.window.mw
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

    /// The N coefficients modulo 2^bits of left block (alpha, beta) of shares `x`.
    pub fn left_message(&self, x: &[u64], alpha: usize, beta: usize, bits: u32) -> Vec<u64> {
        let mask = u64::MAX >> (64 - bits);
        let mut out = vec![0; N];
        self.left(x, alpha, beta, |at, negated, value| {
            out[at] = if negated { value.wrapping_neg() } else { value } & mask;
        });
        out
    }

    /// The N coefficients of right block (beta, gamma) of shares `y`.
    pub fn right_message(&self, y: &[u64], beta: usize, gamma: usize) -> Vec<u64> {
        let mut out = vec![0; N];
        self.right(y, beta, gamma, |at, value| out[at] = value);
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
        for (k, m, n, kw, mw, nw) in [
            (3, 5, 7, 3, 8, 7),
            (5, 9, 4, 2, 4, 3),
            (4, 64, 2, 4, 64, 2),
            (1, 1, 1, 1, 1, 1),
        ] {
            let dims = Dims { k, m, n, batch: 1 };
            let grid = Grid {
                dims,
                window: Window { kw, mw, nw },
            };
            let x: Vec<u64> = (0..k * m)
                .map(|i| (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
                .collect();
            let y: Vec<u64> = (0..m * n)
                .map(|i| (i as u64 + 7).wrapping_mul(0xbf58_476d_1ce4_e5b9))
                .collect();
            let mut out = vec![0u64; k * n];
            for (alpha, gamma) in (0..grid.k_blocks()).flat_map(|a| (0..grid.n_blocks()).map(move |g| (a, g)))
            {
                for beta in 0..grid.m_blocks() {
                    let left = grid.left_message(&x, alpha, beta, 64);
                    let product = multiply(&left, &grid.right_message(&y, beta, gamma));
                    for (i, row) in grid.rows(alpha).enumerate() {
                        for (l, column) in grid.columns(gamma).enumerate() {
                            let sum = &mut out[row * n + column];
                            *sum = sum.wrapping_add(product[grid.result_at(i, l)]);
                        }
                    }
                }
            }
            let expected = |r: usize, c: usize| {
                (0..m).fold(0u64, |s, j| {
                    s.wrapping_add(x[r * m + j].wrapping_mul(y[j * n + c]))
                })
            };
            assert!(
                (0..k * n).all(|at| out[at] == expected(at / n, at % n)),
                "{dims:?}"
            );
        }
    }
}
