//! Keys: the client's secret and what follows from it for every plaintext prime.
use std::collections::HashMap;
use std::sync::Arc;
use tacita_bfv::slots::{Lifting, PublicKey, Secret, SecretKey};

/// What a party keeps between calls.
#[derive(Default)]
pub struct State {
    pub(super) secret: Option<Secret>,
    pub(super) ready: bool,
    /// Keys by plaintext prime.
    pub(super) keys: HashMap<u64, Arc<Key>>,
    pub(super) liftings: HashMap<(u32, u32), Arc<Lifting>>,
    /// Sum of the probabilities of all coefficients so far to be wrong.
    pub(super) failure: f64,
}

impl State {
    /// See [`Party::failure_log2`].
    pub(crate) fn failure_log2(&self) -> f64 {
        self.failure.log2()
    }
}

/// A party's key for one plaintext prime.
pub(super) enum Key {
    Client(SecretKey),
    Server(PublicKey),
}

impl Key {
    pub(super) fn secret(&self) -> Option<&SecretKey> {
        match self {
            Self::Client(secret) => Some(secret),
            Self::Server(_) => None,
        }
    }

    pub(super) fn public(&self) -> Option<&PublicKey> {
        match self {
            Self::Client(_) => None,
            Self::Server(public) => Some(public),
        }
    }
}

/// Elements of a ciphertext.
pub(super) const SLOTS: usize = 8192;
