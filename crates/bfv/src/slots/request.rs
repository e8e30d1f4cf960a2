//! The key holder's half: encrypted slots.
use super::{code, keys, SecretKey, SlotRing};
use tacita_ring::AlignedVec;
use tacita_rlwe::RlweError;

/// Encrypts one polynomial of slots (canonical modulo t) under the secret key: a seeded ciphertext in bytes.
/// Cost: one transform modulo t, one NTT and one uniform limb per ciphertext prime.
///
/// # Errors
/// When the operating system gives no randomness.
pub fn encrypt(ring: &SlotRing, secret: &SecretKey, slots: AlignedVec) -> Result<Vec<u8>, RlweError> {
    keys::encrypt_residues(ring, secret, code::scaled_residues(ring, slots))
}

/// A ciphertext as the evaluator keeps it: NTT form, 1 MiB with four primes' pairs.
pub struct EncryptedSlots {
    pub(super) b: Vec<AlignedVec>,
    pub(super) a: Vec<AlignedVec>,
}

impl EncryptedSlots {
    /// Bytes of a ciphertext on the wire.
    pub fn bytes_len(ring: &SlotRing) -> usize {
        keys::encrypted_len(ring)
    }

    /// Reads what [`encrypt`] wrote; `None` unless it has [`EncryptedSlots::bytes_len`] bytes and canonical
    /// residues.
    pub fn from_bytes(ring: &SlotRing, bytes: &[u8]) -> Option<Self> {
        let [b, a] = keys::read(ring, bytes)?;
        Some(Self { b, a })
    }
}
