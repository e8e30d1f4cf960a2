//! Messages of the two-party channel over any link that moves bytes in order.
use tacita_mpc::channel::frame::{self, Side, HEADER_BYTES, MAX_MESSAGE};
use tacita_mpc::channel::Channel;
use tacita_mpc::{MpcError, Result};

/// A reliable, ordered link of bytes.
pub trait Transport: Send {
    /// Queues these bytes; does not wait for the peer to read them.
    ///
    /// # Errors
    /// When the link is closed.
    fn send(&mut self, bytes: &[u8]) -> Result<()>;

    /// Waits until all of `out` is filled.
    ///
    /// # Errors
    /// When the link is closed or the peer is silent for too long.
    fn receive(&mut self, out: &mut [u8]) -> Result<()>;

    /// A clock, in milliseconds: what a round trip takes decides which link this is.
    fn clock(&self) -> fn() -> f64;
}

/// The end that dialled.
pub struct Framed<T> {
    link: T,
    next_out: u32,
    next_in: u32,
    sent: u64,
    received: u64,
}

impl<T: Transport> Framed<T> {
    /// A fresh end: nothing was sent yet.
    pub fn new(link: T) -> Self {
        Self {
            link,
            next_out: 0,
            next_in: 0,
            sent: 0,
            received: 0,
        }
    }
}

impl<T: Transport> Channel for Framed<T> {
    fn send(&mut self, message: &[u8]) -> Result<()> {
        if message.len() > MAX_MESSAGE {
            let detail = format!("{} bytes in one message, at most {MAX_MESSAGE}", message.len());
            return Err(MpcError::Shape { op: "send", detail });
        }
        let mut framed = Vec::with_capacity(HEADER_BYTES + message.len());
        framed.extend_from_slice(&frame::encode(Side::Dialled, self.next_out, message.len() as u32));
        framed.extend_from_slice(message);
        self.next_out = self.next_out.wrapping_add(1);
        self.sent += framed.len() as u64;
        self.link.send(&framed)
    }

    fn receive(&mut self, len: usize) -> Result<Vec<u8>> {
        let mut header = [0; HEADER_BYTES];
        self.link.receive(&mut header)?;
        frame::expect(&header, Side::Accepted, self.next_in, len).map_err(|detail| MpcError::Message {
            op: "receive",
            detail,
        })?;
        self.next_in = self.next_in.wrapping_add(1);
        let mut message = vec![0; len]; // of the expected length, which the header has just confirmed
        self.link.receive(&mut message)?;
        self.received += (HEADER_BYTES + len) as u64;
        Ok(message)
    }

    fn sent(&self) -> u64 {
        self.sent
    }

    fn received(&self) -> u64 {
        self.received
    }
}
