//! What the client of a plan on ciphertexts does (`tacita.planning.client`), as the server publishes it.
use crate::error::{damaged, Result};
use crate::program::{first_wrong, FrontConfig, Reading};
use serde::Deserialize;
use tacita_ckks::keys::KeySpec;
use tacita_ckks::{bootstrap, CkksParameters};

/// Bytes that a description may have.
pub const MAX_BYTES: usize = 8 << 20;
pub(super) const WHAT: &str = "description of the client";
const FORMAT: &str = "tacita-files-client";
const VERSION: u32 = 2;
const MOST_ROTATIONS: usize = 1 << 12;
const MOST_DECIMALS: usize = 3; // as for every client: docs/threat-model.md
const MOST_TENSORS: usize = 16;
const MOST_VECTORS: usize = 256;
const MOST_NUMBERS: usize = 1 << 16;
/// Bits below which keys are made for tests alone.
const MIN_SECURITY_BITS: u32 = 128;

/// Slots [first, first + count) that hold numbers source, source + stride, ...
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Run(
    pub(super) usize,
    pub(super) usize,
    pub(super) usize,
    pub(super) usize,
);

/// What a tensor's slots are taken from: the hidden states by rows, or 1/n at the n real tokens.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(super) enum Source {
    Hidden,
    Mask,
}

/// Ciphertexts of one name.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TensorOf {
    pub name: String,
    pub level: usize,
    pub source: Source,
    /// Of each ciphertext; slots that no run names are zero.
    pub vectors: Vec<Vec<Run>>,
}

/// Where an answer is: (ciphertext, slot) of its numbers, of their copies, of half the check.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Places {
    pub name: String,
    pub count: usize,
    /// Of each of its ciphertexts.
    pub level: usize,
    pub numbers: Vec<(usize, usize)>,
    pub copies: Vec<(usize, usize)>,
    pub check: (usize, usize),
    /// Numbers are stored divided by it.
    pub bound: f64,
    /// How far copies may be apart, and zeros off.
    pub agreement: f64,
}

/// A checked description.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    format: String,
    version: u32,
    /// Hash of the plan that it follows, in hexadecimal digits.
    pub plan: String,
    pub(super) preset: String,
    /// Rows of the input.
    pub tokens: usize,
    pub(super) hidden: usize,
    /// Hidden states are encrypted divided by it.
    pub(super) bound: f64,
    pub(super) rotations: Vec<(i64, usize)>,
    pub(super) request: Vec<TensorOf>,
    pub(super) response: Places,
    pub(super) front: FrontConfig,
    /// What the numbers mean.
    pub reading: Reading,
}

impl Description {
    /// From the server's bytes, with the parameters of its preset and the keys to make. `allow_insecure`
    /// admits presets below 128 bits of security: for tests.
    ///
    /// # Errors
    /// [`crate::ClientError::Damaged`].
    pub fn parse(data: &[u8], allow_insecure: bool) -> Result<(Self, CkksParameters, Vec<KeySpec>)> {
        if data.len() > MAX_BYTES {
            return damaged(WHAT, format!("{} bytes, at most {MAX_BYTES}", data.len()));
        }
        let found: Self = match serde_json::from_slice(data) {
            Ok(found) => found,
            Err(e) => return damaged(WHAT, format!("line {} column {}", e.line(), e.column())),
        };
        if let Some(problem) = found.problem() {
            return damaged(WHAT, problem);
        }
        if found.preset.starts_with("insecure_") && !allow_insecure {
            return damaged(WHAT, "parameters for tests, which keep nothing secret");
        }
        let Ok(params) = CkksParameters::preset(&found.preset) else {
            return damaged(WHAT, "parameters that this release does not have");
        };
        if params.rlwe().security_bits() < MIN_SECURITY_BITS && !allow_insecure {
            return damaged(
                WHAT,
                format!("parameters below {MIN_SECURITY_BITS} bits of security"),
            );
        }
        if let Some(problem) = found.misplaced(&params) {
            return damaged(WHAT, problem);
        }
        match bootstrap::of_plan(&params, &found.rotations) {
            Ok(specs) => Ok((found, params, specs)),
            Err(_) => damaged(WHAT, "a rotation above the top level"),
        }
    }

    /// Columns of the input.
    pub fn hidden(&self) -> usize {
        self.hidden
    }

    fn problem(&self) -> Option<&'static str> {
        let bounded = |bound: f64| bound.is_finite() && bound > 0.0;
        let (reading, response) = (&self.reading, &self.response);
        let right = [
            (
                self.format == FORMAT && self.version == VERSION,
                "another version",
            ),
            (
                [self.bound, response.bound, response.agreement, reading.bound]
                    .into_iter()
                    .all(bounded),
                "bound",
            ),
            (self.rotations.len() <= MOST_ROTATIONS, "rotations"),
            (
                reading.decimals <= MOST_DECIMALS && [1, 2, 5].contains(&reading.parts) && !reading.normalise,
                "decimals",
            ),
            (
                reading.task == "text" && !self.front.backwards,
                "a task that a page does not read",
            ),
            ((1..=MOST_TENSORS).contains(&self.request.len()), "tensors"),
            (self.request.windows(2).all(|w| w[0].name < w[1].name), "order"),
            (
                self.request.iter().all(|t| named(&t.name)) && named(&response.name),
                "names",
            ),
        ];
        first_wrong(&right, &self.plan, self.tokens, self.hidden)
    }

    /// What does not fit the slots of these parameters.
    fn misplaced(&self, params: &CkksParameters) -> Option<&'static str> {
        let (slots, response) = (params.slots(), &self.response);
        let tensors = self.request.iter().all(|tensor| {
            let numbers = match tensor.source {
                Source::Hidden => self.tokens * self.hidden,
                Source::Mask => self.tokens,
            };
            let level = params.native_level("request", tensor.level).is_ok();
            let count = (1..=MOST_VECTORS).contains(&tensor.vectors.len());
            level && count && tensor.vectors.iter().all(|runs| fits(runs, slots, numbers))
        });
        let inside = |&(ct, slot): &(usize, usize)| ct < response.count && slot < slots;
        let (numbers, copies) = (&response.numbers, &response.copies);
        let right = [
            (tensors, "slots of the request"),
            (
                (1..=MOST_VECTORS).contains(&response.count)
                    && params.native_level("response", response.level).is_ok(),
                "ciphertexts of the response",
            ),
            (
                (1..=MOST_NUMBERS).contains(&numbers.len()) && numbers.len() == copies.len(),
                "numbers",
            ),
            (
                numbers.iter().chain(copies).all(inside) && inside(&response.check),
                "slots of the response",
            ),
        ];
        right.iter().find(|(right, _)| !right).map(|(_, name)| *name)
    }
}

/// Runs in the order of their slots, none twice, of numbers that there are.
fn fits(runs: &[Run], slots: usize, numbers: usize) -> bool {
    let mut end = 0;
    runs.iter().all(|&Run(slot, count, source, stride)| {
        let last = count
            .checked_sub(1)
            .and_then(|steps| steps.checked_mul(stride)?.checked_add(source));
        let after = slot.checked_add(count).filter(|&after| after <= slots);
        let fits = slot >= end && last.is_some_and(|last| last < numbers);
        end = after.unwrap_or(usize::MAX);
        fits && after.is_some()
    })
}

/// As names of tensors are (`tacita.plans.envelope`).
fn named(name: &str) -> bool {
    (1..=32).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
}
