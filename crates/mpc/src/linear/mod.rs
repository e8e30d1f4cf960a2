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
//! place ([`Options`]). Products of fixed-point values carry 2f fraction bits and are truncated by f = 18
//! next, so the default of 2^12 units is 2^-6 of the last bit that stays. Weights with a common left factor
//! (queries, keys, values) belong into *one* matrix side by side: X then travels once.
//!
//! Wire: one message of requests (about 80 bits a coefficient at default options: each value of X once or, to
//! save merges, in blocks with gaps), one of responses (about 61 + 57 bits a result). One round. Windows come
//! from the cost table ([`Costs`]), by public numbers alone.
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
