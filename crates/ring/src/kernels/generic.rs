//! The kernels on vectors of doubles. A length that is no multiple of the vector goes to the reference path.
//!
//! Indexing goes through [`View`] and [`ViewMut`].

pub use super::divided::{divided_product, divided_product_packed};
pub use super::inner::{inner_product2, inner_product2_packed};
pub use super::pairs::inner_products2;
use super::reference;
pub use super::runs::{mac_runs, mul_runs_add_assign, sum_runs};
use super::view::{lengths_fit, View, ViewMut};
use crate::field::Field;
use crate::simd::Simd;
use crate::Modulus;

/// Kernels of the form `out[i]` = f(`x[i]`, `a[i]`, ..) with the slices and constants named.
macro_rules! elementwise {
    ($name:ident, $s:ident, $m:ident, $field:ident, out $out:ident, in($($input:ident),*),
     const($($c:ident),*), $i:ident, { $($setup:tt)* } $value:expr) => {
        #[inline(always)]
        pub fn $name<S: Simd>($s: S, $m: &Modulus, $out: &mut [f64], $($input: &[f64],)* $($c: u64),*) {
            if !lengths_fit::<S>($out.len(), &[$($input.len()),*]) {
                return reference::$name($m, $out, $($input,)* $($c),*);
            }
            let $field = Field::new($s, $m);
            $($setup)*
            let n = $out.len();
            let mut $out = ViewMut($s, $out);
            $(let $input = View($s, $input);)*
            for $i in (0..n).step_by(S::LANES) {
                let value = $value;
                $out.set($i, value);
            }
        }
    };
}

elementwise!(add, s, m, f, out out, in(a, b), const(), i, {} s.sub_if_reached(s.add(a.at(i), b.at(i)), f.p));
elementwise!(sub, s, m, f, out out, in(a, b), const(), i, {} f.fold(s.sub(a.at(i), b.at(i))));
elementwise!(add_assign, s, m, f, out x, in(a), const(), i, {}
    s.sub_if_reached(s.add(x.at(i), a.at(i)), f.p));
elementwise!(sub_assign, s, m, f, out x, in(a), const(), i, {} f.fold(s.sub(x.at(i), a.at(i))));
elementwise!(neg_assign, s, m, f, out x, in(), const(), i, {} s.negate(x.at(i), f.p));
elementwise!(mul, s, m, f, out out, in(a, b), const(), i, {} f.fold(f.mul(a.at(i), b.at(i))));
elementwise!(mul_assign, s, m, f, out x, in(a), const(), i, {} f.fold(f.mul(x.at(i), a.at(i))));
elementwise!(residues, s, m, f, out out, in(a), const(), i, {} f.canonical(a.at(i)));
elementwise!(mul_add_assign, s, m, f, out x, in(a, b), const(), i, {}
    f.canonical(s.add(x.at(i), f.mul(a.at(i), b.at(i)))));
elementwise!(mul_scalar, s, m, f, out out, in(a), const(c), i,
    { let c = f.splat_factor(m.factor(c)); }
    f.fold(f.mul_by(a.at(i), c)));
elementwise!(mul_scalar_assign, s, m, f, out x, in(), const(c), i,
    { let c = f.splat_factor(m.factor(c)); }
    f.fold(f.mul_by(x.at(i), c)));
elementwise!(mul_scalar_add_assign, s, m, f, out x, in(a), const(c), i,
    { let c = f.splat_factor(m.factor(c)); }
    f.canonical(s.add(x.at(i), f.mul_by(a.at(i), c))));
elementwise!(sub_mul_scalar, s, m, f, out out, in(a, b), const(c), i,
    { let c = f.splat_factor(m.factor(c)); }
    f.fold(f.mul_by(s.sub(a.at(i), b.at(i)), c)));

/// |x| < p and a product below 7p/8: sum and difference are below 2p, as `canonical` wants them.
#[inline(always)]
pub fn butterfly<S: Simd>(s: S, m: &Modulus, x: &mut [f64], y: &mut [f64], w: &[f64]) {
    let n = x.len();
    if !lengths_fit::<S>(n, &[y.len(), w.len()]) {
        return reference::butterfly(m, x, y, w);
    }
    let f = Field::new(s, m);
    let (mut x, mut y, w) = (ViewMut(s, x), ViewMut(s, y), View(s, w));
    for i in (0..n).step_by(S::LANES) {
        let (before, product) = (x.at(i), f.mul(y.at(i), w.at(i)));
        x.set(i, f.canonical(s.add(before, product)));
        y.set(i, f.canonical(s.sub(before, product)));
    }
}

#[inline(always)]
pub fn mul_accumulate2<S: Simd>(
    s: S,
    m: &Modulus,
    acc0: &mut [f64],
    acc1: &mut [f64],
    d: &[f64],
    k0: &[f64],
    k1: &[f64],
) {
    let n = d.len();
    if !lengths_fit::<S>(n, &[acc0.len(), acc1.len(), k0.len(), k1.len()]) {
        return reference::mul_accumulate2(m, acc0, acc1, d, k0, k1);
    }
    let f = Field::new(s, m);
    let (mut acc0, mut acc1) = (ViewMut(s, acc0), ViewMut(s, acc1));
    let (d, k0, k1) = (View(s, d), View(s, k0), View(s, k1));
    for i in (0..n).step_by(S::LANES) {
        let d = d.at(i);
        acc0.set(i, f.canonical(s.add(acc0.at(i), f.mul(d, k0.at(i)))));
        acc1.set(i, f.canonical(s.add(acc1.at(i), f.mul(d, k1.at(i)))));
    }
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub fn tensor_accumulate<S: Simd>(
    s: S,
    m: &Modulus,
    d0: &mut [f64],
    d1: &mut [f64],
    d2: &mut [f64],
    a0: &[f64],
    a1: &[f64],
    b0: &[f64],
    b1: &[f64],
) {
    let n = d0.len();
    if !lengths_fit::<S>(n, &[d1.len(), d2.len(), a0.len(), a1.len(), b0.len(), b1.len()]) {
        return reference::tensor_accumulate(m, d0, d1, d2, a0, a1, b0, b1);
    }
    let f = Field::new(s, m);
    let (mut d0, mut d1, mut d2) = (ViewMut(s, d0), ViewMut(s, d1), ViewMut(s, d2));
    let (a0, a1, b0, b1) = (View(s, a0), View(s, a1), View(s, b0), View(s, b1));
    for i in (0..n).step_by(S::LANES) {
        let (a0, a1, b0, b1) = (a0.at(i), a1.at(i), b0.at(i), b1.at(i));
        d0.set(i, f.canonical(s.add(d0.at(i), f.mul(a0, b0))));
        let cross = s.add(f.mul(a0, b1), f.mul(a1, b0));
        d1.set(i, f.canonical_wide(s.add(d1.at(i), cross)));
        d2.set(i, f.canonical(s.add(d2.at(i), f.mul(a1, b1))));
    }
}

#[inline(always)]
pub fn switch_modulus<S: Simd>(s: S, from: &Modulus, to: &Modulus, out: &mut [f64], a: &[f64]) {
    if !lengths_fit::<S>(out.len(), &[a.len()]) {
        return reference::switch_modulus(from, to, out, a);
    }
    let (f, t, n) = (Field::new(s, from), Field::new(s, to), out.len());
    let (mut out, a) = (ViewMut(s, out), View(s, a));
    for i in (0..n).step_by(S::LANES) {
        // |centred| < 2^49 and to > 2^20: the quotient is below 2^29, so `reduce` is as good as for |a| < 8p.
        out.set(i, t.canonical_wide(f.center(a.at(i))));
    }
}
