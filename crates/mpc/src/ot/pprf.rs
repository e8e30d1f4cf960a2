//! Trees of 16 seeds of which one party knows all, the other all but one: the small punctured PRF under
//! SoftSpoken.
//!
//! Level i of a tree uses one base OT: the owner sends the sums of the left and of the right nodes of the
//! level, each masked with one key; the other party chose the side off his path. 32 trees * 4 levels * 2
//! blocks = 4096 bytes a direction, one message.
use super::base::{BaseKeys, BASE};
use super::hash::Hash;
use zeroize::Zeroize;

/// Levels of a tree: the k of SoftSpoken.
pub(super) const DEPTH: usize = 4;
/// Leaves of a tree.
pub(super) const LEAVES: usize = 1 << DEPTH;
/// Trees a direction.
pub(super) const TREES: usize = BASE / DEPTH;
/// Bytes of the owner's message.
pub(super) const MESSAGE: usize = BASE * 32;

/// The leaves of all trees; the owner's message that lets the other party compute all but one of each.
pub(super) fn owner(keys: &BaseKeys, hash: &Hash, roots: &[u128; TREES]) -> (Vec<[u128; LEAVES]>, Vec<u8>) {
    let mut message = Vec::with_capacity(MESSAGE);
    let trees = roots
        .iter()
        .zip(keys.sent.chunks_exact(DEPTH))
        .map(|(&root, keys)| {
            let mut nodes = vec![root];
            for pair in keys {
                nodes = children(hash, &nodes);
                for (side, key) in pair.iter().enumerate() {
                    message.extend((sum_of_side(&nodes, side) ^ key).to_le_bytes());
                }
            }
            leaves(nodes)
        });
    (trees.collect(), message)
}

/// The base OTs' choices that leave out leaf `points[tree]` of every tree.
pub(super) fn choices(points: &[u8; TREES]) -> [u8; BASE] {
    std::array::from_fn(|i| 1 ^ side_at(points[i / DEPTH], i % DEPTH))
}

/// The other party's leaves; the one at `points[tree]` is 0.
pub(super) fn punctured(
    keys: &BaseKeys,
    hash: &Hash,
    points: &[u8; TREES],
    message: &[u8],
) -> Vec<[u128; LEAVES]> {
    let blocks: Vec<u128> = (message.chunks_exact(16))
        .map(|b| u128::from_le_bytes(b.try_into().expect("16 bytes")))
        .collect();
    let tree = |(tree, &point): (usize, &u8)| {
        let mut nodes = vec![0];
        for level in 0..DEPTH {
            let off_path = 1 ^ side_at(point, level);
            let path = usize::from(point) >> (DEPTH - level);
            nodes = children(hash, &nodes);
            nodes[2 * path..2 * path + 2].fill(0);
            let ot = tree * DEPTH + level;
            let sums = [blocks[2 * ot], blocks[2 * ot + 1]];
            let sibling = select(sums, off_path) ^ keys.received[ot] ^ sum_of_side(&nodes, off_path.into());
            nodes[2 * path + usize::from(off_path)] = sibling;
        }
        leaves(nodes)
    };
    points.iter().enumerate().map(tree).collect()
}

fn select(pair: [u128; 2], bit: u8) -> u128 {
    pair[0] ^ ((pair[0] ^ pair[1]) & u128::from(bit).wrapping_neg())
}

/// The bit of the path at a level, the root's first.
fn side_at(point: u8, level: usize) -> u8 {
    point >> (DEPTH - 1 - level) & 1
}

/// H(s), H(s + 1) for every node; 960 hashes for all trees.
fn children(hash: &Hash, nodes: &[u128]) -> Vec<u128> {
    let mut out: Vec<u128> = nodes.iter().flat_map(|&s| [s, s ^ 1]).collect();
    hash.hash_all(&mut out);
    out
}

fn sum_of_side(nodes: &[u128], side: usize) -> u128 {
    nodes.iter().skip(side).step_by(2).fold(0, |sum, node| sum ^ node)
}

fn leaves(mut nodes: Vec<u128>) -> [u128; LEAVES] {
    let leaves = nodes[..].try_into().expect("16 leaves");
    nodes.zeroize();
    leaves
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ot::hash::{HashKeys, Purpose};
    use crate::Role;

    #[test]
    fn all_leaves_but_one_agree() {
        let points: [u8; TREES] = std::array::from_fn(|i| (i * 5 % 16) as u8);
        let choices = choices(&points);
        let pairs: Vec<[u128; 2]> = (0..BASE as u128).map(|i| [i * i + 77, (i << 90) ^ 5]).collect();
        let received = pairs
            .iter()
            .zip(choices)
            .map(|(pair, c)| pair[usize::from(c)])
            .collect();
        let sent = BaseKeys {
            sent: pairs,
            received: Vec::new(),
            session: [0; 32],
        };
        let received = BaseKeys {
            sent: Vec::new(),
            received,
            session: [0; 32],
        };
        let roots = std::array::from_fn(|i| 1000 + i as u128);
        let hash = HashKeys::new(&[1; 32], Role::Client, Purpose::Leaves).at(0);
        let (all, message) = owner(&sent, &hash, &roots);
        assert_eq!(message.len(), MESSAGE);
        let but_one = punctured(&received, &hash, &points, &message);
        for tree in 0..TREES {
            for leaf in 0..LEAVES {
                let expected = if leaf == usize::from(points[tree]) {
                    0
                } else {
                    all[tree][leaf]
                };
                assert_eq!(but_one[tree][leaf], expected);
            }
        }
    }
}
