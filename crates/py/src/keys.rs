//! Evaluation keys on the server's side.
use crate::error;
use crate::parameters::{hex, Parameters};
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

#[pymethods]
impl EvaluationKeys {
    /// Reads a key file; raises FormatError when it is damaged, of another version or of other parameters. With the plan's
    /// `rotations`, exactly the plan's keys are accepted, which bounds what a hostile file can make the server hold.
    #[staticmethod]
    #[pyo3(signature = (path, params, rotations = None))]
    fn load(py: Python<'_>, path: &str, params: &Parameters, rotations: Option<Vec<(i64, usize)>>) -> PyResult<Self> {
        let params = params.0.clone();
        let (owner, keys) = py.detach(|| {
            let file = File::open(path).map_err(|e| error::io(path, e))?;
            let reader = BufReader::with_capacity(1 << 20, file);
            let specs = rotations.map(|r| specs(&params, &r));
            tacita_wire::read_evaluation_keys(reader, &params, None, specs.as_deref()).map_err(error::wire)
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

/// The keys of a plan: relinearisation, conjugation, those of bootstrapping where the preset has it, and (rotation,
/// highest user level).
pub fn specs(params: &CkksParameters, rotations: &[(i64, usize)]) -> Vec<KeySpec> {
    let mut all = tacita_ckks::bootstrap::required_keys(params);
    for &(steps, level) in rotations {
        let kind = KeyKind::Galois(keys::galois_of_rotation(params, steps));
        let limbs = (level + params.bottom_level() + 1).min(params.rlwe().q_len());
        match all.iter_mut().find(|s| s.kind == kind) {
            Some(s) => s.limbs = s.limbs.max(limbs),
            None if kind != KeyKind::Galois(1) => all.push(KeySpec { kind, limbs }),
            None => {}
        }
    }
    all
}
