//! Exact homomorphic arithmetic for two-party protocols (and coefficient encodings): RLWE ciphertexts whose
//! phase is `q/t * m + e`, plaintexts either modulo 2^k in coefficients or modulo a prime in slots.
//!
//! One party (the key holder) encrypts, the other evaluates on its own plaintexts and answers with *masked
//! responses*: both end up with additive shares of the result, and the key holder sees nothing but a uniform
//! mask.
//!
//! | module | idea |
//! |---|---|
//! | [`params`] | one checked parameter set, ciphertexts of two or three primes |
//! | [`keys`] | the client's secret, what the server gets of it, both as bytes |
//! | [`request`] | seeded ciphertexts of shares, low bits of `b` dropped |
//! | [`response`] | fresh zero encryption, modulus 2^kappa, uniform mask; opening |
//! | [`crt`] | residues to integers and powers of two, exact |
//! | [`matmul`] | matrix products by coefficient encoding, results interleaved |
//! | [`bits`] | integers of any width as bytes |
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod bits;
pub mod crt;
mod error;
pub mod keys;
pub mod matmul;
pub mod params;
pub mod request;
mod residues;
pub mod response;

pub use error::{BfvError, Result};
pub use keys::{ClientKeys, ServerKeys};
pub use params::{parameters_olt, N, NARROW, WIDE};
pub use response::{open, respond, Response};

pub mod slots;
