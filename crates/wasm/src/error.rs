//! What can go wrong in a client. No text carries what was asked, a share or a key.
use tacita_mpc::MpcError;
use thiserror::Error;

/// Errors of a session.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The program, the public part or the tokenizer is not what this release reads.
    #[error("{what}: {detail}; reload the page, or ask who serves it")]
    Damaged {
        /// Which of them.
        what: &'static str,
        /// What is wrong with it.
        detail: String,
    },
    /// The text cannot be asked about.
    #[error("{0}")]
    Text(String),
    /// The server says no.
    #[error("{0}")]
    Refused(String),
    /// The other side is not a server of this release.
    #[error("{0}")]
    Peer(String),
    /// The engine, or what its bytes go to.
    #[error("{0}")]
    Engine(String),
    /// The channel or a protocol.
    #[error(transparent)]
    Protocol(#[from] MpcError),
}

impl ClientError {
    /// What an engine's crate says.
    pub(crate) fn engine(error: impl std::fmt::Display) -> Self {
        Self::Engine(error.to_string())
    }
}

/// Result of a step.
pub type Result<T> = std::result::Result<T, ClientError>;

/// That the text cannot be asked about.
pub(crate) fn unasked<T>(said: impl Into<String>) -> Result<T> {
    Err(ClientError::Text(said.into()))
}

/// That the other side does not keep to the protocol.
pub(crate) fn strange<T>(said: impl Into<String>) -> Result<T> {
    Err(ClientError::Peer(said.into()))
}

/// That this is not what this release reads.
pub(crate) fn damaged<T>(what: &'static str, detail: impl Into<String>) -> Result<T> {
    Err(ClientError::Damaged {
        what,
        detail: detail.into(),
    })
}
