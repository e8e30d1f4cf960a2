//! Shapes and rings of all registers, inferred from the input before anything runs
//! (`tacita.two_party.program.sizes`): programs come from a server that is not trusted.
use super::{Do, Program};
use crate::error::Result;
use crate::tensor::{misfit, MOST};

const WORD: u32 = 64;
const MOST_WIDTH: usize = 1 << 20;
/// Values of all registers and stores at a time, at most: 1 GiB, which a page can hold.
const MOST_HELD: usize = 1 << 27;
const MOST_GAP: i64 = 1 << 40;
const BOUNDS: std::ops::RangeInclusive<f64> = 1e-30..=1e30;
/// Size of a head that is turned, by which angles are made.
const MOST_TURNED: usize = 4096;
const BASES: std::ops::RangeInclusive<f64> = 1.0..=1e9;

/// What a register holds: (rows, columns) or (heads, rows, columns) residues modulo 2^ring.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Its shape.
    pub shape: Vec<usize>,
    /// Bits of its ring.
    pub ring: u32,
}

struct Walk {
    all_rows: usize,
    past: usize,
    stores: usize,
}

/// What every register holds in a run of so many rows behind `past`, the input's first.
///
/// # Errors
/// [`crate::ClientError::Damaged`] for a step that does not fit what it reads, for registers that hold too
/// much at a time.
pub fn sizes(program: &Program, rows: usize, past: usize) -> Result<Vec<Value>> {
    let Some(all_rows) = rows.checked_add(past) else {
        return misfit("rows");
    };
    let mut walk = Walk {
        all_rows,
        past,
        stores: 0,
    };
    let entered = Value {
        shape: vec![rows, program.hidden],
        ring: program.entered.ring,
    };
    let mut held = checked(&entered, "the input")?;
    let (mut registers, mut stored) = (vec![entered], 0usize);
    let frees = last_reads(program);
    for (number, step) in program.steps.iter().enumerate() {
        let read: Option<Vec<&Value>> = step.inputs.iter().map(|&input| registers.get(input)).collect();
        let made = match read {
            Some(read) => walk.made(&step.what, &read)?,
            None => return misfit(format!("step {number} reads what is not written")),
        };
        let next = registers.len();
        if !step.outputs.iter().copied().eq(next..next + made.len()) {
            return misfit(format!("step {number} writes other registers"));
        }
        for value in &made {
            let size = checked(value, &format!("step {number}"))?;
            held += size;
            stored += if matches!(step.what, Do::Append { .. }) {
                size
            } else {
                0
            };
        }
        if held.saturating_add(stored) > MOST_HELD {
            return misfit(format!("more than {MOST_HELD} numbers at a time"));
        }
        registers.extend(made);
        let freed = frees[number].iter().map(|&register| size(&registers[register]));
        held -= freed.sum::<usize>();
    }
    match registers.get(program.result) {
        Some(Value { shape, ring }) if shape.len() == 2 && *ring == program.answered.ring => Ok(registers),
        _ => misfit("no answer in its register"),
    }
}

/// For each step, the registers of its own that neither a later one nor the answer reads.
pub(crate) fn last_reads(program: &Program) -> Vec<Vec<usize>> {
    let mut last = std::collections::HashMap::from([(program.result, program.steps.len())]);
    for (number, step) in program.steps.iter().enumerate().rev() {
        for &register in step.inputs.iter().chain(&step.outputs) {
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
        Some(count) if (1..=MOST).contains(&count) && (1..=WORD).contains(&value.ring) => Ok(count),
        _ => misfit(format!("{what} makes {:?} modulo 2^{}", value.shape, value.ring)),
    }
}

fn like(x: &Value, ring: u32) -> Vec<Value> {
    vec![Value {
        shape: x.shape.clone(),
        ring,
    }]
}

impl Walk {
    fn made(&mut self, what: &Do, read: &[&Value]) -> Result<Vec<Value>> {
        let found = match read {
            [] => self.source(what),
            [x] => self.local(what, x).or_else(|| shared(what, x)),
            [x, y] => self.pair(what, x, y),
            _ => None,
        };
        match found {
            Some(made) => Ok(made),
            None => misfit(format!("a step {what:?} on {read:?}")),
        }
    }

    fn source(&self, what: &Do) -> Option<Vec<Value>> {
        match *what {
            Do::Enter { .. } => Some(vec![]),
            Do::Average { fraction, ring } if fraction < ring => Some(vec![Value {
                shape: vec![1, 1, self.all_rows],
                ring,
            }]),
            _ => None,
        }
    }

    fn local(&mut self, what: &Do, x: &Value) -> Option<Vec<Value>> {
        let shaped = |shape: Vec<usize>| Some(vec![Value { shape, ring: x.ring }]);
        let (last, ring) = (*x.shape.last()?, x.ring);
        match (what, &x.shape[..]) {
            (&Do::ShiftDown { bits, ring: to }, _) if bits >= 1 && ring.checked_sub(bits) == Some(to) => {
                Some(like(x, to))
            }
            (&Do::ShiftUp { bits, ring: to }, _)
                if (1..WORD).contains(&bits) && to == WORD.min(ring + bits) =>
            {
                Some(like(x, to))
            }
            (&Do::Reduce { ring: to }, _) if to <= ring => Some(like(x, to)),
            (&Do::Scale { ring: to, .. } | &Do::Bias { ring: to }, _) if to == ring => Some(like(x, to)),
            (Do::Columns { widths }, [before @ .., _]) => {
                let total = widths.iter().try_fold(0usize, |sum, &w| sum.checked_add(w));
                let block = |&width: &usize| Value {
                    shape: [before, &[width]].concat(),
                    ring,
                };
                (total == Some(last) && !widths.contains(&0)).then(|| widths.iter().map(block).collect())
            }
            (Do::Rows { count }, [before @ .., rows, _]) if (1..=*rows).contains(&count.unsigned_abs()) => {
                shaped([before, &[count.unsigned_abs(), last]].concat())
            }
            (&Do::Heads { count }, &[rows, _]) if count > 0 && last % count == 0 => {
                shaped(vec![count, rows, last / count])
            }
            (Do::Merge {}, &[heads, rows, _]) => shaped(vec![rows, heads.checked_mul(last)?]),
            (&Do::Group { heads: to }, &[heads, rows, _]) if to > 0 && (heads * rows) % to == 0 => {
                shaped(vec![to, heads * rows / to, last])
            }
            (
                Do::Turn {
                    bits,
                    ring: to,
                    base,
                    scales,
                },
                [_, _, _],
            ) => {
                let fits = *to == ring && (1..31).contains(bits) && *bits < ring && BASES.contains(base);
                let each = scales.is_empty() || scales.len() == last / 2;
                let slower = scales.iter().all(|scale| (0.0..=1.0).contains(scale));
                (fits && last % 2 == 0 && last <= MOST_TURNED && each && slower).then(|| like(x, ring))
            }
            (&Do::Append { store, ring: to }, &[heads, rows, _]) => {
                let fits = to == ring && store == self.stores && rows == self.all_rows - self.past;
                self.stores += 1;
                fits.then(|| {
                    vec![Value {
                        shape: vec![heads, self.all_rows, last],
                        ring,
                    }]
                })
            }
            (
                &Do::Hide {
                    gap,
                    fraction,
                    ring: to,
                    ..
                },
                &[_, queries, keys],
            ) => {
                let fits = queries <= keys && keys == self.all_rows && (0..MOST_GAP).contains(&gap);
                (fits && to == ring && fraction < ring).then(|| like(x, ring))
            }
            _ => None,
        }
    }

    fn pair(&self, what: &Do, x: &Value, y: &Value) -> Option<Vec<Value>> {
        match *what {
            Do::Add { ring } if x.shape == y.shape && x.ring == ring && y.ring >= ring => Some(like(x, ring)),
            Do::Times {
                held,
                short,
                ring,
                slack,
            } => {
                let (last, before) = y.shape.split_last()?;
                let fits = x.shape == y.shape || x.shape == [before, &[1]].concat();
                let rings = x.ring == held && (1..=held).contains(&short) && y.ring == ring;
                (fits && rings && slack < WORD && *last > 0).then(|| like(y, ring))
            }
            Do::Product {
                ring,
                transposed,
                store,
                ..
            } => {
                let (&[heads, rows, inner], &[others, first, second]) = (&x.shape[..], &y.shape[..]) else {
                    return None;
                };
                let (meets, columns) = if transposed {
                    (second, first)
                } else {
                    (first, second)
                };
                let fits = heads == others && inner == meets && x.ring == ring && y.ring == ring;
                let known = store.is_none_or(|store| store < self.stores);
                (fits && known).then(|| {
                    vec![Value {
                        shape: vec![heads, rows, columns],
                        ring,
                    }]
                })
            }
            _ => None,
        }
    }
}

/// Steps with the other party.
fn shared(what: &Do, x: &Value) -> Option<Vec<Value>> {
    let few = |bits: u32| bits <= WORD;
    match *what {
        Do::Extend { ring, to } if x.ring == ring && ring <= to => Some(like(x, to)),
        Do::Linear { outputs, ring, .. } => match x.shape[..] {
            [rows, _] if x.ring == ring && outputs <= MOST_WIDTH => Some(vec![Value {
                shape: vec![rows, outputs],
                ring,
            }]),
            _ => None,
        },
        Do::Relu { ring } if x.ring == ring => Some(like(x, ring)),
        Do::Square { ring, to, slack } if x.ring == ring && slack < WORD => Some(like(x, to)),
        Do::Tanh(ref f) | Do::Elu(ref f) => {
            let fits = x.ring == f.ring && f.fraction < f.ring && few(f.range);
            fits.then(|| like(x, f.to))
        }
        Do::Gelu(ref bump) | Do::Silu(ref bump) => {
            let fits = x.ring == bump.ring && bump.fraction < bump.ring && few(bump.range);
            fits.then(|| like(x, bump.to))
        }
        Do::Softmax {
            ring,
            fraction,
            range,
            power,
            to,
            inverse,
        } => {
            let &[heads, rows, _] = &x.shape[..] else {
                return None;
            };
            let fits = x.ring == ring && fraction < ring && few(range) && inverse < to;
            let row = Value {
                shape: vec![heads, rows, 1],
                ring: to,
            };
            fits.then(|| {
                vec![
                    Value {
                        shape: x.shape.clone(),
                        ring: power,
                    },
                    row,
                ]
            })
        }
        Do::Norm {
            ring,
            fraction,
            to,
            finer,
            bound,
            least,
            gamma,
            epsilon,
            ..
        } => {
            let bounds = [bound, least, gamma].iter().all(|each| BOUNDS.contains(each));
            let fits = x.ring == ring && fraction < ring && finer < to;
            (fits && bounds && (0.0..=1.0).contains(&epsilon)).then(|| like(x, to))
        }
        _ => None,
    }
}
