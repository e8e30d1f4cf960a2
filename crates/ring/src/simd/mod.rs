//! The only machine-dependent part: vectors of doubles behind one private trait, and the choice of a path at
//! run time.
//!
//! Kernels are written once, generic over [`Simd`], `#[inline(always)]`, and instantiated inside functions
//! that carry `#[target_feature]`. A value of [`Avx2`], [`Avx512`] or [`Neon`] exists only where the
//! processor was checked to have the features.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;

#[cfg(target_arch = "aarch64")]
pub(crate) use neon::Neon;
#[cfg(target_arch = "x86_64")]
pub(crate) use {
    avx2::Avx2,
    avx512::{Avx512, Avx512Bytes},
};

/// 2^52: an integer below it, or-ed into its bits, is added to it.
#[cfg(target_arch = "x86_64")]
const TWO_52: f64 = 4_503_599_627_370_496.0;

/// Vectors of `LANES` doubles. All operations round to nearest, as IEEE 754 demands.
pub(crate) trait Simd: Copy {
    type V: Copy;
    const LANES: usize;

    /// The proof that the processor has the features.
    ///
    /// # Safety
    /// Only where the target features of the path are enabled.
    unsafe fn assume() -> Self;
    fn splat(self, x: f64) -> Self::V;
    /// # Safety
    /// `at` is valid for reading `LANES` doubles.
    unsafe fn load(self, at: *const f64) -> Self::V;
    /// # Safety
    /// `at` is valid for writing `LANES` doubles.
    unsafe fn store(self, at: *mut f64, v: Self::V);
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    /// a*b + c
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// c - a*b
    fn fnma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    fn round(self, a: Self::V) -> Self::V;
    fn floor(self, a: Self::V) -> Self::V;
    /// a < 0 ? a + p : a
    fn add_if_negative(self, a: Self::V, p: Self::V) -> Self::V;
    /// a >= p ? a - p : a
    fn sub_if_reached(self, a: Self::V, p: Self::V) -> Self::V;
    /// a > bound ? a - p : a
    fn sub_if_above(self, a: Self::V, bound: Self::V, p: Self::V) -> Self::V;
    /// a == 0 ? 0 : p - a
    fn negate(self, a: Self::V, p: Self::V) -> Self::V;
    /// The lanes of a in this order; only for eight lanes.
    fn pick(self, a: Self::V, order: &[u64; 8]) -> Self::V;
    /// What [`Self::unpack`] needs to know of a width.
    type Unpacking: Copy;
    /// For residues of so many bits, at most 50.
    fn unpacking(self, width: usize) -> Self::Unpacking;
    /// Residues `first..first + LANES` of the group of eight that begins at `group`, see [`crate::packed`].
    ///
    /// # Safety
    /// [`crate::packed::SLACK`] bytes can be read at `group`.
    unsafe fn unpack(self, group: *const u8, first: usize, how: &Self::Unpacking) -> Self::V;
    /// Transposes the LANES x LANES matrix whose rows are `rows` (exactly LANES of them).
    fn transpose(self, rows: &mut [Self::V]);
}

/// Where the bits of eight residues of one width lie, two of which are read as 16 bytes from the first one's
/// first byte on: 7 + 2 * 50 bits at most.
pub(crate) struct Pairs {
    /// First byte of each pair.
    pub starts: [usize; 4],
    /// By residue, the eight bytes of its pair that hold it.
    pub places: [u8; 64],
    /// By residue, the bits below it.
    pub right: [u64; 8],
}

impl Pairs {
    #[inline(always)]
    pub fn new(width: usize) -> Self {
        let (mut places, mut right) = ([0u8; 64], [0u64; 8]);
        let starts = [0, 2, 4, 6].map(|i| i * width / 8);
        for i in 0..8 {
            right[i] = (i * width % 8) as u64;
            let byte = i * width / 8 - starts[i / 2];
            (0..8).for_each(|b| places[8 * i + b] = (byte + b).min(15) as u8);
        }
        Self {
            starts,
            places,
            right,
        }
    }
}

mod path;
pub use path::{chosen, Path};

/// The path in use: decided once for the process. Panics where [`chosen`] fails; programs ask that first.
#[inline]
pub fn path() -> Path {
    #[cfg(test)]
    if let Some(forced) = testing::forced() {
        return forced;
    }
    match path::stored() {
        Ok(path) => *path,
        Err(e) => panic!("{e}"),
    }
}

/// Declares a public kernel that runs `generic::name::<V>` or `reference::name` by [`path`].
macro_rules! dispatch {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?);)*) => {$(
        $(#[$meta])*
        #[allow(clippy::too_many_arguments)]
        pub fn $name($($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2($($arg: $ty),*) {
                // SAFETY: this function enables the features.
                generic::$name(unsafe { <$crate::simd::Avx2 as $crate::simd::Simd>::assume() }, $($arg),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,avx512f,avx512dq")]
            fn avx512($($arg: $ty),*) {
                // SAFETY: this function enables the features.
                generic::$name(unsafe { <$crate::simd::Avx512 as $crate::simd::Simd>::assume() }, $($arg),*)
            }
            #[cfg(target_arch = "aarch64")]
            #[target_feature(enable = "neon")]
            fn neon($($arg: $ty),*) {
                // SAFETY: this function enables the features.
                generic::$name(unsafe { <$crate::simd::Neon as $crate::simd::Simd>::assume() }, $($arg),*)
            }
            match $crate::simd::path() {
                // SAFETY: `path` only names what the processor supports.
                #[cfg(target_arch = "aarch64")]
                $crate::simd::Path::Neon => unsafe { neon($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::simd::Path::Avx2 => unsafe { avx2($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::simd::Path::Avx512 | $crate::simd::Path::Ifma => unsafe { avx512($($arg),*) },
                _ => reference::$name($($arg),*),
            }
        }
    )*};
}
pub(crate) use dispatch;

/// The same for kernels that read packed residues. Where there are 52-bit integer products there are shuffles
/// of bytes across a register too (see [`Path::Ifma`]), which unpack in fewer steps.
macro_rules! dispatch_packed {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?);)*) => {$(
        $(#[$meta])*
        #[allow(clippy::too_many_arguments)]
        pub fn $name($($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2($($arg: $ty),*) {
                // SAFETY: this function enables the features.
                generic::$name(unsafe { <$crate::simd::Avx2 as $crate::simd::Simd>::assume() }, $($arg),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,avx512f,avx512dq")]
            fn avx512($($arg: $ty),*) {
                // SAFETY: this function enables the features.
                generic::$name(unsafe { <$crate::simd::Avx512 as $crate::simd::Simd>::assume() }, $($arg),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,avx512f,avx512dq,avx512vbmi")]
            fn bytes($($arg: $ty),*) {
                // SAFETY: this function enables the features.
                let s = unsafe { <$crate::simd::Avx512Bytes as $crate::simd::Simd>::assume() };
                generic::$name(s, $($arg),*)
            }
            #[cfg(target_arch = "aarch64")]
            #[target_feature(enable = "neon")]
            fn neon($($arg: $ty),*) {
                // SAFETY: this function enables the features.
                generic::$name(unsafe { <$crate::simd::Neon as $crate::simd::Simd>::assume() }, $($arg),*)
            }
            match $crate::simd::path() {
                // SAFETY: `path` only names what the processor supports.
                #[cfg(target_arch = "aarch64")]
                $crate::simd::Path::Neon => unsafe { neon($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::simd::Path::Avx2 => unsafe { avx2($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::simd::Path::Avx512 => unsafe { avx512($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::simd::Path::Ifma => unsafe { bytes($($arg),*) },
                _ => reference::$name($($arg),*),
            }
        }
    )*};
}
pub(crate) use dispatch_packed;

#[cfg(test)]
pub(crate) mod testing {
    use super::Path;
    use std::cell::Cell;

    thread_local!(static FORCED: Cell<Option<Path>> = const { Cell::new(None) });

    pub fn forced() -> Option<Path> {
        FORCED.get()
    }

    /// Runs `f` on one path in this thread.
    pub fn on_path<T>(path: Path, f: impl FnOnce() -> T) -> T {
        FORCED.set(Some(path));
        let result = f();
        FORCED.set(None);
        result
    }

    /// The paths of this processor, the reference first.
    pub fn paths() -> Vec<Path> {
        [Path::Scalar, Path::Neon, Path::Avx2, Path::Avx512, Path::Ifma]
            .into_iter()
            .filter(|p| p.is_supported())
            .collect()
    }

    /// Asserts that `f` gives the same value on every path, and returns it.
    pub fn same_on_all_paths<T: PartialEq + std::fmt::Debug>(mut f: impl FnMut() -> T) -> T {
        let expected = on_path(Path::Scalar, &mut f);
        for path in paths() {
            assert!(
                on_path(path, &mut f) == expected,
                "{path:?} differs from the reference"
            );
        }
        expected
    }
}
