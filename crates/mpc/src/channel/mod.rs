//! Ordered messages between the two parties, counted per operation.
//!
//! [`memory`](memory_pair) joins two threads, [`tcp`] and [`tls`] two processes, [`local`] whatever carries
//! the bytes of a socket of this machine; [`Throttled`] slows any of them down to a stated link.
#[cfg(not(target_family = "wasm"))]
pub mod certificate;
mod clock;
mod ended;
pub mod frame;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
#[cfg(not(target_family = "wasm"))]
pub mod local;
#[cfg(test)]
mod local_faults;
mod memory;
#[cfg(not(target_family = "wasm"))]
mod queue;
#[cfg(not(target_family = "wasm"))]
mod socket;
#[cfg(not(target_family = "wasm"))]
mod stream;
#[cfg(not(target_family = "wasm"))]
pub mod tcp;
#[cfg(test)]
mod tcp_faults;
mod throttled;
#[cfg(not(target_family = "wasm"))]
pub mod tls;
#[cfg(test)]
mod tls_faults;
#[cfg(not(target_family = "wasm"))]
mod tls_stream;

pub use clock::{Clock, ManualClock, SimulatedClock, WallClock};
pub use ended::Ended;
pub use memory::{memory_pair, MemoryChannel};
#[cfg(not(target_family = "wasm"))]
pub use stream::StreamChannel;
pub use throttled::{Link, Throttled};

use crate::Result;
use std::time::{Duration, Instant};

/// Closes a link from any thread.
pub type Closer = Box<dyn Fn() + Send + Sync>;

/// Parts of a message, one after the other.
pub type Parts<'a> = &'a mut dyn Iterator<Item = Result<Vec<u8>>>;
/// What becomes of a part of a message.
pub type Take<'a> = &'a mut dyn FnMut(Vec<u8>) -> Result<()>;

/// A reliable, ordered link. `send` must not wait for the peer to read (implementations queue and write in
/// the background), so both parties may send at the same time.
pub trait Channel: Send {
    /// Queues one message.
    ///
    /// # Errors
    /// When the peer is gone.
    fn send(&mut self, message: &[u8]) -> Result<()>;

    /// The next message, which must have exactly `len` bytes.
    ///
    /// # Errors
    /// [`crate::MpcError::Message`] for another length, order or content of the frame; `Closed`; `Timeout`.
    fn receive(&mut self, len: usize) -> Result<Vec<u8>>;

    /// Queues one message whose parts, of these lengths, are made while those before them travel. Where a
    /// part is missing or fails, the link cannot be used any more.
    ///
    /// # Errors
    /// As [`Channel::send`]; those of the parts.
    fn send_parts(&mut self, _lengths: &[usize], parts: Parts<'_>) -> Result<()> {
        let whole = parts.collect::<Result<Vec<_>>>()?.concat();
        self.send(&whole)
    }

    /// The next message, which must have the length of all parts together: each is given to `take` as soon as
    /// it is there.
    ///
    /// # Errors
    /// As [`Channel::receive`]; those of `take`.
    fn receive_parts(&mut self, lengths: &[usize], take: Take<'_>) -> Result<()> {
        let whole = self.receive(lengths.iter().sum())?;
        let mut rest = whole.as_slice();
        lengths.iter().try_for_each(|&len| {
            let (part, others) = rest.split_at(len);
            rest = others;
            take(part.to_vec())
        })
    }

    /// Bytes sent so far, framing included.
    fn sent(&self) -> u64;

    /// Bytes received so far, framing included.
    fn received(&self) -> u64;

    /// Orderly end: waits until all that was queued has been written, and tells the peer that nothing
    /// follows.
    ///
    /// # Errors
    /// When the queue cannot be written within the channel's timeout.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }

    /// From now on no wait goes past this moment, whatever the peer sends or reads until then; `None`: only
    /// the timeout of each wait holds. A wait that ends so fails with [`crate::MpcError::Late`]. Does nothing
    /// where both ends are in one process.
    fn limit(&mut self, _until: Option<Instant>) {}

    /// Bytes that may wait for the peer to read them (one message may always): a sender of more waits.
    fn capacity(&mut self, _bytes: usize) {}

    /// A way to close the link while another thread waits in it: the wait then fails. `None` where there is
    /// none.
    fn closer(&self) -> Option<Closer> {
        None
    }

    /// Time that a simulated link would have taken and that was *not* slept: to be added to what a clock on
    /// the wall shows.
    fn skipped(&self) -> Duration {
        Duration::ZERO
    }
}

/// A message in one piece, of a channel that receives parts.
fn receive_whole<C: Channel>(channel: &mut C, len: usize) -> Result<Vec<u8>> {
    let mut message = Vec::new();
    channel.receive_parts(&[len], &mut |part| {
        message = part;
        Ok(())
    })?;
    Ok(message)
}
