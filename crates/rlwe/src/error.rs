//! Errors of the RLWE layer. None of them carries key or plaintext material.
use thiserror::Error;

/// What can go wrong below CKKS.
#[derive(Debug, Error)]
pub enum RlweError {
    /// A parameter literal that cannot be built.
    #[error("parameters: {0}")]
    Parameters(String),
    /// Parameters whose modulus is too large for 128 bits and that do not say so in their name.
    #[error(
        "parameters: log2(QP) = {log_qp:.1} at N = 2^{log_n} exceeds {limit:.0} bits, the 128-bit limit \
        for a uniform ternary secret; hint: shorten the chain, or name the preset insecure_*"
    )]
    Insecure {
        /// log2 of the ring degree.
        log_n: u32,
        /// log2 of the whole modulus.
        log_qp: f64,
        /// The limit of the table.
        limit: f64,
    },
    /// Operands that do not fit together.
    #[error("{op}: {detail}")]
    Shape {
        /// The operation.
        op: &'static str,
        /// The clashing values.
        detail: String,
    },
    /// An evaluation key that was not made, or made for lower levels only.
    #[error("missing key: {0}; hint: the plan's key list must contain it, run keygen again with that plan")]
    MissingKey(String),
    /// An error of the ring layer.
    #[error(transparent)]
    Ring(#[from] tacita_ring::RingError),
}
