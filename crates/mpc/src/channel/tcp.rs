//! TCP: connecting, listening, and plain channels for those who say so. Everything else goes through
//! [`super::tls`].
use super::frame::Side;
use super::socket::{self, SocketSink, SocketSource};
use super::stream::StreamChannel;
use crate::{MpcError, Result};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The halves of a TCP socket.
pub(super) type TcpSource = SocketSource<TcpStream>;
pub(super) type TcpSink = SocketSink<TcpStream>;

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
    socket::plain(undelayed(stream)?, side, timeout)
}

/// The two halves of a socket, with its options set.
pub(super) fn halves(stream: impl Into<Arc<TcpStream>>, timeout: Duration) -> Result<(TcpSource, TcpSink)> {
    socket::halves(undelayed(stream)?, timeout)
}

fn undelayed(stream: impl Into<Arc<TcpStream>>) -> Result<Arc<TcpStream>> {
    let stream = stream.into();
    stream.set_nodelay(true).map_err(|e| io("connect", &e))?;
    Ok(stream)
}

fn io(op: &'static str, e: &io::Error) -> MpcError {
    super::queue::io_error(op, e)
}
