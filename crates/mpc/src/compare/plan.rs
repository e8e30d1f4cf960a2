//! Which digits a comparison is cut into, or whether it is a tree.
//!
//! A step looks m bits of both values and the shared carry up in a table of 2^(m+1) entries (2^m in the first
//! step, which has no carry). With 1-of-2^i oblivious transfer it costs (2^i - 1) * payload + i bits on the
//! wire and i correlated transfers, and half a round: the roles alternate, so that the next choice travels
//! with the answer. Several thresholds share the steps below the lowest bit in which they differ; the step
//! that reaches that bit answers all of them at once (a payload of one bit a threshold), the later ones run
//! once for each and share the transfers of the digit, at a whole round a step.
//!
//! Digits of two bits send least, those of three take two thirds of the messages, a tree ([`super::tree`])
//! takes five or six and three times the bits. What is cheapest follows from the link and from how many
//! values are compared at once, both public.

use super::prices::Prices;
use super::tree;

/// Most bits of a table index, carry included.
pub(super) const INDEX_BITS: u32 = 4;
/// Most thresholds that one table answers.
pub(super) const LANES: usize = 8;

/// One lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// Bits of the digit.
    pub digit: u32,
    /// Whether a carry comes in.
    pub carry: bool,
    /// Lookups for each element.
    pub lookups: usize,
    /// Bits each lookup returns; above 1 in the step where the thresholds part.
    pub payload: u32,
}

impl Step {
    /// Bits of the table index.
    pub const fn index(self) -> u32 {
        self.digit + self.carry as u32
    }

    /// Bits on the wire, for each element.
    pub const fn wire(self) -> u64 {
        let table = ((1 << self.index()) - 1) * self.payload as u64;
        self.lookups as u64 * table + self.transfers()
    }

    /// Correlated transfers, for each element: lanes share those of the digit.
    pub const fn transfers(self) -> u64 {
        self.digit as u64 + self.carry as u64 * self.lookups as u64
    }
}

/// The problem to cut: values of `bits` bits; `lanes` (1..=8) of them on one side, alike in the `common`
/// lowest bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub bits: u32,
    pub lanes: usize,
    pub common: u32,
    /// Whether a carry comes in at the bottom (only with one lane).
    pub carry: bool,
}

impl Shape {
    /// One value of `bits` bits against one, no carry in.
    pub const fn single(bits: u32) -> Self {
        Self {
            bits,
            lanes: 1,
            common: bits,
            carry: false,
        }
    }

    fn step(&self, at: u32, digit: u32, parted: bool) -> Step {
        let parts = !parted && at + digit > self.common;
        Step {
            digit,
            carry: self.carry || at > 0,
            lookups: if parted { self.lanes } else { 1 },
            payload: if parts { self.lanes as u32 } else { 1 },
        }
    }
}

/// How values are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// One digit after the other.
    Chain(Vec<Step>),
    /// All digits at once, then neighbours.
    Tree,
}

/// The cheapest steps for so many values, lowest digit first (dynamic programming over the position and
/// whether the lanes have parted).
pub(super) fn plan(shape: Shape, count: usize, prices: Prices) -> Vec<Step> {
    let bits = shape.bits as usize;
    let mut best = vec![[(0u64, 0u32); 2]; bits + 1];
    for at in (0..bits).rev() {
        for parted in [false, true] {
            let reach = (1..=INDEX_BITS.min((bits - at) as u32)).filter_map(|digit| {
                let step = shape.step(at as u32, digit, parted);
                let rest =
                    best[at + digit as usize][usize::from(parted || at as u32 + digit > shape.common)].0;
                let price = prices.total(count, (step.wire(), step.transfers()), 1 + u64::from(parted));
                (step.index() <= INDEX_BITS).then_some((price + rest, digit))
            });
            best[at][usize::from(parted)] = reach.min().unwrap_or_default();
        }
    }
    let (mut at, mut parted, mut steps) = (0, false, Vec::new());
    while at < shape.bits {
        let digit = best[at as usize][usize::from(parted)].1;
        steps.push(shape.step(at, digit, parted));
        at += digit;
        parted |= at > shape.common;
    }
    steps
}

/// What these steps cost for so many values.
pub(super) fn price(steps: &[Step], count: usize, prices: Prices) -> u64 {
    prices.total(count, sums(steps), messages(steps))
}

/// The cheaper way to compare so many values of `bits` bits, and what it costs.
pub(super) fn cheapest(bits: u32, count: usize, prices: Prices) -> (u64, Way) {
    let steps = plan(Shape::single(bits), count, prices);
    let chain = price(&steps, count, prices);
    let tree = prices.total(count, tree::cost(bits), tree::steps(bits).into());
    match tree < chain {
        true => (tree, Way::Tree),
        false => (chain, Way::Chain(steps)),
    }
}

/// Bits on the wire and transfers of all steps.
fn sums(steps: &[Step]) -> (u64, u64) {
    let each = steps.iter().map(|step| (step.wire(), step.transfers()));
    each.fold((0, 0), |sum, step| (sum.0 + step.0, sum.1 + step.1))
}

/// Messages that wait for one another: two for a step behind the parting of the lanes, where roles stay.
pub(super) fn messages(steps: &[Step]) -> u64 {
    steps.iter().map(|step| 1 + u64::from(step.lookups > 1)).sum()
}

/// Bits on the wire and correlated transfers that an exact comparison with zero takes, both directions
/// together, of `count` at once: what [`super::negative`] costs for each element of a ring of `ring_bits`
/// bits.
pub fn comparison_cost(ring_bits: u32, count: usize, prices: Prices) -> (u64, u64) {
    match cheapest(ring_bits - 1, count, prices).1 {
        Way::Tree => tree::cost(ring_bits - 1),
        Way::Chain(steps) => sums(&steps),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::Link;
    use std::time::Duration;

    const MANY: usize = 1 << 16;
    /// Bytes alone count.
    const SLOW: Link = Link {
        bandwidth: 1e7,
        rtt: Duration::ZERO,
    };

    fn digits(shape: Shape, link: Link) -> Vec<u32> {
        let steps = plan(shape, MANY, Prices::of(link));
        steps.iter().map(|s| s.digit).collect()
    }

    #[test]
    fn digits_cover_the_value_and_fit_the_tables() {
        for (count, link) in [(MANY, SLOW), (MANY, Link::FAR), (1, Link::FAR), (0, Link::LAN)] {
            for bits in 0..=64 {
                for (lanes, common) in [(1, bits), (3, 0), (3, bits / 2), (8, bits)] {
                    let shape = Shape {
                        bits,
                        lanes,
                        common,
                        carry: false,
                    };
                    let steps = plan(shape, count, Prices::of(link));
                    assert_eq!(steps.iter().map(|s| s.digit).sum::<u32>(), bits);
                    assert!(steps.iter().all(|s| s.index() <= INDEX_BITS && s.payload <= 8));
                    let parting = steps.iter().filter(|s| s.payload > 1).count();
                    assert_eq!(
                        parting,
                        usize::from(lanes > 1 && common < bits),
                        "{bits} {lanes} {common}"
                    );
                }
            }
        }
    }

    /// By hand: in digits of two bits 5 bits for the first and 10 for each other, in those of three 10 and
    /// 19; a look-up of the tree takes 34.
    #[test]
    fn the_digits_in_use_are_the_documented_ones() {
        let cost = |bits, count, link| comparison_cost(bits, count, Prices::of(link));
        assert_eq!(cost(64, MANY, SLOW), (310, 93));
        assert_eq!(cost(16, MANY, SLOW), (70, 21));
        assert_eq!(cost(64, MANY, Link::FAR), (390, 83));
        assert_eq!(cost(33, MANY, Link::FAR), (191, 42));
        assert_eq!(cost(16, MANY, Link::FAR), (86, 19));
        assert_eq!(digits(Shape::single(15), Link::FAR), [3; 5]);
        assert_eq!(cost(64, 1, Link::FAR), (31 * 34, 31 * 4));
        assert_eq!(cost(1, MANY, Link::FAR), (0, 0));
    }

    /// The longer a round trip, the more values are compared by a tree.
    #[test]
    fn trees_follow_the_link() {
        let most = |link| {
            let tree = |&bit: &u32| cheapest(15, 1 << bit, Prices::of(link)).1 == Way::Tree;
            (0..32).take_while(tree).count()
        };
        let counts = [Link::LAN, Link::WAN, Link::FAR].map(most);
        assert!(counts.is_sorted_by(|a, b| a < b), "{counts:?}");
    }

    /// 2^16 exact 64-bit comparisons stay under 4 MB with half a bit for every correlated transfer.
    #[test]
    fn exact_comparisons_stay_under_the_budget() {
        let (wire, transfers) = comparison_cost(64, MANY, Prices::of(SLOW));
        let megabytes = 65536.0 * (wire as f64 + 0.5 * transfers as f64) / 8e6;
        assert!(megabytes < 3.6, "{megabytes} MB");
    }

    #[test]
    fn thresholds_share_the_digits_below_their_lowest_difference() {
        let apart = Shape {
            bits: 15,
            lanes: 3,
            common: 0,
            carry: false,
        };
        let alike = Shape { common: 11, ..apart };
        let wire = |shape| sums(&plan(shape, MANY, Prices::of(SLOW))).0;
        assert_eq!((wire(apart), wire(alike)), (180, 100));
    }
}
