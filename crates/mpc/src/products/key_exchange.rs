//! Keys as both parties come to hold them, each when it is first used.
use super::state::{Key, State, SLOTS};
use crate::{MpcError, Party, Result};
use std::sync::Arc;
use tacita_bfv::slots::{Lifting, PublicKey, Secret, SlotRing};

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
