//! Sockets that do not fit, and carriers of bytes that misbehave.
use super::frame::{encode, Side, HEADER_BYTES};
use super::local::{of_descriptor, over};
use super::{Channel, StreamChannel};
use crate::MpcError;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_millis(150);
const LONG: Duration = Duration::from_secs(60);

fn channel(stream: &UnixStream, side: Side, timeout: Duration) -> StreamChannel {
    over(of_descriptor(stream.as_raw_fd()).unwrap(), side, timeout).unwrap()
}

fn channels(timeout: Duration) -> (StreamChannel, StreamChannel) {
    let (a, b) = UnixStream::pair().unwrap(); // closed at the end: the channels hold their own
    (
        channel(&a, Side::Dialled, timeout),
        channel(&b, Side::Accepted, timeout),
    )
}

fn refusal(descriptor: impl AsRawFd) -> String {
    of_descriptor(descriptor.as_raw_fd())
        .expect_err("must be refused")
        .to_string()
}

#[test]
fn messages_arrive_in_order_and_are_counted() {
    let (mut a, mut b) = channels(LONG);
    for len in [0, 1, 17, 70_000] {
        a.send(&vec![len as u8; len]).unwrap();
        b.send(&vec![!len as u8; len]).unwrap();
    }
    for len in [0, 1, 17, 70_000] {
        assert_eq!(b.receive(len).unwrap(), vec![len as u8; len]);
        assert_eq!(a.receive(len).unwrap(), vec![!len as u8; len]);
    }
    let bytes = 70_018 + 4 * HEADER_BYTES as u64;
    assert_eq!((a.sent(), b.received()), (bytes, bytes));
    assert_eq!((a.received(), b.sent()), (bytes, bytes));
    assert_eq!(a.peer(), None);
}

#[test]
fn both_sides_may_send_more_than_sockets_hold_before_either_reads() {
    let (mut a, mut b) = channels(LONG);
    let big = vec![5; 8 << 20];
    a.send(&big).unwrap();
    b.send(&big).unwrap();
    assert_eq!(b.receive(big.len()).unwrap(), big);
    assert_eq!(a.receive(big.len()).unwrap(), big);
}

/// The options of a socket are those of all its descriptors: one that others left without blocking still
/// waits here.
#[test]
fn a_socket_that_does_not_block_is_made_to() {
    let (a, b) = UnixStream::pair().unwrap();
    a.set_nonblocking(true).unwrap();
    let mut a = channel(&a, Side::Dialled, SHORT);
    assert!(matches!(a.receive(1), Err(MpcError::Timeout { .. })));
    drop(b);
}

#[test]
fn what_is_no_connected_stream_of_this_machine_is_refused() {
    assert!(of_descriptor(-1).is_err() && of_descriptor(i32::MAX).is_err());
    assert!(of_descriptor(std::fs::File::open("/dev/null").unwrap().as_raw_fd()).is_err());
    let (datagram, _other) = UnixDatagram::pair().unwrap();
    assert!(refusal(datagram).contains("datagrams"));
    assert!(refusal(UdpSocket::bind("127.0.0.1:0").unwrap()).contains("datagrams"));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    assert!(refusal(stream).contains("another family"));
    let path = std::env::temp_dir().join(format!("tacita-local-{}", std::process::id()));
    let listening = UnixListener::bind(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(refusal(listening).contains("not connected"));
}

#[test]
fn the_last_message_survives_the_drop_of_its_sender() {
    let (mut a, mut b) = channels(LONG);
    a.send(&[9; 1 << 20]).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || drop(a));
        assert_eq!(b.receive(1 << 20).unwrap(), [9; 1 << 20]);
        assert!(matches!(b.receive(1), Err(MpcError::Closed { .. })));
    });
}

#[test]
fn a_carrier_that_leaves_or_stalls_or_swaps_is_noticed() {
    let header = encode(Side::Dialled, 0, 6);
    for part in [0, 7, HEADER_BYTES] {
        for leaves in [true, false] {
            let (mut raw, b) = UnixStream::pair().unwrap();
            let mut victim = channel(&b, Side::Accepted, SHORT);
            raw.write_all(&header[..part]).unwrap();
            let raw = (!leaves).then_some(raw);
            let error = victim.receive(6).expect_err("half a message");
            let wanted = if raw.is_some() {
                matches!(error, MpcError::Timeout { .. })
            } else {
                matches!(error, MpcError::Closed { .. })
            };
            assert!(wanted, "{part} bytes: {error}");
        }
    }
    let (mut raw, b) = UnixStream::pair().unwrap();
    let mut victim = channel(&b, Side::Accepted, LONG);
    raw.write_all(&encode(Side::Dialled, 1, 6)).unwrap();
    let text = victim.receive(6).unwrap_err().to_string();
    assert!(text.contains("number 1 came where number 0"), "{text}");
}

/// The other end hears of an error at once, and of `closer` from another thread while it waits.
#[test]
fn closing_reaches_whoever_waits() {
    let (a, mut b) = channels(LONG);
    let close = a.closer().expect("a socket can be closed from outside");
    let began = Instant::now();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| b.receive(1));
        close();
        assert!(matches!(
            waiting.join().expect("no panic"),
            Err(MpcError::Closed { .. })
        ));
    });
    assert!(began.elapsed() < LONG / 4);
}

#[test]
fn a_carrier_that_reads_nothing_holds_the_sender_back_and_a_limit_ends_it() {
    let (a, mut b) = UnixStream::pair().unwrap();
    let mut victim = channel(&a, Side::Dialled, LONG);
    drop(a);
    victim.capacity(1 << 20);
    victim.limit(Some(Instant::now() + SHORT));
    let errors = std::iter::repeat_with(|| victim.send(&[0; 1 << 18])).take(64);
    let error = errors
        .filter_map(Result::err)
        .next()
        .expect("the queue must fill");
    assert!(matches!(error, MpcError::Late { .. }), "{error}");
    drop(victim);
    let mut rest = Vec::new();
    let _ = b.read_to_end(&mut rest); // the socket is closed: this returns
    assert!(rest.len() < 4 << 20);
}
