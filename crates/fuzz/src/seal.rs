//! Repairs the checksums of a file, as an attacker would: without it no mutation would get past them.
use tacita_wire::{HEADER_BYTES, RECORD_OVERHEAD};

const CHECK: usize = 16;

/// Runs a decoder on the bytes as they are, and with every checksum that can be found recomputed.
pub(crate) fn both(data: &[u8], decode: impl Fn(&[u8])) {
    decode(data);
    let mut sealed = data.to_vec();
    reseal(&mut sealed);
    decode(&sealed);
}

fn reseal(bytes: &mut [u8]) {
    if bytes.len() < HEADER_BYTES {
        return;
    }
    seal(bytes, 0, HEADER_BYTES - CHECK);
    let mut at = HEADER_BYTES;
    while let Some(length) = bytes.get(at..at + 8).and_then(|b| b.try_into().ok()) {
        let length = u64::from_le_bytes(length) as usize;
        match length.checked_add(at + RECORD_OVERHEAD) {
            Some(end) if end <= bytes.len() => {
                seal(bytes, at + 8, end - CHECK);
                at = end;
            }
            _ => return,
        }
    }
}

fn seal(bytes: &mut [u8], from: usize, to: usize) {
    let check = blake3::hash(&bytes[from..to]);
    bytes[to..to + CHECK].copy_from_slice(&check.as_bytes()[..CHECK]);
}
