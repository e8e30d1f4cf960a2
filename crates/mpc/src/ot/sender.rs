//! One direction's pool at the party that knows delta.
use super::plan::{Plan, Step};
use super::prg::Stream;
use super::room::{grow_by, move_to_front};
use super::{ferret, softspoken};
use crate::{Party, Result};
use zeroize::Zeroize;

/// Pool and generators.
pub(super) struct Sender {
    delta: u128,
    soft: softspoken::Sender,
    roots: Stream,
    trees: ferret::TreeKeys,
    plan: Plan,
    pool: Vec<u128>,
    at: usize,
}

impl Sender {
    /// An empty pool. `roots` is a fresh secret stream.
    pub(super) fn new(
        delta: u128,
        soft: softspoken::Sender,
        roots: Stream,
        trees: ferret::TreeKeys,
        plan: Plan,
    ) -> Self {
        let (pool, at) = (Vec::new(), 0);
        Self {
            delta,
            soft,
            roots,
            trees,
            plan,
            pool,
            at,
        }
    }

    /// COTs made for use.
    pub(super) fn made(&self) -> u64 {
        self.plan.made()
    }

    /// Makes COTs until `wanted` are at hand.
    pub(super) fn fill(&mut self, party: &mut Party, wanted: usize) -> Result<()> {
        while let Some(step) = self.plan.next(self.pool.len() - self.at, wanted) {
            party.measured("cot", |party| match step {
                Step::Soft(count) => {
                    let message = party.receive(softspoken::message_len(count))?;
                    let mut blocks = self.soft.extend(count, &message);
                    self.room(count).copy_from_slice(&blocks);
                    blocks.zeroize();
                    Ok(())
                }
                Step::Batch(set) => {
                    let message = self.batch(set);
                    party.send(&message)
                }
            })?;
        }
        Ok(())
    }

    /// One batch of Ferret into the pool; returns the message.
    fn batch(&mut self, set: &'static ferret::Set) -> Vec<u8> {
        let mut input = self.take(set.need()).to_vec();
        let mut roots = vec![0; set.t];
        self.roots.fill(&mut roots);
        self.room(set.n());
        let start = self.pool.len() - set.n();
        let out = &mut self.pool[start..];
        let message = ferret::extend_sender(set, &mut self.trees, &input, self.delta, &roots, out);
        input.zeroize();
        roots.zeroize();
        message
    }

    /// The next blocks, which are at hand, and delta.
    pub(super) fn next(&mut self, count: usize) -> (Vec<u128>, u128) {
        (self.take(count).to_vec(), self.delta)
    }

    fn take(&mut self, count: usize) -> &[u128] {
        self.at += count;
        &self.pool[self.at - count..self.at]
    }

    /// Space for `count` more blocks behind those not yet used, in the same allocation where possible.
    fn room(&mut self, count: usize) -> &mut [u128] {
        if 2 * self.at >= self.pool.len() {
            move_to_front(&mut self.pool, self.at);
            self.at = 0;
        }
        grow_by(&mut self.pool, count)
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.delta.zeroize();
        self.pool.zeroize();
    }
}
