//! The program: the client's walk of a plan, as `tacita.two_party.program` writes it.
mod rules;
mod sizes;
mod steps;
mod tiles;

pub use rules::Value;
pub(crate) use rules::{gelu_form, silu_form};
pub(crate) use sizes::last_reads;
pub use sizes::sizes;
pub use steps::{Bounds, Bump, Cut, Do, Hide, Map, Product, Softmax, Step};
pub(crate) use tiles::{joins, Tile};

use crate::error::{damaged, Result};
use serde::Deserialize;

/// Bytes that a program may have.
pub const MAX_BYTES: usize = 8 << 20;
const FORMAT: &str = "tacita-two-party-program";
const VERSION: u32 = 2;
const WHAT: &str = "program";
/// Tasks: what comes next, words for masks (a number for each of the vocabulary), an answer in a context.
pub(crate) const WRITES: &str = "next";
pub(crate) const MASKS: &str = "words";
pub(crate) const SPAN: &str = "span";
const MOST_TOKENS: usize = 1 << 13;
const MOST_WIDTH: usize = 1 << 16;

/// Bits of a ring and the fraction bits in it.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Format {
    /// 1 to 64.
    pub ring: u32,
    /// Below the ring's.
    pub fraction: u32,
}

/// How a text becomes the input (`texts.embedding.FrontConfig`).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // the names are Python's, and explained there
pub struct FrontConfig {
    pub vocab: usize,
    pub positions: usize,
    pub types: usize,
    pub norm_eps: f64,
    pub embedding_norm: bool,
    pub first_token: bool,
    #[serde(default)]
    pub last_token: bool,
    #[serde(default)]
    pub backwards: bool,
    #[serde(default)]
    pub first_position: usize,
    #[serde(default = "yes")]
    pub position_table: bool,
    #[serde(default)]
    pub embedding_size: usize,
    #[serde(default = "yes")]
    pub embedding_beta: bool,
}

fn yes() -> bool {
    true
}

/// How an answer is told: the plan's fields of these names.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // as above
pub struct Reading {
    pub name: String,
    pub task: String,
    pub problem: String,
    pub labels: Vec<String>,
    pub decimals: usize,
    /// Of the last decimal's unit, 1, 2 or 5: of such parts what is told is a multiple.
    #[serde(default = "whole")]
    pub parts: u8,
    pub bound: f64,
    pub normalise: bool,
}

impl Reading {
    /// Whether an answer is the vector of a text.
    pub(crate) fn is_vector(&self) -> bool {
        self.task == "text" && self.labels.is_empty()
    }

    /// What numbers are rounded to multiples of, of a model that does not normalise.
    pub(crate) fn step(&self) -> f64 {
        10f64.powi(-(self.decimals as i32)) / f64::from(self.parts)
    }
}

#[cfg(test)]
impl Reading {
    /// A vector of so many decimals within a bound, for tests.
    pub(crate) fn of_numbers(decimals: usize, bound: f64) -> Self {
        Self {
            name: "a".into(),
            task: "text".into(),
            problem: "single_label".into(),
            labels: vec![],
            decimals,
            parts: 1,
            bound,
            normalise: false,
        }
    }
}

fn whole() -> u8 {
    1
}

/// A checked program.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    format: String,
    version: u32,
    /// Hash of the plan that it follows, in hexadecimal digits.
    pub plan: String,
    /// Rows of the input; of a text that is written at most.
    pub tokens: usize,
    /// Columns of the input.
    pub hidden: usize,
    /// Of the input.
    pub entered: Format,
    /// In their order.
    pub steps: Vec<Step>,
    /// The register of the answer.
    pub result: usize,
    /// Of the answer.
    pub answered: Format,
    /// Kind of the correlated transfers: "ferret" or "softspoken".
    pub correlations: String,
    /// Of the model.
    pub layers: usize,
    /// Whether rows are looked up in an encrypted table, which a page cannot.
    pub hides: bool,
    /// Tokens that stand before every text that is written.
    pub begin: Vec<u32>,
    /// Tokens that end a text.
    pub ends: Vec<u32>,
    /// How a text becomes the input.
    pub front: FrontConfig,
    /// How an image does, which a page leaves to others.
    pub image: Option<serde_json::Value>,
    /// What the numbers mean.
    pub reading: Reading,
}

impl Program {
    /// From the server's bytes. Every step fits what it reads, in the longest run and in the shortest.
    ///
    /// # Errors
    /// [`crate::ClientError::Damaged`].
    pub fn parse(data: &[u8]) -> Result<Self> {
        if data.len() > MAX_BYTES {
            return damaged(WHAT, format!("{} bytes, at most {MAX_BYTES}", data.len()));
        }
        let program: Self = match serde_json::from_slice(data) {
            Ok(program) => program,
            Err(e) => return damaged(WHAT, format!("line {} column {}", e.line(), e.column())),
        };
        if let Some(problem) = program.problem() {
            return damaged(WHAT, problem);
        }
        let begun = program.begin.len();
        sizes(&program, program.tokens, begun)?;
        if program.writes() {
            sizes(&program, 1, program.room() - 1)?;
        }
        Ok(program)
    }

    /// Whether the model writes texts.
    pub fn writes(&self) -> bool {
        self.reading.task == WRITES
    }

    /// Tokens that a text may have, those of a public beginning included.
    pub fn room(&self) -> usize {
        self.tokens.saturating_add(self.begin.len())
    }

    /// Whether an answer of this shape has a number for each label, or each word.
    fn tells(&self, answer: &[usize]) -> bool {
        let (vocab, labels) = (self.front.vocab, self.reading.labels.len());
        match (&*self.reading.task, answer) {
            (WRITES, shape) => shape == [1, vocab],
            (MASKS, &[_, outputs]) => outputs == vocab,
            (_, &[_, outputs]) => [0, outputs].contains(&labels),
            _ => false,
        }
    }

    fn problem(&self) -> Option<&'static str> {
        let right = [
            (
                self.format == FORMAT && self.version == VERSION,
                "another version",
            ),
            ([self.entered, self.answered].iter().all(|f| fits(*f)), "formats"),
            (self.begin.is_empty() || self.writes(), "beginning"),
            (
                self.begin.len() <= MOST_TOKENS && self.ends.len() <= MOST_TOKENS,
                "beginning",
            ),
            (self.image.is_none(), "a model of images"),
            (!self.hides, "a hidden embedding"),
            (
                !self.writes() || !self.front.position_table || self.room() <= self.front.positions,
                "positions",
            ),
            (labelled(&self.reading.task, &self.reading.labels), "labels"),
            (self.reading.decimals <= 9 && self.reading.parts == 1, "decimals"),
            (
                self.reading.bound.is_finite() && self.reading.bound > 0.0,
                "bound",
            ),
        ];
        first_wrong(&right, &self.plan, self.tokens, self.hidden)
    }
}

/// Whether labels are those of a task (`tacita.texts.task.labelled`).
pub(crate) fn labelled(task: &str, labels: &[String]) -> bool {
    match task {
        "tokens" => !labels.is_empty(),
        SPAN => labels.len() == 2,
        MASKS | WRITES => labels.is_empty(),
        _ => true,
    }
}

/// The first that is not kept of `own` and of what every description of a plan for clients must keep.
pub(crate) fn first_wrong(
    own: &[(bool, &'static str)],
    plan: &str,
    tokens: usize,
    hidden: usize,
) -> Option<&'static str> {
    let hash = plan.len() == 64 && plan.bytes().all(|b| b.is_ascii_hexdigit());
    let every = [
        (hash, "its plan"),
        ((1..=MOST_TOKENS).contains(&tokens), "tokens"),
        ((1..=MOST_WIDTH).contains(&hidden), "width"),
    ];
    let wrong = own.iter().chain(&every).find(|(right, _)| !right);
    wrong.map(|(_, name)| *name)
}

fn fits(format: Format) -> bool {
    (1..=64).contains(&format.ring) && format.fraction < format.ring
}
