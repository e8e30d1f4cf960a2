//! The two halves of a TLS connection. rustls has one object for both directions: it is behind a mutex that
//! is held for the cryptography only, never while a socket blocks, so a reader that waits does not stop the
//! writer thread.
use super::queue::Sink;
use super::socket::CHUNK;
use super::stream::Source;
use super::tcp::{TcpSink, TcpSource};
use super::Closer;
use rustls::Connection;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Plaintext encrypted under one lock: four records.
const BATCH: usize = 4 * RECORD;

/// Plaintext of a full record.
const RECORD: usize = 16 << 10;

/// Header, content type and tag of a record (RFC 8446, section 5.2).
const RECORD_OVERHEAD: usize = 5 + 1 + 16;

/// A connection after its handshake.
#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<Connection>>);

impl Shared {
    pub(super) fn new(connection: Connection) -> Self {
        Self(Arc::new(Mutex::new(connection)))
    }

    // rustls leaves a connection that panicked unusable by itself: the next call fails.
    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Decrypts what it reads.
pub(super) struct TlsSource {
    shared: Shared,
    socket: TcpSource,
    raw: Vec<u8>,
    /// The part of `raw` not yet given to rustls.
    from: usize,
    to: usize,
}

impl TlsSource {
    pub(super) fn new(shared: Shared, socket: TcpSource) -> Self {
        let raw = vec![0; CHUNK];
        let (from, to) = (0, 0);
        Self {
            shared,
            socket,
            raw,
            from,
            to,
        }
    }

    /// Decrypts what is at hand into `buf`; 0 when more ciphertext is needed, `None` at the orderly end.
    fn decrypt(&mut self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        let mut connection = self.shared.lock();
        let mut filled = 0;
        while filled < buf.len() {
            match connection.reader().read(&mut buf[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    let mut ciphertext = &self.raw[self.from..self.to];
                    if ciphertext.is_empty() {
                        break;
                    }
                    let taken = connection.read_tls(&mut ciphertext)?;
                    self.from += taken;
                    connection.process_new_packets().map_err(invalid)?;
                }
                Err(_) if filled > 0 => break,
                Err(e) => return Err(e),
            }
        }
        Ok(Some(filled))
    }
}

/// A TLS error; rustls' texts name message types and alerts, never content.
fn invalid(e: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("TLS: {e}"))
}

impl Read for TlsSource {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.decrypt(buf)? {
                None => return Ok(0),
                Some(0) if !buf.is_empty() => {}
                Some(count) => return Ok(count),
            }
            let count = self.socket.read(&mut self.raw)?;
            if count == 0 {
                // No close_notify came: a truncated stream, which must not pass for an orderly end.
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            (self.from, self.to) = (0, count);
        }
    }
}

impl Source for TlsSource {
    fn deadline(&mut self, at: Instant) {
        self.socket.deadline(at);
    }

    fn shut(&mut self) {
        self.socket.shut();
    }

    fn closer(&self) -> Option<Closer> {
        self.socket.closer()
    }

    fn wire_bytes(&self, frame: usize) -> u64 {
        (frame + RECORD_OVERHEAD * frame.div_ceil(RECORD)) as u64
    }
}

/// Encrypts what it writes. The only one that takes records out of the connection after the handshake, so
/// their order is kept.
pub(super) struct TlsSink {
    shared: Shared,
    socket: TcpSink,
    records: Vec<u8>,
}

impl TlsSink {
    pub(super) fn new(shared: Shared, socket: TcpSink) -> Self {
        Self {
            shared,
            socket,
            records: Vec::with_capacity(BATCH + 1024),
        }
    }

    fn encrypt(&mut self, act: impl FnOnce(&mut Connection) -> io::Result<usize>) -> io::Result<usize> {
        self.records.clear();
        let mut connection = self.shared.lock();
        let taken = act(&mut connection)?;
        while connection.wants_write() {
            connection.write_tls(&mut self.records)?;
        }
        Ok(taken)
    }
}

impl Write for TlsSink {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let part = &buf[..buf.len().min(BATCH)];
        let taken = self.encrypt(|connection| connection.writer().write(part))?;
        self.socket.write_all(&self.records)?;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for TlsSink {
    fn end(&mut self) {
        let closing = self.encrypt(|connection| {
            connection.send_close_notify();
            Ok(0)
        });
        if closing.is_ok() && self.socket.write_all(&self.records).is_ok() {
            self.socket.end();
        }
    }
}
