//! The kernels in u64/u128 integers: the definition that the SIMD paths must match bit for bit.

use super::PAIR;
use crate::packed::{self, Row};
use crate::Modulus;

#[inline]
fn zip2(out: &mut [f64], a: &[f64], f: impl Fn(u64, u64) -> u64) {
    assert_eq!(out.len(), a.len());
    for (x, &a) in out.iter_mut().zip(a) {
        *x = f(*x as u64, a as u64) as f64;
    }
}

#[inline]
fn zip3(out: &mut [f64], a: &[f64], b: &[f64], f: impl Fn(u64, u64, u64) -> u64) {
    assert!(out.len() == a.len() && out.len() == b.len());
    for ((x, &a), &b) in out.iter_mut().zip(a).zip(b) {
        *x = f(*x as u64, a as u64, b as u64) as f64;
    }
}

pub fn add(m: &Modulus, out: &mut [f64], a: &[f64], b: &[f64]) {
    zip3(out, a, b, |_, a, b| m.add(a, b));
}

pub fn sub(m: &Modulus, out: &mut [f64], a: &[f64], b: &[f64]) {
    zip3(out, a, b, |_, a, b| m.sub(a, b));
}

pub fn add_assign(m: &Modulus, x: &mut [f64], a: &[f64]) {
    zip2(x, a, |x, a| m.add(x, a));
}

pub fn sub_assign(m: &Modulus, x: &mut [f64], a: &[f64]) {
    zip2(x, a, |x, a| m.sub(x, a));
}

pub fn neg_assign(m: &Modulus, x: &mut [f64]) {
    for x in x {
        *x = m.neg(*x as u64) as f64;
    }
}

pub fn mul(m: &Modulus, out: &mut [f64], a: &[f64], b: &[f64]) {
    zip3(out, a, b, |_, a, b| m.mul(a, b));
}

pub fn mul_assign(m: &Modulus, x: &mut [f64], a: &[f64]) {
    zip2(x, a, |x, a| m.mul(x, a));
}

pub fn mul_add_assign(m: &Modulus, x: &mut [f64], a: &[f64], b: &[f64]) {
    zip3(x, a, b, |x, a, b| m.add(x, m.mul(a, b)));
}

pub fn butterfly(m: &Modulus, x: &mut [f64], y: &mut [f64], w: &[f64]) {
    assert!(x.len() == y.len() && x.len() == w.len());
    for ((x, y), &w) in x.iter_mut().zip(y).zip(w) {
        let (before, product) = (*x as u64, m.mul(*y as u64, w as u64));
        *x = m.add(before, product) as f64;
        *y = m.sub(before, product) as f64;
    }
}

pub fn mul_scalar(m: &Modulus, out: &mut [f64], a: &[f64], c: u64) {
    zip2(out, a, |_, a| m.mul(a, c));
}

pub fn mul_scalar_assign(m: &Modulus, x: &mut [f64], c: u64) {
    for x in x {
        *x = m.mul(*x as u64, c) as f64;
    }
}

pub fn mul_scalar_add_assign(m: &Modulus, x: &mut [f64], a: &[f64], c: u64) {
    zip2(x, a, |x, a| m.add(x, m.mul(a, c)));
}

pub fn sub_mul_scalar(m: &Modulus, out: &mut [f64], a: &[f64], b: &[f64], c: u64) {
    zip3(out, a, b, |_, a, b| m.mul(m.sub(a, b), c));
}

pub fn mul_accumulate2(m: &Modulus, acc0: &mut [f64], acc1: &mut [f64], d: &[f64], k0: &[f64], k1: &[f64]) {
    mul_add_assign(m, acc0, d, k0);
    mul_add_assign(m, acc1, d, k1);
}

pub fn inner_product2(
    m: &Modulus,
    out0: &mut [f64],
    out1: &mut [f64],
    ds: &[&[f64]],
    k0s: &[&[f64]],
    k1s: &[&[f64]],
) {
    assert!(ds.len() == k0s.len() && ds.len() == k1s.len());
    out0.fill(0.0);
    out1.fill(0.0);
    for ((d, k0), k1) in ds.iter().zip(k0s).zip(k1s) {
        mul_accumulate2(m, out0, out1, d, k0, k1);
    }
}

/// The number of terms; panics unless everything fits.
pub fn pair_terms(outs: &[[&mut [f64]; 2]], rows: &[&[f64]], pairs: &[f64]) -> usize {
    let (n, terms) = (
        outs.first().map_or(0, |out| out[0].len()),
        rows.len() / outs.len().max(1),
    );
    assert!(
        rows.len() == terms * outs.len() && pairs.len() == 2 * terms * n && n.is_multiple_of(PAIR),
        "{} rows and {} values of pairs for {} outputs of {n}",
        rows.len(),
        pairs.len(),
        outs.len()
    );
    assert!(rows.iter().all(|row| row.len() == n) && outs.iter().flatten().all(|out| out.len() == n));
    terms
}

pub fn inner_products2(
    m: &Modulus,
    outs: &mut [[&mut [f64]; 2]],
    rows: &[&[f64]],
    pairs: &[f64],
    replace: bool,
) {
    let terms = pair_terms(outs, rows, pairs);
    for (r, out) in outs.iter_mut().enumerate() {
        for (half, out) in out.iter_mut().enumerate() {
            for (i, x) in out.iter_mut().enumerate() {
                let pair = |t: usize| pairs[((i / PAIR * terms + t) * 2 + half) * PAIR + i % PAIR];
                let before = if replace { 0 } else { *x as u64 };
                let product = |t: usize| m.mul(rows[r * terms + t][i] as u64, pair(t) as u64);
                *x = (0..terms).fold(before, |sum, t| m.add(sum, product(t))) as f64;
            }
        }
    }
}

pub fn divided_product(
    m: &Modulus,
    out: &mut [f64],
    ds: &[&[f64]],
    ks: &[&[f64]],
    lift: &[f64],
    c: u64,
    add: Option<(&[f64], u64)>,
) {
    assert_eq!(ds.len(), ks.len());
    out.fill(0.0);
    for (d, k) in ds.iter().zip(ks) {
        mul_add_assign(m, out, d, k);
    }
    sub_assign(m, out, lift);
    mul_scalar_assign(m, out, c);
    if let Some((a, e)) = add {
        mul_scalar_add_assign(m, out, a, e);
    }
}

pub fn inner_product2_packed(
    m: &Modulus,
    out0: &mut [f64],
    out1: &mut [f64],
    ds: &[&[f64]],
    k0s: &[Row<'_>],
    k1s: &[Row<'_>],
) {
    let [k0s, k1s] = [k0s, k1s].map(|rows| unpacked(m, rows));
    inner_product2(m, out0, out1, ds, &views(&k0s), &views(&k1s));
}

pub fn divided_product_packed(
    m: &Modulus,
    out: &mut [f64],
    ds: &[&[f64]],
    ks: &[Row<'_>],
    lift: &[f64],
    c: u64,
    add: Option<(&[f64], u64)>,
) {
    divided_product(m, out, ds, &views(&unpacked(m, ks)), lift, c, add);
}

fn unpacked(m: &Modulus, rows: &[Row<'_>]) -> Vec<Vec<f64>> {
    let width = packed::width(m.p());
    assert!(
        rows.iter().all(|row| row.holds(width)),
        "limbs of different lengths"
    );
    rows.iter().map(|row| row.unpacked(m.p())).collect()
}

fn views(rows: &[Vec<f64>]) -> Vec<&[f64]> {
    rows.iter().map(|row| &row[..]).collect()
}

pub fn mul_runs_add_assign(m: &Modulus, x: &mut [f64], a: &[f64], w: &[f64]) {
    let n = x.len();
    assert!(a.len() == n && !w.is_empty() && n.is_multiple_of(w.len()));
    let run = n / w.len();
    for ((x, a), &w) in x.chunks_exact_mut(run).zip(a.chunks_exact(run)).zip(w) {
        mul_scalar_add_assign(m, x, a, w as u64);
    }
}

pub fn sum_runs(m: &Modulus, x: &mut [f64], terms: &[(&[f64], &[f64])]) {
    x.fill(0.0);
    mac_runs(m, x, terms);
}

pub fn mac_runs(m: &Modulus, x: &mut [f64], terms: &[(&[f64], &[f64])]) {
    for (a, w) in terms {
        mul_runs_add_assign(m, x, a, w);
    }
}

#[allow(clippy::too_many_arguments)]
pub fn tensor_accumulate(
    m: &Modulus,
    d0: &mut [f64],
    d1: &mut [f64],
    d2: &mut [f64],
    a0: &[f64],
    a1: &[f64],
    b0: &[f64],
    b1: &[f64],
) {
    mul_add_assign(m, d0, a0, b0);
    mul_add_assign(m, d1, a0, b1);
    mul_add_assign(m, d1, a1, b0);
    mul_add_assign(m, d2, a1, b1);
}

pub fn residues(m: &Modulus, out: &mut [f64], a: &[f64]) {
    assert_eq!(out.len(), a.len());
    for (x, &a) in out.iter_mut().zip(a) {
        *x = m.from_i64(a as i64) as f64;
    }
}

pub fn switch_modulus(from: &Modulus, to: &Modulus, out: &mut [f64], a: &[f64]) {
    assert_eq!(out.len(), a.len());
    for (x, &a) in out.iter_mut().zip(a) {
        let centred = if a < 0.0 { a as i64 } else { from.center(a as u64) };
        *x = to.from_i64(centred) as f64;
    }
}
