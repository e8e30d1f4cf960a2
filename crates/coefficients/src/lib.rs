//! Coefficient products: a linear map of a CKKS ciphertext's slots that is done on its coefficients, in the
//! middle of a bootstrap (LEAF, ePrint 2025/956; products as in `tacita_bfv::matmul`).
//!
//! | step | ring | limbs | log2 scale | what |
//! |---|---|---|---|---|
//! | [`ToCoefficients`] | N = 65536 | 4 -> 2 | 38 | slots become coefficients |
//! | [`Coefficients::descend`] | 65536 -> 8 x 8192 | 2 | 38 | ring switching |
//! | [`Coefficients::multiply`] | 8192 | 2 -> 1 | 38 + 39.5 - 41 | plain matrix times blocks, rescaled |
//! | [`Coefficients::ascend`] | 8 x 8192 -> 65536 | 1 | 36.5 | and back |
//! | [`refresh`] | 65536 | 30 -> 19 | | a bootstrap from mod-raise on, a function in it or not |
//!
//! A product merges blocks of results, or splits blocks of inputs where those are the fewer.
//!
//! A bootstrap ends slots-to-coefficients with one limb, here it ends with two: the map costs one level of
//! its input and nothing else of the modulus. Message and weights share 85 bits: 38 of scale, 39.5 for a
//! weight of one, and 7.5 above the message, the room that modular reduction needs.
//!
//! # Which slot holds what
//! [`Arrangement`] has the proof. A matrix of T tokens and any number of features, N/T of them a ciphertext,
//! lies at **slot = feature * T/2 + token mod T/2, the first half of the tokens in the real parts, the second
//! in the imaginary ones**. That is what the product needs *and what it gives*: products follow each other
//! (feed-forward in, function, feed-forward out) with no permutation between them, and whatever acts on each
//! slot's two parts alike can stand between.
//!
//! # Errors
//! Relative to results in [-1, 1], standard deviations, for N = 65536, n = 8192, T = 128, h = 2n/3:
//! * roundings of slots-to-coefficients (two rescalings): about sqrt(2N/3 / 12) = 2^6 at scale 2^38, times
//!   the norm of a row of weights: 2^-32 |w|. Ring switching adds sigma sqrt(2 N / 12) = 2^8.4 there:
//!   **2^-29.6 |w|**, the largest where results are merged.
//! * weights, rounded at 2^39.5: 2^-41.3 sqrt(m) |x|.
//! * the merging tree: a key switch is off by 2^7.5, doubled by every later level: 2^13.5 at scale 2^77.5.
//! * where inputs are split, the same before the weights, at scale 2^38: **2^-24.5 |w|**. A row of weights
//!   that keeps results of random inputs within 1 has |w| = 0.3.
//! * the rescaling to q0 and the way back: sqrt(h / 12) = 2^4.4 and sigma sqrt(N / 12) q0 / p0 = 2^3 at
//!   scale 2^36.5: 2^-31.8.
//! * the modular reduction behind it: 2^-22 on average, as in every bootstrap.
//!
//! # Why a crate of its own
//! It composes both schemes: the tower is ring <- rlwe <- {ckks, bfv} <- {coefficients, wire, mpc} <- py.
//! Ring switching, which knows no scheme, is in `tacita_rlwe`; the product, which serves the two-party scheme
//! as well, stays in `tacita_bfv`.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod arrangement;
mod error;
mod evaluate;
mod keys;
mod lowering;
mod refresh;
mod weights;

pub use arrangement::Arrangement;
pub use error::{CoefficientError, Result};
pub use evaluate::Coefficients;
pub use keys::{required_keys, required_steps, CoefficientKeys, KeyShapes};
pub use lowering::ToCoefficients;
pub use refresh::{refresh, Refresh};
pub use weights::Weights;
