//! The evaluator: leaves from encrypted and plain blocks, merged as they come, and masked for two parties.
//!
//! Plain polynomials are made from the matrix column block by column block, one prime at a time, and dropped
//! after use: a thread holds four limbs, not the whole matrix (which took the peer 3 GB for 768 x 768). Cost:
//! see [`super::cost`].
use super::layout::Layout;
use super::packing::{divide, Node, Packer};
use super::plan::Plan;
use super::window::Grid;
use crate::keys::Automorphism;
use crate::response::{respond, Response};
use crate::{BfvError, Result, ServerKeys};
use rayon::prelude::*;
use std::ops::Range;
use tacita_ring::{kernels, AlignedVec, Modulus};
use tacita_rlwe::{Ciphertext, Parameters, RnsPoly};

/// What the evaluator has. All matrices row-major, heads one after the other.
pub struct Inputs<'a> {
    /// Encrypted left blocks by (head, alpha, beta).
    pub left: Vec<Ciphertext>,
    /// Plain right matrices.
    pub right: &'a [i64],
    /// For shares: encrypted right blocks by (head, beta, gamma) and plain left matrices.
    pub crossed: Option<(Vec<Ciphertext>, &'a [i64])>,
}

/// Columns of the right matrix that are brought into column order at once: four cache lines of a row, so that
/// a matrix of wide rows is not read page by page for every column.
const TILE: usize = 32;
/// Rows that are brought into column order together.
const ROWS: usize = 16;
/// Leaves of a task, about.
const TASK: usize = 32;
/// Leaves that are summed beside each other: left blocks are read from memory once for all of them.
const LEAVES: usize = 8;
/// Left blocks of a partial sum: with their plain polynomials they stay in a second-level cache of a megabyte
/// while it is made for every column.
const TERMS: usize = 4;

struct Evaluator<'a> {
    params: &'a Parameters,
    layout: &'a Layout,
    limbs: usize,
    packer: Packer<'a>,
    left: Vec<Ciphertext>,
    right: &'a [i64],
    crossed: Option<(Vec<Ciphertext>, Vec<RnsPoly>)>,
}

/// Evaluates a product and answers: one response after the other, in order.
///
/// # Errors
/// For inputs that do not fit the plan; when the operating system gives no randomness.
pub fn evaluate(
    params: &Parameters,
    keys: &ServerKeys,
    plan: &Plan,
    inputs: Inputs<'_>,
) -> Result<Vec<Response>> {
    let products = ciphertexts(params, keys, plan, inputs)?;
    let answer = |(r, ct): (usize, Ciphertext)| {
        let keep: Vec<usize> = plan.layout.places(r).iter().map(|p| p.coefficient).collect();
        respond(params, &keys.public, ct, plan.budget.kappa, Some(&keep))
    };
    products.into_par_iter().enumerate().map(answer).collect()
}

/// What is masked to become the responses, in order.
pub(super) fn ciphertexts(
    params: &Parameters,
    keys: &ServerKeys,
    plan: &Plan,
    inputs: Inputs<'_>,
) -> Result<Vec<Ciphertext>> {
    if inputs.crossed.is_some() != plan.crossed() {
        return Err(unfit(&plan.layout));
    }
    let limbs = plan.budget.rounding.limbs;
    products(params, &keys.automorphisms, &plan.layout, limbs, inputs)
}

/// Evaluates a product and masks nothing: for an evaluator that keeps the results, still encrypted.
///
/// automorphisms: by log2(h), those below log2(m_w) at least where leaves are merged. The ring may have any
/// degree that holds the window. Cost: see [`super::cost`], without requests and responses.
///
/// # Errors
/// For inputs or keys that do not fit the layout.
pub fn products(
    params: &Parameters,
    automorphisms: &[Automorphism],
    layout: &Layout,
    limbs: usize,
    inputs: Inputs<'_>,
) -> Result<Vec<Ciphertext>> {
    check(params, automorphisms, layout, limbs, &inputs)?;
    let evaluator = Evaluator::new(params, automorphisms, layout, limbs, inputs);
    let mut groups: Vec<Vec<Node>> = (0..layout.responses()).map(|_| Vec::new()).collect();
    for node in evaluator.nodes() {
        groups[node.response(layout)].push(node);
    }
    let finish = |(r, nodes): (usize, Vec<Node>)| {
        let none = BfvError::Shape {
            op: "product",
            detail: format!("response {r} has no leaves"),
        };
        evaluator.packer.finish(nodes).ok_or(none)
    };
    groups.into_par_iter().enumerate().map(finish).collect()
}

fn check(
    params: &Parameters,
    automorphisms: &[Automorphism],
    layout: &Layout,
    limbs: usize,
    inputs: &Inputs<'_>,
) -> Result<()> {
    let (grid, dims, window) = (layout.grid, layout.grid.dims, layout.grid.window);
    let left = inputs.left.len() == dims.batch * grid.k_blocks() * grid.m_blocks();
    let right = inputs.right.len() == dims.batch * dims.m * dims.n;
    let crossed = inputs.crossed.as_ref().is_none_or(|(cts, x)| {
        let fit = cts.len() == dims.batch * grid.m_blocks() * grid.n_blocks();
        fit && x.len() == dims.batch * dims.k * dims.m && cts.iter().all(|c| c.limbs() == limbs)
    });
    let steps = window.mw.ilog2() as usize;
    let keyed = layout.pack == 0
        || automorphisms.len() >= steps && automorphisms.iter().all(|a| a.key.limbs >= limbs);
    let held = window.kw * window.mw * window.nw <= params.n();
    if left && right && crossed && keyed && held && inputs.left.iter().all(|c| c.limbs() == limbs) {
        return Ok(());
    }
    Err(unfit(layout))
}

fn unfit(layout: &Layout) -> BfvError {
    let detail = format!(
        "inputs or keys do not fit {:?} in {:?}",
        layout.grid.dims, layout.grid.window
    );
    BfvError::Shape {
        op: "product",
        detail,
    }
}

impl<'a> Evaluator<'a> {
    fn new(
        params: &'a Parameters,
        automorphisms: &'a [Automorphism],
        layout: &'a Layout,
        limbs: usize,
        inputs: Inputs<'a>,
    ) -> Self {
        let mut evaluator = Self {
            params,
            layout,
            limbs,
            packer: Packer::new(params, automorphisms, *layout, limbs),
            left: inputs.left,
            right: inputs.right,
            crossed: None,
        };
        evaluator
            .left
            .par_iter_mut()
            .for_each(|ct| divide(params, ct, layout.pack));
        evaluator.crossed = inputs.crossed.map(|(mut cts, x)| {
            cts.par_iter_mut().for_each(|ct| divide(params, ct, layout.pack));
            (cts, evaluator.plain_left(x))
        });
        evaluator
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

    /// Subtrees in order; each thread takes neighbouring column blocks.
    fn nodes(&self) -> Vec<Node> {
        let (grid, dims) = (self.grid(), self.grid().dims);
        let columns = dims.batch * grid.n_blocks();
        let tile = TILE.div_ceil(grid.window.nw);
        let even = columns.div_ceil(2 * rayon::current_num_threads()).max(tile);
        let step = TASK.div_ceil(grid.k_blocks()).max(tile).min(even);
        let tasks: Vec<usize> = (0..columns).step_by(step).collect();
        tasks
            .into_par_iter()
            .flat_map_iter(|first| {
                let (mut nodes, mut tile) = (Vec::new(), Tile::default());
                let (mut first, end) = (first, columns.min(first + step));
                while first < end {
                    let last = self.together(first, end);
                    self.push_columns(&mut nodes, &mut tile, first..last);
                    first = last;
                }
                nodes
            })
            .collect()
    }

    /// The end of the column blocks from `first` on that are done beside each other: of one head.
    fn together(&self, first: usize, end: usize) -> usize {
        let (grid, columns) = (self.grid(), self.grid().n_blocks());
        let head = (first / columns + 1) * columns;
        end.min(head).min(first + LEAVES.div_ceil(grid.k_blocks()))
    }

    /// The leaves of some column blocks of one head.
    fn push_columns(&self, nodes: &mut Vec<Node>, tile: &mut Tile, columns: Range<usize>) {
        let (grid, limbs) = (self.grid(), self.limbs);
        let (dims, rows, blocks) = (grid.dims, grid.k_blocks(), grid.m_blocks());
        let head = columns.start / grid.n_blocks();
        let right = &self.right[head * dims.m * dims.n..][..dims.m * dims.n];
        tile.load(right, &grid, &columns);
        let zero = || RnsPoly::zero(self.params, limbs, 0);
        let mut leaves: Vec<[RnsPoly; 2]> = (0..columns.len() * rows).map(|_| [zero(), zero()]).collect();
        for i in 0..limbs {
            let m = self.params.modulus(i);
            for first in (0..blocks).step_by(TERMS) {
                let betas = first..blocks.min(first + TERMS);
                for (column, leaves) in columns.clone().zip(leaves.chunks_mut(rows)) {
                    let gamma = column % grid.n_blocks();
                    let plain = |beta| self.plain_right(tile, beta, gamma, i);
                    let plains: Vec<AlignedVec> = betas.clone().map(plain).collect();
                    for (alpha, [b, a]) in leaves.iter_mut().enumerate() {
                        let terms = self.terms(&plains, first, head * rows + alpha, (head, gamma), i);
                        accumulate(m, [&mut b.limbs[i], &mut a.limbs[i]], &terms, first > 0);
                    }
                }
            }
        }
        for (leaf, polys) in (columns.start * rows..).zip(leaves) {
            let polys = polys.into_iter().collect();
            let ct = Ciphertext { polys, scale: 1.0 };
            self.packer.push(nodes, self.packer.leaf(leaf, ct));
        }
    }

    /// (plain, b, a) limbs of products that a leaf is a sum of: those of the blocks from `first` on, as many
    /// as `plains`. row: the number of (head, alpha).
    fn terms<'b>(
        &'b self,
        plains: &'b [AlignedVec],
        first: usize,
        row: usize,
        (head, gamma): (usize, usize),
        i: usize,
    ) -> Terms<'b> {
        let (blocks, columns) = (self.grid().m_blocks(), self.grid().n_blocks());
        let mut terms = Terms::default();
        for (beta, plain) in (first..).zip(plains) {
            terms.push(plain, &self.left[row * blocks + beta], i);
        }
        if let Some((right, left)) = &self.crossed {
            for beta in first..first + plains.len() {
                let ct = &right[(head * blocks + beta) * columns + gamma];
                terms.push(&left[row * blocks + beta].limbs[i], ct, i);
            }
        }
        terms
    }

    /// Right block (beta, gamma) modulo prime i, NTT form.
    fn plain_right(&self, tile: &Tile, beta: usize, gamma: usize, i: usize) -> AlignedVec {
        let (grid, m) = (self.grid(), self.params.modulus(i));
        let (inner, columns) = (grid.inner(beta), grid.columns(gamma));
        let len = (columns.len() * grid.window.mw).next_power_of_two();
        let mut out = AlignedVec::scratch(self.params.n());
        out[..len].fill(0.0);
        for (l, column) in columns.enumerate() {
            let values = &tile.column(column)[inner.clone()];
            let to = out[l * grid.window.mw..].iter_mut().zip(values);
            if tile.small {
                to.for_each(|(x, &value)| *x = small_residue(m, value));
            } else {
                to.for_each(|(x, &value)| *x = residue(m, value));
            }
        }
        self.params.table(i).forward_prefix(&mut out, len);
        out
    }
}

/// log2 of what counts as small: below every prime.
const SMALL: u32 = 48;

/// A signed integer modulo p.
fn residue(m: &Modulus, value: i64) -> f64 {
    if value.unsigned_abs() >> SMALL == 0 {
        small_residue(m, value)
    } else {
        m.from_i64(value) as f64
    }
}

/// The same below 2^48 in absolute value, what nearly all are: no division, no branch, and in a form that
/// compilers vectorise (adding 1.5 * 2^52 as an integer and subtracting it as a double converts).
#[inline(always)]
fn small_residue(m: &Modulus, value: i64) -> f64 {
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    let signed = f64::from_bits(SHIFT.to_bits().wrapping_add_signed(value)) - SHIFT;
    signed + f64::from_bits((m.p() as f64).to_bits() & (value >> 63) as u64)
}

/// Limbs of products to be summed.
#[derive(Default)]
struct Terms<'a> {
    plain: Vec<&'a [f64]>,
    b: Vec<&'a [f64]>,
    a: Vec<&'a [f64]>,
}

impl<'a> Terms<'a> {
    fn push(&mut self, plain: &'a [f64], ct: &'a Ciphertext, i: usize) {
        self.plain.push(plain);
        self.b.push(&ct.polys[0].limbs[i]);
        self.a.push(&ct.polys[1].limbs[i]);
    }
}

/// The sum of the terms, onto what is there where `onto` says so.
fn accumulate(m: &Modulus, [b, a]: [&mut AlignedVec; 2], terms: &Terms<'_>, onto: bool) {
    if !onto {
        kernels::inner_product2(m, b, a, &terms.plain, &terms.b, &terms.a);
        return;
    }
    let mut part = [AlignedVec::scratch(b.len()), AlignedVec::scratch(a.len())];
    let [part_b, part_a] = &mut part;
    kernels::inner_product2(m, part_b, part_a, &terms.plain, &terms.b, &terms.a);
    kernels::add_assign(m, b, part_b);
    kernels::add_assign(m, a, part_a);
}

/// Some columns of a matrix in column order.
#[derive(Default)]
struct Tile {
    values: Vec<i64>,
    /// Are all of them below 2^48 in absolute value?
    small: bool,
    /// The head's matrix and the columns that are loaded.
    head: usize,
    columns: std::ops::Range<usize>,
    rows: usize,
}

impl Tile {
    /// Makes sure that the columns of some blocks of a head (numbered over all heads) of matrix `y` are
    /// loaded.
    fn load(&mut self, y: &[i64], grid: &Grid, blocks: &Range<usize>) {
        let (head, first) = (blocks.start / grid.n_blocks(), blocks.start % grid.n_blocks());
        let needed = grid.columns(first).start..grid.columns(first + blocks.len() - 1).end;
        if head == self.head && self.columns.start <= needed.start && needed.end <= self.columns.end {
            return;
        }
        let more = TILE.div_ceil(grid.window.nw) * grid.window.nw;
        let end = grid.dims.n.min(needed.end.max(needed.start + more));
        (self.head, self.columns, self.rows) = (head, needed.start..end, grid.dims.m);
        self.values.resize(self.columns.len() * self.rows, 0);
        for (block, rows) in y.chunks(ROWS * grid.dims.n).enumerate() {
            for (l, at) in self.columns.clone().enumerate() {
                let to = &mut self.values[l * self.rows + block * ROWS..];
                let column = rows[at..].iter().step_by(grid.dims.n);
                to.iter_mut().zip(column).for_each(|(t, &v)| *t = v);
            }
        }
        self.small = self.values.iter().fold(0, |all, v| all | v.unsigned_abs()) >> SMALL == 0;
    }

    fn column(&self, column: usize) -> &[i64] {
        &self.values[(column - self.columns.start) * self.rows..][..self.rows]
    }
}
