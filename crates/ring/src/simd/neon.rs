//! Four doubles at a time in two registers of two: NEON, which every 64-bit ARM processor has, with its fused
//! multiply-add.
//!
//! NEON has 32 registers of 128 bits, AVX2 16 of 256: a pair of them as one vector has the lanes, the tables
//! and the register budget of AVX2, so the kernels that are written for four lanes run unchanged, and the two
//! halves are independent operations for the two or four pipes of a core.
//!
//! Cost, from the intrinsics: 8 floating-point instructions for a register of butterflies, as many as AVX2
//! takes for twice the lanes. Counted in the code of a radix-4 pass: 64 for four butterflies of four lanes,
//! which is that, and beside them 8 copies (a fused subtraction overwrites what it subtracts from), 4 loads
//! and 4 stores of pairs, and 6 more. Seconds are not measured: there was no such processor.

use super::{Pairs, Simd};
use std::arch::aarch64::*;

/// Proof that NEON is there.
#[derive(Clone, Copy)]
pub(crate) struct Neon(());

/// Lanes 0 and 1, then 2 and 3.
#[derive(Clone, Copy)]
pub(crate) struct Four(float64x2_t, float64x2_t);

/// A call on both halves.
macro_rules! halves {
    ($f:ident($($a:ident),*)) => { unsafe { Four($f($($a.0),*), $f($($a.1),*)) } };
}

/// x where the mask is set, else 0.
///
/// # Safety
/// Only where NEON is enabled.
#[inline(always)]
unsafe fn select(mask: uint64x2_t, x: float64x2_t) -> float64x2_t {
    unsafe { vreinterpretq_f64_u64(vandq_u64(mask, vreinterpretq_u64_f64(x))) }
}

// SAFETY of every block below: a value of `Neon` exists, so the processor has NEON (see `Simd::assume`); the
// memory operations pass on their caller's promise.
impl Simd for Neon {
    type V = Four;
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn assume() -> Self {
        Self(())
    }
    #[inline(always)]
    fn splat(self, x: f64) -> Four {
        unsafe { Four(vdupq_n_f64(x), vdupq_n_f64(x)) }
    }
    #[inline(always)]
    unsafe fn load(self, at: *const f64) -> Four {
        unsafe { Four(vld1q_f64(at), vld1q_f64(at.add(2))) }
    }
    #[inline(always)]
    unsafe fn store(self, at: *mut f64, v: Four) {
        unsafe {
            vst1q_f64(at, v.0);
            vst1q_f64(at.add(2), v.1);
        }
    }
    #[inline(always)]
    fn add(self, a: Four, b: Four) -> Four {
        halves!(vaddq_f64(a, b))
    }
    #[inline(always)]
    fn sub(self, a: Four, b: Four) -> Four {
        halves!(vsubq_f64(a, b))
    }
    #[inline(always)]
    fn mul(self, a: Four, b: Four) -> Four {
        halves!(vmulq_f64(a, b))
    }
    #[inline(always)]
    fn fma(self, a: Four, b: Four, c: Four) -> Four {
        halves!(vfmaq_f64(c, a, b))
    }
    #[inline(always)]
    fn fnma(self, a: Four, b: Four, c: Four) -> Four {
        halves!(vfmsq_f64(c, a, b))
    }
    #[inline(always)]
    fn round(self, a: Four) -> Four {
        halves!(vrndnq_f64(a))
    }
    #[inline(always)]
    fn floor(self, a: Four) -> Four {
        halves!(vrndmq_f64(a))
    }
    #[inline(always)]
    fn add_if_negative(self, a: Four, p: Four) -> Four {
        unsafe {
            let taken = Four(select(vcltzq_f64(a.0), p.0), select(vcltzq_f64(a.1), p.1));
            self.add(a, taken)
        }
    }
    #[inline(always)]
    fn sub_if_reached(self, a: Four, p: Four) -> Four {
        unsafe {
            let taken = Four(select(vcgeq_f64(a.0, p.0), p.0), select(vcgeq_f64(a.1, p.1), p.1));
            self.sub(a, taken)
        }
    }
    #[inline(always)]
    fn sub_if_above(self, a: Four, bound: Four, p: Four) -> Four {
        unsafe {
            let (low, high) = (vcgtq_f64(a.0, bound.0), vcgtq_f64(a.1, bound.1));
            self.sub(a, Four(select(low, p.0), select(high, p.1)))
        }
    }
    #[inline(always)]
    fn negate(self, a: Four, p: Four) -> Four {
        let difference = self.sub(p, a);
        unsafe {
            let zero = Four(
                select(vceqzq_f64(a.0), difference.0),
                select(vceqzq_f64(a.1), difference.1),
            );
            self.sub(difference, zero)
        }
    }
    #[inline(always)]
    fn pick(self, _: Four, _: &[u64; 8]) -> Four {
        unreachable!("four lanes")
    }
    type Unpacking = Unpacking;
    #[inline(always)]
    fn unpacking(self, width: usize) -> Unpacking {
        Unpacking::new(width)
    }
    #[inline(always)]
    unsafe fn unpack(self, group: *const u8, first: usize, how: &Unpacking) -> Four {
        unsafe { Four(how.pair(group, first / 2), how.pair(group, first / 2 + 1)) }
    }
    #[inline(always)]
    fn transpose(self, rows: &mut [Four]) {
        let [a, b, c, d] = [rows[0], rows[1], rows[2], rows[3]];
        unsafe {
            rows[0] = Four(vzip1q_f64(a.0, b.0), vzip1q_f64(c.0, d.0));
            rows[1] = Four(vzip2q_f64(a.0, b.0), vzip2q_f64(c.0, d.0));
            rows[2] = Four(vzip1q_f64(a.1, b.1), vzip1q_f64(c.1, d.1));
            rows[3] = Four(vzip2q_f64(a.1, b.1), vzip2q_f64(c.1, d.1));
        }
    }
}

/// Where the bits of eight residues lie, two of which are read together: which bytes, and how far they are
/// shifted (to the left, by a negative number).
#[derive(Clone, Copy)]
pub(crate) struct Unpacking {
    starts: [usize; 4],
    places: [uint8x16_t; 4],
    left: [int64x2_t; 4],
    mask: uint64x2_t,
}

impl Unpacking {
    #[inline(always)]
    fn new(width: usize) -> Self {
        let Pairs {
            starts,
            places,
            right,
        } = Pairs::new(width);
        let left = right.map(|bits| -(bits as i64));
        // SAFETY: reads the arrays above; a value of `Neon` exists where this is called.
        unsafe {
            Self {
                starts,
                places: [0, 1, 2, 3].map(|k| vld1q_u8(places.as_ptr().add(16 * k))),
                left: [0, 1, 2, 3].map(|k| vld1q_s64(left.as_ptr().add(2 * k))),
                mask: vdupq_n_u64((1 << width) - 1),
            }
        }
    }

    /// Residues 2k and 2k + 1 of a group.
    ///
    /// # Safety
    /// As [`Simd::unpack`]; only where NEON is enabled.
    #[inline(always)]
    unsafe fn pair(&self, group: *const u8, k: usize) -> float64x2_t {
        unsafe {
            let x = vqtbl1q_u8(vld1q_u8(group.add(self.starts[k])), self.places[k]);
            let x = vshlq_u64(vreinterpretq_u64_u8(x), self.left[k]);
            vcvtq_f64_u64(vandq_u64(x, self.mask))
        }
    }
}
