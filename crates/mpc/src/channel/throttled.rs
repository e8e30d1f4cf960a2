//! A slower link than the machine has: bandwidth and round-trip time, slept or only counted.
use super::{Channel, Clock, Closer, Parts, Take};
use crate::{MpcError, Result};
use std::time::{Duration, Instant};

/// A network between the parties.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Bits a second, each direction.
    pub bandwidth: f64,
    /// Round-trip time.
    pub rtt: Duration,
}

impl Default for Link {
    /// 100 Mbps, 10 ms: what parties take who say nothing else.
    fn default() -> Self {
        Self {
            bandwidth: 1e8,
            rtt: Duration::from_millis(10),
        }
    }
}

impl Link {
    /// 1 Gbps, 0.5 ms (the LAN of BumbleBee's section VI).
    pub const LAN: Self = Self {
        bandwidth: 1e9,
        rtt: Duration::from_micros(500),
    };
    /// 400 Mbps, 4 ms (the WAN of BumbleBee's section VI).
    pub const WAN: Self = Self {
        bandwidth: 4e8,
        rtt: Duration::from_millis(4),
    };
    /// 100 Mbps, 80 ms: another continent.
    pub const FAR: Self = Self {
        bandwidth: 1e8,
        rtt: Duration::from_millis(80),
    };

    /// The link, of those with a name, whose round trip is nearest to this one, by their ratio.
    pub fn nearest(rtt: Duration) -> Self {
        let ratio = |link: &Self| (link.rtt.as_secs_f64() / rtt.as_secs_f64().max(1e-6)).ln().abs();
        let named = [Self::LAN, Self::WAN, Self::FAR];
        let nearer = |a: &Self, b: &Self| ratio(a).total_cmp(&ratio(b));
        named.into_iter().min_by(nearer).unwrap_or_default()
    }

    fn serialisation(&self, bytes: u64) -> Duration {
        Duration::from_secs_f64(bytes as f64 * 8.0 / self.bandwidth)
    }
}

/// Bytes of the stamp behind each message; they are not counted, since a real link has none.
const STAMP: usize = 8;

/// The longest wait that a stamp can cause: the peer's stamps are not trusted.
const LONGEST: Duration = Duration::from_secs(600);

/// A channel behind a [`Link`]. Messages leave one after the other at the bandwidth; each carries the moment
/// at which its last bit has left, and is handed out half a round trip after that. Both ends must be
/// throttled, and alike.
pub struct Throttled<C, T> {
    inner: C,
    link: Link,
    clock: T,
    /// When the last bit queued so far will have left.
    free: Duration,
    stamps_out: u64,
    stamps_in: u64,
}

impl<C: Channel, T: Clock> Throttled<C, T> {
    /// This end of the link.
    pub fn new(inner: C, link: Link, clock: T) -> Self {
        Self {
            inner,
            link,
            clock,
            free: Duration::ZERO,
            stamps_out: 0,
            stamps_in: 0,
        }
    }

    /// This end's clock.
    pub fn clock(&mut self) -> &mut T {
        &mut self.clock
    }
}

fn with_stamps(lengths: &[usize]) -> Vec<usize> {
    lengths.iter().map(|len| len + STAMP).collect()
}

/// Takes the stamp off a part, and waits until its last bit has left and half a round trip longer.
fn wait_for_stamp(part: &mut Vec<u8>, half: Duration, clock: &mut impl Clock) -> Result<()> {
    let stamp = part
        .split_off(part.len() - STAMP)
        .try_into()
        .map(u64::from_le_bytes);
    let arrival = Duration::from_nanos(stamp.unwrap_or_default()).saturating_add(half);
    if arrival > clock.now().saturating_add(LONGEST) {
        return Err(MpcError::Message {
            op: "receive",
            detail: format!(
                "a delivery time more than {} s ahead: are both ends throttled?",
                LONGEST.as_secs()
            ),
        });
    }
    clock.wait_until(arrival);
    Ok(())
}

impl<C: Channel, T: Clock> Channel for Throttled<C, T> {
    fn send(&mut self, message: &[u8]) -> Result<()> {
        self.send_parts(
            &[message.len()],
            &mut std::iter::once_with(|| Ok(message.to_vec())),
        )
    }

    fn receive(&mut self, len: usize) -> Result<Vec<u8>> {
        super::receive_whole(self, len)
    }

    /// Every part has a stamp of its own.
    fn send_parts(&mut self, lengths: &[usize], parts: Parts<'_>) -> Result<()> {
        // Framing is the inner channel's: take 16 bytes, its header, as the cost of a message.
        let mut framing = super::frame::HEADER_BYTES;
        let (free, clock, link) = (&mut self.free, &self.clock, self.link);
        let mut stamped = parts.map(|part| -> Result<Vec<u8>> {
            let mut part = part?;
            let bytes = (part.len() + std::mem::take(&mut framing)) as u64;
            *free = (*free).max(clock.now()) + link.serialisation(bytes);
            part.extend_from_slice(&(free.as_nanos() as u64).to_le_bytes());
            Ok(part)
        });
        self.stamps_out += (STAMP * lengths.len()) as u64;
        self.inner.send_parts(&with_stamps(lengths), &mut stamped)
    }

    fn receive_parts(&mut self, lengths: &[usize], take: Take<'_>) -> Result<()> {
        self.stamps_in += (STAMP * lengths.len()) as u64;
        let (clock, half) = (&mut self.clock, self.link.rtt / 2);
        self.inner.receive_parts(&with_stamps(lengths), &mut |mut part| {
            wait_for_stamp(&mut part, half, clock)?;
            take(part)
        })
    }

    fn sent(&self) -> u64 {
        self.inner.sent() - self.stamps_out
    }

    fn received(&self) -> u64 {
        self.inner.received().saturating_sub(self.stamps_in)
    }

    fn finish(&mut self) -> Result<()> {
        self.inner.finish()
    }

    fn limit(&mut self, until: Option<Instant>) {
        self.inner.limit(until);
    }

    fn capacity(&mut self, bytes: usize) {
        self.inner.capacity(bytes);
    }

    fn closer(&self) -> Option<Closer> {
        self.inner.closer()
    }

    fn skipped(&self) -> Duration {
        self.inner.skipped() + self.clock.skipped()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::{memory_pair, ManualClock, SimulatedClock, WallClock};
    use std::time::Instant;

    type End<T> = Throttled<crate::channel::MemoryChannel, T>;

    fn pair<T: Clock + Default>(link: Link) -> (End<T>, End<T>) {
        let (a, b) = memory_pair(Duration::from_secs(60));
        (
            Throttled::new(a, link, T::default()),
            Throttled::new(b, link, T::default()),
        )
    }

    fn close(found: Duration, expected: f64) {
        let error = (found.as_secs_f64() - expected).abs();
        assert!(error < 1e-6, "{found:?} instead of {expected} s");
    }

    #[test]
    fn a_link_is_known_by_its_round_trip() {
        for link in [Link::LAN, Link::WAN, Link::FAR] {
            assert_eq!(Link::nearest(link.rtt), link);
            assert_eq!(Link::nearest(link.rtt * 2), link);
        }
        assert_eq!(Link::nearest(Duration::ZERO), Link::LAN);
    }

    #[test]
    fn a_message_takes_its_bits_and_half_a_round_trip() {
        let (mut a, mut b) = pair::<ManualClock>(Link::WAN);
        a.send(&[0; 1_000_000]).unwrap();
        b.receive(1_000_000).unwrap();
        close(b.clock().now(), 8.0 * 1_000_016.0 / 4e8 + 0.002);
        assert_eq!(a.clock().now(), Duration::ZERO, "sending does not wait");
        assert_eq!(
            (a.sent(), b.received()),
            (1_000_000, 1_000_000),
            "stamps are not counted"
        );
    }

    #[test]
    fn messages_share_the_bandwidth_but_not_the_delay() {
        let (mut a, mut b) = pair::<ManualClock>(Link::LAN);
        for _ in 0..10 {
            a.send(&[1; 125_000 - 16]).unwrap(); // one millisecond each
        }
        for _ in 0..10 {
            b.receive(125_000 - 16).unwrap();
        }
        close(b.clock().now(), 0.010 + 0.000_25);
    }

    #[test]
    fn a_ping_takes_a_round_trip_and_computation_adds_up() {
        let (mut a, mut b) = pair::<ManualClock>(Link::WAN);
        for _ in 0..5 {
            a.send(&[]).unwrap();
            b.receive(0).unwrap();
            b.clock().advance(Duration::from_millis(10));
            b.send(&[]).unwrap();
            a.receive(0).unwrap();
        }
        close(a.clock().now(), 5.0 * (0.004 + 0.010 + 2.0 * 16.0 * 8.0 / 4e8));
    }

    #[test]
    fn simulated_time_is_counted_and_not_slept() {
        let slow = Link {
            bandwidth: 1e6,
            rtt: Duration::from_secs(80),
        };
        let (mut a, mut b) = pair::<SimulatedClock>(slow);
        let began = Instant::now();
        a.send(&[0; 125_000]).unwrap();
        b.receive(125_000).unwrap();
        assert!(began.elapsed() < Duration::from_secs(20), "slept");
        let skipped = b.skipped().as_secs_f64();
        assert!((20.0..=41.001).contains(&skipped), "{skipped}");
    }

    #[test]
    fn the_wall_clock_waits() {
        let (mut a, mut b) = pair::<WallClock>(Link {
            bandwidth: 1e9,
            rtt: Duration::from_millis(40),
        });
        let began = Instant::now();
        a.send(b"x").unwrap();
        b.receive(1).unwrap();
        assert!(began.elapsed() >= Duration::from_millis(19));
    }

    #[test]
    fn an_end_without_throttle_or_a_far_stamp_is_an_error() {
        let (mut a, b) = memory_pair(Duration::from_secs(60));
        let mut b = Throttled::new(b, Link::LAN, ManualClock::default());
        a.send(b"no stamp").unwrap();
        assert!(matches!(b.receive(8), Err(MpcError::Message { .. })));
        a.send(&[0xff; 9]).unwrap();
        assert!(matches!(b.receive(1), Err(MpcError::Message { .. })));
    }
}
