//! The product with a matrix in clear.
use crate::ciphertext::Ciphertext;
use crate::error::TacitaError;
use crate::evaluator::Evaluator;
use numpy::{PyReadonlyArray2, PyReadonlyArray3, PyUntypedArrayMethods};
use pyo3::prelude::*;
use tacita_ckks::matmul::Matrix;
use tacita_sides::Operation;

#[pymethods]
impl Evaluator {
    /// bias_o + sum over i of weights_oi * cts_i, one level down. weights: (outputs, inputs, period); bias:
    /// (outputs, period).
    #[pyo3(signature = (cts, weights, bias = None))]
    fn matmul(
        &self,
        py: Python<'_>,
        cts: Vec<PyRef<'_, Ciphertext>>,
        weights: PyReadonlyArray3<'_, f64>,
        bias: Option<PyReadonlyArray2<'_, f64>>,
    ) -> PyResult<Vec<Ciphertext>> {
        cts.iter().try_for_each(|c| self.check(c))?;
        let [outputs, inputs, period] = *weights.shape() else {
            return Err(TacitaError::new_err("matmul: weights need three axes"));
        };
        let bias_shape = bias
            .as_ref()
            .map_or(vec![outputs, period], |b| b.shape().to_vec());
        if inputs != cts.len() || bias_shape != [outputs, period] {
            return Err(TacitaError::new_err(format!(
                "matmul: weights of shape {:?} and bias {bias_shape:?} for {} ciphertexts; hint: (outputs, \
                inputs, period) and (outputs, period)",
                weights.shape(),
                cts.len()
            )));
        }
        let lowest = cts.iter().map(|c| self.level_of(c)).min().unwrap_or(1);
        self.need("matmul", lowest, 1)?;
        let (values, bias) = (
            standard(&weights.as_array()),
            bias.map(|b| standard(&b.as_array())),
        );
        let matrix = Matrix {
            weights: &values,
            bias: bias.as_deref(),
            outputs,
            period,
        };
        let cts: Vec<&Ciphertext> = cts.iter().map(|c| &**c).collect();
        self.many(py, &cts, &Operation::Matmul(&matrix))
    }
}

/// The entries of any array in the order of its axes, the last fastest.
fn standard<D: numpy::ndarray::Dimension>(a: &numpy::ndarray::ArrayView<'_, f64, D>) -> Vec<f64> {
    a.iter().copied().collect()
}
