//! Waiting for clients.
use crate::error::{self, TacitaError};
use crate::two_party::TwoParty;
use crate::two_party_connect::identity;
use crate::two_party_link::{behind, seconds, LinkOption};
use pyo3::prelude::*;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tacita_mpc::channel::frame::Side;
use tacita_mpc::channel::tcp::{insecure_plain as plain, Listener};
use tacita_mpc::channel::tls::Server;
use tacita_mpc::channel::{Channel, StreamChannel};
use tacita_mpc::{MpcError, Role};

/// A listening socket of a server.
#[pyclass(frozen, module = "tacita._native")]
pub struct TwoPartyListener {
    inner: Listener,
    tls: Option<Server>,
}

#[pymethods]
impl TwoPartyListener {
    /// Listens; port 0 takes a free one. `certificate`, `key`: own PEM files; `client_ca`: take only clients
    /// with a certificate of these. Without a certificate only with insecure_plain=True.
    #[new]
    #[pyo3(signature = (host, port, *, certificate=None, key=None, client_ca=None, insecure_plain=false))]
    fn new(
        host: &str,
        port: u16,
        certificate: Option<String>,
        key: Option<String>,
        client_ca: Option<&str>,
        insecure_plain: bool,
    ) -> PyResult<Self> {
        let own = identity(certificate, key)?;
        if own.is_some() == insecure_plain || (insecure_plain && client_ca.is_some()) {
            return Err(TacitaError::new_err(
                "listen: either certificate and key, or insecure_plain=True (which cannot check clients)",
            ));
        }
        let tls = own
            .map(|own| Server::new(&own, client_ca.map(Path::new)))
            .transpose();
        let tls = tls.map_err(error::mpc)?;
        let inner = Listener::bind(host, port).map_err(error::mpc)?;
        Ok(Self { inner, tls })
    }

    /// The port.
    #[getter]
    fn port(&self) -> PyResult<u16> {
        self.inner.port().map_err(error::mpc)
    }

    /// The next connection, on which nothing was read or written yet; None when nobody came within `wait`
    /// seconds. Raises PeerError when the system cannot open another (too many open files, for one): nothing
    /// is wrong with the listener then, the next call may work.
    fn next(&self, py: Python<'_>, wait: f64) -> PyResult<Option<TwoPartyArrival>> {
        let wait = seconds("next", wait)?;
        py.detach(|| self.arrival(wait)).map_err(error::mpc)
    }

    /// The next client, as the server of a session; None when nobody came within `wait` seconds. A client
    /// whose TLS handshake fails raises PeerError and leaves the listener as it was. For one client at a
    /// time: others wait while one greets. `timeout`: longest silence of the peer later.
    #[pyo3(signature = (wait, *, timeout=600.0, link=None, simulate=false, threads=0))]
    fn accept(
        &self,
        py: Python<'_>,
        wait: f64,
        timeout: f64,
        link: Option<LinkOption>,
        simulate: bool,
        threads: usize,
    ) -> PyResult<Option<TwoParty>> {
        let (wait, timeout) = (seconds("accept", wait)?, seconds("timeout", timeout)?);
        let channel = py.detach(|| match self.arrival(wait)? {
            Some(arrival) => arrival.channel(timeout, timeout).map(Some),
            None => Ok(None),
        });
        let Some(channel) = channel.map_err(error::mpc)? else {
            return Ok(None);
        };
        let channel = behind(channel, link.as_ref(), simulate)?;
        TwoParty::new(Role::Server, channel, threads).map(Some)
    }
}

impl TwoPartyListener {
    fn arrival(&self, wait: Duration) -> Result<Option<TwoPartyArrival>, MpcError> {
        let (stream, from) = match self.inner.accept(wait) {
            Err(MpcError::Timeout { .. }) => return Ok(None),
            other => other?,
        };
        Ok(Some(TwoPartyArrival {
            stream: Arc::new(stream),
            from,
            since: Instant::now(),
            tls: self.tls.clone(),
        }))
    }
}

/// A connection that was accepted and on which nothing was said yet.
#[pyclass(frozen, module = "tacita._native")]
pub struct TwoPartyArrival {
    stream: Arc<TcpStream>,
    from: SocketAddr,
    since: Instant,
    tls: Option<Server>,
}

#[pymethods]
impl TwoPartyArrival {
    /// The peer's IP address.
    #[getter]
    fn address(&self) -> String {
        self.from.ip().to_string()
    }

    /// The peer's port.
    #[getter]
    fn port(&self) -> u16 {
        self.from.port()
    }

    /// Hangs up at once, also while another thread is in `secure` or in the session that came of it.
    fn close(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// The TLS handshake, then the server's end of a session that computes on the threads of the process (see
    /// `share_threads`) and waits in the calling thread. `within`: seconds since the connection came for the
    /// handshake and, until `limit` is called, for everything after it. Raises LateError, GoneError,
    /// PeerError.
    #[pyo3(signature = (*, within, timeout=600.0))]
    fn secure(&self, py: Python<'_>, within: f64, timeout: f64) -> PyResult<TwoParty> {
        let (within, timeout) = (seconds("within", within)?, seconds("timeout", timeout)?);
        let until = self.since + within;
        let left = until.saturating_duration_since(Instant::now());
        let mut channel = py.detach(|| self.channel(timeout, left)).map_err(error::mpc)?;
        channel.limit(Some(until));
        let peer = channel.peer().map(|hash| crate::parameters::hex(&hash));
        Ok(TwoParty::sharing(Role::Server, Box::new(channel), peer))
    }
}

impl TwoPartyArrival {
    fn channel(&self, timeout: Duration, within: Duration) -> Result<StreamChannel, MpcError> {
        let stream = Arc::clone(&self.stream);
        match &self.tls {
            None => plain(stream, Side::Accepted, timeout),
            Some(tls) => tls.secure_within(stream, timeout, within),
        }
    }
}

/// Sets how many threads the parties that share them compute on (0: one for each core). Returns how many
/// there are: once a process has begun to compute, its number stays.
#[pyfunction]
pub fn share_threads(count: usize) -> usize {
    // An error says that the pool is there already, with the number that is returned.
    let _ = rayon::ThreadPoolBuilder::new().num_threads(count).build_global();
    rayon::current_num_threads()
}
