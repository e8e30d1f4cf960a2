//! The client of a plan on ciphertexts (`tacita.client.session`): keys that are made once and uploaded, a
//! text encrypted, an answer decrypted.
//!
//! What the plan wants of its client comes as a [`Description`], as public as the plan: which keys, which
//! slot holds which number, where the answer is. So there is no second definition of a packing here.
mod answer;
mod budget;
mod client;
mod description;
mod envelope;
mod keys;
mod receipt;
mod tables;

pub use client::Client;
pub use description::Description;
pub use keys::{Hashing, Secret};
pub use receipt::Receipt;
pub use tables::TableFile;
