//! Every class of message must look uniform whatever the inputs are: monobit and byte statistics over
//! recorded links.
use crate::channel::{memory_pair, Channel, MemoryChannel};
use crate::ot::CotKind;
use crate::share::Z64;
use crate::{Party, Result, Role};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Log = Arc<Mutex<Vec<Vec<u8>>>>;

/// A link that keeps what is sent.
struct Recorder(MemoryChannel, Log);

impl Channel for Recorder {
    fn send(&mut self, message: &[u8]) -> Result<()> {
        self.1.lock().unwrap().push(message.to_vec());
        self.0.send(message)
    }

    fn receive(&mut self, len: usize) -> Result<Vec<u8>> {
        self.0.receive(len)
    }

    fn sent(&self) -> u64 {
        self.0.sent()
    }

    fn received(&self) -> u64 {
        self.0.received()
    }
}

const COUNT: usize = 30_000;

/// What (receiver, sender) sent, for constant choices and constant payloads.
fn record(kind: CotKind, bit: u8) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let (left, right) = memory_pair(Duration::from_secs(60));
    let (sent_left, sent_right) = (Log::default(), Log::default());
    let mut receiver = Party::new(Role::Client, Box::new(Recorder(left, sent_left.clone())));
    let mut sender = Party::new(Role::Server, Box::new(Recorder(right, sent_right.clone())));
    let receive = move || -> Result<()> {
        receiver.setup_ot(kind)?;
        receiver.reserve_cots(0, 8 * COUNT)?;
        let chosen = receiver.choose(&[bit; COUNT])?;
        receiver.take_correlated(chosen, Z64)?;
        let chosen = receiver.choose_of(2, &[3 * bit; COUNT])?;
        receiver.take(chosen, 2)?;
        let chosen = receiver.choose(&[bit; COUNT])?;
        receiver.take_xor(chosen, 8)?;
        Ok(())
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(receive);
        let mut send = || -> Result<()> {
            sender.setup_ot(kind)?;
            sender.reserve_cots(8 * COUNT, 0)?;
            sender.correlate(&[0u64.wrapping_sub(bit.into()); COUNT], Z64)?;
            sender.offer(2, 2, &[3 * bit; 4 * COUNT])?;
            sender.correlate_xor(&[255 * bit; COUNT], 8)?;
            Ok(())
        };
        send().unwrap();
        other.join().unwrap().unwrap();
    });
    let take = |log: Log| std::mem::take(&mut *log.lock().unwrap());
    (take(sent_left), take(sent_right))
}

/// Refuses bits or bytes that stray by more than 5.5 standard deviations: a false alarm in 10^7.
fn assert_uniform(message: &[u8], what: &str) {
    let bits = 8.0 * message.len() as f64;
    let ones: u32 = message.iter().map(|byte| byte.count_ones()).sum();
    let monobit = (2.0 * f64::from(ones) - bits) / bits.sqrt();
    assert!(monobit.abs() < 5.5, "{what}: monobit {monobit:.1}");
    let mut counts = [0u32; 256];
    message.iter().for_each(|&byte| counts[usize::from(byte)] += 1);
    let expected = message.len() as f64 / 256.0;
    let chi: f64 = counts
        .iter()
        .map(|&c| (f64::from(c) - expected).powi(2) / expected)
        .sum();
    let deviations = (chi - 255.0) / 510f64.sqrt();
    assert!(
        expected < 5.0 || deviations.abs() < 6.5,
        "{what}: chi-square {chi:.0} of 255"
    );
}

#[test]
fn every_message_looks_uniform_whatever_the_inputs() {
    for kind in [CotKind::Ferret, CotKind::SoftSpoken] {
        for bit in [0, 1] {
            let (receiver, sender) = record(kind, bit);
            let long = |messages: &[Vec<u8>]| messages.iter().filter(|m| m.len() >= 1000).count();
            assert!(long(&receiver) >= 6 && long(&sender) >= 4, "{kind:?}");
            for (side, messages) in [("receiver", receiver), ("sender", sender)] {
                for (i, message) in messages.iter().enumerate().filter(|(_, m)| m.len() >= 1000) {
                    let what = format!(
                        "{kind:?}, inputs {bit}, message {i} of the {side}, {} bytes",
                        message.len()
                    );
                    // The points of the base OTs: Ristretto's encodings have a sign and a top bit of 0: the
                    // bytes between are looked at.
                    let inner = || {
                        message
                            .chunks(32)
                            .flat_map(|point| point[1..31].to_vec())
                            .collect()
                    };
                    let looked_at: Vec<u8> = if i == 1 { inner() } else { message.clone() };
                    assert_uniform(&looked_at, &what);
                }
            }
        }
    }
}

#[test]
fn the_statistics_catch_what_they_should() {
    let caught = |message: Vec<u8>| std::panic::catch_unwind(|| assert_uniform(&message, "biased")).is_err();
    assert!(caught(vec![0; 4000]));
    assert!(caught((0..8000).map(|i| [0x0f, 0xf0][i % 2]).collect()));
    assert!(!caught(
        (0..8192u32)
            .map(|i| (i.wrapping_mul(0x9e37_79b9) >> 24) as u8 ^ (i % 251) as u8)
            .collect()
    ));
}
