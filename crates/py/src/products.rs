//! Outer products with lazy relinearisation.
use crate::ciphertext::Ciphertext;
use crate::error::{ParameterError, TacitaError};
use crate::evaluator::Evaluator;
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};
use tacita_ckks::products::Products as Accumulators;
use tacita_wire::Owner;

type Terms<'py> = Vec<Vec<PyRef<'py, Ciphertext>>>;

/// Accumulators of degree 2, rows x columns. The operation that takes them leaves the object empty: only its
/// result counts.
#[pyclass(frozen, module = "tacita._native")]
pub struct Products {
    content: Mutex<Option<Accumulators>>,
    rows: usize,
    columns: usize,
    level: i64,
    hash: [u8; 32],
    owner: Owner,
}

#[pymethods]
impl Products {
    /// User level: that of the operands.
    #[getter]
    fn level(&self) -> i64 {
        self.level
    }
    #[getter]
    fn rows(&self) -> usize {
        self.rows
    }
    #[getter]
    fn columns(&self) -> usize {
        self.columns
    }
    /// Bytes in memory: none after an operation took the accumulators over.
    #[getter]
    fn nbytes(&self) -> usize {
        self.lock().as_ref().map_or(0, Accumulators::bytes)
    }
}

impl Products {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Accumulators>> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, op: &str) -> PyResult<Accumulators> {
        self.lock().take().ok_or_else(|| {
            TacitaError::new_err(format!(
                "{op}: an earlier operation took these accumulators over; hint: use its result"
            ))
        })
    }
}

#[pymethods]
impl Evaluator {
    /// `acc[j][i]` (+)= sum over c of `left[c][j]` * `right[c][i]`, not relinearised. Takes `onto` over
    /// unless it raises.
    #[pyo3(signature = (left, right, onto = None))]
    fn products(
        &self,
        py: Python<'_>,
        left: Terms<'_>,
        right: Terms<'_>,
        onto: Option<PyRef<'_, Products>>,
    ) -> PyResult<Products> {
        left.iter()
            .chain(&right)
            .flatten()
            .try_for_each(|c| self.check(c))?;
        let (a, b) = (views(&left), views(&right));
        let Some(onto) = onto else {
            let acc = self.run(py, || self.inner.products(&a, &b))?;
            return Ok(self.wrap_products(acc));
        };
        self.check_products(&onto)?;
        let mut acc = onto.take("products")?;
        match self.run(py, || self.inner.add_products(&mut acc, &a, &b)) {
            Ok(()) => Ok(self.wrap_products(acc)),
            Err(e) => {
                *onto.lock() = Some(acc);
                Err(e)
            }
        }
    }

    /// `[rows][columns]` ciphertexts one level down. Takes the accumulators over, unless it raises before the
    /// first.
    fn relinearise(&self, py: Python<'_>, products: PyRef<'_, Products>) -> PyResult<Vec<Vec<Ciphertext>>> {
        self.check_products(&products)?;
        self.need("relinearise", products.level, 1)?;
        let acc = products.take("relinearise")?;
        let out = self.run(py, || self.inner.relinearise(acc))?;
        let wrap = |row: Vec<_>| row.into_iter().map(|c| self.wrap(c)).collect();
        Ok(out.into_iter().map(wrap).collect())
    }
}

impl Evaluator {
    fn wrap_products(&self, acc: Accumulators) -> Products {
        Products {
            rows: acc.rows(),
            columns: acc.columns(),
            level: self.inner.params().user_level(acc.level()),
            hash: *self.inner.rlwe().hash(),
            owner: self.owner,
            content: Mutex::new(Some(acc)),
        }
    }

    fn check_products(&self, a: &Products) -> PyResult<()> {
        if a.hash != *self.inner.rlwe().hash() || a.owner != self.owner {
            return Err(ParameterError::new_err(
                "the accumulators are those of another evaluator: other parameters or another client's keys",
            ));
        }
        Ok(())
    }
}

fn views<'a>(terms: &'a Terms<'_>) -> Vec<Vec<&'a tacita_ckks::Ciphertext>> {
    terms
        .iter()
        .map(|x| x.iter().map(|c| &c.inner).collect())
        .collect()
}
