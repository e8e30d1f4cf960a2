//! The public sparse matrix of the learning-parity problem: every output is the sum of 10 of the k inputs.
//!
//! Position i of a row is a 32-bit word of AES in counter mode, scaled to below k; the key is public and
//! depends on k only: the matrix is fixed, as in Ferret, the secret and the noise are fresh. Costs 2.5 AES
//! blocks and 10 reads of the inputs an output: for k = 2^17 those (2 MiB) are in the second- and third-level
//! caches, and the reads of many rows are in flight together.
use super::params::{Set, D};
use super::rows::{add_rows, add_rows_portable};
use crate::ot::prg::Words;

/// Rows whose positions are drawn at once: 10 steps of 64 words.
const ROWS: usize = 64;

/// `out[i]` += sum of `base[position]`, over the d positions of row i.
pub(super) fn encode(set: &Set, base: &[u128], out: &mut [u128]) {
    encode_with(set, base, out, add_rows);
}

/// The same for the bits alone, a byte each.
pub(super) fn encode_bits(set: &Set, base: &[u8], out: &mut [u8]) {
    encode_with(set, base, out, add_rows_portable);
}

fn encode_with<T>(set: &Set, base: &[T], out: &mut [T], add_rows: impl Fn(&[T], &[[u32; D]], &mut [T])) {
    let key = u128::from_le_bytes(*b"tacita LPN code ") ^ set.k as u128;
    let mut words = Words::new(key, set.k as u32);
    let mut positions = [[0; 64]; ROWS * D / 64];
    for outputs in out.chunks_mut(ROWS) {
        words.fill(&mut positions);
        let (rows, _) = positions.as_flattened().as_chunks::<D>();
        add_rows(&base[..set.k], rows, outputs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ot::ferret::params::TINY;

    #[test]
    fn encoding_is_linear_and_sparse() {
        let encode = |base: &[u128]| {
            let mut out = vec![0; TINY.n()];
            super::encode(&TINY, base, &mut out);
            out
        };
        let unit = |at: usize| -> Vec<u128> { (0..TINY.k).map(|i| u128::from(i == at)).collect() };
        let columns: Vec<Vec<u128>> = (0..TINY.k).map(|at| encode(&unit(at))).collect();
        let weights: Vec<u128> = (0..TINY.n())
            .map(|row| columns.iter().map(|column| column[row]).sum())
            .collect();
        assert!(weights
            .iter()
            .all(|&w| w <= D as u128 && (D as u128 - w).is_multiple_of(2)));
        let full = weights.iter().filter(|&&w| w == D as u128).count();
        assert!(
            full * 10 > 8 * TINY.n(),
            "{full} rows have {D} distinct positions"
        );
        let base: Vec<u128> = (0..TINY.k as u128).map(|i| i * i + 3).collect();
        let sum = |row: usize| (0..TINY.k).fold(0, |sum, at| sum ^ (base[at] * columns[at][row]));
        assert_eq!(encode(&base), (0..TINY.n()).map(sum).collect::<Vec<_>>());
    }
}
