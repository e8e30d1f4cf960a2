//! Eight doubles at a time: AVX-512 F and DQ.

use super::{Simd, TWO_52};
use std::arch::x86_64::*;

const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
const DOWN: i32 = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;

/// Proof that AVX-512 F and DQ are there, and VBMI if so BYTES.
#[derive(Clone, Copy)]
pub(crate) struct Avx512<const BYTES: bool = false>(());

/// Proof that AVX-512 F, DQ and VBMI are there.
pub(crate) type Avx512Bytes = Avx512<true>;

// SAFETY of every block below: a value of `Avx512` exists, so the processor has AVX-512 F and DQ, and VBMI if
// so BYTES (see `Simd::assume`); the memory operations pass on their caller's promise.
impl<const BYTES: bool> Simd for Avx512<BYTES> {
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
    type Unpacking = Unpacking;
    #[inline(always)]
    fn unpacking(self, width: usize) -> Unpacking {
        Unpacking::new(width, BYTES)
    }
    #[inline(always)]
    unsafe fn unpack(self, group: *const u8, _: usize, how: &Unpacking) -> __m512d {
        unsafe {
            let x = _mm512_loadu_si512(group.cast());
            if BYTES {
                let x = _mm512_srlv_epi64(_mm512_permutexvar_epi8(how.places, x), how.right);
                return how.double(x);
            }
            let low = _mm512_srlv_epi64(_mm512_permutexvar_epi64(how.places, x), how.right);
            let high = _mm512_sllv_epi64(_mm512_permutexvar_epi64(how.next, x), how.left);
            how.double(_mm512_or_si512(low, high))
        }
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

/// Where the bits of eight residues lie in 64 bytes: the first place of each, and how far it is shifted. With
/// shuffles of bytes the place is a byte; else a word, and the next word holds the rest.
#[derive(Clone, Copy)]
pub(crate) struct Unpacking {
    places: __m512i,
    next: __m512i,
    right: __m512i,
    left: __m512i,
    mask: __m512i,
}

impl Unpacking {
    #[inline(always)]
    fn new(width: usize, bytes: bool) -> Self {
        let (mut places, mut next, mut right) = ([0u8; 64], [0u64; 8], [0u64; 8]);
        let unit = if bytes { 8 } else { 64 };
        for i in 0..8 {
            let place = i * width / unit;
            right[i] = (i * width % unit) as u64;
            next[i] = place as u64 + 1;
            let word = (place as u64).to_le_bytes();
            (0..8).for_each(|b| places[8 * i + b] = if bytes { (place + b) as u8 } else { word[b] });
        }
        let left = right.map(|shift| 64 - shift);
        // SAFETY: reads the arrays above; a value of `Avx512` exists where this is called.
        unsafe {
            Self {
                places: _mm512_loadu_si512(places.as_ptr().cast()),
                next: _mm512_loadu_si512(next.as_ptr().cast()),
                right: _mm512_loadu_si512(right.as_ptr().cast()),
                left: _mm512_loadu_si512(left.as_ptr().cast()),
                mask: _mm512_set1_epi64((1 << width) - 1),
            }
        }
    }

    /// Of the low bits of each word.
    #[inline(always)]
    fn double(&self, x: __m512i) -> __m512d {
        // SAFETY: as above.
        unsafe {
            let exponent = _mm512_set1_epi64(TWO_52.to_bits() as i64);
            let x = _mm512_or_si512(_mm512_and_si512(x, self.mask), exponent);
            _mm512_sub_pd(_mm512_castsi512_pd(x), _mm512_set1_pd(TWO_52))
        }
    }
}

/// Columns c (even 128-bit lanes) and c + 4 (odd ones) of four rows, for c = 0..4.
#[inline(always)]
fn transpose_half<const BYTES: bool>(_proof: Avx512<BYTES>, rows: &mut [__m512d]) {
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
