//! Shapes and rings of all registers, inferred from the input before anything runs
//! (`tacita.two_party.program.sizes`): programs come from a server that is not trusted.
use super::rules::{Place, Value};
use super::tiles::{joins, Tile, MOST_STEPS_OF_TILES, MOST_TILES};
use super::{Cut, Do, Program};
use crate::error::Result;
use crate::tensor::{misfit, MOST};
use std::collections::{BTreeSet, HashMap};

/// Values of all registers and stores at a time, at most: 1 GiB, which a page can hold.
const MOST_HELD: usize = 1 << 27;

/// A walk. held, most, stored: values of registers now, at most since the last step that is none of a tile,
/// and of stores. tiles: that it came to. runs: of their steps.
struct Walk<'a> {
    program: &'a Program,
    place: Place,
    registers: Vec<Value>,
    held: usize,
    most: usize,
    stored: usize,
    tiles: usize,
    runs: usize,
}

/// What every register holds in a run of so many rows behind `past`, the input's first; of a tile's those of
/// the last.
///
/// # Errors
/// [`crate::ClientError::Damaged`] for a step that does not fit what it reads, for registers that hold too
/// much at a time, and for steps of tiles that run too often.
pub fn sizes(program: &Program, rows: usize, past: usize) -> Result<Vec<Value>> {
    let Some(all_rows) = rows.checked_add(past) else {
        return misfit("rows");
    };
    let ends = joins(program)?;
    let frees = last_reads(program, &ends);
    let entered = Value {
        shape: vec![rows, program.hidden],
        ring: program.entered.ring,
    };
    let mut walk = Walk {
        program,
        place: Place {
            all_rows,
            past,
            ..Place::default()
        },
        held: checked(&entered, "the input")?,
        registers: vec![entered],
        most: 0,
        stored: 0,
        tiles: 0,
        runs: 0,
    };
    let mut number = 0;
    while number < program.steps.len() {
        walk.most = 0;
        if let Some(&end) = ends.get(&number) {
            let before = walk.held;
            for shape in walk.divide(number, end)? {
                (walk.held, walk.place.tile) = (before, Some(shape));
                for (number, freed) in (number..end).zip(&frees[number..]) {
                    walk.pass(number, freed)?;
                }
            }
            number = end;
        }
        walk.pass(number, &frees[number])?;
        number += 1;
    }
    let registers = walk.registers;
    match registers.get(program.result) {
        Some(answer) if answer.ring == program.answered.ring && program.tells(&answer.shape) => Ok(registers),
        _ => misfit("no answer in its register"),
    }
}

/// For each step, the registers of its own that neither a later one nor the answer reads; what tiles are
/// taken from is read until their join. ends: see [`joins`].
pub(crate) fn last_reads(program: &Program, ends: &HashMap<usize, usize>) -> Vec<Vec<usize>> {
    let mut last = HashMap::from([(program.result, program.steps.len())]);
    for (number, step) in program.steps.iter().enumerate().rev() {
        for &register in &step.inputs {
            last.entry(register)
                .or_insert(*ends.get(&number).unwrap_or(&number));
        }
        for &register in &step.outputs {
            last.entry(register).or_insert(number);
        }
    }
    let mut frees = vec![vec![]; program.steps.len() + 1];
    for (register, number) in last {
        frees[number].push(register);
    }
    frees
}

fn size(value: &Value) -> usize {
    value.shape.iter().product()
}

/// The number of its values, which are not too many.
fn checked(value: &Value, what: &str) -> Result<usize> {
    let count = value.shape.iter().try_fold(1usize, |p, &n| p.checked_mul(n));
    match count {
        Some(count) if (1..=MOST).contains(&count) && (1..=64).contains(&value.ring) => Ok(count),
        _ => misfit(format!("{what} makes {:?} modulo 2^{}", value.shape, value.ring)),
    }
}

impl Walk<'_> {
    /// One step, behind which these registers are free.
    fn pass(&mut self, number: usize, freed: &[usize]) -> Result<()> {
        let step = &self.program.steps[number];
        let read = self.read(number)?;
        let Some(made) = self.place.made(&step.what, &read) else {
            return misfit(format!("a step {:?} on {read:?}", step.what));
        };
        if made.len() != step.outputs.len() {
            return misfit(format!("step {number} writes other registers"));
        }
        let mut new = 0;
        for (&register, value) in step.outputs.iter().zip(made) {
            new += checked(&value, &format!("step {number}"))?;
            match self.registers.get_mut(register) {
                Some(old) => *old = value,
                None => self.registers.push(value), // the next one: see `joins`
            }
        }
        self.held += new;
        match step.what {
            Do::Append { .. } => self.stored += new,
            Do::Join {} => {
                self.most += new; // its parts are held beside the tiles
                self.place.tile = None;
            }
            _ => {}
        }
        self.most = self.most.max(self.held);
        if self.most.saturating_add(self.stored) > MOST_HELD {
            return misfit(format!("more than {MOST_HELD} numbers at a time"));
        }
        let freed = freed.iter().map(|&register| size(&self.registers[register]));
        self.held -= freed.sum::<usize>();
        Ok(())
    }

    /// What a step reads.
    fn read(&self, number: usize) -> Result<Vec<Value>> {
        let inputs = self.program.steps[number].inputs.iter();
        let read: Option<_> = inputs.map(|&input| self.registers.get(input).cloned()).collect();
        read.map_or_else(|| misfit(format!("step {number} reads what is not written")), Ok)
    }

    /// The sizes of the tiles of a step, whose join is the step `end`.
    fn divide(&mut self, number: usize, end: usize) -> Result<BTreeSet<[usize; 3]>> {
        let (what, read) = (&self.program.steps[number].what, self.read(number)?);
        let shapes: Vec<&[usize]> = read.iter().map(|value| &value.shape[..]).collect();
        let (Some(cut), &[&[heads, queries, _], &[groups, keys, _], &[others, rows, _]]) =
            (Cut::of(what), &shapes[..])
        else {
            return misfit(format!("tiles {what:?} on {read:?}"));
        };
        let fits = (groups, keys) == (others, rows) && queries <= keys && keys == self.place.all_rows;
        if !(fits && heads % groups == 0 && cut.heads % (heads / groups) == 0) {
            return misfit(format!("tiles {what:?} on {read:?}"));
        }
        self.tiles = self.tiles.saturating_add(cut.count(heads, queries));
        few(self.tiles, MOST_TILES, "of them")?;
        self.place.whole = [heads, queries];
        let all = cut.tiles(heads, queries, keys);
        let each = |tile: Tile| {
            self.runs = self.runs.saturating_add(end - number);
            tile.shape()
        };
        let shapes = all.map(each).collect();
        few(self.runs, MOST_STEPS_OF_TILES, "steps of them")?;
        Ok(shapes)
    }
}

/// Refuses tiles, or their steps, of which there are too many.
fn few(count: usize, most: usize, what: &str) -> Result<()> {
    if count <= most {
        return Ok(());
    }
    misfit(format!(
        "a step tiles, over {most} {what}, that does not fit what it reads"
    ))
}
