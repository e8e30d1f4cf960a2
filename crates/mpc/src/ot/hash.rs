//! The correlation-robust hash H(x) = pi(sigma(x)) + sigma(x), with pi AES-128 under a fixed public key and the linear
//! orthomorphism sigma(l, r) = (l + r, l): "MMO^" of Guo, Katz, Wang, Yu, *Efficient and Secure Multiparty Computation from
//! Fixed-Key Block Ciphers* (2020), section 7.3. It is circular correlation robust for a random permutation pi. No tweak: every input is a
//! block of a COT that is used once, so that inputs repeat with probability 2^-128 a pair only.
#[cfg(target_arch = "x86_64")]
use super::vaes::{self, Keys};
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

#[cfg(target_arch = "x86_64")]
fn fast_keys() -> Option<&'static Keys> {
    static KEYS: OnceLock<Option<Keys>> = OnceLock::new();
    KEYS.get_or_init(|| Keys::new(u128::from_le_bytes(KEY))).as_ref()
}

/// Replaces every block by its hash.
pub(super) fn hash_all(blocks: &mut [u128]) {
    #[cfg(target_arch = "x86_64")]
    if let Some(keys) = fast_keys() {
        return vaes::hash_all(keys, blocks);
    }
    hash_portable(blocks);
}

fn hash_portable(blocks: &mut [u128]) {
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
    #[cfg(target_arch = "x86_64")]
    if let Some(keys) = fast_keys() {
        return vaes::expand(keys, low, high);
    }
    expand_portable(low, high)
}

fn expand_portable(low: &mut [u128], high: &mut [u128]) -> u128 {
    high.copy_from_slice(low);
    hash_portable(low);
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
            let (mut hashed, mut portable) = (inputs.clone(), inputs.clone());
            hash_all(&mut hashed);
            hash_portable(&mut portable);
            assert_eq!(hashed, portable, "both paths");
            for (&x, &h) in inputs.iter().zip(&hashed) {
                let (l, r) = ((x >> 64) as u64, x as u64);
                let s = (u128::from(l ^ r) << 64) | u128::from(l);
                let mut block = Block::from(s.to_le_bytes());
                permutation().encrypt_block(&mut block);
                assert_eq!(h, u128::from_le_bytes(block.into()) ^ s);
            }
        }
    }

    #[test]
    fn both_paths_grow_the_same_level() {
        for width in [1usize, 2, 8, 16, 17, 64] {
            let start: Vec<u128> = (0..2 * width as u128).map(|i| (i + 5).pow(9) << 40).collect();
            let (mut fast, mut portable) = (start.clone(), start.clone());
            let sum = expand(&mut fast);
            let (low, high) = portable.split_at_mut(width);
            assert_eq!(sum, expand_portable(low, high));
            assert_eq!(fast, portable);
            assert_eq!(sum, fast[..width].iter().fold(0, |sum, node| sum ^ node));
            assert!((0..width).all(|i| fast[i] ^ fast[width + i] == start[i]));
        }
    }
}
