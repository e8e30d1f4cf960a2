//! CKKS over `tacita-rlwe`.
//!
//! | module | idea |
//! |---|---|
//! | [`params`] | presets: the modulus chain, canonical scales by level, bootstrapping constants |
//! | [`encoding`] | slots <-> coefficients (special FFT), periodic vectors as sparse polynomials |
//! | [`decoding`] | decrypted polynomials -> slots |
//! | [`backend`] | where ciphertexts live: what everything below is written over |
//! | [`keys`] | which evaluation keys exist and how they are made |
//! | [`evaluator`] | the arithmetic: add, multiply, rescale, rotate, with exact levels and scales |
//! | [`linear`] | linear transforms: baby-step giant-step with double hoisting |
//! | [`matmul`] | products with a matrix in clear: one exact integer matrix product over the residues |
//! | [`polynomial`] | Chebyshev series by Paterson-Stockmeyer at optimal depth |
//! | [`products`] | outer products of ciphertexts: degree-2 accumulators, relinearised once |
//! | [`sparse`] | where the sparse secret of bootstrapping may be seen, and the probability of its failure |
//! | [`bootstrap`] | slots-to-coefficients first bootstrapping and its stages |
//!
//! *Native level* = limbs - 1. Users count from the bottom of the residual levels:
//! `level = native level - stc levels`.
#![forbid(unsafe_code)]

mod automorphisms;
pub mod backend;
pub mod bootstrap;
pub mod decoding;
pub mod encoding;
pub mod error;
pub mod evaluator;
pub mod generator;
mod host;
pub mod keys;
mod levels;
pub mod linear;
pub mod matmul;
pub mod params;
mod plaintext;
pub mod polynomial;
mod processor;
pub mod products;
pub mod sparse;
mod sums;
mod tensor;

pub use backend::Backend;
pub use error::CkksError;
pub use evaluator::Evaluator;
pub use generator::KeyGenerator;
pub use keys::{EvaluationKeys, KeyKind};
pub use num_complex::Complex64;
pub use params::CkksParameters;
pub use processor::Processor;
pub use tacita_rlwe::Ciphertext;
