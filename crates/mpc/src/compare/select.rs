//! Bits times ring elements.
use super::sign::same_length;
use crate::{Party, Result, Ring};

/// Shares of b*x for a shared bit b and a shared x (the multiplexer). Exact.
///
/// b*x = sum over both parties of (own bit)*(own x) + (other's bit)*(own x)(1 - 2*own bit): one additive
/// correlated transfer in each direction. Cost for each element: 2*(bits + 1) bits on the wire, 2 correlated
/// transfers, one round trip.
///
/// # Errors
/// Those of the channel; [`crate::MpcError::Shape`] for two lengths.
pub fn select(party: &mut Party, bit: &[u8], x: &[u64], ring: Ring) -> Result<Vec<u64>> {
    Ok(select_many(party, bit, &[(x, ring)])?.remove(0))
}

/// Shares of b*x for several payloads x of the same bit, each in its own ring.
///
/// Cost for each element: 2 bits and 2 correlated transfers for every 128 bits of payload or part of them,
/// and 2 bits on the wire for each bit of payload; one round trip.
///
/// # Errors
/// Those of [`select`].
pub fn select_many(party: &mut Party, bit: &[u8], payloads: &[(&[u64], Ring)]) -> Result<Vec<Vec<u64>>> {
    for (x, _) in payloads {
        same_length("select", bit.len(), x.len())?;
    }
    party.measured("select", |party| {
        let choose = |party: &mut Party| {
            groups(payloads)
                .map(|_| party.choose(bit))
                .collect::<Result<Vec<_>>>()
        };
        let answer = |party: &mut Party| {
            let mut kept = Vec::new();
            for group in groups(payloads) {
                let flipped: Vec<Vec<u64>> = group.iter().map(|(x, _)| flip(bit, x)).collect();
                let deltas = flipped.iter().zip(group).map(|(f, g)| (f.as_slice(), g.1));
                kept.extend(party.correlate_many(&deltas.collect::<Vec<_>>())?);
            }
            Ok(kept)
        };
        let take = |party: &mut Party, chosen: Vec<_>| {
            let mut got = Vec::new();
            for (group, chosen) in groups(payloads).zip(chosen) {
                let rings: Vec<Ring> = group.iter().map(|g| g.1).collect();
                got.extend(party.take_many(chosen, &rings)?);
            }
            Ok(got)
        };
        let (kept, got) = party.both_ways(choose, answer, take)?;
        let parts = payloads.iter().zip(kept.iter().zip(&got));
        Ok(parts
            .map(|(&(x, ring), (kept, got))| combine(bit, x, ring, kept, got))
            .collect())
    })
}

/// Payloads that share a choice: runs of at most 128 bits.
fn groups<'a>(payloads: &'a [(&'a [u64], Ring)]) -> impl Iterator<Item = &'a [(&'a [u64], Ring)]> {
    let mut rest = payloads;
    std::iter::from_fn(move || {
        let mut bits = 0;
        let fits = rest.iter().take_while(|(_, ring)| {
            bits += ring.bits();
            bits <= 128
        });
        let (group, others) = rest.split_at(fits.count());
        rest = others;
        (!group.is_empty()).then_some(group)
    })
}

/// b*x + got - kept at one party.
fn combine(bit: &[u8], x: &[u64], ring: Ring, kept: &[u64], got: &[u64]) -> Vec<u64> {
    let own = bit.iter().zip(x).map(|(&b, &x)| x & u64::from(b).wrapping_neg());
    let cross = kept.iter().zip(got).map(|(&k, &g)| g.wrapping_sub(k));
    own.zip(cross).map(|(o, c)| ring.add(o, c)).collect()
}

/// x(1 - 2b).
fn flip(bit: &[u8], x: &[u64]) -> Vec<u64> {
    let one = |(&b, &x): (&u8, &u64)| {
        let sign = u64::from(b).wrapping_neg();
        (x ^ sign).wrapping_sub(sign)
    };
    bit.iter().zip(x).map(one).collect()
}

/// Additive shares of a shared bit: b = b0 + b1 - 2*b0*b1 with b0*b1 by one correlated transfer modulo
/// 2^(bits-1), the client receiving. Cost for each element: `bits` bits on the wire, 1 correlated transfer.
///
/// # Errors
/// Those of the channel.
pub fn to_arithmetic(party: &mut Party, bits: &[u8], ring: Ring) -> Result<Vec<u64>> {
    party.measured("to_arithmetic", |party| {
        Ok(convert(party, &[(bits, ring)])?.remove(0))
    })
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

/// Shares of b0*b1 (client's bit times server's bit) in each ring: 1 + ring bits on the wire, one correlated
/// transfer, one round trip in all.
pub(super) fn one_way_products(party: &mut Party, terms: &[(&[u8], Ring)]) -> Result<Vec<Vec<u64>>> {
    if party.is_client() {
        let chosen: Result<Vec<_>> = terms.iter().map(|(bits, _)| party.choose(bits)).collect();
        let taken = chosen?.into_iter().zip(terms);
        return taken
            .map(|(c, &(_, ring))| party.take_correlated(c, ring))
            .collect();
    }
    let mut shares = Vec::new();
    for &(bits, ring) in terms {
        let deltas: Vec<u64> = bits.iter().map(|&b| b.into()).collect();
        let kept = party.correlate(&deltas, ring)?;
        shares.push(kept.into_iter().map(|x| ring.neg(x)).collect());
    }
    Ok(shares)
}
