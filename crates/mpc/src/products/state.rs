//! Keys: the client's secret and what follows from it for every plaintext prime.
use crate::{MpcError, Party, Result};
use std::collections::HashMap;
use std::sync::Arc;
use tacita_bfv::slots::{Lifting, PublicKey, Secret, SecretKey, SlotRing};

/// What a party keeps between calls.
#[derive(Default)]
pub struct State {
    secret: Option<Secret>,
    ready: bool,
    /// Keys by plaintext prime.
    keys: HashMap<u64, Arc<Key>>,
    liftings: HashMap<(u32, u32), Arc<Lifting>>,
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

pub(super) fn set_up(party: &mut Party) -> Result<()> {
    let secret = party.is_client().then(|| Secret::generate(SLOTS)).transpose()?;
    party.products = State {
        secret,
        ready: true,
        ..State::default()
    };
    Ok(())
}

/// How a ring's values travel; tables are made at first use.
pub(super) fn lifting(party: &mut Party, bits: u32, slack: u32) -> Result<Arc<Lifting>> {
    if let Some(found) = party.products.liftings.get(&(bits, slack)) {
        return Ok(found.clone());
    }
    let made = Arc::new(Lifting::new(bits, slack)?);
    party.products.liftings.insert((bits, slack), made.clone());
    Ok(made)
}

/// The key for a plaintext prime; at its first use the client sends the public key. Both parties call this in
/// the same order.
pub(super) fn key(party: &mut Party, ring: &SlotRing) -> Result<Arc<Key>> {
    let t = ring.t().p();
    if let Some(key) = party.products.keys.get(&t) {
        return Ok(key.clone());
    }
    if !party.products.ready {
        let detail = "setup_products was not called".to_owned();
        return Err(MpcError::Shape {
            op: "products",
            detail,
        });
    }
    let key = Arc::new(party.measured("product keys", |party| exchange(party, ring))?);
    party.products.keys.insert(t, key.clone());
    Ok(key)
}

/// The client's public key to the server.
fn exchange(party: &mut Party, ring: &SlotRing) -> Result<Key> {
    match party.products.secret.as_ref().map(|secret| secret.over(ring)) {
        Some(secret) => {
            party.send(&PublicKey::generate(ring, &secret)?)?;
            Ok(Key::Client(secret))
        }
        None => {
            let bytes = party.receive(PublicKey::bytes_len(ring))?;
            let public = PublicKey::from_bytes(ring, &bytes).ok_or_else(|| garbage("public key"))?;
            Ok(Key::Server(public))
        }
    }
}

pub(super) fn garbage(what: &str) -> MpcError {
    MpcError::Message {
        op: "products",
        detail: format!("a {what} with residues out of range"),
    }
}
