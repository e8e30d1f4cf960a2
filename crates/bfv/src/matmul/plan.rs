//! Everything that both parties must agree on before a product, from public numbers only.
use super::cost::{Costs, Price};
use super::layout::Layout;
use super::noise::{Budget, Operands};
use super::window::{Dims, Grid, Window};
use crate::params::N;
use crate::{BfvError, Result};
use tacita_rlwe::Parameters;

/// What the encrypted matrix meets.
///
/// opened: the product is opened to the key holder next. Then: three primes, requests in full, nothing merged
/// (so no further keys). The noise, which depends on what the key holder must not learn (weights, or the
/// other party's shares, and by them the values), is then below 2^-40 of what the masks round away, as if it
/// had been flooded; else it may reach 2^slack / 4 units, which is hidden in shares but not in an opened
/// value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Plain {
    /// Weights, each column of Euclidean norm at most 2^log_norm (in integer units).
    Weights {
        /// Bound for the columns.
        log_norm: u32,
        /// See above.
        opened: bool,
    },
    /// Shares of the same ring.
    OneShare {
        /// See above.
        opened: bool,
    },
    /// Shares of the same ring; both matrices are encrypted, and both products lie in the same responses.
    Shares {
        /// See above.
        opened: bool,
    },
}

impl Plain {
    fn opened(self) -> bool {
        match self {
            Self::Weights { opened, .. } | Self::OneShare { opened } | Self::Shares { opened } => opened,
        }
    }
}

/// A product's window, layout, moduli and price.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// log2 of the ring.
    pub bits: u32,
    /// Blocks and places.
    pub layout: Layout,
    /// Requests and responses.
    pub budget: Budget,
    /// What the encrypted matrix meets.
    pub plain: Plain,
    /// Predicted cost.
    pub price: Price,
}

impl Plan {
    /// The cheapest plan for errors below 2^slack units: all windows with m_w a power of two are tried. All
    /// dimensions must be positive.
    ///
    /// # Errors
    /// When no window leaves room for the noise.
    pub fn new(
        params: &Parameters,
        dims: Dims,
        bits: u32,
        slack: u32,
        plain: Plain,
        costs: &Costs,
    ) -> Result<Self> {
        let (mut best, mut reason) = (None::<Self>, None);
        let crossed = matches!(plain, Plain::Shares { .. });
        for layout in layouts(dims, crossed) {
            match Self::with_layout(params, layout, bits, slack, plain, costs) {
                Ok(plan) => {
                    let better = best.is_none_or(|b| plan.price.total(costs) < b.price.total(costs));
                    best = if better { Some(plan) } else { best };
                }
                Err(error) => reason = Some(error),
            }
        }
        let none = || BfvError::Shape {
            op: "plan of a product",
            detail: format!("{dims:?} has an empty dimension"),
        };
        best.ok_or_else(|| reason.unwrap_or_else(none))
    }

    /// The plan with a given layout.
    ///
    /// # Errors
    /// When it leaves no room for the noise.
    pub fn with_layout(
        params: &Parameters,
        layout: Layout,
        bits: u32,
        slack: u32,
        plain: Plain,
        costs: &Costs,
    ) -> Result<Self> {
        let Layout { grid, pack, join } = layout;
        let norm = plain_norm(&grid, plain, bits);
        let operands = Operands {
            bits,
            slack,
            norm,
            pack,
            join,
        };
        let budget = match (plain.opened(), pack) {
            (true, 0) => Budget::opened(params, operands)?,
            (true, _) => return Err(merged()),
            _ => Budget::new(params, operands)?,
        };
        let crossed = matches!(plain, Plain::Shares { .. });
        Ok(Self {
            bits,
            layout,
            budget,
            plain,
            price: costs.price(params, &layout, &budget, crossed),
        })
    }

    /// Are both matrices encrypted?
    pub fn crossed(&self) -> bool {
        matches!(self.plain, Plain::Shares { .. })
    }
}

fn merged() -> BfvError {
    BfvError::Shape {
        op: "plan of a product",
        detail: "results that are opened next are not merged".into(),
    }
}

/// Norm of the plain entries in the polynomials that one result's ciphertext is multiplied by.
fn plain_norm(grid: &Grid, plain: Plain, bits: u32) -> f64 {
    let (window, m) = (grid.window, grid.dims.m as f64);
    match plain {
        Plain::Weights { log_norm, .. } => f64::from(log_norm).exp2() * (window.nw as f64).sqrt(),
        Plain::OneShare { .. } => f64::from(bits - 1).exp2() * (m * window.nw as f64).sqrt(),
        Plain::Shares { .. } => f64::from(bits - 1).exp2() * (m * (window.nw + window.kw) as f64).sqrt(),
    }
}

fn layouts(dims: Dims, crossed: bool) -> impl Iterator<Item = Layout> {
    let blocks = (0..=N.ilog2())
        .map(|log_mw| 1usize << log_mw)
        .filter(move |&mw| mw < 2 * dims.m)
        .flat_map(move |mw| splits(dims.k, N / mw).map(move |kw| (mw, kw)));
    let windows = blocks.flat_map(move |(mw, kw)| {
        sides(dims, N / (mw * kw)).map(move |(nw, heads)| Window { kw, mw, nw, heads })
    });
    windows.flat_map(move |window| {
        let grid = Grid { dims, window };
        (0..=window.mw.ilog2())
            .filter(move |_| [dims.k, dims.m, dims.n, dims.batch].iter().all(|&size| size > 0))
            .flat_map(move |pack| {
                let most = if crossed {
                    0
                } else {
                    grid.k_blocks().trailing_zeros()
                };
                (0..=most.min(pack)).map(move |join| Layout { grid, pack, join })
            })
    })
}

/// Columns of a block and products side by side, of which `most` fit: as many columns as there can be, and
/// halves of these as long as that makes room for more products.
fn sides(dims: Dims, most: usize) -> impl Iterator<Item = (usize, usize)> {
    let even = |total: usize, most: usize| total.div_ceil(total.div_ceil(most).max(1)).max(1);
    let widest = even(dims.n, most);
    let halves = move |i: &u32| *i == 0 || (widest >> i > 0 && most / (widest >> (i - 1)) < dims.batch);
    (0..usize::BITS).take_while(halves).map(move |i| {
        let nw = even(dims.n, widest >> i);
        (nw, even(dims.batch, most / nw))
    })
}

/// Even parts of `total` that are at most `most`: ceil(total / t) for all t, each once.
fn splits(total: usize, most: usize) -> impl Iterator<Item = usize> {
    let mut parts: Vec<usize> = (1..=total)
        .map(|t| total.div_ceil(t))
        .filter(|&p| p <= most)
        .collect();
    parts.dedup();
    parts.into_iter()
}
