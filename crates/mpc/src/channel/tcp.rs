//! TCP: connecting, listening, and plain channels for those who say so. Everything else goes through
//! [`super::tls`].
use super::frame::Side;
use super::queue::Sink;
use super::stream::{Source, StreamChannel};
use super::Closer;
use crate::{MpcError, Result};
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes read at once from a socket.
pub(super) const CHUNK: usize = 128 << 10;

/// Connects to the first address of the host that answers.
///
/// # Errors
/// `Io` with the host and the system's words; `Timeout`.
pub fn dial(host: &str, port: u16, timeout: Duration) -> Result<TcpStream> {
    let op = "connect";
    let named = |e: &io::Error| MpcError::Io {
        op,
        detail: format!("{host}:{port}: {e}"),
    };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs().map_err(|e| named(&e))? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(e) => last = e,
        }
    }
    Err(named(&last))
}

/// A listening socket.
pub struct Listener(TcpListener);

impl Listener {
    /// Listens; port 0 takes a free one.
    ///
    /// # Errors
    /// `Io` with the address and the system's words.
    pub fn bind(host: &str, port: u16) -> Result<Self> {
        let named = |e: io::Error| MpcError::Io {
            op: "listen",
            detail: format!("{host}:{port}: {e}"),
        };
        let inner = TcpListener::bind((host, port)).map_err(named)?;
        inner.set_nonblocking(true).map_err(named)?;
        Ok(Self(inner))
    }

    /// The port.
    ///
    /// # Errors
    /// `Io` when the socket has none.
    pub fn port(&self) -> Result<u16> {
        let address = self.0.local_addr().map_err(|e| io("listen", &e))?;
        Ok(address.port())
    }

    /// The next connection and who made it. Nothing is read or written yet.
    ///
    /// # Errors `Timeout` when none comes; `Io` when the system cannot open another (it has too many open
    /// files, for one).
    pub fn accept(&self, timeout: Duration) -> Result<(TcpStream, SocketAddr)> {
        let until = Instant::now() + timeout;
        loop {
            match self.0.accept() {
                Ok((stream, from)) => {
                    stream.set_nonblocking(false).map_err(|e| io("accept", &e))?;
                    return Ok((stream, from));
                }
                Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => {} // it left before its turn came
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    let seconds = timeout.as_secs_f64();
                    return Err(MpcError::Timeout {
                        op: "accept",
                        seconds,
                    });
                }
                Err(e) => {
                    let detail = e.to_string();
                    return Err(MpcError::Io { op: "accept", detail });
                }
            }
        }
    }
}

/// A channel without encryption or authentication: for tests, measurements, and links that are secured by
/// other means.
///
/// # Errors
/// `Io` when the socket refuses its options.
pub fn insecure_plain(
    stream: impl Into<Arc<TcpStream>>,
    side: Side,
    timeout: Duration,
) -> Result<StreamChannel> {
    let (source, sink) = halves(stream, timeout)?;
    StreamChannel::new(
        Box::new(Buffered(BufReader::with_capacity(CHUNK, source))),
        sink,
        side,
        timeout,
    )
}

/// The two halves of a socket, with its options set. Both and the closer share one file descriptor: a server
/// has a limited number of them.
pub(super) fn halves(stream: impl Into<Arc<TcpStream>>, timeout: Duration) -> Result<(TcpSource, TcpSink)> {
    let stream = stream.into();
    stream.set_nodelay(true).map_err(|e| io("connect", &e))?;
    let sink = TcpSink(Arc::clone(&stream));
    sink.patience(timeout).map_err(|e| io("connect", &e))?;
    let source = TcpSource {
        stream,
        until: Instant::now() + timeout,
    };
    Ok((source, sink))
}

fn io(op: &'static str, e: &io::Error) -> MpcError {
    super::queue::io_error(op, e)
}

/// Reads until a deadline.
pub(super) struct TcpSource {
    stream: Arc<TcpStream>,
    until: Instant,
}

impl Read for TcpSource {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        (&*self.stream).read(buf)
    }
}

impl Source for TcpSource {
    fn deadline(&mut self, at: Instant) {
        self.until = at;
    }

    fn shut(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    fn closer(&self) -> Option<Closer> {
        let stream = Arc::clone(&self.stream);
        Some(Box::new(move || {
            let _ = stream.shutdown(Shutdown::Both);
        }))
    }
}

struct Buffered(BufReader<TcpSource>);

impl Read for Buffered {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }
}

impl Source for Buffered {
    fn deadline(&mut self, at: Instant) {
        self.0.get_mut().deadline(at);
    }

    fn shut(&mut self) {
        self.0.get_mut().shut();
    }

    fn closer(&self) -> Option<Closer> {
        self.0.get_ref().closer()
    }
}

/// Writes with the socket's write timeout.
pub(super) struct TcpSink(Arc<TcpStream>);

impl TcpSink {
    /// How long one write may block.
    pub(super) fn patience(&self, timeout: Duration) -> io::Result<()> {
        self.0
            .set_write_timeout(Some(timeout.max(Duration::from_millis(1))))
    }
}

impl Write for TcpSink {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&*self.0).write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for TcpSink {
    fn end(&mut self) {
        let _ = self.0.shutdown(Shutdown::Write);
    }
}
