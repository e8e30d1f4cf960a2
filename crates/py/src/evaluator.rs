//! The evaluator behind the Backend contract: user levels, automatic alignment, a thread pool of its own.
use crate::ciphertext::Ciphertext;
use crate::error::{self, LevelError, TacitaError};
use crate::keys::EvaluationKeys;
use crate::maps::Place;
use crate::parameters::{native_level, Parameters};
use crate::small_keys::SmallKeys;
use num_complex::Complex64;
use numpy::{PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use tacita_ckks::bootstrap::Bootstrapper;
use tacita_ckks::linear::{LinearTransform, Term};
use tacita_ckks::{CkksError, CkksParameters};
use tacita_wire::Owner;

pub(crate) type Handle<'py> = PyRef<'py, Ciphertext>;

/// Evaluates circuits on ciphertexts. Holds evaluation keys only. The matrices of bootstrapping are made when
/// they are first needed; they and the threads are shared with the evaluators made by `with_keys`.
#[pyclass(frozen, module = "tacita._native")]
pub struct Evaluator {
    pub(crate) inner: tacita_ckks::Evaluator,
    pub(crate) bootstrapper: Arc<OnceLock<Bootstrapper>>,
    pub(crate) pool: Arc<ThreadPool>,
    pub(crate) owner: Owner,
    pub(crate) small: Option<Arc<SmallKeys>>,
    pub(crate) maps: Arc<Place>,
}

impl Evaluator {
    fn params(&self) -> &CkksParameters {
        self.inner.params()
    }

    pub(crate) fn run<T: Send>(
        &self,
        py: Python<'_>,
        f: impl FnOnce() -> Result<T, CkksError> + Send,
    ) -> PyResult<T> {
        py.detach(|| self.pool.install(f)).map_err(error::ckks)
    }

    pub(crate) fn wrap(&self, inner: tacita_ckks::Ciphertext) -> Ciphertext {
        Ciphertext {
            inner,
            params: self.params().clone(),
            owner: self.owner,
            seed: None,
        }
    }

    fn unary(
        &self,
        py: Python<'_>,
        a: &Ciphertext,
        f: impl FnOnce(&tacita_ckks::Ciphertext) -> Result<tacita_ckks::Ciphertext, CkksError> + Send,
    ) -> PyResult<Ciphertext> {
        self.check(a)?;
        Ok(self.wrap(self.run(py, || f(&a.inner))?))
    }

    fn binary(
        &self,
        py: Python<'_>,
        a: &Ciphertext,
        b: &Ciphertext,
        f: impl FnOnce(
                &tacita_ckks::Ciphertext,
                &tacita_ckks::Ciphertext,
            ) -> Result<tacita_ckks::Ciphertext, CkksError>
            + Send,
    ) -> PyResult<Ciphertext> {
        self.check(a)?;
        self.check(b)?;
        let out = self.run(py, || {
            let (x, y) = self.inner.align(&a.inner, &b.inner)?;
            f(&x, &y)
        })?;
        Ok(self.wrap(out))
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
    /// are (a container's share of them counts) would only take them from each other.
    #[new]
    #[pyo3(signature = (params, keys = None, threads = 0))]
    fn new(params: &Parameters, keys: Option<PyRef<'_, EvaluationKeys>>, threads: usize) -> PyResult<Self> {
        let pool = ThreadPoolBuilder::new()
            .num_threads(match (threads, std::thread::available_parallelism()) {
                (0, Ok(cores)) => cores.get(),
                (threads, Ok(cores)) => threads.min(cores.get()),
                (threads, Err(_)) => threads,
            })
            .build()
            .map_err(|e| TacitaError::new_err(format!("evaluator: no thread pool ({e})")))?;
        let held = keys.as_ref().map(|k| k.inner.clone()).unwrap_or_default();
        Ok(Self {
            inner: tacita_ckks::Evaluator::new(params.0.clone(), held),
            bootstrapper: Arc::new(OnceLock::new()),
            pool: Arc::new(pool),
            owner: keys.as_ref().map(|k| k.owner).unwrap_or_default(),
            small: keys.and_then(|k| k.small.clone()),
            maps: Arc::default(),
        })
    }

    /// An evaluator over another client's keys, with the same threads and matrices.
    fn with_keys(&self, keys: &EvaluationKeys) -> PyResult<Self> {
        if keys.parameters().rlwe().hash() != self.params().rlwe().hash() {
            return Err(error::ParameterError::new_err(
                "the evaluation keys and the evaluator have different parameters",
            ));
        }
        Ok(Self {
            inner: tacita_ckks::Evaluator::new(self.params().clone(), keys.inner.clone()),
            bootstrapper: self.bootstrapper.clone(),
            pool: self.pool.clone(),
            owner: keys.owner,
            small: keys.small.clone(),
            maps: self.maps.clone(),
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
        self.binary(py, a, b, |x, y| self.inner.add(x, y))
    }
    fn sub(&self, py: Python<'_>, a: &Ciphertext, b: &Ciphertext) -> PyResult<Ciphertext> {
        self.binary(py, a, b, |x, y| self.inner.sub(x, y))
    }
    fn neg(&self, py: Python<'_>, a: &Ciphertext) -> PyResult<Ciphertext> {
        self.unary(py, a, |x| self.inner.neg(x))
    }
    fn add_const(&self, py: Python<'_>, a: &Ciphertext, c: Complex64) -> PyResult<Ciphertext> {
        self.unary(py, a, |x| self.inner.add_constant(x, c))
    }
    fn add_vector(
        &self,
        py: Python<'_>,
        a: &Ciphertext,
        v: PyReadonlyArray1<'_, Complex64>,
    ) -> PyResult<Ciphertext> {
        let v = v.as_slice()?.to_vec();
        self.unary(py, a, |x| self.inner.add_vector(x, &v))
    }
    fn mul(&self, py: Python<'_>, a: &Ciphertext, b: &Ciphertext) -> PyResult<Ciphertext> {
        self.need("mul", self.level_of(a).min(self.level_of(b)), 1)?;
        self.binary(py, a, b, |x, y| self.inner.mul(x, y))
    }
    fn square(&self, py: Python<'_>, a: &Ciphertext) -> PyResult<Ciphertext> {
        self.need("square", self.level_of(a), 1)?;
        self.unary(py, a, |x| self.inner.mul(x, x))
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
        let (level, scale) = (lowest.inner.level(), lowest.inner.scale);
        let inner: Vec<&tacita_ckks::Ciphertext> = all.iter().map(|c| &c.inner).collect();
        let out = self.run(py, || {
            let aligned = inner
                .iter()
                .map(|c| self.inner.aligned(c, level, scale))
                .collect::<Result<Vec<_>, _>>()?;
            let (a, b) = aligned.split_at(aligned.len() / 2);
            let pairs: Vec<_> = a.iter().zip(b).map(|(x, y)| (&**x, &**y)).collect();
            self.inner.dot(&pairs)
        })?;
        Ok(self.wrap(out))
    }
    fn mul_const(&self, py: Python<'_>, a: &Ciphertext, c: Complex64) -> PyResult<Ciphertext> {
        self.need("mul_const", self.level_of(a), 1)?;
        self.unary(py, a, |x| self.inner.mul_constant(x, c))
    }
    fn mul_int(&self, py: Python<'_>, a: &Ciphertext, k: i64) -> PyResult<Ciphertext> {
        self.unary(py, a, |x| self.inner.mul_integer(x, k))
    }
    fn mul_i(&self, py: Python<'_>, a: &Ciphertext) -> PyResult<Ciphertext> {
        self.unary(py, a, |x| self.inner.mul_i(x))
    }
    fn mul_vector(
        &self,
        py: Python<'_>,
        a: &Ciphertext,
        v: PyReadonlyArray1<'_, Complex64>,
    ) -> PyResult<Ciphertext> {
        self.need("mul_vector", self.level_of(a), 1)?;
        let v = v.as_slice()?.to_vec();
        self.unary(py, a, |x| self.inner.mul_vector(x, &v))
    }
    fn conjugate(&self, py: Python<'_>, a: &Ciphertext) -> PyResult<Ciphertext> {
        self.unary(py, a, |x| self.inner.conjugate(x))
    }
    fn rotate(&self, py: Python<'_>, a: &Ciphertext, k: i64) -> PyResult<Ciphertext> {
        self.unary(py, a, |x| self.inner.rotate(x, k))
    }
    fn rotate_many(&self, py: Python<'_>, a: &Ciphertext, ks: Vec<i64>) -> PyResult<Vec<Ciphertext>> {
        self.check(a)?;
        let out = self.run(py, || self.inner.rotate_many(&a.inner, &ks))?;
        Ok(out.into_iter().map(|c| self.wrap(c)).collect())
    }

    /// The slot-linear map of a LinearPlan. vectors: (n_vectors, period); terms: (n_terms, 5) = output,
    /// giant, input, baby, vector; horner_step 0 = none.
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
        let inputs: Vec<&tacita_ckks::Ciphertext> = cts.iter().map(|c| &c.inner).collect();
        let out = self.run(py, || self.inner.linear(&inputs, &transform))?;
        Ok(out.into_iter().map(|c| self.wrap(c)).collect())
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
        self.unary(py, a, |x| self.inner.chebyshev(x, &c, None))
    }

    fn drop_to(&self, py: Python<'_>, a: &Ciphertext, level: usize) -> PyResult<Ciphertext> {
        let native = native_level("drop_to", self.params(), level)?;
        if native > a.inner.level() {
            return Err(LevelError::new_err(format!(
                "drop_to: level {level} is above level {} of the operand; hint: bootstrap it",
                self.level_of(a)
            )));
        }
        self.unary(py, a, |x| self.inner.drop_to(x, native))
    }

    /// Best milliseconds of one rescale of `a` (benchmarks only: the contract's products rescale by
    /// themselves).
    fn rescale_ms(&self, py: Python<'_>, a: &Ciphertext, repeats: usize) -> PyResult<f64> {
        self.need("rescale", self.level_of(a), 1)?;
        self.run(py, || {
            let mut best = f64::INFINITY;
            for _ in 0..repeats.max(1) {
                let copy = a.inner.clone();
                let start = Instant::now();
                drop(self.inner.rescale(copy)?);
                best = best.min(start.elapsed().as_secs_f64() * 1e3);
            }
            Ok(best)
        })
    }
}

fn transform(
    vectors: &PyReadonlyArray2<'_, Complex64>,
    terms: &PyReadonlyArray2<'_, i32>,
    outputs: usize,
    horner_step: i64,
) -> PyResult<LinearTransform> {
    let vectors = vectors.as_array().outer_iter().map(|v| v.to_vec()).collect();
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
