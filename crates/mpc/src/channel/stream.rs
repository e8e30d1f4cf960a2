//! Framed messages over the two halves of any byte stream.
use super::frame::{self, Side, HEADER_BYTES, MAX_MESSAGE};
use super::queue::{io_error, Sink, Writer, CAPACITY};
use super::{Channel, Closer};
use crate::{MpcError, Result};
use std::io::{self, Read};
use std::time::{Duration, Instant};

/// The slowest peer that is not called stalled: a message may take the timeout and its length at this many bytes a second.
const SLOWEST: u64 = 64 << 10;

/// How long dropping a channel waits for its last messages to leave.
const GRACE: Duration = Duration::from_millis(500);

/// The reading half of a connection.
pub trait Source: Read + Send {
    /// No read may block past this moment (it fails with `TimedOut` or `WouldBlock`).
    fn deadline(&mut self, at: Instant);

    /// Closes both directions at once, also for a writer that blocks.
    fn shut(&mut self);

    /// The same from another thread.
    fn closer(&self) -> Option<Closer>;

    /// Bytes on the wire for a frame of this many.
    fn wire_bytes(&self, frame: usize) -> u64 {
        frame as u64
    }
}

/// A [`Channel`] over a byte stream: [`frame`]s, a writer thread, deadlines.
pub struct StreamChannel {
    source: Box<dyn Source>,
    writer: Writer,
    side: Side,
    timeout: Duration,
    next_out: u32,
    next_in: u32,
    sent: u64,
    received: u64,
    broken: bool,
}

impl StreamChannel {
    pub(super) fn new(
        source: Box<dyn Source>,
        sink: impl Sink + 'static,
        side: Side,
        timeout: Duration,
    ) -> Result<Self> {
        Self::with_capacity(source, sink, side, timeout, CAPACITY)
    }

    pub(super) fn with_capacity(
        source: Box<dyn Source>,
        sink: impl Sink + 'static,
        side: Side,
        timeout: Duration,
        capacity: usize,
    ) -> Result<Self> {
        Ok(Self {
            source,
            writer: Writer::start(sink, capacity, timeout)?,
            side,
            timeout,
            next_out: 0,
            next_in: 0,
            sent: 0,
            received: 0,
            broken: false,
        })
    }

    fn take(&mut self, len: usize) -> Result<Vec<u8>> {
        let began = Instant::now();
        self.source.deadline(began + self.timeout);
        let mut header = [0; HEADER_BYTES];
        self.fill(&mut header)?;
        frame::expect(&header, self.side.other(), self.next_in, len)
            .map_err(|detail| MpcError::Message { op: "receive", detail })?;
        self.next_in = self.next_in.wrapping_add(1);
        let body = Duration::from_millis(1000 * len as u64 / SLOWEST);
        self.source.deadline(Instant::now() + self.timeout + body);
        let mut message = vec![0; len]; // of the expected length, which the header has just confirmed
        self.fill(&mut message)?;
        self.received += self.source.wire_bytes(HEADER_BYTES + len);
        Ok(message)
    }

    fn fill(&mut self, out: &mut [u8]) -> Result<()> {
        self.source.read_exact(out).map_err(|e| match e.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => MpcError::Timeout {
                op: "receive",
                seconds: self.timeout.as_secs_f64(),
            },
            _ => io_error("receive", &e),
        })?;
        Ok(())
    }

    /// After an error the stream is out of step: the peer is told by the closing of the connection.
    fn give_up(&mut self) {
        self.broken = true;
        self.source.shut();
    }
}

impl Channel for StreamChannel {
    fn send(&mut self, message: &[u8]) -> Result<()> {
        if self.broken {
            return Err(MpcError::Closed { op: "send" });
        }
        if message.len() > MAX_MESSAGE {
            let detail = format!("{} bytes in one message, at most {MAX_MESSAGE}", message.len());
            return Err(MpcError::Shape { op: "send", detail });
        }
        let mut framed = Vec::with_capacity(HEADER_BYTES + message.len());
        framed.extend_from_slice(&frame::encode(self.side, self.next_out, message.len() as u32));
        framed.extend_from_slice(message);
        self.next_out = self.next_out.wrapping_add(1);
        self.sent += self.source.wire_bytes(framed.len());
        self.writer.push(framed)
    }

    fn receive(&mut self, len: usize) -> Result<Vec<u8>> {
        if self.broken {
            return Err(MpcError::Closed { op: "receive" });
        }
        self.take(len).inspect_err(|_| self.give_up())
    }

    fn sent(&self) -> u64 {
        self.sent
    }

    fn received(&self) -> u64 {
        self.received
    }

    fn finish(&mut self) -> Result<()> {
        self.writer.finish(self.timeout)
    }

    fn closer(&self) -> Option<Closer> {
        self.source.closer()
    }
}

impl Drop for StreamChannel {
    fn drop(&mut self) {
        if !self.broken {
            // The last message of a protocol may still be queued. The peer that does not read it is not waited for.
            let _ = self.writer.finish(GRACE.min(self.timeout));
        }
        self.source.shut();
    }
}
