//! RLWE layer: everything between residues (`tacita-ring`) and CKKS (`tacita-ckks`).
//!
//! | module | idea |
//! |---|---|
//! | [`security`] | which log2(QP) is 128-bit secure at which ring degree |
//! | [`params`] | immutable, checked parameters and the tables derived from them |
//! | [`poly`] | RNS polynomials: one aligned buffer per limb, NTT or coefficient form |
//! | [`secret`] | secret keys; zeroised on drop, no `Debug`, no serialisation here |
//! | [`switching`] | key-switching keys (relinearisation, rotation, secret encapsulation) |
//! | [`packed_key`] | halves of a server's key as packed residues |
//! | [`keyswitch`] | hybrid key switching: decompose, inner product, mod-down; hoisting |
//! | [`encrypt`] | public-key and secret-key encryption, decryption |
//! | [`ring_switching`] | one ciphertext of degree N to N/n of degree n, and back |
#![forbid(unsafe_code)]

pub mod ciphertext;
pub mod encrypt;
pub mod error;
pub mod keyswitch;
pub mod packed_key;
pub mod params;
pub mod poly;
pub mod ring_switching;
pub mod secret;
pub mod security;
pub mod switching;

pub use ciphertext::Ciphertext;
pub use encrypt::PublicKey;
pub use error::RlweError;
pub use params::{Parameters, ParametersLiteral};
pub use poly::RnsPoly;
pub use ring_switching::{RingPair, RingSwitchingKeys};
pub use secret::SecretKey;
pub use switching::SwitchingKey;
