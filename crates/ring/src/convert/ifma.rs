//! The weighted sum of a conversion on 52-bit integer products (AVX-512 IFMA): two instructions a term where
//! doubles take six.
//!
//! A centred y, |y| < 2^49, becomes Y = y + 2^51 by an addition in doubles that leaves Y in the low 52 bits,
//! which are all that the products read. With canonical weights, sum Y w = sum y w + 2^51 sum w, and the
//! accumulators start at minus the last term, mod p. For k <= MOST terms the low halves stay below 2^50 + k
//! 2^52 < 2^56 and the high halves below k 0.625 p <= 7.5 p: one conversion to doubles, one product by 2^52
//! mod p and one reduction make the sum canonical.
use super::Weights;
use crate::field::Field;
use crate::simd::{Avx512, Simd};
use crate::Modulus;
use std::arch::x86_64::*;

/// Terms of which the high halves, and what the low halves carry into them, stay below 8p.
const MOST: usize = 12;
/// 2^52 + 2^51: the sum with a centred y has 2^51 + y in its low 52 bits.
const SHIFT: f64 = 6_755_399_441_055_744.0;
const LANES: usize = 8;

/// See `weighted_sum`; false where the shape is none for this path.
pub fn weighted_sum(m: &Modulus, out: &mut [f64], ys: &[&[f64]], weights: &Weights<'_>) -> bool {
    let n = out.len();
    assert!(ys.len() == weights.factors.len() && ys.iter().all(|y| y.len() == n));
    if !n.is_multiple_of(LANES) || ys.len() > MOST {
        return false;
    }
    // SAFETY: `simd::path` names this path only where the processor has the features.
    unsafe {
        match ys.len() {
            7 => sums::<7>(m, out, ys, weights),
            8 => sums::<8>(m, out, ys, weights),
            _ => sums::<0>(m, out, ys, weights),
        }
    }
    true
}

/// T: the number of terms, where the compiler is to know it; 0 for any.
#[target_feature(enable = "avx2,fma,avx512f,avx512dq,avx512ifma")]
fn sums<const T: usize>(m: &Modulus, out: &mut [f64], ys: &[&[f64]], weights: &Weights<'_>) {
    // SAFETY: this function enables the features.
    let s = unsafe { Avx512::assume() };
    let f = Field::new(s, m);
    let fold = f.splat_factor(m.factor(m.from_i64(1 << 52)));
    let terms = if T == 0 { ys.len() } else { T };
    let (shift, bias) = (_mm512_set1_pd(SHIFT), _mm512_set1_epi64(weights.bias as i64));
    let mut w = [_mm512_setzero_si512(); MOST];
    for (w, &integer) in w.iter_mut().zip(&weights.integers[..terms]) {
        *w = _mm512_set1_epi64(integer as i64);
    }
    for i in (0..out.len()).step_by(LANES) {
        let (mut low, mut high) = (bias, _mm512_setzero_si512());
        for t in 0..terms {
            // SAFETY: i + LANES <= out.len(), which is the length of every y.
            let y = unsafe { _mm512_loadu_pd(ys[t].as_ptr().add(i)) };
            let y = _mm512_castpd_si512(_mm512_add_pd(y, shift));
            low = _mm512_madd52lo_epu64(low, y, w[t]);
            high = _mm512_madd52hi_epu64(high, y, w[t]);
        }
        high = _mm512_add_epi64(high, _mm512_srli_epi64::<52>(low));
        low = _mm512_and_si512(low, _mm512_set1_epi64((1 << 52) - 1));
        let (low, high) = (_mm512_cvtepu64_pd(low), _mm512_cvtepu64_pd(high));
        let sum = f.canonical_wide(s.add(f.mul_by(high, fold), low));
        // SAFETY: as above.
        unsafe { _mm512_storeu_pd(out.as_mut_ptr().add(i), sum) };
    }
}
