//! Files as they are written, read and refused, in one program: each program of tests takes seconds to link.
#[path = "../common/mod.rs"]
mod common;
mod encrypted;
mod refusals;
mod roundtrip;
mod switching_keys;
mod vectors;
