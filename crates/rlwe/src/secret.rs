//! Secret keys. Zeroised on drop; no `Debug`, no `Clone`, no serialisation: the client's key file is written
//! from [`SecretKey::coefficients`] by the wire crate's secret-key type alone.
use crate::{Parameters, RnsPoly};
use tacita_ring::sample;
use zeroize::Zeroize;

/// Weight of the sparse secret that bootstrapping switches to (Bossuat, Troncoso-Pastoriza, Hubaux, ePrint
/// 2022/024): it bounds the multiples of q0 after mod-raise.
pub const SPARSE_WEIGHT: usize = 32;

/// A ternary secret with its NTT form over all primes.
pub struct SecretKey {
    coefficients: Vec<i8>,
    ntt: RnsPoly,
}

impl SecretKey {
    /// Uniform ternary secret from the operating system's randomness.
    ///
    /// # Errors
    /// When the operating system gives no randomness.
    pub fn generate(params: &Parameters) -> Result<Self, crate::RlweError> {
        let mut prng = sample::Prng::from_os()?;
        Ok(Self::from_coefficients(
            params,
            sample::ternary(&mut prng, params.n()),
        ))
    }

    /// Sparse ternary secret of weight [`SPARSE_WEIGHT`]; used only inside key generation for bootstrapping.
    ///
    /// # Errors
    /// When the operating system gives no randomness.
    pub fn generate_sparse(params: &Parameters) -> Result<Self, crate::RlweError> {
        let mut prng = sample::Prng::from_os()?;
        let h = SPARSE_WEIGHT.min(params.n() / 2);
        Ok(Self::from_coefficients(
            params,
            sample::sparse_ternary(&mut prng, params.n(), h),
        ))
    }

    /// From ternary coefficients (the wire crate's loader, tests).
    pub fn from_coefficients(params: &Parameters, coefficients: Vec<i8>) -> Self {
        let mut wide: Vec<i64> = coefficients.iter().map(|&c| i64::from(c)).collect();
        let ntt = RnsPoly::from_small(params, &wide, params.q_len(), params.p_len());
        wide.zeroize();
        Self { coefficients, ntt }
    }

    /// The ternary coefficients: secret material.
    pub fn coefficients(&self) -> &[i8] {
        &self.coefficients
    }

    /// NTT form over all primes.
    pub fn ntt(&self) -> &RnsPoly {
        &self.ntt
    }

    /// The secret after X -> X^g, as a key of its own.
    pub fn automorphism(&self, params: &Parameters, galois: u64) -> Self {
        let n = params.n();
        let mut out = vec![0i8; n];
        for (i, &c) in self.coefficients.iter().enumerate() {
            let e = (i as u64 * galois) % (2 * n as u64);
            if e < n as u64 {
                out[e as usize] = c;
            } else {
                out[e as usize - n] = -c;
            }
        }
        Self::from_coefficients(params, out)
    }
}

impl Drop for SecretKey {
    fn drop(&mut self) {
        self.coefficients.zeroize();
        self.ntt.wipe();
    }
}
