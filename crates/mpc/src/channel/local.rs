//! A channel over a Unix stream socket that another made and connected: its bytes are carried on by somebody
//! else, as by the relay of a WebSocket. Queueing, limits and closing are those of TCP.
//!
//! Nothing is encrypted here and nobody is authenticated: whoever holds the other end does both.
use super::frame::Side;
use super::queue::io_error;
use super::socket;
use super::stream::StreamChannel;
use crate::{MpcError, Result};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

const OP: &str = "over_socket";

/// The socket of this file descriptor, as a descriptor of our own: the caller closes the one that was given.
///
/// # Errors
/// `Io` for a number that is no descriptor, and for all but a connected Unix stream socket.
pub fn of_descriptor(descriptor: RawFd) -> Result<UnixStream> {
    let stream = UnixStream::from(duplicate(descriptor).map_err(|e| io_error(OP, &e))?);
    if kind(descriptor).map_err(|e| io_error(OP, &e))? != libc::SOCK_STREAM {
        return Err(unfit("a socket of datagrams, a stream is needed"));
    }
    stream
        .local_addr()
        .map_err(|_| unfit("a socket of another family, a Unix socket is needed"))?;
    stream
        .peer_addr()
        .map_err(|_| unfit("a socket that is not connected"))?;
    stream.set_nonblocking(false).map_err(|e| io_error(OP, &e))?;
    Ok(stream)
}

/// A channel over it.
///
/// # Errors
/// `Io` when the socket refuses its options.
pub fn over(stream: UnixStream, side: Side, timeout: Duration) -> Result<StreamChannel> {
    socket::plain(Arc::new(stream), side, timeout)
}

fn unfit(detail: &str) -> MpcError {
    let detail = detail.to_owned();
    MpcError::Io { op: OP, detail }
}

fn duplicate(descriptor: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: fcntl takes any number; of one that is no open descriptor it says so and touches nothing.
    let own = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 3) };
    if own < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was made a line above, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(own) })
}

/// SO_TYPE.
fn kind(descriptor: RawFd) -> io::Result<libc::c_int> {
    let mut kind: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    let place = (&raw mut kind).cast();
    // SAFETY: `place` has room for the `length` bytes that are written at most, and both outlive the call.
    let failed = unsafe { libc::getsockopt(descriptor, libc::SOL_SOCKET, libc::SO_TYPE, place, &mut length) };
    if failed == 0 {
        Ok(kind)
    } else {
        Err(io::Error::last_os_error())
    }
}
