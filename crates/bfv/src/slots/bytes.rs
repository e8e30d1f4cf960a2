//! Residues on the wire: each prime's at its own width, packed little-endian, N of them to whole bytes (N is
//! a multiple of 64).
use super::SlotRing;
use tacita_ring::AlignedVec;

/// Bytes of one polynomial over primes of these widths.
pub(super) fn packed_len(n: usize, widths: &[u32]) -> usize {
    widths.iter().map(|&w| n / 8 * w as usize).sum()
}

/// Appends the residues of one prime, below 2^width.
pub(super) fn pack(limb: &[f64], width: u32, out: &mut Vec<u8>) {
    let (mut held, mut filled) = (0u64, 0);
    for &x in limb {
        let x = x as i64 as u64;
        held |= x << filled;
        filled += width;
        if filled >= 64 {
            out.extend_from_slice(&held.to_le_bytes());
            filled -= 64;
            // the bits of x that did not fit; width > filled here
            held = x >> 1 >> (width - filled - 1);
        }
    }
    debug_assert_eq!(filled, 0, "64 divides the number of residues");
}

/// Reads the residues of one prime; `None` if one is not below `p`. `bytes` has the length of [`packed_len`].
fn unpack(bytes: &[u8], width: u32, p: u64, limb: &mut [f64]) -> Option<()> {
    let mask = u64::MAX >> (64 - width);
    let mut words = bytes
        .chunks_exact(8)
        .map(|c| u64::from_le_bytes(c.try_into().expect("eight bytes")));
    let (mut held, mut filled, mut largest) = (0u64, 0, 0);
    for x in limb {
        let mut value = held;
        if filled < width {
            let next = words.next()?;
            value |= next << filled;
            held = next >> 1 >> (width - filled - 1);
            filled += 64 - width;
        } else {
            held >>= width;
            filled -= width;
        }
        value &= mask;
        largest = largest.max(value);
        *x = value as i64 as f64;
    }
    (largest < p).then_some(())
}

/// Residues of the first `widths.len()` ciphertext primes; `None` if the length is wrong or one is not
/// canonical.
pub(super) fn unpack_limbs(ring: &SlotRing, widths: &[u32], mut bytes: &[u8]) -> Option<Vec<AlignedVec>> {
    if bytes.len() != packed_len(ring.n(), widths) {
        return None;
    }
    let mut limbs = vec![];
    for (i, &width) in widths.iter().enumerate() {
        let (head, tail) = bytes.split_at(ring.n() / 8 * width as usize);
        let mut limb = AlignedVec::scratch(ring.n());
        unpack(head, width, ring.params().modulus(i).p(), &mut limb)?;
        (bytes, _) = (tail, limbs.push(limb));
    }
    Some(limbs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpack_inverts_pack_at_every_width() {
        for width in 21..=50u32 {
            let p = (1u64 << width) - 1;
            let limb: Vec<f64> = (0..128u64)
                .map(|i| match i {
                    0 => 0,
                    1 => p - 1,
                    _ => i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % p,
                })
                .map(|x| x as f64)
                .collect();
            let mut bytes = vec![];
            pack(&limb, width, &mut bytes);
            assert_eq!(bytes.len(), packed_len(128, &[width]));
            let mut back = vec![0.0; 128];
            assert!(unpack(&bytes, width, p, &mut back).is_some());
            assert_eq!(back, limb, "{width} bits");
            assert!(
                unpack(&bytes, width, p - 1, &mut back).is_none(),
                "a residue that is not canonical"
            );
        }
    }
}
