//! Integers of a fixed width (1..=128 bits) as a little-endian bit string, padded only in the last byte.

/// Bytes of `count` values of `bits` bits.
pub const fn packed_len(count: usize, bits: u32) -> usize {
    (count * bits as usize).div_ceil(8)
}

/// Writes integers one after the other.
pub struct Writer {
    out: Vec<u8>,
    held: u128,
    filled: u32,
}

impl Writer {
    /// An empty string with room for `bytes`.
    pub fn with_capacity(bytes: usize) -> Self {
        Self {
            out: Vec::with_capacity(bytes + 8),
            held: 0,
            filled: 0,
        }
    }

    /// Appends the low `bits` <= 64 bits of `value`, whose other bits are zero.
    #[inline]
    pub fn put(&mut self, value: u64, bits: u32) {
        debug_assert!(bits <= 64 && (bits == 64 || value >> bits == 0));
        self.held |= u128::from(value) << self.filled;
        self.filled += bits;
        if self.filled >= 64 {
            self.out.extend_from_slice(&(self.held as u64).to_le_bytes());
            self.held >>= 64;
            self.filled -= 64;
        }
    }

    /// Appends the low `bits` <= 128 bits of `value`, whose other bits are zero.
    #[inline]
    pub fn put_wide(&mut self, value: u128, bits: u32) {
        self.put(value as u64 & (u64::MAX >> (64 - bits.min(64))), bits.min(64));
        if bits > 64 {
            self.put((value >> 64) as u64, bits - 64);
        }
    }

    /// The bytes, the last one padded with zeros.
    pub fn finish(mut self) -> Vec<u8> {
        let rest = self.filled.div_ceil(8) as usize;
        self.out
            .extend_from_slice(&(self.held as u64).to_le_bytes()[..rest]);
        self.out
    }
}

/// Reads what [`Writer`] wrote. Past the end it reads zeros: lengths are checked before.
pub struct Reader<'a> {
    rest: &'a [u8],
    held: u128,
    filled: u32,
}

impl<'a> Reader<'a> {
    /// At the first bit.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            held: 0,
            filled: 0,
        }
    }

    /// The next `bits` (1..=64) bits.
    #[inline]
    pub fn get(&mut self, bits: u32) -> u64 {
        if self.filled < bits {
            let mut word = [0u8; 8];
            let (head, tail) = self.rest.split_at(self.rest.len().min(8));
            word[..head.len()].copy_from_slice(head);
            self.rest = tail;
            self.held |= u128::from(u64::from_le_bytes(word)) << self.filled;
            self.filled += 64;
        }
        let value = self.held as u64 & (u64::MAX >> (64 - bits));
        self.held >>= bits;
        self.filled -= bits;
        value
    }

    /// The next `bits` (1..=128) bits.
    #[inline]
    pub fn get_wide(&mut self, bits: u32) -> u128 {
        let low = u128::from(self.get(bits.min(64)));
        if bits <= 64 {
            return low;
        }
        low | u128::from(self.get(bits - 64)) << 64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_inverts_writing_at_every_width() {
        for bits in 1..=128u32 {
            let mask = u128::MAX >> (128 - bits);
            for count in [0usize, 1, 7, 8, 33] {
                let value =
                    |i: usize| (i as u128 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835) & mask;
                let mut writer = Writer::with_capacity(packed_len(count, bits));
                (0..count).for_each(|i| writer.put_wide(value(i), bits));
                let bytes = writer.finish();
                assert_eq!(bytes.len(), packed_len(count, bits), "{bits} bits");
                let mut reader = Reader::new(&bytes);
                assert!(
                    (0..count).all(|i| reader.get_wide(bits) == value(i)),
                    "{bits} bits"
                );
            }
        }
    }

    #[test]
    fn mixed_widths_share_one_string() {
        let mut writer = Writer::with_capacity(0);
        writer.put(5, 3);
        writer.put_wide(u128::MAX >> 1, 127);
        writer.put(u64::MAX, 64);
        let bytes = writer.finish();
        let mut reader = Reader::new(&bytes);
        assert_eq!(
            (reader.get(3), reader.get_wide(127), reader.get(64)),
            (5, u128::MAX >> 1, u64::MAX)
        );
    }
}
