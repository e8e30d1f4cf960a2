//! Oblivious transfer: correlated OTs in bulk, and what is derived from them (additive and XOR correlations,
//! 1-of-2^m lookups).
//!
//! A correlated OT (COT) is a 128-bit block r of the sender and a pair (b, r + b*delta) of the receiver, with
//! one secret delta for the whole session and direction. The low bit of delta is 1 and that of every r is 0,
//! so the receiver's bit is the low bit of his block. Every party is the sender in one direction and the
//! receiver in the other; `docs/decisions/0009-oblivious-transfer.md` argues the parameters.
mod base;
pub mod bench;
mod cipher;
mod correlated;
#[cfg(any(test, feature = "fuzzing"))]
mod dealer;
mod ferret;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod hash;
mod lanes;
mod lookup;
mod multiples;
mod pads;
mod plan;
#[cfg(any(test, target_family = "wasm"))]
mod plane;
mod pool;
mod pprf;
mod prg;
mod receiver;
mod room;
mod sender;
mod several;
#[cfg(any(test, target_family = "wasm"))]
mod sliced;
mod softspoken;
#[cfg(test)]
mod transcripts;
mod transpose;
mod vaes;
mod wire;

pub use correlated::Chosen;
pub use lanes::ChosenLanes;
pub use lookup::ChosenOf;
pub use multiples::{ChosenBits, HeardBits, Multiples};
pub use pool::{CotKind, OtStatistics, State};
