//! One direction's pool at the party that knows delta.
use super::plan::{Plan, Step};
use super::prg::Stream;
use super::room::Room;
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
    pool: Room,
    at: usize,
    /// What the latest batch was made from.
    input: Room,
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
        let (pool, at, input) = (Room::new(), 0, Room::new());
        Self {
            delta,
            soft,
            roots,
            trees,
            plan,
            pool,
            at,
            input,
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
                Step::Batch(set) => self.batch(party, set),
            })?;
        }
        Ok(())
    }

    /// One batch of Ferret into the pool. The message leaves before the matrix, so that the peer works at the
    /// same time.
    fn batch(&mut self, party: &mut Party, set: &'static ferret::Set) -> Result<()> {
        self.at += set.need();
        self.input.copy_from(&self.pool[self.at - set.need()..self.at]);
        let mut roots = vec![0; set.t];
        self.roots.fill(&mut roots);
        self.room(set.n());
        let start = self.pool.len() - set.n();
        let out = &mut self.pool[start..];
        let message = ferret::grow_trees(set, &mut self.trees, &self.input, self.delta, &roots, out);
        roots.zeroize();
        party.send(&message)?;
        ferret::add_matrix(set, &self.input, out);
        Ok(())
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
            self.pool.move_to_front(self.at);
            self.at = 0;
        }
        self.pool.grow_by(count)
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.delta.zeroize();
    }
}
