//! The correlation-robust hash H(x) = pi(sigma(x)) + sigma(x), with pi AES-128 under a fixed public key and the linear
//! orthomorphism sigma(l, r) = (l + r, l): "MMO^" of Guo, Katz, Wang, Yu, *Efficient and Secure Multiparty Computation from
//! Fixed-Key Block Ciphers* (2020), section 7.3. It is circular correlation robust for a random permutation pi. No tweak: every input is a
//! block of a COT that is used once, so that inputs repeat with probability 2^-128 a pair only.
use aes::cipher::{BlockEncrypt, KeyInit};
use aes::{Aes128, Block};
use std::sync::OnceLock;

/// Any public constant; this one says what it is for.
const KEY: [u8; 16] = *b"tacita fixed key";

/// Blocks hashed at once: enough to fill the AES pipeline, few enough for the registers and the stack.
const BATCH: usize = 16;

fn permutation() -> &'static Aes128 {
    static PERMUTATION: OnceLock<Aes128> = OnceLock::new();
    PERMUTATION.get_or_init(|| Aes128::new(&KEY.into()))
}

/// sigma(l, r) = (l + r, l); sigma(x) + x is a permutation too.
const fn sigma(x: u128) -> u128 {
    (x << 64) ^ (x >> 64) ^ (x >> 64 << 64)
}

/// Replaces every block by its hash.
pub(super) fn hash_all(blocks: &mut [u128]) {
    let pi = permutation();
    for batch in blocks.chunks_mut(BATCH) {
        let mut image = [Block::default(); BATCH];
        let image = &mut image[..batch.len()];
        for (out, x) in image.iter_mut().zip(batch.iter_mut()) {
            *x = sigma(*x);
            *out = x.to_le_bytes().into();
        }
        pi.encrypt_blocks(image);
        for (x, y) in batch.iter_mut().zip(image) {
            *x ^= u128::from_le_bytes((*y).into());
        }
    }
}

/// Grows one level of a tree in place: the nodes s in the lower half become H(s), those of the upper half s + H(s). Returns the
/// sum of the lower half after.
pub(super) fn expand(nodes: &mut [u128]) -> u128 {
    let (low, high) = nodes.split_at_mut(nodes.len() / 2);
    high.copy_from_slice(low);
    hash_all(low);
    low.iter().zip(high).fold(0, |sum, (l, h)| {
        *h ^= l;
        sum ^ l
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_formula_at_every_length() {
        for count in [0usize, 1, 15, 16, 17, 40] {
            let inputs: Vec<u128> = (0..count as u128)
                .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
                .collect();
            let mut hashed = inputs.clone();
            hash_all(&mut hashed);
            for (&x, &h) in inputs.iter().zip(&hashed) {
                let (l, r) = ((x >> 64) as u64, x as u64);
                let s = (u128::from(l ^ r) << 64) | u128::from(l);
                let mut block = Block::from(s.to_le_bytes());
                permutation().encrypt_block(&mut block);
                assert_eq!(h, u128::from_le_bytes(block.into()) ^ s);
            }
        }
    }
}
