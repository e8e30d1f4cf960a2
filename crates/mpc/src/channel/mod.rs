//! Ordered messages between the two parties, counted per operation.
mod memory;

pub use memory::{memory_pair, MemoryChannel};

use crate::Result;

/// A reliable, ordered link. `send` must not wait for the peer to read (implementations queue and write in the background), so both
/// parties may send at the same time.
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

    /// Bytes sent so far, framing included.
    fn sent(&self) -> u64;

    /// Bytes received so far, framing included.
    fn received(&self) -> u64;
}
