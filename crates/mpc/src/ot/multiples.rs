//! Products of one party's values and the other's in Z_{2^bits}, by correlated OTs on the bits of a factor
//! (Gilboa 1999).
//!
//! Bit i of the receiver's factor chooses between x and x + 2^i * value; payloads of bit i need bits - i bits
//! only. All bits share one message each way: bits + bits (bits + 1) / 2 bits on the wire, `bits` COTs and 3
//! * bits AES calls per product.
use super::correlated::Chosen;
use crate::bits::{pack, packed_len, unpack};
use crate::{Party, Result, Ring};

/// Bits of factors announced, waiting for the sender's message.
#[must_use = "the sender's message has to be taken from the channel"]
pub struct ChosenBits {
    chosen: Chosen,
    count: usize,
    ring: Ring,
}

impl Party {
    /// Receiver: announces factors, canonical in `ring`. Sends `ring.bits()` bits each.
    ///
    /// # Errors
    /// As [`Party::choose`].
    pub fn choose_bits(&mut self, factors: &[u64], ring: Ring) -> Result<ChosenBits> {
        let bit = |i: u32| factors.iter().map(move |f| (f >> i & 1) as u8);
        let choices: Vec<u8> = (0..ring.bits()).flat_map(bit).collect();
        let chosen = self.choose(&choices)?;
        let count = factors.len();
        Ok(ChosenBits { chosen, count, ring })
    }

    /// Sender: its share of value * factor for every value. Receives what [`Party::choose_bits`] sent, sends
    /// bits (bits + 1) / 2 bits each.
    ///
    /// # Errors
    /// Those of the channel and of the pool of COTs.
    pub fn offer_multiples(&mut self, values: &[u64], ring: Ring) -> Result<Vec<u64>> {
        let (mine, theirs) = self.pads_of_choices(values.len() * ring.bits() as usize)?;
        let (mut message, mut share) = (vec![], vec![0u64; values.len()]);
        for i in 0..ring.bits() {
            let at = i as usize * values.len()..(i as usize + 1) * values.len();
            let pads = mine[at.clone()].iter().zip(&theirs[at]);
            let step = |((sum, value), (&mine, &theirs)): ((&mut u64, &u64), (&u128, &u128))| {
                *sum = ring.sub(*sum, (mine as u64) << i);
                (theirs as u64).wrapping_sub(mine as u64).wrapping_sub(*value)
            };
            let differences: Vec<u64> = share.iter_mut().zip(values).zip(pads).map(step).collect();
            message.extend(pack(&differences, ring.bits() - i));
        }
        self.send(&message)?;
        Ok(share)
    }

    /// Receiver: its share of value * factor, of the matching [`Party::offer_multiples`].
    ///
    /// # Errors
    /// Those of the channel.
    pub fn take_multiples(&mut self, bits: ChosenBits) -> Result<Vec<u64>> {
        let ChosenBits { chosen, count, ring } = bits;
        let (choices, pads) = self.pads_of_chosen(chosen)?;
        let lengths = (0..ring.bits()).map(|i| packed_len(count, ring.bits() - i));
        let message = self.receive(lengths.clone().sum())?;
        let (mut rest, mut share) = (message.as_slice(), vec![0u64; count]);
        for (i, length) in lengths.enumerate() {
            let (part, others) = rest.split_at(length);
            rest = others;
            let differences = unpack(part, ring.bits() - i as u32, count);
            let at = i * count..(i + 1) * count;
            let pads = pads[at.clone()].iter().zip(&choices[at]);
            for ((sum, y), (&pad, &c)) in share.iter_mut().zip(differences).zip(pads) {
                let opened = (pad as u64).wrapping_sub(y & u64::from(c).wrapping_neg());
                *sum = ring.add(*sum, opened << i);
            }
        }
        Ok(share)
    }
}

#[cfg(test)]
mod tests {
    use crate::ot::CotKind;
    use crate::testing::run_both;
    use crate::Ring;

    #[test]
    fn shares_of_the_product_in_every_ring_both_ways_in_one_round() {
        for bits in 1..=64 {
            let ring = Ring::new(bits);
            for count in [0usize, 1, 9] {
                let edges = [0, u64::MAX, 1, 1 << (bits - 1), 0x9e37_79b9_7f4a_7c15];
                let values = |shift: usize| -> Vec<u64> {
                    (0..count).map(|i| ring.reduce(edges[(i + shift) % 5])).collect()
                };
                let inputs = ((values(0), values(1)), (values(3), values(0)));
                let ((client, rounds, bytes), (server, ..)) =
                    run_both(inputs.clone(), |party, (factors, offers)| {
                        party.setup_ot(CotKind::InsecureTestDealer)?;
                        let before = (party.profile().rounds(), party.sent());
                        let bits = party.choose_bits(&factors, ring)?;
                        let kept = party.offer_multiples(&offers, ring)?;
                        let got = party.take_multiples(bits)?;
                        Ok((
                            (got, kept),
                            party.profile().rounds() - before.0,
                            party.sent() - before.1,
                        ))
                    });
                for i in 0..count {
                    let expected = ring.mul(inputs.0 .0[i], inputs.1 .1[i]);
                    assert_eq!(ring.add(client.0[i], server.1[i]), expected, "{bits} bits");
                    let expected = ring.mul(inputs.0 .1[i], inputs.1 .0[i]);
                    assert_eq!(ring.add(client.1[i], server.0[i]), expected, "{bits} bits");
                }
                assert!(rounds <= 2);
                let cost = (count as u64) * u64::from(bits * (bits + 3) / 2);
                // every bit's payloads are filled up to bytes
                assert!(
                    bytes * 8 >= cost && bytes * 8 <= cost + 8 * u64::from(bits) + 8,
                    "{bytes} bytes"
                );
            }
        }
    }
}
