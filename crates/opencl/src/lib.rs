//! The kernels of `tacita-ring` on any device that OpenCL 1.2 reaches, with the same bits.
//!
//! Every kernel leaves canonical residues, so there is one right answer and each test is an equality: what a
//! processor proves by PoCL holds wherever the arithmetic is the standard's. Two flavours compute the same,
//! [`Flavour::F64`] in doubles with fused multiply-add, [`Flavour::U64`] in 64-bit integers for devices that
//! have no doubles. The sources are in `kernels/`; [`verify()`] compares all of them with `tacita-ring`.
//!
//! OpenCL is loaded when it is first called: without it [`devices`] gives [`OpenClError::NoLibrary`].

mod build;
mod ciphertexts;
mod convert;
mod device;
mod division;
mod engine;
mod error;
mod keys;
mod limbs;
mod matrices;
mod operations;
mod products;
mod queue;
mod ring;
mod room;
mod slots;
mod switching;
mod tables;
mod verify;

pub use build::{sources, Build, Flavour};
pub use ciphertexts::{Diagonal, Vectors};
pub use convert::{Converter, Rescaler};
pub use device::{devices, Device};
pub use engine::{Engine, Poly};
pub use error::OpenClError;
pub use keys::Key;
pub use limbs::{Basis, Factors, Limbs, Scales};
pub use products::{Matrix, Plaintexts};
pub use ring::Ring;
pub use room::Room;
pub use switching::{Digits, SwitchingKey};
pub use verify::{verify, verify_build, Check, ReferenceBootstrap};
