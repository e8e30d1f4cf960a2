//! Where correlated OTs come from: one pool a direction.
use super::base::{base_ots, BaseKeys};
#[cfg(any(test, feature = "fuzzing"))]
use super::dealer::Dealer;
use super::ferret::TreeKeys;
use super::hash::{HashKeys, Purpose};
use super::pads::PadKeys;
use super::plan::Plan;
use super::pprf::{self, DEPTH, TREES};
use super::prg::Stream;
use super::receiver::{Receiver, Ticket};
use super::sender::Sender;
use super::softspoken;
use crate::{MpcError, Party, Result, Role};
use std::sync::Arc;
use tacita_ring::sample::Prng;
use zeroize::{Zeroize, Zeroizing};

/// How a session makes its correlated OTs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CotKind {
    /// Ferret, bootstrapped from SoftSpoken: about 0.1 byte a COT in long sessions. The default for every
    /// link slower than the CPU.
    Ferret,
    /// SoftSpoken with k = 4: 3.9 bytes a COT, less work. For links of many Gbit/s.
    SoftSpoken,
    /// **Insecure**, for tests of the protocols above: correlations from a seed that both sides know.
    #[cfg(any(test, feature = "fuzzing"))]
    InsecureTestDealer,
}

/// Correlated OTs made and used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OtStatistics {
    /// COTs made as the sender, those that feed later batches not counted.
    pub made_as_sender: u64,
    /// COTs made as the receiver, likewise.
    pub made_as_receiver: u64,
    /// COTs used as the sender.
    pub used_as_sender: u64,
    /// COTs used as the receiver.
    pub used_as_receiver: u64,
}

/// What a party keeps between calls.
#[derive(Default)]
pub struct State {
    source: Source,
    used: (u64, u64),
    /// Keys of the pads, as the sender and as the receiver.
    pads: Option<[Arc<HashKeys>; 2]>,
}

/// Blocks that belong to bits given out, and the keys of their pads.
pub(super) struct Announced {
    ticket: Ticket,
    keys: PadKeys,
}

#[derive(Default)]
enum Source {
    #[default]
    Missing,
    Real(Box<(Sender, Receiver)>),
    #[cfg(any(test, feature = "fuzzing"))]
    Dealer(Box<(Dealer, Dealer)>),
}

impl Party {
    /// Prepares correlated OTs in both directions, once a session: 128 base OTs each way, 3 rounds, 8 KiB
    /// each way, about 30 ms. Both sides call it with the same kind.
    ///
    /// # Errors
    /// Those of the channel; [`MpcError::Message`] for points that are not group elements.
    pub fn setup_ot(&mut self, kind: CotKind) -> Result<()> {
        let (source, session) = match kind {
            CotKind::Ferret => self.measured("setup_ot", |party| real(party, true))?,
            CotKind::SoftSpoken => self.measured("setup_ot", |party| real(party, false))?,
            #[cfg(any(test, feature = "fuzzing"))]
            CotKind::InsecureTestDealer => {
                let sides = (Dealer::new(self.is_client()), Dealer::new(!self.is_client()));
                (Source::Dealer(Box::new(sides)), [0; 32])
            }
        };
        self.ot.source = source;
        self.ot.pads = Some(directions(self.role(), &session, Purpose::Pads).map(Arc::new));
        Ok(())
    }

    /// Fills the pools so that the next `as_sender` and `as_receiver` COTs need no refill. Both sides call it
    /// alike (one's sender is the other's receiver), while no choice is outstanding in either direction.
    /// Calling it ahead saves the receiver of a refill up to a third of its work, no bytes.
    ///
    /// # Errors
    /// Those of the channel; [`MpcError::Shape`] before `setup_ot` or with choices outstanding.
    pub fn reserve_cots(&mut self, as_sender: usize, as_receiver: usize) -> Result<()> {
        self.with_source("reserve_cots", |party, source| match source {
            Source::Real(sides) => {
                sides.1.check_idle()?;
                // SoftSpoken's messages go from receiver to sender, Ferret's the other way: neither order may
                // wait for the other.
                sides.1.send_ahead(party, as_receiver)?;
                sides.0.fill(party, as_sender)?;
                sides.1.fill(party, as_receiver)
            }
            _ => Ok(()),
        })
    }

    /// Correlated OTs made and used so far.
    pub fn ot_statistics(&self) -> OtStatistics {
        let (used_as_sender, used_as_receiver) = self.ot.used;
        let made = |of: fn(&(Sender, Receiver)) -> u64| match &self.ot.source {
            Source::Real(sides) => of(sides),
            _ => 0,
        };
        OtStatistics {
            made_as_sender: made(|sides| sides.0.made()),
            made_as_receiver: made(|sides| sides.1.made()),
            used_as_sender,
            used_as_receiver,
        }
    }

    /// The sender's next blocks, delta, and the keys of their pads.
    pub(super) fn cots_as_sender(&mut self, count: usize) -> Result<(Zeroizing<Vec<u128>>, u128, PadKeys)> {
        self.catch_up()?;
        let first = self.ot.used.0;
        self.ot.used.0 += count as u64;
        let (blocks, delta) = self.with_source("correlate", |party, source| match source {
            Source::Missing => Ok(Default::default()),
            Source::Real(sides) => {
                sides.0.fill(party, count)?;
                Ok(sides.0.next(count))
            }
            #[cfg(any(test, feature = "fuzzing"))]
            Source::Dealer(sides) => Ok((sides.0.next(count).0, sides.0.delta())),
        })?;
        Ok((blocks.into(), delta, self.pad_keys(0, first)?))
    }

    /// The keys of pads that begin at a COT of a direction (0: as the sender).
    fn pad_keys(&self, direction: usize, first: u64) -> Result<PadKeys> {
        let keys = self.ot.pads.as_ref().ok_or_else(|| missing("pads"))?;
        Ok(PadKeys::new(keys[direction].clone(), first))
    }

    /// The receiver's next bits, known before the sender does anything.
    pub(super) fn bits_as_receiver(&mut self, count: usize) -> Result<(Vec<u8>, Announced)> {
        let first = self.ot.used.1;
        self.ot.used.1 += count as u64;
        let (bits, ticket) = self.with_source("choose", |party, source| match source {
            Source::Missing => Ok((Vec::new(), Ticket::Ready(Vec::new()))),
            Source::Real(sides) => sides.1.bits(party, count),
            #[cfg(any(test, feature = "fuzzing"))]
            Source::Dealer(sides) => {
                let blocks = sides.1.next(count).1;
                let bits = blocks.iter().map(|&b| b as u8 & 1).collect();
                Ok((bits, Ticket::Ready(blocks)))
            }
        })?;
        let keys = self.pad_keys(1, first)?;
        Ok((bits, Announced { ticket, keys }))
    }

    /// The receiver's blocks to those bits, and the keys of their pads.
    pub(super) fn blocks_as_receiver(
        &mut self,
        announced: Announced,
    ) -> Result<(Zeroizing<Vec<u128>>, PadKeys)> {
        self.catch_up()?;
        let Announced { ticket, keys } = announced;
        let blocks = self.with_source("take", |party, source| match (source, ticket) {
            (Source::Real(sides), ticket) => sides.1.blocks(party, ticket),
            (_, Ticket::Ready(blocks)) => Ok(blocks),
            _ => unreachable!("only real pools owe blocks"),
        })?;
        Ok((blocks.into(), keys))
    }

    /// Lends the pools to `body` together with the party.
    fn with_source<T>(
        &mut self,
        op: &'static str,
        body: impl FnOnce(&mut Self, &mut Source) -> Result<T>,
    ) -> Result<T> {
        if matches!(self.ot.source, Source::Missing) {
            return Err(missing(op));
        }
        let mut source = std::mem::take(&mut self.ot.source);
        let result = body(self, &mut source);
        self.ot.source = source;
        result
    }
}

fn missing(op: &'static str) -> MpcError {
    let detail = "no oblivious transfers yet; call setup_ot on both sides first".to_owned();
    MpcError::Shape { op, detail }
}

/// The hash keys of a purpose, of the direction in which this party sends and of the other.
fn directions(own: Role, session: &[u8; 32], purpose: Purpose) -> [HashKeys; 2] {
    [own, own.other()].map(|sender| HashKeys::new(session, sender, purpose))
}

/// Base OTs and trees of SoftSpoken in both directions; the session's public coins.
fn real(party: &mut Party, ferret: bool) -> Result<(Source, [u8; 32])> {
    let mut prng = Prng::from_os()?;
    let mut points: [u8; TREES] = std::array::from_fn(|_| block(&mut prng) as u8 & 15);
    points[0] |= 1;
    let mut roots = std::array::from_fn(|_| block(&mut prng));
    let mut choices = pprf::choices(&points);
    let base = base_ots(party, &choices);
    choices.zeroize();
    let keys: BaseKeys = base?;
    let role = party.role();
    let [sent, received] = directions(role, &keys.session, Purpose::Leaves).map(|keys| keys.at(0));
    let (mut leaves, message) = pprf::owner(&keys, &received, &roots);
    roots.zeroize();
    party.send(&message)?;
    let theirs = party.receive(pprf::MESSAGE)?;
    let delta = (0..)
        .zip(points)
        .fold(0, |delta, (i, point)| delta | u128::from(point) << (DEPTH * i));
    let mut punctured = pprf::punctured(&keys, &sent, &points, &theirs);
    let soft = softspoken::Sender::new(&punctured, points);
    let [sent, received] = directions(role, &keys.session, Purpose::Trees).map(TreeKeys::new);
    let sender = Sender::new(
        delta,
        soft,
        Stream::new(block(&mut prng)),
        sent,
        Plan::new(ferret),
    );
    let receiver = Receiver::new(softspoken::Receiver::new(&leaves), received, Plan::new(ferret));
    points.zeroize();
    leaves.zeroize();
    punctured.zeroize();
    Ok((Source::Real(Box::new((sender, receiver))), keys.session))
}

fn block(prng: &mut Prng) -> u128 {
    let mut bytes = [0; 16];
    prng.fill(&mut bytes);
    u128::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests;
