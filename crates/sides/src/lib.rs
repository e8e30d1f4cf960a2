//! Where an evaluator computes: on the processor, or on a device of OpenCL. An operation is written once,
//! over any backend of `tacita-ckks`. Such code is generic, so it is compiled in the crate that names a
//! backend: the processor's here, for speed; a device's, which computes in its kernels, in `tacita-device`,
//! for size.
#![forbid(unsafe_code)]

pub mod matmul;
mod operations;
mod processor;
pub mod products;
mod side;

pub use operations::{Operation, Refreshed};
pub use side::{Home, Residues, Side};
