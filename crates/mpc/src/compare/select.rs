//! Bits times ring elements.
use super::sign::same_length;
use crate::{Party, Result, Ring};

/// Shares of b*x for a shared bit b and a shared x (the multiplexer). Exact.
///
/// b*x = sum over both parties of (own bit)*(own x) + (other's bit)*(own x)(1 - 2*own bit): one additive correlated transfer in each direction.
/// Cost for each element: 2*(bits + 1) bits on the wire, 2 correlated transfers, one round trip.
///
/// # Errors
/// Those of the channel; [`crate::MpcError::Shape`] for two lengths.
pub fn select(party: &mut Party, bit: &[u8], x: &[u64], ring: Ring) -> Result<Vec<u64>> {
    same_length("select", bit.len(), x.len())?;
    party.measured("select", |party| {
        let flipped: Vec<u64> = bit.iter().zip(x).map(|(&b, &x)| flip(b, x)).collect();
        let chosen = party.choose(bit)?;
        let kept = party.correlate(&flipped, ring)?;
        let got = party.take_correlated(chosen, ring)?;
        let own = bit.iter().zip(x).map(|(&b, &x)| x & u64::from(b).wrapping_neg());
        let cross = kept.iter().zip(&got).map(|(&k, &g)| g.wrapping_sub(k));
        Ok(own.zip(cross).map(|(o, c)| ring.add(o, c)).collect())
    })
}

/// x(1 - 2b).
fn flip(bit: u8, x: u64) -> u64 {
    let sign = u64::from(bit).wrapping_neg();
    (x ^ sign).wrapping_sub(sign)
}

/// Shares of b*x for several payloads x of the same bit, each in its own ring.
///
/// # Errors
/// Those of [`select`].
pub fn select_many(party: &mut Party, bit: &[u8], payloads: &[(&[u64], Ring)]) -> Result<Vec<Vec<u64>>> {
    payloads.iter().map(|&(x, ring)| select(party, bit, x, ring)).collect()
}

/// Additive shares of a shared bit: b = b0 + b1 - 2*b0*b1 with b0*b1 by one correlated transfer modulo 2^(bits-1), the client
/// receiving. Cost for each element: `bits` bits on the wire, 1 correlated transfer.
///
/// # Errors
/// Those of the channel.
pub fn to_arithmetic(party: &mut Party, bits: &[u8], ring: Ring) -> Result<Vec<u64>> {
    party.measured("to_arithmetic", |party| Ok(convert(party, &[(bits, ring)])?.remove(0)))
}

/// [`to_arithmetic`] of several vectors in one round trip.
pub(super) fn convert(party: &mut Party, inputs: &[(&[u8], Ring)]) -> Result<Vec<Vec<u64>>> {
    let halves: Vec<Option<Ring>> = inputs
        .iter()
        .map(|(_, ring)| (ring.bits() > 1).then(|| Ring::new(ring.bits() - 1)))
        .collect();
    let mut terms: Vec<(&[u8], Ring)> = Vec::new();
    terms.extend(
        inputs
            .iter()
            .zip(&halves)
            .filter_map(|(&(bits, _), &half)| Some((bits, half?))),
    );
    let mut products = one_way_products(party, &terms)?.into_iter();
    let mut out = Vec::new();
    for (&(bits, ring), half) in inputs.iter().zip(&halves) {
        let product = if half.is_some() { products.next() } else { None };
        let product = product.unwrap_or_else(|| vec![0; bits.len()]);
        let own = bits.iter().zip(product);
        out.push(own.map(|(&b, p)| ring.sub(b.into(), p.wrapping_mul(2))).collect());
    }
    Ok(out)
}

/// Shares of b0*b1 (client's bit times server's bit) in each ring: 1 + ring bits on the wire, one correlated transfer, one round trip in all.
pub(super) fn one_way_products(party: &mut Party, terms: &[(&[u8], Ring)]) -> Result<Vec<Vec<u64>>> {
    if party.is_client() {
        let chosen: Result<Vec<_>> = terms.iter().map(|(bits, _)| party.choose(bits)).collect();
        let taken = chosen?.into_iter().zip(terms);
        return taken.map(|(c, &(_, ring))| party.take_correlated(c, ring)).collect();
    }
    let mut shares = Vec::new();
    for &(bits, ring) in terms {
        let deltas: Vec<u64> = bits.iter().map(|&b| b.into()).collect();
        let kept = party.correlate(&deltas, ring)?;
        shares.push(kept.into_iter().map(|x| ring.neg(x)).collect());
    }
    Ok(shares)
}
