//! The product on vectors of doubles. What does not come in whole tiles goes to the reference path.
//!
//! A *tile* is C vectors of coefficients. A *panel* holds one tile of all inputs: for each input the low
//! halves, then the high halves. Bounds of the last step: sums are integers of at most 2^53, and for |a| <=
//! 2^53 and p > 2^20 the quotient of `Field::reduce` is off from a/p by at most 1/2 + 2^-18, so that the
//! remainder is exact and just above p/2 at most.

use super::{check, reference, Input, Weights, HALF_BITS, ROWS};
use crate::ahead::fetch_near;
use crate::field::Field;
use crate::simd::Simd;
use crate::{AlignedVec, Modulus};

/// Doubles of the panels that are packed at a time: half of a second-level cache of 1 MB.
const PANELS: usize = 1 << 16;
/// Inputs that are asked for ahead of their packing: lines at one place of many limbs share a set of eight in
/// the cache.
const AHEAD: usize = 6;

/// The sums of one tile: by row, by half (low, high), by vector.
type Sums<S, const C: usize> = [[[<S as Simd>::V; C]; 2]; ROWS];
/// The factors of a row's low and high sums.
type Factors = [(f64, f64); 2];

#[inline(always)]
pub fn product<S: Simd>(
    s: S,
    m: &Modulus,
    weights: &Weights,
    inputs: &[Input<'_>],
    first: usize,
    out: &mut [&mut [f64]],
) {
    let len = check(weights, inputs, first, out);
    let tile = if S::LANES == 8 { 16 } else { S::LANES };
    let whole = |x: &Input<'_>| x.runs.is_empty() || (x.limb.len() / x.runs.len()).is_multiple_of(tile);
    if !(len.is_multiple_of(tile) && first.is_multiple_of(tile) && inputs.iter().all(whole)) {
        reference::product(m, weights, inputs, first, out);
    } else if S::LANES == 8 {
        tiled::<S, 2>(s, m, weights, inputs, first, out);
    } else {
        tiled::<S, 1>(s, m, weights, inputs, first, out);
    }
}

/// As many tiles at a time as the cache takes; the block of weights stays in the first-level cache from tile
/// to tile.
#[inline(always)]
fn tiled<S: Simd, const C: usize>(
    s: S,
    m: &Modulus,
    weights: &Weights,
    inputs: &[Input<'_>],
    first: usize,
    out: &mut [&mut [f64]],
) {
    let (f, tile, len) = (Field::new(s, m), C * S::LANES, out[0].len());
    let panel = 2 * tile * weights.depth();
    let step = (PANELS / panel).max(1).min(len / tile);
    let mut panels = AlignedVec::scratch(step * panel);
    let factors: Vec<Factors> = (0..weights.rows())
        .map(|o| factors(m, weights.multiplier(o)))
        .collect();
    for start in (0..len).step_by(step * tile) {
        let tiles = step.min((len - start) / tile);
        let panels = &mut panels[..tiles * panel];
        pack::<S, C>(f, m, inputs, first + start, panels);
        let rows = out.chunks_mut(ROWS).zip(factors.chunks(ROWS));
        for (w, (out, factors)) in weights.blocks().zip(rows) {
            for (t, panel) in panels.chunks_exact(panel).enumerate() {
                let sums = accumulate::<S, C>(s, w, panel);
                store::<S, C>(f, &sums, factors, out, start + t * tile);
            }
        }
    }
}

/// (c, c * 2^25) modulo p.
fn factors(m: &Modulus, c: i128) -> Factors {
    let c = m.from_i128(c);
    [m.factor(c), m.factor(m.mul(c, 1 << HALF_BITS))]
}

/// Splits one tile after the other of every input.
#[inline(always)]
fn pack<S: Simd, const C: usize>(
    f: Field<S>,
    m: &Modulus,
    inputs: &[Input<'_>],
    first: usize,
    panels: &mut [f64],
) {
    let (tile, depth) = (C * S::LANES, inputs.len());
    let coefficients = panels.len() / (2 * depth);
    for (k, x) in inputs.iter().enumerate() {
        if let Some(next) = inputs.get(k + AHEAD) {
            prefetch(&next.limb[first..first + coefficients]);
        }
        for (t, panel) in panels.chunks_exact_mut(2 * tile * depth).enumerate() {
            let at = first + t * tile;
            let factor = x.factor(at).map(|w| f.splat_factor(m.factor(w)));
            let (low, high) = panel[2 * tile * k..][..2 * tile].split_at_mut(tile);
            let halves = low
                .chunks_exact_mut(S::LANES)
                .zip(high.chunks_exact_mut(S::LANES));
            for (x, (low, high)) in x.limb[at..at + tile].chunks_exact(S::LANES).zip(halves) {
                // SAFETY: the three chunks are of LANES doubles.
                unsafe {
                    let (lo, hi) = split(f, f.s.load(x.as_ptr()), factor);
                    f.s.store(low.as_mut_ptr(), lo);
                    f.s.store(high.as_mut_ptr(), hi);
                }
            }
        }
    }
}

/// Asks for the cache lines of a few coefficients: no stream that the processor would foresee.
#[inline(always)]
fn prefetch(x: &[f64]) {
    for line in x.chunks(8) {
        fetch_near(line.as_ptr().cast());
    }
}

/// The halves of the centred residue of x times the factor: both at most 2^24, since the residue is below
/// 2^49.
#[inline(always)]
fn split<S: Simd>(f: Field<S>, x: S::V, factor: Option<(S::V, S::V)>) -> (S::V, S::V) {
    let x = match factor {
        Some(w) => f.reduce(f.mul_by(x, w)),
        None => f.center(x),
    };
    let unit = f64::from(1u32 << HALF_BITS);
    let high = f.s.round(f.s.mul(x, f.s.splat(1.0 / unit)));
    (f.s.fnma(high, f.s.splat(unit), x), high)
}

/// The sums of `ROWS` rows over the whole depth, in registers.
#[inline(always)]
fn accumulate<S: Simd, const C: usize>(s: S, weights: &[f64], panel: &[f64]) -> Sums<S, C> {
    let mut sums = [[[s.splat(0.0); C]; 2]; ROWS];
    for (w, x) in weights
        .chunks_exact(ROWS)
        .zip(panel.chunks_exact(2 * C * S::LANES))
    {
        // SAFETY: h * C + c < 2C, and the chunk is of 2C vectors.
        let load = |h: usize, c: usize| unsafe { s.load(x.as_ptr().add((h * C + c) * S::LANES)) };
        let x: [[S::V; C]; 2] = std::array::from_fn(|h| std::array::from_fn(|c| load(h, c)));
        for r in 0..ROWS {
            let w = s.splat(w[r]);
            for h in 0..2 {
                for c in 0..C {
                    sums[r][h][c] = s.fma(x[h][c], w, sums[r][h][c]);
                }
            }
        }
    }
    sums
}

/// Reduces the sums of a tile and writes them: one row for each output that is there.
#[inline(always)]
fn store<S: Simd, const C: usize>(
    f: Field<S>,
    sums: &Sums<S, C>,
    factors: &[Factors],
    out: &mut [&mut [f64]],
    at: usize,
) {
    for ((sums, factors), out) in sums.iter().zip(factors).zip(out) {
        let [low, high] = factors.map(|w| f.splat_factor(w));
        for (c, out) in out[at..at + C * S::LANES].chunks_exact_mut(S::LANES).enumerate() {
            let lo = f.mul_by(f.reduce(sums[0][c]), low);
            let hi = f.mul_by(f.reduce(sums[1][c]), high);
            // SAFETY: the chunk is of LANES doubles.
            unsafe { f.s.store(out.as_mut_ptr(), f.canonical_wide(f.s.add(lo, hi))) };
        }
    }
}
