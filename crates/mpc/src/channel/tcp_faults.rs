//! Peers that misbehave over plain TCP.
use super::frame::{encode, Side, HEADER_BYTES};
use super::tcp::{dial, insecure_plain, Listener};
use super::{Channel, StreamChannel};
use crate::MpcError;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_millis(150);
const LONG: Duration = Duration::from_secs(60);

/// Two connected sockets.
pub(super) fn sockets() -> (TcpStream, TcpStream) {
    let listener = Listener::bind("127.0.0.1", 0).unwrap();
    let dialled = dial("127.0.0.1", listener.port().unwrap(), LONG).unwrap();
    (dialled, listener.accept(LONG).unwrap().0)
}

fn channels(timeout: Duration) -> (StreamChannel, StreamChannel) {
    let (a, b) = sockets();
    let left = insecure_plain(a, Side::Dialled, timeout).unwrap();
    (left, insecure_plain(b, Side::Accepted, timeout).unwrap())
}

/// The victim's error on receiving `len` bytes after `attack` was written by hand; within the timeout and
/// some.
fn error_after(len: usize, attack: &[u8], close: bool) -> MpcError {
    let (mut raw, victim) = sockets();
    let mut victim = insecure_plain(victim, Side::Accepted, SHORT).unwrap();
    raw.write_all(attack).unwrap();
    if close {
        drop(raw);
    }
    let began = Instant::now();
    let error = victim.receive(len).expect_err("must be refused");
    assert!(began.elapsed() < LONG, "took {:?}", began.elapsed());
    assert!(!error.to_string().contains("SECRET"), "{error}");
    assert!(
        matches!(victim.receive(len), Err(MpcError::Closed { .. })),
        "out of step after an error"
    );
    error
}

fn framed(sequence: u32, payload: &[u8]) -> Vec<u8> {
    [
        &encode(Side::Dialled, sequence, payload.len() as u32)[..],
        payload,
    ]
    .concat()
}

fn expect_text(error: &MpcError, text: &str) {
    assert!(matches!(error, MpcError::Message { .. }), "{error}");
    assert!(error.to_string().contains(text), "{error}");
}

/// The second part is made once the first one has arrived; together they are one message.
#[test]
fn a_part_is_there_before_the_next_is_made() {
    let (mut left, mut right) = channels(LONG);
    let (arrived, wait) = channel();
    let receiver = std::thread::spawn(move || {
        let mut parts = Vec::new();
        let take = &mut |part: Vec<u8>| {
            parts.push(part);
            arrived.send(()).unwrap();
            Ok(())
        };
        right.receive_parts(&[3, 4], take).unwrap();
        assert_eq!(right.receive(1).unwrap(), [8]);
        (parts, right.received())
    });
    let second = std::iter::once_with(|| {
        wait.recv_timeout(LONG).unwrap();
        Ok(vec![4, 5, 6, 7])
    });
    let mut parts = std::iter::once_with(|| Ok(vec![1, 2, 3])).chain(second);
    left.send_parts(&[3, 4], &mut parts).unwrap();
    left.send(&[8]).unwrap();
    let (parts, received) = receiver.join().unwrap();
    assert_eq!(parts, [vec![1, 2, 3], vec![4, 5, 6, 7]]);
    assert_eq!((received, left.sent()), (2 * HEADER_BYTES as u64 + 8, received));
}

#[test]
fn a_message_without_all_its_parts_ends_the_link() {
    for part in [Ok(vec![0; 5]), Err(MpcError::Closed { op: "test" })] {
        let (mut left, mut right) = channels(LONG);
        let mut parts = [Ok(vec![0; 4]), part].into_iter();
        assert!(left.send_parts(&[4, 4], &mut parts).is_err());
        assert!(matches!(left.send(&[1]), Err(MpcError::Closed { .. })));
        assert!(right.receive_parts(&[4, 4], &mut |_| Ok(())).is_err());
    }
    let (mut left, mut right) = channels(LONG);
    left.send(&[0; 8]).unwrap();
    let refuse = &mut |_| Err(MpcError::Closed { op: "test" });
    assert!(right.receive_parts(&[4, 4], refuse).is_err());
    assert!(
        matches!(right.receive(1), Err(MpcError::Closed { .. })),
        "out of step"
    );
}

#[test]
fn messages_arrive_in_order_and_are_counted() {
    let (mut a, mut b) = channels(LONG);
    for len in [0, 1, 15, 16, 17, 70_000] {
        a.send(&vec![len as u8; len]).unwrap();
        b.send(&vec![!len as u8; len]).unwrap();
    }
    for len in [0, 1, 15, 16, 17, 70_000] {
        assert_eq!(b.receive(len).unwrap(), vec![len as u8; len]);
        assert_eq!(a.receive(len).unwrap(), vec![!len as u8; len]);
    }
    let bytes = 70_049 + 6 * HEADER_BYTES as u64;
    assert_eq!(
        (a.sent(), b.received(), a.received(), b.sent()),
        (bytes, bytes, bytes, bytes)
    );
}

#[test]
fn both_sides_may_send_more_than_sockets_hold_before_either_reads() {
    let (mut a, mut b) = channels(LONG);
    let big = vec![5; 32 << 20];
    a.send(&big).unwrap();
    b.send(&big).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(b.receive(big.len()).unwrap(), big));
        assert_eq!(a.receive(big.len()).unwrap(), big);
    });
}

#[test]
fn the_last_message_survives_the_drop_of_its_sender() {
    let (mut a, mut b) = channels(LONG);
    a.send(&[9; 1 << 20]).unwrap();
    drop(a);
    assert_eq!(b.receive(1 << 20).unwrap(), [9; 1 << 20]);
    assert!(matches!(b.receive(1), Err(MpcError::Closed { .. })));
    let (mut a, mut b) = channels(LONG);
    a.send(&[7; 100]).unwrap();
    a.finish().unwrap();
    assert_eq!(b.receive(100).unwrap(), [7; 100]);
    b.send(&[1]).unwrap(); // the other direction still works after one side's end
    assert_eq!(a.receive(1).unwrap(), [1]);
}

#[test]
fn lengths_that_differ_are_refused() {
    expect_text(
        &error_after(10, &framed(0, b"SECRET"), false),
        "a message of 6 bytes where 10 were expected",
    );
    expect_text(
        &error_after(3, &framed(0, b"SECRET"), false),
        "a message of 6 bytes where 3 were expected",
    );
    let huge = encode(Side::Dialled, 0, u32::MAX); // nothing is allocated for it
    expect_text(&error_after(6, &huge, false), "a message of 4294967295 bytes");
}

#[test]
fn order_damage_and_garbage_are_refused() {
    expect_text(
        &error_after(6, &framed(1, b"SECRET"), false),
        "number 1 came where number 0",
    );
    let mut flipped = framed(0, b"SECRET");
    flipped[9] ^= 4;
    expect_text(&error_after(6, &flipped, false), "damaged");
    expect_text(
        &error_after(6, b"SECRETSECRETSECRETSECRETSECRET", false),
        "no frame header",
    );
    let reflected = encode(Side::Accepted, 0, 6);
    expect_text(&error_after(6, &reflected, false), "reflects");
}

#[test]
fn a_repeated_or_swapped_message_is_refused() {
    for attack in [[0, 0], [0, 2]] {
        let (mut raw, victim) = sockets();
        let mut victim = insecure_plain(victim, Side::Accepted, SHORT).unwrap();
        for sequence in attack {
            raw.write_all(&framed(sequence, b"SECRET")).unwrap();
        }
        assert_eq!(victim.receive(6).unwrap(), b"SECRET");
        expect_text(&victim.receive(6).unwrap_err(), "where number 1 was expected");
    }
}

#[test]
fn a_peer_that_leaves_or_stalls_is_noticed() {
    for part in [0, 7, HEADER_BYTES, HEADER_BYTES + 3] {
        let bytes = &framed(0, b"SECRET")[..part];
        assert!(
            matches!(error_after(6, bytes, true), MpcError::Closed { .. }),
            "closed after {part}"
        );
        assert!(
            matches!(error_after(6, bytes, false), MpcError::Timeout { .. }),
            "stalled after {part}"
        );
    }
}

/// One byte at a time, each well within the timeout: the whole message still has a deadline.
#[test]
fn a_dripping_peer_does_not_hold_a_receiver_for_ever() {
    let (mut raw, victim) = sockets();
    let mut victim = insecure_plain(victim, Side::Accepted, SHORT).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for byte in framed(0, &[0; 200]) {
                std::thread::sleep(SHORT / 10);
                if raw.write_all(&[byte]).is_err() {
                    return;
                }
            }
        });
        let began = Instant::now();
        assert!(matches!(victim.receive(200), Err(MpcError::Timeout { .. })));
        assert!(began.elapsed() < LONG);
        drop(victim);
    });
}

#[test]
fn an_error_on_one_side_reaches_the_other() {
    let (mut a, mut b) = channels(LONG);
    a.send(&[0; 5]).unwrap();
    assert!(b.receive(6).is_err());
    let began = Instant::now();
    assert!(matches!(a.receive(1), Err(MpcError::Closed { .. })));
    assert!(began.elapsed() < LONG / 10, "told at once, not by its timeout");
}

#[test]
fn a_peer_that_never_reads_fills_the_queue_and_dropping_does_not_hang() {
    let (a, b) = sockets();
    let (source, sink) = super::tcp::halves(a, SHORT).unwrap();
    let capacity = 1 << 20;
    let mut a = StreamChannel::with_capacity(Box::new(source), sink, Side::Dialled, SHORT, capacity).unwrap();
    let began = Instant::now();
    let error = (0..200).find_map(|_| a.send(&[0; 1 << 18]).err());
    let text = error.expect("the queue must fill").to_string();
    assert!(
        text.contains("reads none") || text.contains("temporarily unavailable"),
        "{text}"
    );
    drop(a);
    assert!(began.elapsed() < LONG);
    let mut rest = Vec::new();
    let _ = (&b).read_to_end(&mut rest); // the socket is closed: this returns
}

/// The limit is one moment for everything: a peer that keeps sending whole messages does not renew it, nor
/// does one that reads a little now and then.
#[test]
fn a_limit_ends_waits_of_a_peer_that_keeps_busy() {
    let (mut a, mut b) = channels(LONG);
    let began = Instant::now();
    b.limit(Some(began + SHORT));
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while a.send(&[0; 10]).is_ok() {
                std::thread::sleep(SHORT / 10);
            }
        });
        let error = loop {
            if let Err(e) = b.receive(10) {
                break e;
            }
        };
        assert!(matches!(error, MpcError::Late { .. }), "{error}");
        assert!(began.elapsed() >= SHORT);
        drop(b);
    });
    assert!(began.elapsed() < LONG / 4);
}

#[test]
fn a_limit_ends_a_send_to_a_peer_that_reads_drops() {
    let (a, b) = sockets();
    let mut a = insecure_plain(a, Side::Dialled, LONG).unwrap();
    a.capacity(1 << 16);
    let began = Instant::now();
    a.limit(Some(began + 3 * SHORT));
    std::thread::scope(|scope| {
        let (over, ends) = channel::<()>(); // what sockets hold by then is not read
        scope.spawn(move || {
            let mut little = [0; 1000];
            while matches!((&b).read(&mut little), Ok(1..))
                && ends.recv_timeout(SHORT / 20) == Err(RecvTimeoutError::Timeout)
            {}
        });
        let error = std::iter::repeat_with(|| a.send(&[0; 1 << 18])).find_map(Result::err);
        let error = error.expect("the limit must pass");
        assert!(matches!(error, MpcError::Late { .. }), "{error}");
        a.finish().expect("nothing is waited for after an error");
        assert!(matches!(a.receive(1), Err(MpcError::Closed { .. })));
        drop(a);
        assert!(began.elapsed() < LONG / 4);
        drop(over);
    });
}

/// What waits for the peer is bounded by the capacity that was set, up to one message.
#[test]
fn a_small_queue_holds_a_sender_back() {
    let (a, b) = sockets();
    let mut a = insecure_plain(a, Side::Dialled, 2 * SHORT).unwrap();
    a.capacity(1 << 20);
    let (mut count, message) = (0, vec![0; 1 << 20]);
    while a.send(&message).is_ok() {
        count += 1;
        assert!(count < 64, "the queue takes whatever is sent");
    }
    drop((a, b));
}

#[test]
fn nobody_listening_and_nobody_dialling() {
    let listener = Listener::bind("127.0.0.1", 0).unwrap();
    let port = listener.port().unwrap();
    assert!(matches!(
        listener.accept(Duration::from_millis(30)),
        Err(MpcError::Timeout { .. })
    ));
    drop(listener);
    let text = dial("127.0.0.1", port, SHORT).unwrap_err().to_string();
    assert!(text.contains(&format!("127.0.0.1:{port}")), "{text}");
}
