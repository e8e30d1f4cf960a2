//! The last step of a key switch, for one half: products with the key, division, addition, all in registers.

use super::generic::{lengths_fit, View, ViewMut};
use super::reference;
use crate::field::{Factor, Field};
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
    assert_eq!(ds.len(), ks.len());
    let (n, fit) = (out.len(), lengths_fit::<S>(out.len(), &[lift.len()]));
    let same = |x: &[f64]| assert_eq!(x.len(), n, "slices of different lengths");
    ds.iter()
        .chain(ks)
        .copied()
        .chain(add.map(|(a, _)| a))
        .for_each(same);
    if !fit {
        return reference::divided_product(m, out, ds, ks, lift, c, add);
    }
    let f = Field::new(s, m);
    let c = f.splat_factor(m.factor(c));
    let add = add.map(|(a, e)| (View(s, a), f.splat_factor(m.factor(e))));
    let (mut out, lift) = (ViewMut(s, out), View(s, lift));
    match ds.len() {
        2 => divide_rows::<S, 2>(f, &mut out, ds, ks, lift, c, add),
        4 => divide_rows::<S, 4>(f, &mut out, ds, ks, lift, c, add),
        _ => divide_rows::<S, 0>(f, &mut out, ds, ks, lift, c, add),
    }
}

/// See `divided_product`. T: the number of products, where the compiler is to know it; 0 for any.
#[inline(always)]
fn divide_rows<S: Simd, const T: usize>(
    f: Field<S>,
    out: &mut ViewMut<'_, S>,
    ds: &[&[f64]],
    ks: &[&[f64]],
    lift: View<'_, S>,
    c: Factor<S>,
    add: Option<(View<'_, S>, Factor<S>)>,
) {
    let terms = if T == 0 { ds.len() } else { T };
    for i in (0..lift.1.len()).step_by(S::LANES) {
        let mut sum = f.s.splat(0.0);
        for t in 0..terms {
            if t % LAZIER_PRODUCTS == 0 && t > 0 {
                sum = f.reduce(sum);
            }
            sum =
                f.s.add(sum, f.mul(View(f.s, ds[t]).at(i), View(f.s, ks[t]).at(i)));
        }
        let mut quotient = f.mul_by(f.s.sub(sum, lift.at(i)), c);
        if let Some((a, e)) = add {
            quotient = f.s.add(quotient, f.mul_by(a.at(i), e));
        }
        out.set(i, f.canonical_wide(quotient));
    }
}
