//! Errors of this crate. None of them carries key, plaintext or weights.
use thiserror::Error;

/// What can go wrong with coefficient products.
#[derive(Debug, Error)]
pub enum CoefficientError {
    /// Operands that do not fit together, or values out of range.
    #[error("{op}: {detail}")]
    Shape {
        /// The operation.
        op: &'static str,
        /// The clashing values and a hint.
        detail: String,
    },
    /// The product.
    #[error(transparent)]
    Product(#[from] tacita_bfv::BfvError),
    /// Slots and coefficients.
    #[error(transparent)]
    Ckks(#[from] tacita_ckks::CkksError),
    /// Ring switching.
    #[error(transparent)]
    Rlwe(#[from] tacita_rlwe::RlweError),
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, CoefficientError>;
