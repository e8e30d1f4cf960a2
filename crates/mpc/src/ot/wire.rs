//! Choice bits and digits on the wire: 1 to 8 bits a value, little-endian, the last byte padded with zeros.

/// Packs the low `bits` (1..=8) of every value.
pub(super) fn pack(values: &[u8], bits: u32) -> Vec<u8> {
    let groups = values.chunks(8);
    let mut out = Vec::with_capacity(groups.len() * bits as usize);
    for group in groups {
        let word = (0u32..).zip(group).fold(0u64, |word, (i, &v)| {
            word | (u64::from(v) & ((1 << bits) - 1)) << (i * bits)
        });
        let bytes = (group.len() * bits as usize).div_ceil(8);
        out.extend_from_slice(&word.to_le_bytes()[..bytes]);
    }
    out
}

/// Inverse of [`pack`]; `bytes` has `packed_len(count, bits)` bytes. Padding is ignored.
pub(super) fn unpack(bytes: &[u8], bits: u32, count: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(count.next_multiple_of(8));
    for group in bytes.chunks(bits as usize) {
        let mut word = [0; 8];
        word[..group.len()].copy_from_slice(group);
        let word = u64::from_le_bytes(word);
        out.extend((0..8).map(|i| (word >> (i * bits)) as u8 & (((1u16 << bits) - 1) as u8)));
    }
    out.truncate(count);
    out
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
