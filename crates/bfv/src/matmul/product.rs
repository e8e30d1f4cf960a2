//! The evaluator: leaves from encrypted and plain blocks, merged as they come, and masked for two parties.
//!
//! Plain polynomials are made from the matrix column block by column block, one prime at a time, and dropped
//! after use: a thread holds m' limbs, not the whole matrix (which took the peer 3 GB for 768 x 768). Cost:
//! see [`super::cost`].
use super::layout::Layout;
use super::packing::{Node, Packer};
use super::plan::Plan;
use super::window::Grid;
use crate::keys::Automorphism;
use crate::response::{respond, Response};
use crate::{BfvError, Result, ServerKeys};
use rayon::prelude::*;
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
            .for_each(|ct| scale(params, ct, layout.pack));
        evaluator.crossed = inputs.crossed.map(|(mut cts, x)| {
            cts.par_iter_mut().for_each(|ct| scale(params, ct, layout.pack));
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
        let step = TASK.div_ceil(grid.k_blocks()).max(TILE.div_ceil(grid.window.nw));
        let tasks: Vec<usize> = (0..columns).step_by(step).collect();
        tasks
            .into_par_iter()
            .flat_map_iter(|first| {
                let mut nodes = Vec::new();
                let mut tile = Tile::default();
                for column in first..columns.min(first + step) {
                    self.push_column(&mut nodes, &mut tile, column);
                }
                nodes
            })
            .collect()
    }

    /// The leaves of one column block.
    fn push_column(&self, nodes: &mut Vec<Node>, tile: &mut Tile, column: usize) {
        let (grid, limbs) = (self.grid(), self.limbs);
        let (head, gamma) = (column / grid.n_blocks(), column % grid.n_blocks());
        let dims = grid.dims;
        tile.load(
            &self.right[head * dims.m * dims.n..][..dims.m * dims.n],
            &grid,
            column,
        );
        let zero = || RnsPoly::zero(self.params, limbs, 0);
        let mut leaves: Vec<[RnsPoly; 2]> = (0..grid.k_blocks()).map(|_| [zero(), zero()]).collect();
        for i in 0..limbs {
            let plains: Vec<AlignedVec> = (0..grid.m_blocks())
                .map(|beta| self.plain_right(tile, beta, gamma, i))
                .collect();
            for (alpha, [b, a]) in leaves.iter_mut().enumerate() {
                let at = head * grid.k_blocks() + alpha;
                let terms = self.terms(&plains, at, head, gamma, i);
                accumulate(self.params.modulus(i), &mut b.limbs[i], &mut a.limbs[i], &terms);
            }
        }
        for (alpha, polys) in leaves.into_iter().enumerate() {
            let polys = polys.into_iter().collect();
            let ct = Ciphertext { polys, scale: 1.0 };
            let leaf = self.packer.leaf(column * grid.k_blocks() + alpha, ct);
            self.packer.push(nodes, leaf);
        }
    }

    /// (plain, b, a) limbs of the products that sum to a leaf; `row` numbers (head, alpha).
    fn terms<'b>(
        &'b self,
        plains: &'b [AlignedVec],
        row: usize,
        head: usize,
        gamma: usize,
        i: usize,
    ) -> Terms<'b> {
        let grid = self.grid();
        let (blocks, columns) = (grid.m_blocks(), grid.n_blocks());
        let mut terms = Terms::default();
        for (beta, plain) in plains.iter().enumerate() {
            terms.push(plain, &self.left[row * blocks + beta], i);
        }
        if let Some((right, left)) = &self.crossed {
            for beta in 0..blocks {
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

/// Divides by 2^pack modulo q.
fn scale(params: &Parameters, ct: &mut Ciphertext, pack: u32) {
    for poly in &mut ct.polys {
        for (i, limb) in poly.limbs.iter_mut().enumerate() {
            let m = params.modulus(i);
            kernels::mul_scalar_assign(m, limb, m.inv(1 << pack));
        }
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

fn accumulate(m: &Modulus, b: &mut [f64], a: &mut [f64], terms: &Terms<'_>) {
    kernels::inner_product2(m, b, a, &terms.plain, &terms.b, &terms.a);
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
    /// Makes sure that the columns of block `column` (numbered over all heads) of matrix `y` are loaded.
    fn load(&mut self, y: &[i64], grid: &Grid, column: usize) {
        let (head, gamma) = (column / grid.n_blocks(), column % grid.n_blocks());
        let needed = grid.columns(gamma);
        if head == self.head && self.columns.start <= needed.start && needed.end <= self.columns.end {
            return;
        }
        let blocks = TILE.div_ceil(grid.window.nw);
        let end = grid.dims.n.min(needed.start + blocks * grid.window.nw);
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
