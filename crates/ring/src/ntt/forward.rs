//! Coefficients to values: Cooley-Tukey butterflies on vectors of doubles. Ranges: see `plan`.
//!
//! Butterflies of a level are written step by step over all rows: independent operations next to each other
//! keep the floating-point pipes busy although each butterfly is a chain of five. (No closures around vector
//! operations: a closure does not inherit the target features of the function it stands in, and would be
//! called.)

use super::plan::{Pass, Tables};
use super::vector::{broadcast, lane_factors, load, load_transposed, store, store_transposed, Limb};
use crate::ahead::Ahead;
use crate::field::{Factor, Field};
use crate::simd::Simd;

/// Level L of a block of M rows: u, v -> u + wv, u - wv. Roots in heap order: 2^L + block.
#[inline(always)]
fn level<S: Simd, const M: usize, const L: usize>(f: Field<S>, v: &mut [S::V; M], w: &[Factor<S>; M]) {
    let half = M >> (L + 1);
    let low = |t: usize| (t / half) * half + t;
    let root = |t: usize| w[(1 << L) + t / half];
    let (mut h, mut q) = ([f.p; M], [f.p; M]);
    for t in 0..M / 2 {
        q[t] = f.s.mul(v[low(t) + half], root(t).1);
        h[t] = f.s.mul(v[low(t) + half], root(t).0);
    }
    for q in q.iter_mut().take(M / 2) {
        *q = f.s.round(*q);
    }
    for t in 0..M / 2 {
        v[low(t) + half] = f.s.fms(v[low(t) + half], root(t).0, h[t]);
    }
    for t in 0..M / 2 {
        h[t] = f.s.fnma(q[t], f.p, h[t]);
    }
    for t in 0..M / 2 {
        let product = f.s.add(v[low(t) + half], h[t]);
        v[low(t) + half] = f.s.sub(v[low(t)], product);
        v[low(t)] = f.s.add(v[low(t)], product);
    }
}

#[inline(always)]
fn reduce_first_half<S: Simd, const M: usize>(f: Field<S>, v: &mut [S::V; M]) {
    for row in v.iter_mut().take(M / 2) {
        *row = f.reduce(*row);
    }
}

#[inline(always)]
fn rows<S: Simd, const M: usize, const REDUCE: bool>(f: Field<S>, v: &mut [S::V; M], w: &[Factor<S>; M]) {
    if REDUCE {
        reduce_first_half(f, v);
    }
    level::<S, M, 0>(f, v, w);
    if M > 2 {
        level::<S, M, 1>(f, v, w);
    }
}

/// One pass over the groups `first..first + count`. ahead: what the caches are asked for meanwhile.
#[inline(always)]
fn pass_rows<S: Simd, const M: usize, const REDUCE: bool>(
    f: Field<S>,
    x: Limb,
    tables: &Tables,
    pass: Pass,
    (first, count): (usize, usize),
    ahead: &mut impl Ahead,
) {
    let len = 1usize << (tables.log_n - pass.log_groups);
    for g in first..first + count {
        let w = broadcast::<S, M>(f.s, &tables.forward, 1 << pass.log_groups, g);
        for j in (0..len / M).step_by(S::LANES) {
            ahead.step();
            let mut v = load::<S, M>(f.s, x, g * len + j, len / M);
            rows::<S, M, REDUCE>(f, &mut v, &w);
            store(f.s, x, g * len + j, len / M, &v);
        }
    }
}

#[inline(always)]
fn run_pass<S: Simd>(
    f: Field<S>,
    x: Limb,
    tables: &Tables,
    pass: Pass,
    groups: (usize, usize),
    ahead: &mut impl Ahead,
) {
    match (pass.log_radix, pass.reduce) {
        (1, false) => pass_rows::<S, 2, false>(f, x, tables, pass, groups, ahead),
        (1, true) => pass_rows::<S, 2, true>(f, x, tables, pass, groups, ahead),
        (2, false) => pass_rows::<S, 4, false>(f, x, tables, pass, groups, ahead),
        (2, true) => pass_rows::<S, 4, true>(f, x, tables, pass, groups, ahead),
        _ => unreachable!("passes have radix 2 or 4"),
    }
}

/// The last log2(M) levels of the blocks `first..first + count` of M x M values, M = LANES; two at a time
/// (count is even).
#[inline(always)]
fn last_levels<S: Simd, const M: usize, const LAZY: bool>(
    f: Field<S>,
    x: Limb,
    tables: &Tables,
    first: usize,
    count: usize,
    ahead: &mut impl Ahead,
) {
    for block in (first..first + count).step_by(2) {
        ahead.step();
        let at = [block * M * M, (block + 1) * M * M];
        let w = [
            lane_factors(f, &tables.forward, block),
            lane_factors(f, &tables.forward, block + 1),
        ];
        let mut v = load_transposed::<S, M>(f.s, x, at);
        lane_levels(f, &mut v, &w, tables.reduce_lanes, tables.reduce_last);
        if !LAZY {
            canonical(f, &mut v);
        }
        store_transposed(f.s, x, at, &mut v);
    }
}

/// The levels with one root per lane; the outputs are below 2^51.
#[inline(always)]
fn lane_levels<S: Simd, const M: usize>(
    f: Field<S>,
    v: &mut [[S::V; M]; 2],
    w: &[[Factor<S>; M]; 2],
    reduce_lanes: bool,
    reduce_last: bool,
) {
    if reduce_lanes {
        reduce_first_half(f, &mut v[0]);
        reduce_first_half(f, &mut v[1]);
    }
    pair_level::<S, M, 0>(f, v, w);
    if M > 4 {
        pair_level::<S, M, 1>(f, v, w);
    }
    if reduce_last {
        for i in (0..M).step_by(2) {
            v[0][i] = f.reduce(v[0][i]);
            v[1][i] = f.reduce(v[1][i]);
        }
    }
    if M > 4 {
        pair_level::<S, M, 2>(f, v, w);
    } else {
        pair_level::<S, M, 1>(f, v, w);
    }
}

#[inline(always)]
fn canonical<S: Simd, const M: usize>(f: Field<S>, v: &mut [[S::V; M]; 2]) {
    let [first, second] = v;
    for (a, b) in first.iter_mut().zip(second) {
        *a = f.canonical(*a);
        *b = f.canonical(*b);
    }
}

#[inline(always)]
fn pair_level<S: Simd, const M: usize, const L: usize>(
    f: Field<S>,
    v: &mut [[S::V; M]; 2],
    w: &[[Factor<S>; M]; 2],
) {
    level::<S, M, L>(f, &mut v[0], &w[0]);
    level::<S, M, L>(f, &mut v[1], &w[1]);
}

/// The passes over the whole limb, but for those of the first `done` levels.
#[inline(always)]
pub fn outer<S: Simd>(f: Field<S>, tables: &Tables, x: Limb, done: u32) {
    let outer = &tables.passes[..tables.outer_passes];
    for &pass in outer.iter().filter(|pass| pass.log_groups >= done) {
        run_pass(f, x, tables, pass, (0, 1 << pass.log_groups), &mut ());
    }
}

/// The rest of the transform for one block, M = LANES, but for the passes of the first `done` levels. LAZY
/// leaves values below 2^51.
#[inline(always)]
pub fn block<S: Simd, const M: usize, const LAZY: bool>(
    f: Field<S>,
    tables: &Tables,
    x: Limb,
    (block, done): (usize, u32),
    ahead: &mut impl Ahead,
) {
    let (inner, log_blocks) = (&tables.passes[tables.outer_passes..], tables.log_blocks());
    for &pass in inner.iter().filter(|pass| pass.log_groups >= done) {
        let count = 1 << (pass.log_groups - log_blocks);
        run_pass(f, x, tables, pass, (block * count, count), ahead);
    }
    let count = 1 << (tables.log_n - 2 * M.ilog2() - log_blocks);
    last_levels::<S, M, LAZY>(f, x, tables, block * count, count, ahead);
}

/// The whole transform, M = LANES, but for the passes of the first `done` levels.
#[inline(always)]
pub fn transform<S: Simd, const M: usize>(f: Field<S>, tables: &Tables, x: Limb, done: u32) {
    outer(f, tables, x, done);
    for at in 0..1usize << tables.log_blocks() {
        block::<S, M, false>(f, tables, x, (at, done), &mut ());
    }
}
