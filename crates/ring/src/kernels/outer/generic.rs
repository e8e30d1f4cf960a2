//! Sums of products without a reduction per product.
//!
//! With p < 2^b, factors are centred, so |xy| <= (p-1)^2/4 < 2^(2b-2). A sum of up to eight such products is kept as high +
//! low: `high` starts at 3 * 2^(2b+1) and stays within [2^(2b+2), 2^(2b+3)], where doubles are the multiples of
//! u = 2^(2b-50). So high' = fma(x, y, high) moves by a multiple of u, the difference high' - high is exact, and what it
//! lacks, xy - (high' - high), is an integer of at most u/2 <= 2^49 (zero when u < 1), hence exact too: two fused
//! operations and two additions a product. The eight rests add up to at most 2^52 <= 8p.
//!
//! The end: h = high - 3 * 2^(2b+1) is at most 2^(2b+1), its quotient by p at most 2^52 and computed within 1, so
//! |h - qp| <= 3p/2, and with the rests 19p/2 and below 2^53, which [`Field::reduce`] brings to p/2 + 8.
//!
//! d1 by Karatsuba: (a0 + a1)(b0 + b1) - a0 b0 - a1 b1, the sums taken and centred when the factors are packed. Before its
//! reduction |d1| is below 19p/2 + 2p + 16 and, being 2^52 + 7p/2 at most, below 2^53.

use super::{shape, Accumulator, Factor};
use crate::field::Field;
use crate::kernels::generic::{View, ViewMut};
use crate::simd::Simd;
use crate::{AlignedVec, Modulus};

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
        let (a_rows, b_columns) = (
            a.chunks_exact(terms * PARTS * TILE),
            b.chunks_exact(terms * PARTS * TILE),
        );
        for (a, acc) in a_rows.zip(acc.chunks_exact_mut(columns)) {
            for (b, d) in b_columns.clone().zip(acc) {
                let [d0, d1, d2] = d;
                let mut d = [d0, d1, d2].map(|d| ViewMut(s, &mut d[start..start + len]));
                let chunks = a
                    .chunks(LAZY_TERMS * PARTS * TILE)
                    .zip(b.chunks(LAZY_TERMS * PARTS * TILE));
                for (t, (a, b)) in chunks.enumerate() {
                    sums.add(&mut d, a, b, len, fresh && t == 0);
                }
            }
        }
    }
}

/// packed[(k * terms + c) * 3 + part][..len] = the centred parts of factors[c * count + k] from `start` on.
#[inline(always)]
fn pack<S: Simd>(f: Field<S>, packed: &mut [f64], factors: &[Factor<'_>], count: usize, start: usize, len: usize) {
    let terms = factors.len() / count;
    for (at, [x0, x1]) in factors.iter().enumerate() {
        let slot = (at % count) * terms + at / count;
        let parts = &mut packed[slot * PARTS * TILE..][..PARTS * TILE];
        let (y0, rest) = parts.split_at_mut(TILE);
        let (y1, y2) = rest.split_at_mut(TILE);
        let [x0, x1] = [x0, x1].map(|x| View(f.s, &x[start..start + len]));
        let [mut y0, mut y1, mut y2] = [y0, y1, y2].map(|y| ViewMut(f.s, &mut y[..len]));
        for i in (0..len).step_by(S::LANES) {
            let (v0, v1) = (x0.at(i), x1.at(i));
            y0.set(i, f.center(v0));
            y1.set(i, f.center(v1));
            y2.set(i, f.center(f.s.sub_if_reached(f.s.add(v0, v1), f.p)));
        }
    }
}

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

    /// d += the terms of one row and column, at most LAZY_TERMS; both packed as [term][part][TILE].
    #[inline(always)]
    fn add(self, d: &mut [ViewMut<'_, S>; 3], a: &[f64], b: &[f64], len: usize, fresh: bool) {
        let (f, s, zero) = (self.f, self.f.s, self.f.s.splat(0.0));
        let (terms, a, b) = (a.len() / (PARTS * TILE), View(s, a), View(s, b));
        for i in (0..len).step_by(S::LANES) {
            let (mut high, mut low) = ([self.origin; PARTS], [zero; PARTS]);
            for c in 0..terms {
                for part in 0..PARTS {
                    let at = (c * PARTS + part) * TILE + i;
                    let (x, y) = (a.at(at), b.at(at));
                    let next = s.fma(x, y, high[part]);
                    low[part] = s.add(low[part], s.fms(x, y, s.sub(next, high[part])));
                    high[part] = next;
                }
            }
            let [d0, d1, d2] = d;
            let (r0, r2) = (
                f.reduce(self.close(high[0], low[0])),
                f.reduce(self.close(high[1], low[1])),
            );
            let cross = s.sub(s.sub(self.close(high[2], low[2]), r0), r2);
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
    }

    /// The sum that `high` and `low` stand for, to within 19p/2.
    #[inline(always)]
    fn close(self, high: S::V, low: S::V) -> S::V {
        let (f, s) = (self.f, self.f.s);
        let h = s.sub(high, self.origin);
        let q = s.round(s.mul(h, f.inv));
        s.add(s.fnma(q, f.p, h), low)
    }
}
