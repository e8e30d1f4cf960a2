//! Choice bits and digits on the wire: 1 to 8 bits a value, little-endian, the last byte padded with zeros.

use crate::bits::packed_len;

/// Packs the low `bits` (1..=8) of every value.
pub(super) fn pack(values: &[u8], bits: u32) -> Vec<u8> {
    let mut out = vec![0; values.len().div_ceil(8) * bits as usize + 8];
    for (index, group) in values.chunks(8).enumerate() {
        // what lies behind the bits of the group is zero, and the next one's place
        out[index * bits as usize..][..8].copy_from_slice(&close(word(group), bits).to_le_bytes());
    }
    out.truncate(packed_len(values.len(), bits));
    out
}

/// Inverse of [`pack`]; `bytes` has `packed_len(count, bits)` bytes. Padding is ignored.
pub(super) fn unpack(bytes: &[u8], bits: u32, count: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(count.next_multiple_of(8));
    for index in 0..count.div_ceil(8) {
        let rest = &bytes[index * bits as usize..];
        let word = rest
            .first_chunk()
            .map_or_else(|| word(rest), |word| u64::from_le_bytes(*word));
        out.extend_from_slice(&spread(word, bits).to_le_bytes());
    }
    out.truncate(count);
    out
}

/// Eight bytes, or fewer and zeros.
fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// The low bits, 1, 2 and 4 times `bits`, of every 16, 32 and 64.
fn masks(bits: u32) -> [u64; 3] {
    let low = |bits: u32| (1u64 << bits) - 1;
    [
        low(bits) * 0x0001_0001_0001_0001,
        low(2 * bits) * 0x0000_0001_0000_0001,
        low(4 * bits),
    ]
}

/// The low `bits` of each of eight bytes, side by side: bytes meet in pairs, pairs in fours, fours in eights.
fn close(word: u64, bits: u32) -> u64 {
    let steps = masks(bits)
        .into_iter()
        .zip([(8, bits), (16, 2 * bits), (32, 4 * bits)]);
    steps.fold(word, |word, (mask, (from, to))| {
        word & mask | (word >> from & mask) << to
    })
}

/// The inverse of [`close`]; what lies behind the bits of eight values is ignored.
fn spread(word: u64, bits: u32) -> u64 {
    let steps = masks(bits)
        .into_iter()
        .zip([(8, bits), (16, 2 * bits), (32, 4 * bits)]);
    steps.rev().fold(word, |word, (mask, (to, from))| {
        word & mask | (word >> from & mask) << to
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::{pack as pack_words, packed_len};

    #[test]
    fn agrees_with_the_general_packing() {
        for bits in 1..=8 {
            for count in [0usize, 1, 7, 8, 9, 31, 64] {
                let values: Vec<u8> = (0..count)
                    .map(|i| (i * 151 + 3) as u8 & ((1u16 << bits) - 1) as u8)
                    .collect();
                let bytes = pack(&values, bits);
                let words: Vec<u64> = values.iter().map(|&v| v.into()).collect();
                assert_eq!(bytes, pack_words(&words, bits));
                assert_eq!(bytes.len(), packed_len(count, bits));
                assert_eq!(unpack(&bytes, bits, count), values);
            }
        }
    }
}
