//! Four doubles at a time: AVX2 with FMA.

use super::{Pairs, Simd, TWO_52};
use std::arch::x86_64::*;

/// Proof that AVX2 and FMA are there.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

// SAFETY of every block below: a value of `Avx2` exists, so the processor has AVX2 and FMA (see
// `Simd::assume`); the memory operations pass on their caller's promise.
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
    type Unpacking = Unpacking;
    #[inline(always)]
    fn unpacking(self, width: usize) -> Unpacking {
        Unpacking::new(width)
    }
    #[inline(always)]
    unsafe fn unpack(self, group: *const u8, first: usize, how: &Unpacking) -> __m256d {
        let half = first / 4;
        unsafe {
            let pair = |k: usize| _mm_loadu_si128(group.add(how.starts[2 * half + k]).cast());
            let x = _mm256_set_m128i(pair(1), pair(0));
            let x = _mm256_srlv_epi64(_mm256_shuffle_epi8(x, how.places[half]), how.right[half]);
            let exponent = _mm256_set1_epi64x(TWO_52.to_bits() as i64);
            let x = _mm256_or_si256(_mm256_and_si256(x, how.mask), exponent);
            _mm256_sub_pd(_mm256_castsi256_pd(x), _mm256_set1_pd(TWO_52))
        }
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

/// Where the bits of eight residues lie, by halves of a group: which bytes, and how far they are shifted.
#[derive(Clone, Copy)]
pub(crate) struct Unpacking {
    starts: [usize; 4],
    places: [__m256i; 2],
    right: [__m256i; 2],
    mask: __m256i,
}

impl Unpacking {
    #[inline(always)]
    fn new(width: usize) -> Self {
        let Pairs {
            starts,
            places,
            right,
        } = Pairs::new(width);
        // SAFETY: reads the arrays above; a value of `Avx2` exists where this is called.
        unsafe {
            Self {
                starts,
                places: [0, 1].map(|h| _mm256_loadu_si256(places.as_ptr().add(32 * h).cast())),
                right: [0, 1].map(|h| _mm256_loadu_si256(right.as_ptr().add(4 * h).cast())),
                mask: _mm256_set1_epi64x((1 << width) - 1),
            }
        }
    }
}
