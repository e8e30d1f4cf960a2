//! The evaluator: leaves from encrypted and plain blocks, merged as they come, and masked for two parties.
//!
//! Plain polynomials are made from the matrix column block by column block, one prime at a time, and dropped
//! after use: a thread holds 48 limbs, not the whole matrix (which took the peer 3 GB for 768 x 768). Cost:
//! see [`super::cost`].
use super::layout::Layout;
use super::packing::{divide, Node, Packer};
use super::tile::{residue, Tile};
use super::window::Grid;
use crate::keys::Automorphism;
use rayon::prelude::*;
use std::ops::Range;
use tacita_ring::{kernels, AlignedVec, Blocks, Permutation};
use tacita_rlwe::{Ciphertext, Parameters, RnsPoly};

/// What the evaluator has. All matrices row-major, heads one after the other.
pub struct Inputs<'a> {
    /// Encrypted left blocks by (part of the batch, alpha, beta).
    pub left: Vec<Ciphertext>,
    /// Plain right matrices.
    pub right: &'a [i64],
    /// For shares: encrypted right blocks by (part, beta, gamma) and plain left matrices.
    pub crossed: Option<(Vec<Ciphertext>, &'a [i64])>,
}

/// Columns of the right matrix that are brought into column order at once: four cache lines of a row, so that
/// a matrix of wide rows is not read page by page for every column.
const TILE: usize = 32;
/// Nodes of a task, about.
const TASK: usize = 32;

/// Terms of a sum that are added at a time, and column blocks whose sums are made together, so that what
/// belongs to ciphertexts is read once for all of them. So many parts of limbs of plain blocks stay in the
/// second-level cache from their transform to their last use.
const TERMS: usize = 12;
const TOGETHER: usize = 4;
/// Values between limbs of plain blocks: at multiples of their length, a power of two, all of them would
/// share a few sets of the caches.
const SKEW: usize = 33 * kernels::PAIR;

pub(super) struct Evaluator<'a> {
    params: &'a Parameters,
    pub(super) layout: &'a Layout,
    limbs: usize,
    pub(super) packer: Packer<'a>,
    /// How weights are permuted for the joined ciphertexts, from the second on.
    maps: Vec<Permutation>,
    /// By (part of the batch, joined rows).
    left: Vec<Pairs>,
    right: &'a [i64],
    /// By (part, gamma), and the plain left blocks.
    crossed: Option<(Vec<Pairs>, Vec<RnsPoly>)>,
}

/// The polynomials of the ciphertexts of a row or column by group of betas and by limb, in the order of
/// `kernels::inner_products2`.
type Pairs = Vec<Vec<AlignedVec>>;

/// Coefficients of the plain blocks of some columns, and limbs of some of these blocks.
pub(super) struct Space {
    coefficients: AlignedVec,
    plains: AlignedVec,
}

impl<'a> Evaluator<'a> {
    pub(super) fn new(
        params: &'a Parameters,
        automorphisms: &'a [Automorphism],
        layout: &'a Layout,
        limbs: usize,
        inputs: Inputs<'a>,
    ) -> Self {
        let packer = Packer::new(params, automorphisms, *layout, limbs);
        let mut evaluator = Self {
            params,
            layout,
            limbs,
            maps: packer.weights(),
            packer,
            left: Vec::new(),
            right: inputs.right,
            crossed: None,
        };
        evaluator.left = evaluator.pairs_of_rows(inputs.left);
        evaluator.crossed = inputs
            .crossed
            .map(|(cts, x)| (evaluator.pairs_of_columns(cts), evaluator.plain_left(x)));
        evaluator
    }

    fn pairs_of_rows(&self, mut cts: Vec<Ciphertext>) -> Vec<Pairs> {
        let (blocks, rows) = (self.grid().m_blocks(), 1 << self.layout.join);
        cts.par_iter_mut()
            .for_each(|ct| divide(self.params, ct, self.layout.pack));
        let row = |cts: &[Ciphertext]| {
            let beta = |beta| {
                self.packer
                    .join(cts[beta..].iter().step_by(blocks).cloned().collect())
            };
            let joined: Vec<_> = (0..blocks).into_par_iter().map(beta).collect();
            self.pairs(|beta| joined[beta].iter().collect())
        };
        cts.par_chunks(rows * blocks).map(row).collect()
    }

    fn pairs_of_columns(&self, mut cts: Vec<Ciphertext>) -> Vec<Pairs> {
        let (grid, columns) = (self.grid(), self.grid().n_blocks());
        cts.par_iter_mut()
            .for_each(|ct| divide(self.params, ct, self.layout.pack));
        let column = |at| {
            let (group, gamma) = (at / columns, at % columns);
            self.pairs(|beta| vec![&cts[(group * grid.m_blocks() + beta) * columns + gamma]])
        };
        (0..grid.groups() * columns).into_par_iter().map(column).collect()
    }

    /// Of the ciphertexts that `at` names for each beta.
    fn pairs<'b>(&self, at: impl Fn(usize) -> Vec<&'b Ciphertext>) -> Pairs {
        let group = |betas: Range<usize>| self.packer.pairs(&betas.flat_map(&at).collect::<Vec<_>>());
        self.groups().map(group).collect()
    }

    /// The betas of which terms are added at a time.
    fn groups(&self) -> impl Iterator<Item = Range<usize>> {
        let (blocks, step) = (self.grid().m_blocks(), self.group());
        (0..blocks)
            .step_by(step)
            .map(move |first| first..blocks.min(first + step))
    }

    fn group(&self) -> usize {
        (TERMS >> self.layout.join).clamp(1, self.grid().m_blocks())
    }

    fn grid(&self) -> Grid {
        self.layout.grid
    }

    /// Left blocks by (head, alpha, beta), NTT form.
    fn plain_left(&self, x: &[i64]) -> Vec<RnsPoly> {
        let (grid, dims) = (self.grid(), self.grid().dims);
        let blocks = grid.k_blocks() * grid.m_blocks();
        let block = |at: usize| {
            let x = &x[at / blocks * dims.k * dims.m..][..dims.k * dims.m];
            let (alpha, beta) = (at % blocks / grid.m_blocks(), at % grid.m_blocks());
            let mut poly = RnsPoly::zero(self.params, self.limbs, 0);
            for (i, limb) in poly.limbs.iter_mut().enumerate() {
                let m = self.params.modulus(i);
                grid.left(x, alpha, beta, |to, negated, value| {
                    limb[to] = residue(m, if negated { value.wrapping_neg() } else { value });
                });
                self.params.table(i).forward(limb);
            }
            poly
        };
        (0..dims.batch * blocks).into_par_iter().map(block).collect()
    }

    /// Neighbouring column blocks of a head, for a thread each, in order.
    pub(super) fn tasks(&self) -> Vec<(usize, Range<usize>)> {
        let (rows, columns) = (self.layout.joined_rows(), self.grid().n_blocks());
        let even = (self.grid().dims.batch * columns).div_ceil(2 * rayon::current_num_threads());
        let step = TASK.div_ceil(rows).min(even).max(self.wide());
        let of_head = |head| {
            let firsts = (0..columns).step_by(step);
            firsts.map(move |first| (head, first..columns.min(first + step)))
        };
        (0..self.grid().dims.batch).flat_map(of_head).collect()
    }

    /// Column blocks whose sums are made together.
    fn together(&self) -> usize {
        (TASK / self.layout.joined_rows()).clamp(1, TOGETHER)
    }

    /// Column blocks of a tile.
    fn wide(&self) -> usize {
        TILE.div_ceil(self.grid().window.nw)
            .next_multiple_of(self.together())
    }

    pub(super) fn space(&self) -> Space {
        let limbs = (self.together() * self.group()) << self.layout.join;
        Space {
            coefficients: AlignedVec::scratch(self.together() * self.grid().m_blocks() * self.prefix()),
            plains: AlignedVec::scratch(limbs * (self.params.n() + SKEW)),
        }
    }

    /// The number of the first leaf of a column block.
    pub(super) fn first_leaf(&self, head: usize, gamma: usize) -> usize {
        (head * self.grid().n_blocks() + gamma) * self.grid().k_blocks()
    }

    /// The subtrees of some column blocks, in order.
    pub(super) fn nodes(&self, space: &mut Space, head: usize, columns: &Range<usize>) -> Vec<Node> {
        let mut nodes = Vec::new();
        for first in columns.clone().step_by(self.wide()) {
            let blocks = first..columns.end.min(first + self.wide());
            let tile = Tile::new(self.right, &self.grid(), head, blocks);
            for first in tile.blocks.clone().step_by(self.together()) {
                let columns = first..tile.blocks.end.min(first + self.together());
                self.push_columns(&mut nodes, space, &tile, columns);
            }
        }
        nodes
    }

    /// Coefficients of a plain block, a power of two.
    fn prefix(&self) -> usize {
        let window = self.grid().window;
        (window.mw * window.nw).next_power_of_two()
    }

    /// The nodes of neighbouring column blocks, in the order of their numbers.
    fn push_columns(&self, nodes: &mut Vec<Node>, space: &mut Space, tile: &Tile, columns: Range<usize>) {
        let (rows, limbs) = (self.layout.joined_rows(), self.limbs);
        let first = (tile.head * self.grid().n_blocks() + columns.start) * rows;
        let empty = || RnsPoly {
            limbs: Vec::with_capacity(limbs + 1),
            q_len: limbs,
        };
        let mut sums: Vec<_> = (0..columns.len() * rows).map(|_| [empty(), empty()]).collect();
        for i in 0..limbs {
            for (polys, limb) in sums.iter_mut().zip(self.sums(space, tile, &columns, i)) {
                polys
                    .iter_mut()
                    .zip(limb)
                    .for_each(|(poly, limb)| poly.limbs.push(limb));
            }
        }
        for (number, polys) in sums.into_iter().enumerate() {
            let (polys, scale) = (polys.into(), 1.0);
            let node = self.packer.node(first + number, Ciphertext { polys, scale });
            self.packer.push(nodes, node);
        }
    }

    /// Limb i of what belongs to some column blocks, by (gamma, joined rows).
    fn sums(&self, space: &mut Space, tile: &Tile, columns: &Range<usize>, i: usize) -> Vec<[AlignedVec; 2]> {
        let (grid, m, n, len) = (
            self.grid(),
            self.params.modulus(i),
            self.params.n(),
            self.prefix(),
        );
        let (rows, blocks) = (self.layout.joined_rows(), grid.m_blocks());
        let Space { coefficients, plains } = space;
        for (gamma, to) in columns.clone().zip(coefficients.chunks_exact_mut(blocks * len)) {
            let blocks = to.chunks_exact_mut(len).enumerate();
            blocks.for_each(|(beta, to)| tile.encode(to, &grid, (beta, gamma), m));
        }
        let mut out: Vec<_> = (0..columns.len() * rows)
            .map(|_| [(); 2].map(|()| AlignedVec::scratch(n)))
            .collect();
        let parts = self.params.table(i).prefix_parts(len);
        for part in 0..parts {
            let range = part * (n / parts)..(part + 1) * (n / parts);
            let mut outs: Vec<_> = out
                .iter_mut()
                .map(|out| out.each_mut().map(|x| &mut x[range.clone()]))
                .collect();
            for (group, betas) in self.groups().enumerate() {
                let terms = betas.len() << self.layout.join;
                let read = 2 * terms * range.start..2 * terms * range.end;
                let coefficients = |at: usize| {
                    let (gamma, beta) = (at / betas.len(), betas.start + at % betas.len());
                    &coefficients[(gamma * blocks + beta) * len..][..len]
                };
                let limbs = plains.chunks_exact_mut(n + SKEW).map(|x| &mut x[..n]);
                let count = columns.len() * betas.len();
                let plains = self.plains(limbs, (count, coefficients), i, (part, parts));
                let plains: Vec<&[f64]> = plains.iter().map(|x| &x[..]).collect();
                for row in 0..rows {
                    let pairs = &self.left[grid.group(tile.head) * rows + row][group][i][read.clone()];
                    let outs = outs.iter_mut().skip(row).step_by(rows);
                    let mut outs: Vec<_> = outs.map(|out| out.each_mut().map(|x| &mut **x)).collect();
                    kernels::inner_products2(m, &mut outs, &plains, pairs, group == 0);
                }
                let Some((right, left)) = &self.crossed else {
                    continue;
                };
                let left = left[tile.head * rows * blocks..][..rows * blocks].chunks_exact(blocks);
                let left = left.flat_map(|row| &row[betas.clone()]);
                let plains: Vec<&[f64]> = left.map(|plain| &plain.limbs[i][range.clone()]).collect();
                for (gamma, outs) in columns.clone().zip(outs.chunks_mut(rows)) {
                    let pairs =
                        &right[grid.group(tile.head) * grid.n_blocks() + gamma][group][i][read.clone()];
                    kernels::inner_products2(m, outs, &plains, pairs, false);
                }
            }
        }
        out
    }

    /// A part of the values modulo prime i of `count` plain blocks, each as it is and then permuted as joined
    /// ciphertexts need it.
    fn plains<'b, 'c>(
        &self,
        limbs: impl Iterator<Item = &'b mut [f64]>,
        (count, coefficients): (usize, impl Fn(usize) -> &'c [f64]),
        i: usize,
        (part, parts): (usize, usize),
    ) -> Vec<Blocks<'b>> {
        let (table, copies) = (self.params.table(i), 1 << self.layout.join);
        let limbs = limbs.take(count * copies);
        let mut plains: Vec<_> = limbs.map(|x| table.blocks(x, parts).swap_remove(part)).collect();
        for (at, plains) in plains.chunks_exact_mut(copies).enumerate() {
            let (coefficients, (plain, moved)) = (coefficients(at), plains.split_at_mut(1));
            plain[0][..coefficients.len()].copy_from_slice(coefficients);
            table.forward_prefix_blocks(&mut plain[0], coefficients.len());
            let moved = moved.iter_mut().zip(&self.maps);
            moved.for_each(|(to, map)| map.apply_block(to, part * plain[0].len(), &plain[0]));
        }
        plains
    }
}
