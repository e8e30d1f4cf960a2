//! Additive correlated OT with several payloads for one choice: the 128-bit pad is cut into one field for
//! each.
//!
//! One COT, one bit of choice and the AES calls of a single payload serve all of them, as long as their rings
//! have at most 128 bits together.
use super::correlated::Chosen;
use crate::bits::{pack, packed_len, unpack};
use crate::{MpcError, Party, Result, Ring};

/// Bits of a pad.
const PAD: u32 = u128::BITS;

impl Party {
    /// Sender: [`Party::correlate`] with several payloads of the same length for each choice, each in its
    /// ring. Receives 1 bit, sends the rings' bits (at most 128 together) for each choice; one message, every
    /// payload filled up to bytes.
    ///
    /// # Errors
    /// Those of the channel; [`MpcError::Shape`] for too many bits, payloads of different lengths or before
    /// `setup_ot`.
    pub fn correlate_many(&mut self, payloads: &[(&[u64], Ring)]) -> Result<Vec<Vec<u64>>> {
        let rings: Vec<Ring> = payloads.iter().map(|&(_, ring)| ring).collect();
        let offsets = offsets("correlate_many", &rings)?;
        let count = payloads.first().map_or(0, |(deltas, _)| deltas.len());
        if payloads.iter().any(|(deltas, _)| deltas.len() != count) {
            let detail = format!("payloads of other lengths than the first, {count}");
            let op = "correlate_many";
            return Err(MpcError::Shape { op, detail });
        }
        let (mine, theirs) = self.pads_of_choices(count)?;
        let mut message = Vec::new();
        let mut kept = Vec::with_capacity(payloads.len());
        for (&(deltas, ring), &offset) in payloads.iter().zip(&offsets) {
            let own = fields(&mine, offset, ring);
            let differences: Vec<u64> = (theirs.iter().zip(&own).zip(deltas))
                .map(|((&theirs, &own), &delta)| ring.sub((theirs >> offset) as u64, own.wrapping_add(delta)))
                .collect();
            message.extend(pack(&differences, ring.bits()));
            kept.push(own);
        }
        self.send(&message)?;
        Ok(kept)
    }

    /// Receiver: x + c*delta for every payload of the matching [`Party::correlate_many`].
    ///
    /// # Errors
    /// Those of the channel; [`MpcError::Shape`] for too many bits.
    pub fn take_many(&mut self, chosen: Chosen, rings: &[Ring]) -> Result<Vec<Vec<u64>>> {
        let offsets = offsets("take_many", rings)?;
        let (choices, pads) = self.pads_of_chosen(chosen)?;
        let lengths: Vec<usize> = rings
            .iter()
            .map(|ring| packed_len(choices.len(), ring.bits()))
            .collect();
        let message = self.receive(lengths.iter().sum())?;
        let mut rest = message.as_slice();
        let mut taken = Vec::with_capacity(rings.len());
        for ((&ring, &offset), &length) in rings.iter().zip(&offsets).zip(&lengths) {
            let (part, others) = rest.split_at(length);
            rest = others;
            let differences = unpack(part, ring.bits(), choices.len());
            let open = |((pad, y), &c): ((u64, u64), &u8)| ring.sub(pad, y & u64::from(c).wrapping_neg());
            let pads = fields(&pads, offset, ring);
            taken.push(
                pads.into_iter()
                    .zip(differences)
                    .zip(&choices)
                    .map(open)
                    .collect(),
            );
        }
        Ok(taken)
    }
}

/// Where each ring's field of the pad begins.
fn offsets(op: &'static str, rings: &[Ring]) -> Result<Vec<u32>> {
    let mut end = 0;
    let begins: Vec<u32> = rings.iter().map(|ring| (end, end += ring.bits()).0).collect();
    if end > PAD {
        let detail = format!("payloads of {end} bits together where {PAD} are possible");
        return Err(MpcError::Shape { op, detail });
    }
    Ok(begins)
}

fn fields(pads: &[u128], offset: u32, ring: Ring) -> Vec<u64> {
    pads.iter()
        .map(|pad| ring.reduce((pad >> offset) as u64))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ot::CotKind;
    use crate::testing::run_pair;

    #[test]
    fn every_payload_follows_the_one_choice() {
        for rings in [vec![64, 64], vec![20, 20, 20, 37, 31], vec![1], vec![5, 64, 3]] {
            let rings: Vec<Ring> = rings.into_iter().map(Ring::new).collect();
            for count in [0usize, 1, 129] {
                let choices: Vec<u8> = (0..count).map(|i| (i * i % 7 % 2) as u8).collect();
                let delta = |k: usize| {
                    (0..count as u64).map(move |i| (i + k as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
                };
                let deltas: Vec<Vec<u64>> = (rings.iter().enumerate())
                    .map(|(k, ring)| delta(k).map(|v| ring.reduce(v)).collect())
                    .collect();
                let (got, kept) = run_pair(
                    |party| {
                        party.setup_ot(CotKind::InsecureTestDealer)?;
                        let chosen = party.choose(&choices)?;
                        party.take_many(chosen, &rings)
                    },
                    |party| {
                        party.setup_ot(CotKind::InsecureTestDealer)?;
                        let payloads: Vec<_> = deltas
                            .iter()
                            .map(Vec::as_slice)
                            .zip(rings.iter().copied())
                            .collect();
                        party.correlate_many(&payloads)
                    },
                );
                for (k, ring) in rings.iter().enumerate() {
                    for i in 0..count {
                        let expected = ring.add(kept[k][i], ring.mul(choices[i].into(), deltas[k][i]));
                        assert_eq!(got[k][i], expected, "payload {k} of {rings:?}, {i}");
                    }
                }
            }
        }
    }

    #[test]
    fn refuses_more_bits_than_a_pad_has_and_ragged_payloads() {
        let (client, server) = run_pair(
            |party| {
                Ok(party
                    .correlate_many(&[(&[1], Ring::new(64)), (&[1], Ring::new(64)), (&[1], Ring::new(1))])
                    .is_err())
            },
            |party| {
                Ok(party
                    .correlate_many(&[(&[1, 2], Ring::new(3)), (&[1], Ring::new(3))])
                    .is_err())
            },
        );
        assert!(client && server);
    }
}
