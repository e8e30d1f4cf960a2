//! Ciphertexts as opaque Python handles.
use crate::error;
use crate::parameters::Parameters;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tacita_ckks::CkksParameters;
use tacita_wire::{CiphertextReader, CiphertextWriter, Owner};

/// A ciphertext. Immutable; carries its parameters so that it serialises alone.
#[pyclass(frozen, module = "tacita._native")]
pub struct Ciphertext {
    pub inner: tacita_ckks::Ciphertext,
    pub params: CkksParameters,
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
        self.inner.scale.log2()
    }
    /// Bytes in memory.
    #[getter]
    fn nbytes(&self) -> usize {
        self.inner.bytes(self.params.rlwe())
    }

    /// Header with parameter hash, one record, checksums. A fresh ciphertext takes half the bytes (seeded).
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py
            .detach(|| -> Result<Vec<u8>, tacita_wire::WireError> {
                let mut w = CiphertextWriter::new(Vec::new(), &self.params, Owner::default(), 1)?;
                match &self.seed {
                    Some(seed) => w.write_seeded(&self.inner, seed)?,
                    None => w.write(&self.inner)?,
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
        let inner = py
            .detach(|| -> Result<_, tacita_wire::WireError> {
                let mut reader = CiphertextReader::new(data, &params, None)?;
                let first = reader.next().transpose()?;
                if reader.next().transpose()?.is_some() {
                    return Ok(None);
                }
                Ok(first)
            })
            .map_err(error::wire)?
            .ok_or_else(|| error::FormatError::new_err("read ciphertext: expected exactly one ciphertext"))?;
        Ok(Self {
            inner,
            params,
            seed: None,
        })
    }
}
