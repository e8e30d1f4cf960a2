//! Sums of products of ciphertexts, of multiples of ciphertexts and of a constant, at one scale: made limb by
//! limb and part by part, so that every operand is read once and the sum is written once, however many terms
//! it has. A sum with products has degree 2 and is relinearised and rescaled as a whole.
use crate::backend::{Backend, CiphertextOf as Of, Halves, Sum, Weights};
use crate::evaluator::complex_residues;
use crate::processor::add_scalar;
use crate::{Ciphertext, CkksError, Evaluator};
use rayon::prelude::*;
use std::ops::Range;
use tacita_ring::{kernels, AlignedVec};
use tacita_rlwe::ciphertext::scales_agree;
use tacita_rlwe::{Parameters, RnsPoly};

/// Values of a limb that stay in the first-level cache.
const PART: usize = 512;

/// A part of one limb of every polynomial of a sum: three, or two where there are no products.
type Parts<'a> = [&'a mut [f64]];

impl<B: Backend> Evaluator<B> {
    /// The sum, at `scale` and of `limbs` limbs: of degree 2 with products, of degree 1 without. No key, no
    /// level.
    ///
    /// # Errors
    /// [`CkksError::Shape`] when an operand has fewer limbs or the factors' scales do not make up `scale`.
    pub(crate) fn sum(&self, sum: &Sum<'_, B::Poly>, limbs: usize, scale: f64) -> Result<Of<B>, CkksError> {
        self.check_sum(sum, limbs, scale)?;
        let weights = (0..limbs).map(|i| self.weights(sum, i, scale)).collect();
        let polys = self.backend().sum(sum, &weights, limbs)?;
        Ok(Ciphertext { polys, scale })
    }

    fn check_sum(&self, sum: &Sum<'_, B::Poly>, limbs: usize, scale: f64) -> Result<(), CkksError> {
        let short = |x: &Of<B>| x.limbs() < limbs || x.polys.len() != 2;
        let bad_product =
            |(a, b): &&(&Of<B>, &Of<B>)| short(a) || short(b) || !scales_agree(a.scale * b.scale, scale);
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

    /// What limb `i` of every multiple, and of the constant in the end, is multiplied by at `scale`.
    fn weights(&self, sum: &Sum<'_, B::Poly>, i: usize, scale: f64) -> Halves {
        let multiples = sum.multiples.iter().map(|&(x, c)| (c, scale / x.scale));
        let all = multiples.chain(std::iter::once((sum.constant, scale)));
        all.map(|(c, scale)| complex_residues(self.rlwe().table(i), c, scale))
            .collect()
    }
}

/// What [`Backend::sum`] is on the processor.
pub(crate) fn sum(
    rlwe: &Parameters,
    sum: &Sum<'_, RnsPoly>,
    weights: &Weights,
    limbs: usize,
) -> Vec<RnsPoly> {
    let count = if sum.products.is_empty() { 2 } else { 3 };
    let mut polys: Vec<RnsPoly> = (0..count).map(|_| RnsPoly::scratch(rlwe, limbs)).collect();
    let rows = by_limb(&mut polys, limbs);
    rows.into_par_iter().enumerate().for_each(|(i, mut row)| {
        let weights: Vec<[f64; 2]> = weights[i].iter().map(|w| w.map(|w| w as f64)).collect();
        for part in parts(rlwe.n()) {
            let mut parts: Vec<&mut [f64]> = row.iter_mut().map(|x| &mut x[part.clone()]).collect();
            sum_part(rlwe, sum, &weights, (i, part), &mut parts);
        }
    });
    polys
}

/// Sets one part of limb `i`.
fn sum_part(
    rlwe: &Parameters,
    sum: &Sum<'_, RnsPoly>,
    weights: &[[f64; 2]],
    (i, part): (usize, Range<usize>),
    out: &mut Parts<'_>,
) {
    let (m, half) = (rlwe.modulus(i), 2 * part.start / rlwe.n());
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
