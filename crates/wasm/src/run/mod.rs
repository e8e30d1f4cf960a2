//! Runs a program on this party's shares. Either party can: the client with its text's mask, the server with
//! its weights.
mod checks;
mod local;
mod masked;
mod rotary;
mod shared;

use crate::error::Result;
use crate::program::{last_reads, sizes, Do, Program, Step, Value};
use crate::tensor::{misfit, Tensor};
use std::collections::HashMap;
use tacita_mpc::linear::prepared::{Prepared as PreparedRows, Shape};
use tacita_mpc::linear::Options;
use tacita_mpc::{Party, Ring};

pub use masked::MaskedProduct;

/// What the server has of the model, in the order in which the program asks for it. The client has nothing.
pub trait Model {
    /// Integers (inputs, outputs) of the next linear map, and a bias in its format for each output.
    fn linear(&mut self) -> Option<(Vec<i64>, Vec<u64>)> {
        None
    }

    /// Factors and offsets of the next norm.
    fn norm(&mut self) -> Option<(Vec<f64>, Vec<f64>)> {
        None
    }
}

/// The client's model: none.
pub struct Unknown;

impl Model for Unknown {}

/// This party's share of rows that were read before, by the stores of the program.
#[derive(Clone, Debug, Default)]
pub struct Past {
    /// How many.
    pub rows: usize,
    stores: Vec<Tensor>,
}

impl Past {
    /// Of so many rows of which this party knows nothing.
    ///
    /// # Errors
    /// For a program that does not fit.
    pub fn empty(program: &Program, rows: usize) -> Result<Self> {
        if rows == 0 {
            return Ok(Self::default());
        }
        let values = sizes(program, 1, rows)?;
        let appended = program
            .steps
            .iter()
            .filter(|step| matches!(step.what, Do::Append { .. }));
        let store = |step: &Step| {
            let Value { shape, ring } = &values[step.outputs[0]];
            let shape = vec![shape[0], rows, shape[2]];
            let count = shape.iter().product();
            Tensor::new(shape, Ring::new(*ring), vec![0; count])
        };
        let stores = appended.map(store).collect::<Result<_>>()?;
        Ok(Self { rows, stores })
    }
}

/// Products of single rows that were made before the rows are known, by the numbers of their steps
/// (`tacita.two_party.program.run.Prepared`).
#[derive(Default)]
pub struct Prepared {
    linear: HashMap<usize, PreparedRows>,
    products: HashMap<usize, MaskedProduct>,
}

impl Prepared {
    /// Rows for which every linear map is prepared.
    pub fn left(&self) -> usize {
        self.linear.values().map(PreparedRows::left).min().unwrap_or(0)
    }

    /// Prepares so many rows behind `past`, at the client, and drops what was left before.
    ///
    /// # Errors
    /// Those of the protocols.
    pub fn prepare(&mut self, party: &mut Party, program: &Program, past: &Past, rows: usize) -> Result<()> {
        let values = sizes(program, 1, past.rows)?;
        for (number, step) in program.steps.iter().enumerate() {
            if let Do::Linear { outputs, ring, .. } = step.what {
                let inputs = values[step.inputs[0]].shape[1];
                let shape = Shape {
                    rows,
                    inputs,
                    outputs,
                    ring: Ring::new(ring),
                };
                let prepared = PreparedRows::new(party, None, shape, Options::default())?;
                self.linear.insert(number, prepared);
            }
        }
        for (number, step) in program.steps.iter().enumerate() {
            let Do::Product {
                store: Some(store),
                transposed,
                ..
            } = step.what
            else {
                continue;
            };
            let (Some(old), true) = (past.stores.get(store), past.rows > 0) else {
                continue;
            };
            let group = values[step.inputs[0]].shape[1];
            let prepared = MaskedProduct::prepare(party, old, transposed, group, rows)?;
            self.products.insert(number, prepared);
        }
        Ok(())
    }
}

/// What a run stands on. mask: which rows are real of all so far, at the client alone; empty at the server.
/// past: rows before; afterwards with those of the run. prepared: for a single row.
pub struct Standing<'a> {
    /// See above.
    pub mask: &'a [bool],
    /// See above.
    pub past: &'a mut Past,
    /// See above.
    pub prepared: Option<&'a mut Prepared>,
}

/// One run.
struct Walk<'a, M> {
    party: &'a mut Party,
    model: &'a mut M,
    mask: &'a [bool],
    past: &'a Past,
    all_rows: usize,
    stores: Vec<Tensor>,
    prepared: Option<&'a mut Prepared>,
}

/// Runs all steps on this party's share of the input, (rows, hidden), and gives its share of the answer.
///
/// watch: called as each node begins.
///
/// # Errors
/// [`crate::ClientError::Damaged`] for a program whose steps do not fit, before anything is sent; those of
/// the protocols.
pub fn run<M: Model>(
    party: &mut Party,
    program: &Program,
    model: &mut M,
    input: Tensor,
    standing: Standing,
    watch: &mut dyn FnMut(&str),
) -> Result<Tensor> {
    let rows = match input.shape() {
        &[rows, hidden] if hidden == program.hidden && input.ring().bits() == program.entered.ring => rows,
        _ => return misfit("an input of another shape"),
    };
    let Standing { mask, past, prepared } = standing;
    sizes(program, rows, past.rows)?;
    let (stores, all_rows) = (vec![], past.rows + rows);
    let mut walk = Walk {
        party,
        model,
        mask,
        past,
        all_rows,
        stores,
        prepared,
    };
    let mut registers: HashMap<usize, Tensor> = HashMap::from([(0, input)]);
    let frees = last_reads(program);
    for (number, step) in program.steps.iter().enumerate() {
        if let Do::Enter { name } = &step.what {
            watch(name);
        }
        let found = walk.step(number, step, &inputs(step, &registers)?)?;
        registers.extend(step.outputs.iter().copied().zip(found));
        for register in &frees[number] {
            registers.remove(register);
        }
    }
    let stores = walk.stores;
    if !stores.is_empty() {
        *past = Past {
            rows: all_rows,
            stores,
        };
    }
    match registers.remove(&program.result) {
        Some(answer) if answer.ring().bits() == program.answered.ring => Ok(answer),
        _ => misfit("no answer in its register"),
    }
}

fn inputs<'a>(step: &Step, registers: &'a HashMap<usize, Tensor>) -> Result<Vec<&'a Tensor>> {
    let found = |number: &usize| match registers.get(number) {
        Some(tensor) => Ok(tensor),
        _ => misfit(format!("register {number} is empty")),
    };
    step.inputs.iter().map(found).collect()
}

impl<M: Model> Walk<'_, M> {
    fn step(&mut self, number: usize, step: &Step, given: &[&Tensor]) -> Result<Vec<Tensor>> {
        match (&step.what, given) {
            (Do::Enter { .. }, []) => Ok(vec![]),
            (Do::Columns { widths }, [x]) => x.columns(widths),
            (Do::Softmax { .. }, [x]) => self.softmax(&step.what, x),
            (Do::Average { fraction, ring }, []) => Ok(vec![self.average(*fraction, *ring)?]),
            (Do::Linear { .. }, [x]) => Ok(vec![self.linear(number, &step.what, x)?]),
            (Do::Append { store, .. }, [x]) => {
                let rows = match self.past.stores.get(*store) {
                    Some(before) => before.above(x)?,
                    None => (*x).clone(),
                };
                self.stores.push(rows.clone());
                Ok(vec![rows])
            }
            (what, [x]) => Ok(vec![match self.local(what, x)? {
                Some(found) => found,
                None => self.shared(what, x)?,
            }]),
            (what, [x, y]) => Ok(vec![self.pair(number, what, x, y)?]),
            _ => misfit(format!("{} inputs", given.len())),
        }
    }
}
