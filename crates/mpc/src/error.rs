//! What can go wrong between two parties. No variant ever carries a share, a key or a plaintext.
use thiserror::Error;

/// Errors of channels and protocols.
#[derive(Debug, Error)]
pub enum MpcError {
    /// The peer closed the connection.
    #[error("{op}: the peer closed the connection; both sides must be started again")]
    Closed {
        /// What was being done.
        op: &'static str,
    },
    /// The peer sent nothing for too long.
    #[error("{op}: the peer was silent for {seconds} s; raise --timeout when its machine is slow")]
    Timeout {
        /// What was being done.
        op: &'static str,
        /// Seconds waited.
        seconds: f64,
    },
    /// What a step may take in all is over, however busy the peer was.
    #[error("{op}: the time that this may take in all is over")]
    Late {
        /// What was being done.
        op: &'static str,
    },
    /// The peer's message is not what the protocol expects here.
    #[error("{op}: {detail}; do both sides run the same version and plan?")]
    Message {
        /// What was being done.
        op: &'static str,
        /// Expected against found.
        detail: String,
    },
    /// Arguments of an operation that do not fit together.
    #[error("{op}: {detail}")]
    Shape {
        /// The operation.
        op: &'static str,
        /// The values that clash.
        detail: String,
    },
    /// Operating system or TLS.
    #[error("{op}: {detail}")]
    Io {
        /// What was being done.
        op: &'static str,
        /// The system's words.
        detail: String,
    },
    /// The lattice layer.
    #[error(transparent)]
    Rlwe(#[from] tacita_rlwe::RlweError),
    /// Encrypted products.
    #[error(transparent)]
    Bfv(#[from] tacita_bfv::BfvError),
    /// Randomness and ring tables.
    #[error(transparent)]
    Ring(#[from] tacita_ring::RingError),
}

/// Result of a protocol step.
pub type Result<T> = std::result::Result<T, MpcError>;
