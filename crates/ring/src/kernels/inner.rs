//! The inner product of key switching.
use super::reference;
use super::rows::{Doubles, Packed, Rows};
use super::view::{lengths_fit, View, ViewMut};
use crate::field::Field;
use crate::packed::Row;
use crate::simd::Simd;
use crate::Modulus;

/// Products are below 7p/8 and a reduced sum below p/2 + 8: eight products and it stay below 8p.
pub(super) const LAZY_PRODUCTS: usize = 8;

/// Doubles of the outputs that stay in the first-level cache while the digits pass: five streams at a time,
/// since more would fall into the same sets of the cache.
const SWEEP: usize = 512;

#[inline(always)]
pub fn inner_product2<S: Simd>(
    s: S,
    m: &Modulus,
    out0: &mut [f64],
    out1: &mut [f64],
    ds: &[&[f64]],
    k0s: &[&[f64]],
    k1s: &[&[f64]],
) {
    if !sums(s, m, [out0, out1], ds, [Doubles(s, k0s), Doubles(s, k1s)]) {
        reference::inner_product2(m, out0, out1, ds, k0s, k1s);
    }
}

#[inline(always)]
pub fn inner_product2_packed<S: Simd>(
    s: S,
    m: &Modulus,
    out0: &mut [f64],
    out1: &mut [f64],
    ds: &[&[f64]],
    k0s: &[Row<'_>],
    k1s: &[Row<'_>],
) {
    let keys = [Packed::new(s, m, k0s), Packed::new(s, m, k1s)];
    if !sums(s, m, [out0, out1], ds, keys) {
        reference::inner_product2_packed(m, out0, out1, ds, k0s, k1s);
    }
}

/// False where the lengths are no multiples of a vector.
#[inline(always)]
fn sums<S: Simd, K: Rows<S>>(
    s: S,
    m: &Modulus,
    [out0, out1]: [&mut [f64]; 2],
    ds: &[&[f64]],
    [k0s, k1s]: [K; 2],
) -> bool {
    let (n, terms) = (out0.len(), ds.len());
    assert!(terms == k0s.count() && terms == k1s.count());
    let ds = Doubles(s, ds);
    assert!(
        ds.are(n) && k0s.are(n) && k1s.are(n),
        "limbs of different lengths: {n}"
    );
    if !lengths_fit::<S>(n, &[out1.len()]) {
        return false;
    }
    if terms == 0 {
        out0.fill(0.0);
        out1.fill(0.0);
    }
    let f = Field::new(s, m);
    for (b, (out0, out1)) in out0.chunks_mut(SWEEP).zip(out1.chunks_mut(SWEEP)).enumerate() {
        let (mut out0, mut out1) = (ViewMut(s, out0), ViewMut(s, out1));
        for t in 0..terms {
            let reduce = t % LAZY_PRODUCTS == LAZY_PRODUCTS - 1;
            let steps = [t == 0, reduce, t == terms - 1];
            add_products(f, [&mut out0, &mut out1], (t, b * SWEEP), ds, [k0s, k1s], steps);
        }
    }
    true
}

/// out0 += d*k0 and out1 += d*k1, of limb t from `start` on, without reduction, or with one; the first
/// product replaces what was there, and the last sums become canonical.
#[inline(always)]
fn add_products<S: Simd, K: Rows<S>>(
    f: Field<S>,
    [out0, out1]: [&mut ViewMut<'_, S>; 2],
    (t, start): (usize, usize),
    ds: Doubles<'_, S>,
    [k0s, k1s]: [K; 2],
    [first, reduce, last]: [bool; 3],
) {
    let d = View(f.s, &ds.1[t][start..start + out0.1.len()]);
    for i in (0..d.1.len()).step_by(S::LANES) {
        let here = start + i;
        let d = d.at(i);
        let (mut sum0, mut sum1) = (f.mul(d, k0s.at(t, here)), f.mul(d, k1s.at(t, here)));
        if !first {
            (sum0, sum1) = (f.s.add(sum0, out0.at(i)), f.s.add(sum1, out1.at(i)));
        }
        if last {
            (sum0, sum1) = (f.canonical_wide(sum0), f.canonical_wide(sum1));
        } else if reduce {
            (sum0, sum1) = (f.reduce(sum0), f.reduce(sum1));
        }
        out0.set(i, sum0);
        out1.set(i, sum1);
    }
}
