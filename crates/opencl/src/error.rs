//! Errors of the OpenCL crate. Each names the operation and a hint.

use opencl3::error_codes::{ClError, CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_RESOURCES};
use std::fmt;
use tacita_ckks::CkksError;
use tacita_ring::RingError;

/// Without a platform, a loader reports this (`cl_khr_icd`).
const PLATFORM_NOT_FOUND: i32 = -1001;
/// opencl3 reports this when it finds no library.
const NOT_LOADED: i32 = -2000;

/// What can go wrong between this process and a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenClError {
    /// This machine has no OpenCL library.
    NoLibrary,
    /// It has one, but no device.
    NoDevice,
    /// The device lacks something that the kernels need.
    Unsupported { device: String, lacks: &'static str },
    /// The device's compiler refused the kernels.
    Build { device: String, log: String },
    /// The device is too small for what was asked for: bytes of both, and which of its sizes that is.
    Room {
        what: &'static str,
        wanted: u64,
        has: u64,
        of: &'static str,
    },
    /// The slots of this ring are taken, or none in a row are so many.
    Memory { wanted: u64, free: u64 },
    /// Limbs that do not fit the operation.
    Mismatch { operation: &'static str, reason: String },
    /// A modulus or a degree that `tacita-ring` refuses.
    Ring(RingError),
    /// A call failed.
    Call { name: &'static str, status: i32 },
}

impl OpenClError {
    /// The error of a call that returned this status.
    pub(crate) fn of_call(name: &'static str) -> impl Fn(ClError) -> Self {
        move |ClError(status)| match status {
            NOT_LOADED => Self::NoLibrary,
            PLATFORM_NOT_FOUND => Self::NoDevice,
            _ => Self::Call { name, status },
        }
    }

    pub(crate) fn mismatch(operation: &'static str, reason: impl Into<String>) -> Self {
        Self::Mismatch {
            operation,
            reason: reason.into(),
        }
    }
}

impl From<RingError> for OpenClError {
    fn from(error: RingError) -> Self {
        Self::Ring(error)
    }
}

impl From<OpenClError> for CkksError {
    fn from(error: OpenClError) -> Self {
        Self::Device(Box::new(error))
    }
}

impl fmt::Display for OpenClError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLibrary => write!(
                f,
                "no OpenCL library on this machine; hint: install a driver, or pocl-opencl-icd for the \
                 processor, or name the file in OPENCL_DYLIB_PATH"
            ),
            Self::NoDevice => write!(
                f,
                "OpenCL has no device; hint: install the driver of the card, or pocl-opencl-icd for the \
                 processor"
            ),
            Self::Unsupported { device, lacks } => write!(f, "{device} lacks {lacks}"),
            Self::Build { device, log } => {
                write!(f, "the compiler of {device} refuses the kernels: {log}")
            }
            Self::Memory { wanted, free } => write!(
                f,
                "{wanted} bytes do not fit into {free} free ones of the device; hint: a ring with fewer \
                 slots, or drop limbs"
            ),
            Self::Room {
                what,
                wanted,
                has,
                of,
            } => write!(
                f,
                "{what} would take {wanted} bytes, and the device's {of} is {has}; hint: fewer slots or \
                 primes, keys and plaintexts in parts, or a larger device of `tacita device list`"
            ),
            Self::Mismatch { operation, reason } => write!(f, "{operation}: {reason}"),
            Self::Ring(error) => error.fmt(f),
            Self::Call { name, status } => {
                let hint = match *status {
                    CL_MEM_OBJECT_ALLOCATION_FAILURE | CL_OUT_OF_RESOURCES => "; hint: fewer slots",
                    _ => "",
                };
                write!(f, "OpenCL: {name} failed with {}{hint}", ClError(*status))
            }
        }
    }
}

impl std::error::Error for OpenClError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Ring(error) => Some(error),
            _ => None,
        }
    }
}
