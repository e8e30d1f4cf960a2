//! Bits: XOR shares, one bit in each byte.
use super::sign::same_length;
use crate::{Party, Result};

/// x AND y. Cost: 4 bits on the wire and 2 correlated transfers for each element, one round trip.
///
/// # Errors
/// Those of the channel; [`crate::MpcError::Shape`] for two lengths.
pub fn and(party: &mut Party, x: &[u8], y: &[u8]) -> Result<Vec<u8>> {
    same_length("and", x.len(), y.len())?;
    party.measured("and", |party| {
        let chosen = party.choose(x)?;
        let kept = party.correlate_xor(y, 1)?;
        let got = party.take_xor(chosen, 1)?;
        let cross = kept.iter().zip(&got).map(|(a, b)| a ^ b);
        Ok(cross
            .zip(x.iter().zip(y))
            .map(|(c, (x, y))| c ^ (x & y))
            .collect())
    })
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
