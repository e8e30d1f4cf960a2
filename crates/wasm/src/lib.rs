//! The clients of a service where there is no Python: in a browser's page.
//!
//! *Two parties.* The client's walk of a plan is a fixed list of steps, the *program*, which the server
//! records from the one definition of the model and publishes like the plan ([`program`]). This crate runs it
//! on shares ([`run`](run::run)), greets the server and reads its public part ([`session`], [`part`]), and
//! makes the input of a text ([`front`]). Bytes go through any [`Transport`](framed::Transport): in
//! WebAssembly through two functions of the page that block (`host`).
//!
//! *Ciphertexts.* Keys, requests and answers as bytes, which the page carries by HTTP ([`files`]).
#![deny(missing_docs)]

mod answer;
mod error;
pub mod files;
pub mod framed;
pub mod front;
#[cfg(target_family = "wasm")]
mod host;
pub mod part;
pub mod program;
pub mod run;
pub mod session;
pub mod tensor;

pub use answer::Answer;
pub use error::{ClientError, Result};
