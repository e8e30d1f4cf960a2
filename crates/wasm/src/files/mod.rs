//! The client of a plan on ciphertexts (`tacita.client.session`): keys that are made once and uploaded, a
//! text encrypted, an answer decrypted.
//!
//! The [`Plan`] says which keys it takes, which slot holds which number, where the answer is. So there is no
//! second definition of a packing here.
mod budget;
mod choice;
mod client;
mod envelope;
mod keys;
mod layout;
mod plan;
mod receipt;
mod tables;

pub use client::Client;
pub use keys::{Hashing, Secret};
pub use plan::Plan;
pub use receipt::Receipt;
