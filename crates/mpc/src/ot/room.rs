//! Blocks of a pool, on large pages, which move without leaving copies of secret blocks behind.
//!
//! The matrix reads them at random: on small pages most of its time would be that of finding addresses.
use std::ops::{Deref, DerefMut};
use tacita_ring::Region;
use zeroize::Zeroize;

/// Bytes of a block.
const BLOCK: usize = size_of::<u128>();

/// The first `len` blocks of a region; those behind them are zeros.
pub(super) struct Room {
    region: Region,
    len: usize,
}

impl Room {
    /// No blocks yet.
    pub(super) fn new() -> Self {
        let (region, len) = (Region::zeroed(0), 0);
        Self { region, len }
    }

    /// Drops the first `used` blocks: the others move to the front, and what they leave behind is wiped.
    pub(super) fn move_to_front(&mut self, used: usize) {
        let kept = self.len - used;
        self.copy_within(used.., 0);
        self[kept..].zeroize();
        self.len = kept;
    }

    /// Appends `count` zero blocks and returns them. Where memory is short it is other memory, and the old is
    /// wiped.
    pub(super) fn grow_by(&mut self, count: usize) -> &mut [u128] {
        let kept = self.len;
        if self.region.words().len() < kept + count {
            let mut grown = Region::zeroed(BLOCK * (kept + count));
            grown.words_mut()[..kept].copy_from_slice(self);
            self.zeroize();
            self.region = grown;
        }
        self.len += count;
        &mut self[kept..]
    }

    /// Holds these blocks in place of all others.
    pub(super) fn copy_from(&mut self, blocks: &[u128]) {
        self.move_to_front(self.len);
        self.grow_by(blocks.len()).copy_from_slice(blocks);
    }
}

impl Deref for Room {
    type Target = [u128];
    fn deref(&self) -> &[u128] {
        &self.region.words()[..self.len]
    }
}

impl DerefMut for Room {
    fn deref_mut(&mut self) -> &mut [u128] {
        &mut self.region.words_mut()[..self.len]
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_survive_and_what_lies_behind_them_is_wiped() {
        let mut room = Room::new();
        room.copy_from(&(1..=100).collect::<Vec<u128>>());
        room.move_to_front(70);
        assert_eq!(room[..], (71..=100).collect::<Vec<u128>>());
        assert!(
            room.region.words().len() >= 100 && room.region.words()[30..].iter().all(|&block| block == 0)
        );
    }

    #[test]
    fn growing_keeps_the_blocks_and_appends_zeros() {
        for earlier in [3, 64] {
            let mut room = Room::new();
            room.copy_from(&vec![5; earlier]);
            room.copy_from(&[7, 8, 9]);
            room.grow_by(5).fill(1);
            assert_eq!(room[..], [7, 8, 9, 1, 1, 1, 1, 1]);
            assert_eq!(room.grow_by(2), [0, 0]);
        }
    }
}
