//! What both directions share: access to the limb and to the roots, and the instances per path.

use super::plan::{Roots, Tables};
use crate::ahead::Lines;
use crate::field::{Factor, Field};
#[cfg(target_arch = "aarch64")]
use crate::simd::Neon as Four;
use crate::simd::Simd;
#[cfg(target_arch = "x86_64")]
use crate::simd::{Avx2 as Four, Avx512};
use crate::Modulus;
use std::ops::Range;

/// A limb as raw memory. Invariant: `at` is valid for reads and writes of n doubles, and the offsets of the
/// passes stay below
/// n: they are `group * len + j + row * stride` with `group < n / len`, `row * stride + j + LANES <= len`.
#[derive(Clone, Copy)]
pub struct Limb(*mut f64);

impl Limb {
    pub fn new(x: &mut [f64], n: usize) -> Self {
        assert_eq!(x.len(), n, "the limb has another length than the table");
        Self(x.as_mut_ptr())
    }

    /// A limb that is only read.
    pub fn source(x: &[f64], n: usize) -> Self {
        assert_eq!(x.len(), n, "the limb has another length than the table");
        Self(x.as_ptr().cast_mut())
    }

    /// Values from `start` on.
    pub fn at(self, start: usize) -> *mut f64 {
        self.0.wrapping_add(start)
    }
}

/// Columns of a limb whose rows are its blocks: `count` of them from `first` on, multiples of LANES.
#[derive(Clone, Copy)]
pub struct Strip {
    pub first: usize,
    pub count: usize,
    pub row: usize,
}

impl Strip {
    /// What a pass over rows `stride` apart takes: these columns, or all of them.
    #[inline(always)]
    pub fn within(columns: Option<Self>, stride: usize) -> Self {
        let whole = Self {
            first: 0,
            count: stride,
            row: stride,
        };
        columns.unwrap_or(whole)
    }
}

/// M vectors, `stride` apart.
#[inline(always)]
pub fn load<S: Simd, const M: usize>(s: S, x: Limb, offset: usize, stride: usize) -> [S::V; M] {
    let mut v = [s.splat(0.0); M];
    for (i, v) in v.iter_mut().enumerate() {
        // SAFETY: the invariant of `Limb`.
        *v = unsafe { s.load(x.0.add(offset + i * stride)) };
    }
    v
}

#[inline(always)]
pub fn store<S: Simd, const M: usize>(s: S, x: Limb, offset: usize, stride: usize, v: &[S::V; M]) {
    for (i, v) in v.iter().enumerate() {
        // SAFETY: the invariant of `Limb`.
        unsafe { s.store(x.0.add(offset + i * stride), *v) };
    }
}

/// Where two blocks of M x M values lie and which ones they are: the same block of two limbs, or two blocks
/// that follow each other in one.
#[inline(always)]
pub fn two_blocks<const K: usize>(xs: [Limb; K], block: usize) -> [(Limb, usize); 2] {
    [(xs[0], block), (xs[K - 1], block + 2 - K)]
}

/// Two blocks of M x M values.
#[inline(always)]
pub fn load_two<S: Simd, const M: usize>(s: S, at: [(Limb, usize); 2]) -> [[S::V; M]; 2] {
    let [(x, first), (y, second)] = at;
    [
        load::<S, M>(s, x, first * M * M, M),
        load::<S, M>(s, y, second * M * M, M),
    ]
}

#[inline(always)]
pub fn store_two<S: Simd, const M: usize>(s: S, at: [(Limb, usize); 2], v: &[[S::V; M]; 2]) {
    let [(x, first), (y, second)] = at;
    store(s, x, first * M * M, M, &v[0]);
    store(s, y, second * M * M, M, &v[1]);
}

#[inline(always)]
pub fn transpose_two<S: Simd, const M: usize>(s: S, v: &mut [[S::V; M]; 2]) {
    s.transpose(&mut v[0]);
    s.transpose(&mut v[1]);
}

/// The roots of M rows of group g out of `groups`, in heap order: level l, block b at 2^l + b. Entry 0 is
/// unused.
#[inline(always)]
pub fn broadcast<S: Simd, const M: usize>(s: S, roots: &Roots, groups: usize, g: usize) -> [Factor<S>; M] {
    let mut w = [(s.splat(0.0), s.splat(0.0)); M];
    assert!(M * (groups + g + 1) <= roots.broadcast.len());
    for (i, w) in w.iter_mut().enumerate().skip(1) {
        let level = i.ilog2();
        let at = 2 * (((groups + g) << level) + i - (1 << level));
        // SAFETY: i < M, so 2^level <= M/2 and at + 1 < 2 (groups + g + 1) M/2, inside by the assertion.
        *w = unsafe {
            let root = roots.broadcast.as_ptr().add(at);
            (s.splat(*root), s.splat(*root.add(1)))
        };
    }
    w
}

/// The vectors of roots of one block of M x M values, M = LANES, in heap order, made from the one that is
/// stored.
///
/// Ranges, in p, from |w| < 1/2 (see `field`): a square is below 1/2 + 3/32 = 0.594, its square below 0.632;
/// times a turn, 1/2 + 0.594 / 8. With |w| < 0.632 and w * (1/p) rounded, a product of kp is below 1/2 +
/// 0.632 * 3/8 k.
#[inline(always)]
pub fn lane_factors<S: Simd, const M: usize>(f: Field<S>, roots: &Roots, block: usize) -> [Factor<S>; M] {
    let table = &roots.lanes[block * M..][..M];
    // SAFETY: the slice holds one vector.
    let last = unsafe { f.s.load(table.as_ptr()) };
    let [i, e, ei] = roots.turns;
    let square = f.mul(last, last);
    let mut w = [f.factor(last); M];
    if M > 4 {
        w[1] = f.factor(f.mul(square, square));
        (w[2], w[3]) = (f.factor(square), turned(f, square, i));
        (w[5], w[6], w[7]) = (turned(f, last, i), turned(f, last, e), turned(f, last, ei));
    } else {
        (w[1], w[3]) = (f.factor(square), turned(f, last, i));
    }
    w
}

/// Times one of [`Roots::turns`].
#[inline(always)]
fn turned<S: Simd>(f: Field<S>, root: S::V, turn: (f64, f64)) -> Factor<S> {
    f.factor(f.mul_by(root, f.splat_factor(turn)))
}

macro_rules! instantiate {
    (
        $name:ident, $body:path, $simd:ident, $features:literal,
        [$($generic:tt)*] $limbs:tt, ($($arg:ident: $ty:ty),*)
    ) => {
        /// Only called for a path that the processor supports.
        pub fn $name<$($generic)*>(m: &Modulus, tables: &Tables, xs: [Limb; $limbs], $($arg: $ty),*) {
            #[target_feature(enable = $features)]
            fn inner<$($generic)*>(m: &Modulus, tables: &Tables, xs: [Limb; $limbs], $($arg: $ty),*) {
                // SAFETY: this function enables the features.
                let s = unsafe { <$simd as Simd>::assume() };
                $body(Field::new(s, m), tables, xs, $($arg),*)
            }
            // SAFETY: `simd::path` only names what the processor supports.
            unsafe { inner(m, tables, xs, $($arg),*) }
        }
    };
}

/// A part of the transform for four lanes and for eight, of how many limbs.
macro_rules! on_both {
    ($four:ident: $of_four:path, $eight:ident: $of_eight:path, $generics:tt $limbs:tt, $args:tt) => {
        #[cfg(target_arch = "x86_64")]
        instantiate!($four, $of_four, Four, "avx2,fma", $generics $limbs, $args);
        #[cfg(target_arch = "aarch64")]
        instantiate!($four, $of_four, Four, "neon", $generics $limbs, $args);
        #[cfg(target_arch = "x86_64")]
        instantiate!($eight, $of_eight, Avx512, "avx2,fma,avx512f,avx512dq", $generics $limbs, $args);
    };
}
on_both!(
    forward_four: super::forward::transform::<Four, 4, K>,
    forward_eight: super::forward::transform::<Avx512, 8, K>,
    [const K: usize] K,
    (done: u32)
);
on_both!(
    outer_four: super::forward::outer::<Four>,
    outer_eight: super::forward::outer::<Avx512>,
    [] 1,
    (done: u32, columns: Option<Strip>)
);
on_both!(
    blocks_four: super::forward::blocks::<Four, 4, K>,
    blocks_eight: super::forward::blocks::<Avx512, 8, K>,
    [const K: usize] K,
    (blocks: Range<usize>, done: u32)
);
on_both!(
    block_four: super::forward::block::<Four, 4, K, true>,
    block_eight: super::forward::block::<Avx512, 8, K, true>,
    [const K: usize] K,
    (at: (usize, u32), ahead: &mut Lines)
);
on_both!(
    inverse_four: super::inverse::canonical::<Four, 4>,
    inverse_eight: super::inverse::canonical::<Avx512, 8>,
    [] 1,
    (scale: [(f64, f64); 2])
);
on_both!(
    inner_four: super::inverse::inner::<Four, 4, true>,
    inner_eight: super::inverse::inner::<Avx512, 8, true>,
    [] 2,
    (blocks: Range<usize>, scale: [(f64, f64); 2])
);
on_both!(
    outer_inverse_four: super::inverse::outer::<Four, true>,
    outer_inverse_eight: super::inverse::outer::<Avx512, true>,
    [] 1,
    (columns: Option<Strip>, scale: [(f64, f64); 2])
);
