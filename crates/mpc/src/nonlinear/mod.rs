//! Non-linear functions on shares: activations, softmax, layer normalisation, and the reciprocals they need.
//!
//! Three ideas carry the cost. (1) An activation is reduced locally to a narrow normalised form (|t| < 1, 15
//! fraction bits, ring Z_{2^32}) where a square is cheap. (2) Polynomials are evaluated as [`chain`]s of
//! squares: k squares reach degree 2^k, and no product of two secrets is needed. (3) What is known only
//! outside the fitted interval is removed by a multiplexer whose bits come from one batched comparison of a
//! coarse copy of the input (16 to 18 bits). Functions of a row (reciprocal, reciprocal root) work on few
//! values and multiply by oblivious transfer ([`few`], [`short`]), and so does all that a single row needs: a
//! ciphertext of 8192 slots would be mostly empty.
//!
//! Source of the framework: BumbleBee (NDSS 2025), section V; the polynomials, their form and their
//! coefficients are ours (`python -m bench two-party-polynomials`), those of the paper are offered as
//! [`GeluForm::Seg4`] and [`GeluForm::P4`].
mod activation;
pub mod chain;
mod exp;
pub mod few;
mod fits;
mod fixed;
mod inverse;
mod layer_norm;
mod norm;
mod norm_of_few;
mod seg4;
pub mod short;
mod softmax;
#[cfg(test)]
mod tests;

pub use activation::{check_activation, gelu, gelu_with, silu, GeluForm, SiluForm, RANGE};
pub use exp::{elu, exp, tanh, EXP_LEAST, EXP_MOST};
pub use fixed::{convert, rescale, Fixed};
pub use inverse::{reciprocal, rsqrt, Span, RELATIVE_ERROR};
pub use layer_norm::layer_norm;
pub use norm::Norm;
pub use softmax::{softmax, softmax_parts};
