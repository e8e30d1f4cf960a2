//! The definition, in u64/u128 integers.

use super::{shape, Accumulator, Factor};
use crate::kernels::reference::tensor_accumulate;
use crate::Modulus;

pub fn outer(
    m: &Modulus,
    acc: &mut [Accumulator<'_>],
    left: &[Factor<'_>],
    right: &[Factor<'_>],
    rows: usize,
    fresh: bool,
) {
    let (columns, terms, _) = shape(acc, left, right, rows);
    for (at, [d0, d1, d2]) in acc.iter_mut().enumerate() {
        if fresh {
            [&mut *d0, d1, d2].into_iter().for_each(|d| d.fill(0.0));
        }
        for c in 0..terms {
            let [a0, a1] = left[c * rows + at / columns];
            let [b0, b1] = right[c * columns + at % columns];
            tensor_accumulate(m, d0, d1, d2, a0, a1, b0, b1);
        }
    }
}
