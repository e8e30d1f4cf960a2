//! The evaluator behind the Backend contract: user levels, automatic alignment, a thread pool of its own.
use crate::ciphertext::Ciphertext;
use crate::error::{self, LevelError, TacitaError};
use crate::keys::EvaluationKeys;
use crate::parameters::{native_level, Parameters};
use crate::side::{Residues, Sides};
use crate::small_keys::SmallKeys;
use num_complex::Complex64;
use numpy::{PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::borrow::Cow;
use std::sync::Arc;
use tacita_ckks::linear::{LinearTransform, Term};
use tacita_ckks::{CkksError, CkksParameters};
use tacita_sides::Operation;
use tacita_wire::Owner;

pub(crate) type Handle<'py> = PyRef<'py, Ciphertext>;

/// Evaluates circuits on ciphertexts. Holds evaluation keys only. The matrices of bootstrapping are made when
/// they are first needed; they, the threads and the device are shared with the evaluators made by
/// `with_keys`.
#[pyclass(frozen, module = "tacita._native")]
pub struct Evaluator {
    pub(crate) sides: Sides,
    pub(crate) pool: Arc<ThreadPool>,
    pub(crate) owner: Owner,
    pub(crate) small: Option<Arc<SmallKeys>>,
}

impl Evaluator {
    pub(crate) fn params(&self) -> &CkksParameters {
        self.sides.processor.evaluator.params()
    }

    pub(crate) fn run<T: Send>(
        &self,
        py: Python<'_>,
        f: impl FnOnce() -> Result<T, CkksError> + Send,
    ) -> PyResult<T> {
        py.detach(|| self.pool.install(f)).map_err(error::ckks)
    }

    pub(crate) fn wrap(&self, inner: Residues) -> Ciphertext {
        Ciphertext {
            inner,
            params: self.params().clone(),
            owner: self.owner,
            seed: None,
        }
    }

    /// The results of an operation where this evaluator computes.
    pub(crate) fn many(
        &self,
        py: Python<'_>,
        operands: &[&Ciphertext],
        operation: &Operation<'_>,
    ) -> PyResult<Vec<Ciphertext>> {
        operands.iter().try_for_each(|c| self.check(c))?;
        let operands: Vec<&Residues> = operands.iter().map(|c| &c.inner).collect();
        let results = self.run(py, || match &self.sides.device {
            None => self.sides.processor.run(operation, &operands),
            Some(device) => device.run(operation, &operands),
        })?;
        Ok(results.into_iter().map(|x| self.wrap(x)).collect())
    }

    /// The only result of one.
    fn one(
        &self,
        py: Python<'_>,
        operands: &[&Ciphertext],
        operation: &Operation<'_>,
    ) -> PyResult<Ciphertext> {
        Ok(self.many(py, operands, operation)?.swap_remove(0))
    }

    pub(crate) fn check(&self, a: &Ciphertext) -> PyResult<()> {
        if a.params.rlwe().hash() != self.params().rlwe().hash() {
            return Err(error::ParameterError::new_err(
                "the ciphertext and the evaluator have different parameters",
            ));
        }
        if a.owner != self.owner {
            return Err(error::FormatError::new_err(format!(
                "the ciphertext belongs to client {}, the evaluation keys to client {}; hint: encrypt it \
                under the key that came with these evaluation keys",
                a.owner, self.owner
            )));
        }
        Ok(())
    }

    pub(crate) fn need(&self, op: &str, level: i64, needed: i64) -> PyResult<()> {
        if level < needed {
            return Err(LevelError::new_err(format!(
                "{op}: needs {needed} level(s) at level {level}; hint: bootstrap the operand first"
            )));
        }
        Ok(())
    }

    pub(crate) fn level_of(&self, a: &Ciphertext) -> i64 {
        self.params().user_level(a.inner.level())
    }
}

#[pymethods]
impl Evaluator {
    /// keys: None for what all clients share alone, see `with_keys`. threads = 0: all cores; more than there
    /// are (a container's share of them counts) would only take them from each other. device: the number of a
    /// device of OpenCL, which then computes; its results stay there until their bytes are asked for. Raises
    /// TacitaError where it is not there or too small.
    #[new]
    #[pyo3(signature = (params, keys = None, threads = 0, device = None))]
    fn new(
        py: Python<'_>,
        params: &Parameters,
        keys: Option<PyRef<'_, EvaluationKeys>>,
        threads: usize,
        device: Option<usize>,
    ) -> PyResult<Self> {
        let pool = ThreadPoolBuilder::new()
            .num_threads(match (threads, std::thread::available_parallelism()) {
                (0, Ok(cores)) => cores.get(),
                (threads, Ok(cores)) => threads.min(cores.get()),
                (threads, Err(_)) => threads,
            })
            .build()
            .map_err(|e| TacitaError::new_err(format!("evaluator: no thread pool ({e})")))?;
        let mut sides = py.detach(|| Sides::open(&params.0, device))?;
        if let Some(keys) = keys.as_ref().map(|k| k.inner.clone()) {
            sides = py.detach(|| sides.over(&keys)).map_err(error::ckks)?;
        }
        Ok(Self {
            sides,
            pool: Arc::new(pool),
            owner: keys.as_ref().map(|k| k.owner).unwrap_or_default(),
            small: keys.and_then(|k| k.small.clone()),
        })
    }

    /// An evaluator over another client's keys, with the same threads, matrices and device.
    fn with_keys(&self, py: Python<'_>, keys: &EvaluationKeys) -> PyResult<Self> {
        if keys.parameters().rlwe().hash() != self.params().rlwe().hash() {
            return Err(error::ParameterError::new_err(
                "the evaluation keys and the evaluator have different parameters",
            ));
        }
        Ok(Self {
            sides: self.run(py, || self.sides.over(&keys.inner))?,
            pool: self.pool.clone(),
            owner: keys.owner,
            small: keys.small.clone(),
        })
    }

    #[getter]
    fn slots(&self) -> usize {
        self.params().slots()
    }
    #[getter]
    fn max_level(&self) -> i64 {
        self.params().user_level(self.params().top_level())
    }
    #[getter]
    fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }
    fn level(&self, a: &Ciphertext) -> i64 {
        self.level_of(a)
    }

    fn add(&self, py: Python<'_>, a: &Ciphertext, b: &Ciphertext) -> PyResult<Ciphertext> {
        self.one(py, &[a, b], &Operation::Add)
    }
    fn sub(&self, py: Python<'_>, a: &Ciphertext, b: &Ciphertext) -> PyResult<Ciphertext> {
        self.one(py, &[a, b], &Operation::Sub)
    }
    fn neg(&self, py: Python<'_>, a: &Ciphertext) -> PyResult<Ciphertext> {
        self.one(py, &[a], &Operation::Neg)
    }
    fn add_const(&self, py: Python<'_>, a: &Ciphertext, c: Complex64) -> PyResult<Ciphertext> {
        self.one(py, &[a], &Operation::AddConstant(c))
    }
    fn add_vector(
        &self,
        py: Python<'_>,
        a: &Ciphertext,
        v: PyReadonlyArray1<'_, Complex64>,
    ) -> PyResult<Ciphertext> {
        let v = v.as_slice()?.to_vec();
        self.one(py, &[a], &Operation::AddVector(&v))
    }
    fn mul(&self, py: Python<'_>, a: &Ciphertext, b: &Ciphertext) -> PyResult<Ciphertext> {
        self.need("mul", self.level_of(a).min(self.level_of(b)), 1)?;
        self.one(py, &[a, b], &Operation::Mul)
    }
    fn square(&self, py: Python<'_>, a: &Ciphertext) -> PyResult<Ciphertext> {
        self.need("square", self.level_of(a), 1)?;
        self.one(py, &[a], &Operation::Square)
    }
    /// sum x_i * y_i with one relinearisation.
    fn dot(&self, py: Python<'_>, xs: Vec<Handle<'_>>, ys: Vec<Handle<'_>>) -> PyResult<Ciphertext> {
        if xs.len() != ys.len() || xs.is_empty() {
            return Err(TacitaError::new_err(format!(
                "dot: {} and {} operands; hint: equal and at least one",
                xs.len(),
                ys.len()
            )));
        }
        let all: Vec<&Ciphertext> = xs.iter().chain(&ys).map(|h| &**h).collect();
        all.iter().try_for_each(|c| self.check(c))?;
        let lowest = all
            .iter()
            .min_by_key(|c| c.inner.level())
            .copied()
            .unwrap_or(all[0]);
        self.need("dot", self.level_of(lowest), 1)?;
        let (level, scale) = (lowest.inner.level(), lowest.inner.scale());
        self.one(py, &all, &Operation::Dot(level, scale))
    }
    fn mul_const(&self, py: Python<'_>, a: &Ciphertext, c: Complex64) -> PyResult<Ciphertext> {
        self.need("mul_const", self.level_of(a), 1)?;
        self.one(py, &[a], &Operation::MulConstant(c))
    }
    fn mul_int(&self, py: Python<'_>, a: &Ciphertext, k: i64) -> PyResult<Ciphertext> {
        self.one(py, &[a], &Operation::MulInteger(k))
    }
    fn mul_i(&self, py: Python<'_>, a: &Ciphertext) -> PyResult<Ciphertext> {
        self.one(py, &[a], &Operation::MulI)
    }
    fn mul_vector(
        &self,
        py: Python<'_>,
        a: &Ciphertext,
        v: PyReadonlyArray1<'_, Complex64>,
    ) -> PyResult<Ciphertext> {
        self.need("mul_vector", self.level_of(a), 1)?;
        let v = v.as_slice()?.to_vec();
        self.one(py, &[a], &Operation::MulVector(&v))
    }
    fn conjugate(&self, py: Python<'_>, a: &Ciphertext) -> PyResult<Ciphertext> {
        self.one(py, &[a], &Operation::Conjugate)
    }
    fn rotate(&self, py: Python<'_>, a: &Ciphertext, k: i64) -> PyResult<Ciphertext> {
        self.one(py, &[a], &Operation::Rotate(k))
    }
    fn rotate_many(&self, py: Python<'_>, a: &Ciphertext, ks: Vec<i64>) -> PyResult<Vec<Ciphertext>> {
        self.many(py, &[a], &Operation::RotateMany(&ks))
    }

    /// The slot-linear map of a LinearPlan. vectors: (n_vectors, period); terms: (n_terms, 5) = output,
    /// giant, input, baby, vector; horner_step 0 = none. Vectors in C order are read where they are, while
    /// other threads of Python run: none of them may write to them.
    fn linear(
        &self,
        py: Python<'_>,
        cts: Vec<Handle<'_>>,
        vectors: PyReadonlyArray2<'_, Complex64>,
        terms: PyReadonlyArray2<'_, i32>,
        n_outputs: usize,
        horner_step: i64,
    ) -> PyResult<Vec<Ciphertext>> {
        cts.iter().try_for_each(|c| self.check(c))?;
        let lowest = cts.iter().map(|c| self.level_of(c)).min().unwrap_or(0);
        self.need("linear", lowest, 1)?;
        let transform = transform(&vectors, &terms, n_outputs, horner_step)?;
        let inputs: Vec<&Ciphertext> = cts.iter().map(|c| &**c).collect();
        self.many(py, &inputs, &Operation::Linear(&transform))
    }

    /// Chebyshev series on [-1, 1].
    fn poly(
        &self,
        py: Python<'_>,
        a: &Ciphertext,
        coeffs: PyReadonlyArray1<'_, Complex64>,
    ) -> PyResult<Ciphertext> {
        let c = coeffs.as_slice()?.to_vec();
        let degree = c.iter().rposition(|x| x.norm() > 0.0).unwrap_or(0);
        let depth = tacita_ckks::polynomial::depth(degree) as i64;
        self.need("poly", self.level_of(a), depth)?;
        self.one(py, &[a], &Operation::Chebyshev(&c))
    }

    fn drop_to(&self, py: Python<'_>, a: &Ciphertext, level: usize) -> PyResult<Ciphertext> {
        let native = native_level("drop_to", self.params(), level)?;
        if native > a.inner.level() {
            return Err(LevelError::new_err(format!(
                "drop_to: level {level} is above level {} of the operand; hint: bootstrap it",
                self.level_of(a)
            )));
        }
        self.one(py, &[a], &Operation::DropTo(native))
    }

    /// Best milliseconds of one rescale of `a` (benchmarks only: the contract's products rescale by
    /// themselves).
    fn rescale_ms(&self, py: Python<'_>, a: &Ciphertext, repeats: usize) -> PyResult<f64> {
        self.need("rescale", self.level_of(a), 1)?;
        let side = self.sides.on_processor("rescale_ms")?;
        let best = self.run(py, || {
            let a = a.inner.here()?;
            side.rescale_time(&a, repeats)
        })?;
        Ok(best.as_secs_f64() * 1e3)
    }
}

fn transform<'a>(
    vectors: &'a PyReadonlyArray2<'_, Complex64>,
    terms: &PyReadonlyArray2<'_, i32>,
    outputs: usize,
    horner_step: i64,
) -> PyResult<LinearTransform<'a>> {
    let vectors = rows(vectors);
    let index =
        |x: i32| usize::try_from(x).map_err(|_| TacitaError::new_err(format!("linear: negative index {x}")));
    let terms = terms
        .as_array()
        .outer_iter()
        .map(|t| {
            let row: Vec<i32> = t.to_vec();
            let [output, giant, input, baby, vector] = row[..] else {
                return Err(TacitaError::new_err("linear: terms need five columns"));
            };
            Ok(Term {
                output: index(output)?,
                giant: i64::from(giant),
                input: index(input)?,
                baby: i64::from(baby),
                vector: index(vector)?,
            })
        })
        .collect::<PyResult<Vec<_>>>()?;
    Ok(LinearTransform {
        vectors,
        terms,
        outputs,
        horner_step: (horner_step != 0).then_some(horner_step),
    })
}

/// The rows of an array: where they are, if it is in C order and aligned. The guard keeps the array and its
/// memory, also while the interpreter's lock is released: numpy resizes none that is referenced, unless it is
/// told not to check, and this crate writes to none that is guarded.
fn rows<'a>(array: &'a PyReadonlyArray2<'_, Complex64>) -> Vec<Cow<'a, [Complex64]>> {
    match (array.as_slice(), array.shape()[1]) {
        (Ok(all), period @ 1..) if array.is_c_contiguous() => {
            all.chunks_exact(period).map(Cow::from).collect()
        }
        _ => array.as_array().outer_iter().map(|v| v.to_vec().into()).collect(),
    }
}
