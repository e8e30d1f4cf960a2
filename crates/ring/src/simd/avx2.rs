//! Four doubles at a time: AVX2 with FMA.

use super::Simd;
use std::arch::x86_64::*;

/// Proof that AVX2 and FMA are there.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

// SAFETY of every block below: a value of `Avx2` exists, so the processor has AVX2 and FMA (see
// `Simd::assume`); the two memory operations pass on their caller's promise.
impl Simd for Avx2 {
    type V = __m256d;
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn assume() -> Self {
        Self(())
    }
    #[inline(always)]
    fn splat(self, x: f64) -> __m256d {
        unsafe { _mm256_set1_pd(x) }
    }
    #[inline(always)]
    unsafe fn load(self, at: *const f64) -> __m256d {
        unsafe { _mm256_loadu_pd(at) }
    }
    #[inline(always)]
    unsafe fn store(self, at: *mut f64, v: __m256d) {
        unsafe { _mm256_storeu_pd(at, v) }
    }
    #[inline(always)]
    fn add(self, a: __m256d, b: __m256d) -> __m256d {
        unsafe { _mm256_add_pd(a, b) }
    }
    #[inline(always)]
    fn sub(self, a: __m256d, b: __m256d) -> __m256d {
        unsafe { _mm256_sub_pd(a, b) }
    }
    #[inline(always)]
    fn mul(self, a: __m256d, b: __m256d) -> __m256d {
        unsafe { _mm256_mul_pd(a, b) }
    }
    #[inline(always)]
    fn fma(self, a: __m256d, b: __m256d, c: __m256d) -> __m256d {
        unsafe { _mm256_fmadd_pd(a, b, c) }
    }
    #[inline(always)]
    fn fms(self, a: __m256d, b: __m256d, c: __m256d) -> __m256d {
        unsafe { _mm256_fmsub_pd(a, b, c) }
    }
    #[inline(always)]
    fn fnma(self, a: __m256d, b: __m256d, c: __m256d) -> __m256d {
        unsafe { _mm256_fnmadd_pd(a, b, c) }
    }
    #[inline(always)]
    fn round(self, a: __m256d) -> __m256d {
        unsafe { _mm256_round_pd::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a) }
    }
    #[inline(always)]
    fn floor(self, a: __m256d) -> __m256d {
        unsafe { _mm256_round_pd::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(a) }
    }
    #[inline(always)]
    fn add_if_negative(self, a: __m256d, p: __m256d) -> __m256d {
        unsafe {
            let negative = _mm256_cmp_pd::<_CMP_LT_OQ>(a, _mm256_setzero_pd());
            _mm256_add_pd(a, _mm256_and_pd(negative, p))
        }
    }
    #[inline(always)]
    fn sub_if_reached(self, a: __m256d, p: __m256d) -> __m256d {
        unsafe { _mm256_sub_pd(a, _mm256_and_pd(_mm256_cmp_pd::<_CMP_GE_OQ>(a, p), p)) }
    }
    #[inline(always)]
    fn sub_if_above(self, a: __m256d, bound: __m256d, p: __m256d) -> __m256d {
        unsafe { _mm256_sub_pd(a, _mm256_and_pd(_mm256_cmp_pd::<_CMP_GT_OQ>(a, bound), p)) }
    }
    #[inline(always)]
    fn negate(self, a: __m256d, p: __m256d) -> __m256d {
        unsafe {
            let nonzero = _mm256_cmp_pd::<_CMP_NEQ_OQ>(a, _mm256_setzero_pd());
            _mm256_and_pd(nonzero, _mm256_sub_pd(p, a))
        }
    }
    #[inline(always)]
    fn pick(self, _: __m256d, _: &[u64; 8]) -> __m256d {
        unreachable!("four lanes")
    }
    #[inline(always)]
    fn transpose(self, rows: &mut [__m256d]) {
        unsafe {
            let t0 = _mm256_unpacklo_pd(rows[0], rows[1]);
            let t1 = _mm256_unpackhi_pd(rows[0], rows[1]);
            let t2 = _mm256_unpacklo_pd(rows[2], rows[3]);
            let t3 = _mm256_unpackhi_pd(rows[2], rows[3]);
            rows[0] = _mm256_permute2f128_pd::<0x20>(t0, t2);
            rows[1] = _mm256_permute2f128_pd::<0x20>(t1, t3);
            rows[2] = _mm256_permute2f128_pd::<0x31>(t0, t2);
            rows[3] = _mm256_permute2f128_pd::<0x31>(t1, t3);
        }
    }
}
