//! What a product costs, from a table of measured prices.
//!
//! The peer's chooser prices ciphertexts, automorphisms and products but *no weight transforms*, which are
//! most of its work. Here everything that the two parties do has a price in nanoseconds. Both parties must
//! choose alike, so the table is a constant of the program (or agreed in the session's plan), not measured at
//! start; [`Costs::measure`] makes a new one.
use super::layout::Layout;
use super::noise::Budget;
use crate::request::Rounding;
use crate::response::response_len;
use crate::{params::LOG_N, NARROW};
use tacita_rlwe::Parameters;

/// Nanoseconds, for two primes where it says narrow (three primes: `WIDE_RATIO` times).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Transform of one prime.
    pub transform: f64,
    /// One plain value modulo one prime.
    pub encode: f64,
    /// One plain limb times the two limbs of a ciphertext, added.
    pub multiply: f64,
    /// One plain limb permuted.
    pub permute: f64,
    /// One merge, or one switch that joins requests (narrow).
    pub merge: f64,
    /// Encrypting and packing one request (narrow).
    pub encrypt: f64,
    /// Unpacking one request (narrow).
    pub decode: f64,
    /// One response: zero encryption, scaling, masks (narrow).
    pub respond: f64,
    /// Opening one response.
    pub open: f64,
    /// One byte on the link.
    pub byte: f64,
}

/// Three primes against two, for what is linear in primes; automorphisms cost a little more than that.
const WIDE_RATIO: f64 = 1.7;

impl Default for Costs {
    /// Measured by [`Costs::measure`] on one busy core (AVX-512). A byte is priced at 100 Mbit/s: sessions
    /// over faster links spend a little time to stay small.
    fn default() -> Self {
        Self {
            transform: 11e3,
            encode: 1.0,
            multiply: 3.0e3,
            permute: 1.2e3,
            merge: 184e3,
            encrypt: 360e3,
            decode: 200e3,
            respond: 590e3,
            open: 240e3,
            byte: 80.0,
        }
    }
}

/// What a product is made of: more than 32 bits hold, of windows that nobody chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Request ciphertexts.
    pub requests: u64,
    /// Plain polynomials (each transformed for every prime).
    pub plains: u64,
    /// Ciphertext-plaintext products.
    pub products: u64,
    /// Permutations of plain polynomials.
    pub permutations: u64,
    /// Switches that join requests, and merges.
    pub merges: u64,
    /// Responses.
    pub responses: u64,
}

/// Predicted cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// CPU nanoseconds of both parties.
    pub cpu: f64,
    /// Bytes from the client and from the server.
    pub bytes: [u64; 2],
}

impl Counts {
    /// Of a product with this layout; `crossed`: both matrices are shared, so both are encrypted.
    pub fn new(layout: &Layout, crossed: bool) -> Self {
        let (grid, batch) = (layout.grid, layout.grid.dims.batch);
        let sizes = [batch, grid.k_blocks(), grid.m_blocks(), grid.n_blocks()];
        let [batch, k, m, n] = sizes.map(|size| size as u64);
        let (left, right) = (batch * k * m, batch * m * n);
        let requests = grid.requests(crossed).map(|count| count as u64);
        let (leaves, responses) = (layout.leaves() as u64, layout.responses() as u64);
        let ways = 1 + u64::from(crossed);
        Self {
            requests: requests[0] + requests[1],
            plains: right + if crossed { left } else { 0 },
            products: batch * k * m * n * ways,
            permutations: right * ((1 << layout.join) - 1),
            merges: requests[0] * u64::from(layout.join) / 2 + (leaves >> layout.join) - responses,
            responses,
        }
    }
}

impl Costs {
    /// Price of a product.
    pub fn price(&self, params: &Parameters, layout: &Layout, budget: &Budget, crossed: bool) -> Price {
        let counts = Counts::new(layout, crossed);
        let Rounding { limbs, .. } = budget.rounding;
        let wide = if limbs == NARROW { 1.0 } else { WIDE_RATIO };
        let times = |count: u64, price: f64| count as f64 * price;
        let per_prime = times(counts.plains, self.plain(layout))
            + times(counts.permutations, self.permute)
            + times(counts.products, self.multiply);
        let per_ciphertext = times(counts.merges, self.merge)
            + times(counts.requests, self.encrypt + self.decode)
            + times(counts.responses, self.respond + self.open);
        let dims = layout.grid.dims;
        let results = dims.batch * dims.k * dims.n;
        let bodies = response_len(params, budget.kappa, results) - response_len(params, budget.kappa, 0);
        Price {
            cpu: per_prime * limbs as f64 + per_ciphertext * wide,
            bytes: [
                counts.requests * budget.rounding.byte_len(params) as u64,
                counts.responses * response_len(params, budget.kappa, 0) as u64 + bodies as u64,
            ],
        }
    }

    /// One plain limb: transformed from its block's coefficients on.
    fn plain(&self, layout: &Layout) -> f64 {
        let window = layout.grid.window;
        let len = (window.mw * window.nw).next_power_of_two();
        self.encode * (window.mw * window.nw) as f64 + self.transform * transform_share(len)
    }
}

/// The share of a transform that remains when only the first `len` (a power of two) coefficients are not
/// zero: the levels before are copies, but for passes of two levels and the last three.
fn transform_share(len: usize) -> f64 {
    let levels = f64::from(LOG_N);
    let copied = (LOG_N - len.ilog2().min(LOG_N)).min(LOG_N - 3) & !1;
    (levels - f64::from(copied)) / levels
}

impl Price {
    /// Nanoseconds of CPU and link.
    pub fn total(&self, costs: &Costs) -> f64 {
        self.cpu + costs.byte * (self.bytes[0] + self.bytes[1]) as f64
    }
}
