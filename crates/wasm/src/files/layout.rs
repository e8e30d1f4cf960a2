//! Where the numbers of a request and of its answer stand in slots (`tacita.layouts.runs`), as the plan
//! states it; and what tells that a decode is broken.
use serde::Deserialize;
use std::collections::BTreeMap;
use tacita_ckks::Complex64;

const MOST_STEPS: usize = 6;
const MOST_RUNS: usize = 1 << 12;
const MOST_ROUNDS: usize = 64; // of the numbers of a mask, beside one number for each slot
const MOST_SLOTS: usize = 1 << 24; // of a tensor or a response: a page has less memory than other clients
/// Of what belongs to be equal, zero or one: largest difference whatever the plan says, beside the largest
/// number.
const LOOSE: f64 = 0.05;

/// A slot and a number, and then how often, how many slots and how many numbers apart it goes on, from the
/// outermost step to the innermost.
type Run = Vec<usize>;

/// What a tensor's slots are taken from: the hidden states by rows, or 1/n at the n real tokens.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(super) enum Source {
    Hidden,
    Mask,
}

/// Ciphertexts of one name; slots that no run names are zero.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tensor {
    pub source: Source,
    pub count: usize,
    runs: Vec<Run>,
}

/// What the client encrypts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    pub slots: usize,
    pub texts: usize,
    pub tokens: usize,
    pub size: usize,
    /// Hidden states are encrypted divided by it.
    pub bound: f64,
    pub tensors: BTreeMap<String, Tensor>,
}

/// Where the answers are: every number twice, half the norm check of each text, and where zero belongs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Response {
    pub slots: usize,
    pub count: usize,
    pub texts: usize,
    pub rows: usize,
    pub size: usize,
    /// Numbers are stored divided by it.
    pub bound: f64,
    numbers: Vec<Run>,
    copies: Vec<Run>,
    norms: Vec<Run>,
    zeros: Vec<Run>,
}

/// Where a circuit takes its input and leaves its answer.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Layout {
    pub request: Request,
    pub response: Response,
}

/// The numbers of an answer, and whether they are those of a run that stayed in its calibrated intervals.
pub struct Read {
    pub values: Vec<f64>,
    pub sound: bool,
}

impl Tensor {
    /// Its slots, ciphertext after ciphertext, that hold these numbers; a mask's go round.
    pub fn fill(&self, slots: usize, numbers: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; self.count * slots];
        for run in &self.runs {
            each(run, |slot, number| out[slot] = numbers[number % numbers.len()]);
        }
        out
    }
}

impl Request {
    /// Whether runs stay within slots and numbers.
    pub fn fits(&self) -> bool {
        let masks = self.texts.checked_mul(self.tokens);
        self.tensors.values().all(|tensor| {
            let (rounds, more) = match tensor.source {
                Source::Hidden => (self.size, 0),
                Source::Mask => (MOST_ROUNDS, self.slots),
            };
            let numbers = masks.and_then(|masks| masks.checked_mul(rounds)?.checked_add(more));
            let slots = total(tensor.count, self.slots);
            slots.zip(numbers).is_some_and(|(s, n)| fits(&tensor.runs, s, n))
        })
    }

    /// The largest number of the hidden states that is sent.
    pub fn last(&self) -> Option<usize> {
        let hidden = self.tensors.get("hidden")?;
        hidden.runs.iter().filter_map(|run| reach(run, 1)).max()
    }
}

impl Response {
    /// Whether runs stay within slots and answers, and numbers, copies and checks are told apart.
    pub fn fits(&self) -> bool {
        let count = self
            .rows
            .checked_mul(self.size)
            .and_then(|n| n.checked_mul(self.texts));
        let (Some(slots), Some(count)) = (total(self.count, self.slots), count) else {
            return false;
        };
        let mut used = vec![0u8; slots];
        let parts = [
            (&self.numbers, count),
            (&self.copies, count),
            (&self.norms, self.texts),
        ];
        let apart = (1..).zip(parts).all(|(mark, (runs, wanted))| {
            if wanted > slots || !fits(runs, slots, wanted) {
                return false; // each number has a slot of its own
            }
            let (mut free, mut there) = (true, vec![false; wanted]);
            for run in runs {
                each(run, |slot, number| {
                    free &= used[slot] == 0 || used[slot] == mark;
                    used[slot] = mark;
                    there[number] = true;
                });
            }
            free && there.iter().all(|&there| there)
        });
        apart && fits(&self.zeros, slots, self.texts)
    }

    /// Reads the answer of the first text from the slots of all ciphertexts. agreement: how far copies may be
    /// apart, and zeros off.
    pub fn read(&self, agreement: f64, slots: &[Vec<Complex64>]) -> Read {
        let at = |slot: usize| slots[slot / self.slots][slot % self.slots];
        let gathered = |runs: &[Run], count: usize| {
            let mut out = vec![f64::NAN; count];
            for run in runs.iter().rev() {
                each(&once(run), |slot, number| {
                    if number < count {
                        out[number] = at(slot).re;
                    }
                });
            }
            out
        };
        let count = self.rows * self.size;
        let (first, again) = (gathered(&self.numbers, count), gathered(&self.copies, count));
        let pairs = || first.iter().zip(&again);
        let values: Vec<f64> = pairs().map(|(a, b)| 0.5 * (a + b) * self.bound).collect();
        let apart = largest(pairs().map(|(a, b)| (a - b).abs()));
        let checked = (2.0 * gathered(&self.norms, 1)[0] - 1.0).abs() <= LOOSE;
        let loose = LOOSE * largest(values.iter().map(|v| v.abs())).max(1.0);
        let quiet = self.leak(at).max(apart) * self.bound <= loose.min(agreement);
        let finite = slots.iter().flatten().all(|z| z.is_finite());
        Read {
            sound: quiet && checked && finite,
            values,
        }
    }

    /// The largest magnitude where zero belongs.
    fn leak(&self, at: impl Fn(usize) -> Complex64) -> f64 {
        let mut used = vec![false; self.count * self.slots];
        for run in self.numbers.iter().chain(&self.copies).chain(&self.norms) {
            each(run, |slot, _| used[slot] = true);
        }
        let mut leak = 0.0f64;
        for run in &self.zeros {
            each(run, |slot, text| {
                if text == 0 && !used[slot] {
                    leak = leak.max(at(slot).norm());
                }
            });
        }
        leak
    }
}

fn total(count: usize, slots: usize) -> Option<usize> {
    count.checked_mul(slots).filter(|&total| total <= MOST_SLOTS)
}

/// The steps of a run: how often, how many slots and numbers apart.
fn steps(run: &[usize]) -> impl DoubleEndedIterator<Item = (usize, usize, usize)> + '_ {
    run[2..].chunks_exact(3).map(|step| (step[0], step[1], step[2]))
}

/// Its last slot (side 0) or number (side 1), where there is one.
fn reach(run: &[usize], side: usize) -> Option<usize> {
    run.get(2..)?.chunks_exact(3).try_fold(run[side], |end, step| {
        let far = step[0].checked_sub(1)?.checked_mul(step[1 + side])?;
        end.checked_add(far)
    })
}

/// Whether there are runs, few enough, that stay within so many slots and numbers and fill no more slots than
/// there are.
fn fits(runs: &[Run], slots: usize, numbers: usize) -> bool {
    let mut filled = 0usize;
    let right = (1..=MOST_RUNS).contains(&runs.len())
        && runs.iter().all(|run| {
            let whole = run.len() % 3 == 2 && run.len() <= 2 + 3 * MOST_STEPS;
            let inside = |side, most| reach(run, side).is_some_and(|end| end < most);
            if !whole || !inside(0, slots) || !inside(1, numbers) || steps(run).any(|step| step.1 == 0) {
                return false;
            }
            let size = steps(run).try_fold(1usize, |size, step| size.checked_mul(step.0));
            filled = size
                .and_then(|size| filled.checked_add(size))
                .unwrap_or(usize::MAX);
            filled <= slots
        });
    right
}

/// The run without repetitions of the same numbers: the first place of each is read.
fn once(run: &[usize]) -> Run {
    let kept = run[2..].chunks_exact(3).filter(|step| step[2] != 0);
    run[..2].iter().chain(kept.flatten()).copied().collect()
}

/// Calls with every slot and number of a run, the innermost step first.
fn each(run: &[usize], mut visit: impl FnMut(usize, usize)) {
    let count: usize = steps(run).map(|step| step.0).product();
    for index in 0..count {
        let (mut left, mut slot, mut number) = (index, run[0], run[1]);
        for (times, far, step) in steps(run).rev() {
            slot += left % times * far;
            number += left % times * step;
            left /= times;
        }
        visit(slot, number);
    }
}

fn largest(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Vector {
        layout: Layout,
        packed: BTreeMap<String, Vec<f64>>,
        answers: Vec<Table>,
    }

    #[derive(Deserialize)]
    struct Table {
        slots: Vec<f64>,
        values: Vec<f64>,
        sound: bool,
    }

    /// A hostile plan can state so many: they are refused before flags are made of them.
    #[test]
    fn more_numbers_than_slots_are_refused() {
        let run = || vec![vec![0, 0]];
        let response = Response {
            slots: 64,
            count: 1,
            texts: 1,
            rows: 1,
            size: usize::MAX,
            bound: 1.0,
            numbers: run(),
            copies: run(),
            norms: run(),
            zeros: run(),
        };
        assert!(!response.fits());
    }

    /// `tests/unit/layouts/test_layout_vectors.py` wrote them.
    #[test]
    fn python_packs_and_reads_alike() {
        let text = include_str!("../../../../tests/vectors/layouts.json");
        let vectors: Vec<Vector> = serde_json::from_str(text).unwrap();
        assert_eq!(vectors.len(), 5);
        for Vector {
            layout: Layout { request, response },
            packed,
            answers,
        } in vectors
        {
            assert!(request.fits() && response.fits());
            for (name, tensor) in &request.tensors {
                let count = match tensor.source {
                    Source::Hidden => request.tokens * request.size,
                    Source::Mask => request.tokens,
                };
                let numbers: Vec<f64> = (1..=count).map(|number| number as f64).collect();
                assert_eq!(tensor.fill(request.slots, &numbers), packed[name], "{name}");
            }
            for Table { slots, values, sound } in answers {
                let slots: Vec<_> = slots.iter().map(|&x| Complex64::new(x, 0.0)).collect();
                let cts: Vec<_> = slots.chunks(response.slots).map(<[_]>::to_vec).collect();
                let found = response.read(0.01, &cts);
                assert_eq!((found.values, found.sound), (values, sound));
            }
        }
    }
}
