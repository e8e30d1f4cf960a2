//! Errors of the ring crate. Each names the operation, the clashing values and a hint.

use std::fmt;

/// What can go wrong when a ring object is built. Kernels do not fail: they assert the lengths of their
/// slices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RingError {
    /// The number cannot serve as a modulus.
    InvalidModulus { modulus: u64, reason: &'static str },
    /// The modulus has no primitive root of order `2^log_2n`.
    NoRootOfUnity { modulus: u64, log_2n: u32 },
    /// A ring degree out of the supported range.
    InvalidDegree { log_n: u32, min: u32, max: u32 },
    /// Fewer primes than asked for exist below the limit.
    NotEnoughPrimes {
        found: usize,
        wanted: usize,
        log_2n: u32,
    },
    /// The operating system gave no randomness.
    Randomness(String),
    /// `TACITA_SIMD` names a path that does not exist or that the processor cannot run.
    SimdPath { name: String, reason: &'static str },
    /// Floating-point operations do not round to nearest.
    Rounding,
}

impl fmt::Display for RingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidModulus { modulus, reason } => {
                write!(
                    f,
                    "Modulus::new: {modulus} {reason}; take an odd prime between 2^20 and 2^50"
                )
            }
            Self::NoRootOfUnity { modulus, log_2n } => {
                write!(
                    f,
                    "NttTable::new: {modulus} - 1 is not a multiple of 2^{log_2n}; take a prime from \
                    ntt_primes"
                )
            }
            Self::InvalidDegree { log_n, min, max } => {
                write!(f, "NttTable::new: log_n = {log_n} is outside {min}..={max}")
            }
            Self::NotEnoughPrimes {
                found,
                wanted,
                log_2n,
            } => {
                write!(
                    f,
                    "ntt_primes: found {found} of {wanted} primes = 1 mod 2^{log_2n} in 2^20..2^50; lower \
                    the count"
                )
            }
            Self::SimdPath { name, reason } => {
                write!(
                    f,
                    "TACITA_SIMD={name:?} {reason}; hint: scalar, neon, avx2, avx512 or avx512ifma, or unset \
                    it for the fastest"
                )
            }
            Self::Rounding => {
                write!(
                    f,
                    "this thread does not round to nearest, so nothing would be exact; \
                     hint: a library in this process changed the rounding mode, restore it before"
                )
            }
            Self::Randomness(reason) => write!(
                f,
                "Prng::from_os: the operating system gave no randomness: {reason}"
            ),
        }
    }
}

impl std::error::Error for RingError {}
