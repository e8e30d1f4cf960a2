//! Values of a few bits, packed for the wire: little-endian, no padding but in the last byte.

/// Bytes that `count` values of `bits` bits take.
pub const fn packed_len(count: usize, bits: u32) -> usize {
    (count * bits as usize).div_ceil(8)
}

/// Packs the low `bits` (1..=64) of every value.
pub fn pack(values: &[u64], bits: u32) -> Vec<u8> {
    if bits == 64 {
        return values.iter().flat_map(|v| v.to_le_bytes()).collect();
    }
    let (mut out, mut held, mut filled) = (Vec::with_capacity(packed_len(values.len(), bits)), 0u128, 0);
    for &value in values {
        held |= u128::from(value & ((1 << bits) - 1)) << filled;
        filled += bits;
        while filled >= 8 {
            out.push(held as u8);
            held >>= 8;
            filled -= 8;
        }
    }
    if filled > 0 {
        out.push(held as u8);
    }
    out
}

/// Inverse of [`pack`]; `bytes` must have `packed_len(count, bits)` bytes (the channel checks what comes from
/// outside).
pub fn unpack(bytes: &[u8], bits: u32, count: usize) -> Vec<u64> {
    assert_eq!(bytes.len(), packed_len(count, bits), "packed bytes");
    let mask = u64::MAX >> (64 - bits);
    let (mut at, mut held, mut filled) = (0, 0u128, 0);
    let mut next = || {
        while filled < bits {
            held |= u128::from(bytes[at]) << filled;
            at += 1;
            filled += 8;
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
