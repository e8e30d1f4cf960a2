//! Primitives timed natively: the yardstick and one NTT, single-threaded, best of several.
use crate::error;
use pyo3::prelude::*;
use std::time::Instant;
use tacita_ring::{ntt_primes, AlignedVec, Modulus, NttTable};

/// Milliseconds of one scalar 64-bit Harvey NTT: the unit Y.
#[pyfunction]
pub fn yardstick_ms(py: Python<'_>, log_n: u32, repeats: usize) -> f64 {
    py.detach(|| tacita_ring::yardstick::yardstick_ms(log_n, repeats))
}

/// Milliseconds of one NTT of ours (one 50-bit limb).
#[pyfunction]
pub fn ntt_ms(py: Python<'_>, log_n: u32, repeats: usize) -> PyResult<f64> {
    py.detach(|| -> Result<f64, tacita_ring::RingError> {
        let p = ntt_primes(50.0, log_n + 1, 1, &[])?[0];
        let table = NttTable::new(Modulus::new(p)?, log_n)?;
        let mut x = AlignedVec::zeroed(1 << log_n);
        x.iter_mut().enumerate().for_each(|(i, v)| *v = i as f64);
        let mut best = f64::INFINITY;
        for _ in 0..repeats.max(1) {
            let start = Instant::now();
            table.forward(&mut x);
            best = best.min(start.elapsed().as_secs_f64() * 1e3);
        }
        Ok(best)
    })
    .map_err(|e| error::rlwe(e.into()))
}

/// The commit that was built, 12 hexadecimal digits; empty outside a clone.
#[pyfunction]
pub fn commit() -> &'static str {
    env!("TACITA_COMMIT")
}

/// Which implementation of the kernels is in force: scalar, avx2 or avx512.
#[pyfunction]
pub fn simd_path() -> PyResult<&'static str> {
    let path = tacita_ring::simd_path().map_err(|e| error::rlwe(e.into()))?;
    Ok(path.name())
}
