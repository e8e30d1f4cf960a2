//! The inner product of key switching.
use super::reference;
use super::rows::{Doubles, Packed, Rows};
use super::view::{lengths_fit, ViewMut};
use crate::field::Field;
use crate::packed::Row;
use crate::simd::Simd;
use crate::Modulus;

/// Products are below 7p/8 and a reduced sum below p/2 + 8: eight products and it stay below 8p.
pub(super) const LAZY_PRODUCTS: usize = 8;

/// Terms at a time, whose sums stay in registers: with the outputs they are five streams of doubles, since
/// more would fall into the same sets of the first-level cache.
const TOGETHER: usize = 3;

/// Values of the outputs that stay in that cache while more terms pass.
const SWEEP: usize = 512;

/// Values between what is read of a key, which comes from memory, and what the caches are asked for.
const AHEAD: usize = 64;

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
        let mut outs = [ViewMut(s, out0), ViewMut(s, out1)];
        for t in (0..terms).step_by(TOGETHER) {
            let (place, outs) = ((t, b * SWEEP), &mut outs);
            match terms - t {
                1 => add_products::<S, K, 1>(f, outs, place, ds, [k0s, k1s], true),
                2 => add_products::<S, K, 2>(f, outs, place, ds, [k0s, k1s], true),
                left => add_products::<S, K, TOGETHER>(f, outs, place, ds, [k0s, k1s], left == TOGETHER),
            }
        }
    }
    true
}

/// out0 += d*k0 and out1 += d*k1 for T limbs from `t` on, of which the first limb of all replaces what was
/// there. outs: of values from `start` on. Sums become canonical behind the last limb, else they are reduced.
#[inline(always)]
fn add_products<S: Simd, K: Rows<S>, const T: usize>(
    f: Field<S>,
    [out0, out1]: &mut [ViewMut<'_, S>; 2],
    (t, start): (usize, usize),
    ds: Doubles<'_, S>,
    [k0s, k1s]: [K; 2],
    last: bool,
) {
    const { assert!(T <= LAZY_PRODUCTS) }
    for i in (0..out0.1.len()).step_by(S::LANES) {
        let here = start + i;
        let d = ds.at(t, here);
        let (mut sum0, mut sum1) = (f.mul(d, k0s.at(t, here)), f.mul(d, k1s.at(t, here)));
        if t > 0 {
            (sum0, sum1) = (f.s.add(sum0, out0.at(i)), f.s.add(sum1, out1.at(i)));
        }
        for t in t + 1..t + T {
            let d = ds.at(t, here);
            sum0 = f.s.add(sum0, f.mul(d, k0s.at(t, here)));
            sum1 = f.s.add(sum1, f.mul(d, k1s.at(t, here)));
        }
        for t in t..t + T {
            k0s.fetch(t, here + AHEAD);
            k1s.fetch(t, here + AHEAD);
        }
        if last {
            (sum0, sum1) = (f.canonical_wide(sum0), f.canonical_wide(sum1));
        } else {
            (sum0, sum1) = (f.reduce(sum0), f.reduce(sum1));
        }
        out0.set(i, sum0);
        out1.set(i, sum1);
    }
}
