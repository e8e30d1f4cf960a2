//! Products of an encrypted matrix with a plain one by coefficient encoding, results interleaved (BumbleBee,
//! section III).
//!
//! A block X of k_w x m_w values and a block Y of m_w x n_w (k_w m_w n_w <= N, m_w a power of two) become
//! polynomials with `X[i][j]` at i m_w n_w - j and `Y[j][l]` at l m_w + j: coefficient (i n_w + l) m_w of
//! their product is `(X Y)[i][l]` (KRDY, shifted so that results sit at multiples of m_w). What lies between
//! is useless. Blocks of several products of a batch lie side by side in a ciphertext, k_w m_w n_w apart:
//! times a plain block of one of them, its results are where its block is, and the others are useless, too.
//! 2^p <= m_w such products are *leaves* of a tree of automorphisms that moves the results of leaf j to
//! j m_w / 2^p + multiples of m_w, all into one ciphertext: L leaves take L - 1 automorphisms, and the
//! useless coefficients that remain are not sent.
//!
//! | module | idea |
//! |---|---|
//! | [`window`] | dimensions, windows, where values go |
//! | [`layout`] | which coefficient of which response is which result |
//! | [`noise`] | error bounds: how many primes, how many dropped bits, which kappa |
//! | [`cost`] | prices, and the window that costs least |
//! | [`packing`] | the merging tree, its part before the weights, and the same from its root |
//! | [`product`] | the evaluator: weight polynomials streamed by column block |
//! | [`rounds`] | its results in parts |
//! | [`tile`] | some columns of the plain matrix in column order |
pub mod cost;
pub mod layout;
mod measure;
pub mod noise;
pub mod packing;
pub mod plan;
pub mod product;
pub mod rounds;
mod switch;
mod tile;
pub mod window;

pub use cost::{Costs, Price};
pub use layout::Layout;
pub use noise::{Budget, Operands};
pub use plan::Plan;
pub use window::{Dims, Window};

#[cfg(test)]
mod tests;
