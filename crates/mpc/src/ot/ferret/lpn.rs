//! The public sparse matrix of the learning-parity problem: every output is the sum of 10 of the k inputs.
//!
//! Position i of a row is a 32-bit word of AES in counter mode, scaled to below k; the key is public and depends on k only: the matrix is
//! fixed, as in Ferret, the secret and the noise are fresh. Costs 2.5 AES blocks and 10 reads of the inputs an output: for k = 2^17 those
//! (2 MiB) are in the second- and third-level caches, and the reads of many rows are in flight together.
use super::params::{Set, D};
use crate::ot::prg::Words;
use std::ops::BitXor;

/// Rows whose positions are drawn at once: 10 steps of 64 words.
const ROWS: usize = 64;

/// out[i] += sum of base[position], over the d positions of row i.
pub(super) fn encode<T: Copy + BitXor<Output = T>>(set: &Set, base: &[T], out: &mut [T]) {
    let key = u128::from_le_bytes(*b"tacita LPN code ") ^ set.k as u128;
    let mut words = Words::new(key, set.k as u32);
    let mut positions = [[0; 64]; ROWS * D / 64];
    let base = &base[..set.k];
    for outputs in out.chunks_mut(ROWS) {
        words.fill(&mut positions);
        let (rows, _) = positions.as_flattened().as_chunks::<D>();
        for (out, row) in outputs.iter_mut().zip(rows) {
            *out = row.iter().fold(*out, |sum, &at| sum ^ base[at as usize]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ot::ferret::params::TINY;

    #[test]
    fn encoding_is_linear_and_sparse() {
        let encode = |base: &[u64]| {
            let mut out = vec![0; TINY.n()];
            super::encode(&TINY, base, &mut out);
            out
        };
        let unit = |at: usize| -> Vec<u64> { (0..TINY.k).map(|i| u64::from(i == at)).collect() };
        let columns: Vec<Vec<u64>> = (0..TINY.k).map(|at| encode(&unit(at))).collect();
        let weights: Vec<u64> = (0..TINY.n())
            .map(|row| columns.iter().map(|column| column[row]).sum())
            .collect();
        assert!(weights
            .iter()
            .all(|&w| w <= D as u64 && (D as u64 - w).is_multiple_of(2)));
        let full = weights.iter().filter(|&&w| w == D as u64).count();
        assert!(full * 10 > 8 * TINY.n(), "{full} rows have {D} distinct positions");
        let base: Vec<u64> = (0..TINY.k as u64).map(|i| i * i + 3).collect();
        let sum = |row: usize| (0..TINY.k).fold(0, |sum, at| sum ^ (base[at] * columns[at][row]));
        assert_eq!(encode(&base), (0..TINY.n()).map(sum).collect::<Vec<_>>());
    }
}
