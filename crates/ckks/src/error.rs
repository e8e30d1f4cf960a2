//! Errors of the CKKS layer.
use tacita_rlwe::RlweError;
use thiserror::Error;

/// What can go wrong in homomorphic evaluation.
#[derive(Debug, Error)]
pub enum CkksError {
    /// Not enough levels left.
    #[error("{op}: needs {needed} more level(s) at level {level}; hint: bootstrap the operand first")]
    Level {
        /// The operation.
        op: &'static str,
        /// Level of the operand, in rescalings left (user levels).
        level: i64,
        /// Levels that the operation uses.
        needed: usize,
    },
    /// Operands that do not fit together, or values out of range.
    #[error("{op}: {detail}")]
    Shape {
        /// The operation.
        op: &'static str,
        /// The clashing values and a hint.
        detail: String,
    },
    /// A device that failed, or has too little memory.
    #[error("{0}")]
    Device(Box<dyn std::error::Error + Send + Sync>),
    /// Errors from below: missing keys, parameters, randomness.
    #[error(transparent)]
    Rlwe(#[from] RlweError),
}

impl From<tacita_ring::RingError> for CkksError {
    fn from(e: tacita_ring::RingError) -> Self {
        Self::Rlwe(e.into())
    }
}
