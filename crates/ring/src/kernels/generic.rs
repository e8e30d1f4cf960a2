//! The kernels on vectors of doubles. A length that is no multiple of the vector goes to the reference path.
//!
//! Indexing goes through [`View`] and [`ViewMut`], which carry the one memory invariant: every index is below
//! the common length that [`lengths_fit`] checked, and that length is a multiple of LANES. Their bounds are
//! checked in debug builds only: no index comes from data, and every loop ends at the length that was
//! checked.

pub use super::divided::divided_product;
use super::reference;
use crate::field::Field;
use crate::simd::Simd;
use crate::Modulus;
use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T1};

#[derive(Clone, Copy)]
pub(super) struct View<'a, S: Simd>(pub(super) S, pub(super) &'a [f64]);
pub(super) struct ViewMut<'a, S: Simd>(pub(super) S, pub(super) &'a mut [f64]);

impl<S: Simd> View<'_, S> {
    #[inline(always)]
    pub(super) fn at(&self, i: usize) -> S::V {
        debug_assert!(i + S::LANES <= self.1.len());
        // SAFETY: i + LANES <= len, by the invariant of the module.
        unsafe { self.0.load(self.1.as_ptr().add(i)) }
    }
}

impl<S: Simd> ViewMut<'_, S> {
    #[inline(always)]
    pub(super) fn at(&self, i: usize) -> S::V {
        debug_assert!(i + S::LANES <= self.1.len());
        // SAFETY: i + LANES <= len, by the invariant of the module.
        unsafe { self.0.load(self.1.as_ptr().add(i)) }
    }
    #[inline(always)]
    pub(super) fn set(&mut self, i: usize, v: S::V) {
        debug_assert!(i + S::LANES <= self.1.len());
        // SAFETY: i + LANES <= len, by the invariant of the module.
        unsafe { self.0.store(self.1.as_mut_ptr().add(i), v) }
    }
}

/// Panics unless all lengths agree; false if they are no multiple of the vector.
#[inline(always)]
pub(super) fn lengths_fit<S: Simd>(n: usize, others: &[usize]) -> bool {
    assert!(
        others.iter().all(|&len| len == n),
        "slices of different lengths: {n} and {others:?}"
    );
    n.is_multiple_of(S::LANES)
}

/// Kernels of the form out[i] = f(x[i], a[i], ..) with the slices and constants named.
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

/// Products are below 7p/8 and a reduced sum below p/2 + 8: eight products and it stay below 8p.
const LAZY_PRODUCTS: usize = 8;

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
    assert!(ds.len() == k0s.len() && ds.len() == k1s.len());
    let (n, terms) = (out0.len(), ds.len());
    let mut fit = lengths_fit::<S>(n, &[out1.len()]);
    for t in 0..terms {
        fit &= lengths_fit::<S>(n, &[ds[t].len(), k0s[t].len(), k1s[t].len()]);
    }
    if !fit {
        return reference::inner_product2(m, out0, out1, ds, k0s, k1s);
    }
    if terms == 0 {
        out0.fill(0.0);
        return out1.fill(0.0);
    }
    let f = Field::new(s, m);
    for (b, (out0, out1)) in out0.chunks_mut(SWEEP).zip(out1.chunks_mut(SWEEP)).enumerate() {
        let (offset, len) = (b * SWEEP, out0.len());
        let (mut out0, mut out1) = (ViewMut(s, out0), ViewMut(s, out1));
        for t in 0..terms {
            let [d, k0, k1] = [ds[t], k0s[t], k1s[t]].map(|x| View(s, &x[offset..offset + len]));
            let reduce = t % LAZY_PRODUCTS == LAZY_PRODUCTS - 1;
            add_products(
                f,
                &mut out0,
                &mut out1,
                d,
                k0,
                k1,
                [t == 0, reduce, t == terms - 1],
            );
        }
    }
}

/// Doubles of the outputs that stay in the first-level cache while the digits pass: five streams at a time,
/// since more would fall into the same sets of the cache.
const SWEEP: usize = 512;

/// Asks the caches for x[i], which may lie behind the end of x: what a loop over parts of limbs reads next.
#[inline(always)]
fn fetch_ahead(x: &[f64], i: usize) {
    // SAFETY: a hint to the caches, which no address can make fail.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(x.as_ptr().wrapping_add(i).cast()) };
}

/// out0 += d*k0 and out1 += d*k1 without reduction, or with one; the first product replaces what was there,
/// and the last sums become canonical.
#[inline(always)]
fn add_products<S: Simd>(
    f: Field<S>,
    out0: &mut ViewMut<'_, S>,
    out1: &mut ViewMut<'_, S>,
    d: View<'_, S>,
    k0: View<'_, S>,
    k1: View<'_, S>,
    [first, reduce, last]: [bool; 3],
) {
    for i in (0..d.1.len()).step_by(S::LANES) {
        for x in [d, k0, k1] {
            fetch_ahead(x.1, i + SWEEP);
        }
        let d = d.at(i);
        let (mut sum0, mut sum1) = (f.mul(d, k0.at(i)), f.mul(d, k1.at(i)));
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

/// Doubles of x that stay in the first-level cache while the terms pass.
const BLOCK: usize = 1024;

#[inline(always)]
pub fn mul_runs_add_assign<S: Simd>(s: S, m: &Modulus, x: &mut [f64], a: &[f64], w: &[f64]) {
    mac_runs(s, m, x, &[(a, w)]);
}

#[inline(always)]
pub fn mac_runs<S: Simd>(s: S, m: &Modulus, x: &mut [f64], terms: &[(&[f64], &[f64])]) {
    let n = x.len();
    let block = n.min(BLOCK);
    let mut fit = n.is_multiple_of(S::LANES) && n.is_power_of_two();
    for (a, w) in terms {
        fit &= lengths_fit::<S>(n, &[a.len()]);
        assert!(
            !w.is_empty() && n.is_multiple_of(w.len()),
            "{} weights do not divide {n}",
            w.len()
        );
    }
    if !fit {
        return reference::mac_runs(m, x, terms);
    }
    let f = Field::new(s, m);
    for (b, x) in x.chunks_exact_mut(block).enumerate() {
        let mut x = ViewMut(s, x);
        for (t, (a, w)) in terms.iter().enumerate() {
            let (a, run) = (View(s, &a[b * block..][..block]), n / w.len());
            if run < S::LANES {
                short_runs(f, &mut x, a, &w[b * block / run..][..block / run]);
            } else {
                let first = b * block / run;
                long_runs(f, &mut x, a, &w[first..first + (block / run).max(1)]);
            }
            if t % LAZY_PRODUCTS == LAZY_PRODUCTS - 2 {
                for i in (0..block).step_by(S::LANES) {
                    x.set(i, f.reduce(x.at(i)));
                }
            }
        }
        for i in (0..block).step_by(S::LANES) {
            x.set(i, f.canonical_wide(x.at(i)));
        }
    }
}

/// x += a*w lazily, w constant over whole vectors; x.len() / w.len() elements each.
#[inline(always)]
fn long_runs<S: Simd>(f: Field<S>, x: &mut ViewMut<'_, S>, a: View<'_, S>, w: &[f64]) {
    let run = a.1.len() / w.len();
    for (r, &w) in w.iter().enumerate() {
        let w = f.factor(f.center(f.s.splat(w)));
        for i in (r * run..(r + 1) * run).step_by(S::LANES) {
            x.set(i, f.s.add(x.at(i), f.mul_by(a.at(i), w)));
        }
    }
}

/// x += a*w lazily for runs shorter than a vector: the weights of the block are first spread out.
#[inline(always)]
fn short_runs<S: Simd>(f: Field<S>, x: &mut ViewMut<'_, S>, a: View<'_, S>, w: &[f64]) {
    let (n, mut spread) = (a.1.len(), [0.0; BLOCK]);
    let run = n / w.len();
    let w = match run {
        1 => w,
        2 => spread_runs::<2>(w, &mut spread),
        _ => spread_runs::<4>(w, &mut spread),
    };
    let w = View(f.s, w);
    for i in (0..n).step_by(S::LANES) {
        x.set(i, f.s.add(x.at(i), f.mul(a.at(i), w.at(i))));
    }
}

#[inline(always)]
fn spread_runs<'a, const RUN: usize>(w: &[f64], spread: &'a mut [f64; BLOCK]) -> &'a [f64] {
    for (run, &w) in spread.chunks_exact_mut(RUN).zip(w) {
        run.copy_from_slice(&[w; RUN]);
    }
    &spread[..w.len() * RUN]
}
