//! The results of a product in parts, so that the first travel while the next are made.
use super::layout::Layout;
use super::packing::Node;
use super::plan::Plan;
use super::product::{Evaluator, Inputs, Space};
use crate::keys::Automorphism;
use crate::response::{respond, Response};
use crate::{BfvError, Result, ServerKeys};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use tacita_rlwe::{Ciphertext, Parameters};

/// Evaluates a product and answers: one response after the other, in order, each as soon as it is asked for.
/// An item fails when the operating system gives no randomness.
///
/// # Errors
/// For inputs that do not fit the plan.
pub fn evaluate<'a>(
    params: &'a Parameters,
    keys: &'a ServerKeys,
    plan: &'a Plan,
    inputs: Inputs<'a>,
) -> Result<impl Iterator<Item = Result<Response>> + 'a> {
    let answer = move |(r, ct): (usize, Ciphertext)| {
        let keep: Vec<usize> = plan.layout.places(r).iter().map(|p| p.coefficient).collect();
        respond(params, &keys.public, ct, plan.budget.kappa, Some(&keep))
    };
    let mut rounds = ciphertexts(params, keys, plan, inputs)?;
    let mut first = 0;
    let answers = move || {
        let cts = rounds.next()?;
        let numbers = first..first + cts.len();
        first = numbers.end;
        Some(numbers.into_par_iter().zip(cts).map(&answer).collect::<Vec<_>>())
    };
    Ok(std::iter::from_fn(answers).flatten())
}

/// What is masked to become the responses, in order.
pub(super) fn ciphertexts<'a>(
    params: &'a Parameters,
    keys: &'a ServerKeys,
    plan: &'a Plan,
    inputs: Inputs<'a>,
) -> Result<Rounds<'a>> {
    if inputs.crossed.is_some() != plan.crossed() {
        return Err(unfit(&plan.layout));
    }
    let limbs = plan.budget.rounding.limbs;
    Rounds::new(params, &keys.automorphisms, &plan.layout, limbs, inputs)
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
    Ok(Rounds::new(params, automorphisms, layout, limbs, inputs)?
        .flatten()
        .collect())
}

/// The results of a product by rounds, in order: those that are whole once every thread has done a few more
/// column blocks.
pub(super) struct Rounds<'a> {
    evaluator: Evaluator<'a>,
    tasks: Vec<(usize, Range<usize>)>,
    /// Tasks done.
    done: usize,
    /// Of results that are not whole, and the number of the first one.
    nodes: Vec<Node>,
    whole: usize,
    spaces: Mutex<Vec<Space>>,
}

impl<'a> Rounds<'a> {
    pub(super) fn new(
        params: &'a Parameters,
        automorphisms: &'a [Automorphism],
        layout: &'a Layout,
        limbs: usize,
        inputs: Inputs<'a>,
    ) -> Result<Self> {
        check(params, automorphisms, layout, limbs, &inputs)?;
        let evaluator = Evaluator::new(params, automorphisms, layout, limbs, inputs);
        Ok(Self {
            tasks: evaluator.tasks(),
            evaluator,
            done: 0,
            nodes: Vec::new(),
            whole: 0,
            spaces: Mutex::default(),
        })
    }

    /// The subtrees of a task.
    fn nodes(&self, (head, columns): &(usize, Range<usize>)) -> Vec<Node> {
        let held = || self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
        let space = held().pop();
        let mut space = space.unwrap_or_else(|| self.evaluator.space());
        let nodes = self.evaluator.nodes(&mut space, *head, columns);
        held().push(space);
        nodes
    }
}

impl Iterator for Rounds<'_> {
    type Item = Vec<Ciphertext>;

    fn next(&mut self) -> Option<Vec<Ciphertext>> {
        let (layout, count) = (self.evaluator.layout, rayon::current_num_threads());
        while self.done < self.tasks.len() {
            let tasks = &self.tasks[self.done..self.tasks.len().min(self.done + count)];
            let nodes: Vec<Vec<Node>> = tasks.par_iter().map(|task| self.nodes(task)).collect();
            self.done += tasks.len();
            self.nodes.extend(nodes.into_iter().flatten());
            let whole = match self.tasks.get(self.done) {
                Some((head, columns)) => self.evaluator.first_leaf(*head, columns.start) >> layout.pack,
                None => layout.responses(),
            };
            let mut groups: Vec<Vec<Node>> = (self.whole..whole).map(|_| Vec::new()).collect();
            let ready = self.nodes.partition_point(|node| node.response(layout) < whole);
            for node in self.nodes.drain(..ready) {
                groups[node.response(layout) - self.whole].push(node);
            }
            self.whole = whole;
            if !groups.is_empty() {
                let finish = |nodes| self.evaluator.packer.finish(nodes);
                return groups.into_par_iter().map(finish).collect();
            }
        }
        None
    }
}

fn check(
    params: &Parameters,
    automorphisms: &[Automorphism],
    layout: &Layout,
    limbs: usize,
    inputs: &Inputs<'_>,
) -> Result<()> {
    let (grid, dims, window) = (layout.grid, layout.grid.dims, layout.grid.window);
    let [lefts, rights] = grid.requests(true);
    let left = inputs.left.len() == lefts;
    let right = inputs.right.len() == dims.batch * dims.m * dims.n;
    let crossed = inputs.crossed.as_ref().is_none_or(|(cts, x)| {
        let fit = cts.len() == rights;
        fit && x.len() == dims.batch * dims.k * dims.m && cts.iter().all(|c| c.limbs() == limbs)
    });
    let steps = window.mw.ilog2() as usize;
    let keyed = layout.pack == 0
        || automorphisms.len() >= steps && automorphisms.iter().all(|a| a.key.limbs >= limbs);
    let (join, rows) = (layout.join, grid.k_blocks());
    let joined =
        join == 0 || inputs.crossed.is_none() && join <= layout.pack && rows.is_multiple_of(1 << join);
    let held = window.heads * window.kw * window.mw * window.nw <= params.n();
    if left && right && crossed && keyed && joined && held && inputs.left.iter().all(|c| c.limbs() == limbs) {
        return Ok(());
    }
    Err(unfit(layout))
}

pub(super) fn unfit(layout: &Layout) -> BfvError {
    let detail = format!(
        "inputs or keys do not fit {:?} in {:?}",
        layout.grid.dims, layout.grid.window
    );
    BfvError::Shape {
        op: "product",
        detail,
    }
}
