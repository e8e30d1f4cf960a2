//! Ways into a session: in memory, by dialling; and certificates.
use crate::error::{self, TacitaError};
use crate::two_party::TwoParty;
use crate::two_party_link::{behind, seconds, LinkOption};
use pyo3::prelude::*;
use std::path::{Path, PathBuf};
use tacita_mpc::channel::certificate::{parse_fingerprint, Identity};
use tacita_mpc::channel::frame::Side;
use tacita_mpc::channel::tls::{Client, Trust};
use tacita_mpc::channel::{memory_pair, tcp};
use tacita_mpc::Role;

/// (client, server) over memory, for two threads of one process.
#[pyfunction]
#[pyo3(signature = (*, timeout=120.0, link=None, simulate=false, threads=0))]
pub fn two_party_pair(
    timeout: f64,
    link: Option<LinkOption>,
    simulate: bool,
    threads: usize,
) -> PyResult<(TwoParty, TwoParty)> {
    let (left, right) = memory_pair(seconds("timeout", timeout)?);
    Ok((
        TwoParty::new(Role::Client, behind(left, link.as_ref(), simulate)?, threads)?,
        TwoParty::new(Role::Server, behind(right, link.as_ref(), simulate)?, threads)?,
    ))
}

/// Writes a self-signed certificate.pem and key.pem (readable by the owner only) for these host names and
/// addresses into a folder; returns both paths. Existing files are not overwritten.
#[pyfunction]
pub fn generate_certificate(py: Python<'_>, folder: &str, names: Vec<String>) -> PyResult<(String, String)> {
    let made = py
        .detach(|| Identity::generate_self_signed(Path::new(folder), &names))
        .map_err(error::mpc)?;
    let text = |path: &Path| path.display().to_string();
    Ok((text(&made.certificate), text(&made.key)))
}

/// SHA-256 of the first certificate of a PEM file, 64 hexadecimal digits.
#[pyfunction]
pub fn certificate_fingerprint(path: &str) -> PyResult<String> {
    let hash = Identity::fingerprint(Path::new(path)).map_err(error::mpc)?;
    Ok(crate::parameters::hex(&hash))
}

/// Why a client that trusts this self-signed certificate would refuse a server of this name today; None when
/// it would not.
#[pyfunction]
pub fn certificate_problem(path: &str, name: &str) -> PyResult<Option<String>> {
    Identity::problem(Path::new(path), name).map_err(error::mpc)
}

/// A certificate and its key, both or neither.
pub fn identity(certificate: Option<String>, key: Option<String>) -> PyResult<Option<Identity>> {
    match (certificate, key) {
        (Some(certificate), Some(key)) => Ok(Some(Identity {
            certificate: PathBuf::from(certificate),
            key: PathBuf::from(key),
        })),
        (None, None) => Ok(None),
        _ => Err(TacitaError::new_err(
            "certificate and key belong together; hint: give both or neither",
        )),
    }
}

/// Whom to trust; `None` for plain TCP, which must be asked for.
fn trust(ca: Option<String>, fingerprint: Option<&str>, insecure_plain: bool) -> PyResult<Option<Trust>> {
    match (ca, fingerprint, insecure_plain) {
        (Some(path), None, false) => Ok(Some(Trust::Authorities(PathBuf::from(path)))),
        (None, Some(text), false) => Ok(Some(Trust::Fingerprint(
            parse_fingerprint(text).map_err(error::mpc)?,
        ))),
        (None, None, true) => Ok(None),
        _ => Err(TacitaError::new_err(
            "dial: exactly one of ca, fingerprint and insecure_plain=True is needed",
        )),
    }
}

#[pymethods]
impl TwoParty {
    /// Connects as the client. `ca`: PEM file of authorities or of the server's self-signed certificate;
    /// `fingerprint`: SHA-256 of the server's certificate; `certificate` and `key`: own PEM files, for
    /// servers that ask. `timeout`: longest silence of the peer.
    #[staticmethod]
    #[pyo3(signature = (host, port, *, ca=None, fingerprint=None, server_name=None, certificate=None,
                        key=None, insecure_plain=false, timeout=600.0, link=None, simulate=false, threads=0))]
    #[allow(clippy::too_many_arguments)] // keyword arguments of Python
    fn dial(
        py: Python<'_>,
        host: &str,
        port: u16,
        ca: Option<String>,
        fingerprint: Option<&str>,
        server_name: Option<&str>,
        certificate: Option<String>,
        key: Option<String>,
        insecure_plain: bool,
        timeout: f64,
        link: Option<LinkOption>,
        simulate: bool,
        threads: usize,
    ) -> PyResult<Self> {
        let (trust, own) = (
            trust(ca, fingerprint, insecure_plain)?,
            identity(certificate, key)?,
        );
        let timeout = seconds("timeout", timeout)?;
        let connect = || {
            let client = trust.map(|trust| Client::new(&trust, own.as_ref())).transpose()?;
            let stream = tcp::dial(host, port, timeout.min(DIALLING))?;
            match client {
                None => tcp::insecure_plain(stream, Side::Dialled, timeout),
                Some(client) => client.secure(stream, server_name.unwrap_or(host), timeout),
            }
        };
        let channel = py.detach(connect).map_err(error::mpc)?;
        Self::new(Role::Client, behind(channel, link.as_ref(), simulate)?, threads)
    }
}

/// Longest wait for a connection.
const DIALLING: std::time::Duration = std::time::Duration::from_secs(30);
