//! Which weights a tile of sums has, and the weights of a block in the order of their use.
use super::{ROWS, WIDTH};
use crate::ahead::fetch;
use crate::AlignedVec;
use std::collections::BTreeMap;

/// Inputs whose weights are asked for ahead: those of a block lie in a line or two of each vector, which no
/// processor foresees, and with four vectors an input as many are on their way as a core waits for.
const AHEAD: usize = 8;

/// Some sums that are made together: the inputs that any of them has, and the vectors that these are
/// multiplied by.
struct Tile {
    inputs: Vec<usize>,
    vectors: Vec<[Option<usize>; ROWS]>,
}

/// The terms of all sums, [`ROWS`] sums at a time.
pub struct Tiles {
    tiles: Vec<Tile>,
    sums: usize,
    inputs: usize,
}

impl Tiles {
    /// terms: of each sum, pairs (input, vector). None where most of the work would be with weights that are
    /// not there, or where a sum has an input twice.
    pub fn new(terms: &[Vec<(usize, usize)>]) -> Option<Self> {
        let tiles = terms.chunks(ROWS).map(Tile::new).collect::<Option<Vec<_>>>()?;
        let inputs = tiles.iter().flat_map(|t| &t.inputs).max().map_or(0, |i| i + 1);
        let (made, wanted) = (
            tiles.iter().map(|t| ROWS * t.inputs.len()).sum::<usize>(),
            terms.iter().map(Vec::len).sum::<usize>(),
        );
        let sums = terms.len();
        (made <= 2 * wanted).then_some(Self { tiles, sums, inputs })
    }

    /// Number of sums.
    pub fn sums(&self) -> usize {
        self.sums
    }

    /// One more than the last input.
    pub(super) fn inputs(&self) -> usize {
        self.inputs
    }

    /// The most terms of a sum, weights of zero included.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code))]
    pub(super) fn depth(&self) -> usize {
        self.tiles.iter().map(|t| t.inputs.len()).max().unwrap_or(0)
    }

    /// The inputs of each tile.
    pub(super) fn inputs_by_tile(&self) -> impl Iterator<Item = &[usize]> {
        self.tiles.iter().map(|tile| &tile.inputs[..])
    }

    /// Copies the weights of the block that begins at `start`. vectors: all canonical weights of every vector
    /// for a limb of n values, each of which holds for a run of n / length values.
    pub fn pack(&self, out: &mut Weights, n: usize, start: usize, vectors: &[&[f64]]) {
        let run = out.run;
        let mut rest = &mut out.values[..];
        out.offsets.clear();
        let mut offset = 0;
        for tile in &self.tiles {
            let (weights, after) = rest.split_at_mut(out.runs * ROWS * tile.inputs.len());
            tile.pack(weights, (n, start, run), vectors);
            out.offsets.push(offset);
            offset += weights.len();
            rest = after;
        }
    }
}

impl Tile {
    fn new(terms: &[Vec<(usize, usize)>]) -> Option<Self> {
        let mut found: BTreeMap<usize, [Option<usize>; ROWS]> = BTreeMap::new();
        for (row, terms) in terms.iter().enumerate() {
            for &(input, vector) in terms {
                let place = &mut found.entry(input).or_default()[row];
                if place.replace(vector).is_some() {
                    return None;
                }
            }
        }
        let (inputs, vectors) = found.into_iter().unzip();
        Some(Self { inputs, vectors })
    }

    /// By run, by input, by sum.
    fn pack(&self, out: &mut [f64], (n, start, run): (usize, usize, usize), limb: &[&[f64]]) {
        let stride = ROWS * self.inputs.len();
        for (k, vectors) in self.vectors.iter().enumerate() {
            for v in self.vectors.get(k + AHEAD).into_iter().flatten().flatten() {
                fetch(limb[*v].as_ptr().wrapping_add(start >> shift(n, limb[*v])).cast());
            }
            let rows = vectors.map(|v| v.map_or(&[0.0][..], |v| limb[v]));
            let shifts = rows.map(|w| shift(n, w));
            for (r, out) in out.chunks_exact_mut(stride).enumerate() {
                let at = start + r * run;
                for row in 0..ROWS {
                    out[ROWS * k + row] = rows[row][at >> shifts[row]];
                }
            }
        }
    }
}

/// log2 of the run of each of so many weights; both numbers are powers of two.
fn shift(n: usize, weights: &[f64]) -> u32 {
    n.trailing_zeros() - weights.len().trailing_zeros()
}

/// The weights of a block, which may be longer than the panels'.
pub struct Weights {
    values: AlignedVec,
    /// Where each tile begins.
    offsets: Vec<usize>,
    runs: usize,
    run: usize,
}

impl Weights {
    /// Room for blocks of `block` values within which weights change every `run` values at most. Powers of
    /// two, `run` from [`WIDTH`] to `block`.
    pub fn new(tiles: &Tiles, block: usize, run: usize) -> Self {
        assert!(run.is_power_of_two() && block.is_power_of_two() && (WIDTH..=block).contains(&run));
        let (runs, terms) = (block / run, tiles.inputs_by_tile().map(<[_]>::len).sum::<usize>());
        let values = AlignedVec::zeroed(runs * ROWS * terms);
        let offsets = Vec::new();
        Self {
            values,
            offsets,
            runs,
            run,
        }
    }

    pub(super) fn block(&self) -> usize {
        self.runs * self.run
    }

    /// Those of a tile of `inputs` inputs that hold at a value of the block: by input, by sum.
    #[inline]
    pub(super) fn at(&self, tile: usize, inputs: usize, at: usize) -> &[f64] {
        let len = ROWS * inputs;
        &self.values[self.offsets[tile] + at / self.run * len..][..len]
    }
}
