//! The public sparse matrix of the learning-parity problem: every output is the sum of 10 of the k inputs.
//!
//! The positions come from AES in counter mode under a public key, 12 of 21 bits per two blocks (k is a power of two up to 2^21), one stream
//! for all batches of a set: the matrix is fixed, as in Ferret, the secret and the noise are fresh.
use super::params::Set;
use crate::ot::prg::Stream;
use std::ops::BitXor;

/// Inputs per output: Ferret's d.
const D: usize = 10;
/// Outputs whose positions are drawn at once.
const CHUNK: usize = 64;

/// out[i] += sum of base[position], over the d positions of row i.
pub(super) fn encode<T: Copy + BitXor<Output = T>>(set: &Set, base: &[T], out: &mut [T]) {
    let mut stream = Stream::new(u128::from_le_bytes(*b"tacita LPN code ") ^ set.k as u128);
    let mask = set.k - 1;
    let mut words = [0u128; 2 * CHUNK];
    for outputs in out.chunks_mut(CHUNK) {
        stream.fill(&mut words);
        for (out, row) in outputs.iter_mut().zip(words.chunks_exact(2)) {
            *out = positions(row, mask).fold(*out, |sum, at| sum ^ base[at]);
        }
    }
}

/// The d positions that two blocks stand for.
fn positions(row: &[u128], mask: usize) -> impl Iterator<Item = usize> + '_ {
    (0..D).map(move |i| {
        let word = (row[i / 6] >> (64 * (i / 3 % 2))) as u64;
        (word >> (21 * (i % 3))) as usize & mask
    })
}
