//! AES-128 encryption of many blocks under one key: the `aes` crate, or where processors have no instructions
//! for it, our own in vectors.
#[cfg(target_family = "wasm")]
use super::sliced::Sliced;
#[cfg(not(target_family = "wasm"))]
use aes::cipher::{BlockEncrypt, KeyInit};
#[cfg(not(target_family = "wasm"))]
use aes::{Aes128Enc, Block};

/// Blocks encrypted at once: enough to fill the AES pipeline, few enough for the registers and the stack.
#[cfg(not(target_family = "wasm"))]
const BATCH: usize = 16;

/// A key. Blocks are their sixteen bytes, the first the lowest.
#[cfg(not(target_family = "wasm"))]
pub(super) struct Cipher(Aes128Enc);
/// A key. Blocks are their sixteen bytes, the first the lowest.
#[cfg(target_family = "wasm")]
pub(super) struct Cipher(Sliced);

#[cfg(not(target_family = "wasm"))]
impl Cipher {
    pub(super) fn new(key: u128) -> Self {
        Self(Aes128Enc::new(&key.to_le_bytes().into()))
    }

    /// Encrypts every block.
    pub(super) fn encrypt(&self, blocks: &mut [u128]) {
        for batch in blocks.chunks_mut(BATCH) {
            let mut image = [Block::default(); BATCH];
            let image = &mut image[..batch.len()];
            for (out, x) in image.iter_mut().zip(batch.iter()) {
                *out = x.to_le_bytes().into();
            }
            self.0.encrypt_blocks(image);
            for (x, y) in batch.iter_mut().zip(image) {
                *x = u128::from_le_bytes((*y).into());
            }
        }
    }
}

#[cfg(target_family = "wasm")]
impl Cipher {
    pub(super) fn new(key: u128) -> Self {
        Self(Sliced::new(key))
    }

    /// Encrypts every block.
    pub(super) fn encrypt(&self, blocks: &mut [u128]) {
        self.0.encrypt(blocks);
    }
}
