//! Coefficient products: keys on the client's side, and the steps of a product on the server's.
use crate::ciphertext::Ciphertext;
use crate::error::{self, TacitaError};
use crate::evaluator::{Evaluator, Handle};
use crate::parameters::{native_level, Parameters};
use crate::secret::SecretKey;
use crate::side::Residues;
use crate::small_keys::SmallKeys;
use num_complex::Complex64;
use numpy::{PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use std::sync::Arc;
use tacita_ckks::bootstrap::refresh::Harmonics;
use tacita_ckks::CkksParameters;
use tacita_coefficients as products;
use tacita_sides::{Operation, Refreshed};
use tacita_wire::Owner;

/// (steps, highest user level) of the rotation keys that coefficient products need beside bootstrapping's, as
/// `keygen` takes them.
#[pyfunction]
pub fn coefficient_rotations(params: &Parameters) -> Vec<(i64, i64)> {
    let steps = products::required_steps(&params.0).into_iter();
    steps
        .map(|(step, native)| (step, params.0.user_level(native).max(0)))
        .collect()
}

/// Keys to and from the secret of the small ring, for one number of tokens. Where a plan asks for them they
/// are part of `EvaluationKeys`; measurements make them in memory.
#[pyclass(frozen, module = "tacita._native")]
pub struct CoefficientKeys {
    inner: Arc<SmallKeys>,
    params: CkksParameters,
    owner: Owner,
}

#[pymethods]
impl CoefficientKeys {
    /// Draws a small secret, makes the keys and forgets it.
    #[staticmethod]
    fn generate(py: Python<'_>, secret: &SecretKey, tokens: usize) -> PyResult<Self> {
        let (params, key) = (secret.encoder.params().clone(), &secret.key);
        let inner = py.detach(|| SmallKeys::generate(&params, key, tokens))?;
        Ok(Self {
            inner: Arc::new(inner),
            params,
            owner: secret.owner,
        })
    }

    /// Of the products that they are for.
    #[getter]
    fn tokens(&self) -> usize {
        self.inner.tokens
    }

    /// Bytes in memory.
    #[getter]
    fn nbytes(&self) -> PyResult<usize> {
        self.inner.inner.bytes(&self.params).map_err(error::coefficients)
    }
}

#[pymethods]
impl Evaluator {
    /// Those of its evaluation keys, if the plan had such.
    #[getter]
    fn coefficient_keys(&self) -> Option<CoefficientKeys> {
        Some(CoefficientKeys {
            inner: self.small.clone()?,
            params: self.params().clone(),
            owner: self.owner,
        })
    }
}

/// A plain matrix, arranged for products.
#[pyclass(frozen, module = "tacita._native")]
pub struct CoefficientWeights(products::Weights);

/// Blocks of a matrix in the small ring.
#[pyclass(frozen, module = "tacita._native")]
pub struct CoefficientBlocks(Vec<tacita_ckks::Ciphertext>);

#[pymethods]
impl CoefficientBlocks {
    fn __len__(&self) -> usize {
        self.0.len()
    }
}

/// Products by plain matrices on the coefficients of ciphertexts that `evaluator` computes on. The steps in
/// the small ring are the processor's, wherever the others are.
#[pyclass(frozen, module = "tacita._native")]
pub struct Coefficients {
    evaluator: Py<Evaluator>,
    keys: Py<CoefficientKeys>,
}

impl Coefficients {
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&SmallKeys) -> products::Result<T> + Send,
    ) -> PyResult<T> {
        let (evaluator, keys) = (self.evaluator.get(), self.keys.get());
        py.detach(|| evaluator.pool.install(|| f(&keys.inner)))
            .map_err(error::coefficients)
    }

    fn taken<'a>(&self, cts: &'a [Handle<'_>]) -> PyResult<Vec<&'a Residues>> {
        cts.iter().try_for_each(|c| self.evaluator.get().check(c))?;
        Ok(cts.iter().map(|c| &c.inner).collect())
    }
}

#[pymethods]
impl Coefficients {
    /// Raises ParameterError for keys of another client or other parameters.
    #[new]
    fn new(evaluator: Py<Evaluator>, keys: Py<CoefficientKeys>) -> PyResult<Self> {
        let (e, k) = (evaluator.get(), keys.get());
        if e.params().rlwe().hash() != k.params.rlwe().hash() || e.owner != k.owner {
            return Err(error::ParameterError::new_err(
                "the coefficient keys and the evaluator have different parameters or clients",
            ));
        }
        Ok(Self { evaluator, keys })
    }

    /// Features of one ciphertext, of one block, and small ciphertexts of a large one.
    #[getter]
    fn shape(&self) -> (usize, usize, usize) {
        let a = self.keys.get().inner.products.arrangement();
        (a.features(), a.block(), a.ratio())
    }

    /// matrix: (outputs, inputs); bias: (outputs,).
    #[pyo3(signature = (matrix, bias = None))]
    fn weights(
        &self,
        py: Python<'_>,
        matrix: PyReadonlyArray2<'_, f64>,
        bias: Option<PyReadonlyArray1<'_, f64>>,
    ) -> PyResult<CoefficientWeights> {
        let shape = (matrix.shape()[0], matrix.shape()[1]);
        let values = matrix.as_slice()?.to_vec();
        let bias = bias.map_or(Ok(Vec::new()), |b| b.as_slice().map(<[f64]>::to_vec))?;
        let products = &self.keys.get().inner.products;
        py.detach(|| products.weights(shape, &values, &bias))
            .map(CoefficientWeights)
            .map_err(error::coefficients)
    }

    /// Slots at user level 1 or more to coefficients.
    fn to_coefficients(&self, py: Python<'_>, cts: Vec<Handle<'_>>) -> PyResult<Vec<Ciphertext>> {
        let cts: Vec<&Ciphertext> = cts.iter().map(|c| &**c).collect();
        self.evaluator.get().many(py, &cts, &Operation::ToCoefficients)
    }

    /// Coefficients to the blocks of so many features.
    fn descend(&self, py: Python<'_>, cts: Vec<Handle<'_>>, features: usize) -> PyResult<CoefficientBlocks> {
        let cts = self.taken(&cts)?;
        let found = self.run(py, |keys| {
            // a device answers when all that it was given before is done
            let here = cts.iter().map(|x| Ok(x.here()?.into_owned()));
            let here = here.collect::<products::Result<Vec<_>>>()?;
            keys.products.descend(&keys.inner, &here, features)
        })?;
        Ok(CoefficientBlocks(found))
    }

    /// The product, rescaled. bias included.
    fn multiply(
        &self,
        py: Python<'_>,
        blocks: &CoefficientBlocks,
        weights: &CoefficientWeights,
    ) -> PyResult<CoefficientBlocks> {
        let found = self.run(py, |keys| {
            keys.products.multiply(&keys.inner, blocks.0.clone(), &weights.0)
        })?;
        Ok(CoefficientBlocks(found))
    }

    /// Blocks of a product to large ciphertexts, still coefficients.
    fn ascend(&self, py: Python<'_>, blocks: &CoefficientBlocks) -> PyResult<Vec<Ciphertext>> {
        let found = self.run(py, |keys| keys.products.ascend(&keys.inner, &blocks.0))?;
        let wrap = |x| self.evaluator.get().wrap(Residues::Processor(x));
        Ok(found.into_iter().map(wrap).collect())
    }

    /// Coefficients to fresh slots; through Re sum_k `coeffs[k]` exp(i k PHASE w) of both parts where given,
    /// and then at user level `level` where it is given: the lower, the cheaper. At most `at_once` beside
    /// each other (0: half the threads).
    #[pyo3(signature = (cts, coeffs = None, level = None, at_once = 0))]
    fn refresh(
        &self,
        py: Python<'_>,
        cts: Vec<Handle<'_>>,
        coeffs: Option<PyReadonlyArray1<'_, Complex64>>,
        level: Option<usize>,
        at_once: usize,
    ) -> PyResult<Vec<Ciphertext>> {
        let cts: Vec<&Ciphertext> = cts.iter().map(|c| &**c).collect();
        let params = &self.keys.get().params;
        let level = level.map(|l| native_level("refresh", params, l)).transpose()?;
        if coeffs.is_none() && level.is_some() {
            return Err(TacitaError::new_err(
                "refresh: a level without a function; hint: coeffs, or neither",
            ));
        }
        let coeffs = coeffs
            .map(|c| c.as_slice().map(<[Complex64]>::to_vec))
            .transpose()?;
        let through = coeffs.map(|c| Harmonics::new(&c)).transpose();
        let through = through.map_err(error::ckks)?;
        let how = Refreshed {
            through: through.as_ref(),
            level,
            at_once,
        };
        self.evaluator.get().many(py, &cts, &Operation::Refresh(how))
    }
}
