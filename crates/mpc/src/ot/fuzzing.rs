//! The decoders of transfers' messages, each with its own side's state from a fixed stream.
use super::base::{check_point, BaseKeys, BASE};
use super::ferret::{add_matrix, grow_punctured_trees, TreeKeys, SPECK};
use super::hash::{HashKeys, Purpose};
use super::pprf::{punctured, LEAVES, MESSAGE, TREES};
use super::prg::Stream;
use super::softspoken::{message_len, Sender, STEP};
use crate::{Result, Role};
use std::sync::{LazyLock, Mutex};

/// A group element of the base transfers.
///
/// # Errors
/// [`crate::MpcError::Message`] unless the bytes are the one encoding of an element.
pub fn base_point(bytes: &[u8]) -> Result<()> {
    check_point(bytes)
}

/// Bytes of [`soft_spoken_trees`].
pub const TREES_BYTES: usize = MESSAGE;
/// Bytes of [`soft_spoken_batch`].
pub const SOFT_BYTES: usize = message_len(STEP);
/// Bytes of [`ferret_batch`], of a set far smaller than those in use.
pub const FERRET_BYTES: usize = SPECK.message_len();

/// The trees of SoftSpoken from the owner's message of [`TREES_BYTES`] bytes; the sum of all leaves.
pub fn soft_spoken_trees(message: &[u8]) -> u128 {
    let received = fixed(BASE);
    let keys = BaseKeys {
        sent: Vec::new(),
        received,
        session: SESSION,
    };
    let hash = hash_keys(Purpose::Leaves).at(0);
    let trees = punctured(&keys, &hash, &points(), message);
    trees.iter().flatten().fold(0, |sum, leaf| sum ^ leaf)
}

/// One step of SoftSpoken's sender from a message of [`SOFT_BYTES`] bytes; the number of transfers that
/// have a wrong low bit. The sender's streams go on from call to call: to make them takes longer than a step.
pub fn soft_spoken_batch(message: &[u8]) -> usize {
    static SENDER: LazyLock<Mutex<Sender>> = LazyLock::new(|| {
        let leaves = fixed(TREES * LEAVES);
        let trees: Vec<[u128; LEAVES]> = leaves
            .chunks_exact(LEAVES)
            .map(|t| t.try_into().expect("a tree"))
            .collect();
        Mutex::new(Sender::new(&trees, points()))
    });
    let mut sender = SENDER.lock().expect("no other call has panicked");
    let blocks = sender.extend(STEP, message);
    blocks.iter().filter(|block| **block & 1 != 0).count()
}

/// One batch of Ferret's receiver from a message of [`FERRET_BYTES`] bytes; the sum of all blocks.
pub fn ferret_batch(message: &[u8]) -> u128 {
    let (input, mut out) = (fixed(SPECK.need()), vec![0; SPECK.n()]);
    let mut keys = TreeKeys::new(hash_keys(Purpose::Trees));
    grow_punctured_trees(&SPECK, &mut keys, &input, message, &mut out);
    add_matrix(&SPECK, &input, &mut out);
    out.iter().fold(0, |sum, block| sum ^ block)
}

const SESSION: [u8; 32] = [1; 32];

fn hash_keys(purpose: Purpose) -> HashKeys {
    HashKeys::new(&SESSION, Role::Client, purpose)
}

/// Digits of delta; the first is odd.
fn points() -> [u8; TREES] {
    std::array::from_fn(|i| (i * 7 % 16) as u8 | u8::from(i == 0))
}

fn fixed(count: usize) -> Vec<u128> {
    let mut blocks = vec![0; count];
    Stream::new(7).fill(&mut blocks);
    blocks
}
