//! Signs and order of shared values.
use super::chain::{self, Rule};
use super::plan::{cheapest, plan, price, Shape, Way, LANES};
use super::prices::Prices;
use super::tree;
use crate::{MpcError, Party, Result, Ring, Role};

/// Which bits of a value a comparison looks at: the value, signed, fits in `bits` bits, and its lowest `drop`
/// bits do not matter.
///
/// With drop > 0 the comparison is *approximate*: x < 0 is always found, and 0 <= x < 2^drop may be found
/// negative too (x >= 2^drop never), for -2^(bits-1) + 2^drop <= x < 2^(bits-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Bits of the value, sign included.
    pub bits: u32,
    /// Low bits to leave out, fewer than `bits`.
    pub drop: u32,
}

impl Window {
    /// All bits of a ring: exact for every value.
    pub const fn whole(ring: Ring) -> Self {
        Self {
            bits: ring.bits(),
            drop: 0,
        }
    }

    /// The ring that is left.
    pub const fn ring(self) -> Ring {
        Ring::new(self.bits - self.drop)
    }

    /// One party's share in the ring that is left; local.
    pub(super) fn cut(self, x: &[u64]) -> Vec<u64> {
        let wide = Ring::new(self.bits);
        x.iter()
            .map(|&v| wide.shift_down(wide.reduce(v), self.drop))
            .collect()
    }
}

/// XOR shares of 1{x < 0}, exact for every x.
///
/// Cost: [`super::comparison_cost`]. With k-1 = 15 bits to compare 70 bits on the wire and 21 correlated
/// transfers in digits of two bits, 86 and 19 in those of three, with 63 bits 310 and 93, or 390 and 83. Few
/// values, whose bytes cost less than the rounds, take a tree of look-ups: 238 and 28, 1054 and 124.
///
/// # Errors
/// Those of the channel.
pub fn negative(party: &mut Party, x: &[u64], ring: Ring) -> Result<Vec<u8>> {
    party.measured("less", |party| {
        let bits = ring.bits() - 1;
        let carry = match cheapest(bits, x.len(), party.prices).1 {
            Way::Tree => tree::carry(party, x, bits)?,
            Way::Chain(steps) => chain::run(party, Rule::Carry, &steps, &[x], None)?,
        };
        Ok(finish(x, ring, &carry))
    })
}

/// Who would answer the look-up after those of so many comparisons.
pub(super) fn next_sender(party: &Party, count: usize, ring: Ring) -> Role {
    let bits = ring.bits() - 1;
    match cheapest(bits, count, party.prices).1 {
        Way::Tree => tree::sender(tree::steps(bits)),
        Way::Chain(steps) => chain::sender(&steps, steps.len()),
    }
}

/// XOR shares of 1{x < 0} for x within the window: exact or approximate as [`Window`] says.
///
/// # Errors
/// Those of the channel.
pub fn negative_within(party: &mut Party, x: &[u64], window: Window) -> Result<Vec<u8>> {
    negative(party, &window.cut(x), window.ring())
}

/// XOR shares of 1{x < y}, for x - y in [-2^(bits-1), 2^(bits-1)). Cost: that of [`negative`].
///
/// # Errors
/// Those of the channel; [`MpcError::Shape`] for two lengths.
pub fn less(party: &mut Party, x: &[u64], y: &[u64], ring: Ring) -> Result<Vec<u8>> {
    same_length("less", x.len(), y.len())?;
    let difference: Vec<u64> = x.iter().zip(y).map(|(&x, &y)| ring.sub(x, y)).collect();
    negative(party, &difference, ring)
}

/// XOR shares of 1{x < t_j}, one vector for every public threshold, for x - t_j in [-2^(bits-1), 2^(bits-1)).
/// Exact.
///
/// The digits below the lowest bit in which thresholds differ are looked up once for all of them, so round
/// thresholds are cheap: three of them on 16 bits take 228 bits on the wire and 27 transfers when they differ
/// in the lowest bit, 132 and 21 when 2^11 divides their differences. Groups of 8 thresholds run one after
/// the other, at a whole round a digit above that bit; few values, where that takes more rounds, have a lane
/// of their own for every threshold instead: a comparison each, all at once.
///
/// # Errors
/// Those of the channel.
pub fn below_many(party: &mut Party, x: &[u64], ring: Ring, thresholds: &[i64]) -> Result<Vec<Vec<u8>>> {
    let [apart, grouped] = below_prices(x.len(), ring, thresholds, party.prices);
    if apart < grouped {
        let lanes = shifted(x, ring, thresholds, party.is_client()).concat();
        let bits = negative(party, &lanes, ring)?;
        return Ok((0..thresholds.len())
            .map(|t| bits[t * x.len()..][..x.len()].to_vec())
            .collect());
    }
    let mut all = Vec::with_capacity(thresholds.len());
    for group in thresholds.chunks(LANES) {
        all.extend(party.measured("less", |party| below_group(party, x, ring, group))?);
    }
    Ok(all)
}

/// What [`below_many`] costs with a comparison for every threshold, and in groups of them.
pub(crate) fn below_prices(count: usize, ring: Ring, thresholds: &[i64], prices: Prices) -> [u64; 2] {
    let grouped = |group: &[i64]| price(&plan(shape(ring, group), count, prices), count, prices);
    let (apart, _) = cheapest(ring.bits() - 1, count * thresholds.len(), prices);
    [apart, thresholds.chunks(LANES).map(grouped).sum()]
}

fn below_group(party: &mut Party, x: &[u64], ring: Ring, thresholds: &[i64]) -> Result<Vec<Vec<u8>>> {
    let steps = plan(shape(ring, thresholds), x.len(), party.prices);
    let lanes = shifted(x, ring, thresholds, party.role() == parting_sender(&steps));
    let lanes: Vec<&[u64]> = lanes.iter().map(Vec::as_slice).collect();
    let carry = chain::run(party, Rule::Carry, &steps, &lanes, None)?;
    let own = |(lane, x): (usize, &&[u64])| {
        let at = if carry.len() > x.len() { lane * x.len() } else { 0 };
        finish(x, ring, carry.get(at..at + x.len()).unwrap_or(&[]))
    };
    Ok(lanes.iter().enumerate().map(own).collect())
}

/// Thresholds of one group.
fn shape(ring: Ring, thresholds: &[i64]) -> Shape {
    let low = ring.bits() - 1;
    let apart = thresholds.iter().fold(0, |bits, &t| bits | (t ^ thresholds[0]));
    Shape {
        bits: low,
        lanes: thresholds.len(),
        common: apart.trailing_zeros().min(low),
        carry: false,
    }
}

/// Who must hold the values that differ between lanes.
pub(super) fn parting_sender(steps: &[super::plan::Step]) -> Role {
    let parting = steps.iter().position(|s| s.payload > 1).unwrap_or(0);
    chain::sender(steps, parting)
}

/// A lane for every threshold: x - t at the party that shifts, x at the other.
pub(super) fn shifted(x: &[u64], ring: Ring, thresholds: &[i64], shifts: bool) -> Vec<Vec<u64>> {
    let lane = |&t: &i64| {
        let t = if shifts { ring.from_signed(t) } else { 0 };
        x.iter().map(|&v| ring.sub(v, t)).collect()
    };
    thresholds.iter().map(lane).collect()
}

/// The sign: own top bit + carry of the bits below it.
fn finish(x: &[u64], ring: Ring, carry: &[u8]) -> Vec<u8> {
    if carry.is_empty() {
        return x.iter().map(|&v| ring.top(v)).collect();
    }
    x.iter().zip(carry).map(|(&v, c)| ring.top(v) ^ c).collect()
}

pub(super) fn same_length(op: &'static str, x: usize, y: usize) -> Result<()> {
    if x == y {
        return Ok(());
    }
    let detail = format!("operands of {x} and {y} elements");
    Err(MpcError::Shape { op, detail })
}
