//! The product with a matrix in clear.
use crate::ciphertext::Ciphertext;
use crate::error::TacitaError;
use crate::evaluator::{Evaluator, Handle};
use crate::side::Residues;
use numpy::{PyReadonlyArray2, PyReadonlyArray3, PyUntypedArrayMethods};
use pyo3::prelude::*;
use tacita_ckks::matmul::Matrix;
use tacita_opencl::Poly;
use tacita_sides::matmul::{Part, Sums};
use tacita_sides::Operation;

/// The matrix as Python has it: its shape and its entries.
struct Entries {
    shape: [usize; 3],
    weights: Vec<f64>,
    bias: Option<Vec<f64>>,
}

impl Entries {
    /// weights: (outputs, inputs, period); bias: (outputs, period).
    fn new(weights: &PyReadonlyArray3<'_, f64>, bias: Option<&PyReadonlyArray2<'_, f64>>) -> PyResult<Self> {
        let [outputs, inputs, period] = *weights.shape() else {
            return Err(TacitaError::new_err("matmul: weights need three axes"));
        };
        if let Some(bias) = bias.filter(|bias| *bias.shape() != [outputs, period]) {
            return Err(TacitaError::new_err(format!(
                "matmul: weights of shape {:?} and bias {:?}; hint: (outputs, inputs, period) and (outputs, \
                period)",
                weights.shape(),
                bias.shape(),
            )));
        }
        Ok(Self {
            shape: [outputs, inputs, period],
            weights: standard(&weights.as_array()),
            bias: bias.map(|bias| standard(&bias.as_array())),
        })
    }

    fn matrix(&self) -> Matrix<'_> {
        Matrix {
            weights: &self.weights,
            bias: self.bias.as_deref(),
            outputs: self.shape[0],
            period: self.shape[2],
        }
    }
}

#[pymethods]
impl Evaluator {
    /// bias_o + sum over i of weights_oi * cts_i, one level down. weights: (outputs, inputs, period); bias:
    /// (outputs, period).
    #[pyo3(signature = (cts, weights, bias = None))]
    fn matmul(
        &self,
        py: Python<'_>,
        cts: Vec<Handle<'_>>,
        weights: PyReadonlyArray3<'_, f64>,
        bias: Option<PyReadonlyArray2<'_, f64>>,
    ) -> PyResult<Vec<Ciphertext>> {
        let entries = Entries::new(&weights, bias.as_ref())?;
        if entries.shape[1] != cts.len() {
            return Err(TacitaError::new_err(format!(
                "matmul: weights of shape {:?} for {} ciphertexts; hint: (outputs, inputs, period)",
                entries.shape,
                cts.len()
            )));
        }
        self.check_operands(&cts)?;
        let cts: Vec<&Ciphertext> = cts.iter().map(|c| &**c).collect();
        self.many(py, &cts, &Operation::Matmul(&entries.matrix()))
    }

    /// The same of operands of one level that come part by part: the columns of some, and them. Every column
    /// once, in any parts and order; the bits are those of one call. Takes the next part when the one before
    /// is added.
    #[pyo3(signature = (parts, weights, bias = None))]
    fn matmul_parts(
        &self,
        py: Python<'_>,
        parts: &Bound<'_, PyAny>,
        weights: PyReadonlyArray3<'_, f64>,
        bias: Option<PyReadonlyArray2<'_, f64>>,
    ) -> PyResult<Vec<Ciphertext>> {
        let entries = Entries::new(&weights, bias.as_ref())?;
        let (matrix, inputs) = (entries.matrix(), entries.shape[1]);
        let (mut sums, mut device_sums) = (None::<Sums>, None::<Sums<Poly>>);
        for part in parts.try_iter()? {
            let (columns, cts): (Vec<usize>, Vec<Handle<'_>>) = part?.extract()?;
            self.check_operands(&cts)?;
            let operands: Vec<&Residues> = cts.iter().map(|c| &c.inner).collect();
            let part = Part {
                matrix: &matrix,
                inputs,
                columns: &columns,
                operands: &operands,
            };
            let (before, on_device) = (sums.take(), device_sums.take());
            (sums, device_sums) = self.run(py, || match &self.sides.device {
                None => Ok((Some(self.sides.processor.add_matmul(before, &part)?), None)),
                Some(device) => Ok((None, Some(device.add_matmul(on_device, &part)?))),
            })?;
        }
        let outputs = self.run(py, || match &self.sides.device {
            None => self.sides.processor.finish_matmul(sums),
            Some(device) => device.finish_matmul(device_sums),
        })?;
        Ok(outputs.into_iter().map(|x| self.wrap(x)).collect())
    }
}

impl Evaluator {
    /// Fails unless this evaluator can multiply these by a matrix.
    fn check_operands(&self, cts: &[Handle<'_>]) -> PyResult<()> {
        cts.iter().try_for_each(|c| self.check(c))?;
        let lowest = cts.iter().map(|c| self.level_of(c)).min().unwrap_or(1);
        self.need("matmul", lowest, 1)
    }
}

/// The entries of any array in the order of its axes, the last fastest.
fn standard<D: numpy::ndarray::Dimension>(a: &numpy::ndarray::ArrayView<'_, f64, D>) -> Vec<f64> {
    a.iter().copied().collect()
}
