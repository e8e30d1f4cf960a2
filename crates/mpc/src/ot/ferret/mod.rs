//! Ferret: correlated OTs almost without communication (Yang, Weng, Lan, Zhang, Wang 2020), semi-honest, with
//! the trees of Guo, Yang, Wang, Zhang, Xie, Liu, Zhao, *Half-Tree* (2023).
//!
//! From k + t*log COTs one batch makes n = t * 2^log: t trees give a vector of n blocks in which one position
//! per tree carries delta (noise of regular weight t), and a public sparse matrix A spreads k COTs over the n
//! positions. Whoever knows only one side cannot tell the n bits A*u + e from random ones (learning parity
//! with noise). The sender sends t*log blocks, the receiver nothing. Per COT: one AES call for the trees, d =
//! 10 reads of the k blocks.
mod lpn;
mod params;
mod rows;
mod tree;

use super::hash::{Hash, HashKeys};
#[cfg(feature = "fuzzing")]
pub(super) use params::SPECK;
pub(super) use params::{Set, LARGE, SMALL};

/// The hash keys of a direction's trees, one a tree, numbered through the session.
pub(super) struct TreeKeys {
    keys: HashKeys,
    next: u64,
}

impl TreeKeys {
    /// From the first tree of a session.
    pub(super) fn new(keys: HashKeys) -> Self {
        Self { keys, next: 0 }
    }

    fn next(&mut self) -> Hash {
        self.next += 1;
        self.keys.at(self.next)
    }
}

/// The sender's trees into the n blocks of `out` (low bits 0); returns the message. `roots` are t fresh
/// secret blocks.
pub(super) fn grow_trees(
    set: &Set,
    keys: &mut TreeKeys,
    input: &[u128],
    delta: u128,
    roots: &[u128],
    out: &mut [u128],
) -> Vec<u8> {
    let (_, seeds) = parts(set, input, out.len());
    let mut message = Vec::with_capacity(set.message_len());
    let trees = out
        .chunks_exact_mut(1 << set.log)
        .zip(seeds.chunks_exact(set.log));
    for ((leaves, cots), &root) in trees.zip(roots) {
        tree::grow(&keys.next(), leaves, root, delta, cots, &mut message);
    }
    message
}

/// The receiver's trees into the n blocks of `out`, from the sender's message of `set.message_len()` bytes.
pub(super) fn grow_punctured_trees(
    set: &Set,
    keys: &mut TreeKeys,
    input: &[u128],
    message: &[u8],
    out: &mut [u128],
) {
    let (_, seeds) = parts(set, input, out.len());
    let trees = out
        .chunks_exact_mut(1 << set.log)
        .zip(seeds.chunks_exact(set.log));
    for ((leaves, cots), sums) in trees.zip(message.chunks_exact(16 * set.log)) {
        tree::grow_punctured(&keys.next(), leaves, cots, sums);
    }
}

/// Adds the matrix times its part of the input to either party's trees, which makes them correlated OTs.
pub(super) fn add_matrix(set: &Set, input: &[u128], out: &mut [u128]) {
    lpn::encode(set, parts(set, input, out.len()).0, out);
}

/// What the matrix multiplies, and what makes the trees.
fn parts<'a>(set: &Set, input: &'a [u128], out: usize) -> (&'a [u128], &'a [u128]) {
    assert!(input.len() == set.need() && out == set.n(), "a batch's sizes");
    input.split_at(set.k)
}

/// The receiver's n bits alone, which need no message: `input` are the bits (0 or 1) of the batch's input.
pub(super) fn bits_ahead(set: &Set, input: &[u8]) -> Vec<u8> {
    assert_eq!(input.len(), set.need(), "a batch's input");
    let mut out = vec![0; set.n()];
    let trees = out
        .chunks_exact_mut(1 << set.log)
        .zip(input[set.k..].chunks_exact(set.log));
    for (leaves, bits) in trees {
        leaves[tree::point(bits.iter().copied())] = 1;
    }
    lpn::encode_bits(set, &input[..set.k], &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ot::hash::Purpose;
    use crate::ot::prg::Stream;
    use crate::Role;
    use params::TINY;

    fn keys() -> TreeKeys {
        TreeKeys::new(HashKeys::new(&[1; 32], Role::Client, Purpose::Trees))
    }

    /// Input COTs of a batch, from a fixed stream.
    fn inputs(set: &Set, delta: u128) -> (Vec<u128>, Vec<u128>) {
        let (mut sent, mut bits) = (vec![0; set.need()], vec![0; set.need()]);
        Stream::new(5).fill(&mut sent);
        Stream::new(6).fill(&mut bits);
        sent.iter_mut().for_each(|s| *s &= !1);
        let received = sent
            .iter()
            .zip(&bits)
            .map(|(s, b)| s ^ (delta & (b & 1).wrapping_neg()));
        (sent.clone(), received.collect())
    }

    #[test]
    fn a_batch_is_correlated_and_its_bits_are_known_ahead() {
        let delta = 0x1234_5678_9abc_def0_0fed_cba9_8765_4321 | 1;
        let (sent, received) = inputs(&TINY, delta);
        let (mut mine, mut theirs, mut roots) = (vec![0; TINY.n()], vec![0; TINY.n()], vec![0; TINY.t]);
        Stream::new(9).fill(&mut roots);
        let message = grow_trees(&TINY, &mut keys(), &sent, delta, &roots, &mut mine);
        add_matrix(&TINY, &sent, &mut mine);
        assert_eq!(message.len(), TINY.message_len());
        grow_punctured_trees(&TINY, &mut keys(), &received, &message, &mut theirs);
        add_matrix(&TINY, &received, &mut theirs);
        let input_bits: Vec<u8> = received.iter().map(|r| *r as u8 & 1).collect();
        let bits = bits_ahead(&TINY, &input_bits);
        for ((s, r), bit) in mine.iter().zip(&theirs).zip(bits) {
            assert_eq!(s & 1, 0);
            assert_eq!(*r as u8 & 1, bit);
            assert_eq!(*r, s ^ (delta & u128::from(bit).wrapping_neg()));
        }
    }

    /// Equal seeds grow into different trees.
    #[test]
    fn every_tree_has_a_key_of_its_own() {
        let mut keys = keys();
        let mut grown = || {
            let mut leaves = vec![0; 1 << TINY.log];
            tree::grow(
                &keys.next(),
                &mut leaves,
                77,
                5,
                &[9 << 70; TINY.log],
                &mut Vec::new(),
            );
            leaves
        };
        let (first, second) = (grown(), grown());
        assert!(first.iter().zip(&second).all(|(a, b)| a != b));
    }

    #[test]
    fn bits_look_uniform() {
        let delta = (77 << 64) | 1;
        let (_, received) = inputs(&TINY, delta);
        let bits: Vec<u8> = received.iter().map(|r| *r as u8 & 1).collect();
        let ones: usize = bits_ahead(&TINY, &bits).iter().map(|&b| usize::from(b)).sum();
        let (n, ones) = (TINY.n() as f64, ones as f64);
        assert!((ones - n / 2.0).abs() < 5.0 * (n / 4.0).sqrt(), "{ones} of {n}");
    }
}
