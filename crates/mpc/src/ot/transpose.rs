//! Transposing 128 x 128 bits.

/// Bit j of word i becomes bit i of word j. Seven rounds of block swaps (Warren, *Hacker's Delight*, section
/// 7-3).
pub(super) fn transpose(words: &mut [u128; 128]) {
    let mut mask = u128::from(u64::MAX);
    let mut step = 64;
    while step > 0 {
        for start in (0..128).step_by(2 * step) {
            let (upper, lower) = words[start..start + 2 * step].split_at_mut(step);
            for (a, b) in upper.iter_mut().zip(lower) {
                let swap = ((*a >> step) ^ *b) & mask;
                *b ^= swap;
                *a ^= swap << step;
            }
        }
        step /= 2;
        mask ^= mask << step;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_moves_to_its_mirror() {
        let word = |i: u128| {
            (i + 3)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
                .rotate_left(i as u32)
        };
        let before: [u128; 128] = std::array::from_fn(|i| word(i as u128));
        let mut after = before;
        transpose(&mut after);
        for (i, row) in before.iter().enumerate() {
            for (j, column) in after.iter().enumerate() {
                assert_eq!(row >> j & 1, column >> i & 1);
            }
        }
    }
}
