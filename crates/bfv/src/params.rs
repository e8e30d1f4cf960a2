//! The parameters of the two-party lattice protocols.
use crate::Result;
use std::sync::OnceLock;
use tacita_ring::ntt_primes;
use tacita_rlwe::{Parameters, ParametersLiteral};

/// log2 of the ring degree.
pub const LOG_N: u32 = 13;
/// Ring degree.
pub const N: usize = 1 << LOG_N;
/// Ciphertext primes of a narrow ciphertext: q of 98 bits.
pub const NARROW: usize = 2;
/// Ciphertext primes of a wide ciphertext: q of 147 bits.
pub const WIDE: usize = 3;

/// N = 8192, three ciphertext primes and one special prime next to 2^49: log2(QP) = 196 <= 214, the 128-bit
/// limit of the table that CKKS is checked by. Ciphertexts use the first two primes (`NARROW`) unless the
/// noise asks for all three; one secret serves both, and a key made for all primes switches narrow
/// ciphertexts too. Cheap after the first call.
///
/// # Errors
/// Never in practice: the primes exist and pass the table.
pub fn parameters_olt() -> Result<Parameters> {
    static MADE: OnceLock<Parameters> = OnceLock::new();
    if let Some(params) = MADE.get() {
        return Ok(params.clone());
    }
    let primes = ntt_primes(49.0, LOG_N + 1, WIDE + 1, &[])?;
    let params = Parameters::new(ParametersLiteral {
        name: "two_party_8192".into(),
        log_n: LOG_N,
        q: primes[..WIDE].to_vec(),
        p: primes[WIDE..].to_vec(),
        digit_limbs: 1,
    })?;
    Ok(MADE.get_or_init(|| params).clone())
}

/// log2 of the product of the first `limbs` ciphertext primes.
pub fn log_q(params: &Parameters, limbs: usize) -> f64 {
    params.q()[..limbs].iter().map(|&q| (q as f64).log2()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_pass_the_security_table() {
        let params = parameters_olt().unwrap();
        assert_eq!(params.security_bits(), 128);
        assert!(params.log_qp() < 196.1 && params.n() == N);
        assert!((log_q(&params, NARROW) - 98.0).abs() < 0.01);
    }
}
