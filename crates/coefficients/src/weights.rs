//! A plain matrix as the integers that the product takes.
use crate::{Arrangement, CoefficientError, Result};

/// y = W x + bias, of a number of features to another, arranged for the product.
pub struct Weights {
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    /// Whether inputs are split: see [`Arrangement::splits`].
    pub(crate) split: bool,
    /// Row-major, rounded up to blocks: (features, results), both in the order of the product.
    pub(crate) integers: Vec<i64>,
    /// By result, rounded up to blocks, at the scale of results; empty for none.
    pub(crate) bias: Vec<i64>,
}

/// Integers above this lose bits as doubles or overflow when they are summed up.
const MAX: f64 = (1u64 << 62) as f64;

/// Where features stand in the product, and the scales that integers have.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub arrangement: &'a Arrangement,
    pub weight_scale: f64,
    pub result_scale: f64,
}

impl Weights {
    /// See [`crate::Coefficients::weights`].
    pub(crate) fn new(
        to: Target<'_>,
        (outputs, inputs): (usize, usize),
        matrix: &[f64],
        bias: &[f64],
    ) -> Result<Self> {
        let unfit = outputs * inputs == 0 || matrix.len() != outputs * inputs;
        if unfit || !(bias.is_empty() || bias.len() == outputs) {
            let detail = format!(
                "{} weights and {} biases for {outputs} x {inputs}",
                matrix.len(),
                bias.len()
            );
            return Err(shape(detail));
        }
        let biases = padded(
            bias.iter().map(|b| b * to.result_scale),
            to.arrangement.blocks(outputs) * to.arrangement.block(),
        )?;
        Ok(Self {
            inputs,
            outputs,
            split: to.arrangement.splits(inputs, outputs),
            integers: arranged(to, (outputs, inputs), matrix)?,
            bias: if bias.is_empty() { Vec::new() } else { biases },
        })
    }

    /// Features in.
    pub fn inputs(&self) -> usize {
        self.inputs
    }
    /// Features out.
    pub fn outputs(&self) -> usize {
        self.outputs
    }
}

/// Row `at` of the product's matrix is the feature that its encoding meets there.
fn arranged(to: Target<'_>, (outputs, inputs): (usize, usize), matrix: &[f64]) -> Result<Vec<i64>> {
    let (a, scale, split) = (
        to.arrangement,
        to.weight_scale,
        to.arrangement.splits(inputs, outputs),
    );
    let (block, width) = (a.block(), a.blocks(outputs) * a.block());
    let mut out = Vec::with_capacity(a.blocks(inputs) * block * width);
    for at in 0..a.blocks(inputs) * block {
        let feature = at / block * block + a.feature_at(at % block, split);
        let column = matrix
            .chunks_exact(inputs)
            .map(|row| row.get(feature).map_or(0.0, |w| w * scale));
        for results in padded(column, width)?.chunks_exact(block) {
            out.extend((0..block).map(|column| results[a.result_at(column, split)]));
        }
    }
    Ok(out)
}

/// Rounded, with zeros up to `len`.
fn padded(values: impl Iterator<Item = f64>, len: usize) -> Result<Vec<i64>> {
    let mut out = Vec::with_capacity(len);
    for value in values {
        if value.is_nan() || value.abs() >= MAX {
            return Err(shape("a weight or bias is not finite or too large".into()));
        }
        out.push(value.round() as i64);
    }
    out.resize(len, 0);
    Ok(out)
}

fn shape(detail: String) -> CoefficientError {
    CoefficientError::Shape {
        op: "weights of a coefficient product",
        detail,
    }
}
