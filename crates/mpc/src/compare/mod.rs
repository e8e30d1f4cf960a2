//! Comparisons, multiplexers, ring extension, truncation, equality, maxima: what oblivious transfer does for
//! shares.
//!
//! Both parties call every function with shares of the same values. Bits are XOR shares, one to a byte (0 or
//! 1); values are additive shares. Costs are bits on the wire in both directions together; a correlated
//! transfer adds a quarter to half a bit for its making.
mod boolean;
mod chain;
mod equal;
mod maximum;
mod plan;
mod prices;
mod resize;
mod select;
mod sign;
#[cfg(test)]
mod tests;
mod tree;

pub use boolean::{and, not, xor};
pub use equal::{equal, equal_shares, one_hot};
pub use maximum::{argmax_rows, max_rows};
pub use plan::comparison_cost;
pub use prices::Prices;
pub use resize::{extend, extend_exact, shift_rounded, truncate, truncate_exact, truncate_to};
pub use select::{select, select_many, to_arithmetic};
pub(crate) use sign::below_prices;
pub use sign::{below_many, less, negative, negative_within, Window};
