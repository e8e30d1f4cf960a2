//! Sums of products with plaintexts that are constant over runs: some terms at a time, so that a sum lies in
//! registers while they are added.
use super::inner::LAZY_PRODUCTS;
use super::reference;
use super::rows::fetch_at;
use super::view::{lengths_fit, View, ViewMut};
use crate::field::Field;
use crate::simd::Simd;
use crate::Modulus;

/// Doubles of x that stay in the first-level cache while the terms pass.
const BLOCK: usize = 1024;
/// Terms at a time: two such groups are as many products as a sum takes without a reduction.
const GROUP: usize = LAZY_PRODUCTS / 2;

/// Values whose weights are written out at a time: those of a group fill a quarter of the first-level cache.
const PART: usize = 256;

/// Weights of single values come from memory, in pieces too short for the processor to see them coming.
const AHEAD: usize = 256;

type Term<'a> = (&'a [f64], &'a [f64]);

#[inline(always)]
pub fn mul_runs_add_assign<S: Simd>(s: S, m: &Modulus, x: &mut [f64], a: &[f64], w: &[f64]) {
    mac_runs(s, m, x, &[(a, w)]);
}

#[inline(always)]
pub fn mac_runs<S: Simd>(s: S, m: &Modulus, x: &mut [f64], terms: &[Term<'_>]) {
    if !summed(s, m, x, terms, false) {
        reference::mac_runs(m, x, terms);
    }
}

#[inline(always)]
pub fn sum_runs<S: Simd>(s: S, m: &Modulus, x: &mut [f64], terms: &[Term<'_>]) {
    if !summed(s, m, x, terms, true) {
        reference::sum_runs(m, x, terms);
    }
}

/// False where the lengths are none for vectors.
#[inline(always)]
fn summed<S: Simd>(s: S, m: &Modulus, x: &mut [f64], terms: &[Term<'_>], replace: bool) -> bool {
    let n = x.len();
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
        return false;
    }
    if terms.is_empty() && replace {
        x.fill(0.0);
    }
    let (f, block) = (Field::new(s, m), n.min(BLOCK));
    for (b, x) in x.chunks_exact_mut(block).enumerate() {
        let (mut x, mut start, mut lazy) = (ViewMut(s, x), 0, 0);
        while start < terms.len() {
            let count = alike(&terms[start..]);
            lazy += count;
            let last = start + count == terms.len();
            let reduce = lazy + GROUP > LAZY_PRODUCTS;
            let steps = [replace && start == 0, reduce, last];
            let group = &terms[start..start + count];
            match count {
                4 => add_group::<S, 4>(f, &mut x, group, (n, b * block), steps),
                3 => add_group::<S, 3>(f, &mut x, group, (n, b * block), steps),
                2 => add_group::<S, 2>(f, &mut x, group, (n, b * block), steps),
                _ => add_group::<S, 1>(f, &mut x, group, (n, b * block), steps),
            }
            start += count;
            lazy = if reduce { 0 } else { lazy };
        }
    }
    true
}

/// How many of the first terms go together: those whose runs are as long as the first one's.
#[inline(always)]
fn alike(terms: &[Term<'_>]) -> usize {
    let weights = terms[0].1.len();
    let same = terms.iter().take(GROUP).take_while(|(_, w)| w.len() == weights);
    same.count()
}

/// Adds G terms to a block, without reduction, or with one; the first may replace what was there, and the
/// last sums become canonical. place: length of the limb, start of the block.
#[inline(always)]
fn add_group<S: Simd, const G: usize>(
    f: Field<S>,
    x: &mut ViewMut<'_, S>,
    terms: &[Term<'_>],
    (n, start): (usize, usize),
    steps: [bool; 3],
) {
    let block = x.1.len();
    let run = n / terms[0].1.len();
    let a: [View<'_, S>; G] = std::array::from_fn(|t| View(f.s, &terms[t].0[start..start + block]));
    let count = (block / run).max(1);
    let w: [&[f64]; G] = std::array::from_fn(|t| &terms[t].1[start / run..start / run + count]);
    match run {
        1 => full(f, x, a, w, steps),
        2 => short_runs::<S, G, 2>(f, x, a, w, steps),
        4 => short_runs::<S, G, 4>(f, x, a, w, steps),
        _ => long_runs(f, x, a, w, steps),
    }
}

/// The same for weights of their own for every value.
#[inline(always)]
fn full<S: Simd, const G: usize>(
    f: Field<S>,
    x: &mut ViewMut<'_, S>,
    a: [View<'_, S>; G],
    w: [&[f64]; G],
    steps: [bool; 3],
) {
    let w = w.map(|w| View(f.s, w));
    for i in (0..x.1.len()).step_by(S::LANES) {
        let mut sum = before(f, x, i, steps);
        for t in 0..G {
            fetch_at(w[t].1, i + AHEAD);
            sum = f.s.add(sum, f.mul(a[t].at(i), w[t].at(i)));
        }
        x.set(i, after(f, sum, steps));
    }
}

/// The same for weights of so few values that a vector holds several runs: they are written out, a part at a
/// time. RUN is known when compiling, as a division for every value would cost more than its product.
#[inline(always)]
fn short_runs<S: Simd, const G: usize, const RUN: usize>(
    f: Field<S>,
    x: &mut ViewMut<'_, S>,
    a: [View<'_, S>; G],
    w: [&[f64]; G],
    steps: [bool; 3],
) {
    let part = PART.min(x.1.len());
    let mut spread = [[0.0; PART]; G];
    for start in (0..x.1.len()).step_by(part) {
        for t in 0..G {
            let weights = &w[t][start / RUN..(start + part) / RUN];
            for (run, &weight) in spread[t].chunks_exact_mut(RUN).zip(weights) {
                run.fill(weight);
            }
            fetch_at(w[t], (start + AHEAD) / RUN);
        }
        let mut sums = ViewMut(f.s, &mut x.1[start..start + part]);
        let a = std::array::from_fn(|t| View(f.s, &a[t].1[start..start + part]));
        let weights: [&[f64]; G] = std::array::from_fn(|t| &spread[t][..part]);
        full(f, &mut sums, a, weights, steps);
    }
}

/// The same for weights that are constant over whole vectors.
#[inline(always)]
fn long_runs<S: Simd, const G: usize>(
    f: Field<S>,
    x: &mut ViewMut<'_, S>,
    a: [View<'_, S>; G],
    w: [&[f64]; G],
    steps: [bool; 3],
) {
    let run = x.1.len() / w[0].len();
    for r in 0..w[0].len() {
        // No closure: one that is not inlined lacks the features of this function, and was called.
        let mut factors = [(f.p, f.p); G];
        for (factor, w) in factors.iter_mut().zip(&w) {
            *factor = f.factor(f.center(f.s.splat(w[r])));
        }
        for i in (r * run..(r + 1) * run).step_by(S::LANES) {
            let mut sum = before(f, x, i, steps);
            for t in 0..G {
                sum = f.s.add(sum, f.mul_by(a[t].at(i), factors[t]));
            }
            x.set(i, after(f, sum, steps));
        }
    }
}

#[inline(always)]
fn before<S: Simd>(f: Field<S>, x: &ViewMut<'_, S>, i: usize, [replace, ..]: [bool; 3]) -> S::V {
    if replace {
        f.s.splat(0.0)
    } else {
        x.at(i)
    }
}

#[inline(always)]
fn after<S: Simd>(f: Field<S>, sum: S::V, [_, reduce, last]: [bool; 3]) -> S::V {
    match (last, reduce) {
        (true, _) => f.canonical_wide(sum),
        (_, true) => f.reduce(sum),
        _ => sum,
    }
}
