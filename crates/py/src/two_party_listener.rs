//! Waiting for clients.
use crate::error::{self, TacitaError};
use crate::two_party::TwoParty;
use crate::two_party_connect::identity;
use crate::two_party_link::{behind, seconds, LinkOption};
use pyo3::prelude::*;
use std::path::Path;
use std::time::Duration;
use tacita_mpc::channel::frame::Side;
use tacita_mpc::channel::tcp::{insecure_plain as plain, Listener};
use tacita_mpc::channel::tls::Server;
use tacita_mpc::channel::StreamChannel;
use tacita_mpc::{MpcError, Role};

/// A listening socket of a server.
#[pyclass(frozen, module = "tacita._native")]
pub struct TwoPartyListener {
    inner: Listener,
    tls: Option<Server>,
}

#[pymethods]
impl TwoPartyListener {
    /// Listens; port 0 takes a free one. `certificate`, `key`: own PEM files; `client_ca`: take only clients with a certificate of these.
    /// Without a certificate only with insecure_plain=True.
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
        let tls = own.map(|own| Server::new(&own, client_ca.map(Path::new))).transpose();
        let tls = tls.map_err(error::mpc)?;
        let inner = Listener::bind(host, port).map_err(error::mpc)?;
        Ok(Self { inner, tls })
    }

    /// The port.
    #[getter]
    fn port(&self) -> PyResult<u16> {
        self.inner.port().map_err(error::mpc)
    }

    /// The next client, as the server of a session; None when nobody came within `wait` seconds. A client whose TLS handshake fails raises
    /// PeerError and leaves the listener as it was. `timeout`: longest silence of the peer later.
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
        let Some(channel) = py.detach(|| self.next(wait, timeout)).map_err(error::mpc)? else {
            return Ok(None);
        };
        let channel = behind(channel, link.as_ref(), simulate)?;
        TwoParty::new(Role::Server, channel, threads).map(Some)
    }
}

impl TwoPartyListener {
    fn next(&self, wait: Duration, timeout: Duration) -> Result<Option<StreamChannel>, MpcError> {
        let stream = match self.inner.accept(wait) {
            Err(MpcError::Timeout { .. }) => return Ok(None),
            other => other?,
        };
        let channel = match &self.tls {
            None => plain(stream, Side::Accepted, timeout),
            Some(tls) => tls.secure(stream, timeout),
        };
        channel.map(Some)
    }
}
