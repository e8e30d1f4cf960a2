//! Certificates: files, fingerprints, and self-signed ones for servers without a certificate authority.
use crate::{MpcError, Result};
use rustls::client::danger::ServerCertVerifier;
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::pki_types::{ServerName, UnixTime};
use rustls::RootCertStore;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// A certificate chain and its private key, as PEM files.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The chain, own certificate first.
    pub certificate: PathBuf,
    /// The private key (PKCS#8, PKCS#1 or SEC1).
    pub key: PathBuf,
}

impl Identity {
    pub(super) fn load(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|e| unreadable(&self.key, &e))?;
        Ok((chain(&self.certificate)?, key))
    }

    /// Years that a self-signed certificate is valid.
    const YEARS: u64 = 2;

    /// Makes `certificate.pem` and `key.pem` in a folder: an ECDSA P-256 key and a certificate, signed by
    /// itself, for these host names and IP addresses, valid for two years. The key is readable by its owner
    /// only.
    ///
    /// # Errors
    /// `Io` when a file exists already or cannot be written, or a name is not one.
    pub fn generate_self_signed(folder: &Path, names: &[String]) -> Result<Self> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_secs());
        let year = 1970 + now / 31_556_952; // mean Gregorian years
        Self::generate_between(folder, names, year as i32, (year + Self::YEARS + 1) as i32)
    }

    /// The same, valid from the first day of one year to the first day of another.
    fn generate_between(folder: &Path, names: &[String], from: i32, to: i32) -> Result<Self> {
        let mut params = rcgen::CertificateParams::new(names).map_err(|e| failed(&e))?;
        params.not_before = rcgen::date_time_ymd(from, 1, 1);
        params.not_after = rcgen::date_time_ymd(to, 1, 1);
        let key = rcgen::KeyPair::generate().map_err(|e| failed(&e))?;
        let certificate = params.self_signed(&key).map_err(|e| failed(&e))?;
        let made = Self {
            certificate: folder.join("certificate.pem"),
            key: folder.join("key.pem"),
        };
        let mut secret = key.serialize_pem();
        let written = create(&made.key, secret.as_bytes(), 0o600);
        zeroize::Zeroize::zeroize(&mut secret);
        written?;
        create(&made.certificate, certificate.pem().as_bytes(), 0o644)?;
        Ok(made)
    }

    /// SHA-256 of the (first) certificate, as `openssl x509 -fingerprint -sha256` shows it.
    ///
    /// # Errors
    /// `Io` when the file holds no certificate.
    pub fn fingerprint(certificate: &Path) -> Result<[u8; 32]> {
        Ok(sha256(&chain(certificate)?[0]))
    }

    /// Why a client that trusts this self-signed certificate would refuse a server of this name (or address)
    /// today: it is expired, or made for other names. `None`: it would not.
    ///
    /// # Errors
    /// `Io` when the file holds no certificate; `Shape` for a text that is no name.
    pub fn problem(certificate: &Path, name: &str) -> Result<Option<String>> {
        let (chain, roots) = (chain(certificate)?, Arc::new(roots(certificate)?));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider)
            .build()
            .map_err(|e| unreadable(certificate, &e))?;
        let server = ServerName::try_from(name).map_err(|e| MpcError::Shape {
            op: "certificate",
            detail: format!("{name:?} is neither a host name nor an address: {e}"),
        })?;
        let found = verifier.verify_server_cert(&chain[0], &chain[1..], &server, &[], UnixTime::now());
        Ok(found.err().map(|e| e.to_string()))
    }
}

fn failed(e: &rcgen::Error) -> MpcError {
    MpcError::Io {
        op: "new certificate",
        detail: e.to_string(),
    }
}

fn create(path: &Path, content: &[u8], mode: u32) -> Result<()> {
    let mut options = OpenOptions::new();
    private(options.write(true).create_new(true), mode)
        .open(path)
        .and_then(|mut file| file.write_all(content))
        .map_err(|e| unreadable(path, &e))
}

#[cfg(unix)]
fn private(options: &mut OpenOptions, mode: u32) -> &mut OpenOptions {
    std::os::unix::fs::OpenOptionsExt::mode(options, mode)
}

/// Windows has no modes: a file is its owner's by the rights of its folder.
#[cfg(not(unix))]
fn private(options: &mut OpenOptions, _: u32) -> &mut OpenOptions {
    options
}

fn unreadable(path: &Path, e: &dyn std::fmt::Display) -> MpcError {
    MpcError::Io {
        op: "certificate",
        detail: format!("{}: {e}", path.display()),
    }
}

/// The certificates of a PEM file: at least one.
fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let all: std::result::Result<Vec<_>, _> = CertificateDer::pem_file_iter(path)
        .map_err(|e| unreadable(path, &e))?
        .collect();
    let all = all.map_err(|e| unreadable(path, &e))?;
    if all.is_empty() {
        return Err(unreadable(path, &"no certificate in this file"));
    }
    Ok(all)
}

/// Trust in the certificates of a PEM file: authorities, or a server's own self-signed certificate.
pub(super) fn roots(path: &Path) -> Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    for certificate in chain(path)? {
        store.add(certificate).map_err(|e| unreadable(path, &e))?;
    }
    Ok(store)
}

/// SHA-256 by the provider of the TLS suites.
pub(super) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let rustls::SupportedCipherSuite::Tls13(suite) =
        rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
    let mut out = [0; 32];
    out.copy_from_slice(suite.common.hash_provider.hash(bytes).as_ref());
    out
}

/// A fingerprint from hexadecimal digits, with or without colons.
///
/// # Errors
/// `Shape` unless there are 64 digits.
pub fn parse_fingerprint(text: &str) -> Result<[u8; 32]> {
    let wrong = || MpcError::Shape {
        op: "fingerprint",
        detail: "not the 64 hexadecimal digits of a SHA-256 (colons and spaces are ignored)".to_owned(),
    };
    let digits: Vec<char> = text.chars().filter(|c| !matches!(c, ':' | ' ')).collect();
    let mut out = [0; 32];
    if digits.len() != 64 {
        return Err(wrong());
    }
    for (byte, pair) in out.iter_mut().zip(digits.chunks(2)) {
        let nibble = |c: char| c.to_digit(16).ok_or_else(wrong);
        *byte = (nibble(pair[0])? * 16 + nibble(pair[1])?) as u8;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_of_other_names_or_another_time_has_a_problem() {
        let folder = std::env::temp_dir().join(format!("tacita-certificate-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let names = ["model.example".to_owned(), "192.0.2.7".to_owned()];
        let made = Identity::generate_self_signed(&folder, &names).unwrap();
        let problem = |made: &Identity, name: &str| Identity::problem(&made.certificate, name).unwrap();
        assert_eq!(problem(&made, "model.example"), None);
        assert_eq!(problem(&made, "192.0.2.7"), None);
        assert!(problem(&made, "other.example")
            .unwrap()
            .contains("not valid for name"));
        assert!(Identity::problem(&made.certificate, "no name").is_err());
        std::fs::remove_dir_all(&folder).unwrap();
        std::fs::create_dir_all(&folder).unwrap();
        let old = Identity::generate_between(&folder, &names, 2001, 2003).unwrap();
        assert!(problem(&old, "model.example").unwrap().contains("expired"));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn sha256_is_sha256() {
        let known = "ba7816bf:8f01cfea:414140de:5dae2223:b00361a3:96177a9c:b410ff61:f20015ad";
        assert_eq!(sha256(b"abc"), parse_fingerprint(known).unwrap());
        assert!(parse_fingerprint("ba7816").is_err());
        assert!(parse_fingerprint(&"zz".repeat(32)).is_err());
    }
}
