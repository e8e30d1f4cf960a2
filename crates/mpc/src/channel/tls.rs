//! TLS 1.3 over TCP by rustls with the `ring` provider: no older version, no resumption, no early data.
//!
//! The client trusts the certificates of a file or one pinned fingerprint, never a system store by default:
//! the server of a private model is known to its users. A server may ask its clients for certificates of an
//! authority of its own.
use super::certificate::{self, roots, sha256, Identity};
use super::frame::Side;
use super::stream::{Source, StreamChannel};
use super::tcp::{halves, TcpSource};
use super::tls_stream::{Shared, TlsSink, TlsSource};
use crate::{MpcError, Result};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Connection, DigitallySignedStruct, ServerConfig,
    ServerConnection, SignatureScheme,
};
use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest handshake: whoever connects and says nothing does not hold a listener for longer.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Whom a client believes to be the server.
#[derive(Clone, Debug)]
pub enum Trust {
    /// A server with a certificate for the dialled name, signed by (or equal to) one of this PEM file.
    Authorities(PathBuf),
    /// The server whose certificate has this SHA-256; its name and dates do not matter.
    Fingerprint([u8; 32]),
}

/// How a client connects.
#[derive(Clone)]
pub struct Client(Arc<ClientConfig>);

/// How a server answers.
#[derive(Clone)]
pub struct Server(Arc<ServerConfig>);

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn refused(op: &'static str, e: &dyn std::fmt::Display) -> MpcError {
    MpcError::Io {
        op,
        detail: format!("TLS: {e}"),
    }
}

impl Client {
    /// Trusts the server as said, and shows an identity of its own to servers that ask.
    ///
    /// # Errors
    /// `Io` with the file that cannot be used.
    pub fn new(trust: &Trust, identity: Option<&Identity>) -> Result<Self> {
        let op = "certificate";
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(|e| refused(op, &e))?;
        let builder = match trust {
            Trust::Authorities(path) => builder.with_root_certificates(certificate::roots(path)?),
            Trust::Fingerprint(hash) => {
                let pinned = Pinned {
                    hash: *hash,
                    provider: provider(),
                };
                builder
                    .dangerous()
                    .with_custom_certificate_verifier(Arc::new(pinned))
            }
        };
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (chain, key) = identity.load()?;
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|e| refused(op, &e))?
            }
        };
        config.resumption = Resumption::disabled();
        Ok(Self(Arc::new(config)))
    }

    /// The client's end over a connected socket; the handshake takes at most 10 s, the wait for each later
    /// message (and for the handshake, if that is less) at most `timeout`.
    ///
    /// # Errors
    /// `Io` naming the certificate problem; `Closed`; `Timeout`.
    pub fn secure(&self, stream: TcpStream, name: &str, timeout: Duration) -> Result<StreamChannel> {
        let name = ServerName::try_from(name.to_owned()).map_err(|e| refused("connect", &e))?;
        let connection =
            ClientConnection::new(Arc::clone(&self.0), name).map_err(|e| refused("connect", &e))?;
        secured(stream, connection.into(), Side::Dialled, timeout, HANDSHAKE)
    }
}

impl Server {
    /// Shows this identity; with `clients`, takes only clients with a certificate signed by (or equal to) one
    /// of that PEM file.
    ///
    /// # Errors
    /// `Io` with the file that cannot be used.
    pub fn new(identity: &Identity, clients: Option<&Path>) -> Result<Self> {
        let op = "certificate";
        let builder = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(|e| refused(op, &e))?;
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots(path)?), provider()).build();
                builder.with_client_cert_verifier(verifier.map_err(|e| refused(op, &e))?)
            }
        };
        let (chain, key) = identity.load()?;
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|e| refused(op, &e))?;
        config.send_tls13_tickets = 0;
        Ok(Self(Arc::new(config)))
    }

    /// The server's end over an accepted socket; the handshake takes at most 10 s, the wait for each later
    /// message (and for the handshake, if that is less) at most `timeout`.
    ///
    /// # Errors
    /// `Io` naming the certificate problem; `Closed`; `Timeout`.
    pub fn secure(&self, stream: impl Into<Arc<TcpStream>>, timeout: Duration) -> Result<StreamChannel> {
        self.secure_within(stream, timeout, HANDSHAKE)
    }

    /// The same with another bound for the whole handshake.
    ///
    /// # Errors
    /// As [`Server::secure`].
    pub fn secure_within(
        &self,
        stream: impl Into<Arc<TcpStream>>,
        timeout: Duration,
        within: Duration,
    ) -> Result<StreamChannel> {
        let connection = ServerConnection::new(Arc::clone(&self.0)).map_err(|e| refused("accept", &e))?;
        secured(stream, connection.into(), Side::Accepted, timeout, within)
    }
}

fn secured(
    stream: impl Into<Arc<TcpStream>>,
    mut connection: Connection,
    side: Side,
    timeout: Duration,
    within: Duration,
) -> Result<StreamChannel> {
    let timeout_now = timeout.min(within);
    let (mut source, mut sink) = halves(stream, timeout_now)?;
    source.deadline(Instant::now() + timeout_now);
    if let Err(e) = handshake(&mut connection, &mut source, &mut sink) {
        // The alert that tells the peer why is already written.
        return Err(match e.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => MpcError::Timeout {
                op: "TLS handshake",
                seconds: timeout_now.as_secs_f64(),
            },
            _ => super::queue::io_error("TLS handshake", &e),
        });
    }
    sink.patience(timeout)
        .map_err(|e| super::queue::io_error("TLS handshake", &e))?;
    let peer = connection
        .peer_certificates()
        .and_then(<[_]>::first)
        .map(|certificate| sha256(certificate));
    connection.set_buffer_limit(None);
    let shared = Shared::new(connection);
    let source = TlsSource::new(shared.clone(), source);
    StreamChannel::new(Box::new(source), TlsSink::new(shared, sink), side, timeout)
        .map(|channel| channel.of(peer))
}

fn handshake(
    connection: &mut Connection,
    source: &mut TcpSource,
    sink: &mut super::tcp::TcpSink,
) -> io::Result<()> {
    while connection.is_handshaking() || connection.wants_write() {
        while connection.wants_write() {
            connection.write_tls(sink)?;
        }
        if !connection.is_handshaking() {
            break;
        }
        if connection.read_tls(source)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Err(e) = connection.process_new_packets() {
            while connection.wants_write() && connection.write_tls(sink).is_ok() {}
            return Err(io::Error::new(io::ErrorKind::InvalidData, explained(&e)));
        }
    }
    Ok(())
}

/// rustls' words, with what to do about the two commonest mistakes.
fn explained(e: &rustls::Error) -> String {
    match e {
        rustls::Error::InvalidMessage(_) => format!("{e}; is the peer on plain TCP?"),
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            format!("{e}; is the file of trusted certificates that of this server?")
        }
        _ => e.to_string(),
    }
}

/// Takes one certificate only, by its hash. Its holder still proves the private key by the handshake's
/// signature.
#[derive(Debug)]
struct Pinned {
    hash: [u8; 32],
    provider: Arc<CryptoProvider>,
}

type Verified<T> = std::result::Result<T, rustls::Error>;

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Verified<ServerCertVerified> {
        if sha256(certificate) == self.hash {
            return Ok(ServerCertVerified::assertion());
        }
        Err(rustls::Error::General(
            "the server's certificate has another fingerprint than the pinned one".to_owned(),
        ))
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Verified<HandshakeSignatureValid> {
        Err(rustls::Error::General("TLS 1.2 is not spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Verified<HandshakeSignatureValid> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
