//! Errors of this crate. None of them carries key or plaintext material.
use thiserror::Error;

/// What can go wrong with keys, ciphertexts and responses.
#[derive(Debug, Error)]
pub enum BfvError {
    /// Bytes from outside that are no such object.
    #[error("{op}: {detail}; do both sides run the same version and plan?")]
    Bytes {
        /// What was being read.
        op: &'static str,
        /// Expected against found.
        detail: String,
    },
    /// Arguments that do not fit together.
    #[error("{op}: {detail}")]
    Shape {
        /// The operation.
        op: &'static str,
        /// The clashing values.
        detail: String,
    },
    /// The lattice layer.
    #[error(transparent)]
    Rlwe(#[from] tacita_rlwe::RlweError),
    /// Randomness and ring tables.
    #[error(transparent)]
    Ring(#[from] tacita_ring::RingError),
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, BfvError>;

/// Fails unless `bytes` has `expected` bytes.
pub(crate) fn check_len(op: &'static str, bytes: &[u8], expected: usize) -> Result<()> {
    if bytes.len() == expected {
        return Ok(());
    }
    let detail = format!("{} bytes where {expected} were expected", bytes.len());
    Err(BfvError::Bytes { op, detail })
}
