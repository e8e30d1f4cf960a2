//! Values to coefficients: Gentleman-Sande butterflies on vectors of doubles. Between passes |x| < 2p.
//!
//! Within a pass a sum doubles the bound and a product of a difference below kp is below (1/2 + k/8) p. From
//! 2p, two levels give rows below 8p (sum of sums: reduced), 2p (1 + k/2 for a sum of products of k = 2),
//! 3p/2 and p. The lane levels come first, on values in [0, p), with roots below 0.632 p: a product of kp is
//! below (1/2 + 0.237 k) p, which leaves every row below 2p too.

use super::plan::{Pass, Tables};
use super::vector::{
    broadcast, lane_factors, load, load_two, store, store_two, transpose_two, two_blocks, Limb, Strip,
};
use crate::field::{Factor, Field};
use crate::simd::Simd;
use std::ops::Range;

/// Level L of the inverse (the largest L runs first): u, v -> u + v, (u - v) w. With SCALE the sum is
/// multiplied by w[0].
#[inline(always)]
fn level<S: Simd, const M: usize, const L: usize, const SCALE: bool>(
    f: Field<S>,
    v: &mut [S::V; M],
    w: &[Factor<S>; M],
) {
    let half = M >> (L + 1);
    let low = |t: usize| (t / half) * half + t;
    for t in 0..M / 2 {
        let (a, b) = (v[low(t)], v[low(t) + half]);
        (v[low(t)], v[low(t) + half]) = (f.s.add(a, b), f.s.sub(a, b));
    }
    for t in 0..M / 2 {
        v[low(t) + half] = f.mul_by(v[low(t) + half], w[(1 << L) + t / half]);
    }
    if SCALE {
        for t in 0..M / 2 {
            v[low(t)] = f.mul_by(v[low(t)], w[0]);
        }
    } else {
        reduce_sums(f, v, half);
    }
}

/// Which rows must be reduced after the level of distance `half` so that rows below 2p leave a pass below 2p.
/// Radix 2: the sum. Radix 4: the sum of sums. Radix 8 (the blocks of AVX-512): the sums of sums after two
/// levels, and after three the rows 1 and 2, sums of a sum of products (4p) and of a product of sums (3p).
#[inline(always)]
fn reduce_sums<S: Simd, const M: usize>(f: Field<S>, v: &mut [S::V; M], half: usize) {
    for (i, row) in v.iter_mut().enumerate() {
        let twice = half == 2 && i % 4 == 0;
        let last = (M == 2 && i == 0) || (M == 8 && half == 4 && (i == 1 || i == 2));
        if twice || last {
            *row = f.reduce(*row);
        }
    }
}

#[inline(always)]
fn rows<S: Simd, const M: usize, const SCALE: bool>(f: Field<S>, v: &mut [S::V; M], w: &[Factor<S>; M]) {
    if M > 2 {
        level::<S, M, 1, false>(f, v, w);
    }
    level::<S, M, 0, SCALE>(f, v, w);
}

#[inline(always)]
fn pass_rows<S: Simd, const M: usize>(
    f: Field<S>,
    x: Limb,
    tables: &Tables,
    (pass, columns): (Pass, Option<Strip>),
    groups: Range<usize>,
) {
    let len = 1usize << (tables.log_n - pass.log_groups);
    let strip = Strip::within(columns, len / M);
    for g in groups {
        let w = broadcast::<S, M>(f.s, &tables.inverse, 1 << pass.log_groups, g);
        for row in (strip.first..len / M).step_by(strip.row) {
            for j in (row..row + strip.count).step_by(S::LANES) {
                let mut v = load::<S, M>(f.s, x, g * len + j, len / M);
                rows::<S, M, false>(f, &mut v, &w);
                store(f.s, x, g * len + j, len / M, &v);
            }
        }
    }
}

/// The pass that ends the inverse: times c/n (the products are below 3p/2), canonical or centred.
#[inline(always)]
fn final_rows<S: Simd, const M: usize, const CENTRED: bool>(
    f: Field<S>,
    x: Limb,
    tables: &Tables,
    columns: Option<Strip>,
    scale: [(f64, f64); 2],
) {
    let stride = (1usize << tables.log_n) / M;
    let strip = Strip::within(columns, stride);
    let mut w = broadcast::<S, M>(f.s, &tables.inverse, 1, 0);
    (w[0], w[1]) = (f.splat_factor(scale[0]), f.splat_factor(scale[1]));
    for row in (strip.first..stride).step_by(strip.row) {
        for j in (row..row + strip.count).step_by(S::LANES) {
            let mut v = load::<S, M>(f.s, x, j, stride);
            rows::<S, M, true>(f, &mut v, &w);
            for row in v.iter_mut() {
                *row = if CENTRED {
                    f.reduce(*row)
                } else {
                    f.canonical(*row)
                };
            }
            store(f.s, x, j, stride, &v);
        }
    }
}

#[inline(always)]
fn run_pass<S: Simd, const CENTRED: bool>(
    f: Field<S>,
    x: Limb,
    tables: &Tables,
    pass: (Pass, Option<Strip>),
    groups: Range<usize>,
    scale: [(f64, f64); 2],
) {
    match (pass.0.log_groups, pass.0.log_radix) {
        (0, 1) => final_rows::<S, 2, CENTRED>(f, x, tables, pass.1, scale),
        (0, 2) => final_rows::<S, 4, CENTRED>(f, x, tables, pass.1, scale),
        (_, 1) => pass_rows::<S, 2>(f, x, tables, pass, groups),
        (_, 2) => pass_rows::<S, 4>(f, x, tables, pass, groups),
        _ => unreachable!("passes have radix 2 or 4"),
    }
}

/// All levels within the blocks `first..first + count` of M x M values, M = LANES: those of their lanes, then
/// those of their rows. Two blocks at a time (count is even).
#[inline(always)]
fn first_levels<S: Simd, const M: usize>(
    f: Field<S>,
    (from, x): (Limb, Limb),
    tables: &Tables,
    first: usize,
    count: usize,
) {
    for block in (first..first + count).step_by(2) {
        let at = two_blocks([x], block);
        let w = [
            lane_factors(f, &tables.inverse, at[0].1),
            lane_factors(f, &tables.inverse, at[1].1),
        ];
        let mut v = load_two::<S, M>(f.s, two_blocks([from], block));
        transpose_two(f.s, &mut v);
        if M > 4 {
            pair_level::<S, M, 2>(f, &mut v, &w);
        }
        pair_level::<S, M, 1>(f, &mut v, &w);
        pair_level::<S, M, 0>(f, &mut v, &w);
        transpose_two(f.s, &mut v);
        row_levels(f, &mut v, tables, at.map(|(_, block)| block));
        store_two(f.s, at, &v);
    }
}

/// The levels after those of the lanes, on rows of two blocks: two, or the three that there are for M = 8.
#[inline(always)]
fn row_levels<S: Simd, const M: usize>(
    f: Field<S>,
    v: &mut [[S::V; M]; 2],
    tables: &Tables,
    [first, second]: [usize; 2],
) {
    let groups = 1 << (tables.log_n - 2 * M.ilog2());
    let w = [
        broadcast::<S, M>(f.s, &tables.inverse, groups, first),
        broadcast::<S, M>(f.s, &tables.inverse, groups, second),
    ];
    if M > 4 {
        pair_level::<S, M, 2>(f, v, &w);
    }
    pair_level::<S, M, 1>(f, v, &w);
    if M == 4 || tables.rows.log_radix == 3 {
        pair_level::<S, M, 0>(f, v, &w);
    }
}

#[inline(always)]
fn pair_level<S: Simd, const M: usize, const L: usize>(
    f: Field<S>,
    v: &mut [[S::V; M]; 2],
    w: &[[Factor<S>; M]; 2],
) {
    level::<S, M, L, false>(f, &mut v[0], &w[0]);
    level::<S, M, L, false>(f, &mut v[1], &w[1]);
}

/// The whole transform in place, M = LANES: canonical. scale: see [`Tables::scale`].
#[inline(always)]
pub fn canonical<S: Simd, const M: usize>(
    f: Field<S>,
    tables: &Tables,
    [x]: [Limb; 1],
    scale: [(f64, f64); 2],
) {
    inner::<S, M, false>(f, tables, [x, x], 0..1 << tables.log_blocks(), scale);
    outer::<S, false>(f, tables, [x], None, scale);
}

/// The levels that concern some blocks, from the first limb, which may be the second one, into the second.
/// Without passes over the whole limb these are all, and the result is centred or canonical.
#[inline(always)]
pub fn inner<S: Simd, const M: usize, const CENTRED: bool>(
    f: Field<S>,
    tables: &Tables,
    [from, x]: [Limb; 2],
    blocks: Range<usize>,
    scale: [(f64, f64); 2],
) {
    let (inner, log_blocks) = (&tables.passes[tables.outer_passes..], tables.log_blocks());
    for block in blocks {
        let count = 1 << (tables.log_n - 2 * M.ilog2() - log_blocks);
        first_levels::<S, M>(f, (from, x), tables, block * count, count);
        for &pass in inner.iter().rev() {
            let count = 1 << (pass.log_groups - log_blocks);
            let groups = block * count..(block + 1) * count;
            run_pass::<S, CENTRED>(f, x, tables, (pass, None), groups, scale);
        }
    }
}

/// The passes over the whole limb, or these columns of it.
#[inline(always)]
pub fn outer<S: Simd, const CENTRED: bool>(
    f: Field<S>,
    tables: &Tables,
    [x]: [Limb; 1],
    columns: Option<Strip>,
    scale: [(f64, f64); 2],
) {
    for &pass in tables.passes[..tables.outer_passes].iter().rev() {
        run_pass::<S, CENTRED>(f, x, tables, (pass, columns), 0..1 << pass.log_groups, scale);
    }
}
