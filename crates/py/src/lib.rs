//! `tacita._native`: the engine as Python sees it. Conversions, GIL release and error mapping; one file per class.
//!
//! Client half: [`secret`] (secret keys, key generation, encryption, decryption). Server half: [`keys`], [`evaluator`].
#![forbid(unsafe_code)]

mod bench;
mod ciphertext;
mod error;
mod evaluator;
mod keys;
mod matmul;
mod parameters;
mod products;
mod secret;
mod secret_file;

use pyo3::prelude::*;

#[pymodule]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    error::register(m)?;
    m.add_class::<parameters::Parameters>()?;
    m.add_class::<ciphertext::Ciphertext>()?;
    m.add_class::<keys::EvaluationKeys>()?;
    m.add_class::<evaluator::Evaluator>()?;
    m.add_class::<products::Products>()?;
    m.add_class::<secret::SecretKey>()?;
    m.add_function(wrap_pyfunction!(secret::keygen, m)?)?;
    m.add_function(wrap_pyfunction!(secret::encrypt, m)?)?;
    m.add_function(wrap_pyfunction!(bench::yardstick_ms, m)?)?;
    m.add_function(wrap_pyfunction!(bench::ntt_ms, m)?)?;
    m.add_function(wrap_pyfunction!(bench::simd_path, m)?)?;
    Ok(())
}
