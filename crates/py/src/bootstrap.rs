//! Bootstrapping behind the Backend contract: as it is, and through a function.
use crate::ciphertext::Ciphertext;
use crate::error::{self, TacitaError};
use crate::evaluator::{Evaluator, Handle};
use num_complex::Complex64;
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use rayon::prelude::*;
use tacita_ckks::bootstrap::refresh::Harmonics;
use tacita_ckks::bootstrap::Content;
use tacita_sides::Operation;

/// Bytes that one thread touches at a time.
const PART: usize = 1 << 24;

/// What the inputs of a bootstrap hold, one by one.
fn contents_of(op: &str, cts: &[Handle<'_>], kinds: &[String]) -> PyResult<Vec<Content>> {
    let content = |kind: &String| match kind.as_str() {
        "real" => Some(Content::Real),
        "complex" => Some(Content::Complex),
        "pair" => Some(Content::Pair),
        _ => None,
    };
    let contents: Option<Vec<_>> = kinds.iter().map(content).collect();
    contents
        .filter(|all| all.len() == cts.len())
        .ok_or_else(|| TacitaError::new_err(format!("{op}: {} ciphertexts, kinds {kinds:?}", cts.len())))
}

#[pymethods]
impl Evaluator {
    /// Makes now what the first request would make otherwise: the matrices of bootstrapping, if they are
    /// wanted, and room for this many bytes of ciphertexts, which a device has from the start.
    fn prepare(&self, py: Python<'_>, bootstraps: bool, bytes: usize) -> PyResult<()> {
        self.run(py, || {
            match &self.sides.device {
                None => {
                    let side = &self.sides.processor;
                    bootstraps.then(|| side.prepare()).transpose()?;
                    side.evaluator.reserve(bytes);
                }
                Some(device) => {
                    bootstraps.then(|| device.prepare()).transpose()?;
                }
            }
            Ok(())
        })
    }

    /// Sets so many bytes of memory aside for the keys and ciphertexts to come, in place of what is left of
    /// those that were: addresses alone, until `provide` is called.
    #[staticmethod]
    fn set_aside(bytes: usize) {
        tacita_ring::set_aside(bytes);
    }

    /// Touches the next so many bytes of what is set aside, on all threads; returns how many were left of it.
    fn provide(&self, py: Python<'_>, bytes: usize) -> PyResult<usize> {
        let parts = bytes.div_ceil(PART);
        self.run(py, || {
            let each = (0..parts).into_par_iter();
            Ok(each.map(|_| tacita_ring::provide(PART)).sum())
        })
    }

    /// Bytes that this process has touched for keys and ciphertexts and that none uses now.
    #[getter]
    fn unused_bytes(&self) -> usize {
        self.sides.processor.evaluator.unused()
    }

    /// Refreshes ciphertexts across the cores. kinds: "complex"; "real", for one modular reduction instead of
    /// two; "pair", of two real ones next to each other, which share a bootstrap.
    fn bootstrap(
        &self,
        py: Python<'_>,
        cts: Vec<Handle<'_>>,
        kinds: Vec<String>,
    ) -> PyResult<Vec<Ciphertext>> {
        let contents = contents_of("bootstrap", &cts, &kinds)?;
        let inputs: Vec<&Ciphertext> = cts.iter().map(|c| &**c).collect();
        self.many(py, &inputs, &Operation::Bootstrap(&contents))
    }

    /// Refreshes ciphertexts and applies Re sum_k `coeffs[k]` exp(i k PHASE w) to both parts of every slot w.
    fn bootstrap_through(
        &self,
        py: Python<'_>,
        cts: Vec<Handle<'_>>,
        kinds: Vec<String>,
        coeffs: PyReadonlyArray1<'_, Complex64>,
    ) -> PyResult<Vec<Ciphertext>> {
        let contents = contents_of("bootstrap_through", &cts, &kinds)?;
        let inputs: Vec<&Ciphertext> = cts.iter().map(|c| &**c).collect();
        let f = Harmonics::new(coeffs.as_slice()?).map_err(error::ckks)?;
        self.many(py, &inputs, &Operation::BootstrapThrough(&contents, &f))
    }
}
