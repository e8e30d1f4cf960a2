//! Thousands of mutated files, half of them with their checksums repaired: decoders return, never panic, and
//! never hold more memory than one valid object of these parameters takes.
mod common;
use common::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tacita_ckks::CkksParameters;
use tacita_wire::*;

/// Counts the bytes in use and their peak, over all threads.
struct Counting;
static USED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is passed on to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used = USED.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(used, Relaxed);
        System.alloc(layout)
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Relaxed);
        System.dealloc(pointer, layout);
    }
}

struct Stream(u64);

impl Stream {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

/// A place to mutate: headers, lengths and fields are as likely as all residues together.
fn place(s: &mut Stream, len: usize) -> usize {
    match s.below(3) {
        0 => s.below(len.min(HEADER_BYTES)),
        1 => s.below(len.min(HEADER_BYTES + 60)),
        _ => s.below(len),
    }
}

fn mutate(s: &mut Stream, bytes: &mut Vec<u8>) {
    let (at, value) = (place(s, bytes.len()), s.below(256) as u8);
    let extreme = [0, 1, u64::MAX, u64::MAX / 2, 1 << 32, 1 << 20][s.below(6)];
    match s.below(6) {
        0 => bytes[at] ^= 1 << (value % 8),
        1 => bytes[at] = value,
        2 => bytes.truncate(at.max(1)),
        3 => bytes.extend(std::iter::repeat_n(value, 1 + at % 50)),
        4 => bytes.drain(at..).take(1).for_each(drop),
        _ => {
            let width = [2, 4, 8][s.below(3)].min(bytes.len() - at);
            bytes[at..at + width].copy_from_slice(&extreme.to_le_bytes()[..width]);
        }
    }
    if bytes.is_empty() {
        bytes.push(value);
    }
}

/// Runs all decoders; returns how many of them accepted the bytes.
fn decode(bytes: &[u8], params: &CkksParameters) -> usize {
    let hash = Some(params.rlwe().hash());
    let results = [
        CiphertextFile::read(&mut &bytes[..], params, None).is_ok(),
        read_evaluation_keys(bytes, params, None, None).is_ok(),
        read_parameters(&mut &bytes[..], true).is_ok(),
        read_blob(&mut &bytes[..], Kind::PLAN, hash, 1 << 16).is_ok(),
        read_ciphertext(&mut bytes.get(HEADER_BYTES..).unwrap_or(&[]), params).is_ok(),
    ];
    results.into_iter().filter(|ok| *ok).count()
}

#[test]
fn decoders_survive_mutations_within_their_memory() {
    let params = insecure_toy_n8();
    let (mut literal, mut plan) = (Vec::new(), Vec::new());
    write_parameters(&mut literal, params.rlwe()).unwrap();
    write_blob(&mut plan, Kind::PLAN, params.rlwe().hash(), OWNER, &[9; 300]).unwrap();
    let corpus = [
        ciphertext_file(&params),
        seeded_file(&params),
        key_file(&params, &specs()),
        literal,
        plan,
    ];
    corpus.iter().for_each(|f| assert!(decode(f, &params) > 0));
    let top = tacita_ckks::keys::KeySpec {
        kind: tacita_ckks::KeyKind::Relinearise,
        limbs: params.rlwe().q_len(),
    };
    // Packed bytes (the buffer may grow to twice its content), both halves, a rebuilt parameter set.
    let cap = 2 * key_record_bytes(&params, &top) + top.bytes(&params) + (1 << 20);
    let (mut s, mut accepted) = (Stream(0x7ac1_7a00), 0);
    for round in 0..20_000 {
        let mut bytes = corpus[round % corpus.len()].clone();
        (0..1 + s.below(3)).for_each(|_| mutate(&mut s, &mut bytes));
        if s.below(2) == 0 {
            reseal(&mut bytes);
        }
        let before = USED.load(Relaxed);
        PEAK.store(before, Relaxed);
        accepted += decode(&bytes, &params);
        let held = PEAK.load(Relaxed).saturating_sub(before);
        assert!(held <= cap, "round {round}: {held} bytes held, the cap is {cap}");
    }
    // Resealed residues in range are valid files: had none been accepted, the mutations would not reach the
    // parsers.
    assert!(accepted > 50, "{accepted}");
}
