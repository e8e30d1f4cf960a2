//! TLS: what must connect, and what must not.
use super::certificate::Identity;
use super::frame::Side;
use super::tcp::insecure_plain;
use super::tcp_faults::sockets;
use super::tls::{Client, Server, Trust};
use super::{Channel, StreamChannel};
use crate::{MpcError, Result};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(60);

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tacita-tls-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn identity(folder: &Folder, name: &str, host: &str) -> Identity {
    let path = folder.0.join(name);
    std::fs::create_dir_all(&path).unwrap();
    Identity::generate_self_signed(&path, &[host.to_owned()]).unwrap()
}

fn authorities(identity: &Identity) -> Trust {
    Trust::Authorities(identity.certificate.clone())
}

type Ends = (Result<StreamChannel>, Result<StreamChannel>);

/// Both handshakes over loopback.
fn connect(client: &Client, server: &Server, name: &str, timeout: Duration) -> Ends {
    let (a, b) = sockets();
    std::thread::scope(|scope| {
        let accepting = scope.spawn(|| server.secure(b, timeout));
        let dialled = client.secure(a, name, timeout);
        (dialled, accepting.join().expect("no panic"))
    })
}

fn exchange(ends: Ends) {
    let (mut a, mut b) = (ends.0.expect("client"), ends.1.expect("server"));
    for len in [0, 1, 16_384, 200_000] {
        a.send(&vec![3; len]).unwrap();
        b.send(&vec![4; len]).unwrap();
        assert_eq!(b.receive(len).unwrap(), vec![3; len]);
        assert_eq!(a.receive(len).unwrap(), vec![4; len]);
    }
}

#[test]
fn a_trusted_file_a_pinned_fingerprint_and_both_certificates_connect() {
    let folder = Folder::new("good");
    let (own, other) = (
        identity(&folder, "server", "localhost"),
        identity(&folder, "client", "somebody"),
    );
    let open = Server::new(&own, None).unwrap();
    exchange(connect(
        &Client::new(&authorities(&own), None).unwrap(),
        &open,
        "localhost",
        LONG,
    ));
    let pin = Trust::Fingerprint(Identity::fingerprint(&own.certificate).unwrap());
    exchange(connect(
        &Client::new(&pin, None).unwrap(),
        &open,
        "any.name",
        LONG,
    ));
    let mutual = Server::new(&own, Some(&other.certificate)).unwrap();
    exchange(connect(
        &Client::new(&pin, Some(&other)).unwrap(),
        &mutual,
        "localhost",
        LONG,
    ));
}

/// Counted bytes against what a relay really carried, once the handshake is over. Both ends stay until the
/// relay is done, and the client has read all that was sent to it: who closes with bytes unread resets the
/// connection, and the relay could not say what it carried.
#[test]
fn record_bytes_are_counted() {
    let folder = Folder::new("count");
    let own = identity(&folder, "server", "localhost");
    let (a, near) = sockets();
    let (far, b) = sockets();
    let back = (far.try_clone().unwrap(), near.try_clone().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(move || copy(back.0, back.1));
        let carried = scope.spawn(move || std::io::copy(&mut &near, &mut &far).unwrap());
        let server = scope.spawn(|| {
            let mut server = Server::new(&own, None).unwrap().secure(b, LONG).unwrap();
            let lens = [0, 16_368, 16_369, 300_000];
            lens.iter().for_each(|&len| drop(server.receive(len).unwrap()));
            server.send(&[1]).unwrap();
            server
        });
        let client = Client::new(&authorities(&own), None).unwrap();
        let mut client = client.secure(a, "localhost", LONG).unwrap();
        [0, 16_368, 16_369, 300_000]
            .iter()
            .for_each(|&len| client.send(&vec![1; len]).unwrap());
        client.receive(1).unwrap();
        let server = server.join().unwrap();
        assert_eq!(client.sent(), server.received());
        let counted = client.sent();
        drop(client); // a close_notify: 24 bytes
        let handshake = carried.join().unwrap() - counted - 24;
        drop(server);
        assert!((150..1500).contains(&handshake), "{handshake}");
    });
}

#[test]
fn a_waiting_receiver_is_freed_from_another_thread() {
    let folder = Folder::new("closer");
    let own = identity(&folder, "server", "localhost");
    let client = Client::new(&authorities(&own), None).unwrap();
    let (a, b) = connect(&client, &Server::new(&own, None).unwrap(), "localhost", LONG);
    let (mut a, _b) = (a.unwrap(), b.unwrap());
    let closer = a.closer().unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(move || a.receive(1).map(|_| ()));
        std::thread::sleep(Duration::from_millis(20));
        closer();
        assert!(matches!(waiting.join().unwrap(), Err(MpcError::Closed { .. })));
    });
}

#[test]
fn keys_are_private_and_not_overwritten() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("files");
    let made = identity(&folder, "one", "localhost");
    let mode = std::fs::metadata(&made.key).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = Identity::generate_self_signed(&folder.0.join("one"), &["localhost".to_owned()]);
    assert!(again.unwrap_err().to_string().contains("key.pem"));
    let missing = Identity {
        certificate: folder.0.join("none.pem"),
        key: made.key,
    };
    assert!(Server::new(&missing, None)
        .err()
        .unwrap()
        .to_string()
        .contains("none.pem"));
}

#[test]
fn wrong_certificates_are_refused_by_both_sides() {
    let folder = Folder::new("wrong");
    let (own, other) = (
        identity(&folder, "server", "localhost"),
        identity(&folder, "other", "localhost"),
    );
    let server = Server::new(&own, None).unwrap();
    let refused = |trust: &Trust, name: &str| {
        let (client, server) = connect(&Client::new(trust, None).unwrap(), &server, name, LONG);
        assert!(server.is_err(), "the server hears of the refusal");
        client.err().expect("refused").to_string()
    };
    let text = refused(&authorities(&other), "localhost");
    assert!(text.contains("certificate"), "{text}");
    let text = refused(&Trust::Fingerprint([7; 32]), "localhost");
    assert!(text.contains("fingerprint"), "{text}");
    let text = refused(&authorities(&own), "another.name");
    assert!(text.contains("not valid for name"), "{text}");
}

/// A server that asks for certificates: in TLS 1.3 the client hears of the refusal when it first reads.
#[test]
fn a_client_without_the_right_certificate_is_refused() {
    let folder = Folder::new("mutual");
    let (own, other) = (
        identity(&folder, "server", "localhost"),
        identity(&folder, "other", "x"),
    );
    let server = Server::new(&own, Some(&other.certificate)).unwrap();
    for shown in [None, Some(&own)] {
        let client = Client::new(&authorities(&own), shown).unwrap();
        let (client, server) = connect(&client, &server, "localhost", LONG);
        assert!(server
            .err()
            .expect("refused")
            .to_string()
            .contains("TLS handshake"));
        let text = client
            .and_then(|mut c| c.receive(1))
            .expect_err("refused")
            .to_string();
        assert!(
            text.contains("ertificate") || text.contains("alert") || text.contains("closed"),
            "{text}"
        );
    }
}

#[test]
fn plain_and_tls_do_not_mix() {
    let folder = Folder::new("mix");
    let own = identity(&folder, "server", "localhost");
    let (plain, socket) = sockets();
    let mut plain = insecure_plain(plain, Side::Dialled, SHORT).unwrap();
    plain.send(b"SECRET").unwrap();
    let text = Server::new(&own, None)
        .unwrap()
        .secure(socket, SHORT)
        .err()
        .expect("refused")
        .to_string();
    assert!(text.contains("plain TCP") && !text.contains("SECRET"), "{text}");
    assert!(plain.receive(1).is_err());
    let (dialling, socket) = sockets();
    let client = Client::new(&authorities(&own), None).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut plain = insecure_plain(socket, Side::Accepted, SHORT).unwrap();
            let text = plain.receive(10).unwrap_err().to_string();
            assert!(text.contains("speaks TLS"), "{text}");
        });
        assert!(client.secure(dialling, "localhost", SHORT).is_err());
    });
}

#[test]
fn a_peer_that_is_silent_in_the_handshake_times_out() {
    let folder = Folder::new("silent");
    let own = identity(&folder, "server", "localhost");
    let (_silent, socket) = sockets();
    let began = Instant::now();
    let error = Server::new(&own, None)
        .unwrap()
        .secure(socket, SHORT)
        .err()
        .expect("refused");
    assert!(matches!(error, MpcError::Timeout { .. }), "{error}");
    assert!(began.elapsed() < LONG);
}

/// What something on the wire does with the client's bytes after the handshake.
enum Wire {
    Cut(usize),
    Flip(usize),
    Hold(usize),
}

/// A client and a server with a relay between them; the client then sends 100,000 bytes through `wire`.
/// Returns the server's error.
fn through(wire: &Wire) -> MpcError {
    let folder = Folder::new(match wire {
        Wire::Cut(_) => "cut",
        Wire::Flip(_) => "flip",
        Wire::Hold(_) => "hold",
    });
    let own = identity(&folder, "server", "localhost");
    let (a, near) = sockets();
    let (far, b) = sockets();
    let back = (far.try_clone().unwrap(), near.try_clone().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(move || copy(back.0, back.1));
        let server = scope.spawn(|| {
            let mut server = Server::new(&own, None)
                .unwrap()
                .secure(b, SHORT)
                .expect("handshake");
            server.send(b"ready").unwrap();
            let began = Instant::now();
            let error = server.receive(100_000).expect_err("must be refused");
            assert!(began.elapsed() < LONG);
            error
        });
        let relay = scope.spawn(move || tamper(near, far, wire));
        let client = Client::new(&authorities(&own), None).unwrap();
        let mut client = client.secure(a, "localhost", LONG).expect("handshake");
        client.receive(5).unwrap();
        client.send(&[b'S'; 100_000]).unwrap();
        let error = server.join().expect("no panic");
        drop(client);
        relay.join().expect("no panic");
        error
    })
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Both);
}

/// Copies; the damage is done at an offset of what the client sends, handshake included (less than 2,000
/// bytes).
fn tamper(mut from: TcpStream, mut to: TcpStream, wire: &Wire) {
    let (mut seen, mut buffer) = (0, [0; 4096]);
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let range = seen..seen + count;
        match *wire {
            Wire::Flip(at) if range.contains(&at) => buffer[at - seen] ^= 1,
            Wire::Cut(at) if range.contains(&at) => {
                let _ = to.write_all(&buffer[..at - seen]);
                break;
            }
            Wire::Hold(at) if range.contains(&at) => {
                let _ = to.write_all(&buffer[..at - seen]);
                let _ = std::io::copy(&mut from, &mut std::io::sink());
                break;
            }
            _ => {}
        }
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
        seen += count;
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

#[test]
fn a_truncated_damaged_or_stalled_stream_is_an_error() {
    let error = through(&Wire::Cut(40_000));
    assert!(matches!(error, MpcError::Closed { .. }), "{error}");
    let error = through(&Wire::Flip(40_000));
    assert!(
        error.to_string().contains("decrypt") && !error.to_string().contains("SS"),
        "{error}"
    );
    let error = through(&Wire::Hold(40_000));
    assert!(matches!(error, MpcError::Timeout { .. }), "{error}");
}

/// Bytes a second through both directions of one connection over loopback; printed, with a floor far below
/// any machine's speed.
#[test]
fn throughput_over_loopback() {
    let folder = Folder::new("speed");
    let own = identity(&folder, "server", "localhost");
    let client = Client::new(&authorities(&own), None).unwrap();
    let (a, b) = connect(&client, &Server::new(&own, None).unwrap(), "localhost", LONG);
    let tls = speed(a.unwrap(), b.unwrap());
    let (a, b) = sockets();
    let a = insecure_plain(a, Side::Dialled, LONG).unwrap();
    let plain = speed(a, insecure_plain(b, Side::Accepted, LONG).unwrap());
    println!("TLS {tls:.0} MB/s, plain TCP {plain:.0} MB/s");
    assert!(tls > 10.0 && plain > 10.0);
}

fn speed(mut a: StreamChannel, mut b: StreamChannel) -> f64 {
    let (size, count) = (4 << 20, 32);
    let message = vec![1; size];
    let began = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| (0..count).for_each(|_| drop(b.receive(size).unwrap())));
        (0..count).for_each(|_| a.send(&message).unwrap());
        a.finish().unwrap();
    });
    (size * count) as f64 / began.elapsed().as_secs_f64() / 1e6
}
