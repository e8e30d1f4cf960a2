//! Products with the server's weights that are prepared before the rows are known.
use crate::error::TacitaError;
use crate::two_party::TwoParty;
use crate::two_party_arrays::{canonical, flat, matrix, ring, shaped, Array, Shares};
use crate::two_party_linear::options;
use numpy::{PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tacita_mpc::linear::prepared::{Prepared, Shape};

/// One party's part of the rows prepared for one matrix of weights.
#[pyclass(frozen, module = "tacita._native")]
pub struct PreparedProduct {
    inner: Mutex<Prepared>,
}

impl PreparedProduct {
    /// Only without the interpreter's lock: whoever holds this one may be waiting for the peer. A step that
    /// panicked has closed the session; what it left here is not used again.
    fn lock(&self) -> MutexGuard<'_, Prepared> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl PreparedProduct {
    /// Rows that are left.
    #[getter]
    fn left(&self, py: Python<'_>) -> usize {
        py.detach(|| self.lock().left())
    }

    fn __repr__(&self) -> &'static str {
        "PreparedProduct"
    }
}

#[pymethods]
impl TwoParty {
    /// Prepares shape = (rows, inputs, outputs): products of that many rows with the server's integer weights
    /// (None at the client), errors below 2^slack units; columns have norms up to 2^log_norm. The cost of
    /// `share_times_weights` with all rows.
    #[pyo3(signature = (weights, shape, bits, *, slack=16, log_norm=24))]
    fn prepare_weights(
        &self,
        py: Python<'_>,
        weights: Option<PyReadonlyArrayDyn<'_, i64>>,
        shape: (usize, usize, usize),
        bits: u32,
        slack: u32,
        log_norm: u32,
    ) -> PyResult<PreparedProduct> {
        let op = "prepare_weights";
        let shape = prepared_shape(op, shape, bits)?;
        let options = options(slack, log_norm, false)?;
        let weights = weights.as_ref().map(|w| flat(op, w)).transpose()?;
        let prepared = self.run(py, |party| Prepared::new(party, weights, shape, options))?;
        Ok(PreparedProduct {
            inner: Mutex::new(prepared),
        })
    }

    /// Shares of x (rows, inputs) times the weights by the next rows of `prepared`, which are used up; the
    /// server gives the same weights again.
    fn times_prepared<'py>(
        &self,
        py: Python<'py>,
        x: Shares<'py>,
        prepared: &PreparedProduct,
        weights: Option<PyReadonlyArrayDyn<'py, i64>>,
    ) -> PyResult<Array<'py, u64>> {
        let op = "times_prepared";
        let (rows, _) = matrix(op, x.shape())?;
        let (values, weights) = (flat(op, &x)?, weights.as_ref().map(|w| flat(op, w)).transpose()?);
        let shape = py.detach(|| prepared.lock().shape());
        canonical(op, values, shape.ring)?;
        let product = self.run(py, |party| prepared.lock().times(party, values, weights))?;
        shaped(py, product, &[rows, shape.outputs])
    }
}

/// Sizes that can be counted, none of them 0.
fn prepared_shape(op: &str, sizes: (usize, usize, usize), bits: u32) -> PyResult<Shape> {
    let (rows, inputs, outputs) = sizes;
    let most = 1usize << 40;
    let fits = |a: usize, b: usize| a.checked_mul(b).is_some_and(|p| (1..=most).contains(&p));
    if !(fits(rows, inputs) && fits(inputs, outputs) && fits(rows, outputs)) {
        return Err(TacitaError::new_err(format!(
            "{op}: shape {sizes:?}, sizes from 1 and products up to 2^40 are possible"
        )));
    }
    Ok(Shape {
        rows,
        inputs,
        outputs,
        ring: ring(op, bits)?,
    })
}
