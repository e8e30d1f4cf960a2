//! Which digits a comparison is cut into.
//!
//! A step looks m bits of both values and the shared carry up in a table of 2^(m+1) entries (2^m in the first
//! step, which has no carry). With 1-of-2^i oblivious transfer it costs (2^i - 1) * payload + i bits on the
//! wire and i correlated transfers, and half a round: the roles alternate, so that the next choice travels
//! with the answer. Several thresholds share the steps below the lowest bit in which they differ; the step
//! that reaches that bit answers all of them at once (a payload of one bit a threshold), the later ones run
//! once for each and share the transfers of the digit, at a whole round a step.

use super::tree;

/// What a comparison should save.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tuning {
    /// Bits on the wire: mostly 2-bit digits.
    Bytes,
    /// Bits, correlated transfers (processor time) and rounds by their usual worth: mostly 3-bit digits up to
    /// 32 bits; above, where the rounds are many anyway and both take the same time, as [`Tuning::Bytes`].
    #[default]
    Balanced,
    /// Rounds: a tree of look-ups ([`super::tree`]) in place of the chain. For few values.
    Rounds,
}

impl Tuning {
    /// Prices, in tenths of a bit on the wire, of one correlated transfer and of one step, for values of
    /// `bits` bits.
    const fn prices(self, bits: u32) -> (u64, u64) {
        match self {
            Self::Balanced if bits > 32 => (4, 1),
            Self::Bytes => (4, 1),
            Self::Balanced | Self::Rounds => (80, 10),
        }
    }
}

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

/// The cheapest steps, lowest digit first (dynamic programming over the position and whether the lanes have
/// parted).
pub(super) fn plan(shape: Shape, tuning: Tuning) -> Vec<Step> {
    let (transfer, round) = tuning.prices(shape.bits);
    let bits = shape.bits as usize;
    let mut best = vec![[(0u64, 0u32); 2]; bits + 1];
    for at in (0..bits).rev() {
        for parted in [false, true] {
            let reach = (1..=INDEX_BITS.min((bits - at) as u32)).filter_map(|digit| {
                let step = shape.step(at as u32, digit, parted);
                let rest =
                    best[at + digit as usize][usize::from(parted || at as u32 + digit > shape.common)].0;
                let price =
                    10 * step.wire() + transfer * step.transfers() + round * (1 + u64::from(parted)) + rest;
                (step.index() <= INDEX_BITS).then_some((price, digit))
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

/// Bits on the wire that cost as much as a round: 40 kB, 0.8 ms at 400 Mbit/s.
const ROUND: usize = 320_000;

/// What so many values cost in bits, rounds among them, of so many bits and messages each.
pub(super) fn price(count: usize, wire: u64, messages: usize) -> usize {
    count * wire as usize + ROUND / 2 * messages
}

/// What so many comparisons of `bits` bits with zero should save.
pub(super) fn tuning(count: usize, bits: u32) -> Tuning {
    let steps = plan(Shape::single(bits), Tuning::default());
    let chain = price(count, steps.iter().map(|s| s.wire()).sum(), messages(&steps));
    match price(count, tree::cost(bits).0, tree::steps(bits) as usize) < chain {
        true => Tuning::Rounds,
        false => Tuning::default(),
    }
}

/// Messages that wait for one another: two for a step behind the parting of the lanes, where roles stay.
pub(super) fn messages(steps: &[Step]) -> usize {
    steps.iter().map(|step| 1 + usize::from(step.lookups > 1)).sum()
}

/// Bits on the wire and correlated transfers that one exact comparison with zero takes, both directions
/// together: what [`super::negative`] costs for each element of a ring of `ring_bits` bits.
pub fn comparison_cost(ring_bits: u32, tuning: Tuning) -> (u64, u64) {
    if tuning == Tuning::Rounds {
        return tree::cost(ring_bits - 1);
    }
    let steps = plan(Shape::single(ring_bits - 1), tuning);
    (
        steps.iter().map(|s| s.wire()).sum(),
        steps.iter().map(|s| s.transfers()).sum(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digits(shape: Shape, tuning: Tuning) -> Vec<u32> {
        plan(shape, tuning).iter().map(|s| s.digit).collect()
    }

    #[test]
    fn digits_cover_the_value_and_fit_the_tables() {
        for tuning in [Tuning::Bytes, Tuning::Balanced] {
            for bits in 0..=64 {
                for (lanes, common) in [(1, bits), (3, 0), (3, bits / 2), (8, bits)] {
                    let steps = plan(
                        Shape {
                            bits,
                            lanes,
                            common,
                            carry: false,
                        },
                        tuning,
                    );
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

    /// The digits in use, by hand: 10 bits for the first three, 10 for two more, 19 for three more.
    #[test]
    fn the_digits_in_use_are_the_documented_ones() {
        assert_eq!(comparison_cost(64, Tuning::Bytes), (310, 93));
        assert_eq!(comparison_cost(64, Tuning::Balanced), (310, 93));
        assert_eq!(comparison_cost(64, Tuning::Rounds), (31 * 34, 31 * 4));
        assert_eq!(comparison_cost(33, Tuning::Balanced), (191, 42));
        assert_eq!(comparison_cost(34, Tuning::Balanced), (160, 48));
        assert_eq!(comparison_cost(16, Tuning::Bytes), (70, 21));
        assert_eq!(comparison_cost(16, Tuning::Balanced), (86, 19));
        assert_eq!(digits(Shape::single(15), Tuning::Balanced), [3; 5]);
        assert_eq!(comparison_cost(1, Tuning::Balanced), (0, 0));
    }

    /// 2^16 exact 64-bit comparisons stay under 4 MB with half a bit for every correlated transfer.
    #[test]
    fn exact_comparisons_stay_under_the_budget() {
        for tuning in [Tuning::Bytes, Tuning::Balanced] {
            let (wire, transfers) = comparison_cost(64, tuning);
            let megabytes = 65536.0 * (wire as f64 + 0.5 * transfers as f64) / 8e6;
            assert!(megabytes < 3.6, "{megabytes} MB");
        }
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
        let wire = |shape| plan(shape, Tuning::Bytes).iter().map(|s| s.wire()).sum::<u64>();
        assert_eq!((wire(apart), wire(alike)), (180, 100));
    }
}
