//! Framed messages over the two halves of any byte stream.
use super::frame::{self, Side, HEADER_BYTES, MAX_MESSAGE};
use super::queue::{io_error, Sink, Writer, CAPACITY};
use super::{Channel, Closer, Parts, Take};
use crate::{MpcError, Result};
use std::io::{self, Read};
use std::time::{Duration, Instant};

/// The slowest peer that is not called stalled: a message may take the timeout and its length at this many
/// bytes a second.
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
    /// No wait goes past this.
    limit: Option<Instant>,
    /// SHA-256 of the certificate that the peer showed.
    peer: Option<[u8; 32]>,
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
            writer: Writer::start(sink, capacity)?,
            side,
            timeout,
            limit: None,
            peer: None,
            next_out: 0,
            next_in: 0,
            sent: 0,
            received: 0,
            broken: false,
        })
    }

    /// Remembers who the peer proved to be.
    pub(super) fn of(mut self, peer: Option<[u8; 32]>) -> Self {
        self.peer = peer;
        self
    }

    /// SHA-256 of the certificate that the peer showed and whose key it proved to have; `None` without one.
    pub fn peer(&self) -> Option<[u8; 32]> {
        self.peer
    }

    /// The end of a wait that begins now: this long, but not past the limit.
    fn until(&self, wait: Duration) -> Instant {
        let own = Instant::now() + wait;
        self.limit.map_or(own, |limit| own.min(limit))
    }

    /// An error, or that the limit is what ended the wait.
    fn explained(&self, op: &'static str, error: MpcError) -> MpcError {
        match self.limit {
            Some(limit) if limit <= Instant::now() => MpcError::Late { op },
            _ => error,
        }
    }

    /// The next message in parts of these lengths: each may take the timeout, as the peer may have to make it
    /// first, and its length at the slowest rate.
    fn take(&mut self, lengths: &[usize], take: Take<'_>) -> Result<()> {
        self.source.deadline(self.until(self.timeout));
        let mut header = [0; HEADER_BYTES];
        self.fill(&mut header)?;
        let whole = lengths.iter().sum();
        frame::expect(&header, self.side.other(), self.next_in, whole).map_err(|detail| {
            MpcError::Message {
                op: "receive",
                detail,
            }
        })?;
        self.next_in = self.next_in.wrapping_add(1);
        let mut framing = HEADER_BYTES;
        for &len in lengths {
            let body = Duration::from_millis(1000 * len as u64 / SLOWEST);
            self.source.deadline(self.until(self.timeout + body));
            let mut part = vec![0; len]; // of the expected length, which the header has confirmed
            self.fill(&mut part)?;
            self.received += self.source.wire_bytes(std::mem::take(&mut framing) + len);
            take(part)?;
        }
        Ok(())
    }

    /// Queues bytes of a frame.
    fn push(&mut self, bytes: Vec<u8>) -> Result<()> {
        self.sent += self.source.wire_bytes(bytes.len());
        let pushed = self.writer.push(bytes, self.until(self.timeout));
        pushed.map_err(|e| self.explained("send", e))
    }

    /// The header of the next message, of at most [`MAX_MESSAGE`] bytes.
    fn header(&mut self, len: usize) -> Result<[u8; HEADER_BYTES]> {
        if self.broken {
            return Err(MpcError::Closed { op: "send" });
        }
        if len > MAX_MESSAGE {
            let detail = format!("{len} bytes in one message, at most {MAX_MESSAGE}");
            return Err(MpcError::Shape { op: "send", detail });
        }
        let header = frame::encode(self.side, self.next_out, len as u32);
        self.next_out = self.next_out.wrapping_add(1);
        Ok(header)
    }

    /// Queues the parts of a message, its header before the first one.
    fn push_parts(&mut self, header: &[u8], lengths: &[usize], parts: Parts<'_>) -> Result<()> {
        let mut framed = header.to_vec();
        for &len in lengths {
            let part = parts.next().transpose()?.filter(|part| part.len() == len);
            framed.extend(part.ok_or_else(|| MpcError::Shape {
                op: "send",
                detail: format!("a part of {len} bytes is missing"),
            })?);
            self.push(std::mem::take(&mut framed))?;
        }
        Ok(())
    }

    fn fill(&mut self, out: &mut [u8]) -> Result<()> {
        self.source.read_exact(out).map_err(|e| match e.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
                let seconds = self.timeout.as_secs_f64();
                self.explained(
                    "receive",
                    MpcError::Timeout {
                        op: "receive",
                        seconds,
                    },
                )
            }
            _ => io_error("receive", &e),
        })
    }

    /// After an error the stream is out of step: the peer is told by the closing of the connection.
    fn give_up(&mut self) {
        self.broken = true;
        self.source.shut();
    }
}

impl Channel for StreamChannel {
    fn send(&mut self, message: &[u8]) -> Result<()> {
        let header = self.header(message.len())?;
        let framed = [&header[..], message].concat();
        self.push(framed).inspect_err(|_| self.give_up())
    }

    fn receive(&mut self, len: usize) -> Result<Vec<u8>> {
        super::receive_whole(self, len)
    }

    fn send_parts(&mut self, lengths: &[usize], parts: Parts<'_>) -> Result<()> {
        let header = self.header(lengths.iter().sum())?;
        self.push_parts(&header, lengths, parts)
            .inspect_err(|_| self.give_up())
    }

    fn receive_parts(&mut self, lengths: &[usize], take: Take<'_>) -> Result<()> {
        if self.broken {
            return Err(MpcError::Closed { op: "receive" });
        }
        self.take(lengths, take).inspect_err(|_| self.give_up())
    }

    fn sent(&self) -> u64 {
        self.sent
    }

    fn received(&self) -> u64 {
        self.received
    }

    /// Nothing is left to write after an error: that is no second wait.
    fn finish(&mut self) -> Result<()> {
        if self.broken {
            return Ok(());
        }
        let within = self.until(self.timeout).saturating_duration_since(Instant::now());
        let finished = self.writer.finish(within);
        finished
            .map_err(|e| self.explained("finish", e))
            .inspect_err(|_| self.give_up())
    }

    fn limit(&mut self, until: Option<Instant>) {
        self.limit = until;
    }

    fn capacity(&mut self, bytes: usize) {
        self.writer.capacity = bytes;
    }

    fn closer(&self) -> Option<Closer> {
        self.source.closer()
    }
}

impl Drop for StreamChannel {
    fn drop(&mut self) {
        if !self.broken {
            // The last message of a protocol may still be queued. The peer that does not read it is not
            // waited for.
            let _ = self.writer.finish(GRACE.min(self.timeout));
        }
        self.source.shut();
    }
}
