//! Coefficients to values: Cooley-Tukey butterflies on vectors of doubles. Ranges: see `plan`.
//!
//! Butterflies of a level are written step by step over all rows: independent operations next to each other
//! keep the floating-point pipes busy although each butterfly is a chain of five. (No closures around vector
//! operations: a closure does not inherit the target features of the function it stands in, and would be
//! called.)

use super::plan::{Pass, Tables};
use super::vector::{
    broadcast, lane_factors, load, load_two, store, store_two, transpose_two, two_blocks, Limb, Strip,
};
use crate::ahead::Ahead;
use crate::field::{Factor, Field};
use crate::simd::Simd;
use std::ops::Range;

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
        v[low(t) + half] = f.s.fnma(v[low(t) + half], root(t).0, h[t]);
    }
    for t in 0..M / 2 {
        h[t] = f.s.fnma(q[t], f.p, h[t]);
    }
    for t in 0..M / 2 {
        let product = f.s.sub(h[t], v[low(t) + half]);
        v[low(t) + half] = f.s.sub(v[low(t)], product);
        v[low(t)] = f.s.add(v[low(t)], product);
    }
}

/// What a level of rows `half` apart adds to and subtracts from.
#[inline(always)]
fn reduce_low<S: Simd, const M: usize>(f: Field<S>, v: &mut [S::V; M], half: usize) {
    for (i, row) in v.iter_mut().enumerate() {
        if i & half == 0 {
            *row = f.reduce(*row);
        }
    }
}

#[inline(always)]
fn rows<S: Simd, const M: usize, const REDUCE: bool>(f: Field<S>, v: &mut [S::V; M], w: &[Factor<S>; M]) {
    if REDUCE {
        reduce_low(f, v, M / 2);
    }
    level::<S, M, 0>(f, v, w);
    if M > 2 {
        level::<S, M, 1>(f, v, w);
    }
}

/// One pass over the groups `first..first + count`, and these columns of them. ahead: what the caches are
/// asked for meanwhile.
#[inline(always)]
fn pass_rows<S: Simd, const M: usize, const REDUCE: bool>(
    f: Field<S>,
    x: Limb,
    tables: &Tables,
    (pass, columns): (Pass, Option<Strip>),
    (first, count): (usize, usize),
    ahead: &mut impl Ahead,
) {
    let len = 1usize << (tables.log_n - pass.log_groups);
    let strip = Strip::within(columns, len / M);
    for g in first..first + count {
        let w = broadcast::<S, M>(f.s, &tables.forward, 1 << pass.log_groups, g);
        for row in (strip.first..len / M).step_by(strip.row) {
            for j in (row..row + strip.count).step_by(S::LANES) {
                ahead.step();
                let mut v = load::<S, M>(f.s, x, g * len + j, len / M);
                rows::<S, M, REDUCE>(f, &mut v, &w);
                store(f.s, x, g * len + j, len / M, &v);
            }
        }
    }
}

#[inline(always)]
fn run_pass<S: Simd>(
    f: Field<S>,
    x: Limb,
    tables: &Tables,
    pass: (Pass, Option<Strip>),
    groups: (usize, usize),
    ahead: &mut impl Ahead,
) {
    match (pass.0.log_radix, pass.0.reduce) {
        (1, false) => pass_rows::<S, 2, false>(f, x, tables, pass, groups, ahead),
        (1, true) => pass_rows::<S, 2, true>(f, x, tables, pass, groups, ahead),
        (2, false) => pass_rows::<S, 4, false>(f, x, tables, pass, groups, ahead),
        (2, true) => pass_rows::<S, 4, true>(f, x, tables, pass, groups, ahead),
        _ => unreachable!("passes have radix 2 or 4"),
    }
}

/// All levels within the blocks `first..first + count` of M x M values, M = LANES: those of their rows, then
/// those of their lanes. Two blocks at a time (count is even), of two limbs the same one, so that roots are
/// made once.
#[inline(always)]
fn last_levels<S: Simd, const M: usize, const K: usize, const LAZY: bool>(
    f: Field<S>,
    xs: [Limb; K],
    tables: &Tables,
    first: usize,
    count: usize,
    ahead: &mut impl Ahead,
) {
    for block in (first..first + count).step_by(3 - K) {
        ahead.step();
        let at = two_blocks(xs, block);
        let mut v = load_two::<S, M>(f.s, at);
        let [a, b] = &mut v;
        if K == 2 {
            row_levels(f, [a, b], tables, block);
        } else {
            row_levels(f, [a], tables, at[0].1);
            row_levels(f, [b], tables, at[1].1);
        }
        transpose_two(f.s, &mut v);
        let w = [
            lane_factors(f, &tables.forward, at[0].1),
            lane_factors(f, &tables.forward, at[1].1),
        ];
        lane_levels(f, &mut v, &w, tables.reduce_lanes, tables.reduce_last);
        if !LAZY {
            canonical(f, &mut v);
        }
        transpose_two(f.s, &mut v);
        store_two(f.s, at, &v);
    }
}

/// The levels before those of the lanes, on the rows of one block of B limbs: two, or the three that there
/// are for M = 8.
#[inline(always)]
fn row_levels<S: Simd, const M: usize, const B: usize>(
    f: Field<S>,
    mut vs: [&mut [S::V; M]; B],
    tables: &Tables,
    block: usize,
) {
    let groups = 1 << (tables.log_n - 2 * M.ilog2());
    let w = broadcast::<S, M>(f.s, &tables.forward, groups, block);
    let half = 1 << (tables.rows.log_radix - 1);
    for v in &mut vs {
        if tables.rows.reduce {
            reduce_low(f, v, half);
        }
        if M == 4 || half == 4 {
            level::<S, M, 0>(f, v, &w);
        }
    }
    for v in &mut vs {
        level::<S, M, 1>(f, v, &w);
    }
    if M > 4 {
        for v in &mut vs {
            level::<S, M, 2>(f, v, &w);
        }
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
        reduce_low(f, &mut v[0], M / 2);
        reduce_low(f, &mut v[1], M / 2);
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

/// The passes over the whole limb, or these columns of it, but for those of the first `done` levels.
#[inline(always)]
pub fn outer<S: Simd>(f: Field<S>, tables: &Tables, [x]: [Limb; 1], done: u32, columns: Option<Strip>) {
    let outer = &tables.passes[..tables.outer_passes];
    for &pass in outer.iter().filter(|pass| pass.log_groups >= done) {
        run_pass(f, x, tables, (pass, columns), (0, 1 << pass.log_groups), &mut ());
    }
}

/// The rest of the transform for one block, M = LANES, but for the passes of the first `done` levels. LAZY
/// leaves values below 2^51.
#[inline(always)]
pub fn block<S: Simd, const M: usize, const K: usize, const LAZY: bool>(
    f: Field<S>,
    tables: &Tables,
    xs: [Limb; K],
    (block, done): (usize, u32),
    ahead: &mut impl Ahead,
) {
    let (inner, log_blocks) = (&tables.passes[tables.outer_passes..], tables.log_blocks());
    for x in xs {
        for &pass in inner.iter().filter(|pass| pass.log_groups >= done) {
            let count = 1 << (pass.log_groups - log_blocks);
            run_pass(f, x, tables, (pass, None), (block * count, count), ahead);
        }
    }
    let count = 1 << (tables.log_n - 2 * M.ilog2() - log_blocks);
    last_levels::<S, M, K, LAZY>(f, xs, tables, block * count, count, ahead);
}

/// The rest of the transform for some blocks.
#[inline(always)]
pub fn blocks<S: Simd, const M: usize, const K: usize>(
    f: Field<S>,
    tables: &Tables,
    xs: [Limb; K],
    blocks: Range<usize>,
    done: u32,
) {
    for at in blocks {
        block::<S, M, K, false>(f, tables, xs, (at, done), &mut ());
    }
}

/// The whole transform, M = LANES, but for the passes of the first `done` levels.
#[inline(always)]
pub fn transform<S: Simd, const M: usize, const K: usize>(
    f: Field<S>,
    tables: &Tables,
    xs: [Limb; K],
    done: u32,
) {
    for x in xs {
        outer(f, tables, [x], done, None);
    }
    blocks::<S, M, K>(f, tables, xs, 0..1 << tables.log_blocks(), done);
}
