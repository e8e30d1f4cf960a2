//! Two-party computation on additive shares over Z_{2^k} (semi-honest): a *client* with an input, a *server*
//! with a model.
//!
//! Protocol code never touches a socket: it calls [`channel::Channel`] through [`party::Party`], which also
//! holds the oblivious-transfer correlations and the lattice keys. Every protocol is one function that both
//! parties call with their own shares.
#![deny(missing_docs)]

pub mod bits;
pub mod channel;
pub mod compare;
mod error;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod linear;
mod moment;
pub mod nonlinear;
pub mod ot;
pub mod party;
pub mod products;
pub mod profile;
pub mod session;
pub mod share;
#[cfg(test)]
mod simulator;
#[cfg(test)]
mod tampering;
#[cfg(test)]
mod testing;

pub use error::{MpcError, Result};
pub use party::{Party, Role};
pub use share::Ring;
