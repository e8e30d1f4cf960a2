//! Outer products with lazy relinearisation.
use crate::ciphertext::Ciphertext;
use crate::error::{ParameterError, TacitaError};
use crate::evaluator::Evaluator;
use crate::side::Residues;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};
use tacita_ckks::CkksError;
use tacita_opencl::{Engine, Poly};
use tacita_sides::products::{Accumulators, Views};
use tacita_wire::Owner;

type Terms<'py> = Vec<Vec<PyRef<'py, Ciphertext>>>;

/// Accumulators of degree 2, rows x columns. The operation that takes them leaves the object empty: only its
/// result counts.
#[pyclass(frozen, module = "tacita._native")]
pub struct Products {
    content: Mutex<Option<Sums>>,
    rows: usize,
    columns: usize,
    level: i64,
    hash: [u8; 32],
    owner: Owner,
}

/// The accumulators where they lie.
enum Sums {
    Processor(Accumulators),
    Device(Accumulators<Poly>, Arc<Engine>),
}

impl Sums {
    /// Bytes, rows, columns and native level.
    fn sizes(&self) -> [usize; 4] {
        match self {
            Self::Processor(x) => [x.bytes(), x.rows(), x.columns(), x.level()],
            Self::Device(x, _) => [x.bytes(), x.rows(), x.columns(), x.level()],
        }
    }
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
        self.lock().as_ref().map_or(0, |sums| sums.sizes()[0])
    }
}

impl Products {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Sums>> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, op: &str) -> PyResult<Sums> {
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
        let mut sums = match &onto {
            None => None,
            Some(onto) => {
                self.check_products(onto)?;
                Some(onto.take("products")?)
            }
        };
        let done = self.run(py, || self.accumulate(&mut sums, &a, &b));
        match (done, sums) {
            (Ok(()), Some(sums)) => Ok(self.wrap_products(sums)),
            (done, sums) => {
                if let Some(onto) = onto {
                    *onto.lock() = sums;
                }
                Err(done
                    .err()
                    .unwrap_or_else(|| TacitaError::new_err("products: no terms")))
            }
        }
    }

    /// `[rows][columns]` ciphertexts one level down. Takes the accumulators over, unless it raises before the
    /// first.
    fn relinearise(&self, py: Python<'_>, products: PyRef<'_, Products>) -> PyResult<Vec<Vec<Ciphertext>>> {
        self.check_products(&products)?;
        self.need("relinearise", products.level, 1)?;
        let acc = products.take("relinearise")?;
        let out = self.run(py, || match (acc, &self.sides.device) {
            (Sums::Processor(acc), None) => self.sides.processor.relinearise(acc),
            (Sums::Device(acc, _), Some(device)) => device.relinearise(acc),
            _ => Err(elsewhere("relinearise")),
        })?;
        let wrap = |row: Vec<_>| row.into_iter().map(|c| self.wrap(c)).collect();
        Ok(out.into_iter().map(wrap).collect())
    }
}

impl Evaluator {
    /// Adds to accumulators that lie where this evaluator computes, or begins them.
    fn accumulate(
        &self,
        sums: &mut Option<Sums>,
        left: &Views<'_>,
        right: &Views<'_>,
    ) -> Result<(), CkksError> {
        let (processor, device) = (&self.sides.processor, &self.sides.device);
        match (sums, device) {
            (Some(Sums::Processor(acc)), None) => processor.add_products(Some(acc), left, right).map(drop),
            (Some(Sums::Device(acc, engine)), Some(device)) if Arc::ptr_eq(engine, device.engine()) => {
                device.add_products(Some(acc), left, right).map(drop)
            }
            (Some(_), _) => Err(elsewhere("products")),
            (sums, None) => {
                *sums = processor.add_products(None, left, right)?.map(Sums::Processor);
                Ok(())
            }
            (sums, Some(device)) => {
                let engine = device.engine().clone();
                *sums = device
                    .add_products(None, left, right)?
                    .map(|acc| Sums::Device(acc, engine));
                Ok(())
            }
        }
    }

    fn wrap_products(&self, acc: Sums) -> Products {
        let [_, rows, columns, level] = acc.sizes();
        Products {
            rows,
            columns,
            level: self.params().user_level(level),
            hash: *self.params().rlwe().hash(),
            owner: self.owner,
            content: Mutex::new(Some(acc)),
        }
    }

    fn check_products(&self, a: &Products) -> PyResult<()> {
        if a.hash != *self.params().rlwe().hash() || a.owner != self.owner {
            return Err(ParameterError::new_err(
                "the accumulators are those of another evaluator: other parameters or another client's keys",
            ));
        }
        Ok(())
    }
}

fn views<'a>(terms: &'a Terms<'_>) -> Vec<Vec<&'a Residues>> {
    let row = |x: &'a Vec<PyRef<'_, Ciphertext>>| x.iter().map(|c| &c.inner).collect();
    terms.iter().map(row).collect()
}

fn elsewhere(op: &'static str) -> CkksError {
    CkksError::Shape {
        op,
        detail: "the accumulators lie on another device; hint: one evaluator for both".into(),
    }
}
