//! The clients of a service where there is no Python: in a browser's page.
//!
//! *Two parties.* What both do is a fixed list of steps, the *program*, which the server records from the
//! one definition of the model and publishes in its public part ([`program`], [`part`]). This crate runs it
//! on shares ([`run`](run::run)), greets the server and asks it ([`session`]), makes the input of a text
//! ([`front`]), and writes texts token by token ([`writing`]). Bytes go through any
//! [`Transport`](framed::Transport): in WebAssembly through two functions of the page that block (`host`).
//!
//! *Ciphertexts.* Keys, requests and answers as bytes, which the page carries by HTTP ([`files`]).
#![deny(missing_docs)]

mod answer;
mod error;
pub mod files;
pub mod framed;
pub mod front;
mod greeting;
#[cfg(target_family = "wasm")]
mod host;
pub mod part;
pub mod program;
pub mod run;
pub mod session;
mod spans;
pub mod tensor;
pub mod writing;

pub use answer::Answer;
pub use error::{ClientError, Result};
