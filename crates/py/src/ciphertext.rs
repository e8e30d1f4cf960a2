//! Ciphertexts as opaque Python handles.
use crate::error;
use crate::parameters::{hex, Parameters};
use crate::side::Residues;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tacita_ckks::CkksParameters;
use tacita_wire::{CiphertextReader, CiphertextWriter, Owner};

/// A ciphertext. Immutable; carries its parameters so that it serialises alone.
#[pyclass(frozen, module = "tacita._native")]
pub struct Ciphertext {
    pub inner: Residues,
    pub params: CkksParameters,
    /// Whose key it is under.
    pub owner: Owner,
    /// Public seed of the second half, for ciphertexts fresh from encryption.
    pub seed: Option<[u8; 32]>,
}

#[pymethods]
impl Ciphertext {
    /// User level: rescalings left.
    #[getter]
    fn level(&self) -> i64 {
        self.params.user_level(self.inner.level())
    }
    #[getter]
    fn log_scale(&self) -> f64 {
        self.inner.scale().log2()
    }
    /// Bytes in memory, or on a device.
    #[getter]
    fn nbytes(&self) -> usize {
        self.inner.bytes(self.params.rlwe())
    }

    /// Public id of the client whose key it is under.
    #[getter]
    fn key_id(&self) -> String {
        hex(&self.owner.0)
    }

    /// Header with parameter hash and owner, one record, checksums. A fresh ciphertext takes half the bytes
    /// (seeded).
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let inner = py.detach(|| self.inner.here()).map_err(error::ckks)?;
        let bytes = py
            .detach(|| -> Result<Vec<u8>, tacita_wire::WireError> {
                let mut w = CiphertextWriter::new(Vec::new(), &self.params, self.owner, 1)?;
                match &self.seed {
                    Some(seed) => w.write_seeded(&inner, seed)?,
                    None => w.write(&inner)?,
                }
                w.finish()
            })
            .map_err(error::wire)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Parses hostile bytes; raises FormatError.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, params: &Parameters, data: &[u8]) -> PyResult<Self> {
        let params = params.0.clone();
        let (owner, inner) = py
            .detach(|| -> Result<_, tacita_wire::WireError> {
                let mut reader = CiphertextReader::new(data, &params, None)?;
                let owner = reader.owner();
                let first = reader.next().transpose()?;
                let alone = reader.next().transpose()?.is_none();
                Ok((owner, first.filter(|_| alone)))
            })
            .map_err(error::wire)?;
        let inner = inner
            .ok_or_else(|| error::FormatError::new_err("read ciphertext: expected exactly one ciphertext"))?;
        Ok(Self {
            inner: Residues::Processor(inner),
            params,
            owner,
            seed: None,
        })
    }
}
