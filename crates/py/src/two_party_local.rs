//! A session over a Unix socket that Python made and whose bytes somebody else carries on.
use crate::error;
use crate::two_party::TwoParty;
use crate::two_party_link::seconds;
use pyo3::prelude::*;
use tacita_mpc::channel::frame::Side;
use tacita_mpc::channel::local;
use tacita_mpc::Role;

#[pymethods]
impl TwoParty {
    /// A party over a connected Unix stream socket, by its file descriptor: it keeps one of its own, the
    /// caller closes the given one. Nothing is encrypted and nobody authenticated here, so `peer` is None.
    /// `client`: which role. `timeout`: longest silence of the peer. `threads`: 0 for all cores; None for
    /// those that the parties of the process share (see `share_threads`), as a server's session wants it.
    #[staticmethod]
    #[pyo3(signature = (fd, *, client, timeout, threads))]
    fn over_socket(
        fd: local::Descriptor,
        client: bool,
        timeout: f64,
        threads: Option<usize>,
    ) -> PyResult<Self> {
        let (role, side) = if client {
            (Role::Client, Side::Dialled)
        } else {
            (Role::Server, Side::Accepted)
        };
        let timeout = seconds("timeout", timeout)?;
        let stream = local::of_descriptor(fd).map_err(error::mpc)?;
        let channel = local::over(stream, side, timeout).map_err(error::mpc)?;
        match threads {
            Some(threads) => Self::new(role, Box::new(channel), threads),
            None => Ok(Self::sharing(role, Box::new(channel), None)),
        }
    }
}
