//! Sums of products of ciphertexts, of multiples of ciphertexts and of a constant, at one scale: made limb by
//! limb and part by part, so that every operand is read once and the sum is written once, however many terms
//! it has. A sum with products has degree 2 and is relinearised and rescaled as a whole.
use crate::evaluator::{add_scalar, complex_residues};
use crate::{Ciphertext, CkksError, Evaluator};
use num_complex::Complex64;
use rayon::prelude::*;
use std::ops::Range;
use tacita_ring::{kernels, AlignedVec};
use tacita_rlwe::ciphertext::scales_agree;
use tacita_rlwe::RnsPoly;

/// Values of a limb that stay in the first-level cache.
const PART: usize = 512;

/// The terms of a sum. Operands may have more limbs than the sum.
#[derive(Default)]
pub(crate) struct Sum<'a> {
    /// Factors; the product of their scales is the scale of the sum. A pair that is there twice counts twice.
    pub products: Vec<(&'a Ciphertext, &'a Ciphertext)>,
    /// Ciphertexts of any scale, and what they are multiplied by.
    pub multiples: Vec<(&'a Ciphertext, Complex64)>,
    /// In every slot.
    pub constant: Complex64,
}

/// A part of one limb of every polynomial of a sum: three, or two where there are no products.
type Parts<'a> = [&'a mut [f64]];

impl Evaluator {
    /// The sum, at `scale` and of `limbs` limbs: of degree 2 with products, of degree 1 without. No key, no
    /// level.
    ///
    /// # Errors
    /// [`CkksError::Shape`] when an operand has fewer limbs or the factors' scales do not make up `scale`.
    pub(crate) fn sum(&self, sum: &Sum<'_>, limbs: usize, scale: f64) -> Result<Ciphertext, CkksError> {
        self.check_sum(sum, limbs, scale)?;
        let count = if sum.products.is_empty() { 2 } else { 3 };
        let polys = (0..count).map(|_| RnsPoly::scratch(self.rlwe(), limbs)).collect();
        let mut out = Ciphertext { polys, scale };
        let rows = by_limb(&mut out.polys, limbs);
        rows.into_par_iter().enumerate().for_each(|(i, mut row)| {
            let weights = self.weights(sum, i, scale);
            for part in parts(self.rlwe().n()) {
                let mut parts: Vec<&mut [f64]> = row.iter_mut().map(|x| &mut x[part.clone()]).collect();
                self.sum_part(sum, &weights, (i, part), &mut parts);
            }
        });
        Ok(out)
    }

    fn check_sum(&self, sum: &Sum<'_>, limbs: usize, scale: f64) -> Result<(), CkksError> {
        let short = |x: &Ciphertext| x.limbs() < limbs || x.polys.len() != 2;
        let bad_product = |(a, b): &&(&Ciphertext, &Ciphertext)| {
            short(a) || short(b) || !scales_agree(a.scale * b.scale, scale)
        };
        let bad = sum.products.iter().find(bad_product).map(|&(a, b)| [a, b]);
        let low = sum.multiples.iter().map(|x| x.0).find(|x| short(x));
        let Some([a, b]) = bad.or(low.map(|x| [x, x])) else {
            return Ok(());
        };
        Err(CkksError::Shape {
            op: "mul",
            detail: format!(
                "levels {} and {} (log2 scales {:.4} + {:.4}) into a sum at level {} ({:.4}); hint: align \
                first",
                a.level(),
                b.level(),
                a.scale.log2(),
                b.scale.log2(),
                limbs - 1,
                scale.log2()
            ),
        })
    }

    /// What limb `i` of every multiple, and of the constant in the end, is multiplied by at `scale`: in the
    /// two halves of the NTT order.
    fn weights(&self, sum: &Sum<'_>, i: usize, scale: f64) -> Vec<[f64; 2]> {
        let multiples = sum.multiples.iter().map(|&(x, c)| (c, scale / x.scale));
        let all = multiples.chain(std::iter::once((sum.constant, scale)));
        all.map(|(c, scale)| {
            let (first, second) = complex_residues(self.rlwe().table(i), c, scale);
            [first as f64, second as f64]
        })
        .collect()
    }

    /// Sets one part of limb `i`. weights: as [`Self::weights`] gives them.
    fn sum_part(
        &self,
        sum: &Sum<'_>,
        weights: &[[f64; 2]],
        (i, part): (usize, Range<usize>),
        out: &mut Parts<'_>,
    ) {
        let (m, half) = (self.rlwe().modulus(i), 2 * part.start / self.rlwe().n());
        for (k, x) in out.iter_mut().enumerate() {
            if k == 2 {
                x.fill(0.0);
            } else {
                let terms: Vec<(&[f64], &[f64])> = (sum.multiples.iter().zip(weights))
                    .map(|((c, _), w)| (&c.polys[k].limbs[i][part.clone()], &w[half..=half]))
                    .collect();
                kernels::sum_runs(m, x, &terms);
            }
        }
        let constant = weights[sum.multiples.len()][half];
        if constant != 0.0 {
            add_scalar(m, out[0], constant as u64);
        }
        let [x0, x1, x2] = out else { return };
        for (a, b) in &sum.products {
            let [[a0, a1], [b0, b1]] = [a, b].map(|x| halves(x, i, &part));
            kernels::tensor_accumulate(m, x0, x1, x2, a0, a1, b0, b1);
        }
    }
}

/// `[polynomial][limb]` -> `[limb][polynomial]`.
fn by_limb(polys: &mut [RnsPoly], limbs: usize) -> Vec<Vec<&mut AlignedVec>> {
    let mut rows: Vec<Vec<&mut AlignedVec>> = (0..limbs).map(|_| Vec::with_capacity(3)).collect();
    for poly in polys {
        rows.iter_mut()
            .zip(&mut poly.limbs)
            .for_each(|(row, limb)| row.push(limb));
    }
    rows
}

/// A limb of `n` values in parts, each within one half of it.
fn parts(n: usize) -> impl Iterator<Item = Range<usize>> {
    let part = PART.min(n / 2);
    (0..n).step_by(part).map(move |start| start..start + part)
}

/// A part of limb `i` of both polynomials.
fn halves<'a>(a: &'a Ciphertext, i: usize, part: &Range<usize>) -> [&'a [f64]; 2] {
    [0, 1].map(|k| &a.polys[k].limbs[i][part.clone()])
}
