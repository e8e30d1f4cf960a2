//! One direction's pool at the party that knows delta.
use super::plan::{Plan, Step};
use super::prg::Stream;
use super::{ferret, softspoken};
use crate::{Party, Result};
use zeroize::Zeroize;

/// Pool and generators.
pub(super) struct Sender {
    delta: u128,
    soft: softspoken::Sender,
    roots: Stream,
    plan: Plan,
    pool: Vec<u128>,
    at: usize,
}

impl Sender {
    /// An empty pool. `roots` is a fresh secret stream.
    pub(super) fn new(delta: u128, soft: softspoken::Sender, roots: Stream, plan: Plan) -> Self {
        let (pool, at) = (Vec::new(), 0);
        Self {
            delta,
            soft,
            roots,
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
                    let blocks = self.soft.extend(count, &message);
                    self.room(count).copy_from_slice(&blocks);
                    Ok(())
                }
                Step::Batch(set) => {
                    let input = self.take(set.need()).to_vec();
                    let (delta, mut roots) = (self.delta, vec![0; set.t]);
                    self.roots.fill(&mut roots);
                    let message = ferret::extend_sender(set, &input, delta, &roots, self.room(set.n()));
                    party.send(&message)
                }
            })?;
        }
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
            self.pool.copy_within(self.at.., 0);
            self.pool.truncate(self.pool.len() - self.at);
            self.at = 0;
        }
        let kept = self.pool.len();
        self.pool.resize(kept + count, 0);
        &mut self.pool[kept..]
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.delta.zeroize();
        self.pool.zeroize();
    }
}
