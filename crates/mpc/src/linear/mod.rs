//! Matrix products on shares (BumbleBee's oblivious linear transformation): the client encrypts, the server
//! evaluates.
//!
//! | function | client has | server has | encrypted |
//! |---|---|---|---|
//! | [`client_times_server`] | X | W | X |
//! | [`share_times_weights`] | X_1 | X_0, W | X_1; X_0 W is local |
//! | [`share_times_share`] | X_1, Y_1 | X_0, Y_0 | X_1, Y_1; X_1 Y_0 and X_0 Y_1 in one response or two |
//!
//! All return additive shares of the product modulo the ring, off by less than 2^slack units in the last
//! place ([`Options`]). Products with weights carry 32 fraction bits and are truncated to 18 next, so
//! that the default of 2^16 units is four of the last bit that stays; eight deviations of the error are below
//! it, and one is less than the error of the truncation. Weights with a common left factor (queries, keys,
//! values) belong into *one* matrix side by side: X then travels once.
//!
//! Wire: one message of requests (for a coefficient about 12 bits more than the ring has, 58 at least; each
//! value of X once or, to save merges, in blocks with gaps), one of responses (for a result about 7 + 13 bits
//! less than twice the ring). One round. Windows come from the cost table ([`Costs`]), by public numbers
//! alone.
mod local;
pub mod prepared;
mod protocol;
mod stages;
mod state;
pub mod table;

pub use local::multiply;
pub use protocol::{
    client_times_server, client_times_server_with, share_times_share, share_times_share_with,
    share_times_weights, share_times_weights_with,
};
pub(crate) use state::costs_over;
pub use state::{price_over, Options, State};
pub use tacita_bfv::matmul::{Costs, Dims};

#[cfg(test)]
mod tests;
