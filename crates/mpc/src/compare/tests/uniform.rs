//! Messages and output shares look uniform whatever the inputs are.
//!
//! Every protocol runs on many copies of one extreme input (all shares zero, all shares ones, extreme values)
//! with fresh correlated transfers; the bytes that each party sends and the shares that it ends with are then
//! tested against the uniform distribution: counts of every bit position and a chi-square of bytes. The seeds
//! are fixed, so a failure is a bug and not bad luck.
use crate::channel::{memory_pair, Channel, MemoryChannel};
use crate::compare::*;
use crate::ot::CotKind;
use crate::{Party, Result, Ring, Role};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const COUNT: usize = 8192;
type Tape = Arc<Mutex<Vec<Vec<u8>>>>;

/// Keeps what is sent.
struct Recorder {
    inner: MemoryChannel,
    tape: Tape,
}

impl Channel for Recorder {
    fn send(&mut self, message: &[u8]) -> Result<()> {
        self.tape.lock().unwrap().push(message.to_vec());
        self.inner.send(message)
    }
    fn receive(&mut self, len: usize) -> Result<Vec<u8>> {
        self.inner.receive(len)
    }
    fn sent(&self) -> u64 {
        self.inner.sent()
    }
    fn received(&self) -> u64 {
        self.inner.received()
    }
}

/// The messages of each side (client's, server's).
fn record(protocol: impl Fn(&mut Party) -> Result<()> + Sync) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let (left, right) = memory_pair(Duration::from_secs(60));
    let run = |role, inner| {
        let tape = Tape::default();
        let inner = Recorder {
            inner,
            tape: tape.clone(),
        };
        let mut party = Party::new(role, Box::new(inner));
        party.setup_ot(CotKind::InsecureTestDealer).unwrap();
        protocol(&mut party).unwrap();
        let messages = tape.lock().unwrap().clone();
        messages
    };
    std::thread::scope(|scope| {
        let server = scope.spawn(|| run(Role::Server, right));
        (run(Role::Client, left), server.join().unwrap())
    })
}

/// Every bit position within 6 standard deviations of a half, and a chi-square of the byte values within 6 of
/// its mean.
fn assert_uniform(what: &str, bytes: &[u8]) {
    let n = bytes.len() as f64;
    for bit in 0..8 {
        let ones = bytes.iter().filter(|&&b| b >> bit & 1 == 1).count() as f64;
        let deviation = (ones - n / 2.0) / (n / 4.0).sqrt();
        assert!(
            deviation.abs() < 6.0,
            "{what}: bit {bit} is off by {deviation} sigma"
        );
    }
    let mut counts = [0f64; 256];
    bytes.iter().for_each(|&b| counts[usize::from(b)] += 1.0);
    let chi: f64 = counts.iter().map(|c| (c - n / 256.0).powi(2) / (n / 256.0)).sum();
    let deviation = (chi - 255.0) / (2.0f64 * 255.0).sqrt();
    assert!(
        deviation.abs() < 6.0,
        "{what}: chi-square is off by {deviation} sigma"
    );
}

/// All messages of a protocol on one extreme input; those that are shorter than 1 KiB are too short to judge
/// and must not exist.
fn check(what: &str, protocol: impl Fn(&mut Party, u64) -> Result<()> + Sync) {
    for extreme in [0, 1, u64::MAX, 1 << 15, (1 << 15) - 1] {
        let (client, server) = record(|party| protocol(party, extreme));
        assert!(!client.is_empty() && !server.is_empty());
        for (side, messages) in [("client", client), ("server", server)] {
            for (number, message) in messages.iter().enumerate() {
                assert!(message.len() >= 1024);
                assert_uniform(
                    &format!("{what}, {extreme:x}, {side}'s message {number}"),
                    message,
                );
            }
        }
    }
}

fn values(extreme: u64, ring: Ring) -> Vec<u64> {
    vec![ring.reduce(extreme); COUNT]
}

fn bits(extreme: u64) -> Vec<u8> {
    vec![(extreme & 1) as u8; COUNT]
}

#[test]
fn comparisons_send_uniform_bytes() {
    let ring = Ring::new(17);
    check("negative", |party, e| {
        negative(party, &values(e, ring), ring).map(|_| ())
    });
    check("below", |party, e| {
        below_many(party, &values(e, ring), ring, &[-256, 0, 512]).map(|_| ())
    });
    check("equal", |party, e| {
        equal(party, &values(e, ring), ring, &[3]).map(|_| ())
    });
}

#[test]
fn multiplexers_and_conversions_send_uniform_bytes() {
    let ring = Ring::new(19);
    check("and", |party, e| and(party, &bits(e), &bits(e >> 1)).map(|_| ()));
    check("select", |party, e| {
        select(party, &bits(e), &values(e, ring), ring).map(|_| ())
    });
    check("select_many", |party, e| {
        let x = values(e, ring);
        select_many(party, &bits(e), &[(&x, ring), (&x, Ring::new(40))]).map(|_| ())
    });
    check("to_arithmetic", |party, e| {
        to_arithmetic(party, &bits(e), ring).map(|_| ())
    });
}

#[test]
fn resizing_sends_uniform_bytes() {
    let (from, to) = (Ring::new(16), Ring::new(37));
    check("extend", |party, e| {
        extend(party, &values(e, from), from, to).map(|_| ())
    });
    check("truncate_exact", |party, e| {
        truncate_exact(party, &values(e, from), from, 7).map(|_| ())
    });
}

/// The shares that come out, one party alone: bits and values.
#[test]
fn output_shares_are_uniform() {
    let ring = Ring::new(24);
    for extreme in [0, u64::MAX, 1 << 23] {
        let shares = |party: &mut Party| {
            let x = values(extreme, ring);
            let bit = negative(party, &x, ring)?;
            let packed: Vec<u64> = bit.iter().map(|&b| b.into()).collect();
            Ok((
                packed,
                select(party, &bit, &x, ring)?,
                extend(party, &x, ring, Ring::new(40))?,
            ))
        };
        let (client, server) = super::both(((), ()), |party, ()| shares(party));
        for (bit, chosen, wide) in [client, server] {
            assert_uniform("sign", &crate::bits::pack(&bit, 1));
            assert_uniform("choice", &crate::bits::pack(&chosen, 24));
            let grown: Vec<u64> = wide.iter().map(|v| v >> 24).collect();
            assert_uniform("extension", &crate::bits::pack(&grown, 16));
        }
    }
}

/// The test must see what it is for: a table sent without its pads.
#[test]
#[should_panic(expected = "off by")]
fn bare_tables_are_noticed() {
    let tables: Vec<u8> = (0..COUNT).map(|i| [0b0111_0001u8, 0b0001_0111][i % 2]).collect();
    assert_uniform("bare tables", &tables);
}
