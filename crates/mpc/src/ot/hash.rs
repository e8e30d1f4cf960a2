//! The correlation-robust hash H(x) = pi(sigma(x)) + sigma(x), with pi AES-128 under a public key and the
//! linear orthomorphism sigma(l, r) = (l + r, l): "MMO^" of Guo, Katz, Wang, Yu, *Efficient and Secure
//! Multiparty Computation from Fixed-Key Block Ciphers* (2020), section 7.3. It is circular correlation
//! robust for a random permutation pi.
//!
//! One key for everything would give whoever evaluates pi alone as many targets at once as a session has
//! transfers. So no key serves more than [`MOST`] hashes: every tree and every group of pads has one of its
//! own, as Guo, Katz, Wang, Weng, Yu, *Better Concrete Security for Half-Gates Garbling (in the
//! Multi-Instance Setting)* (2020) do for gates. An evaluation of AES under one key says nothing about
//! another (ideal cipher). Keys are blocks of AES in counter mode under a public seed of the session, which
//! both parties' base transfers make unpredictable before it begins ([`super::base::BaseKeys`]). No tweak:
//! under one key every input is another block of a COT that is used once.
use super::cipher::Cipher;
#[cfg(target_arch = "x86_64")]
use super::vaes::{self, Keys};
use crate::Role;

/// Hashes that one key serves at most: a key schedule costs about as much as 16 of them.
pub(super) const MOST: usize = 1024;

/// Blocks hashed at once.
const BATCH: usize = 16;

/// What keys are for: streams of different keys.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    /// The small trees of SoftSpoken: one key.
    Leaves = 1,
    /// Ferret's trees, numbered through the session.
    Trees = 2,
    /// Pads, numbered by the COT with which a group begins.
    Pads = 3,
}

/// The keys of one direction and purpose.
pub(super) struct HashKeys(Cipher);

impl HashKeys {
    /// Those of the direction in which `sender` sends. `session`: public, equal at both parties, of this
    /// session alone.
    pub(super) fn new(session: &[u8; 32], sender: Role, purpose: Purpose) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("tacita keys of the correlation-robust hash");
        hasher.update(session);
        hasher.update(&[u8::from(sender == Role::Server), purpose as u8]);
        let mut seed = [0; 16];
        hasher.finalize_xof().fill(&mut seed);
        Self(Cipher::new(u128::from_le_bytes(seed)))
    }

    /// The hash with this number.
    pub(super) fn at(&self, number: u64) -> Hash {
        let mut key = [u128::from(number)];
        self.0.encrypt(&mut key);
        Hash::new(key[0].to_le_bytes())
    }
}

/// H under one key.
#[allow(clippy::large_enum_variant)] // one at a time, on the stack: a box would cost more than the copy
pub(super) enum Hash {
    #[cfg(target_arch = "x86_64")]
    Fast(Keys),
    Portable(Cipher),
}

/// sigma(l, r) = (l + r, l); sigma(x) + x is a permutation too.
const fn sigma(x: u128) -> u128 {
    (x << 64) ^ (x >> 64) ^ (x >> 64 << 64)
}

impl Hash {
    fn new(key: [u8; 16]) -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(keys) = Keys::new(u128::from_le_bytes(key)) {
            return Self::Fast(keys);
        }
        Self::Portable(Cipher::new(u128::from_le_bytes(key)))
    }

    /// Replaces every block by its hash.
    pub(super) fn hash_all(&self, blocks: &mut [u128]) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Fast(keys) => vaes::hash_all(keys, blocks),
            Self::Portable(pi) => hash_portable(pi, blocks),
        }
    }

    /// Grows one level of a tree in place: the nodes s in the lower half become H(s), those of the upper half
    /// s + H(s). Returns the sum of the lower half after.
    pub(super) fn expand(&self, nodes: &mut [u128]) -> u128 {
        let (low, high) = nodes.split_at_mut(nodes.len() / 2);
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Fast(keys) => vaes::expand(keys, low, high),
            Self::Portable(pi) => expand_portable(pi, low, high),
        }
    }
}

fn hash_portable(pi: &Cipher, blocks: &mut [u128]) {
    for batch in blocks.chunks_mut(BATCH) {
        let mut image = [0; BATCH];
        let image = &mut image[..batch.len()];
        for (out, x) in image.iter_mut().zip(batch.iter_mut()) {
            *x = sigma(*x);
            *out = *x;
        }
        pi.encrypt(image);
        for (x, y) in batch.iter_mut().zip(image) {
            *x ^= *y;
        }
    }
}

fn expand_portable(pi: &Cipher, low: &mut [u128], high: &mut [u128]) -> u128 {
    high.copy_from_slice(low);
    hash_portable(pi, low);
    low.iter().zip(high).fold(0, |sum, (l, h)| {
        *h ^= l;
        sum ^ l
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use aes::cipher::{BlockEncrypt, KeyInit};
    use aes::{Aes128Enc, Block};

    const KEY: [u8; 16] = *b"any key will do.";

    fn portable() -> Cipher {
        Cipher::new(u128::from_le_bytes(KEY))
    }

    #[test]
    fn the_hash_is_the_formula_at_every_length() {
        for count in [0usize, 1, 15, 16, 17, 40] {
            let inputs: Vec<u128> = (0..count as u128)
                .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
                .collect();
            let (mut hashed, mut slow) = (inputs.clone(), inputs.clone());
            Hash::new(KEY).hash_all(&mut hashed);
            hash_portable(&portable(), &mut slow);
            assert_eq!(hashed, slow, "both paths");
            for (&x, &h) in inputs.iter().zip(&hashed) {
                let (l, r) = ((x >> 64) as u64, x as u64);
                let s = (u128::from(l ^ r) << 64) | u128::from(l);
                let mut block = Block::from(s.to_le_bytes());
                Aes128Enc::new(&KEY.into()).encrypt_block(&mut block);
                assert_eq!(h, u128::from_le_bytes(block.into()) ^ s);
            }
        }
    }

    #[test]
    fn both_paths_grow_the_same_level() {
        for width in [1usize, 2, 8, 16, 17, 64] {
            let start: Vec<u128> = (0..2 * width as u128).map(|i| (i + 5).pow(9) << 40).collect();
            let (mut fast, mut slow) = (start.clone(), start.clone());
            let sum = Hash::new(KEY).expand(&mut fast);
            let (low, high) = slow.split_at_mut(width);
            assert_eq!(sum, expand_portable(&portable(), low, high));
            assert_eq!(fast, slow);
            assert_eq!(sum, fast[..width].iter().fold(0, |sum, node| sum ^ node));
            assert!((0..width).all(|i| fast[i] ^ fast[width + i] == start[i]));
        }
    }

    /// What one session, direction, purpose and number have in common with another: nothing.
    #[test]
    fn every_number_purpose_direction_and_session_has_another_key() {
        let mut images = std::collections::HashSet::new();
        for session in [[0u8; 32], [1; 32]] {
            for sender in [Role::Client, Role::Server] {
                for purpose in [Purpose::Leaves, Purpose::Trees, Purpose::Pads] {
                    for number in [0u64, 1, 1 << 40] {
                        let mut block = [7];
                        HashKeys::new(&session, sender, purpose)
                            .at(number)
                            .hash_all(&mut block);
                        images.insert(block[0]);
                    }
                }
            }
        }
        assert_eq!(images.len(), 2 * 2 * 3 * 3);
    }
}
