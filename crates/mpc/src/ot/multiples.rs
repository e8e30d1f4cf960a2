//! Products of one party's factors and the other's values in Z_{2^bits}, by correlated OTs on the bits of a
//! factor (Gilboa 1999).
//!
//! Bit i of the receiver's factor chooses between x and x + 2^i * value; payloads of bit i need bits - i bits
//! only. All bits share one message each way: bits + bits (bits + 1) / 2 bits on the wire, `bits` COTs and
//! three times as many AES calls per product. [`Multiples`] says what may be less: short factors, low bits
//! that nobody wants, and a factor of a whole row, whose choices then count once; the pads are seeds then.
use super::correlated::{Chosen, Pads};
use super::prg::Stream;
use crate::bits::{pack, packed_len, unpack};
use crate::{MpcError, Party, Result, Ring};
use std::ops::Range;
use zeroize::Zeroizing;

/// What is public of products of factors and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multiples {
    /// Bits of a factor, 1 to those of the ring.
    pub digits: u32,
    /// The ring of the values and their products.
    pub ring: Ring,
    /// Low bits of the products that are dropped, fewer than the ring has: the result is modulo
    /// 2^(bits - drop) and off by at most `drop` / 2 units of its own, without bias.
    pub drop: u32,
    /// Values that a factor multiplies, side by side.
    pub columns: usize,
}

impl From<Ring> for Multiples {
    /// Factors of the whole ring, a value each, exactly.
    fn from(ring: Ring) -> Self {
        Self {
            digits: ring.bits(),
            ring,
            drop: 0,
            columns: 1,
        }
    }
}

impl Multiples {
    /// The ring of the results.
    ///
    /// # Panics
    /// When all bits are dropped.
    pub fn result(&self) -> Ring {
        Ring::new(self.ring.bits() - self.drop)
    }

    /// Bits on the wire for every value, both ways; a factor's choices, `digits`, not counted.
    pub fn bits(&self) -> u32 {
        (0..self.digits).map(|i| self.width(i)).sum()
    }

    fn check(&self, values: usize) -> Result<usize> {
        let fits = (1..=self.ring.bits()).contains(&self.digits) && self.drop < self.ring.bits();
        if fits && self.columns > 0 && values.is_multiple_of(self.columns) {
            return Ok(values / self.columns);
        }
        let detail = format!("{self:?} of {values} values");
        Err(MpcError::Shape {
            op: "multiples",
            detail,
        })
    }

    /// Bits of a payload of bit i.
    fn width(&self, i: u32) -> u32 {
        self.ring.bits() - i.max(self.drop)
    }

    /// By how much such a payload is shifted up in the result.
    fn up(&self, i: u32) -> u32 {
        i.saturating_sub(self.drop)
    }

    /// 2^i * value / 2^drop, rounded, less the factor 2^up.
    fn payload(&self, value: u64, i: u32) -> u64 {
        match self.drop.saturating_sub(i) {
            0 => value,
            down => value.wrapping_add(1 << (down - 1)) >> down,
        }
    }

    /// Bytes of the message of bit i for so many factors.
    fn bytes(&self, factors: usize, i: u32) -> usize {
        packed_len(factors * self.columns, self.width(i))
    }

    /// Pads of a row of values each.
    fn pads(&self, seeds: &[u128]) -> Zeroizing<Vec<u64>> {
        if self.columns == 1 {
            return seeds.iter().map(|&seed| seed as u64).collect::<Vec<_>>().into();
        }
        let mut row = Zeroizing::new(vec![0u128; self.columns.div_ceil(2)]);
        let mut pads = Zeroizing::new(Vec::with_capacity(seeds.len() * self.columns));
        for &seed in seeds {
            Stream::new(seed).fill(&mut row);
            let words = row.iter().flat_map(|&block| [block as u64, (block >> 64) as u64]);
            pads.extend(words.take(self.columns));
        }
        pads
    }
}

/// The transfers of bit i of so many factors.
fn of_bit(factors: usize, i: u32) -> Range<usize> {
    i as usize * factors..(i as usize + 1) * factors
}

/// Bits of factors announced, waiting for the sender's message.
#[must_use = "the sender's message has to be taken from the channel"]
pub struct ChosenBits {
    chosen: Chosen,
    count: usize,
    how: Multiples,
}

/// What the other party chose by, waiting for the answer.
#[must_use = "the receiver waits for the answer"]
pub struct HeardBits {
    pads: (Pads, Pads),
    count: usize,
    how: Multiples,
}

impl Party {
    /// Receiver: announces factors of at most `digits` bits. Sends `digits` bits each.
    ///
    /// # Errors
    /// As [`Party::choose`]; [`MpcError::Shape`] for [`Multiples`] that do not fit.
    pub fn choose_bits(&mut self, factors: &[u64], how: impl Into<Multiples>) -> Result<ChosenBits> {
        let how = how.into();
        let count = how.check(factors.len() * how.columns)?;
        let bit = |i: u32| factors.iter().map(move |f| (f >> i & 1) as u8);
        let choices: Zeroizing<Vec<u8>> = (0..how.digits).flat_map(bit).collect::<Vec<_>>().into();
        let chosen = self.choose(&choices)?;
        Ok(ChosenBits { chosen, count, how })
    }

    /// Sender: its share of value * factor for every value; the values of a factor lie side by side. Receives
    /// what [`Party::choose_bits`] sent, sends [`Multiples::bits`] for each value.
    ///
    /// # Errors
    /// Those of the channel and of the pool of COTs; [`MpcError::Shape`] for [`Multiples`] that do not fit.
    pub fn offer_multiples(&mut self, values: &[u64], how: impl Into<Multiples>) -> Result<Vec<u64>> {
        let heard = self.hear_bits(values.len(), how)?;
        self.answer_multiples(values, &heard)
    }

    /// The first half of [`Party::offer_multiples`]: receives what was chosen, so that what else was chosen
    /// before the answer can be received too.
    ///
    /// # Errors
    /// Those of [`Party::offer_multiples`].
    pub fn hear_bits(&mut self, values: usize, how: impl Into<Multiples>) -> Result<HeardBits> {
        let how = how.into();
        let count = how.check(values)?;
        let pads = self.pads_of_choices(count * how.digits as usize)?;
        Ok(HeardBits { pads, count, how })
    }

    /// The second half: this party's share of value * factor.
    ///
    /// # Errors
    /// Those of the channel; [`MpcError::Shape`] for another number of values.
    pub fn answer_multiples(&mut self, values: &[u64], heard: &HeardBits) -> Result<Vec<u64>> {
        let HeardBits { pads, count, how } = heard;
        if how.check(values.len())? != *count {
            let (op, detail) = (
                "multiples",
                format!("{} values for {count} factors", values.len()),
            );
            return Err(MpcError::Shape { op, detail });
        }
        let (mut message, mut share, ring) = (vec![], vec![0u64; values.len()], how.result());
        for i in 0..how.digits {
            let [mine, theirs] = [&pads.0, &pads.1].map(|seeds| how.pads(&seeds[of_bit(*count, i)]));
            let step = |((sum, &value), (&mine, &theirs)): ((&mut u64, &u64), (&u64, &u64))| {
                *sum = ring.sub(*sum, mine << how.up(i));
                theirs.wrapping_sub(mine).wrapping_sub(how.payload(value, i))
            };
            let pads = mine.iter().zip(theirs.iter());
            let differences: Vec<u64> = share.iter_mut().zip(values).zip(pads).map(step).collect();
            message.extend(pack(&differences, how.width(i)));
        }
        self.send(&message)?;
        Ok(share)
    }

    /// Receiver: its share of value * factor, of the matching [`Party::offer_multiples`].
    ///
    /// # Errors
    /// Those of the channel.
    pub fn take_multiples(&mut self, bits: ChosenBits) -> Result<Vec<u64>> {
        let ChosenBits { chosen, count, how } = bits;
        let (choices, seeds) = self.pads_of_chosen(chosen)?;
        let choices = Zeroizing::new(choices);
        let message = self.receive((0..how.digits).map(|i| how.bytes(count, i)).sum())?;
        let (mut rest, mut share) = (message.as_slice(), vec![0u64; count * how.columns]);
        for i in 0..how.digits {
            let (part, others) = rest.split_at(how.bytes(count, i));
            rest = others;
            let differences = unpack(part, how.width(i), share.len());
            let pads = how.pads(&seeds[of_bit(count, i)]);
            let choices = choices[of_bit(count, i)]
                .iter()
                .flat_map(|&c| std::iter::repeat_n(c, how.columns));
            for ((sum, y), (&pad, c)) in share.iter_mut().zip(differences).zip(pads.iter().zip(choices)) {
                let opened = pad.wrapping_sub(y & u64::from(c).wrapping_neg());
                *sum = how.result().add(*sum, opened << how.up(i));
            }
        }
        Ok(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ot::CotKind;
    use crate::testing::{run_both, run_pair, split};

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

    /// Shares of one direction's products, and the bytes of both.
    fn products(factors: &[u64], values: &[u64], how: Multiples) -> (Vec<u64>, Vec<u64>, u64) {
        let ((got, bytes), kept) = run_pair(
            |party| {
                party.setup_ot(CotKind::InsecureTestDealer)?;
                let before = party.sent() + party.received();
                let chosen = party.choose_bits(factors, how)?;
                let got = party.take_multiples(chosen)?;
                Ok((got, party.sent() + party.received() - before))
            },
            |party| {
                party.setup_ot(CotKind::InsecureTestDealer)?;
                party.offer_multiples(values, how)
            },
        );
        (got, kept, bytes)
    }

    #[test]
    fn short_factors_of_rows_without_low_bits() {
        let words = |count: usize, ring: Ring| split(ring, &vec![0; count], count as u64).0;
        for (digits, bits, drop) in [
            (1, 1, 0),
            (8, 20, 0),
            (8, 20, 5),
            (20, 47, 22),
            (64, 64, 63),
            (5, 64, 9),
        ] {
            for (rows, columns) in [(0, 3), (1, 1), (1, 65), (3, 7), (9, 2)] {
                let ring = Ring::new(bits);
                let how = Multiples {
                    digits,
                    ring,
                    drop,
                    columns,
                };
                let (mut factors, mut values) = (words(rows, Ring::new(digits)), words(rows * columns, ring));
                factors
                    .iter_mut()
                    .take(1)
                    .for_each(|f| *f = Ring::new(digits).mask());
                values
                    .iter_mut()
                    .take(2)
                    .zip([1 << (bits - 1), ring.mask()])
                    .for_each(|(v, e)| *v = e);
                let (got, kept, bytes) = products(&factors, &values, how);
                for (i, (&got, &kept)) in got.iter().zip(&kept).enumerate() {
                    let exact = ring.signed(ring.mul(factors[i / columns], values[i]));
                    let expected = (exact as f64 / f64::from(drop).exp2()).round() as i64 as u64;
                    let error = how
                        .result()
                        .signed(how.result().sub(got.wrapping_add(kept), expected));
                    assert!(
                        error.unsigned_abs() <= u64::from(drop) / 2 + 1,
                        "{how:?}: off by {error}"
                    );
                    assert!(drop > 0 || error == 0, "{how:?}: off by {error}");
                }
                let cost = rows as u64 * u64::from(digits + columns as u32 * how.bits());
                assert!(
                    (cost..=cost + 8 * u64::from(digits) + 8).contains(&(8 * bytes)),
                    "{how:?}: {bytes}"
                );
            }
        }
    }

    #[test]
    fn rows_have_pads_of_their_own() {
        let how = Multiples {
            digits: 3,
            ring: Ring::new(64),
            drop: 0,
            columns: 33,
        };
        let (_, kept, _) = products(&[5, 5], &[7; 66], how);
        let distinct: std::collections::HashSet<_> = kept.iter().collect();
        assert_eq!(distinct.len(), 66);
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let ring = Ring::new(9);
        let good = Multiples {
            digits: 4,
            ring,
            drop: 2,
            columns: 2,
        };
        let bad = [
            Multiples { digits: 0, ..good },
            Multiples { digits: 10, ..good },
            Multiples { drop: 9, ..good },
            Multiples { columns: 0, ..good },
            Multiples { columns: 4, ..good },
        ];
        let _ = run_both(((), ()), |party, ()| {
            party.setup_ot(CotKind::InsecureTestDealer)?;
            for how in bad {
                assert!(party.offer_multiples(&[1; 6], how).is_err(), "{how:?}");
            }
            assert!(bad[..4].iter().all(|&how| party.choose_bits(&[1], how).is_err()));
            Ok(())
        });
    }
}
