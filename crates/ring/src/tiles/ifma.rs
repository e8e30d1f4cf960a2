//! The sums on 52-bit integer products (AVX-512 IFMA): two instructions a product where doubles take seven.
//!
//! A canonical residue a, in [0, 2^50), plus 2^52 has a in its low 52 bits, which are all that the products
//! read. K products add up to H 2^52 + L, where L gathers K numbers below 2^52 and H as many below 2^48: with
//! K <= 2^12 neither leaves its 64 bits, and H with L's carry stays below 2^61. At the end H = h1 2^32 + h0,
//! and h1 2^84 + h0 2^52 + L is reduced once: the h are below 2^32 < p, so that their products with a
//! constant are below 11p/16 (see `field`), and L below 2^52 reduces to p/2 + 8. With what was there before
//! all of it is below 3p.
use super::{Panels, Tiles, Weights, ROWS, WIDTH};
use crate::field::{Factor, Field};
use crate::simd::{Avx512, Simd};
use crate::Modulus;
use std::arch::x86_64::*;

/// Terms of a sum, at most.
pub(crate) const MOST: usize = 1 << 12;
const LANES: usize = 8;
const VECTORS: usize = WIDTH / LANES;
const TWO_52: f64 = 4_503_599_627_370_496.0;

/// False where the modulus or the number of terms is none for this path. The caller has checked the shapes.
pub(super) fn sums(
    m: &Modulus,
    tiles: &Tiles,
    (weights, first): (&Weights, usize),
    panels: &Panels,
    out: &mut [&mut [f64]],
    replace: bool,
) -> bool {
    if m.p() < 1 << 33 || tiles.depth() > MOST {
        return false;
    }
    // SAFETY: `simd::path` names this path only where the processor has the features.
    unsafe { all(m, tiles, (weights, first), panels, out, replace) };
    true
}

#[target_feature(enable = "avx2,fma,avx512f,avx512dq,avx512ifma")]
fn all(
    m: &Modulus,
    tiles: &Tiles,
    (weights, first): (&Weights, usize),
    panels: &Panels,
    out: &mut [&mut [f64]],
    replace: bool,
) {
    let end = End::new(m);
    for at in (0..panels.block).step_by(WIDTH) {
        let panel = panels.at(at);
        for (t, (inputs, out)) in tiles.inputs_by_tile().zip(out.chunks_mut(ROWS)).enumerate() {
            let (low, high) = accumulate(inputs, weights.at(t, inputs.len(), first + at), panel);
            for (row, out) in out.iter_mut().enumerate() {
                let out = out[at..at + WIDTH].chunks_exact_mut(LANES);
                for (v, out) in out.enumerate() {
                    end.store(out, (low[row][v], high[row][v]), replace);
                }
            }
        }
    }
}

type Halves = [[__m512i; VECTORS]; ROWS];

/// The low and the high halves of the sums of one panel.
#[inline]
#[target_feature(enable = "avx2,fma,avx512f,avx512dq,avx512ifma")]
fn accumulate(inputs: &[usize], weights: &[f64], panel: &[f64]) -> (Halves, Halves) {
    let zero = _mm512_setzero_si512();
    let (mut low, mut high) = ([[zero; VECTORS]; ROWS], [[zero; VECTORS]; ROWS]);
    for (&input, w) in inputs.iter().zip(weights.chunks_exact(ROWS)) {
        let values = &panel[input * WIDTH..][..WIDTH];
        // SAFETY: (v + 1) * LANES <= WIDTH, the length of the slice.
        let a: [__m512i; VECTORS] =
            std::array::from_fn(|v| unsafe { integer(_mm512_loadu_pd(values.as_ptr().add(v * LANES))) });
        for row in 0..ROWS {
            let w = integer(_mm512_set1_pd(w[row]));
            for v in 0..VECTORS {
                low[row][v] = _mm512_madd52lo_epu64(low[row][v], a[v], w);
                high[row][v] = _mm512_madd52hi_epu64(high[row][v], a[v], w);
            }
        }
    }
    (low, high)
}

/// The low 52 bits of each word are the value.
#[inline]
#[target_feature(enable = "avx2,fma,avx512f,avx512dq,avx512ifma")]
pub(crate) fn integer(x: __m512d) -> __m512i {
    _mm512_castpd_si512(_mm512_add_pd(x, _mm512_set1_pd(TWO_52)))
}

/// What makes accumulators canonical.
pub(crate) struct End {
    field: Field<Avx512>,
    /// 2^52 and 2^84.
    powers: [Factor<Avx512>; 2],
}

impl End {
    #[target_feature(enable = "avx2,fma,avx512f,avx512dq,avx512ifma")]
    pub(crate) fn new(m: &Modulus) -> Self {
        // SAFETY: this function enables the features.
        let field = Field::new(unsafe { Avx512::assume() }, m);
        let power = |bits: u64| field.splat_factor(m.factor(m.pow(2, bits)));
        let powers = [power(52), power(84)];
        Self { field, powers }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,avx512f,avx512dq,avx512ifma")]
    pub(crate) fn store(&self, out: &mut [f64], (low, high): (__m512i, __m512i), replace: bool) {
        assert!(out.len() == LANES);
        let (s, f) = (self.field.s, self.field);
        let high = _mm512_add_epi64(high, _mm512_srli_epi64::<52>(low));
        let low = _mm512_and_si512(low, _mm512_set1_epi64((1 << 52) - 1));
        let bottom = _mm512_and_si512(high, _mm512_set1_epi64((1 << 32) - 1));
        let parts = [bottom, _mm512_srli_epi64::<32>(high)].map(|x| _mm512_cvtepi64_pd(x));
        let mut sum = f.reduce(_mm512_cvtepi64_pd(low));
        for (part, power) in parts.into_iter().zip(self.powers) {
            sum = s.add(sum, f.mul_by(part, power));
        }
        // SAFETY: the slice has as many doubles as a vector.
        unsafe {
            if !replace {
                sum = s.add(sum, s.load(out.as_ptr()));
            }
            s.store(out.as_mut_ptr(), f.canonical_wide(sum));
        }
    }
}
