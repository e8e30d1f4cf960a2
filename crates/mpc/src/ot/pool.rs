//! Where correlated OTs come from: one pool a direction.
#[cfg(test)]
use super::dealer::Dealer;
use crate::{MpcError, Party, Result};

/// How a session makes its correlated OTs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CotKind {
    /// **Insecure**, for tests of the protocols above: correlations from a seed that both sides know.
    #[cfg(test)]
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
    statistics: OtStatistics,
}

#[derive(Default)]
enum Source {
    #[default]
    Missing,
    #[cfg(test)]
    Dealer { sender: Dealer, receiver: Dealer },
}

const NOT_SET_UP: &str = "no oblivious transfers yet; call setup_ot on both sides first";

impl Party {
    /// Prepares correlated OTs in both directions, once a session. Both sides call it with the same kind.
    ///
    /// # Errors
    /// Those of the channel.
    pub fn setup_ot(&mut self, kind: CotKind) -> Result<()> {
        match kind {
            #[cfg(test)]
            CotKind::InsecureTestDealer => {
                let (sender, receiver) = (Dealer::new(self.is_client()), Dealer::new(!self.is_client()));
                self.ot.source = Source::Dealer { sender, receiver };
                Ok(())
            }
        }
    }

    /// Fills the pools so that the next `as_sender` and `as_receiver` COTs need no refill. Both sides call it alike (one's sender is the
    /// other's receiver), while no choice is outstanding.
    ///
    /// # Errors
    /// Those of the channel; [`MpcError::Shape`] before `setup_ot`.
    pub fn reserve_cots(&mut self, as_sender: usize, as_receiver: usize) -> Result<()> {
        let _ = (as_sender, as_receiver);
        match &self.ot.source {
            Source::Missing => Err(not_set_up("reserve_cots")),
            #[cfg(test)]
            Source::Dealer { .. } => Ok(()),
        }
    }

    /// Correlated OTs made and used so far.
    pub fn ot_statistics(&self) -> OtStatistics {
        self.ot.statistics
    }

    /// The sender's next blocks, and delta.
    pub(super) fn cots_as_sender(&mut self, count: usize) -> Result<(Vec<u128>, u128)> {
        self.ot.statistics.used_as_sender += count as u64;
        match &mut self.ot.source {
            Source::Missing => Err(not_set_up("cots_as_sender")),
            #[cfg(test)]
            Source::Dealer { sender, .. } => Ok((sender.next(count).0, sender.delta())),
        }
    }

    /// The receiver's next bits, known before the sender does anything.
    pub(super) fn bits_as_receiver(&mut self, count: usize) -> Result<(Vec<u8>, Ticket)> {
        self.ot.statistics.used_as_receiver += count as u64;
        match &mut self.ot.source {
            Source::Missing => Err(not_set_up("bits_as_receiver")),
            #[cfg(test)]
            Source::Dealer { receiver, .. } => {
                let blocks = receiver.next(count).1;
                let bits = blocks.iter().map(|&b| b as u8 & 1).collect();
                Ok((bits, Ticket { blocks }))
            }
        }
    }

    /// The receiver's blocks to those bits.
    pub(super) fn blocks_as_receiver(&mut self, ticket: Ticket) -> Result<Vec<u128>> {
        Ok(ticket.blocks)
    }
}

/// Blocks that belong to bits already given out.
pub(super) struct Ticket {
    blocks: Vec<u128>,
}

fn not_set_up(op: &'static str) -> MpcError {
    let detail = NOT_SET_UP.to_owned();
    MpcError::Shape { op, detail }
}
