//! Runs a program on this party's shares. Either party can: the client with its text's mask, the server with
//! its weights.
mod local;
mod masked;
mod rotary;
mod shared;

use crate::error::Result;
use crate::program::{joins, last_reads, sizes, Cut, Do, Map, Program, Step, Tile, Value};
use crate::tensor::{misfit, Tensor};
use std::collections::HashMap;
use std::ops::Range;
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
            if let Do::Linear(Map { outputs, ring, .. }) = step.what {
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
            let Do::Product(product) = &step.what else {
                continue;
            };
            let old = product.store.and_then(|store| past.stores.get(store));
            let Some(old) = old.filter(|_| past.rows > 0) else {
                continue;
            };
            let group = values[step.inputs[0]].shape[1];
            let prepared = MaskedProduct::prepare(party, old, product.transposed, group, rows)?;
            self.products.insert(number, prepared);
        }
        Ok(())
    }
}

/// What a run stands on. mask: which rows are real of all so far, at the client alone; empty at the server.
/// past: rows before; afterwards with those of the run. prepared: for a single row.
#[allow(missing_docs)]
pub struct Standing<'a> {
    pub mask: &'a [bool],
    pub past: &'a mut Past,
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
    /// That it is in, and results of those before it.
    tile: Option<Tile>,
    parts: Vec<(Tile, Tensor)>,
}

/// Registers that are written, and for each step those that are free behind it.
struct Registers<'a> {
    program: &'a Program,
    values: HashMap<usize, Tensor>,
    frees: Vec<Vec<usize>>,
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
        tile: None,
        parts: vec![],
    };
    let ends = joins(program)?;
    let mut registers = Registers {
        program,
        values: HashMap::from([(0, input)]),
        frees: last_reads(program, &ends),
    };
    let mut number = 0;
    while let Some(step) = program.steps.get(number) {
        if let Do::Enter { name } = &step.what {
            watch(name);
        }
        if let Some(&end) = ends.get(&number) {
            walk.tiles(number..end, &mut registers)?;
            number = end;
        }
        walk.advance(number, &mut registers)?;
        number += 1;
    }
    let stores = walk.stores;
    if !stores.is_empty() {
        *past = Past {
            rows: all_rows,
            stores,
        };
    }
    match registers.values.remove(&program.result) {
        Some(answer) if answer.ring().bits() == program.answered.ring => Ok(answer),
        _ => misfit("no answer in its register"),
    }
}

impl Registers<'_> {
    fn read(&self, step: &Step) -> Result<Vec<&Tensor>> {
        let found = |number: &usize| match self.values.get(number) {
            Some(tensor) => Ok(tensor),
            _ => misfit(format!("register {number} is empty")),
        };
        step.inputs.iter().map(found).collect()
    }
}

impl<M: Model> Walk<'_, M> {
    /// One step: writes its registers and drops what none behind it reads.
    fn advance(&mut self, number: usize, registers: &mut Registers) -> Result<()> {
        let step = &registers.program.steps[number];
        let found = self.step(number, step, &registers.read(step)?)?;
        registers.values.extend(step.outputs.iter().copied().zip(found));
        for register in &registers.frees[number] {
            registers.values.remove(register);
        }
        Ok(())
    }

    /// The steps of tiles, tile after tile: all before their join.
    fn tiles(&mut self, numbers: Range<usize>, registers: &mut Registers) -> Result<()> {
        let steps = &registers.program.steps;
        let (step, join) = (&steps[numbers.start], &steps[numbers.end]);
        let cut = Cut::of(&step.what);
        let (Some(cut), [q, k, _]) = (cut, &registers.read(step)?[..]) else {
            return misfit("tiles of other inputs");
        };
        let ((heads, queries, _), (_, keys, _)) = (q.matrices()?, k.matrices()?);
        for tile in cut.tiles(heads, queries, keys) {
            self.tile = Some(tile.clone());
            for number in numbers.clone() {
                self.advance(number, registers)?;
            }
            let part = registers.read(join)?;
            self.parts
                .extend(part.first().map(|part| (tile, (*part).clone())));
        }
        self.tile = None;
        Ok(())
    }

    /// What this tile has of queries, keys and values.
    fn tiled(&self, given: [&Tensor; 3]) -> Result<Vec<Tensor>> {
        let Some(tile) = &self.tile else {
            return misfit("a tile without its join");
        };
        let (heads, _, _) = given[0].matrices()?;
        let part = |(x, rows): (&Tensor, &Range<usize>)| {
            let group = heads / x.matrices()?.0.max(1);
            let of_heads = tile.heads.start / group.max(1)..tile.heads.end / group.max(1);
            x.part(of_heads, rows.clone())
        };
        let rows = [&tile.queries, &tile.keys, &tile.keys];
        given.into_iter().zip(rows).map(part).collect()
    }

    /// The results of all tiles, put together.
    fn joined(&mut self, last: &Tensor) -> Result<Tensor> {
        let parts = std::mem::take(&mut self.parts);
        let ends = parts.iter().map(|(tile, _)| (tile.heads.end, tile.queries.end));
        let (heads, rows) = ends.max().unwrap_or_default();
        let (_, _, columns) = last.matrices()?;
        let count = heads.checked_mul(rows).and_then(|n| n.checked_mul(columns));
        let zeros = vec![0; count.unwrap_or_default()];
        let mut whole = Tensor::new(vec![heads, rows, columns], last.ring(), zeros)?;
        for (tile, part) in parts {
            whole.put(tile.heads, tile.queries, &part)?;
        }
        Ok(whole)
    }

    fn step(&mut self, number: usize, step: &Step, given: &[&Tensor]) -> Result<Vec<Tensor>> {
        match (&step.what, given) {
            (Do::Enter { .. }, []) => Ok(vec![]),
            (Do::Columns { widths }, [x]) => x.columns(widths),
            (Do::Tiles(_), &[q, k, v]) => self.tiled([q, k, v]),
            (Do::Join {}, [x]) => Ok(vec![self.joined(x)?]),
            (Do::Softmax(formats), [x]) => self.softmax(formats, x),
            (Do::Average { fraction, ring }, []) => Ok(vec![self.average(*fraction, Ring::new(*ring))?]),
            (Do::Linear(map), [x]) => Ok(vec![self.linear(number, *map, x)?]),
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
