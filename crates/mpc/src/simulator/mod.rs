//! Simulated transcripts, for tests: what a party sees, made without the other party's input.
//!
//! Security against semi-honest parties says that a party's view can be simulated from its own input, its
//! output and the plan alone. [`link::Simulator`] does that: it stands at the other end of a party's link and
//! answers with
//!
//! * random bytes for choices, tables and pads of transfers, and random group elements for base transfers;
//! * to the server: public keys of a key of its own, encryptions of zero as requests, freshened and masked
//!   zeros from a hidden table;
//! * to the client: responses that are a fresh encryption of zero, masked ([`tacita_bfv::response`],
//!   [`tacita_bfv::slots`]); and where the client learns an answer, that answer less the client's share of
//!   the simulated response.
//!
//! Which message is of which class follows from the schedule ([`Class::of`]), which is the same for every
//! input. The party under test runs to its end against it, and [`statistics`] hold the real and the simulated
//! view to the same tests.
mod cases;
mod link;
mod statistics;
mod tests;
mod writing;

use crate::Role;
use std::sync::{Arc, Mutex, OnceLock};
use tacita_bfv::slots::{self, EncryptedSlots, SlotRing};
use tacita_bfv::{parameters_olt, request, ServerKeys, NARROW, WIDE};

/// A message and the operation that sent it.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Path of the operation, as in the profile.
    pub operation: String,
    /// The message.
    pub bytes: Vec<u8>,
}

/// What a party has sent.
#[derive(Clone, Default)]
pub struct Tape(Arc<Mutex<Vec<Sent>>>);

impl Tape {
    /// Adds a message.
    pub fn keep(&self, operation: &str, message: &[u8]) {
        let (operation, bytes) = (operation.to_owned(), message.to_vec());
        self.0.lock().unwrap().push(Sent { operation, bytes });
    }

    fn take(&self) -> Vec<Sent> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// Kinds of messages, with what is public about their form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Choices, tables, pads: nothing but masked or pseudo-random bits.
    Random,
    /// Group elements of the base transfers.
    Points,
    /// The client's keys for matrix products, for so many primes.
    MatrixKeys,
    /// Requests, and responses, of matrix products.
    MatrixRequests,
    MatrixResponses,
    /// A public key for element-wise products: plaintext primes of `width` bits, the `index`-th one.
    SlotKey {
        width: u32,
        index: usize,
    },
    /// A ciphertext of a block of elements under `count` primes of `width` bits, and a response.
    SlotRequest {
        width: u32,
        count: usize,
    },
    SlotResponse {
        width: u32,
        count: usize,
    },
    /// Rows of a hidden table on their way back.
    TableAnswer,
    /// A share of what the client learns.
    Opened,
}

impl Class {
    /// The classes of all that one party sends.
    fn of(sender: Role, messages: &[Sent]) -> Vec<Self> {
        let (mut keys, mut set_up) = (vec![], 0);
        let mut classes = vec![];
        for Sent { operation, bytes } in messages {
            let class = Self::one(sender, operation, bytes.len(), set_up);
            set_up += usize::from(operation.ends_with("setup_ot"));
            classes.push(match class {
                Self::SlotKey { width, .. } => {
                    keys.push(width);
                    let index = keys.iter().filter(|w| **w == width).count() - 1;
                    Self::SlotKey { width, index }
                }
                other => other,
            });
        }
        classes
    }

    fn one(sender: Role, operation: &str, len: usize, set_up: usize) -> Self {
        let last = operation.rsplit('/').next().unwrap_or_default();
        match (last, sender) {
            ("setup_ot", _) if set_up < 2 => Self::Points,
            ("linear keys", _) => Self::MatrixKeys,
            ("client times server" | "share times share", Role::Client) => Self::MatrixRequests,
            ("client times server" | "share times share", Role::Server) => Self::MatrixResponses,
            ("embedding", Role::Client) => Self::TableAnswer,
            ("reveal", Role::Server) => Self::Opened,
            (last, sender) => match shape(len, sender) {
                Some((width, _)) if last == "product keys" => Self::SlotKey { width, index: 0 },
                Some((width, count)) if sender == Role::Client => Self::SlotRequest { width, count },
                // other messages may be as long as a response
                Some((width, count)) if matches!(last, "products" | "square_narrow") => {
                    Self::SlotResponse { width, count }
                }
                _ => Self::Random,
            },
        }
    }

    /// The bytes that should look uniform: without the fixed bits of group elements, the unused half of
    /// opened words, and the top bits of residues, which are not uniform where a prime is no power of two.
    fn looked_at(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Points => bytes.chunks(32).flat_map(|point| point[1..31].to_vec()).collect(),
            Self::Opened => bytes.chunks(8).flat_map(|word| word[..3].to_vec()).collect(),
            Self::MatrixKeys => low_bits(&key_residues(bytes)),
            Self::MatrixRequests if bytes.len().is_multiple_of(wide_request()) => {
                low_bits(&wide_residues(bytes))
            }
            _ => bytes.to_vec(),
        }
    }
}

/// Bytes of a request of three primes, whose residues travel as they are.
fn wide_request() -> usize {
    request::seeded_len(&parameters_olt().unwrap(), WIDE)
}

fn wide_residues(bytes: &[u8]) -> Vec<f64> {
    let params = parameters_olt().unwrap();
    let one = |bytes: &[u8]| {
        request::seeded_from_bytes(&params, bytes, WIDE)
            .unwrap()
            .polys
            .remove(0)
    };
    let polys = bytes.chunks(wide_request()).map(one);
    polys
        .flat_map(|poly| poly.limbs)
        .flat_map(|limb| limb.to_vec())
        .collect()
}

fn key_residues(bytes: &[u8]) -> Vec<f64> {
    let params = parameters_olt().unwrap();
    let narrow = bytes.len() == ServerKeys::byte_len(&params, NARROW, true);
    let keys = ServerKeys::from_bytes(&params, bytes, if narrow { NARROW } else { WIDE }, true).unwrap();
    let automorphisms = keys
        .automorphisms
        .into_iter()
        .flat_map(|automorphism| automorphism.key.b);
    let polys = automorphisms.chain([keys.public.b]);
    polys
        .flat_map(|poly| poly.limbs)
        .flat_map(|limb| limb.to_vec())
        .collect()
}

/// The low 48 bits of residues of 49 or 50.
fn low_bits(residues: &[f64]) -> Vec<u8> {
    residues
        .iter()
        .flat_map(|r| (*r as u64).to_le_bytes()[..6].to_vec())
        .collect()
}

/// The width and number of plaintext primes of a request (or a response) by its length: no two have the same.
fn shape(len: usize, sender: Role) -> Option<(u32, usize)> {
    static LENGTHS: OnceLock<Vec<(u32, [usize; 2])>> = OnceLock::new();
    let lengths = LENGTHS.get_or_init(|| {
        let both = |ring: &SlotRing| [EncryptedSlots::bytes_len(ring), slots::response_len(ring)];
        let of = |width| (width, both(&SlotRing::new(width, 0).unwrap()));
        (22..=49).map(of).collect()
    });
    let which = usize::from(sender == Role::Server);
    let found = |count| {
        let same = lengths.iter().find(|(_, one)| count * one[which] == len);
        same.map(|&(width, _)| (width, count))
    };
    (1..=3).find_map(found)
}

/// Low bits that are dropped of what is opened.
const DROPPED: u32 = 18;

/// A share of an answer as it is revealed: without its low bits, eight bytes each.
fn answer(share: &[u64]) -> Vec<u8> {
    share.iter().flat_map(|v| (v >> DROPPED).to_le_bytes()).collect()
}
