//! Runs a program on this party's shares. Either party can: the client with its text's mask, the server with
//! its weights.
mod checks;
mod local;
mod shared;

use crate::error::Result;
use crate::program::{Do, Program, Step};
use crate::tensor::{misfit, Tensor};
use tacita_mpc::Party;

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

/// One run. mask: of real tokens, at the client alone.
struct Walk<'a, M> {
    party: &'a mut Party,
    model: &'a mut M,
    mask: &'a [bool],
}

/// Runs all steps on this party's share of the input and gives its share of the answer.
///
/// mask: which rows are real, at the client; empty at the server. watch: called as each node begins.
///
/// # Errors
/// [`crate::ClientError::Damaged`] for a program whose steps do not fit; those of the protocols.
pub fn run<M: Model>(
    party: &mut Party,
    program: &Program,
    model: &mut M,
    input: Tensor,
    mask: &[bool],
    watch: &mut dyn FnMut(&str),
) -> Result<Tensor> {
    if input.shape() != [program.tokens, program.hidden] || input.ring().bits() != program.entered.ring {
        return misfit("an input of another shape");
    }
    let mut walk = Walk { party, model, mask };
    let mut registers = vec![Some(input)];
    let last = last_uses(program);
    for (number, step) in program.steps.iter().enumerate() {
        if let Do::Enter { name } = &step.what {
            watch(name);
        }
        let found = walk.step(step, &inputs(step, &registers)?)?;
        if step
            .outputs
            .iter()
            .copied()
            .ne(registers.len()..registers.len() + found.len())
        {
            return misfit(format!("step {number} writes other registers"));
        }
        registers.extend(found.into_iter().map(Some));
        for &input in step
            .inputs
            .iter()
            .filter(|&&input| last.get(input) == Some(&number))
        {
            registers[input] = None;
        }
    }
    let answer = registers.get_mut(program.answer).and_then(Option::take);
    match answer {
        Some(answer) if answer.shape() == program.shape && answer.ring().bits() == program.answered.ring => {
            Ok(answer)
        }
        _ => misfit("no answer in its register"),
    }
}

/// The last step that reads each register; never, for the answer's.
fn last_uses(program: &Program) -> Vec<usize> {
    let reads = program.steps.iter().flat_map(|step| &step.inputs);
    let most = reads
        .chain([&program.answer])
        .max()
        .map_or(0, |&most| most.min(1 << 16));
    let mut last = vec![usize::MAX; most + 1];
    for (number, step) in program.steps.iter().enumerate() {
        for &input in step.inputs.iter().filter(|&&input| input <= most) {
            last[input] = number;
        }
    }
    if let Some(kept) = last.get_mut(program.answer) {
        *kept = usize::MAX;
    }
    last
}

fn inputs<'a>(step: &Step, registers: &'a [Option<Tensor>]) -> Result<Vec<&'a Tensor>> {
    let found = |&number: &usize| match registers.get(number) {
        Some(Some(tensor)) => Ok(tensor),
        _ => misfit(format!("register {number} is empty")),
    };
    step.inputs.iter().map(found).collect()
}

impl<M: Model> Walk<'_, M> {
    fn step(&mut self, step: &Step, given: &[&Tensor]) -> Result<Vec<Tensor>> {
        match (&step.what, given) {
            (Do::Enter { .. }, []) => Ok(vec![]),
            (Do::Columns { widths }, [x]) => x.columns(widths),
            (Do::Softmax { .. }, [x]) => self.softmax(&step.what, x),
            (
                Do::Average {
                    tokens,
                    fraction,
                    ring,
                },
                [],
            ) => Ok(vec![self.average(*tokens, *fraction, *ring)?]),
            (what, [x]) => Ok(vec![match self.local(what, x)? {
                Some(found) => found,
                None => self.shared(what, x)?,
            }]),
            (what, [x, y]) => Ok(vec![self.pair(what, x, y)?]),
            _ => misfit(format!("{} inputs", given.len())),
        }
    }
}
