//! Parameters as an immutable Python object.
use crate::error;
use pyo3::prelude::*;
use tacita_ckks::{bootstrap, CkksParameters};

/// Bits of security below which a preset must be asked for.
const MIN_SECURITY_BITS: u32 = 128;
/// The failure of presets that do not bootstrap.
const NO_BOOTSTRAP: f64 = -1024.0;

/// A preset of the engine. Levels are user levels: rescalings left, 0..=max_level.
#[pyclass(frozen, module = "tacita._native")]
pub struct Parameters(pub CkksParameters);

#[pymethods]
impl Parameters {
    /// The preset of this name. Raises ParameterError for an unknown one, and for one below 128 bits of
    /// security unless `allow_insecure` is true: for tests.
    #[staticmethod]
    #[pyo3(signature = (name, *, allow_insecure = false))]
    fn preset(name: &str, allow_insecure: bool) -> PyResult<Self> {
        let found =
            CkksParameters::preset(name).map_err(|e| error::ParameterError::new_err(e.to_string()))?;
        let bits = found.rlwe().security_bits();
        if bits < MIN_SECURITY_BITS && !allow_insecure {
            return Err(error::ParameterError::new_err(format!(
                "preset {name} has {bits} bits of security, {MIN_SECURITY_BITS} are required; \
                 hint: allow_insecure=True in tests"
            )));
        }
        Ok(Self(found))
    }

    #[getter]
    fn name(&self) -> String {
        self.0.rlwe().name().to_owned()
    }
    #[getter]
    fn log_n(&self) -> u32 {
        self.0.rlwe().log_n()
    }
    #[getter]
    fn slots(&self) -> usize {
        self.0.slots()
    }
    #[getter]
    fn max_level(&self) -> i64 {
        self.0.user_level(self.0.top_level())
    }
    #[getter]
    fn log_qp(&self) -> f64 {
        self.0.rlwe().log_qp()
    }
    /// log2 of the ciphertext modulus of a refresh through a function of `depth` levels that ends at a user
    /// level: see `Coefficients.refresh`. Raises TacitaError where there are no such levels.
    fn refresh_log_q(&self, depth: usize, level: usize) -> PyResult<f64> {
        let out = native_level("refresh", &self.0, level)?;
        self.0
            .log_q_ending_at(out, depth)
            .map_err(|e| error::ckks(e.into()))
    }
    /// log2 of the canonical scale at the top level.
    #[getter]
    fn log_scale(&self) -> f64 {
        self.0.scale(self.0.top_level()).log2()
    }
    /// log2 of the canonical scale at a user level, the only one at which a request's ciphertexts are taken.
    /// Raises ParameterError for a level outside 0..=max_level.
    fn log_scale_at(&self, level: i64) -> PyResult<f64> {
        let top = self.max_level();
        if !(0..=top).contains(&level) {
            return Err(error::ParameterError::new_err(format!(
                "level {level}, the preset has 0 to {top}"
            )));
        }
        let below = (top - level) as usize;
        Ok(self.0.scale(self.0.top_level() - below).log2())
    }
    #[getter]
    fn security_bits(&self) -> u32 {
        self.0.rlwe().security_bits()
    }
    /// The secret's distribution.
    #[getter]
    fn secret(&self) -> &'static str {
        "uniform ternary"
    }
    /// Whether ciphertexts can be refreshed; if not, max_level is all there is.
    #[getter]
    fn can_bootstrap(&self) -> bool {
        self.0.can_bootstrap()
    }
    /// log2 of an upper bound on the probability that a bootstrap fails, computed from the parameters; -1000
    /// stands for that or less. Presets without bootstrapping have nothing to fail and say -1024, since files
    /// of JSON know no infinity.
    #[getter]
    fn failure_log2(&self) -> f64 {
        self.0.failure_log2().unwrap_or(NO_BOOTSTRAP)
    }
    #[getter]
    fn hash(&self) -> String {
        hex(self.0.rlwe().hash())
    }
    /// Bytes in memory of the evaluation keys that every plan has: those of bootstrapping, relinearisation,
    /// conjugation.
    #[getter]
    fn bootstrap_key_bytes(&self) -> usize {
        bootstrap::required_keys(&self.0)
            .iter()
            .map(|k| k.bytes(&self.0))
            .sum()
    }
    fn __repr__(&self) -> String {
        format!("{:?}", self.0.rlwe())
    }
}

/// The native level of a user level. Raises TacitaError, naming the operation, for one above the top.
pub fn native_level(op: &'static str, params: &CkksParameters, level: usize) -> PyResult<usize> {
    params.native_level(op, level).map_err(error::ckks)
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
