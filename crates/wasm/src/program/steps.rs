//! One step of a program: the operations of `tacita.two_party.program.steps.OPERATIONS`.
use serde::Deserialize;
use tacita_mpc::nonlinear::Norm;

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

/// Heads and rows of queries of a tile at most, and how far a query sees back and on; `None`: everything.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Cut {
    pub heads: usize,
    pub rows: usize,
    pub back: Option<usize>,
    pub on: Option<usize>,
}

/// Scores without the gap where a query does not see a key.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Hide {
    pub gap: i64,
    pub fraction: u32,
    pub ring: u32,
    pub back: Option<usize>,
    pub on: Option<usize>,
}

/// A product with weights.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Map {
    pub outputs: usize,
    pub ring: u32,
    pub opened: bool,
}

/// A product of shared matrices.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Product {
    pub ring: u32,
    pub opened: bool,
    pub transposed: bool,
    pub store: Option<usize>,
}

/// Formats of a softmax: as of a function; of the powers, and of the inverses of their sums.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Softmax {
    pub ring: u32,
    pub fraction: u32,
    pub range: u32,
    pub power: u32,
    pub to: u32,
    pub inverse: u32,
}

/// Formats of a norm, and the bounds of [`Norm`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Bounds {
    pub ring: u32,
    pub fraction: u32,
    pub to: u32,
    pub finer: u32,
    pub centred: bool,
    pub bound: f64,
    pub least: f64,
    pub gamma: f64,
    pub epsilon: f64,
}

impl Bounds {
    /// Of a matrix.
    pub(crate) fn norm(&self, rows: usize, cols: usize) -> Norm {
        Norm {
            rows,
            cols,
            centred: self.centred,
            bound: self.bound,
            least: self.least,
            gamma: self.gamma,
            epsilon: self.epsilon,
        }
    }
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
    Tiles(Cut),
    Join {},
    Append {
        store: usize,
        ring: u32,
    },
    Hide(Hide),
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
    Linear(Map),
    Product(Product),
    Times {
        held: u32,
        short: u32,
        ring: u32,
        slack: u32,
    },
    Softmax(Softmax),
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
    Norm(Bounds),
}
