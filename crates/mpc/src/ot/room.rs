//! How a pool of blocks moves in memory without leaving copies of secret blocks behind.
use zeroize::Zeroize;

/// Drops the first `used` blocks: the others move to the front, and what they leave behind is wiped.
pub(super) fn move_to_front(pool: &mut Vec<u128>, used: usize) {
    let kept = pool.len() - used;
    pool.copy_within(used.., 0);
    pool[kept..].zeroize();
    pool.truncate(kept);
}

/// Appends `count` zero blocks and returns them. A new allocation is made by hand, so that the old one can be
/// wiped.
pub(super) fn grow_by(pool: &mut Vec<u128>, count: usize) -> &mut [u128] {
    let kept = pool.len();
    if pool.capacity() < kept + count {
        let mut grown = Vec::with_capacity(kept + count);
        grown.extend_from_slice(pool);
        pool.zeroize();
        *pool = grown;
    }
    pool.resize(kept + count, 0);
    &mut pool[kept..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_survive_and_what_lies_behind_them_is_wiped() {
        let mut pool: Vec<u128> = (1..=100).collect();
        move_to_front(&mut pool, 70);
        assert_eq!(pool, (71..=100).collect::<Vec<u128>>());
        // the same allocation, grown again without being cleared by `resize`: the places were wiped before
        // they were given up
        assert!(pool.capacity() >= 100);
        let behind = pool.spare_capacity_mut()[..70].iter().map(|block| block.as_ptr());
        // SAFETY: these places held blocks, which were overwritten by zeros; they are initialised.
        assert!(behind.map(|block| unsafe { *block }).all(|block| block == 0));
    }

    #[test]
    fn growing_keeps_the_blocks_and_appends_zeros() {
        for capacity in [3, 64] {
            let mut pool = Vec::with_capacity(capacity);
            pool.extend([7u128, 8, 9]);
            grow_by(&mut pool, 5).fill(1);
            assert_eq!(pool, [7, 8, 9, 1, 1, 1, 1, 1]);
            assert_eq!(grow_by(&mut pool, 2), [0, 0]);
        }
    }
}
