//! The sums on vectors of doubles. A product is below 7p/8, so that eight of them and a reduced sum, below
//! p/2 + 8, stay below 8p: see `field`.
#[cfg(target_arch = "x86_64")]
use super::ifma;
use super::{check, Panels, Tiles, Weights, ROWS, WIDTH};
use crate::field::Field;
use crate::simd::Simd;
use crate::Modulus;

/// Products between reductions.
const LAZY: usize = 8;

#[inline(always)]
pub fn sums<S: Simd>(
    s: S,
    m: &Modulus,
    tiles: &Tiles,
    (weights, first): (&Weights, usize),
    panels: &Panels,
    out: &mut [&mut [f64]],
    replace: bool,
) {
    check(tiles, weights, first, panels, out);
    #[cfg(target_arch = "x86_64")]
    if crate::simd::path() == crate::simd::Path::Ifma
        && ifma::sums(m, tiles, (weights, first), panels, out, replace)
    {
        return;
    }
    let f = Field::new(s, m);
    for at in (0..panels.block).step_by(WIDTH) {
        let panel = panels.at(at);
        for (t, (inputs, out)) in tiles.inputs_by_tile().zip(out.chunks_mut(ROWS)).enumerate() {
            let weights = weights.at(t, inputs.len(), first + at);
            if S::LANES == 8 {
                tile::<S, 2>(f, inputs, weights, panel, out, at, replace);
            } else {
                tile::<S, 1>(f, inputs, weights, panel, out, at, replace);
            }
        }
    }
}

/// One panel of up to ROWS sums, C vectors at a time.
#[inline(always)]
fn tile<S: Simd, const C: usize>(
    f: Field<S>,
    inputs: &[usize],
    weights: &[f64],
    panel: &[f64],
    out: &mut [&mut [f64]],
    at: usize,
    replace: bool,
) {
    for half in (0..WIDTH).step_by(C * S::LANES) {
        let mut sums = [[f.s.splat(0.0); C]; ROWS];
        for (inputs, weights) in inputs.chunks(LAZY).zip(weights.chunks(LAZY * ROWS)) {
            for (&input, w) in inputs.iter().zip(weights.chunks_exact(ROWS)) {
                let values = &panel[input * WIDTH + half..][..C * S::LANES];
                // SAFETY: (c + 1) * LANES <= C * LANES, the length of the slice.
                let a: [S::V; C] =
                    std::array::from_fn(|c| unsafe { f.s.load(values.as_ptr().add(c * S::LANES)) });
                for (sums, &w) in sums.iter_mut().zip(w) {
                    let w = f.s.splat(w);
                    for (sum, &a) in sums.iter_mut().zip(&a) {
                        *sum = f.s.add(*sum, f.mul(a, w));
                    }
                }
            }
            sums = sums.map(|sums| sums.map(|sum| f.reduce(sum)));
        }
        for (sums, out) in sums.iter().zip(out.iter_mut()) {
            let out = out[at + half..][..C * S::LANES].chunks_exact_mut(S::LANES);
            for (&sum, out) in sums.iter().zip(out) {
                // SAFETY: the chunk is of LANES doubles.
                unsafe {
                    let sum = if replace {
                        sum
                    } else {
                        f.s.add(sum, f.s.load(out.as_ptr()))
                    };
                    f.s.store(out.as_mut_ptr(), f.canonical_wide(sum));
                }
            }
        }
    }
}
