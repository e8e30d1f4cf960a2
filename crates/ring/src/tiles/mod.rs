//! Many sums of products of the same limbs with plaintexts that are constant over runs: the inner sums of a
//! large linear transform.
//!
//! Over a run this is a product of matrices, `out[g][i]` = sum over b of `w[g][b]` `a[b][i]`: 48 sums of 192
//! rotated inputs, for the widening map of a feed-forward block. Term by term it reads an input for every
//! product, from the third-level cache. Here [`ROWS`] sums of a *panel*, [`WIDTH`] values of all inputs one
//! after the other, lie in registers while the inputs pass: a load serves [`ROWS`] products, and a panel of
//! 192 inputs is 24 KB.
//!
//! Cost: two instructions for eight products where there are 52-bit integer products, else seven; weights are
//! read once for a block of both polynomials, and copied in the order of their use.

mod generic;
#[cfg(target_arch = "x86_64")]
pub(crate) mod ifma;
mod reference;
mod weights;

use crate::simd::dispatch;
use crate::{AlignedVec, Modulus};

pub use weights::{Tiles, Weights};

/// Values of a panel: no weight may change within them.
pub const WIDTH: usize = 16;
/// Sums that are made together: with two vectors each of low and high halves, the inputs and the weights they
/// fill the registers.
pub const ROWS: usize = 4;

/// A block of each of several inputs, panel by panel.
pub struct Panels {
    values: AlignedVec,
    inputs: usize,
    block: usize,
}

impl Panels {
    /// For blocks of `block` values, a multiple of [`WIDTH`]. What was not set is arbitrary.
    pub fn new(inputs: usize, block: usize) -> Self {
        assert!(block.is_multiple_of(WIDTH), "{block} values are no whole panels");
        let values = AlignedVec::zeroed(inputs * block);
        Self {
            values,
            inputs,
            block,
        }
    }

    /// Copies the block of one input: canonical residues.
    pub fn set(&mut self, input: usize, values: &[f64]) {
        assert!(input < self.inputs && values.len() == self.block);
        let panels = self.values.chunks_exact_mut(self.inputs * WIDTH);
        for (panel, values) in panels.zip(values.chunks_exact(WIDTH)) {
            panel[input * WIDTH..][..WIDTH].copy_from_slice(values);
        }
    }

    /// The panel that begins at value `at` of the block: WIDTH values of each input.
    fn at(&self, at: usize) -> &[f64] {
        &self.values[at * self.inputs..][..WIDTH * self.inputs]
    }
}

dispatch! {
    /// `out[g]` = the sum of the terms of sum g over a block (plus what was there, unless `replace`), which
    /// begins at value weights.1 of the block that [`Tiles::pack`] made the weights of.
    ///
    /// Panics unless the outputs are blocks and as many as the sums.
    fn sums(
        m: &Modulus, tiles: &Tiles, weights: (&Weights, usize), panels: &Panels,
        out: &mut [&mut [f64]], replace: bool
    );
}

/// Panics unless everything fits.
fn check(tiles: &Tiles, weights: &Weights, first: usize, panels: &Panels, out: &[&mut [f64]]) {
    assert!(
        tiles.sums() == out.len()
            && tiles.inputs() <= panels.inputs
            && first + panels.block <= weights.block(),
        "{} sums of {} inputs over {first}.. of {} values were asked of {} inputs and {} outputs over {}",
        tiles.sums(),
        tiles.inputs(),
        weights.block(),
        panels.inputs,
        out.len(),
        panels.block
    );
    assert!(out.iter().all(|out| out.len() == panels.block));
}

#[cfg(test)]
mod tests;
