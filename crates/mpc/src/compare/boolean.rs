//! Bits: XOR shares, one bit in each byte.
use super::sign::same_length;
use super::tree::look_up;
use crate::{Party, Result, Role};

/// x AND y. Cost: 4 bits on the wire and 2 correlated transfers for each element, one round trip.
///
/// # Errors
/// Those of the channel; [`crate::MpcError::Shape`] for two lengths.
pub fn and(party: &mut Party, x: &[u8], y: &[u8]) -> Result<Vec<u8>> {
    same_length("and", x.len(), y.len())?;
    party.measured("and", |party| {
        let (kept, got) = party.both_ways(
            |party| party.choose(x),
            |party| party.correlate_xor(y, 1),
            |party, chosen| party.take_xor(chosen, 1),
        )?;
        let cross = kept.iter().zip(&got).map(|(a, b)| a ^ b);
        Ok(cross
            .zip(x.iter().zip(y))
            .map(|(c, (x, y))| c ^ (x & y))
            .collect())
    })
}

/// The AND of all vectors, one or more of one length, by look-ups of at most four bits; `offers` has the
/// table of the first, then they take turns. Cost for each look-up of m bits: m + 2^m - 1 bits on the wire
/// and m correlated transfers; half a round for a run of them.
///
/// # Errors
/// Those of the channel.
pub(super) fn all(party: &mut Party, mut bits: Vec<Vec<u8>>, mut offers: Role) -> Result<Vec<u8>> {
    let count = bits[0].len();
    while bits.len() > 1 {
        let m = bits.len().min(4);
        // what the last run lacks is 1
        bits.resize(
            bits.len().next_multiple_of(m),
            vec![u8::from(party.is_client()); count],
        );
        let index = |some: &[Vec<u8>], i| some.iter().rev().fold(0, |index, bits| index << 1 | bits[i]);
        let runs = bits.chunks(m);
        let indices: Vec<u8> = runs
            .flat_map(|some| (0..count).map(move |i| index(some, i)))
            .collect();
        let full = (1u8 << m) - 1;
        let found = party.measured("all", |party| {
            look_up(party, offers, (m as u32, 1), &indices, |own, theirs| {
                u8::from(own ^ theirs == full)
            })
        })?;
        bits = (0..bits.len() / m)
            .map(|run| found[run * count..][..count].to_vec())
            .collect();
        offers = offers.other();
    }
    Ok(bits.remove(0))
}

/// What [`all`] costs for each element, of so many vectors: bits on the wire and correlated transfers, and
/// messages of all elements.
pub(super) fn all_cost(mut vectors: u64) -> ((u64, u64), u64) {
    let ((mut wire, mut transfers), mut messages) = ((0, 0), 0);
    while vectors > 1 {
        let m = vectors.min(4);
        vectors = vectors.div_ceil(m);
        (wire, transfers) = (wire + vectors * (m + (1 << m) - 1), transfers + vectors * m);
        messages += 1;
    }
    ((wire, transfers), messages)
}

/// x XOR y; local. Lengths must be the same (the shorter one counts).
pub fn xor(x: &[u8], y: &[u8]) -> Vec<u8> {
    x.iter().zip(y).map(|(x, y)| x ^ y).collect()
}

/// NOT x; local: the client flips.
pub fn not(party: &Party, x: &[u8]) -> Vec<u8> {
    let flip = u8::from(party.is_client());
    x.iter().map(|x| x ^ flip).collect()
}
