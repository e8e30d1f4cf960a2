//! Products of a real matrix with many limbs at once, exact and at the speed of a double-precision matrix
//! product.
//!
//! A residue x is centred and split as x = lo + 2^25 hi with |lo|, |hi| <= 2^24; the matrix is rounded to
//! integers whose absolute values sum to at most 2^29 in each row ([`Weights`]). Then every partial sum of
//! `w * lo` and of `w * hi` is an integer of at most 2^53: two plain double-precision products are exact in
//! any order, without a reduction inside. At the end (hi * 2^25 + lo) * c is reduced once, where the integer
//! c carries what the rounding took out of the row.
//!
//! Cost: 2 fused multiply-adds for a weight and a coefficient (4 flops where a real matrix product has 2), so
//! at most half of the speed of DGEMM; packing is one pass over the inputs for a call, the reduction about 20
//! operations an output. Measured with AVX-512 on one core, 1024 columns, best times: 128 x 128 in 1.39 ms
//! and 768 x 768 in 43.5 ms, where OpenBLAS takes 0.67 and 23.1 ms for the real product of that size
//! (`benches/gemm.rs`). The panel of packed inputs stays in the second-level cache, and accumulators in
//! registers for the whole depth.

mod generic;
mod reference;
mod weights;

use crate::simd::dispatch;
use crate::Modulus;

pub use weights::{Weights, MAX_ROW_SUM};

/// log2 of the weight of the high half of a residue.
const HALF_BITS: u32 = 25;
/// Rows of the matrix that are multiplied together: with two vectors each of the low and the high halves (one
/// on AVX2), the accumulators, the inputs and the weight fill the registers.
const ROWS: usize = 6;

/// One input: a limb, times a polynomial in X^(n / runs.len()), which is given by its NTT values (each holds
/// for a run of n / runs.len() coefficients). No runs: the factor is one.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// n canonical residues.
    pub limb: &'a [f64],
    /// Canonical residues; their number divides n.
    pub runs: &'a [f64],
}

impl Input<'_> {
    /// The factor at a coefficient, where there is one.
    fn factor(&self, at: usize) -> Option<u64> {
        let count = self.runs.len().max(1);
        self.runs.get(at / (self.limb.len() / count)).map(|&w| w as u64)
    }
}

dispatch! {
    /// `out[o][i]` = c_o * (sum over k of w_ok * `inputs[k][first + i]`) mod p: see [`Weights`] for c and w.
    ///
    /// All outputs have one length; panics unless rows, depth and lengths fit. Cost: see the module.
    fn product(m: &Modulus, weights: &Weights, inputs: &[Input<'_>], first: usize, out: &mut [&mut [f64]]);
}

/// Panics unless everything fits; returns the length of the outputs.
fn check(weights: &Weights, inputs: &[Input<'_>], first: usize, out: &[&mut [f64]]) -> usize {
    let len = out.first().map_or(0, |o| o.len());
    assert!(
        out.len() == weights.rows() && inputs.len() == weights.depth(),
        "a {} x {} matrix for {} outputs and {} inputs",
        weights.rows(),
        weights.depth(),
        out.len(),
        inputs.len()
    );
    assert!(out.iter().all(|o| o.len() == len), "outputs of different lengths");
    for x in inputs {
        let runs = x.runs.len().max(1);
        assert!(first + len <= x.limb.len() && x.limb.len().is_multiple_of(runs));
    }
    len
}

#[cfg(test)]
mod tests;
