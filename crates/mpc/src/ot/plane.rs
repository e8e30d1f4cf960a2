//! 128 bits that are computed with at once: a vector of WebAssembly; elsewhere, for tests, an integer.
#[cfg(target_family = "wasm")]
use core::arch::wasm32 as wasm;
use std::ops::{BitAnd, BitXor};

#[cfg(target_family = "wasm")]
type Bits = wasm::v128;
#[cfg(not(target_family = "wasm"))]
type Bits = u128;

/// Sixteen bytes, the first the lowest.
#[derive(Clone, Copy)]
pub(super) struct Plane(Bits);

#[cfg(target_family = "wasm")]
impl Plane {
    #[inline(always)]
    pub(super) fn from_bits(bits: u128) -> Self {
        Self(wasm::u64x2(bits as u64, (bits >> 64) as u64))
    }

    #[inline(always)]
    pub(super) fn bits(self) -> u128 {
        let high = wasm::u64x2_extract_lane::<1>(self.0);
        u128::from(wasm::u64x2_extract_lane::<0>(self.0)) | (u128::from(high) << 64)
    }

    /// The same byte everywhere.
    #[inline(always)]
    pub(super) fn all(byte: u8) -> Self {
        Self(wasm::u8x16_splat(byte))
    }

    /// Every byte's bits towards the lower ones; what comes in from a neighbour is for the caller to mask.
    #[inline(always)]
    pub(super) fn down(self, count: u32) -> Self {
        Self(wasm::u64x2_shr(self.0, count))
    }

    /// Towards the higher ones, likewise.
    #[inline(always)]
    pub(super) fn up(self, count: u32) -> Self {
        Self(wasm::u64x2_shl(self.0, count))
    }

    /// Byte r + 4 c comes from r + 4 (c + r).
    #[inline(always)]
    pub(super) fn rows_shifted(self) -> Self {
        Self(wasm::u8x16_shuffle::<
            0,
            5,
            10,
            15,
            4,
            9,
            14,
            3,
            8,
            13,
            2,
            7,
            12,
            1,
            6,
            11,
        >(self.0, self.0))
    }

    /// Byte r + 4 c comes from r + 1.
    #[inline(always)]
    pub(super) fn column_turned(self) -> Self {
        Self(wasm::u8x16_shuffle::<
            1,
            2,
            3,
            0,
            5,
            6,
            7,
            4,
            9,
            10,
            11,
            8,
            13,
            14,
            15,
            12,
        >(self.0, self.0))
    }

    /// Byte r + 4 c comes from r + 2.
    #[inline(always)]
    pub(super) fn column_halved(self) -> Self {
        Self(wasm::u8x16_shuffle::<
            2,
            3,
            0,
            1,
            6,
            7,
            4,
            5,
            10,
            11,
            8,
            9,
            14,
            15,
            12,
            13,
        >(self.0, self.0))
    }
}

#[cfg(not(target_family = "wasm"))]
impl Plane {
    pub(super) fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    pub(super) fn bits(self) -> u128 {
        self.0
    }

    pub(super) fn all(byte: u8) -> Self {
        Self(u128::from_le_bytes([byte; 16]))
    }

    pub(super) fn down(self, count: u32) -> Self {
        Self(self.0 >> count)
    }

    pub(super) fn up(self, count: u32) -> Self {
        Self(self.0 << count)
    }

    pub(super) fn rows_shifted(self) -> Self {
        self.picked(|row, column| row + 4 * ((column + row) % 4))
    }

    pub(super) fn column_turned(self) -> Self {
        self.picked(|row, column| (row + 1) % 4 + 4 * column)
    }

    pub(super) fn column_halved(self) -> Self {
        self.picked(|row, column| (row + 2) % 4 + 4 * column)
    }

    fn picked(self, from: impl Fn(usize, usize) -> usize) -> Self {
        let bytes = self.0.to_le_bytes();
        Self(u128::from_le_bytes(std::array::from_fn(|i| {
            bytes[from(i % 4, i / 4)]
        })))
    }
}

impl BitXor for Plane {
    type Output = Self;

    #[inline(always)]
    fn bitxor(self, other: Self) -> Self {
        #[cfg(target_family = "wasm")]
        return Self(wasm::v128_xor(self.0, other.0));
        #[cfg(not(target_family = "wasm"))]
        Self(self.0 ^ other.0)
    }
}

impl BitAnd for Plane {
    type Output = Self;

    #[inline(always)]
    fn bitand(self, other: Self) -> Self {
        #[cfg(target_family = "wasm")]
        return Self(wasm::v128_and(self.0, other.0));
        #[cfg(not(target_family = "wasm"))]
        Self(self.0 & other.0)
    }
}
