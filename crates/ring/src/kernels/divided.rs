//! The last step of a key switch, for one half: products with the key, division, addition, all in registers.

use super::reference;
use super::rows::{Doubles, Packed, Rows};
use super::view::{lengths_fit, View, ViewMut};
use crate::field::{Factor, Field};
use crate::packed::Row;
use crate::simd::Simd;
use crate::Modulus;

/// Products of lazy values (below 2^51) are below 5p/4: after four of them and a reduced sum, less a lazy
/// lift, everything is below 7.5 * 2^50.
const LAZIER_PRODUCTS: usize = 4;

#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub fn divided_product<S: Simd>(
    s: S,
    m: &Modulus,
    out: &mut [f64],
    ds: &[&[f64]],
    ks: &[&[f64]],
    lift: &[f64],
    c: u64,
    add: Option<(&[f64], u64)>,
) {
    if !divided(s, m, out, (ds, Doubles(s, ks)), lift, c, add) {
        reference::divided_product(m, out, ds, ks, lift, c, add);
    }
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub fn divided_product_packed<S: Simd>(
    s: S,
    m: &Modulus,
    out: &mut [f64],
    ds: &[&[f64]],
    ks: &[Row<'_>],
    lift: &[f64],
    c: u64,
    add: Option<(&[f64], u64)>,
) {
    if !divided(s, m, out, (ds, Packed::new(s, m, ks)), lift, c, add) {
        reference::divided_product_packed(m, out, ds, ks, lift, c, add);
    }
}

/// False where the lengths are no multiples of a vector.
#[inline(always)]
fn divided<S: Simd, K: Rows<S>>(
    s: S,
    m: &Modulus,
    out: &mut [f64],
    (ds, ks): (&[&[f64]], K),
    lift: &[f64],
    c: u64,
    add: Option<(&[f64], u64)>,
) -> bool {
    let (n, ds) = (out.len(), Doubles(s, ds));
    assert_eq!(ds.count(), ks.count());
    assert!(
        ds.are(n) && ks.are(n) && add.is_none_or(|(a, _)| a.len() == n),
        "limbs of different lengths: {n}"
    );
    if !lengths_fit::<S>(n, &[lift.len()]) {
        return false;
    }
    let f = Field::new(s, m);
    let c = f.splat_factor(m.factor(c));
    let add = add.map(|(a, e)| (View(s, a), f.splat_factor(m.factor(e))));
    let (mut out, lift) = (ViewMut(s, out), View(s, lift));
    match ds.count() {
        1 => divide_rows::<S, K, 1>(f, &mut out, (ds, ks), lift, c, add),
        2 => divide_rows::<S, K, 2>(f, &mut out, (ds, ks), lift, c, add),
        3 => divide_rows::<S, K, 3>(f, &mut out, (ds, ks), lift, c, add),
        4 => divide_rows::<S, K, 4>(f, &mut out, (ds, ks), lift, c, add),
        _ => divide_rows::<S, K, 0>(f, &mut out, (ds, ks), lift, c, add),
    }
    true
}

/// See `divided_product`. T: the number of products, where the compiler is to know it; 0 for any.
#[inline(always)]
fn divide_rows<S: Simd, K: Rows<S>, const T: usize>(
    f: Field<S>,
    out: &mut ViewMut<'_, S>,
    (ds, ks): (Doubles<'_, S>, K),
    lift: View<'_, S>,
    c: Factor<S>,
    add: Option<(View<'_, S>, Factor<S>)>,
) {
    let terms = if T == 0 { ds.count() } else { T };
    for i in (0..lift.1.len()).step_by(S::LANES) {
        let mut sum = f.s.splat(0.0);
        for t in 0..terms {
            if t % LAZIER_PRODUCTS == 0 && t > 0 {
                sum = f.reduce(sum);
            }
            sum = f.s.add(sum, f.mul(ds.at(t, i), ks.at(t, i)));
        }
        let mut quotient = f.mul_by(f.s.sub(sum, lift.at(i)), c);
        if let Some((a, e)) = add {
            quotient = f.s.add(quotient, f.mul_by(a.at(i), e));
        }
        out.set(i, f.canonical_wide(quotient));
    }
}
