//! Pads of transfers and look-ups: hashes of blocks, under a new key for every group of at most [`MOST`] of
//! them.
use super::hash::{HashKeys, MOST};
use std::sync::Arc;

/// The hash keys of one call: groups are numbered by the direction's first COT of the call plus the group's
/// first element, which no other group of the session has (a call uses at least one COT an element).
#[derive(Clone)]
pub(super) struct PadKeys {
    keys: Arc<HashKeys>,
    first: u64,
}

impl PadKeys {
    /// For a call that begins at COT `first` of its direction.
    pub(super) fn new(keys: Arc<HashKeys>, first: u64) -> Self {
        Self { keys, first }
    }

    /// Elements of a group when the sender makes `each` pads for an element. The receiver, who makes one, has
    /// the same groups.
    pub(super) fn group(each: usize) -> usize {
        MOST / each
    }

    /// Pads of the group of elements that begins at `element`: replaces blocks by their hashes.
    pub(super) fn hash_group(&self, element: usize, blocks: &mut [u128]) {
        debug_assert!(blocks.len() <= MOST);
        self.keys.at(self.first + element as u64).hash_all(blocks);
    }

    /// Pads of all elements, one each, where the sender makes `each`: replaces blocks by their hashes.
    pub(super) fn hash_all(&self, each: usize, blocks: &mut [u128]) {
        let group = Self::group(each);
        for (index, blocks) in blocks.chunks_mut(group).enumerate() {
            self.hash_group(index * group, blocks);
        }
    }

    /// Pads of both choices of all elements.
    pub(super) fn hash_pairs(&self, zero: &mut [u128], one: &mut [u128]) {
        let group = Self::group(2);
        for (index, (zero, one)) in zero.chunks_mut(group).zip(one.chunks_mut(group)).enumerate() {
            let hash = self.keys.at(self.first + (index * group) as u64);
            hash.hash_all(zero);
            hash.hash_all(one);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ot::hash::Purpose;
    use crate::Role;
    use std::collections::HashSet;

    fn keys(first: u64) -> PadKeys {
        PadKeys::new(
            Arc::new(HashKeys::new(&[3; 32], Role::Client, Purpose::Pads)),
            first,
        )
    }

    /// Equal blocks have equal pads exactly where they share a key, so this counts the hashes of every key.
    #[test]
    fn no_key_serves_more_than_its_hashes() {
        for each in [2, 4, 8, 16] {
            let mut pads = vec![5; 3000];
            keys(10).hash_all(each, &mut pads);
            for group in pads.chunks(MOST / each) {
                assert!(group.iter().all(|pad| *pad == group[0]));
            }
            let distinct: HashSet<u128> = pads.iter().copied().collect();
            assert_eq!(
                distinct.len(),
                3000usize.div_ceil(MOST / each),
                "{each} pads an element"
            );
        }
        let (mut zero, mut one) = (vec![5; 1500], vec![5; 1500]);
        keys(10).hash_pairs(&mut zero, &mut one);
        assert_eq!(zero, one);
        assert_eq!(zero.iter().collect::<HashSet<_>>().len(), 3);
    }

    #[test]
    fn calls_that_begin_elsewhere_share_no_key() {
        let pad = |first| {
            let mut block = [5];
            keys(first).hash_all(2, &mut block);
            block[0]
        };
        assert_ne!(pad(10), pad(11));
    }
}
