//! One direction's pool at the party with the random bits.
//!
//! Both parties may announce choices before either answers, so announcing must never wait. When the pool is
//! short then, the *bits* of the next batch are computed ahead (they need no message), and its blocks when
//! the sender's answer is taken, which follows the batch's message in the channel.
use super::plan::{Plan, Step};
use super::room::Room;
use super::{ferret, softspoken};
use crate::{MpcError, Party, Result};
use std::collections::VecDeque;
use zeroize::Zeroize;

/// Pool and generators. Positions count COTs from the start of the session.
pub(super) struct Receiver {
    soft: softspoken::Receiver,
    trees: ferret::TreeKeys,
    plan: Plan,
    /// Blocks from position `origin` on.
    pool: Room,
    origin: usize,
    /// Bits behind the pool, of the batches in `owed`.
    ahead: Vec<u8>,
    at: usize,
    /// What the latest batch was made from.
    input: Room,
    owed: VecDeque<Owed>,
    /// Batches whose message has been received, since the start.
    received: usize,
    /// First positions of the tickets that wait for a batch and have blocks there (no two begin at the same).
    waiting: VecDeque<usize>,
}

/// A batch of which only the bits are known.
struct Owed {
    set: &'static ferret::Set,
    input: usize,
}

/// Blocks that belong to bits given out.
pub(super) enum Ticket {
    /// They were at hand.
    Ready(Vec<u128>),
    /// They come with the first `batches` batches.
    Later {
        /// First position.
        start: usize,
        /// Blocks.
        count: usize,
        /// Batches to receive first, counted from the start.
        batches: usize,
    },
}

impl Receiver {
    /// An empty pool.
    pub(super) fn new(soft: softspoken::Receiver, trees: ferret::TreeKeys, plan: Plan) -> Self {
        Self {
            soft,
            trees,
            plan,
            pool: Room::new(),
            origin: 0,
            ahead: Vec::new(),
            at: 0,
            input: Room::new(),
            owed: VecDeque::new(),
            received: 0,
            waiting: VecDeque::new(),
        }
    }

    /// COTs made for use.
    pub(super) fn made(&self) -> u64 {
        self.plan.made()
    }

    /// Refuses while answers are due, which a refill would take for its own messages.
    pub(super) fn check_idle(&self) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let (op, detail) = (
            "reserve_cots",
            "answers to earlier choices have to be taken first".to_owned(),
        );
        Err(MpcError::Shape { op, detail })
    }

    /// Makes COTs until `wanted` are at hand, waiting for the sender; no answers may be due.
    pub(super) fn fill(&mut self, party: &mut Party, wanted: usize) -> Result<()> {
        self.settle(party, self.received + self.owed.len())?;
        self.steps(party, wanted, true)
    }

    /// The part of [`Receiver::fill`] that only sends.
    pub(super) fn send_ahead(&mut self, party: &mut Party, wanted: usize) -> Result<()> {
        while let Some(count) = self.plan.next_soft(self.held(), wanted) {
            self.soft(party, count)?;
        }
        Ok(())
    }

    /// The next bits, without waiting for the sender.
    pub(super) fn bits(&mut self, party: &mut Party, count: usize) -> Result<(Vec<u8>, Ticket)> {
        self.steps(party, count, false)?;
        let start = self.at;
        let bits = self.peek_bits(count);
        self.at += count;
        // a batch refills the pool before it is empty: its message precedes the answer even when these blocks
        // are at hand
        if self.owed.is_empty() && self.at <= self.known() {
            let blocks = self.pool[start - self.origin..self.at - self.origin].to_vec();
            return Ok((bits, Ticket::Ready(blocks)));
        }
        if count > 0 {
            self.waiting.push_back(start);
        }
        let batches = self.received + self.owed.len();
        Ok((
            bits,
            Ticket::Later {
                start,
                count,
                batches,
            },
        ))
    }

    /// The blocks to bits given out, waiting for the sender where needed.
    pub(super) fn blocks(&mut self, party: &mut Party, ticket: Ticket) -> Result<Vec<u128>> {
        match ticket {
            Ticket::Ready(blocks) => Ok(blocks),
            Ticket::Later {
                start,
                count,
                batches,
            } => {
                self.settle(party, batches)?;
                if count == 0 {
                    return Ok(Vec::new());
                }
                self.waiting.retain(|&waiting| waiting != start);
                Ok(self.pool[start - self.origin..start + count - self.origin].to_vec())
            }
        }
    }

    fn steps(&mut self, party: &mut Party, wanted: usize, wait: bool) -> Result<()> {
        while let Some(step) = self.plan.next(self.held(), wanted) {
            party.measured("cot", |party| match step {
                Step::Soft(count) => self.soft(party, count),
                Step::Batch(set) => self.batch(party, set, wait),
            })?;
        }
        Ok(())
    }

    fn soft(&mut self, party: &mut Party, count: usize) -> Result<()> {
        let (mut blocks, message) = self.soft.extend(count);
        self.room(count).copy_from_slice(&blocks);
        blocks.zeroize();
        party.send(&message)
    }

    fn batch(&mut self, party: &mut Party, set: &'static ferret::Set, wait: bool) -> Result<()> {
        let input = self.at;
        let bits = if wait {
            Vec::new()
        } else {
            ferret::bits_ahead(set, &self.peek_bits(set.need()))
        };
        self.at += set.need();
        self.ahead.extend(bits);
        self.owed.push_back(Owed { set, input });
        if wait {
            self.settle(party, self.received + 1)?;
        }
        Ok(())
    }

    /// Receives the batches owed, until `batches` have been received since the start.
    fn settle(&mut self, party: &mut Party, batches: usize) -> Result<()> {
        while self.received < batches {
            let Some(Owed { set, input }) = self.owed.pop_front() else {
                break;
            };
            let message = party.receive(set.message_len())?;
            self.receive_batch(set, input - self.origin, &message);
            self.received += 1;
        }
        Ok(())
    }

    /// The blocks of a batch into the pool, whose input begins at index `input` of it.
    fn receive_batch(&mut self, set: &'static ferret::Set, input: usize, message: &[u8]) {
        self.input.copy_from(&self.pool[input..input + set.need()]);
        self.room(set.n());
        let start = self.pool.len() - set.n();
        let out = &mut self.pool[start..];
        ferret::grow_punctured_trees(set, &mut self.trees, &self.input, message, out);
        ferret::add_matrix(set, &self.input, out);
        let known = set.n().min(self.ahead.len());
        self.ahead[..known].zeroize();
        self.ahead.drain(..known);
    }

    /// COTs whose bits are known and not given out.
    fn held(&self) -> usize {
        self.known() + self.ahead.len() - self.at
    }

    /// The first position whose block is not known.
    fn known(&self) -> usize {
        self.origin + self.pool.len()
    }

    /// The bits at the next positions.
    fn peek_bits(&self, count: usize) -> Vec<u8> {
        let end = (self.at + count).min(self.known());
        let bits = self.pool[self.at.min(end) - self.origin..end - self.origin]
            .iter()
            .map(|&block| block as u8 & 1);
        let ahead = self.at.max(self.known()) - self.known();
        bits.chain(self.ahead[ahead..].iter().copied())
            .take(count)
            .collect()
    }

    /// Space for `count` more blocks behind those that may still be read, in the same allocation where
    /// possible.
    fn room(&mut self, count: usize) -> &mut [u128] {
        let oldest = self
            .waiting
            .iter()
            .copied()
            .chain(self.owed.iter().map(|owed| owed.input));
        let used = oldest.fold(self.at.min(self.known()), usize::min) - self.origin;
        if 2 * used >= self.pool.len() {
            self.pool.move_to_front(used);
            self.origin += used;
        }
        self.pool.grow_by(count)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.ahead.zeroize();
    }
}
