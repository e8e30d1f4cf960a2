//! Frames: 16 bytes of header before each message. Little-endian: magic, sequence number, length, check.
//!
//! The magic says which end sent it (a reflected frame is refused), the sequence number catches lost,
//! repeated and swapped messages, the length must be the one that the receiver computed from public
//! parameters, and the check tells a damaged or shifted header from a peer that runs another plan. The check
//! is against accidents; against an attacker on the wire there is TLS.

/// Bytes before each message.
pub const HEADER_BYTES: usize = 16;

/// The longest message of one frame.
pub const MAX_MESSAGE: usize = u32::MAX as usize;

/// Which end of the connection sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The end that dialled.
    Dialled,
    /// The end that listened.
    Accepted,
}

impl Side {
    /// The other end.
    pub const fn other(self) -> Self {
        match self {
            Self::Dialled => Self::Accepted,
            Self::Accepted => Self::Dialled,
        }
    }

    const fn magic(self) -> [u8; 4] {
        match self {
            Self::Dialled => *b"Tac>",
            Self::Accepted => *b"Tac<",
        }
    }
}

/// The header of message number `sequence` (counted from 0, modulo 2^32) with `len` bytes.
pub fn encode(from: Side, sequence: u32, len: u32) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(&from.magic());
    header[4..8].copy_from_slice(&sequence.to_le_bytes());
    header[8..12].copy_from_slice(&len.to_le_bytes());
    let sum = check(&header);
    header[12..].copy_from_slice(&sum.to_le_bytes());
    header
}

/// Checks a header against what must come next.
///
/// # Errors
/// What differs, in words. Numbers are named only when the check holds: the bytes of a shifted stream may be
/// anybody's payload.
pub fn expect(header: &[u8; HEADER_BYTES], from: Side, sequence: u32, len: usize) -> Result<(), String> {
    let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    if header[..4] == from.other().magic() {
        return Err(
            "a frame of this side came back: the peer or something between reflects messages".to_owned(),
        );
    }
    if header[..4] != from.magic() {
        return Err(foreign(header).to_owned());
    }
    if word(12) != check(header) {
        return Err("the header of a frame is damaged".to_owned());
    }
    if word(4) != sequence {
        let found = word(4);
        return Err(format!(
            "message number {found} came where number {sequence} was expected (lost, repeated or swapped)"
        ));
    }
    if word(8) as usize != len {
        return Err(format!(
            "a message of {} bytes where {len} were expected",
            word(8)
        ));
    }
    Ok(())
}

/// What the first bytes look like when they are no frame of ours.
fn foreign(header: &[u8; HEADER_BYTES]) -> &'static str {
    match header {
        [0x14..=0x17, 3, 0..=4, ..] => "the peer speaks TLS, this side was told to use plain TCP",
        [b'G', b'E', b'T', b' ', ..] | [b'P', b'O', b'S', b'T', ..] | [b'H', b'T', b'T', b'P', ..] => {
            "the peer speaks HTTP"
        }
        _ => "no frame header where one was expected (another program, or a stream out of step)",
    }
}

/// A 32-bit mix of the first twelve bytes (FNV-1a with a final avalanche).
fn check(header: &[u8; HEADER_BYTES]) -> u32 {
    let mut sum = 0x811c_9dc5u32;
    for &byte in &header[..12] {
        sum = (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    sum ^= sum >> 16;
    sum = sum.wrapping_mul(0x85eb_ca6b);
    sum ^ (sum >> 13)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_taken_in_its_place_only() {
        let header = encode(Side::Dialled, 7, 4096);
        assert_eq!(expect(&header, Side::Dialled, 7, 4096), Ok(()));
        let text = |r: Result<(), String>| r.expect_err("must be refused");
        assert!(text(expect(&header, Side::Accepted, 7, 4096)).contains("reflects"));
        assert!(text(expect(&header, Side::Dialled, 8, 4096)).contains("number 7 came where number 8"));
        assert!(text(expect(&header, Side::Dialled, 7, 4095)).contains("4096 bytes where 4095"));
        assert!(text(expect(b"\x16\x03\x03\x00\x7a\x02..........", Side::Dialled, 0, 1)).contains("TLS"));
        assert!(text(expect(b"GET / HTTP/1.1\r\n", Side::Dialled, 0, 1)).contains("HTTP"));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let header = encode(Side::Accepted, 3, 1 << 20);
        for bit in 0..8 * HEADER_BYTES {
            let mut damaged = header;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(expect(&damaged, Side::Accepted, 3, 1 << 20).is_err(), "bit {bit}");
        }
    }

    /// 20,000 mutated headers: none panics, none but the original is taken, no text repeats bytes of a header
    /// that is not ours.
    #[test]
    fn mutated_headers_are_refused() {
        let mut state = 0x5eed_u64;
        let mut next = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32
        };
        let original = encode(Side::Dialled, 41, 12_345);
        for case in 0..20_000 {
            let mut header = if case % 4 == 0 {
                encode(Side::Dialled, next(), next())
            } else {
                original
            };
            for _ in 0..next() % 4 {
                header[next() as usize % HEADER_BYTES] = next() as u8;
            }
            if case % 7 == 0 {
                header.rotate_left(next() as usize % HEADER_BYTES);
            }
            let taken = expect(&header, Side::Dialled, 41, 12_345).is_ok();
            assert_eq!(taken, header == original, "case {case}");
        }
    }
}
