//! The weighted sums of a conversion on 52-bit integer products (AVX-512 IFMA): two instructions a term where
//! doubles take six.
//!
//! A centred y, |y| < 2^49, becomes Y = y + 2^51 by an addition in doubles that leaves Y in the low 52 bits,
//! which are all that the products read. A product with a canonical weight w has a high half near w/2, so
//! accumulators that start at minus the sums of 2^51 w, split in the same way, end at the sum V of y w as
//! H 2^52 + L with |H| <= k p/8 + 1 for k terms, and 0 <= L < 2^52 after a carry.
//!
//! |V| < k 2^49 p, so the quotient V/p is computed with an error below k/8 (see `field`) and V - qp is below
//! (1/2 + k/8) p: less than 2p for k <= MOST, as `canonical` wants it. V - qp - L is below 2^53, and both
//! fused operations are exact.
use super::{Modulus, Weights};
use crate::field::Field;
use crate::simd::{Avx512, Simd};
use std::arch::x86_64::*;

/// Terms of a sum, at most.
const MOST: usize = 11;
/// 2^52 + 2^51: the sum with a centred y has 2^51 + y in its low 52 bits.
const SHIFT: f64 = 6_755_399_441_055_744.0;
const TWO_52: f64 = 4_503_599_627_370_496.0;
const LANES: usize = 8;
/// Sums that are made at once, at most: a source is loaded and shifted once for all, and their chains of
/// dependent products hide one another.
const TOGETHER: usize = 4;

/// A sum modulo m, and where it goes.
pub struct Sum<'a> {
    pub m: &'a Modulus,
    pub weights: Weights<'a>,
    pub out: &'a mut [f64],
}

/// All sums of the same ys; false where the shape is none for this path.
pub fn weighted_sums(ys: &[&[f64]], sums: &mut [Sum<'_>]) -> bool {
    let Some(n) = ys.first().map(|y| y.len()) else {
        return false;
    };
    let fits = |sum: &Sum<'_>| sum.weights.integers.len() == ys.len() && sum.out.len() == n;
    assert!(ys.iter().all(|y| y.len() == n) && sums.iter().all(fits));
    if !n.is_multiple_of(LANES) || ys.len() > MOST {
        return false;
    }
    for sums in sums.chunks_mut(TOGETHER) {
        // SAFETY: `simd::path` names this path only where the processor has the features.
        unsafe {
            match sums {
                [a, b, c, d] => group(ys, [a, b, c, d]),
                [a, b, c] => group(ys, [a, b, c]),
                [a, b] => group(ys, [a, b]),
                [a] => group(ys, [a]),
                _ => unreachable!("between one and TOGETHER sums"),
            }
        }
    }
    true
}

#[target_feature(enable = "avx2,fma,avx512f,avx512dq,avx512ifma")]
fn group<const G: usize>(ys: &[&[f64]], sums: [&mut Sum<'_>; G]) {
    // No closures from here on: they would not inherit the features of this function, and be called.
    let terms = ys.len();
    let mut weights = [[0; G]; MOST];
    for (t, row) in weights[..terms].iter_mut().enumerate() {
        for (w, sum) in row.iter_mut().zip(&sums) {
            *w = sum.weights.integers[t] as i64;
        }
    }
    let mut ends = [End::new(sums[0].m, &sums[0].weights.integers[..terms]); G];
    let mut outs = [sums[0].out.as_mut_ptr(); G];
    for g in 1..G {
        ends[g] = End::new(sums[g].m, &sums[g].weights.integers[..terms]);
        outs[g] = sums[g].out.as_mut_ptr();
    }
    let shift = _mm512_set1_pd(SHIFT);
    for i in (0..ys[0].len()).step_by(LANES) {
        let (mut low, mut high) = ([ends[0].low; G], [ends[0].high; G]);
        for g in 1..G {
            (low[g], high[g]) = (ends[g].low, ends[g].high);
        }
        for t in 0..terms {
            // SAFETY: i + LANES <= n, which is the length of every y.
            let y = unsafe { _mm512_loadu_pd(ys[t].as_ptr().add(i)) };
            let y = _mm512_castpd_si512(_mm512_add_pd(y, shift));
            for g in 0..G {
                let w = _mm512_set1_epi64(weights[t][g]);
                low[g] = _mm512_madd52lo_epu64(low[g], y, w);
                high[g] = _mm512_madd52hi_epu64(high[g], y, w);
            }
        }
        for g in 0..G {
            // SAFETY: as above, for every output.
            unsafe { _mm512_storeu_pd(outs[g].add(i), ends[g].canonical(low[g], high[g])) };
        }
    }
}

/// What the accumulators of a sum start at, and what makes it canonical.
#[derive(Clone, Copy)]
struct End {
    field: Field<Avx512>,
    low: __m512i,
    high: __m512i,
    /// 2^52 / p and p / 2^52.
    scaled: [__m512d; 2],
}

impl End {
    #[target_feature(enable = "avx2,fma,avx512f,avx512dq,avx512ifma")]
    fn new(m: &Modulus, weights: &[u64]) -> Self {
        let (halves, odd) = weights
            .iter()
            .fold((0, 0), |(halves, odd), w| (halves + w / 2, odd + w % 2));
        // SAFETY: this function enables the features.
        let s = unsafe { Avx512::assume() };
        let field = Field::new(s, m);
        Self {
            field,
            low: _mm512_set1_epi64(-((odd << 51) as i64)),
            high: _mm512_set1_epi64(-(halves as i64)),
            scaled: [
                s.mul(field.inv, s.splat(TWO_52)),
                s.mul(field.p, s.splat(1.0 / TWO_52)),
            ],
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,avx512f,avx512dq,avx512ifma")]
    fn canonical(&self, low: __m512i, high: __m512i) -> __m512d {
        let (s, f) = (self.field.s, self.field);
        let high = _mm512_cvtepi64_pd(_mm512_add_epi64(high, _mm512_srai_epi64::<52>(low)));
        let low = _mm512_cvtepi64_pd(_mm512_and_si512(low, _mm512_set1_epi64((1 << 52) - 1)));
        let q = s.round(s.fma(high, self.scaled[0], s.mul(low, f.inv)));
        let rest = s.fnma(q, self.scaled[1], high);
        f.canonical(s.fma(rest, s.splat(TWO_52), low))
    }
}
