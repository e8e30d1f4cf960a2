//! Eight doubles at a time: AVX-512 F and DQ.

use super::Simd;
use std::arch::x86_64::*;

const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
const DOWN: i32 = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;

/// Proof that AVX-512 F and DQ are there.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(());

// SAFETY of every block below: a value of `Avx512` exists, so the processor has AVX-512 F and DQ (see
// `Simd::assume`); the two memory operations pass on their caller's promise.
impl Simd for Avx512 {
    type V = __m512d;
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn assume() -> Self {
        Self(())
    }
    #[inline(always)]
    fn splat(self, x: f64) -> __m512d {
        unsafe { _mm512_set1_pd(x) }
    }
    #[inline(always)]
    unsafe fn load(self, at: *const f64) -> __m512d {
        unsafe { _mm512_loadu_pd(at) }
    }
    #[inline(always)]
    unsafe fn store(self, at: *mut f64, v: __m512d) {
        unsafe { _mm512_storeu_pd(at, v) }
    }
    #[inline(always)]
    fn add(self, a: __m512d, b: __m512d) -> __m512d {
        unsafe { _mm512_add_pd(a, b) }
    }
    #[inline(always)]
    fn sub(self, a: __m512d, b: __m512d) -> __m512d {
        unsafe { _mm512_sub_pd(a, b) }
    }
    #[inline(always)]
    fn mul(self, a: __m512d, b: __m512d) -> __m512d {
        unsafe { _mm512_mul_pd(a, b) }
    }
    #[inline(always)]
    fn fma(self, a: __m512d, b: __m512d, c: __m512d) -> __m512d {
        unsafe { _mm512_fmadd_pd(a, b, c) }
    }
    #[inline(always)]
    fn fms(self, a: __m512d, b: __m512d, c: __m512d) -> __m512d {
        unsafe { _mm512_fmsub_pd(a, b, c) }
    }
    #[inline(always)]
    fn fnma(self, a: __m512d, b: __m512d, c: __m512d) -> __m512d {
        unsafe { _mm512_fnmadd_pd(a, b, c) }
    }
    #[inline(always)]
    fn round(self, a: __m512d) -> __m512d {
        unsafe { _mm512_roundscale_pd::<NEAREST>(a) }
    }
    #[inline(always)]
    fn floor(self, a: __m512d) -> __m512d {
        unsafe { _mm512_roundscale_pd::<DOWN>(a) }
    }
    #[inline(always)]
    fn add_if_negative(self, a: __m512d, p: __m512d) -> __m512d {
        unsafe { _mm512_mask_add_pd(a, _mm512_cmp_pd_mask::<_CMP_LT_OQ>(a, _mm512_setzero_pd()), a, p) }
    }
    #[inline(always)]
    fn sub_if_reached(self, a: __m512d, p: __m512d) -> __m512d {
        unsafe { _mm512_mask_sub_pd(a, _mm512_cmp_pd_mask::<_CMP_GE_OQ>(a, p), a, p) }
    }
    #[inline(always)]
    fn sub_if_above(self, a: __m512d, bound: __m512d, p: __m512d) -> __m512d {
        unsafe { _mm512_mask_sub_pd(a, _mm512_cmp_pd_mask::<_CMP_GT_OQ>(a, bound), a, p) }
    }
    #[inline(always)]
    fn negate(self, a: __m512d, p: __m512d) -> __m512d {
        unsafe { _mm512_maskz_sub_pd(_mm512_cmp_pd_mask::<_CMP_NEQ_OQ>(a, _mm512_setzero_pd()), p, a) }
    }
    #[inline(always)]
    fn pick(self, a: __m512d, order: &[u64; 8]) -> __m512d {
        // SAFETY: besides, the order has eight words, and the instruction reads three bits of each.
        unsafe { _mm512_permutexvar_pd(_mm512_loadu_si512(order.as_ptr().cast()), a) }
    }
    #[inline(always)]
    fn transpose(self, rows: &mut [__m512d]) {
        for half in 0..2 {
            transpose_half(self, &mut rows[4 * half..4 * half + 4]);
        }
        unsafe {
            for i in 0..4 {
                let (top, bottom) = (rows[i], rows[i + 4]);
                rows[i] = _mm512_shuffle_f64x2::<0x88>(top, bottom);
                rows[i + 4] = _mm512_shuffle_f64x2::<0xdd>(top, bottom);
            }
        }
    }
}

/// Columns c (even 128-bit lanes) and c + 4 (odd ones) of four rows, for c = 0..4.
#[inline(always)]
fn transpose_half(_proof: Avx512, rows: &mut [__m512d]) {
    // SAFETY: the proof exists, as above.
    unsafe {
        let t0 = _mm512_unpacklo_pd(rows[0], rows[1]);
        let t1 = _mm512_unpackhi_pd(rows[0], rows[1]);
        let t2 = _mm512_unpacklo_pd(rows[2], rows[3]);
        let t3 = _mm512_unpackhi_pd(rows[2], rows[3]);
        rows[0] = _mm512_shuffle_f64x2::<0x88>(t0, t2);
        rows[1] = _mm512_shuffle_f64x2::<0x88>(t1, t3);
        rows[2] = _mm512_shuffle_f64x2::<0xdd>(t0, t2);
        rows[3] = _mm512_shuffle_f64x2::<0xdd>(t1, t3);
    }
}
