//! Inner sums by tiles (see [`tacita_ring::tiles`]): where many sums have the same babies, and plaintexts are
//! constant over runs.
use super::transform::EncodedTransform;
use std::collections::BTreeSet;
use std::ops::Range;
use tacita_ring::tiles::{self, Panels, Tiles, Weights, WIDTH};
use tacita_ring::Modulus;

/// Values of a block. Both halves of 192 babies take 3 MB, which is more than a second-level cache; but their
/// panels are written and read in order, once.
const BLOCK: usize = 1024;
/// Values whose weights are packed at a time: eight lines of each of thousands of vectors, every one on a
/// page of its own, for one walk through the page tables.
const PACKED: usize = 8192;
/// Sums that a baby must be in, on average, for its copy into a panel to cost less than it saves: without
/// tiles it is read once for each of them.
const SHARED: usize = 8;
/// Terms that a sum must have, on average: a tile reads, reduces and writes its sums once, however few they
/// are.
const DEEP: usize = 12;

/// The terms of some sums.
pub(super) struct Tiled<'a> {
    tiles: Tiles,
    /// Babies that any sum has.
    used: Vec<usize>,
    t: &'a EncodedTransform,
    n: usize,
    run: usize,
}

/// For one limb: a block of both halves of all babies, its weights, and those of the whole limb.
pub(super) struct Workspace<'a> {
    pub(super) panels: [Panels; 2],
    weights: Weights,
    vectors: Vec<&'a [f64]>,
}

impl<'a> Tiled<'a> {
    /// terms: of each sum, pairs (baby, vector). None where tiles do not pay.
    pub(super) fn new(n: usize, terms: &[Vec<(usize, usize)>], t: &'a EncodedTransform) -> Option<Self> {
        let all = || terms.iter().flatten();
        let run = all().map(|&(_, v)| n / t.vectors[v][0].len()).min()?.min(BLOCK);
        let used: BTreeSet<usize> = all().map(|&(baby, _)| baby).collect();
        let count = all().count();
        let pays = run >= WIDTH && SHARED * used.len() <= count && DEEP * terms.len() <= count;
        let (tiles, used) = (
            pays.then(|| Tiles::new(terms)).flatten()?,
            used.into_iter().collect(),
        );
        Some(Self {
            tiles,
            used,
            t,
            n,
            run,
        })
    }

    /// Babies that any sum has: the others need no panel.
    pub(super) fn used(&self) -> &[usize] {
        &self.used
    }

    /// Limbs of the ciphertexts: special ones follow.
    pub(super) fn limbs(&self) -> usize {
        self.t.limbs
    }

    /// The blocks of a limb, in order.
    pub(super) fn blocks(&self) -> impl Iterator<Item = Range<usize>> {
        let block = self.block();
        (0..self.n).step_by(block).map(move |start| start..start + block)
    }

    pub(super) fn block(&self) -> usize {
        BLOCK.min(self.n)
    }

    fn packed(&self) -> usize {
        PACKED.min(self.n)
    }

    /// For limb `at`.
    pub(super) fn workspace(&self, at: usize, babies: usize) -> Workspace<'a> {
        let panels = || Panels::new(babies, self.block());
        Workspace {
            panels: [panels(), panels()],
            weights: Weights::new(&self.tiles, self.packed(), self.run),
            vectors: self.t.vectors.iter().map(|v| &v[at][..]).collect(),
        }
    }

    /// Adds a block of the workspace's limb, whose panels are set, to both halves of the sums, or replaces
    /// these. Blocks come in order.
    pub(super) fn add(
        &self,
        m: &Modulus,
        start: usize,
        workspace: &mut Workspace<'_>,
        sums: [Vec<&mut [f64]>; 2],
        replace: bool,
    ) {
        let first = start % self.packed();
        if first == 0 {
            self.tiles
                .pack(&mut workspace.weights, self.n, start, &workspace.vectors);
        }
        for (panels, mut sums) in workspace.panels.iter().zip(sums) {
            tiles::sums(
                m,
                &self.tiles,
                (&workspace.weights, first),
                panels,
                &mut sums,
                replace,
            );
        }
    }
}
