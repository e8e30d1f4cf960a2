//! Bootstrapping behind the Backend contract: as it is, and through a function.
use crate::ciphertext::Ciphertext;
use crate::error::TacitaError;
use crate::evaluator::{Evaluator, Handle};
use num_complex::Complex64;
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use rayon::prelude::*;
use tacita_ckks::bootstrap::refresh::Harmonics;
use tacita_ckks::bootstrap::{Bootstrapper, Content};
use tacita_ckks::CkksError;

/// Bytes that one thread touches at a time.
const PART: usize = 1 << 24;

impl Evaluator {
    /// The inputs of a bootstrap, of this evaluator's client.
    fn contents(
        &self,
        op: &str,
        cts: &[Handle<'_>],
        kinds: &[String],
    ) -> PyResult<Vec<(tacita_ckks::Ciphertext, Content)>> {
        let content = |kind: &String| match kind.as_str() {
            "real" => Some(Content::Real),
            "complex" => Some(Content::Complex),
            "pair" => Some(Content::Pair),
            _ => None,
        };
        let contents: Option<Vec<_>> = kinds.iter().map(content).collect();
        let Some(contents) = contents.filter(|all| all.len() == cts.len()) else {
            return Err(TacitaError::new_err(format!(
                "{op}: {} ciphertexts, kinds {kinds:?}",
                cts.len()
            )));
        };
        cts.iter().try_for_each(|c| self.check(c))?;
        Ok(cts.iter().map(|c| c.inner.clone()).zip(contents).collect())
    }

    /// Made when it is first needed, or by `prepare`.
    pub(crate) fn bootstrapper(&self) -> Result<&Bootstrapper, CkksError> {
        if let Some(made) = self.bootstrapper.get() {
            return Ok(made);
        }
        let made = Bootstrapper::new(&self.inner)?;
        Ok(self.bootstrapper.get_or_init(|| made))
    }
}

#[pymethods]
impl Evaluator {
    /// Makes now what the first request would make otherwise: the matrices of bootstrapping, if they are
    /// wanted, and room for this many bytes of ciphertexts.
    fn prepare(&self, py: Python<'_>, bootstraps: bool, bytes: usize) -> PyResult<()> {
        self.run(py, || {
            if bootstraps {
                self.bootstrapper()?;
            }
            self.inner.reserve(bytes);
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
        self.inner.unused()
    }

    /// Refreshes ciphertexts across the cores. kinds: "complex"; "real", for one modular reduction instead of
    /// two; "pair", of two real ones next to each other, which share a bootstrap.
    fn bootstrap(
        &self,
        py: Python<'_>,
        cts: Vec<Handle<'_>>,
        kinds: Vec<String>,
    ) -> PyResult<Vec<Ciphertext>> {
        let inputs = self.contents("bootstrap", &cts, &kinds)?;
        let out = self.run(py, || self.bootstrapper()?.bootstrap_many(&self.inner, &inputs))?;
        Ok(out.into_iter().map(|c| self.wrap(c)).collect())
    }

    /// Refreshes ciphertexts and applies Re sum_k `coeffs[k]` exp(i k PHASE w) to both parts of every slot w.
    fn bootstrap_through(
        &self,
        py: Python<'_>,
        cts: Vec<Handle<'_>>,
        kinds: Vec<String>,
        coeffs: PyReadonlyArray1<'_, Complex64>,
    ) -> PyResult<Vec<Ciphertext>> {
        let inputs = self.contents("bootstrap_through", &cts, &kinds)?;
        let coeffs = coeffs.as_slice()?.to_vec();
        let out = self.run(py, || {
            let f = Harmonics::new(&coeffs)?;
            self.bootstrapper()?
                .bootstrap_through_many(&self.inner, &inputs, &f)
        })?;
        Ok(out.into_iter().map(|c| self.wrap(c)).collect())
    }
}
