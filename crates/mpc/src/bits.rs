//! Values of a few bits, packed for the wire: little-endian, no padding but in the last byte.

/// Bytes that `count` values of `bits` bits take.
pub const fn packed_len(count: usize, bits: u32) -> usize {
    (count * bits as usize).div_ceil(8)
}

/// Packs the low `bits` (1..=64) of every value.
pub fn pack(values: &[u64], bits: u32) -> Vec<u8> {
    let (mask, length) = (u64::MAX >> (64 - bits), packed_len(values.len(), bits));
    let (mut out, mut held, mut filled) = (Vec::with_capacity(length + 8), 0u128, 0);
    for &value in values {
        held |= u128::from(value & mask) << filled;
        filled += bits;
        if filled >= 64 {
            out.extend_from_slice(&(held as u64).to_le_bytes());
            held >>= 64;
            filled -= 64;
        }
    }
    out.extend_from_slice(&(held as u64).to_le_bytes());
    out.truncate(length);
    out
}

/// Inverse of [`pack`]; `bytes` must have `packed_len(count, bits)` bytes (the channel checks what comes from
/// outside).
pub fn unpack(bytes: &[u8], bits: u32, count: usize) -> Vec<u64> {
    assert_eq!(bytes.len(), packed_len(count, bits), "packed bytes");
    let mask = u64::MAX >> (64 - bits);
    let (mut rest, mut held, mut filled) = (bytes, 0u128, 0);
    let mut next = || {
        if filled < bits {
            let mut word = [0; 8];
            let (part, others) = rest.split_at(rest.len().min(8));
            word[..part.len()].copy_from_slice(part);
            rest = others;
            held |= u128::from(u64::from_le_bytes(word)) << filled;
            filled += 64;
        }
        let value = held as u64 & mask;
        held >>= bits;
        filled -= bits;
        value
    };
    (0..count).map(|_| next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpack_inverts_pack_at_every_width() {
        for bits in 1..=64u32 {
            let mask = u64::MAX >> (64 - bits);
            for count in [0usize, 1, 7, 8, 9, 33] {
                let values: Vec<u64> = (0..count as u64)
                    .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask)
                    .collect();
                let bytes = pack(&values, bits);
                assert_eq!(bytes.len(), packed_len(count, bits));
                assert_eq!(unpack(&bytes, bits, count), values, "{bits} bits");
            }
        }
    }
}
