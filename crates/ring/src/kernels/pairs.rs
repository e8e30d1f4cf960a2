//! Inner products of several rows with the same pairs of limbs: plaintexts of a matrix's columns with the two
//! polynomials of ciphertexts.
//!
//! Pairs lie in the order in which they are read, eight values of the first limb, eight of the second, term
//! after term, so they are one stream whatever the number of terms; and the sums of up to [`ROWS`] rows lie
//! in registers, so a pair is read once for all of them. With 52-bit integer products two instructions make
//! eight products, where doubles take seven: see `tiles`.
use super::inner::LAZY_PRODUCTS;
use super::reference;
use super::view::{View, ViewMut};
use super::PAIR;
use crate::field::Field;
use crate::simd::Simd;
use crate::Modulus;

/// Rows whose sums lie in registers together.
const ROWS: usize = 4;

#[inline(always)]
pub fn inner_products2<S: Simd>(
    s: S,
    m: &Modulus,
    outs: &mut [[&mut [f64]; 2]],
    rows: &[&[f64]],
    pairs: &[f64],
    replace: bool,
) {
    let terms = reference::pair_terms(outs, rows, pairs);
    if terms == 0 {
        return reference::inner_products2(m, outs, rows, pairs, replace);
    }
    for (outs, rows) in outs.chunks_mut(ROWS).zip(rows.chunks(ROWS * terms)) {
        #[cfg(target_arch = "x86_64")]
        if crate::simd::path() == crate::simd::Path::Ifma && ifma::sums(m, outs, rows, pairs, replace) {
            continue;
        }
        let f = Field::new(s, m);
        match outs.len() {
            1 => sums::<S, 1>(f, outs, rows, pairs, replace),
            2 => sums::<S, 2>(f, outs, rows, pairs, replace),
            3 => sums::<S, 3>(f, outs, rows, pairs, replace),
            _ => sums::<S, ROWS>(f, outs, rows, pairs, replace),
        }
    }
}

/// The sums of R rows. A sum and seven products, each below 7p/8, or a reduced one and eight: below 8p.
#[inline(always)]
fn sums<S: Simd, const R: usize>(
    f: Field<S>,
    outs: &mut [[&mut [f64]; 2]],
    rows: &[&[f64]],
    pairs: &[f64],
    replace: bool,
) {
    let (terms, n) = (rows.len() / R, rows[0].len());
    let pairs = View(f.s, pairs);
    for i in (0..n).step_by(S::LANES) {
        let start = i / PAIR * terms * 2 * PAIR + i % PAIR;
        let mut sums = [[f.s.splat(0.0); 2]; R];
        if !replace {
            for (sums, out) in sums.iter_mut().zip(&*outs) {
                *sums = [View(f.s, out[0]).at(i), View(f.s, out[1]).at(i)];
            }
        }
        for t in 0..terms {
            let at = start + 2 * PAIR * t;
            let pair = [pairs.at(at), pairs.at(at + PAIR)];
            for (r, sums) in sums.iter_mut().enumerate() {
                let row = View(f.s, rows[r * terms + t]).at(i);
                for (sum, x) in sums.iter_mut().zip(pair) {
                    *sum = f.s.add(*sum, f.mul(row, x));
                    if t % LAZY_PRODUCTS == LAZY_PRODUCTS - 2 {
                        *sum = f.reduce(*sum);
                    }
                }
            }
        }
        for (sums, out) in sums.into_iter().zip(outs.iter_mut()) {
            for (sum, out) in sums.into_iter().zip(out) {
                ViewMut(f.s, out).set(i, f.canonical_wide(sum));
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod ifma {
    use super::{PAIR, ROWS};
    use crate::tiles::ifma::{integer, End, MOST};
    use crate::Modulus;
    use std::arch::x86_64::*;

    /// False where the modulus or the number of terms is none for this path. The caller has checked the
    /// shapes.
    pub(super) fn sums(
        m: &Modulus,
        outs: &mut [[&mut [f64]; 2]],
        rows: &[&[f64]],
        pairs: &[f64],
        replace: bool,
    ) -> bool {
        if m.p() < 1 << 33 || rows.len() / outs.len() > MOST {
            return false;
        }
        // SAFETY: `simd::path` names this path only where the processor has the features.
        unsafe {
            match outs.len() {
                1 => some::<1>(m, outs, rows, pairs, replace),
                2 => some::<2>(m, outs, rows, pairs, replace),
                3 => some::<3>(m, outs, rows, pairs, replace),
                _ => some::<ROWS>(m, outs, rows, pairs, replace),
            }
        }
        true
    }

    #[target_feature(enable = "avx2,fma,avx512f,avx512dq,avx512ifma")]
    fn some<const R: usize>(
        m: &Modulus,
        outs: &mut [[&mut [f64]; 2]],
        rows: &[&[f64]],
        pairs: &[f64],
        replace: bool,
    ) {
        let (end, terms, zero) = (End::new(m), rows.len() / R, _mm512_setzero_si512());
        let n = rows[0].len();
        for (i, pairs) in (0..n).step_by(PAIR).zip(pairs.chunks_exact(2 * PAIR * terms)) {
            let (mut low, mut high) = ([[zero; 2]; R], [[zero; 2]; R]);
            for (t, pair) in pairs.chunks_exact(2 * PAIR).enumerate() {
                // SAFETY: a pair is two vectors, and i + PAIR <= n, the length of every row.
                let x = [0, PAIR].map(|half| unsafe { _mm512_loadu_pd(pair.as_ptr().add(half)) });
                let x = [integer(x[0]), integer(x[1])];
                for r in 0..R {
                    let row = integer(unsafe { _mm512_loadu_pd(rows[r * terms + t].as_ptr().add(i)) });
                    for half in 0..2 {
                        low[r][half] = _mm512_madd52lo_epu64(low[r][half], row, x[half]);
                        high[r][half] = _mm512_madd52hi_epu64(high[r][half], row, x[half]);
                    }
                }
            }
            for (r, out) in outs.iter_mut().enumerate() {
                for (half, out) in out.iter_mut().enumerate() {
                    end.store(&mut out[i..i + PAIR], (low[r][half], high[r][half]), replace);
                }
            }
        }
    }
}
