//! Sums of products without a reduction per product.
//!
//! With p < 2^b, factors are centred, so |xy| <= (p-1)^2/4 < 2^(2b-2). A sum of up to eight such products is
//! kept as high +
//! low: `high` starts at 3 * 2^(2b+1) and stays within [2^(2b+2), 2^(2b+3)], where doubles are the multiples
//! of u = 2^(2b-50). So high' = fma(x, y, high) moves by a multiple of u, the difference high' - high is
//! exact, and what it lacks, xy - (high' - high), is an integer of at most u/2 <= 2^49 (zero when u < 1),
//! hence exact too: two fused operations and two additions a product. The eight rests add up to at most 2^52
//! <= 8p.
//!
//! The end: h = high - 3 * 2^(2b+1) is at most 2^(2b+1), its quotient by p at most 2^52 and computed within
//! 1, so |h - qp| <= 3p/2, and with the rests 19p/2 and below 2^53, which [`Field::reduce`] brings to p/2 +
//! 8.
//!
//! d1 by Karatsuba: (a0 + a1)(b0 + b1) - a0 b0 - a1 b1, the sums taken and centred when the factors are
//! packed. Before its reduction |d1| is below 19p/2 + 2p + 16 and, being 2^52 + 7p/2 at most, below 2^53.

use super::{shape, Accumulator, Factor};
use crate::field::Field;
use crate::kernels::view::{View, ViewMut};
use crate::simd::Simd;
use crate::{AlignedVec, Modulus};
use std::ops::Range;

/// Products in a sum before it is reduced.
const LAZY_TERMS: usize = 8;
/// Coefficients of a tile.
const TILE: usize = 256;
/// Packed parts of a factor: two polynomials and their sum.
const PARTS: usize = 3;

#[inline(always)]
pub fn outer<S: Simd>(
    s: S,
    m: &Modulus,
    acc: &mut [Accumulator<'_>],
    left: &[Factor<'_>],
    right: &[Factor<'_>],
    rows: usize,
    fresh: bool,
) {
    let (columns, terms, n) = shape(acc, left, right, rows);
    if terms == 0 || !n.is_multiple_of(S::LANES) {
        return super::reference::outer(m, acc, left, right, rows, fresh);
    }
    let sums = Sums::new(s, m);
    let mut a = AlignedVec::scratch(left.len() * PARTS * TILE);
    let mut b = AlignedVec::scratch(right.len() * PARTS * TILE);
    for start in (0..n).step_by(TILE) {
        let len = TILE.min(n - start);
        pack(sums.f, &mut a, left, rows, start, len);
        pack(sums.f, &mut b, right, columns, start, len);
        let (size, range) = (terms * PARTS * TILE, start..start + len);
        for (a, acc) in a.chunks(2 * size).zip(acc.chunks_mut(2 * columns)) {
            let ((a0, a1), b) = (a.split_at(size), b.chunks_exact(size));
            let (acc0, acc1) = acc.split_at_mut(columns);
            if a1.is_empty() {
                b.zip(acc0)
                    .for_each(|(b, d)| sums.add([a0], b, [d], &range, fresh));
            } else {
                for ((b, d0), d1) in b.zip(acc0).zip(acc1) {
                    sums.add([a0, a1], b, [d0, d1], &range, fresh);
                }
            }
        }
    }
}

/// Packs the centred parts of factors[c * count + k] from `start` on as `[k][vector][c][part][LANES]`, in the
/// order in which they are read: the caches see one stream a factor.
#[inline(always)]
fn pack<S: Simd>(
    f: Field<S>,
    packed: &mut [f64],
    factors: &[Factor<'_>],
    count: usize,
    start: usize,
    len: usize,
) {
    let terms = factors.len() / count;
    let mut packed = ViewMut(f.s, packed);
    for (at, [x0, x1]) in factors.iter().enumerate() {
        let (k, c) = (at % count, at / count);
        let (x0, x1) = (
            View(f.s, &x0[start..start + len]),
            View(f.s, &x1[start..start + len]),
        );
        for i in (0..len).step_by(S::LANES) {
            let (v0, v1) = (x0.at(i), x1.at(i));
            let to = PARTS * (k * terms * TILE + i * terms + c * S::LANES);
            packed.set(to, f.center(v0));
            packed.set(to + S::LANES, f.center(v1));
            packed.set(
                to + 2 * S::LANES,
                f.center(f.s.sub_if_reached(f.s.add(v0, v1), f.p)),
            );
        }
    }
}

/// A sum as high + low.
type Sum<S> = (<S as Simd>::V, <S as Simd>::V);

/// What sums of products need to know of the modulus.
#[derive(Clone, Copy)]
struct Sums<S: Simd> {
    f: Field<S>,
    /// 3 * 2^(2b+1).
    origin: S::V,
}

impl<S: Simd> Sums<S> {
    #[inline(always)]
    fn new(s: S, m: &Modulus) -> Self {
        let bits = 64 - m.p().leading_zeros() as i32;
        Self {
            f: Field::new(s, m),
            origin: s.splat(3.0 * f64::from(2 * bits + 1).exp2()),
        }
    }

    /// d += the terms of R rows, which share the loads of the column, and one column, packed.
    #[inline(always)]
    fn add<const R: usize>(
        self,
        a: [&[f64]; R],
        b: &[f64],
        d: [&mut Accumulator<'_>; R],
        range: &Range<usize>,
        fresh: bool,
    ) {
        let s = self.f.s;
        let mut d = d.map(|d| d.each_mut().map(|d| ViewMut(s, &mut d[range.clone()])));
        let (terms, b) = (b.len() / (PARTS * TILE), View(s, b));
        let a = a.map(|a| View(s, a));
        for i in (0..range.len()).step_by(S::LANES) {
            for first in (0..terms).step_by(LAZY_TERMS) {
                let count = LAZY_TERMS.min(terms - first);
                let sums = self.sum(a, b, PARTS * (i * terms + first * S::LANES), count);
                for (d, sum) in d.iter_mut().zip(sums) {
                    self.finish(d, sum, i, fresh && first == 0);
                }
            }
        }
    }

    /// The (high, low) sums of every part of `terms` terms, at most LAZY_TERMS, packed from `at` on.
    /// Plain loops, since closures would not inherit the processor's features.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    fn sum<const R: usize>(
        self,
        a: [View<'_, S>; R],
        b: View<'_, S>,
        at: usize,
        terms: usize,
    ) -> [[Sum<S>; PARTS]; R] {
        let s = self.f.s;
        let mut sums = [[(self.origin, s.splat(0.0)); PARTS]; R];
        for c in 0..terms {
            for part in 0..PARTS {
                let at = at + (c * PARTS + part) * S::LANES;
                let y = b.at(at);
                for r in 0..R {
                    let (x, (high, low)) = (a[r].at(at), sums[r][part]);
                    let next = s.fma(x, y, high);
                    sums[r][part] = (next, s.sub(low, s.fnma(x, y, s.sub(next, high))));
                }
            }
        }
        sums
    }

    /// d += the sums, or d = them, canonical.
    #[inline(always)]
    fn finish(self, d: &mut [ViewMut<'_, S>; 3], sums: [Sum<S>; PARTS], i: usize, fresh: bool) {
        let (f, s) = (self.f, self.f.s);
        let (r0, r2) = (f.reduce(self.close(sums[0])), f.reduce(self.close(sums[1])));
        let cross = s.sub(s.sub(self.close(sums[2]), r0), r2);
        let [d0, d1, d2] = d;
        if fresh {
            d0.set(i, f.fold(r0));
            d1.set(i, f.canonical_wide(cross));
            d2.set(i, f.fold(r2));
        } else {
            d0.set(i, f.canonical(s.add(d0.at(i), r0)));
            d1.set(i, f.canonical_wide(s.add(d1.at(i), cross)));
            d2.set(i, f.canonical(s.add(d2.at(i), r2)));
        }
    }

    /// The sum that `high` and `low` stand for, to within 19p/2.
    #[inline(always)]
    fn close(self, (high, low): Sum<S>) -> S::V {
        let (f, s) = (self.f, self.f.s);
        let h = s.sub(high, self.origin);
        let q = s.round(s.mul(h, f.inv));
        s.add(s.fnma(q, f.p, h), low)
    }
}
