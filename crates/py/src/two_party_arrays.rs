//! Numpy arrays of shares in and out. Inputs are read in place, results are handed over without a copy.
use crate::error::TacitaError;
use crate::two_party::TwoParty;
use numpy::{Element, IntoPyArray, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;
use tacita_mpc::{MpcError, Party, Ring};

/// Additive shares, any shape.
pub type Shares<'py> = PyReadonlyArrayDyn<'py, u64>;
/// XOR shares of bits, any shape.
pub type Bits<'py> = PyReadonlyArrayDyn<'py, u8>;
/// A result.
pub type Array<'py, T> = Bound<'py, PyArrayDyn<T>>;

/// The elements in row-major order.
pub fn flat<'a, T: Element>(op: &str, array: &'a PyReadonlyArrayDyn<'_, T>) -> PyResult<&'a [T]> {
    if !array.is_c_contiguous() {
        return Err(TacitaError::new_err(format!(
            "{op}: the array is not contiguous; hint: numpy.ascontiguousarray"
        )));
    }
    Ok(array.as_slice()?)
}

/// The ring of this many bits.
pub fn ring(op: &str, bits: u32) -> PyResult<Ring> {
    if !(1..=64).contains(&bits) {
        return Err(TacitaError::new_err(format!(
            "{op}: a ring of {bits} bits, 1 to 64 exist"
        )));
    }
    Ok(Ring::new(bits))
}

/// XOR shares, one bit to a byte.
pub fn flat_bits<'a>(op: &str, array: &'a Bits<'_>) -> PyResult<&'a [u8]> {
    let bits = flat(op, array)?;
    if bits.iter().fold(0, |all, b| all | b) > 1 {
        return Err(TacitaError::new_err(format!("{op}: bits other than 0 and 1")));
    }
    Ok(bits)
}

/// An array of a known shape.
pub fn shaped<'py, T: Element>(py: Python<'py>, values: Vec<T>, shape: &[usize]) -> PyResult<Array<'py, T>> {
    values.into_pyarray(py).reshape(shape.to_vec())
}

/// Two arrays that belong together, element by element.
pub fn same_shape(op: &str, left: &[usize], right: &[usize]) -> PyResult<()> {
    if left == right {
        return Ok(());
    }
    Err(TacitaError::new_err(format!(
        "{op}: shapes {left:?} and {right:?} differ"
    )))
}

/// The rows and columns of a matrix.
pub fn matrix(op: &str, shape: &[usize]) -> PyResult<(usize, usize)> {
    match *shape {
        [rows, cols] => Ok((rows, cols)),
        _ => Err(TacitaError::new_err(format!(
            "{op}: shape {shape:?}, a matrix (rows, columns) is needed"
        ))),
    }
}

/// Shares that must be canonical (below 2^bits): protocols take that for granted.
pub fn canonical(op: &str, values: &[u64], ring: Ring) -> PyResult<()> {
    if ring.bits() == 64 || values.iter().fold(0, |all, v| all | v) <= ring.mask() {
        return Ok(());
    }
    Err(TacitaError::new_err(format!(
        "{op}: shares above 2^{0}; hint: reduce them modulo 2^{0}",
        ring.bits()
    )))
}

impl TwoParty {
    /// An operation that keeps the shape of x, on canonical shares.
    pub fn keep<'py, T: Element + Send>(
        &self,
        py: Python<'py>,
        op: &str,
        x: &Shares<'py>,
        bits: u32,
        step: impl FnOnce(&mut Party, &[u64], Ring) -> Result<Vec<T>, MpcError> + Send,
    ) -> PyResult<Array<'py, T>> {
        let (values, ring) = (flat(op, x)?, ring(op, bits)?);
        canonical(op, values, ring)?;
        let result = self.run(py, |party| step(party, values, ring))?;
        shaped(py, result, x.shape())
    }
}
