//! The transforms on vectors of doubles. Ranges: forward, see `plan`; inverse, |x| < 2p between passes.

use super::plan::{Pass, Roots, Tables};
use crate::field::Field;
use crate::simd::{Avx2, Avx512, Simd};
use crate::Modulus;

type Factor<S> = (<S as Simd>::V, <S as Simd>::V);

/// A limb as raw memory. Invariant: `at` is valid for reads and writes of n doubles, and all offsets below stay under n.
#[derive(Clone, Copy)]
struct Limb(*mut f64);

macro_rules! instantiate {
    ($name:ident, $body:ident, $simd:ident, $features:literal) => {
        /// Only called for a path that the processor supports.
        pub fn $name(m: &Modulus, tables: &Tables, x: &mut [f64]) {
            #[target_feature(enable = $features)]
            fn inner(m: &Modulus, tables: &Tables, x: &mut [f64]) {
                // SAFETY: this function enables the features.
                $body(unsafe { <$simd as Simd>::assume() }, m, tables, x)
            }
            // SAFETY: `simd::path` only names what the processor supports.
            unsafe { inner(m, tables, x) }
        }
    };
}
instantiate!(forward_avx2, forward_4, Avx2, "avx2,fma");
instantiate!(forward_avx512, forward_8, Avx512, "avx2,fma,avx512f,avx512dq");
instantiate!(inverse_avx2, inverse_4, Avx2, "avx2,fma");
instantiate!(inverse_avx512, inverse_8, Avx512, "avx2,fma,avx512f,avx512dq");

/// Level L of a block of M rows: u, v -> u + wv, u - wv. Roots in heap order: 2^L + block.
#[inline(always)]
fn forward_level<S: Simd, const M: usize, const L: usize>(f: Field<S>, v: &mut [S::V; M], w: &[Factor<S>; M]) {
    let half = M >> (L + 1);
    for t in 0..M / 2 {
        let (block, low) = (t / half, (t / half) * half + t);
        let product = f.mul_by(v[low + half], w[(1 << L) + block]);
        v[low + half] = f.s.sub(v[low], product);
        v[low] = f.s.add(v[low], product);
    }
}

#[inline(always)]
fn forward_rows<S: Simd, const M: usize>(f: Field<S>, v: &mut [S::V; M], w: &[Factor<S>; M], reduce: bool) {
    if reduce {
        for row in v.iter_mut().take(M / 2) {
            *row = f.reduce(*row);
        }
    }
    forward_level::<S, M, 0>(f, v, w);
    if M > 2 {
        forward_level::<S, M, 1>(f, v, w);
    }
    if M > 4 {
        forward_level::<S, M, 2>(f, v, w);
    }
    if M > 8 {
        forward_level::<S, M, 3>(f, v, w);
    }
}

/// The roots of M rows of group g out of `groups`, in heap order.
#[inline(always)]
fn broadcast<S: Simd, const M: usize>(s: S, roots: &Roots, groups: usize, g: usize) -> [Factor<S>; M] {
    let mut w = [(s.splat(0.0), s.splat(0.0)); M];
    for (i, w) in w.iter_mut().enumerate().skip(1) {
        let level = i.ilog2();
        let at = 2 * (((groups + g) << level) + i - (1 << level));
        *w = (s.splat(roots.broadcast[at]), s.splat(roots.broadcast[at + 1]));
    }
    w
}

#[inline(always)]
fn load<S: Simd, const M: usize>(s: S, x: Limb, offset: usize, stride: usize) -> [S::V; M] {
    let mut v = [s.splat(0.0); M];
    for (i, v) in v.iter_mut().enumerate() {
        // SAFETY: the invariant of `Limb`.
        *v = unsafe { s.load(x.0.add(offset + i * stride)) };
    }
    v
}

#[inline(always)]
fn store<S: Simd, const M: usize>(s: S, x: Limb, offset: usize, stride: usize, v: &[S::V; M]) {
    for (i, v) in v.iter().enumerate() {
        // SAFETY: the invariant of `Limb`.
        unsafe { s.store(x.0.add(offset + i * stride), *v) };
    }
}

/// Levels of one pass over the groups `first..first + count`.
#[inline(always)]
fn forward_pass<S: Simd, const M: usize, const REDUCE: bool>(
    f: Field<S>,
    x: Limb,
    tables: &Tables,
    pass: Pass,
    first: usize,
    count: usize,
) {
    let len = 1usize << (tables.log_n - pass.log_groups);
    for g in first..first + count {
        let w = broadcast::<S, M>(f.s, &tables.forward, 1 << pass.log_groups, g);
        for j in (0..len / M).step_by(S::LANES) {
            let mut v = load::<S, M>(f.s, x, g * len + j, len / M);
            forward_rows(f, &mut v, &w, REDUCE);
            store(f.s, x, g * len + j, len / M, &v);
        }
    }
}

#[inline(always)]
fn forward_any<S: Simd>(f: Field<S>, x: Limb, tables: &Tables, pass: Pass, first: usize, count: usize) {
    match (pass.log_radix, pass.reduce) {
        (1, false) => forward_pass::<S, 2, false>(f, x, tables, pass, first, count),
        (1, true) => forward_pass::<S, 2, true>(f, x, tables, pass, first, count),
        (2, false) => forward_pass::<S, 4, false>(f, x, tables, pass, first, count),
        (2, true) => forward_pass::<S, 4, true>(f, x, tables, pass, first, count),
        (3, false) => forward_pass::<S, 8, false>(f, x, tables, pass, first, count),
        (3, true) => forward_pass::<S, 8, true>(f, x, tables, pass, first, count),
        (4, false) => forward_pass::<S, 16, false>(f, x, tables, pass, first, count),
        (4, true) => forward_pass::<S, 16, true>(f, x, tables, pass, first, count),
        _ => unreachable!("passes have radix 2 to 16"),
    }
}

/// The vectors of roots of one block, in heap order.
#[inline(always)]
fn lane_factors<S: Simd, const M: usize>(f: Field<S>, roots: &Roots, block: usize) -> [Factor<S>; M] {
    let table = &roots.lanes[block * (M - 1) * M..][..(M - 1) * M];
    let mut w = [(f.p, f.p); M];
    for (i, w) in w.iter_mut().enumerate().skip(1) {
        // SAFETY: i < M, so the vector ends within the table of the block.
        *w = f.factor(unsafe { f.s.load(table.as_ptr().add((i - 1) * M)) });
    }
    w
}

/// The last 2 log2(M) levels of the blocks `first..first + count`, M = LANES.
#[inline(always)]
fn forward_last<S: Simd, const M: usize>(f: Field<S>, x: Limb, tables: &Tables, first: usize, count: usize) {
    let blocks = 1usize << (tables.log_n - 2 * M.ilog2());
    for block in first..first + count {
        let w = broadcast::<S, M>(f.s, &tables.forward, blocks, block);
        let mut v = load::<S, M>(f.s, x, block * M * M, M);
        forward_rows(f, &mut v, &w, tables.reduce_last);
        f.s.transpose(&mut v);
        forward_lanes(f, &mut v, &lane_factors(f, &tables.forward, block));
        f.s.transpose(&mut v);
        store(f.s, x, block * M * M, M, &v);
    }
}

/// The levels with one root per lane; reduced so that the last outputs are below 2p, then made canonical.
#[inline(always)]
fn forward_lanes<S: Simd, const M: usize>(f: Field<S>, v: &mut [S::V; M], w: &[Factor<S>; M]) {
    for row in v.iter_mut().take(M / 2) {
        *row = f.reduce(*row);
    }
    forward_level::<S, M, 0>(f, v, w);
    if M > 4 {
        forward_level::<S, M, 1>(f, v, w);
    }
    for row in v.iter_mut().step_by(2) {
        *row = f.reduce(*row);
    }
    if M > 4 {
        forward_level::<S, M, 2>(f, v, w);
    } else {
        forward_level::<S, M, 1>(f, v, w);
    }
    for row in v.iter_mut() {
        *row = f.canonical(*row);
    }
}

#[inline(always)]
fn forward_blocks<S: Simd, const M: usize>(s: S, m: &Modulus, tables: &Tables, x: &mut [f64]) {
    assert_eq!(x.len(), 1 << tables.log_n);
    let (f, x) = (Field::new(s, m), Limb(x.as_mut_ptr()));
    let (outer, inner) = tables.passes.split_at(tables.outer_passes);
    for &pass in outer {
        forward_any(f, x, tables, pass, 0, 1 << pass.log_groups);
    }
    let log_blocks: u32 = outer.iter().map(|pass| pass.log_radix).sum();
    for block in 0..1usize << log_blocks {
        for &pass in inner {
            let count = 1 << (pass.log_groups - log_blocks);
            forward_any(f, x, tables, pass, block * count, count);
        }
        let count = 1 << (tables.log_n - 2 * M.ilog2() - log_blocks);
        forward_last::<S, M>(f, x, tables, block * count, count);
    }
}

#[inline(always)]
fn forward_4(s: Avx2, m: &Modulus, tables: &Tables, x: &mut [f64]) {
    forward_blocks::<_, 4>(s, m, tables, x);
}

#[inline(always)]
fn forward_8(s: Avx512, m: &Modulus, tables: &Tables, x: &mut [f64]) {
    forward_blocks::<_, 8>(s, m, tables, x);
}

/// Level L of the inverse (the largest L runs first): u, v -> u + v, (u - v) w. With SCALE the sum is multiplied too.
#[inline(always)]
fn inverse_level<S: Simd, const M: usize, const L: usize, const SCALE: bool>(
    f: Field<S>,
    v: &mut [S::V; M],
    w: &[Factor<S>; M],
) {
    let half = M >> (L + 1);
    for t in 0..M / 2 {
        let (block, low) = (t / half, (t / half) * half + t);
        let (sum, difference) = (f.s.add(v[low], v[low + half]), f.s.sub(v[low], v[low + half]));
        v[low] = if SCALE { f.mul_by(sum, w[0]) } else { sum };
        v[low + half] = f.mul_by(difference, w[(1 << L) + block]);
    }
    if !SCALE {
        reduce_sums(f, v, half);
    }
}

/// Which rows must be reduced after the level of distance `half`, so that rows of less than 2p leave as rows of less than 2p:
/// radix 4 and 16, those that were sums twice since the last reduction; radix 2, the sum; radix 8, rows 1 and 2 at the end.
#[inline(always)]
fn reduce_sums<S: Simd, const M: usize>(f: Field<S>, v: &mut [S::V; M], half: usize) {
    for (i, row) in v.iter_mut().enumerate() {
        let twice = (half == 2 && i % 4 == 0) || (half == 8 && i % 16 < 4);
        let last = (M == 2 && i == 0) || (M == 8 && half == 4 && (i == 1 || i == 2));
        if twice || last {
            *row = f.reduce(*row);
        }
    }
}

#[inline(always)]
fn inverse_rows<S: Simd, const M: usize, const SCALE: bool>(f: Field<S>, v: &mut [S::V; M], w: &[Factor<S>; M]) {
    if M > 8 {
        inverse_level::<S, M, 3, false>(f, v, w);
    }
    if M > 4 {
        inverse_level::<S, M, 2, false>(f, v, w);
    }
    if M > 2 {
        inverse_level::<S, M, 1, false>(f, v, w);
    }
    inverse_level::<S, M, 0, SCALE>(f, v, w);
}

#[inline(always)]
fn inverse_pass<S: Simd, const M: usize>(
    f: Field<S>,
    x: Limb,
    tables: &Tables,
    pass: Pass,
    first: usize,
    count: usize,
) {
    let len = 1usize << (tables.log_n - pass.log_groups);
    for g in first..first + count {
        let w = broadcast::<S, M>(f.s, &tables.inverse, 1 << pass.log_groups, g);
        for j in (0..len / M).step_by(S::LANES) {
            let mut v = load::<S, M>(f.s, x, g * len + j, len / M);
            inverse_rows::<S, M, false>(f, &mut v, &w);
            store(f.s, x, g * len + j, len / M, &v);
        }
    }
}

/// The pass that ends the inverse: times 1/n (products are below 3p/2), canonical.
#[inline(always)]
fn inverse_final<S: Simd, const M: usize>(f: Field<S>, x: Limb, tables: &Tables) {
    let stride = (1usize << tables.log_n) / M;
    let mut w = broadcast::<S, M>(f.s, &tables.inverse, 1, 0);
    (w[0], w[1]) = (f.splat_factor(tables.scale[0]), f.splat_factor(tables.scale[1]));
    for j in (0..stride).step_by(S::LANES) {
        let mut v = load::<S, M>(f.s, x, j, stride);
        inverse_rows::<S, M, true>(f, &mut v, &w);
        for row in v.iter_mut() {
            *row = f.canonical(*row);
        }
        store(f.s, x, j, stride, &v);
    }
}

#[inline(always)]
fn inverse_any<S: Simd>(f: Field<S>, x: Limb, tables: &Tables, pass: Pass, first: usize, count: usize) {
    match (pass.log_groups, pass.log_radix) {
        (0, 1) => inverse_final::<S, 2>(f, x, tables),
        (0, 2) => inverse_final::<S, 4>(f, x, tables),
        (0, 3) => inverse_final::<S, 8>(f, x, tables),
        (0, 4) => inverse_final::<S, 16>(f, x, tables),
        (_, 1) => inverse_pass::<S, 2>(f, x, tables, pass, first, count),
        (_, 2) => inverse_pass::<S, 4>(f, x, tables, pass, first, count),
        (_, 3) => inverse_pass::<S, 8>(f, x, tables, pass, first, count),
        (_, 4) => inverse_pass::<S, 16>(f, x, tables, pass, first, count),
        _ => unreachable!("passes have radix 2 to 16"),
    }
}

#[inline(always)]
fn inverse_first<S: Simd, const M: usize>(f: Field<S>, x: Limb, tables: &Tables, first: usize, count: usize) {
    let blocks = 1usize << (tables.log_n - 2 * M.ilog2());
    for block in first..first + count {
        let mut v = load::<S, M>(f.s, x, block * M * M, M);
        f.s.transpose(&mut v);
        inverse_rows::<S, M, false>(f, &mut v, &lane_factors(f, &tables.inverse, block));
        f.s.transpose(&mut v);
        inverse_rows::<S, M, false>(f, &mut v, &broadcast::<S, M>(f.s, &tables.inverse, blocks, block));
        store(f.s, x, block * M * M, M, &v);
    }
}

#[inline(always)]
fn inverse_blocks<S: Simd, const M: usize>(s: S, m: &Modulus, tables: &Tables, x: &mut [f64]) {
    assert_eq!(x.len(), 1 << tables.log_n);
    let (f, x) = (Field::new(s, m), Limb(x.as_mut_ptr()));
    let (outer, inner) = tables.passes.split_at(tables.outer_passes);
    let log_blocks: u32 = outer.iter().map(|pass| pass.log_radix).sum();
    for block in 0..1usize << log_blocks {
        let count = 1 << (tables.log_n - 2 * M.ilog2() - log_blocks);
        inverse_first::<S, M>(f, x, tables, block * count, count);
        for &pass in inner.iter().rev() {
            let count = 1 << (pass.log_groups - log_blocks);
            inverse_any(f, x, tables, pass, block * count, count);
        }
    }
    for &pass in outer.iter().rev() {
        inverse_any(f, x, tables, pass, 0, 1 << pass.log_groups);
    }
}

#[inline(always)]
fn inverse_4(s: Avx2, m: &Modulus, tables: &Tables, x: &mut [f64]) {
    inverse_blocks::<_, 4>(s, m, tables, x);
}

#[inline(always)]
fn inverse_8(s: Avx512, m: &Modulus, tables: &Tables, x: &mut [f64]) {
    inverse_blocks::<_, 8>(s, m, tables, x);
}
