//! Exact homomorphic arithmetic for two-party protocols (and coefficient encodings): RLWE ciphertexts whose phase is
//! `q/t * m + e`, plaintexts either modulo 2^k in coefficients or modulo a prime in slots.
//!
//! One party (the key holder) encrypts, the other evaluates on its own plaintexts and answers with *masked responses*: both end
//! up with additive shares of the result, and the key holder sees nothing but a uniform mask.
#![deny(missing_docs)]
