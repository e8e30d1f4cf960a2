//! Operands and responses on the wire, one message per block of 8192 elements, blocks in parallel.
use super::key_exchange::{self, garbage};
use super::operand::{Operand, Part};
use super::state::Key;
use crate::{MpcError, Party, Result, Ring};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Arc;
use tacita_bfv::slots::{self, EncryptedSlots, Lifting, SlotRing, Sum};
use tacita_ring::AlignedVec;

/// A plaintext prime with one's own key for it.
type Keyed = (Arc<SlotRing>, Arc<Key>);

fn keys(party: &mut Party, lifting: &Lifting) -> Result<Vec<Keyed>> {
    let key = |ring: &Arc<SlotRing>| Ok((ring.clone(), key_exchange::key(party, ring)?));
    lifting.rings().iter().map(key).collect()
}

/// Ranges of elements that share a ciphertext, in groups to be worked on at once: a group's messages leave
/// before the next group is begun, so that the peer has work meanwhile.
fn groups(len: usize, slots: usize) -> Vec<Vec<Range<usize>>> {
    let blocks: Vec<_> = (0..len)
        .step_by(slots)
        .map(|at| at..len.min(at + slots))
        .collect();
    blocks
        .chunks(rayon::current_num_threads())
        .map(<[_]>::to_vec)
        .collect()
}

/// An operand of one's own share and, at the server, the client's under encryption.
pub(super) fn share(party: &mut Party, x: &[u64], ring: Ring, slack: u32) -> Result<Operand> {
    let lifting = key_exchange::lifting(party, ring.bits(), slack)?;
    let encrypted = transfer(party, &lifting, x)?;
    let share = x.to_vec();
    Ok(Operand {
        share,
        ring,
        slack,
        lifting,
        encrypted,
    })
}

/// The client's values, encrypted, to the server (which gets ciphertexts by block and prime; the client
/// nothing).
fn transfer(party: &mut Party, lifting: &Lifting, values: &[u64]) -> Result<Vec<Vec<EncryptedSlots>>> {
    if values.is_empty() {
        return Ok(vec![]);
    }
    let keyed = keys(party, lifting)?;
    let mut received = vec![];
    for group in groups(values.len(), keyed[0].0.n()) {
        if party.is_client() {
            let messages: Vec<_> = group
                .into_par_iter()
                .map(|block| encrypt(&keyed, lifting, &values[block]))
                .collect();
            messages
                .into_iter()
                .try_for_each(|message| party.send(&message?))?;
        } else {
            let len = keyed
                .iter()
                .map(|(ring, _)| EncryptedSlots::bytes_len(ring))
                .sum();
            let messages = group
                .iter()
                .map(|_| party.receive(len))
                .collect::<Result<Vec<_>>>()?;
            received.extend(
                messages
                    .par_iter()
                    .map(|message| read(&keyed, message))
                    .collect::<Result<Vec<_>>>()?,
            );
        }
    }
    Ok(received)
}

fn encrypt(keyed: &[Keyed], lifting: &Lifting, values: &[u64]) -> Result<Vec<u8>> {
    let mut message = vec![];
    for (j, (ring, key)) in keyed.iter().enumerate() {
        let Some(secret) = key.secret() else { continue };
        let mut lifted = AlignedVec::scratch(ring.n());
        lifting.lift(j, values, &mut lifted);
        message.extend(slots::encrypt(ring, secret, lifted)?);
    }
    Ok(message)
}

fn read(keyed: &[Keyed], mut message: &[u8]) -> Result<Vec<EncryptedSlots>> {
    let mut read = |(ring, _): &Keyed| {
        let (head, tail) = message.split_at(EncryptedSlots::bytes_len(ring));
        message = tail;
        EncryptedSlots::from_bytes(ring, head).ok_or_else(|| garbage("ciphertext"))
    };
    keyed.iter().map(&mut read).collect()
}

/// `local` plus one's share of the sum of (client's share of the operand) * (server's multiplier). One
/// response per block and prime.
pub(super) fn evaluate(party: &mut Party, parts: &[Part<'_>], mut local: Vec<u64>) -> Result<Vec<u64>> {
    let Some(first) = parts.first().filter(|_| !local.is_empty()) else {
        return Ok(local);
    };
    let (lifting, ring) = (first.operand.lifting.clone(), first.operand.ring());
    let keyed = keys(party, &lifting)?;
    book_failure(party, &lifting, parts.len(), local.len())?;
    for group in groups(local.len(), keyed[0].0.n()) {
        let shares = if party.is_client() {
            receive(party, &keyed, &lifting, &group)?
        } else {
            respond(party, &keyed, &lifting, parts, &group)?
        };
        for (block, share) in group.into_iter().zip(shares) {
            local[block]
                .iter_mut()
                .zip(share)
                .for_each(|(sum, x)| *sum = ring.add(*sum, x));
        }
    }
    Ok(local)
}

/// Adds up what responses to sums of `terms` products of `len` elements fail with.
fn book_failure(party: &mut Party, lifting: &Lifting, terms: usize, len: usize) -> Result<()> {
    if terms > slots::MOST_TERMS {
        let detail = format!("a sum of {terms} products; take {} at once", slots::MOST_TERMS);
        return Err(MpcError::Shape {
            op: "products",
            detail,
        });
    }
    for ring in lifting.rings() {
        let each = ring.failure_log2();
        let coefficients = len.div_ceil(ring.n()) * ring.n();
        party.products.failure += coefficients as f64 * each.exp2();
    }
    Ok(())
}

fn respond(
    party: &mut Party,
    keyed: &[Keyed],
    lifting: &Lifting,
    parts: &[Part<'_>],
    group: &[Range<usize>],
) -> Result<Vec<Vec<u64>>> {
    let answers: Vec<_> = group
        .par_iter()
        .map(|block| respond_block(keyed, lifting, parts, block))
        .collect();
    let mut shares = vec![];
    for answer in answers {
        let (message, share) = answer?;
        party.send(&message)?;
        shares.push(share);
    }
    Ok(shares)
}

fn respond_block(
    keyed: &[Keyed],
    lifting: &Lifting,
    parts: &[Part<'_>],
    block: &Range<usize>,
) -> Result<(Vec<u8>, Vec<u64>)> {
    let (mut message, mut residues) = (vec![], vec![]);
    for (j, (ring, key)) in keyed.iter().enumerate() {
        let Some(public) = key.public() else { continue };
        let mut sum = Sum::zero(ring);
        for part in parts {
            let Some(multiplier) = &part.multiplier else {
                continue;
            };
            let at = part.only.unwrap_or(block.start / ring.n());
            let mut plain = AlignedVec::scratch(ring.n());
            lifting.plain(j, &multiplier[block.clone()], &mut plain);
            sum.add_product(ring, &part.operand.encrypted[at][j], plain);
        }
        let (bytes, share) = slots::respond(ring, public, sum)?;
        message.extend(bytes);
        residues.push(share);
    }
    Ok((message, lifting.down(&mut residues, block.len())))
}

fn receive(
    party: &mut Party,
    keyed: &[Keyed],
    lifting: &Lifting,
    group: &[Range<usize>],
) -> Result<Vec<Vec<u64>>> {
    let len = keyed.iter().map(|(ring, _)| slots::response_len(ring)).sum();
    let messages = group
        .iter()
        .map(|_| party.receive(len))
        .collect::<Result<Vec<_>>>()?;
    let pairs = messages.par_iter().zip(group);
    pairs
        .map(|(message, block)| open(keyed, lifting, message, block.len()))
        .collect()
}

fn open(keyed: &[Keyed], lifting: &Lifting, mut message: &[u8], count: usize) -> Result<Vec<u64>> {
    let mut residues = vec![];
    for (ring, key) in keyed {
        let Some(secret) = key.secret() else { continue };
        let (head, tail) = message.split_at(slots::response_len(ring));
        message = tail;
        residues.push(slots::open(ring, secret, head).ok_or_else(|| garbage("response"))?);
    }
    Ok(lifting.down(&mut residues, count))
}
