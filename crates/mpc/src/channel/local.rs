//! A channel over a stream socket of this machine that another made and connected: its bytes are carried on
//! by somebody else, as by the relay of a WebSocket. Queueing, limits and closing are those of TCP.
//!
//! It is a Unix socket. Windows has no pairs of those, so there it is one of the loopback, as `socketpair` of
//! Python makes it.
//!
//! Nothing is encrypted here and nobody is authenticated: whoever holds the other end does both.
use super::frame::Side;
use super::queue::io_error;
use super::socket;
use super::stream::StreamChannel;
use crate::{MpcError, Result};
use socket2::{SockAddr, Socket, Type};
use std::io;
use std::sync::Arc;
use std::time::Duration;

const OP: &str = "over_socket";

/// The number of a socket: of a file descriptor.
#[cfg(unix)]
pub type Descriptor = std::os::fd::RawFd;
/// The number of a socket: of a handle.
#[cfg(windows)]
pub type Descriptor = std::os::windows::io::RawSocket;

/// The socket of this descriptor, as a descriptor of our own: the caller closes the one that was given.
///
/// # Errors
/// `Io` for a number that is no descriptor, and for all but a connected stream socket of this machine.
pub fn of_descriptor(descriptor: Descriptor) -> Result<Socket> {
    let socket = duplicate(descriptor).map_err(|e| io_error(OP, &e))?;
    if socket.r#type().map_err(|e| io_error(OP, &e))? != Type::STREAM {
        return Err(unfit("a socket of datagrams, a stream is needed"));
    }
    if !socket.local_addr().is_ok_and(|address| stays_here(&address)) {
        return Err(unfit("a socket of another family, a Unix socket is needed"));
    }
    socket
        .peer_addr()
        .map_err(|_| unfit("a socket that is not connected"))?;
    socket.set_nonblocking(false).map_err(|e| io_error(OP, &e))?;
    Ok(socket)
}

/// A channel over it.
///
/// # Errors
/// `Io` when the socket refuses its options.
pub fn over(stream: Socket, side: Side, timeout: Duration) -> Result<StreamChannel> {
    socket::plain(Arc::new(stream), side, timeout)
}

fn unfit(detail: &str) -> MpcError {
    let detail = detail.to_owned();
    MpcError::Io { op: OP, detail }
}

#[cfg(unix)]
fn stays_here(address: &SockAddr) -> bool {
    address.is_unix()
}

#[cfg(windows)]
fn stays_here(address: &SockAddr) -> bool {
    address.as_socket().is_some_and(|own| own.ip().is_loopback())
}

fn duplicate(descriptor: Descriptor) -> io::Result<Socket> {
    #[cfg(unix)]
    use std::os::fd::BorrowedFd as Borrowed;
    #[cfg(windows)]
    use std::os::windows::io::BorrowedSocket as Borrowed;
    if descriptor == !0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: it is not the one number that is never open; of any other that is not open the system says so,
    // and what it duplicates is not touched.
    Ok(Socket::from(
        unsafe { Borrowed::borrow_raw(descriptor) }.try_clone_to_owned()?,
    ))
}
