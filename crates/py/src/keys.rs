//! Evaluation keys on the server's side.
use crate::error;
use crate::parameters::{hex, Parameters};
use crate::small_keys::SmallKeys;
use pyo3::prelude::*;
use std::fs::File;
use std::io::{BufReader, Read};
use std::sync::Arc;
use tacita_ckks::keys::KeySpec;
use tacita_ckks::{bootstrap, keys, CkksParameters};
use tacita_wire::Owner;

/// Evaluation keys of one client, checked against the parameters.
#[pyclass(frozen, module = "tacita._native")]
pub struct EvaluationKeys {
    pub inner: Arc<tacita_ckks::EvaluationKeys>,
    params: CkksParameters,
    /// Whose keys they are.
    pub owner: Owner,
    /// Those of coefficient products, where the plan has such.
    pub small: Option<Arc<SmallKeys>>,
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
    /// coefficients: tokens of coefficient products, whose keys then follow in the file.
    #[staticmethod]
    #[pyo3(signature = (path, params, rotations, coefficients = None))]
    fn load(
        py: Python<'_>,
        path: &str,
        params: &Parameters,
        rotations: Vec<(i64, usize)>,
        coefficients: Option<usize>,
    ) -> PyResult<Self> {
        let params = params.0.clone();
        let specs = specs(&params, &rotations, coefficients)?;
        let (owner, keys, small) = py.detach(|| {
            let file = File::open(path).map_err(|e| error::io(path, e))?;
            let mut reader = BufReader::with_capacity(1 << 20, ReadOnce { file, at: 0 });
            let Some(tokens) = coefficients else {
                let read = tacita_wire::read_evaluation_keys(reader, &params, None, Some(&specs));
                return read.map(|(owner, keys)| (owner, keys, None)).map_err(error::wire);
            };
            let first = reader
                .by_ref()
                .take(tacita_wire::key_file_bytes(&params, &specs) as u64);
            let read = tacita_wire::read_evaluation_keys(first, &params, None, Some(&specs));
            let (owner, keys) = read.map_err(error::wire)?;
            let small = SmallKeys::read(reader, &params, owner, tokens)?;
            Ok((owner, keys, Some(Arc::new(small))))
        })?;
        Ok(Self {
            inner: Arc::new(keys),
            params,
            owner,
            small,
        })
    }

    /// Bytes of the file that `keygen` writes of these rotations and coefficients. Nothing in it is
    /// compressed or optional, so every client's file of a plan has exactly this length. Cost: microseconds;
    /// no key is made. Raises TacitaError for a level above the top.
    #[staticmethod]
    #[pyo3(signature = (params, rotations, coefficients = None))]
    fn file_bytes(
        params: &Parameters,
        rotations: Vec<(i64, usize)>,
        coefficients: Option<usize>,
    ) -> PyResult<usize> {
        let specs = specs(&params.0, &rotations, coefficients)?;
        let large = tacita_wire::key_file_bytes(&params.0, &specs);
        let small = coefficients.map(|tokens| SmallKeys::file_bytes(&params.0, tokens));
        Ok(large + small.transpose()?.unwrap_or(0))
    }

    /// Random public id shared by all files of one client.
    #[getter]
    fn key_id(&self) -> String {
        hex(&self.owner.0)
    }
    /// Bytes in memory.
    #[getter]
    fn nbytes(&self) -> usize {
        let small = self
            .small
            .as_ref()
            .and_then(|keys| keys.inner.bytes(&self.params).ok());
        self.inner.bytes(&self.params) + small.unwrap_or(0)
    }
    fn __len__(&self) -> usize {
        self.inner.len()
    }
}

/// Bytes of a file that are read between two calls of `release_cache`.
const STEP: u64 = 1 << 24;

/// A file that is read once, whose cached pages go as it is read: keys then lie in that memory.
struct ReadOnce {
    file: File,
    at: u64,
}

impl Read for ReadOnce {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read(out)?;
        let before = self.at / STEP;
        self.at += read as u64;
        if self.at / STEP > before {
            tacita_ring::release_cache(&self.file, self.at);
        }
        Ok(read)
    }
}

/// The keys of a plan in the large ring: relinearisation, conjugation, those of bootstrapping where the
/// preset has it, and (rotation, highest user level); with `coefficients`, those of slots-to-coefficients
/// one limb higher. Raises TacitaError for a level above the top.
pub fn specs(
    params: &CkksParameters,
    rotations: &[(i64, usize)],
    coefficients: Option<usize>,
) -> PyResult<Vec<KeySpec>> {
    let mut all = bootstrap::of_plan(params, rotations).map_err(error::ckks)?;
    if coefficients.is_some() {
        let needed = tacita_coefficients::required_keys(params);
        needed.into_iter().for_each(|spec| keys::add(&mut all, spec));
    }
    Ok(all)
}
