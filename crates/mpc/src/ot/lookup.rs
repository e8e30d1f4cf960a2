//! 1-of-2^m lookups: the sender holds a table, the receiver an index, both get XOR shares of the entry.
//!
//! Made of m COTs with blocks K_t: S = sum of x^t K_t in GF(2^128), t < m. The receiver, with bits b_t, knows
//! S + P_b*delta, where P_b = sum of b_t x^t; the pad of position j is H(S + P_j*delta). The P_j are distinct
//! polynomials of degree < m <= 4, so every pad but his own is H at a point (P_b + P_j)*delta away from the
//! one he knows: a fixed non-zero multiple of delta, as uniform to him as delta itself, and the proof of
//! correlation robustness goes through with 2^m - 1 points in place of one. (A plain XOR of blocks would not
//! do: it takes two values only.) Announcing the index against b takes m bits. Entry 0 is not sent: its pad
//! *is* the sharing. Costs per lookup: m COTs; m + (2^m - 1)*bits bits; 2^m AES calls at the sender, one at
//! the receiver.
use super::correlated::{check_bits, check_values, Pads};
use super::pads::PadKeys;
use super::pool::Announced;
use super::wire;
use crate::bits::packed_len;
use crate::{MpcError, Party, Result};
use zeroize::Zeroizing;

/// Indices announced, waiting for the sender's message. Take them in the order in which they were made.
#[must_use = "the sender's message has to be taken from the channel"]
pub struct ChosenOf {
    m: u32,
    indices: Vec<u8>,
    ticket: Announced,
}

impl Party {
    /// Receiver: announces indices below 2^m, m = 1..=4. Sends m bits each; uses m COTs each.
    ///
    /// # Errors
    /// Those of the channel; [`MpcError::Shape`] for other m, an index too large or before `setup_ot`.
    pub fn choose_of(&mut self, m: u32, indices: &[u8]) -> Result<ChosenOf> {
        let size = check_m("choose_of", m)?;
        check_values("choose_of", indices, (size - 1) as u8)?;
        let (bits, ticket) = self.bits_as_receiver(indices.len() * m as usize)?;
        let corrections: Vec<u8> = (bits.chunks_exact(m as usize).zip(indices))
            .map(|(bits, index)| index ^ bits.iter().rev().fold(0, |digit, b| 2 * digit + b))
            .collect();
        self.send(&wire::pack(&corrections, m))?;
        let indices = indices.to_vec();
        Ok(ChosenOf { m, indices, ticket })
    }

    /// Sender: offers one table of 2^m entries of `bits` (1..=8) bits per lookup, table by table in `tables`;
    /// returns its shares. Receives m bits, sends (2^m - 1)*bits bits each.
    ///
    /// # Errors
    /// Those of the channel; [`MpcError::Shape`] for other m or bits, part of a table or before `setup_ot`.
    pub fn offer(&mut self, m: u32, bits: u32, tables: &[u8]) -> Result<Vec<u8>> {
        let (size, mask) = (check_m("offer", m)?, check_bits("offer", bits)?);
        if !tables.len().is_multiple_of(size) {
            let detail = format!("{} entries are not tables of {size}", tables.len());
            return Err(MpcError::Shape { op: "offer", detail });
        }
        let count = tables.len() / size;
        let (blocks, delta, keys) = self.cots_as_sender(count * m as usize)?;
        let pads = all_pads(m, &sums(&blocks, m), delta, &keys);
        let corrections = self.receive(packed_len(count, m))?;
        let corrections = wire::unpack(&corrections, m, count);
        let (shares, message) = answer(m, mask, tables, &pads, &corrections);
        self.send(&wire::pack(&message, bits))?;
        Ok(shares)
    }

    /// Receiver: his shares of the entries that he chose from the matching [`Party::offer`].
    ///
    /// # Errors
    /// Those of the channel; [`MpcError::Shape`] for other widths.
    pub fn take(&mut self, chosen: ChosenOf, bits: u32) -> Result<Vec<u8>> {
        let ChosenOf { m, indices, ticket } = chosen;
        let (size, mask) = (check_m("take", m)?, check_bits("take", bits)?);
        let (blocks, keys) = self.blocks_as_receiver(ticket)?;
        let pads = own_pads(m, sums(&blocks, m), &keys);
        let entries = indices.len() * (size - 1);
        let message = self.receive(packed_len(entries, bits))?;
        let message = wire::unpack(&message, bits, entries);
        Ok(read(m, mask, &indices, &message, &pads))
    }
}

/// The sender's pads of S + P_j*delta for every lookup and position, of which tables use a byte at most. They
/// wait for no message: the sender makes them while the receiver chooses. Made group by group, so that the
/// blocks stay in the cache.
pub(super) fn all_pads(m: u32, sums: &[u128], delta: u128, keys: &PadKeys) -> Zeroizing<Vec<u8>> {
    let offsets = offsets(1 << m, delta);
    let group = PadKeys::group(1 << m);
    let mut out = Vec::with_capacity(sums.len() << m);
    let mut points: Pads = vec![0; group << m].into();
    for (index, sums) in sums.chunks(group).enumerate() {
        let points = &mut points[..sums.len() << m];
        for (points, sum) in points.chunks_exact_mut(1 << m).zip(sums) {
            points
                .iter_mut()
                .zip(&offsets)
                .for_each(|(point, offset)| *point = sum ^ offset);
        }
        keys.hash_group(index * group, points);
        out.extend(points.iter().map(|&pad| pad as u8));
    }
    out.into()
}

/// The receiver's pads, out of the S of every lookup.
pub(super) fn own_pads(m: u32, mut sums: Pads, keys: &PadKeys) -> Pads {
    keys.hash_all(1 << m, &mut sums);
    sums
}

/// The sender's shares and message: tables under the pads, with the corrections that the receiver announced.
pub(super) fn answer(m: u32, mask: u8, tables: &[u8], pads: &[u8], corrections: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let size = 1 << m;
    let mut shares = Vec::with_capacity(corrections.len());
    let mut message = vec![0; corrections.len() * (size - 1)];
    let tables = tables.chunks_exact(size).zip(pads.chunks_exact(size));
    let lookups = message.chunks_exact_mut(size - 1).zip(corrections).zip(tables);
    for ((out, &d), (table, pads)) in lookups {
        let d = usize::from(d);
        let share = (table[0] ^ pads[d]) & mask;
        shares.push(share);
        for (e, out) in (1..).zip(out) {
            *out = table[e] ^ share ^ pads[e ^ d];
        }
    }
    (shares, message)
}

/// The receiver's shares, out of the sender's message and his own pads.
pub(super) fn read(m: u32, mask: u8, indices: &[u8], message: &[u8], pads: &[u128]) -> Vec<u8> {
    let open = |((entries, &index), &pad): ((&[u8], &u8), &u128)| {
        let entry = (1u8..)
            .zip(entries)
            .fold(0, |found, (e, y)| found | (y & equal_mask(e, index)));
        (entry ^ pad as u8) & mask
    };
    let entries = message.chunks_exact((1 << m) - 1);
    entries.zip(indices).zip(pads.iter()).map(open).collect()
}

/// S of every lookup: the blocks weighted by powers of x.
pub(super) fn sums(blocks: &[u128], m: u32) -> Pads {
    let combine = |blocks: &[u128]| blocks.iter().rev().fold(0, |sum, block| double(sum) ^ block);
    blocks
        .chunks_exact(m as usize)
        .map(combine)
        .collect::<Vec<_>>()
        .into()
}

/// P_j * delta for j < size.
fn offsets(size: usize, delta: u128) -> Vec<u128> {
    let mut offsets = vec![0];
    let mut power = delta;
    while offsets.len() < size {
        let upper: Vec<u128> = offsets.iter().map(|o| o ^ power).collect();
        offsets.extend(upper);
        power = double(power);
    }
    offsets
}

/// x * a in GF(2^128) = `F_2[x]` / (x^128 + x^7 + x^2 + x + 1).
pub(super) const fn double(a: u128) -> u128 {
    (a << 1) ^ (0x87 & (a >> 127).wrapping_neg())
}

/// 0xff when a = b, without a branch.
const fn equal_mask(a: u8, b: u8) -> u8 {
    (((a ^ b) as u16).wrapping_sub(1) >> 8) as u8
}

pub(super) fn check_m(op: &'static str, m: u32) -> Result<usize> {
    if !(1..=4).contains(&m) {
        let detail = format!("tables of 2^{m} entries where 2^1 to 2^4 are possible");
        return Err(MpcError::Shape { op, detail });
    }
    Ok(1 << m)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ot::CotKind;
    use crate::testing::{run_both, run_pair};

    fn table(count: usize, bits: u32) -> Vec<u8> {
        (0..count)
            .map(|i| (i * i * 31 + i / 3 + 5) as u8 & (u8::MAX >> (8 - bits)))
            .collect()
    }

    fn indices(count: usize, size: usize) -> Vec<u8> {
        (0..count).map(|i| ((i * 7 + i / size) % size) as u8).collect()
    }

    #[test]
    fn shares_open_to_the_entry_chosen() {
        for m in 1..=4u32 {
            for bits in 1..=8u32 {
                for count in [0usize, 1, 63, 130] {
                    let (tables, index) = (table(count << m, bits), indices(count, 1 << m));
                    let (got, kept) = run_pair(
                        |party| {
                            party.setup_ot(CotKind::InsecureTestDealer)?;
                            let chosen = party.choose_of(m, &index)?;
                            party.take(chosen, bits)
                        },
                        |party| {
                            party.setup_ot(CotKind::InsecureTestDealer)?;
                            party.offer(m, bits, &tables)
                        },
                    );
                    for i in 0..count {
                        let entry = tables[(i << m) + usize::from(index[i])];
                        assert_eq!(got[i] ^ kept[i], entry, "m {m} bits {bits} lookup {i}");
                    }
                }
            }
        }
    }

    #[test]
    fn both_directions_at_once() {
        let (m, bits, count) = (2, 3, 8191);
        let inputs = (
            (table(4 * count, 3), indices(count, 4)),
            (table(4 * count + 4, 3)[4..].to_vec(), indices(count, 3)),
        );
        let (client, server) = run_both(inputs.clone(), |party, (tables, index)| {
            party.setup_ot(CotKind::InsecureTestDealer)?;
            let chosen = party.choose_of(m, &index)?;
            Ok((party.offer(m, bits, &tables)?, party.take(chosen, bits)?))
        });
        for i in 0..count {
            let (from_server, from_client) = (
                inputs.1 .0[4 * i + usize::from(inputs.0 .1[i])],
                inputs.0 .0[4 * i + usize::from(inputs.1 .1[i])],
            );
            assert_eq!(client.1[i] ^ server.0[i], from_server);
            assert_eq!(server.1[i] ^ client.0[i], from_client);
        }
    }

    #[test]
    fn doubling_and_offsets_are_linear() {
        let delta = 0xc3a5_0000_1234_5678_9abc_def0_8765_4321;
        assert_eq!(double(1 << 127), 0x87);
        let offsets = offsets(16, delta);
        for (j, &offset) in offsets.iter().enumerate() {
            let terms = [
                delta,
                double(delta),
                double(double(delta)),
                double(double(double(delta))),
            ];
            let expected = (0..4)
                .filter(|t| j >> t & 1 == 1)
                .fold(0, |sum, t| sum ^ terms[t]);
            assert_eq!(offset, expected);
        }
    }

    #[test]
    fn refuses_what_it_cannot_do() {
        let (client, server) = run_pair(
            |party| {
                party.setup_ot(CotKind::InsecureTestDealer)?;
                Ok(party.choose_of(2, &[4]).is_err() && party.choose_of(5, &[0]).is_err())
            },
            |party| {
                party.setup_ot(CotKind::InsecureTestDealer)?;
                Ok(party.offer(2, 2, &[0; 5]).is_err() && party.offer(0, 1, &[0]).is_err())
            },
        );
        assert!(client && server);
    }
}
