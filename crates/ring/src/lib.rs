//! Exact arithmetic on the limbs of RNS ring elements `Z_p[X]`/(X^n + 1), in doubles.
//!
//! A *limb* is a slice of n doubles, integers in [0, p), for an odd prime p with 2^20 < p < 2^50 and p = 1
//! mod 2n; it lives in an [`AlignedVec`]. Everything is exact, so the paths (u64/u128 integers, AVX2,
//! AVX-512, NEON; see [`simd_path`]) agree bit for bit. The path is chosen once, from the processor;
//! `TACITA_SIMD=scalar|neon|avx2|avx512|avx512ifma` overrides it.
//!
//! Single-threaded: parallelism over limbs is the caller's.

// What only the vector paths use, where there are none.
#![cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    allow(dead_code, unused_imports, unused_variables)
)]

mod ahead;
mod aligned;
mod automorphism;
mod convert;
mod error;
mod field;
pub mod gemm;
pub mod kernels;
mod modulus;
mod ntt;
pub mod packed;
pub mod pool;
mod primes;
mod region;
pub mod sample;
mod simd;
#[cfg(test)]
mod testing;
pub mod tiles;
pub mod yardstick;

pub use ahead::Lines;
pub use aligned::AlignedVec;
pub use automorphism::{automorphism_coefficients, Permutation};
pub use convert::BaseConverter;
pub use error::RingError;
pub use modulus::Modulus;
pub use ntt::{Blocks, Columns, NttTable};
pub use primes::{is_prime, ntt_primes, MAX_MODULUS, MIN_MODULUS};
pub use region::{provide, provided, release_cache, set_aside, trim_heap, Region};
pub use simd::{chosen as simd_path, Path as SimdPath};
