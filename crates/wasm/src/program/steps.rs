//! One step of a program: the operations of `tacita.two_party.program.steps.OPERATIONS`.
use serde::Deserialize;

/// An operation, the registers that it reads and those that it writes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// What is done.
    #[serde(rename = "do")]
    pub what: Do,
    /// Registers read.
    #[serde(rename = "in")]
    pub inputs: Vec<usize>,
    /// Registers written, the next ones.
    #[serde(rename = "out")]
    pub outputs: Vec<usize>,
}

/// Formats of an activation: ring and fraction bits of its input, |x| < 2^range, ring of the result.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Bump {
    pub ring: u32,
    pub fraction: u32,
    pub to: u32,
    pub range: u32,
    pub form: String,
}

/// Formats of a function: those of its input, |x| < 2^range, ring and fraction bits of the result.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Formats {
    pub ring: u32,
    pub fraction: u32,
    pub to: u32,
    pub finer: u32,
    pub range: u32,
}

/// The operations. `ring` are bits of what is there, `to` of what becomes of it, where both differ.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[allow(missing_docs)] // each is explained where programs are written
pub enum Do {
    Enter {
        name: String,
    },
    ShiftDown {
        bits: u32,
        ring: u32,
    },
    ShiftUp {
        bits: u32,
        ring: u32,
    },
    Reduce {
        ring: u32,
    },
    Add {
        ring: u32,
    },
    Scale {
        factor: i64,
        ring: u32,
    },
    Columns {
        widths: Vec<usize>,
    },
    Rows {
        count: isize,
    },
    Heads {
        count: usize,
    },
    Merge {},
    Group {
        heads: usize,
    },
    Turn {
        bits: u32,
        ring: u32,
        base: f64,
        #[serde(default)]
        scales: Vec<f64>,
    },
    Tiles {
        heads: usize,
        rows: usize,
        back: Option<usize>,
        on: Option<usize>,
    },
    Join {},
    Append {
        store: usize,
        ring: u32,
    },
    Hide {
        gap: i64,
        fraction: u32,
        ring: u32,
        back: Option<usize>,
        on: Option<usize>,
    },
    Average {
        fraction: u32,
        ring: u32,
    },
    Bias {
        ring: u32,
    },
    Extend {
        ring: u32,
        to: u32,
    },
    Linear {
        outputs: usize,
        ring: u32,
        opened: bool,
    },
    Product {
        ring: u32,
        opened: bool,
        transposed: bool,
        store: Option<usize>,
    },
    Times {
        held: u32,
        short: u32,
        ring: u32,
        slack: u32,
    },
    Softmax {
        ring: u32,
        fraction: u32,
        range: u32,
        power: u32,
        to: u32,
        inverse: u32,
    },
    Relu {
        ring: u32,
    },
    Square {
        ring: u32,
        to: u32,
        slack: u32,
    },
    Tanh(Formats),
    Elu(Formats),
    Gelu(Bump),
    Silu(Bump),
    Norm {
        ring: u32,
        fraction: u32,
        to: u32,
        finer: u32,
        centred: bool,
        bound: f64,
        least: f64,
        gamma: f64,
        epsilon: f64,
    },
}
