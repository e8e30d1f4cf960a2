//! The two halves of a connected socket of any kind, with deadlines: what [`super::tcp`] and
//! [`super::local`] make channels of.
use super::frame::Side;
use super::queue::{io_error, Sink};
use super::stream::{Source, StreamChannel};
use super::Closer;
use crate::Result;
use socket2::Socket as LocalSocket;
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes read at once from a socket.
pub(super) const CHUNK: usize = 128 << 10;

/// What both kinds of sockets do alike; from several threads at the same time.
pub(super) trait Socket: Send + Sync + 'static {
    fn receive(&self, buf: &mut [u8]) -> io::Result<usize>;
    fn transmit(&self, buf: &[u8]) -> io::Result<usize>;
    fn read_within(&self, time: Duration) -> io::Result<()>;
    fn write_within(&self, time: Duration) -> io::Result<()>;
    fn close(&self, how: Shutdown) -> io::Result<()>;
}

macro_rules! socket {
    ($kind:ty) => {
        impl Socket for $kind {
            fn receive(&self, buf: &mut [u8]) -> io::Result<usize> {
                (&*self).read(buf)
            }
            fn transmit(&self, buf: &[u8]) -> io::Result<usize> {
                (&*self).write(buf)
            }
            fn read_within(&self, time: Duration) -> io::Result<()> {
                self.set_read_timeout(Some(time))
            }
            fn write_within(&self, time: Duration) -> io::Result<()> {
                self.set_write_timeout(Some(time))
            }
            fn close(&self, how: Shutdown) -> io::Result<()> {
                self.shutdown(how)
            }
        }
    };
}

socket!(TcpStream);
socket!(LocalSocket);

/// The two halves. Both and the closer share one file descriptor: a server has a limited number of them.
pub(super) fn halves<S: Socket>(
    socket: Arc<S>,
    timeout: Duration,
) -> Result<(SocketSource<S>, SocketSink<S>)> {
    let sink = SocketSink(Arc::clone(&socket));
    sink.patience(timeout).map_err(|e| io_error("connect", &e))?;
    let until = Instant::now() + timeout;
    Ok((SocketSource { socket, until }, sink))
}

/// A channel whose bytes travel as they are.
pub(super) fn plain<S: Socket>(socket: Arc<S>, side: Side, timeout: Duration) -> Result<StreamChannel> {
    let (source, sink) = halves(socket, timeout)?;
    let source = Buffered(BufReader::with_capacity(CHUNK, source));
    StreamChannel::new(Box::new(source), sink, side, timeout)
}

/// Reads until a deadline.
pub(super) struct SocketSource<S> {
    socket: Arc<S>,
    until: Instant,
}

impl<S: Socket> Read for SocketSource<S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.socket.read_within(left)?;
        self.socket.receive(buf)
    }
}

impl<S: Socket> Source for SocketSource<S> {
    fn deadline(&mut self, at: Instant) {
        self.until = at;
    }

    fn shut(&mut self) {
        let _ = self.socket.close(Shutdown::Both);
    }

    fn closer(&self) -> Option<Closer> {
        let socket = Arc::clone(&self.socket);
        Some(Box::new(move || {
            let _ = socket.close(Shutdown::Both);
        }))
    }
}

struct Buffered<S>(BufReader<SocketSource<S>>);

impl<S: Socket> Read for Buffered<S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }
}

impl<S: Socket> Source for Buffered<S> {
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
pub(super) struct SocketSink<S>(Arc<S>);

impl<S: Socket> SocketSink<S> {
    /// How long one write may block.
    pub(super) fn patience(&self, timeout: Duration) -> io::Result<()> {
        self.0.write_within(timeout.max(Duration::from_millis(1)))
    }
}

impl<S: Socket> Write for SocketSink<S> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.transmit(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<S: Socket> Sink for SocketSink<S> {
    fn end(&mut self) {
        let _ = self.0.close(Shutdown::Write);
    }
}
