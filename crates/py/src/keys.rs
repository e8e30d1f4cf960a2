//! Evaluation keys on the server's side.
use crate::error;
use crate::parameters::{hex, native_level, Parameters};
use pyo3::prelude::*;
use std::fs::File;
use std::io::BufReader;
use std::sync::Arc;
use tacita_ckks::keys::KeySpec;
use tacita_ckks::{keys, CkksParameters, KeyKind};
use tacita_wire::Owner;

/// Evaluation keys of one client, checked against the parameters.
#[pyclass(frozen, module = "tacita._native")]
pub struct EvaluationKeys {
    pub inner: Arc<tacita_ckks::EvaluationKeys>,
    params: CkksParameters,
    /// Whose keys they are.
    pub owner: Owner,
}

impl EvaluationKeys {
    /// Those that the keys were checked against.
    pub fn parameters(&self) -> &CkksParameters {
        &self.params
    }
}

#[pymethods]
impl EvaluationKeys {
    /// Reads a key file; raises FormatError when it is damaged, of another version or of other parameters.
    /// Exactly the keys of `rotations`, as `keygen` takes them, are accepted: a hostile file cannot make the
    /// server hold more than these.
    #[staticmethod]
    fn load(py: Python<'_>, path: &str, params: &Parameters, rotations: Vec<(i64, usize)>) -> PyResult<Self> {
        let params = params.0.clone();
        let specs = specs(&params, &rotations)?;
        let (owner, keys) = py.detach(|| {
            let file = File::open(path).map_err(|e| error::io(path, e))?;
            let reader = BufReader::with_capacity(1 << 20, file);
            tacita_wire::read_evaluation_keys(reader, &params, None, Some(&specs)).map_err(error::wire)
        })?;
        Ok(Self {
            inner: Arc::new(keys),
            params,
            owner,
        })
    }

    /// Random public id shared by all files of one client.
    #[getter]
    fn key_id(&self) -> String {
        hex(&self.owner.0)
    }
    /// Bytes in memory.
    #[getter]
    fn nbytes(&self) -> usize {
        self.inner.bytes(&self.params)
    }
    fn __len__(&self) -> usize {
        self.inner.len()
    }
}

/// The keys of a plan: relinearisation, conjugation, those of bootstrapping where the preset has it, and
/// (rotation, highest user level). Raises TacitaError for a level above the top.
pub fn specs(params: &CkksParameters, rotations: &[(i64, usize)]) -> PyResult<Vec<KeySpec>> {
    let mut all = tacita_ckks::bootstrap::required_keys(params);
    for &(steps, level) in rotations {
        let kind = KeyKind::Galois(keys::galois_of_rotation(params, steps));
        let limbs = native_level("rotation keys", params, level)? + 1;
        match all.iter_mut().find(|s| s.kind == kind) {
            Some(s) => s.limbs = s.limbs.max(limbs),
            None if kind != KeyKind::Galois(1) => all.push(KeySpec { kind, limbs }),
            None => {}
        }
    }
    Ok(all)
}
