//! Lattice messages of the two-party mode (`tacita-bfv`): keys, requests, responses, in coefficients and
//! in slots.
//!
//! Every message has the one length that the plan gives it, so each body runs twice: on the bytes as they
//! are, which only tests the check of the length, and on the bytes brought to the right length, which
//! reaches what lies behind.
use crate::Target;
use std::sync::OnceLock;
use tacita_bfv::request::{decode_request, seeded_from_bytes, seeded_len, seeded_to_bytes, Rounding};
use tacita_bfv::response::response_len;
use tacita_bfv::slots::{self, EncryptedSlots, PublicKey, SlotRing};
use tacita_bfv::{open, BfvError, ServerKeys};
use tacita_ring::ntt_primes;
use tacita_rlwe::{Parameters, ParametersLiteral, SecretKey};

const LOG_N: u32 = 5;
/// A megabyte for 32 or 64 coefficients: keys, ciphertexts, tables of a first call.
const CAP: usize = 1 << 20;

/// The primes of the two-party mode over N = 32: no security.
pub(crate) fn insecure_params() -> &'static Parameters {
    static PARAMS: OnceLock<Parameters> = OnceLock::new();
    PARAMS.get_or_init(|| {
        let primes = ntt_primes(49.0, 14, 4, &[]).expect("primes");
        let literal = ParametersLiteral {
            name: "insecure_two_party".into(),
            log_n: LOG_N,
            q: primes[..3].to_vec(),
            p: primes[3..].to_vec(),
            digit_limbs: 1,
        };
        Parameters::new(literal).expect("a toy ring")
    })
}

pub(crate) fn insecure_slots() -> &'static SlotRing {
    static RING: OnceLock<SlotRing> = OnceLock::new();
    RING.get_or_init(|| SlotRing::insecure_toy().expect("a toy ring"))
}

/// A secret that everybody knows.
fn secret(params: &Parameters) -> SecretKey {
    let coefficients = (0..params.n()).map(|i| (i % 3) as i8 - 1).collect();
    SecretKey::from_coefficients(params, coefficients)
}

/// The bytes, cut or filled up with zeros.
pub(crate) fn of_length(data: &[u8], len: usize) -> Vec<u8> {
    let mut out = data[..data.len().min(len)].to_vec();
    out.resize(len, 0);
    out
}

/// Runs a decoder on the bytes as they are, which must be refused unless they have the length, and at the
/// right length.
fn at_length<T>(data: &[u8], len: usize, decode: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
    assert!(
        decode(data).is_none() || data.len() == len,
        "another length was taken"
    );
    decode(&of_length(data, len))
}

/// The value, or nothing for an error of the right kind.
fn typed<T>(result: tacita_bfv::Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(BfvError::Bytes { .. }) => None,
        Err(other) => panic!("not an error about bytes: {other}"),
    }
}

pub(crate) const SERVER_KEYS: Target = Target {
    name: "server_keys",
    cap: CAP,
    longest: 1 << 13,
    body: |data| {
        let params = insecure_params();
        let Some((&form, data)) = data.split_first() else {
            return;
        };
        let (limbs, packing) = (2 + usize::from(form & 1), form & 2 != 0);
        let len = ServerKeys::byte_len(params, limbs, packing);
        let read = |bytes: &[u8]| typed(ServerKeys::from_bytes(params, bytes, limbs, packing));
        if let Some(keys) = at_length(data, len, read) {
            assert_eq!(
                keys.to_bytes(params),
                of_length(data, len),
                "keys have one encoding"
            );
        }
    },
};

pub(crate) const REQUEST: Target = Target {
    name: "request",
    cap: CAP,
    longest: 1 << 10,
    body: |data| {
        let params = insecure_params();
        let Some((&form, data)) = data.split_first() else {
            return;
        };
        let limbs = 1 + usize::from(form % 3);
        let drop = if limbs == 3 { 0 } else { u32::from(form / 3) % 33 };
        let form = Rounding { limbs, drop };
        at_length(data, form.byte_len(params), |bytes| {
            typed(decode_request(params, bytes, form))
        });
        let len = seeded_len(params, limbs);
        if let Some(ct) = at_length(data, len, |bytes| typed(seeded_from_bytes(params, bytes, limbs))) {
            let bytes = of_length(data, len);
            let seed = bytes[..32].try_into().expect("a seed");
            assert_eq!(
                seeded_to_bytes(params, seed, &ct.polys[0]),
                bytes,
                "residues have one encoding"
            );
        }
    },
};

/// Any bytes of the right length are a response: nothing is refused behind the length.
pub(crate) const RESPONSE: Target = Target {
    name: "response",
    cap: CAP,
    longest: 1 << 10,
    body: |data| {
        static SECRET: OnceLock<SecretKey> = OnceLock::new();
        let params = insecure_params();
        let secret = SECRET.get_or_init(|| secret(params));
        let Some((&form, data)) = data.split_first() else {
            return;
        };
        let kappa = 7 + u32::from(form) % 66; // the range that a response takes
        let keep: Vec<usize> = (0..params.n()).step_by(1 + usize::from(form) / 68).collect();
        let len = response_len(params, kappa, keep.len());
        let shares = at_length(data, len, |bytes| {
            typed(open(params, secret, bytes, kappa, Some(&keep)))
        });
        let shares = shares.expect("every string of this length is a response");
        assert!(shares.len() == keep.len() && shares.iter().all(|share| share >> kappa == 0));
    },
};

pub(crate) const SLOTS_REQUEST: Target = Target {
    name: "slots_request",
    cap: CAP,
    longest: 1 << 11,
    body: |data| {
        let ring = insecure_slots();
        let key = at_length(data, PublicKey::bytes_len(ring), |bytes| {
            PublicKey::from_bytes(ring, bytes)
        });
        let operand = at_length(data, EncryptedSlots::bytes_len(ring), |bytes| {
            EncryptedSlots::from_bytes(ring, bytes)
        });
        assert_eq!(
            key.is_some(),
            operand.is_some(),
            "both are residues of the same primes"
        );
    },
};

pub(crate) const SLOTS_RESPONSE: Target = Target {
    name: "slots_response",
    cap: CAP,
    longest: 1 << 11,
    body: |data| {
        static SECRET: OnceLock<SecretKey> = OnceLock::new();
        let ring = insecure_slots();
        let secret = SECRET.get_or_init(|| secret(ring.params()));
        let len = slots::response_len(ring);
        if let Some(share) = at_length(data, len, |bytes| slots::open(ring, secret, bytes)) {
            let below = ring.t().p() as f64;
            assert!(share.len() == ring.n() && share.iter().all(|x| (0.0..below).contains(x)));
        }
    },
};
