//! `tacita._native`: the engine as Python sees it. Conversions, GIL release and error mapping; one file per
//! class.
//!
//! Batch modes. Client half: [`secret`] (secret keys, key generation, encryption, decryption). Server half:
//! [`keys`], [`evaluator`]. Two-party mode, both halves: [`two_party`].
#![forbid(unsafe_code)]

mod bench;
mod bootstrap;
mod ciphertext;
mod coefficients;
mod error;
mod evaluator;
mod keys;
mod matmul;
mod opencl;
mod parameters;
mod products;
mod secret;
mod secret_file;
mod side;
mod small_keys;
mod two_party;
mod two_party_arrays;
mod two_party_compare;
mod two_party_connect;
mod two_party_linear;
mod two_party_link;
mod two_party_listener;
mod two_party_local;
mod two_party_nonlinear;
mod two_party_prepared;
mod two_party_products;
mod two_party_setup;
mod two_party_table;

use numpy::PyArray1;
use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;

/// Loads numpy and its C interface. The interface is asked for on another thread: Python raises
/// KeyboardInterrupt in the main thread alone, and numpy's crate answers one there with a panic.
fn load_numpy(py: Python<'_>) -> PyResult<()> {
    PyModule::import(py, "numpy")?; // what takes long can be interrupted
    py.detach(|| {
        std::thread::spawn(|| Python::attach(|py| drop(PyArray1::<f64>::zeros(py, 1, false)))).join()
    })
    .map_err(|_| PyImportError::new_err("numpy's C interface cannot be used; hint: install numpy 2 again"))
}

#[pymodule]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    tacita_ring::simd_path().map_err(|e| PyImportError::new_err(e.to_string()))?;
    load_numpy(m.py())?;
    error::register(m)?;
    m.add_class::<parameters::Parameters>()?;
    m.add_class::<ciphertext::Ciphertext>()?;
    m.add_class::<keys::EvaluationKeys>()?;
    m.add_class::<evaluator::Evaluator>()?;
    m.add_class::<products::Products>()?;
    m.add_class::<secret::SecretKey>()?;
    m.add_class::<coefficients::CoefficientKeys>()?;
    m.add_class::<coefficients::CoefficientWeights>()?;
    m.add_class::<coefficients::CoefficientBlocks>()?;
    m.add_class::<coefficients::Coefficients>()?;
    m.add_function(wrap_pyfunction!(coefficients::coefficient_rotations, m)?)?;
    m.add("PHASE", tacita_ckks::bootstrap::refresh::PHASE)?;
    m.add_class::<two_party::TwoParty>()?;
    m.add_class::<two_party_listener::TwoPartyListener>()?;
    m.add_class::<two_party_listener::TwoPartyArrival>()?;
    m.add_class::<two_party_prepared::PreparedProduct>()?;
    m.add_class::<two_party_table::TableServer>()?;
    m.add_class::<two_party_table::TableClient>()?;
    m.add_function(wrap_pyfunction!(two_party_table::table_bytes, m)?)?;
    m.add_function(wrap_pyfunction!(two_party_linear::product_cost, m)?)?;
    m.add_function(wrap_pyfunction!(two_party_connect::two_party_pair, m)?)?;
    m.add_function(wrap_pyfunction!(two_party_connect::generate_certificate, m)?)?;
    m.add_function(wrap_pyfunction!(two_party_connect::certificate_fingerprint, m)?)?;
    m.add_function(wrap_pyfunction!(two_party_connect::certificate_problem, m)?)?;
    m.add_function(wrap_pyfunction!(two_party_listener::share_threads, m)?)?;
    m.add_function(wrap_pyfunction!(secret::keygen, m)?)?;
    m.add_function(wrap_pyfunction!(secret::evaluation_keys, m)?)?;
    m.add_function(wrap_pyfunction!(secret::encrypt, m)?)?;
    m.add_function(wrap_pyfunction!(bench::yardstick_ms, m)?)?;
    m.add_function(wrap_pyfunction!(bench::ntt_ms, m)?)?;
    m.add_function(wrap_pyfunction!(bench::hot_kernels_ms, m)?)?;
    m.add_function(wrap_pyfunction!(bench::limb_tasks, m)?)?;
    m.add_function(wrap_pyfunction!(bench::simd_path, m)?)?;
    m.add_function(wrap_pyfunction!(bench::commit, m)?)?;
    m.add_class::<opencl::OpenclBootstrap>()?;
    m.add_function(wrap_pyfunction!(opencl::opencl_devices, m)?)?;
    m.add_function(wrap_pyfunction!(opencl::opencl_room, m)?)?;
    m.add_function(wrap_pyfunction!(opencl::opencl_verify, m)?)?;
    Ok(())
}
