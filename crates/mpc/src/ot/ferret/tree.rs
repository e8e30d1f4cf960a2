//! Correlated trees of *Half-Tree* (figure 4): every level of a tree sums to delta, so one block a level and
//! no last message.
//!
//! A node s has children H(s) and s + H(s). Level 1 is (root, root + delta). Children of the nodes 0..w stand
//! at 0..w (left) and w..2w (right), so bit i of a leaf's index is the side taken at level i, and levels grow
//! in place.
use crate::ot::hash::Hash;

/// Sender: fills the leaves, low bits cleared, and appends per level the sum of the left nodes masked by the
/// block of a COT.
pub(super) fn grow(
    hash: &Hash,
    leaves: &mut [u128],
    root: u128,
    delta: u128,
    cots: &[u128],
    message: &mut Vec<u8>,
) {
    leaves[0] = root;
    leaves[1] = root ^ delta;
    let mut left = root;
    for (level, cot) in cots.iter().enumerate() {
        if level > 0 {
            left = hash.expand(&mut leaves[..2 << level]);
        }
        message.extend((left ^ cot).to_le_bytes());
    }
    leaves.iter_mut().for_each(|leaf| *leaf &= !1);
}

/// Receiver: fills the leaves, all but one equal to the sender's, that one off by delta and marked by its low
/// bit.
pub(super) fn grow_punctured(hash: &Hash, leaves: &mut [u128], cots: &[u128], message: &[u8]) {
    let (mut path, mut total) = (0, 0);
    for (level, (cot, sum)) in cots.iter().zip(message.chunks_exact(16)).enumerate() {
        let width = 1 << level;
        let side = (*cot & 1) as usize;
        let sum = cot ^ u128::from_le_bytes(sum.try_into().expect("16 bytes"));
        let mut known = [0; 2];
        if level > 0 {
            let left = hash.expand(&mut leaves[..2 * width]);
            let junk = leaves[path];
            known = [left ^ junk, total ^ left ^ junk];
        }
        let sibling = sum ^ known[side];
        leaves[path] = 0;
        leaves[path + width] = 0;
        leaves[path + side * width] = sibling;
        total = known[0] ^ known[1] ^ sibling;
        path += (1 - side) * width;
    }
    leaves.iter_mut().for_each(|leaf| *leaf &= !1);
    leaves[path] = total | 1;
}

/// The leaf that the receiver lacks, from the bits of his COTs.
pub(super) fn point(bits: impl Iterator<Item = u8>) -> usize {
    bits.enumerate()
        .fold(0, |point, (level, bit)| point | usize::from(bit ^ 1) << level)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ot::hash::{HashKeys, Purpose};
    use crate::Role;

    #[test]
    fn one_leaf_is_off_by_delta() {
        let hash = HashKeys::new(&[1; 32], Role::Client, Purpose::Trees).at(0);
        let (delta, root) = (0xdead_beef_0000_0000_1111_2222_3333_4445_u128, 42 << 70);
        for log in 1..=7usize {
            for bits in [0usize, 1, 0b1011010, 0b0101101, 0x7f] {
                let bit = |level: usize| (bits >> level & 1) as u128;
                let sent: Vec<u128> = (0..log as u128).map(|i| ((i + 9) << 100) ^ (i << 5)).collect();
                let received: Vec<u128> = (0..log).map(|i| sent[i] ^ (delta * bit(i))).collect();
                let (mut all, mut some, mut message) = (vec![0; 1 << log], vec![0; 1 << log], Vec::new());
                grow(&hash, &mut all, root, delta, &sent, &mut message);
                grow_punctured(&hash, &mut some, &received, &message);
                let point = point((0..log).map(|level| bit(level) as u8));
                for leaf in 0..1 << log {
                    let expected = if leaf == point {
                        all[leaf] ^ delta
                    } else {
                        all[leaf]
                    };
                    assert_eq!(some[leaf], expected, "log {log} bits {bits:b} leaf {leaf}");
                }
            }
        }
    }
}
