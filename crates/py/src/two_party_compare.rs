//! Comparisons, choices, and moving between rings.
use crate::error::TacitaError;
use crate::two_party::TwoParty;
use crate::two_party_arrays::{
    canonical, flat, flat_bits, matrix, ring, same_shape, shaped, Array, Bits, Shares,
};
use numpy::PyUntypedArrayMethods;
use pyo3::prelude::*;
use tacita_mpc::compare::{self, Window};
use tacita_mpc::Ring;

fn window(op: &str, ring: Ring, bits: Option<u32>) -> PyResult<Window> {
    let bits = bits.unwrap_or(ring.bits());
    if !(1..=ring.bits()).contains(&bits) {
        let all = ring.bits();
        return Err(TacitaError::new_err(format!(
            "{op}: a window of {bits} bits in a ring of {all}"
        )));
    }
    Ok(Window { bits, drop: 0 })
}

fn shift_within(op: &str, shift: u32, bits: u32) -> PyResult<()> {
    if shift < bits {
        return Ok(());
    }
    Err(TacitaError::new_err(format!(
        "{op}: a shift by {shift} in a ring of {bits} bits"
    )))
}

impl TwoParty {
    fn lanes<'py>(
        &self,
        py: Python<'py>,
        bits: Vec<Vec<u8>>,
        shape: &[usize],
    ) -> PyResult<Vec<Array<'py, u8>>> {
        bits.into_iter().map(|lane| shaped(py, lane, shape)).collect()
    }
}

#[pymethods]
impl TwoParty {
    /// XOR shares of 1{x < 0}, exact.
    fn negative<'py>(&self, py: Python<'py>, x: Shares<'py>, bits: u32) -> PyResult<Array<'py, u8>> {
        self.keep(py, "negative", &x, bits, |party, x, ring| {
            compare::negative(party, x, ring)
        })
    }

    /// XOR shares of 1{x < t} for every threshold, exact.
    fn below<'py>(
        &self,
        py: Python<'py>,
        x: Shares<'py>,
        bits: u32,
        thresholds: Vec<i64>,
    ) -> PyResult<Vec<Array<'py, u8>>> {
        let (values, ring) = (flat("below", &x)?, ring("below", bits)?);
        canonical("below", values, ring)?;
        let lanes = self.run(py, |party| compare::below_many(party, values, ring, &thresholds))?;
        self.lanes(py, lanes, x.shape())
    }

    /// Shares of bit * x.
    fn select<'py>(
        &self,
        py: Python<'py>,
        bit: Bits<'py>,
        x: Shares<'py>,
        bits: u32,
    ) -> PyResult<Array<'py, u64>> {
        same_shape("select", bit.shape(), x.shape())?;
        let bit = flat_bits("select", &bit)?;
        self.keep(py, "select", &x, bits, |party, x, ring| {
            compare::select(party, bit, x, ring)
        })
    }

    /// XOR shares of bits as additive shares.
    fn to_arithmetic<'py>(&self, py: Python<'py>, bit: Bits<'py>, bits: u32) -> PyResult<Array<'py, u64>> {
        let (values, ring) = (flat_bits("to_arithmetic", &bit)?, ring("to_arithmetic", bits)?);
        let result = self.run(py, |party| compare::to_arithmetic(party, values, ring))?;
        shaped(py, result, bit.shape())
    }

    /// XOR shares of the one-hot rows of shared ids: (ids, vocabulary).
    fn one_hot<'py>(
        &self,
        py: Python<'py>,
        ids: Shares<'py>,
        bits: u32,
        vocabulary: usize,
    ) -> PyResult<Array<'py, u8>> {
        let (values, ring) = (flat("one_hot", &ids)?, ring("one_hot", bits)?);
        canonical("one_hot", values, ring)?;
        let rows = self.run(py, |party| compare::one_hot(party, values, ring, vocabulary))?;
        shaped(py, rows, &[ids.len(), vocabulary])
    }

    /// Shares of every row's maximum, and of its column in the ring of `index_bits`.
    #[pyo3(signature = (x, bits, index_bits, *, window=None))]
    fn argmax_rows<'py>(
        &self,
        py: Python<'py>,
        x: Shares<'py>,
        bits: u32,
        index_bits: u32,
        window: Option<u32>,
    ) -> PyResult<(Array<'py, u64>, Array<'py, u64>)> {
        let op = "argmax_rows";
        let (values, ring, index) = (flat(op, &x)?, ring(op, bits)?, ring(op, index_bits)?);
        let ((rows, cols), window) = (matrix(op, x.shape())?, self::window(op, ring, window)?);
        canonical(op, values, ring)?;
        let (best, at) = self.run(py, |party| {
            compare::argmax_rows(party, values, rows, cols, ring, window, index)
        })?;
        Ok((shaped(py, best, &[rows])?, shaped(py, at, &[rows])?))
    }

    /// x / 2^shift in the same ring, for |x| < 2^(bits-2); at most one unit off.
    fn truncate<'py>(
        &self,
        py: Python<'py>,
        x: Shares<'py>,
        bits: u32,
        shift: u32,
    ) -> PyResult<Array<'py, u64>> {
        shift_within("truncate", shift, bits)?;
        self.keep(py, "truncate", &x, bits, |party, x, ring| {
            compare::truncate(party, x, ring, shift)
        })
    }

    /// The same value in another ring, for |x| < 2^(bits-2).
    fn extend<'py>(&self, py: Python<'py>, x: Shares<'py>, bits: u32, to: u32) -> PyResult<Array<'py, u64>> {
        let to = ring("extend", to)?;
        self.keep(py, "extend", &x, bits, |party, x, from| {
            compare::extend(party, x, from, to)
        })
    }
}
