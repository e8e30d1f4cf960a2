//! Prices of look-ups over a link.
use crate::channel::Link;

/// What look-ups cost over a link, in picoseconds. Both parties must have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prices {
    /// A bit on the wire, and the work on it.
    bit: u64,
    /// A correlated transfer, and its making.
    transfer: u64,
    /// A message for which one waits: half a round trip.
    message: u64,
}

/// Work for a bit of a table, and for a transfer with its making: on one core, one party after the other.
const BIT: u64 = 4_000;
const TRANSFER: u64 = 48_000;
/// Bits on the wire for the making of a transfer.
const MAKING: f64 = 1.4;

impl Prices {
    /// Those of a link, within 10 Mbit/s to 8 Gbit/s and two seconds.
    pub fn of(link: Link) -> Self {
        let bit = 1e12 / link.bandwidth.clamp(1e7, 8e9);
        Self {
            bit: BIT + bit as u64,
            transfer: TRANSFER + (MAKING * bit) as u64,
            message: (1e12 * link.rtt.as_secs_f64().min(2.0) / 2.0) as u64,
        }
    }

    /// What so many values cost, of so many bits and transfers each, and messages of all of them.
    pub(crate) fn total(self, count: usize, (wire, transfers): (u64, u64), messages: u64) -> u64 {
        count as u64 * (wire * self.bit + transfers * self.transfer) + messages * self.message
    }
}

impl Default for Prices {
    fn default() -> Self {
        Self::of(Link::default())
    }
}
