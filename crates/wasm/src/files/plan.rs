//! What a client reads of the plan (`tacita.plans.plan`): the file that the server published and that Python
//! reads too. Of what a page has no form for, it is refused.
use super::choice::{MOST_DECIMALS as CHOICE_DECIMALS, MOST_SHARE};
use super::layout::{Layout, Request, Response};
use crate::error::{damaged, Result};
use crate::program::{first_wrong, labelled, FrontConfig, Reading, MASKS, SPAN, WRITES};
use serde::de::IgnoredAny;
use serde::Deserialize;
use std::collections::BTreeMap;
use tacita_ckks::keys::KeySpec;
use tacita_ckks::{bootstrap, CkksParameters};

/// Bytes that a plan may have.
pub const MAX_BYTES: usize = 8 << 20;
const WHAT: &str = "plan";
const FORMAT: &str = "tacita-plan";
const VERSION: u32 = 7;
const MOST_ROTATIONS: usize = 1 << 12;
const MOST_DECIMALS: usize = 3; // as for every client: docs/threat-model.md
const MOST_TENSORS: usize = 16;
const MOST_VECTORS: usize = 256;
const MOST_GAP: f64 = (1u64 << 60) as f64; // of logits
const QUIET: f64 = 64.0; // times the noise: the least step of rounding
const AGREEMENT: (f64, f64) = (1024.0, 0.002); // times the noise, and of a logit
/// Bits below which keys are made for tests alone.
const MIN_SECURITY_BITS: u32 = 128;
/// What a page reads the answer of; of all but the first two there is a row a token.
const TASKS: [&str; 5] = [TEXT, WRITES, "tokens", SPAN, MASKS];
const MOST_ENDS: usize = 16;
const TEXT: &str = "text";
/// Counted by stages whose products want keys of their own, which a page does not make.
const PRODUCTS: &str = "coefficient_product";

#[derive(Deserialize)]
struct Head {
    format: String,
    version: u32,
}

#[derive(Deserialize)]
struct File {
    hash: String,
    model: Model,
    tokens: usize,
    batch: usize,
    parameters: Parameters,
    layout: Layout,
    answer: f64,
    stages: Vec<Stage>,
    rotations: Vec<(i64, usize)>,
    request: Vec<TensorInfo>,
    response: Vec<TensorInfo>,
    noise: f64,
    decimals: usize,
    #[serde(default)]
    gap: f64,
    #[serde(default)]
    kept: Vec<IgnoredAny>,
    #[serde(default)]
    options: BTreeMap<String, IgnoredAny>,
}

#[derive(Deserialize)]
struct Model {
    name: String,
    hidden: usize,
    normalise: bool,
    labels: Vec<String>,
    embeddings: Option<serde_json::Value>,
    #[serde(default = "text")]
    task: String,
    #[serde(default = "single_label")]
    problem: String,
    ends: Option<Vec<u32>>,
}

fn text() -> String {
    TEXT.to_owned()
}

fn single_label() -> String {
    "single_label".to_owned()
}

impl Model {
    fn is_vector(&self) -> bool {
        self.task == TEXT && self.labels.is_empty()
    }
}

#[derive(Deserialize)]
struct Parameters {
    preset: String,
}

#[derive(Deserialize)]
struct Stage {
    counts: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
struct TensorInfo {
    name: String,
    count: usize,
    level: usize,
}

/// What a client needs of a checked plan.
#[derive(Clone, Debug)]
pub struct Plan {
    /// In hexadecimal digits.
    pub hash: String,
    /// Rows of the input.
    pub tokens: usize,
    /// Columns of the input.
    pub hidden: usize,
    pub(super) request: Request,
    /// Of the tensors of the request, by name.
    pub(super) levels: BTreeMap<String, usize>,
    pub(super) response: Response,
    /// Name and level of the answer's ciphertexts.
    pub(super) answer: (String, usize),
    /// How far copies may be apart, and zeros off.
    pub(super) agreement: f64,
    pub(super) front: FrontConfig,
    /// Tokens that end a text, of a model that writes.
    pub(super) ends: Vec<u32>,
    /// Whether its numbers are the words' shares of a choice, of which no logit is told.
    pub(super) chooses: bool,
    /// Whether the server keeps the rows of a text, so that a request is one of them.
    pub(super) kept: bool,
    /// What the numbers mean.
    pub reading: Reading,
}

impl Plan {
    /// Whether the model writes texts, a token a request.
    pub fn writes(&self) -> bool {
        self.reading.task == WRITES
    }

    /// From the server's bytes, with the parameters of its preset and the keys to make. `allow_insecure`
    /// admits presets below 128 bits of security: for tests.
    ///
    /// # Errors
    /// [`crate::ClientError::Damaged`].
    pub fn parse(data: &[u8], allow_insecure: bool) -> Result<(Self, CkksParameters, Vec<KeySpec>)> {
        if data.len() > MAX_BYTES {
            return damaged(WHAT, format!("{} bytes, at most {MAX_BYTES}", data.len()));
        }
        let head: Head = read(data)?;
        if (head.format.as_str(), head.version) != (FORMAT, VERSION) {
            return damaged(WHAT, "another version: reload the page");
        }
        let file: File = read(data)?;
        let params = parameters(&file.parameters.preset, allow_insecure)?;
        if let Some(problem) = file.unread().or_else(|| file.problem(&params)) {
            return damaged(WHAT, problem);
        }
        let Some(front) = file.front() else {
            return damaged(WHAT, "an input that a page does not read");
        };
        match bootstrap::of_plan(&params, &file.rotations) {
            Ok(specs) => Ok((file.checked(front), params, specs)),
            Err(_) => damaged(WHAT, "a rotation above the top level"),
        }
    }
}

fn read<'a, T: Deserialize<'a>>(data: &'a [u8]) -> Result<T> {
    serde_json::from_slice(data)
        .or_else(|e| damaged(WHAT, format!("line {} column {}", e.line(), e.column())))
}

fn parameters(preset: &str, allow_insecure: bool) -> Result<CkksParameters> {
    if preset.starts_with("insecure_") && !allow_insecure {
        return damaged(WHAT, "parameters for tests, which keep nothing secret");
    }
    let Ok(params) = CkksParameters::preset(preset) else {
        return damaged(WHAT, "parameters that this release does not have");
    };
    if params.rlwe().security_bits() < MIN_SECURITY_BITS && !allow_insecure {
        let what = format!("parameters below {MIN_SECURITY_BITS} bits of security");
        return damaged(WHAT, what);
    }
    Ok(params)
}

impl File {
    fn checked(self, front: FrontConfig) -> Plan {
        let (model, parts) = (self.model, self.layout);
        let levels = self.request.into_iter().map(|tensor| (tensor.name, tensor.level));
        let answer = self.response.into_iter().next().map(|t| (t.name, t.level));
        let chooses = self.gap != 0.0;
        let parts_shown = match chooses {
            true => 1,
            false => parts_of(self.noise, self.decimals, model.is_vector()).unwrap_or(1),
        };
        let least = match chooses {
            true => 0.1 * 10f64.powi(-(self.decimals as i32)), // noise counts for more between words alike
            false => AGREEMENT.1,
        };
        Plan {
            hash: self.hash,
            tokens: self.tokens,
            hidden: model.hidden,
            request: parts.request,
            levels: levels.collect(),
            response: parts.response,
            answer: answer.unwrap_or_default(),
            agreement: (AGREEMENT.0 * self.noise).max(least),
            front,
            reading: Reading {
                parts: parts_shown,
                name: model.name,
                task: model.task,
                problem: model.problem,
                labels: model.labels,
                decimals: self.decimals,
                bound: self.answer,
                normalise: model.normalise,
            },
            ends: model.ends.unwrap_or_default(),
            chooses,
            kept: !self.kept.is_empty(),
        }
    }

    fn front(&self) -> Option<FrontConfig> {
        let front: FrontConfig = serde_json::from_value(self.model.embeddings.clone()?).ok()?;
        Some(front).filter(|front| front.backwards == (self.model.task == WRITES))
    }

    /// What a page has no form for.
    fn unread(&self) -> Option<&'static str> {
        let products = self
            .stages
            .iter()
            .any(|stage| stage.counts.get(PRODUCTS).is_some_and(|&n| n > 0));
        let writes = self.model.task == WRITES;
        let read = writes || (self.gap == 0.0 && self.kept.is_empty());
        let plain = read && self.options.is_empty();
        let right = [
            (
                TASKS.contains(&self.model.task.as_str()) && plain,
                "an answer that a page does not read",
            ),
            (
                self.model.task != WRITES || self.model.ends.is_some(),
                "a server of an earlier release, which does not say what ends a text",
            ),
            (!self.model.normalise, "vectors, which a page does not read"),
            (
                !products,
                "keys of coefficient products, which a page does not make",
            ),
        ];
        right.iter().find(|(right, _)| !right).map(|(_, name)| *name)
    }

    /// Whether the numbers of a plan with a gap are those of a choice (`tacita.plans.options`).
    fn tells_a_choice(&self) -> bool {
        let bounds = (self.answer, self.layout.response.bound) == (MOST_SHARE, 1.0);
        (0.0..=MOST_GAP).contains(&self.gap) && bounds && self.decimals <= CHOICE_DECIMALS
    }

    /// Noise of the last rescaling alone, halved (`tacita.plans.answers.least_noise`): a plan that states
    /// less would have noise shown, which depends on the key. A little less, since scales are not all alike.
    fn least_noise(&self, params: &CkksParameters) -> f64 {
        let level = self.response.first().map_or(0, |tensor| tensor.level);
        let native = params.native_level("plan", level).unwrap_or(0); // other levels are refused below
        let slots = params.slots() as f64;
        let rescale = (slots * (1.0 + 4.0 * slots / 3.0) / 12.0).sqrt() / params.scale(native);
        0.49 * rescale * self.answer
    }

    fn problem(&self, params: &CkksParameters) -> Option<&'static str> {
        let bounded = |bound: f64| bound.is_finite() && bound > 0.0;
        let Layout {
            request, response, ..
        } = &self.layout;
        let outputs = match self.model.labels.len() {
            0 if [MASKS, WRITES].contains(&&*self.model.task) => self.front().map_or(0, |front| front.vocab),
            0 => self.model.hidden,
            labels => labels,
        };
        let one = [TEXT, WRITES].contains(&&*self.model.task);
        let rows = if one { 1 } else { self.tokens };
        let ends = self.model.ends.as_deref().unwrap_or_default();
        let sizes = (params.slots(), self.batch, self.tokens, self.model.hidden);
        let counts = self.request.iter().map(|tensor| (&tensor.name, tensor.count));
        let stated = request.tensors.iter().map(|(name, tensor)| (name, tensor.count));
        let level = |tensor: &TensorInfo| {
            params.native_level("plan", tensor.level).is_ok() && (1..=MOST_VECTORS).contains(&tensor.count)
        };
        let new = if self.kept.is_empty() { self.tokens } else { 1 };
        let before = self
            .batch
            .checked_sub(1)
            .and_then(|texts| texts.checked_mul(self.tokens));
        let all = before
            .and_then(|rows| rows.checked_add(new))
            .and_then(|rows| rows.checked_mul(sizes.3));
        let right = [
            (
                [request.bound, response.bound, self.answer, self.noise]
                    .into_iter()
                    .all(bounded),
                "bound",
            ),
            (self.noise >= self.least_noise(params), "noise"),
            (labelled(&self.model.task, &self.model.labels), "labels"),
            (self.rotations.len() <= MOST_ROTATIONS, "rotations"),
            (
                ends.len() <= MOST_ENDS && ends.iter().all(|&token| (token as usize) < outputs),
                "tokens that end a text",
            ),
            (
                parts_of(self.noise, self.decimals, self.model.is_vector()).is_some(),
                "decimals",
            ),
            (self.gap == 0.0 || self.tells_a_choice(), "a choice"),
            ((1..=MOST_TENSORS).contains(&self.request.len()), "tensors"),
            (
                self.request
                    .iter()
                    .chain(&self.response)
                    .all(|t| named(&t.name) && level(t)),
                "names and levels",
            ),
            (
                counts.eq(stated) && self.response.len() == 1 && self.response[0].count == response.count,
                "ciphertexts",
            ),
            (
                (request.slots, request.texts, request.tokens, request.size) == sizes,
                "sizes of the request",
            ),
            (
                (response.slots, response.texts, response.rows, response.size)
                    == (sizes.0, sizes.1, rows, outputs),
                "sizes of the response",
            ),
            (request.fits(), "slots of the request"),
            (
                request.last() == all.and_then(|all| all.checked_sub(1)),
                "rows of the request",
            ),
            (response.fits(), "slots of the response"),
        ];
        first_wrong(&right, &self.hash, self.tokens, self.model.hidden)
    }
}

/// Of the last decimal's unit, 1, 2 or 5: of such parts what is told is a multiple (`tacita.plans.error`);
/// Python rounds the numbers of a vector to finer ones. None for decimals that are not above the noise.
fn parts_of(noise: f64, decimals: usize, vector: bool) -> Option<u8> {
    let last = |decimals: usize| 10f64.powi(-(decimals.min(MOST_DECIMALS + 1) as i32));
    let (unit, quiet) = (last(decimals), QUIET * noise);
    let step = match decimals {
        _ if decimals > MOST_DECIMALS || unit < quiet => return None,
        _ if vector => quiet.max(last(MOST_DECIMALS)),
        MOST_DECIMALS => unit,
        _ => quiet.max(2.0 * last(decimals + 1)),
    };
    [5u8, 2, 1]
        .into_iter()
        .find(|&parts| unit / f64::from(parts) >= step * (1.0 - 1e-12))
}

/// As names of tensors are (`tacita.plans.envelope`).
fn named(name: &str) -> bool {
    (1..=32).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
}
