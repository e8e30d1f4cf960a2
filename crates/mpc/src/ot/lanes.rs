//! Lookups whose indices share their low bits: index = digit + 2^digit_bits * (a bit of the lane), the same
//! digit in every lane.
//!
//! The digit's COTs serve all lanes. With D = sum of x^t K_t over the digit's blocks and L the block of the
//! lane's bit, the lane's pads are those of the lookup with S = D + x^digit_bits * L. The receiver knows S
//! plus a known multiple of delta for every lane; these points are distinct because every lane has a block L
//! of its own, and distinct known points are all that the argument of the single lookup needs. Costs for each
//! element and T lanes: digit_bits + T COTs; on the wire that many bits and T * (2^(digit_bits+1) - 1).
use super::correlated::{check_values, Pads};
use super::lookup::{all_pads, answer, check_m, double, own_pads, read, sums};
use super::pool::Announced;
use super::wire;
use crate::bits::packed_len;
use crate::{MpcError, Party, Result};

/// Indices announced, waiting for the sender's message. Take them in the order in which they were made.
#[must_use = "the sender's message has to be taken from the channel"]
pub struct ChosenLanes {
    digit_bits: u32,
    elements: usize,
    indices: Vec<u8>,
    ticket: Announced,
}

impl Party {
    /// Receiver: announces a digit of `digit_bits` (1..=3) bits for each element, and a bit for each lane and
    /// element (lane by lane).
    ///
    /// # Errors
    /// Those of the channel; [`MpcError::Shape`] for other widths, values too large, part of a lane or before
    /// `setup_ot`.
    pub fn choose_lanes(&mut self, digit_bits: u32, digits: &[u8], lanes: &[u8]) -> Result<ChosenLanes> {
        let size = table_size("choose_lanes", digit_bits)?;
        check_values("choose_lanes", digits, (size / 2 - 1) as u8)?;
        check_values("choose_lanes", lanes, 1)?;
        whole_lanes("choose_lanes", lanes.len(), digits.len())?;
        let (elements, split) = (digits.len(), digits.len() * digit_bits as usize);
        let (bits, ticket) = self.bits_as_receiver(split + lanes.len())?;
        let digit_corrections: Vec<u8> = (bits[..split].chunks_exact(digit_bits as usize).zip(digits))
            .map(|(bits, digit)| digit ^ bits.iter().rev().fold(0, |digit, b| 2 * digit + b))
            .collect();
        let lane_corrections: Vec<u8> = bits[split..]
            .iter()
            .zip(lanes)
            .map(|(b, lane)| b ^ lane)
            .collect();
        let mut message = wire::pack(&digit_corrections, digit_bits);
        message.extend(wire::pack(&lane_corrections, 1));
        self.send(&message)?;
        let indices = join(digit_bits, digits, lanes);
        Ok(ChosenLanes {
            digit_bits,
            elements,
            indices,
            ticket,
        })
    }

    /// Sender: offers one table of 2^(digit_bits+1) bits for every lane and element (lane by lane); returns
    /// its shares in that order.
    ///
    /// # Errors
    /// Those of the channel; [`MpcError::Shape`] for other widths, part of a table or lane or before
    /// `setup_ot`.
    pub fn offer_lanes(&mut self, digit_bits: u32, elements: usize, tables: &[u8]) -> Result<Vec<u8>> {
        let size = table_size("offer_lanes", digit_bits)?;
        whole_lanes("offer_lanes", tables.len(), elements * size)?;
        let count = tables.len() / size;
        let (blocks, delta, keys) = self.cots_as_sender(elements * digit_bits as usize + count)?;
        let sums = lane_sums(&blocks, digit_bits, elements);
        let pads = all_pads(digit_bits + 1, &sums, delta, &keys);
        let split = packed_len(elements, digit_bits);
        let message = self.receive(split + packed_len(count, 1))?;
        let digits = wire::unpack(&message[..split], digit_bits, elements);
        let lanes = wire::unpack(&message[split..], 1, count);
        let indices = join(digit_bits, &digits, &lanes);
        let (shares, message) = answer(digit_bits + 1, 1, tables, &pads, &indices);
        self.send(&wire::pack(&message, 1))?;
        Ok(shares)
    }

    /// Receiver: his shares of the entries that he chose from the matching [`Party::offer_lanes`], lane by
    /// lane.
    ///
    /// # Errors
    /// Those of the channel.
    pub fn take_lanes(&mut self, chosen: ChosenLanes) -> Result<Vec<u8>> {
        let ChosenLanes {
            digit_bits,
            elements,
            indices,
            ticket,
        } = chosen;
        let (blocks, keys) = self.blocks_as_receiver(ticket)?;
        let pads = own_pads(digit_bits + 1, lane_sums(&blocks, digit_bits, elements), &keys);
        let entries = indices.len() * ((2 << digit_bits) - 1);
        let message = self.receive(packed_len(entries, 1))?;
        let message = wire::unpack(&message, 1, entries);
        Ok(read(digit_bits + 1, 1, &indices, &message, &pads))
    }
}

/// Entries of a table: 4, 8 or 16.
fn table_size(op: &'static str, digit_bits: u32) -> Result<usize> {
    Ok(check_m(op, digit_bits)?.max(check_m(op, digit_bits + 1)?))
}

/// digit + 2^digit_bits * lane's bit, lane by lane.
fn join(digit_bits: u32, digits: &[u8], lanes: &[u8]) -> Vec<u8> {
    let all = lanes.iter().zip(digits.iter().cycle());
    all.map(|(lane, digit)| digit | lane << digit_bits).collect()
}

/// D + x^digit_bits * L for every lane and element.
fn lane_sums(blocks: &[u128], digit_bits: u32, elements: usize) -> Pads {
    let (digits, lanes) = blocks.split_at(elements * digit_bits as usize);
    let digits = sums(digits, digit_bits);
    let raise = |block: u128| (0..digit_bits).fold(block, |power, _| double(power));
    let all = lanes.iter().zip(digits.iter().cycle());
    let sums: Vec<u128> = all.map(|(&lane, digit)| digit ^ raise(lane)).collect();
    sums.into()
}

fn whole_lanes(op: &'static str, values: usize, lane: usize) -> Result<()> {
    if values == 0 || (lane > 0 && values.is_multiple_of(lane)) {
        return Ok(());
    }
    let detail = format!("{values} values are not lanes of {lane}");
    Err(MpcError::Shape { op, detail })
}

#[cfg(test)]
mod tests {
    use crate::ot::CotKind;
    use crate::testing::run_pair;

    #[test]
    fn every_lane_opens_to_its_entry() {
        for digit_bits in 1..=3u32 {
            for (lanes, elements) in [(1, 65), (3, 0), (3, 1), (8, 130)] {
                let size = 2usize << digit_bits;
                let digits: Vec<u8> = (0..elements).map(|i| (i * 5 % (size / 2)) as u8).collect();
                let bits: Vec<u8> = (0..elements * lanes).map(|i| (i * i % 3 % 2) as u8).collect();
                let tables: Vec<u8> = (0..elements * lanes * size)
                    .map(|i| (i * i / 3 % 2) as u8)
                    .collect();
                let (got, kept) = run_pair(
                    |party| {
                        party.setup_ot(CotKind::InsecureTestDealer)?;
                        let chosen = party.choose_lanes(digit_bits, &digits, &bits)?;
                        Ok((party.take_lanes(chosen)?, party.ot_statistics().used_as_receiver))
                    },
                    |party| {
                        party.setup_ot(CotKind::InsecureTestDealer)?;
                        party.offer_lanes(digit_bits, elements, &tables)
                    },
                );
                assert_eq!(got.1, (elements * (digit_bits as usize + lanes)) as u64);
                assert_eq!(got.0.len(), elements * lanes);
                for (i, (mine, theirs)) in got.0.iter().zip(&kept).enumerate() {
                    let index = digits[i % elements] | bits[i] << digit_bits;
                    assert_eq!(
                        mine ^ theirs,
                        tables[i * size + usize::from(index)],
                        "{digit_bits} {lanes} {i}"
                    );
                }
            }
        }
    }

    #[test]
    fn refuses_parts_of_lanes_and_wide_digits() {
        let (client, server) = run_pair(
            |party| {
                Ok(party.choose_lanes(2, &[0, 1], &[0, 1, 1]).is_err()
                    && party.choose_lanes(4, &[0], &[0]).is_err()
                    && party.choose_lanes(0, &[0], &[0]).is_err())
            },
            |party| Ok(party.offer_lanes(2, 2, &[0; 8]).is_err()),
        );
        assert!(client && server);
    }
}
