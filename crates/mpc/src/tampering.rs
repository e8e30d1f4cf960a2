//! A peer (or a wire) that damages messages: every protocol in one session, one message of it spoiled at a
//! time. Contents are masked values, so most damage can only give wrong results; what is tested is that
//! nothing panics, hangs or asks for memory.
use crate::channel::{memory_pair, Channel, MemoryChannel};
use crate::compare::negative;
use crate::linear::{share_times_weights, Dims};
use crate::nonlinear::gelu;
use crate::ot::CotKind;
use crate::products::product;
use crate::share::{Ring, Z64};
use crate::{MpcError, Party, Result, Role};
use std::time::{Duration, Instant};

/// What happens to the chosen message.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Damage {
    None,
    Bit,
    Ones,
    Zeros,
    Noise,
    Cut,
    Longer,
    Lost,
    Twice,
}

use Damage::{Bit, Cut, Longer, Lost, Noise, Ones, Twice, Zeros};

impl Damage {
    /// Whether lengths or numbers of messages change: then one side must notice.
    fn shows(self) -> bool {
        matches!(self, Cut | Longer | Lost | Twice)
    }

    fn apply(self, message: &[u8]) -> Vec<Vec<u8>> {
        let mut out = message.to_vec();
        let mut state = 0x1234_5678_9abc_def1u64 ^ message.len() as u64;
        match self {
            Self::None | Twice => {}
            Bit => {
                let at = out.len() / 2;
                out.iter_mut().skip(at).take(1).for_each(|b| *b ^= 0x40);
            }
            Ones => out.fill(0xff),
            Zeros => out.fill(0),
            Noise => out.iter_mut().for_each(|b| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                *b = (state >> 56) as u8;
            }),
            Cut => drop(out.pop()),
            Longer => out.push(0),
            Lost => return vec![],
        }
        let copies = if self == Twice { 2 } else { 1 };
        vec![out; copies]
    }
}

/// Damages message number `at` that it sends.
struct Damaging {
    inner: MemoryChannel,
    at: usize,
    damage: Damage,
    count: usize,
}

impl Channel for Damaging {
    fn send(&mut self, message: &[u8]) -> Result<()> {
        let hit = self.count == self.at;
        self.count += 1;
        let damage = if hit { self.damage } else { Damage::None };
        damage.apply(message).iter().try_for_each(|m| self.inner.send(m))
    }

    fn receive(&mut self, len: usize) -> Result<Vec<u8>> {
        assert!(len < 1 << 28, "a length of {len} is no length of this session");
        self.inner.receive(len)
    }

    fn sent(&self) -> u64 {
        self.count as u64 // messages, for the test to learn how many there are
    }

    fn received(&self) -> u64 {
        self.inner.received()
    }
}

/// A bit of everything; returns the messages sent.
fn everything(party: &mut Party) -> Result<u64> {
    party.handshake(&[7; 32])?;
    party.setup_ot(CotKind::Ferret)?;
    party.setup_linear()?;
    party.setup_products()?;
    let x: Vec<u64> = (0..64).map(|i| i << 16).collect();
    let weights: Vec<i64> = (0..128).map(|i| i - 60).collect();
    let dims = Dims {
        k: 4,
        m: 16,
        n: 8,
        batch: 1,
    };
    let own = if party.is_client() {
        None
    } else {
        Some(&weights[..])
    };
    share_times_weights(party, &x, own, dims, Z64)?;
    let low: Vec<u64> = x.iter().map(|v| v & 0xffff_ffff).collect();
    product(party, &low, &low, Ring::new(32), 15)?;
    negative(party, &x, Z64)?;
    gelu(party, &x, Z64, 18, Z64)?;
    party.send(&[1])?; // the end: whoever is a message behind shows here
    party.receive(1)?;
    Ok(party.sent())
}

/// Both sides with one message of `from` damaged.
fn session(from: Role, at: usize, damage: Damage) -> [Result<u64>; 2] {
    let (left, right) = memory_pair(Duration::from_secs(2)); // also for a peer that computes
    let side = |role, inner| {
        let at = if role == from { at } else { usize::MAX };
        let count = 0;
        let channel = Damaging {
            inner,
            at,
            damage,
            count,
        };
        move || everything(&mut Party::new(role, Box::new(channel)))
    };
    let (client, server) = (side(Role::Client, left), side(Role::Server, right));
    std::thread::scope(|scope| {
        let other = scope.spawn(server);
        let mine = scope.spawn(client).join();
        let what = format!("{from:?} message {at} {damage:?}");
        let theirs = other
            .join()
            .unwrap_or_else(|_| panic!("the server panicked: {what}"));
        [
            mine.unwrap_or_else(|_| panic!("the client panicked: {what}")),
            theirs,
        ]
    })
}

const ALL: [Damage; 8] = [Bit, Ones, Zeros, Noise, Cut, Longer, Lost, Twice];

#[test]
fn damaged_messages_neither_panic_nor_hang() {
    for (case, message) in messages().into_iter().step_by(7).enumerate() {
        spoil(message, ALL[case % ALL.len()]);
    }
}

/// `make fuzz` runs it.
#[test]
#[ignore = "minutes: every damage of every message of the session; the test above takes every seventh \
message"]
fn no_damage_of_any_message_panics_or_hangs() {
    for message in messages() {
        ALL.into_iter().for_each(|damage| spoil(message, damage));
    }
}

/// The number of a message among those that a side sends, and whether it is the last: nobody reads behind it.
#[derive(Clone, Copy)]
struct Message {
    from: Role,
    at: usize,
    last: bool,
}

/// All messages of an undamaged session.
fn messages() -> Vec<Message> {
    let clean = session(Role::Client, usize::MAX, Damage::None);
    let counts = clean.map(|count| count.expect("a session without damage") as usize);
    assert!(counts.iter().all(|&count| count > 20), "{counts:?}");
    let of = |(from, count)| {
        (0..count).map(move |at| Message {
            from,
            at,
            last: at + 1 == count,
        })
    };
    [Role::Client, Role::Server]
        .into_iter()
        .zip(counts)
        .flat_map(of)
        .collect()
}

/// Runs a session with one message damaged: no panic, no long wait, errors of the right kinds, and none
/// overlooked that shows.
fn spoil(Message { from, at, last }: Message, damage: Damage) {
    let what = format!("{from:?} message {at} {damage:?}");
    let began = Instant::now();
    let results = session(from, at, damage);
    assert!(began.elapsed() < Duration::from_secs(60), "{what}");
    let failed = results.iter().any(Result::is_err);
    let shows = damage.shows() && !(last && damage == Twice);
    assert!(failed || !shows, "{what} passed unnoticed");
    for error in results.into_iter().filter_map(Result::err) {
        let expected = matches!(
            error,
            MpcError::Closed { .. } | MpcError::Timeout { .. } | MpcError::Message { .. } | MpcError::Bfv(_)
        );
        assert!(expected, "{what}: {error:?}");
    }
}
