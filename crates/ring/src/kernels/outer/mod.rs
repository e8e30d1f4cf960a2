//! Outer products of ciphertexts: every row times every column, added up to degree-2 accumulators.
//!
//! The hot loop of encrypted attention. An accumulator is three limbs and is read and written once for all
//! terms, so the traffic per product falls with the number of terms; the factors are read once, tile by tile,
//! into a packed copy that stays in the second-level cache while all rows meet all columns.

mod generic;
mod reference;

use crate::simd::dispatch;
use crate::Modulus;

/// A limb (or the same piece of a limb) of the two polynomials of a ciphertext.
pub type Factor<'a> = [&'a [f64]; 2];
/// A limb (or the same piece of a limb) of the three polynomials of a product: d0, d1, d2.
pub type Accumulator<'a> = [&'a mut [f64]; 3];

dispatch! {
    /// acc[j * columns + i] += sum over c of left[c * rows + j] (x) right[c * columns + i], where (a0, a1)
    /// (x) (b0, b1) = (a0 b0, a0 b1 + a1 b0, a1 b1). `fresh`: accumulators are overwritten instead, and are
    /// not read.
    ///
    /// Panics when the numbers of factors do not fit. Cost: 3 products and no reduction per term and
    /// coefficient, 3 reductions per accumulator, coefficient and 8 terms.
    fn outer(
        m: &Modulus, acc: &mut [Accumulator<'_>], left: &[Factor<'_>], right: &[Factor<'_>],
        rows: usize, fresh: bool
    );
}

/// (columns, terms, length of every slice); panics when they do not fit.
fn shape(
    acc: &[Accumulator<'_>],
    left: &[Factor<'_>],
    right: &[Factor<'_>],
    rows: usize,
) -> (usize, usize, usize) {
    assert!(rows > 0 && !acc.is_empty(), "no accumulators");
    let (columns, terms) = (acc.len() / rows, left.len() / rows);
    assert!(
        acc.len() == rows * columns && left.len() == rows * terms && right.len() == columns * terms,
        "{} x {} factors for {} accumulators in {rows} rows",
        left.len(),
        right.len(),
        acc.len()
    );
    let n = acc[0][0].len();
    let fits = |lengths: [usize; 3]| lengths.iter().all(|&len| len == n);
    assert!(acc.iter().all(|d| fits([d[0].len(), d[1].len(), d[2].len()])));
    assert!(left
        .iter()
        .chain(right)
        .all(|x| fits([x[0].len(), x[1].len(), n])));
    (columns, terms, n)
}

#[cfg(test)]
mod tests;
