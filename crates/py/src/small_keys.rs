//! Keys of coefficient products in the file of evaluation keys.
use crate::error;
use pyo3::PyResult;
use std::io::{Read, Write};
use tacita_ckks::CkksParameters;
use tacita_coefficients::{CoefficientKeys, Coefficients, KeyShapes};
use tacita_rlwe::SecretKey;
use tacita_wire::{KeyShape, Owner};

/// The keys for products of so many tokens, and what computes with them.
pub struct SmallKeys {
    pub inner: CoefficientKeys,
    pub tokens: usize,
    pub products: Coefficients,
}

impl SmallKeys {
    /// Draws a small secret, makes the keys and forgets it.
    pub fn generate(params: &CkksParameters, secret: &SecretKey, tokens: usize) -> PyResult<Self> {
        let inner = CoefficientKeys::generate(params, secret, tokens).map_err(error::coefficients)?;
        Self::new(inner, params, tokens)
    }

    fn new(inner: CoefficientKeys, params: &CkksParameters, tokens: usize) -> PyResult<Self> {
        let products = Coefficients::new(params, tokens).map_err(error::coefficients)?;
        Ok(Self {
            inner,
            tokens,
            products,
        })
    }

    /// Appends them to a file of evaluation keys.
    pub fn write(&self, out: &mut impl Write, params: &CkksParameters, owner: Owner) -> PyResult<()> {
        let shapes = KeyShapes::new(params, self.tokens).map_err(error::coefficients)?;
        let (hash, parts) = (*params.rlwe().hash(), self.inner.parts());
        tacita_wire::write_switching_keys(out, hash, owner, &parts, &wired(&shapes)).map_err(error::wire)
    }

    /// Bytes of what [`Self::write`] appends.
    pub fn file_bytes(params: &CkksParameters, tokens: usize) -> PyResult<usize> {
        let shapes = KeyShapes::new(params, tokens).map_err(error::coefficients)?;
        Ok(tacita_wire::switching_keys_bytes(&wired(&shapes)))
    }

    /// Reads what stands behind the evaluation keys, to the end of the file.
    pub fn read(mut r: impl Read, params: &CkksParameters, owner: Owner, tokens: usize) -> PyResult<Self> {
        let shapes = KeyShapes::new(params, tokens).map_err(error::coefficients)?;
        let (hash, each) = (params.rlwe().hash(), wired(&shapes));
        let keys = tacita_wire::read_switching_keys(&mut r, hash, owner, &each).map_err(error::wire)?;
        tacita_wire::expect_end(&mut r, "coefficient keys", keys.len() as u64).map_err(error::wire)?;
        let inner = CoefficientKeys::from_parts(&shapes, keys).map_err(error::coefficients)?;
        Self::new(inner, params, tokens)
    }
}

fn wired(shapes: &KeyShapes) -> Vec<KeyShape<'_>> {
    let wired = |(ring, limbs, gadget)| KeyShape { ring, limbs, gadget };
    shapes.each().into_iter().map(wired).collect()
}
