//! Look-ups in an embedding table that stays hidden: encrypted once by the server, chosen from by the client.
use crate::error::{self, TacitaError};
use crate::two_party::TwoParty;
use crate::two_party_arrays::{flat, matrix, shaped, Array};
use numpy::{PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tacita_mpc::linear::table::{TableClient as Client, TableServer as Server, TableShape};

/// The server's side: its key and the encrypted table. One serves all sessions.
#[pyclass(frozen, module = "tacita._native")]
pub struct TableServer {
    inner: Server,
    columns: usize,
}

/// The client's side: the encrypted table as it came.
#[pyclass(frozen, module = "tacita._native")]
pub struct TableClient {
    inner: Client,
    columns: usize,
}

/// Bytes of the encrypted table of this shape, values in `bits` bits.
#[pyfunction]
pub fn table_bytes(rows: usize, columns: usize, bits: u32) -> PyResult<usize> {
    TableShape { rows, columns, bits }.table_len().map_err(error::mpc)
}

#[pymethods]
impl TableServer {
    /// Encrypts a matrix of integers below 2^(bits - 2) under a fresh key.
    #[new]
    fn new(py: Python<'_>, values: PyReadonlyArrayDyn<'_, i64>, bits: u32) -> PyResult<Self> {
        let op = "embedding table";
        let (rows, columns) = matrix(op, values.shape())?;
        let table = flat(op, &values)?;
        let shape = TableShape { rows, columns, bits };
        let inner = py.detach(|| Server::new(table, shape)).map_err(error::mpc)?;
        Ok(Self { inner, columns })
    }

    /// What a client gets once.
    fn message<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.inner.message())
    }

    fn __repr__(&self) -> &'static str {
        "TableServer"
    }
}

#[pymethods]
impl TableClient {
    /// Takes the server's message. Raises for another length than `table_bytes` and for malformed keys.
    #[new]
    fn new(py: Python<'_>, message: &[u8], rows: usize, columns: usize, bits: u32) -> PyResult<Self> {
        let shape = TableShape { rows, columns, bits };
        let inner = py
            .detach(|| Client::from_message(message, shape))
            .map_err(error::mpc)?;
        Ok(Self { inner, columns })
    }
}

#[pymethods]
impl TwoParty {
    /// The server's shares of the rows that the client looks up, (tokens, columns).
    fn lookup_served<'py>(
        &self,
        py: Python<'py>,
        table: &TableServer,
        tokens: usize,
    ) -> PyResult<Array<'py, u64>> {
        if self.client() {
            return Err(TacitaError::new_err("lookup_served: the server's step"));
        }
        let values = self.run(py, |party| table.inner.lookup(party, tokens))?;
        shaped(py, values, &[tokens, table.columns])
    }

    /// The client's shares of these rows, (len(rows), columns).
    fn lookup<'py>(
        &self,
        py: Python<'py>,
        table: &TableClient,
        rows: Vec<usize>,
    ) -> PyResult<Array<'py, u64>> {
        if !self.client() {
            return Err(TacitaError::new_err("lookup: the client's step"));
        }
        let values = self.run(py, |party| table.inner.lookup(party, &rows))?;
        shaped(py, values, &[rows.len(), table.columns])
    }
}
