//! Correlated OT with chosen bits and small payloads: the sender ends with x, the receiver with x + c*delta.
//!
//! The receiver announces d = c + b against the random bit b of a COT (one bit on the wire; b hides c). With
//! K the sender's block, the pads of the two choices are H(K + d*delta) and H(K + (1+d)*delta); the
//! receiver's block is the preimage of the pad of c, and the other is pseudo-random to him because H is
//! correlation robust. Costs per element: 1 bit and one AES call at the receiver, the payload's bits and two
//! AES calls at the sender (IKNP-style correlated OT: Asharov, Lindell, Schneider, Zohner 2013, section 5.4).
use super::pool::Announced;
use super::wire;
use crate::bits::{pack, packed_len, unpack};
use crate::{MpcError, Party, Result, Ring};
use zeroize::Zeroizing;

/// Pads, or blocks to become pads.
pub(super) type Pads = Zeroizing<Vec<u128>>;

/// Choices announced, waiting for the sender's message. Take them in the order in which they were made.
#[must_use = "the sender's message has to be taken from the channel"]
pub struct Chosen {
    choices: Vec<u8>,
    ticket: Announced,
}

impl Party {
    /// Receiver: announces choices (0 or 1). Sends 1 bit each; uses one COT each.
    ///
    /// # Errors
    /// Those of the channel; [`MpcError::Shape`] for a choice above 1 or before `setup_ot`.
    pub fn choose(&mut self, choices: &[u8]) -> Result<Chosen> {
        check_values("choose", choices, 1)?;
        let (mut corrections, ticket) = self.bits_as_receiver(choices.len())?;
        corrections.iter_mut().zip(choices).for_each(|(b, c)| *b ^= c);
        self.send(&wire::pack(&corrections, 1))?;
        Ok(Chosen {
            choices: choices.to_vec(),
            ticket,
        })
    }

    /// Sender: gets x, gives the receiver x + c*delta modulo 2^bits. Receives 1 bit, sends `ring.bits()` bits
    /// each.
    ///
    /// # Errors
    /// Those of the channel; [`MpcError::Shape`] before `setup_ot`.
    pub fn correlate(&mut self, deltas: &[u64], ring: Ring) -> Result<Vec<u64>> {
        let (mine, theirs) = self.pads_of_choices(deltas.len())?;
        let message: Vec<u64> = (theirs.iter().zip(mine.iter()).zip(deltas))
            .map(|((&theirs, &mine), &delta)| ring.sub(theirs as u64, (mine as u64).wrapping_add(delta)))
            .collect();
        self.send(&pack(&message, ring.bits()))?;
        Ok(mine.iter().map(|&pad| ring.reduce(pad as u64)).collect())
    }

    /// Receiver: x + c*delta of the matching [`Party::correlate`].
    ///
    /// # Errors
    /// Those of the channel.
    pub fn take_correlated(&mut self, chosen: Chosen, ring: Ring) -> Result<Vec<u64>> {
        let (choices, pads) = self.pads_of_chosen(chosen)?;
        let message = self.receive(packed_len(choices.len(), ring.bits()))?;
        let message = unpack(&message, ring.bits(), choices.len());
        let open =
            |((&pad, y), &c): ((&u128, u64), &u8)| ring.sub(pad as u64, y & u64::from(c).wrapping_neg());
        Ok(pads.iter().zip(message).zip(&choices).map(open).collect())
    }

    /// Sender: as [`Party::correlate`] with XOR payloads of `bits` (1..=8) bits.
    ///
    /// # Errors
    /// Those of the channel; [`MpcError::Shape`] for other widths or before `setup_ot`.
    pub fn correlate_xor(&mut self, deltas: &[u8], bits: u32) -> Result<Vec<u8>> {
        let mask = check_bits("correlate_xor", bits)?;
        let (mine, theirs) = self.pads_of_choices(deltas.len())?;
        let message: Vec<u8> = (theirs.iter().zip(mine.iter()).zip(deltas))
            .map(|((&theirs, &mine), &delta)| theirs as u8 ^ mine as u8 ^ delta)
            .collect();
        self.send(&wire::pack(&message, bits))?;
        Ok(mine.iter().map(|&pad| pad as u8 & mask).collect())
    }

    /// Receiver: x + c*delta of the matching [`Party::correlate_xor`].
    ///
    /// # Errors
    /// Those of the channel; [`MpcError::Shape`] for other widths.
    pub fn take_xor(&mut self, chosen: Chosen, bits: u32) -> Result<Vec<u8>> {
        let mask = check_bits("take_xor", bits)?;
        let (choices, pads) = self.pads_of_chosen(chosen)?;
        let message = self.receive(packed_len(choices.len(), bits))?;
        let message = wire::unpack(&message, bits, choices.len());
        let open = |((&pad, y), &c): ((&u128, u8), &u8)| (pad as u8 ^ (y & c.wrapping_neg())) & mask;
        Ok(pads.iter().zip(message).zip(&choices).map(open).collect())
    }

    /// Sender: pads of choice 0 and of choice 1. They are made while the receiver chooses, and swapped where
    /// he says so.
    pub(super) fn pads_of_choices(&mut self, count: usize) -> Result<(Pads, Pads)> {
        let (mut zero, delta, keys) = self.cots_as_sender(count)?;
        let mut one: Pads = zero.iter().map(|block| block ^ delta).collect::<Vec<_>>().into();
        keys.hash_pairs(&mut zero, &mut one);
        let corrections = self.receive(packed_len(count, 1))?;
        let pads = zero.iter_mut().zip(one.iter_mut());
        for ((zero, one), d) in pads.zip(wire::unpack(&corrections, 1, count)) {
            let swapped = (*zero ^ *one) & u128::from(d).wrapping_neg();
            *zero ^= swapped;
            *one ^= swapped;
        }
        Ok((zero, one))
    }

    pub(super) fn pads_of_chosen(&mut self, chosen: Chosen) -> Result<(Vec<u8>, Pads)> {
        let (mut pads, keys) = self.blocks_as_receiver(chosen.ticket)?;
        keys.hash_all(2, &mut pads);
        Ok((chosen.choices, pads))
    }
}

/// The mask of a payload of 1..=8 bits.
pub(super) fn check_bits(op: &'static str, bits: u32) -> Result<u8> {
    if !(1..=8).contains(&bits) {
        let detail = format!("payloads of {bits} bits where 1..=8 are possible");
        return Err(MpcError::Shape { op, detail });
    }
    Ok(u8::MAX >> (8 - bits))
}

/// Refuses values above `most`, without naming them: they are secret.
pub(super) fn check_values(op: &'static str, values: &[u8], most: u8) -> Result<()> {
    if values.iter().fold(false, |bad, &v| bad | (v > most)) {
        let detail = format!("choices above {most}");
        return Err(MpcError::Shape { op, detail });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ot::CotKind;
    use crate::testing::{run_both, run_pair};

    fn choices(count: usize, seed: u64) -> Vec<u8> {
        (0..count as u64)
            .map(|i| ((i * i * 7 + i + seed) % 5 % 2) as u8)
            .collect()
    }

    fn deltas(count: usize, ring: Ring) -> Vec<u64> {
        (0..count as u64)
            .map(|i| ring.reduce((i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
            .collect()
    }

    #[test]
    fn the_receiver_gets_the_payload_he_chose_in_every_ring() {
        for bits in 1..=64 {
            let ring = Ring::new(bits);
            for count in [0usize, 1, 7, 65] {
                let (c, delta) = (choices(count, u64::from(bits)), deltas(count, ring));
                let (got, sent) = run_pair(
                    |party| {
                        party.setup_ot(CotKind::InsecureTestDealer)?;
                        let chosen = party.choose(&c)?;
                        party.take_correlated(chosen, ring)
                    },
                    |party| {
                        party.setup_ot(CotKind::InsecureTestDealer)?;
                        party.correlate(&delta, ring)
                    },
                );
                for i in 0..count {
                    assert_eq!(
                        got[i],
                        ring.add(sent[i], ring.mul(c[i].into(), delta[i])),
                        "{bits} bits, {i}"
                    );
                }
            }
        }
    }

    #[test]
    fn xor_payloads_of_every_width() {
        for bits in 1..=8u32 {
            let count = 41;
            let (c, delta) = (choices(count, 1), deltas(count, Ring::new(bits)));
            let delta: Vec<u8> = delta.iter().map(|&d| d as u8).collect();
            let (sent, got) = run_pair(
                |party| {
                    party.setup_ot(CotKind::InsecureTestDealer)?;
                    party.correlate_xor(&delta, bits)
                },
                |party| {
                    party.setup_ot(CotKind::InsecureTestDealer)?;
                    let chosen = party.choose(&c)?;
                    party.take_xor(chosen, bits)
                },
            );
            for i in 0..count {
                assert_eq!(got[i], sent[i] ^ (delta[i] * c[i]), "{bits} bits, {i}");
            }
        }
    }

    #[test]
    fn both_directions_share_one_round() {
        let (ring, count) = (Ring::new(37), 8193);
        let delta = deltas(count, ring);
        let inputs = (choices(count, 0), choices(count, 3));
        let ((x0, y0, rounds), (x1, y1, _)) = run_both(inputs.clone(), |party, c| {
            party.setup_ot(CotKind::InsecureTestDealer)?;
            let chosen = party.choose(&c)?;
            let x = party.correlate(&delta, ring)?;
            let y = party.take_correlated(chosen, ring)?;
            Ok((x, y, party.profile().rounds()))
        });
        for i in 0..count {
            assert_eq!(y0[i], ring.add(x1[i], ring.mul(inputs.0[i].into(), delta[i])));
            assert_eq!(y1[i], ring.add(x0[i], ring.mul(inputs.1[i].into(), delta[i])));
        }
        assert_eq!(rounds, 2);
    }

    #[test]
    fn refuses_what_it_cannot_do() {
        let failures = run_pair(
            |party| {
                let early = party.choose(&[0]).is_err();
                party.setup_ot(CotKind::InsecureTestDealer)?;
                Ok(early && party.choose(&[0, 2]).is_err())
            },
            |party| {
                party.setup_ot(CotKind::InsecureTestDealer)?;
                Ok(party.correlate_xor(&[1], 9).is_err() && party.correlate_xor(&[1], 0).is_err())
            },
        );
        assert_eq!(failures, (true, true));
    }
}
