//! The sums in integers.
use super::{check, Panels, Tiles, Weights, ROWS, WIDTH};
use crate::Modulus;

pub fn sums(
    m: &Modulus,
    tiles: &Tiles,
    (weights, first): (&Weights, usize),
    panels: &Panels,
    out: &mut [&mut [f64]],
    replace: bool,
) {
    check(tiles, weights, first, panels, out);
    for (t, (inputs, out)) in tiles.inputs_by_tile().zip(out.chunks_mut(ROWS)).enumerate() {
        for (row, out) in out.iter_mut().enumerate() {
            for (i, x) in out.iter_mut().enumerate() {
                let weights = weights.at(t, inputs.len(), first + i);
                let panel = panels.at(i / WIDTH * WIDTH);
                let before = if replace { 0 } else { *x as u64 };
                let term = |k: usize| {
                    let a = panel[inputs[k] * WIDTH + i % WIDTH];
                    m.mul(a as u64, weights[ROWS * k + row] as u64)
                };
                *x = (0..inputs.len()).fold(before, |sum, k| m.add(sum, term(k))) as f64;
            }
        }
    }
}
