//! Products of ciphertexts with a matrix in clear: out_o = bias_o + sum over i of W_oi * x_i, slot by slot.
//!
//! An entry W_oi is a real vector of period P (1, 2, 4 or 8) over the slots. A real vector of period P is a
//! polynomial in Y = X^(N/2P) that conjugation fixes: c_0 + sum over j of c_j (Y^j - Y^(2P-j)) with 0 < j <
//! P. So the ciphertexts (Y^j - Y^(2P-j)) * x_i, which are exact and never stored, become inputs of their
//! own, and the whole product is one integer matrix of O x KP over the residues: see [`tacita_ring::gemm`].
//!
//! Accuracy: with scale factor f (about 2^48) a coefficient c is rounded to a multiple of (sum of |c| f over
//! its row) / 2^29 / f, so an output is off by about |x| * (row sum) * sqrt(KP) * 2^-31, beside the noise of
//! the inputs.
//!
//! Cost: 4 N L flops for each of 2 O K P entries, at the speed of a double-precision matrix product, and 2 O
//! rescalings (L NTTs each). Memory: the outputs, and one limb more of 240 outputs.
use crate::backend::{Backend, CiphertextOf as Of, Lanes, Pair};
use crate::levels::fits;
use crate::{Ciphertext, CkksError, Evaluator};
use num_complex::Complex64;
use rayon::prelude::*;
use std::borrow::Cow;
use std::slice::Chunks;
use tacita_ring::gemm::{self, Input, Weights};
use tacita_ring::AlignedVec;
use tacita_rlwe::ciphertext::Polynomial;
use tacita_rlwe::{keyswitch, Parameters, RnsPoly};

/// Largest period of a matrix entry.
pub const MAX_PERIOD: usize = 8;
/// Outputs that are made together: enough to hide the packing of the inputs, few enough for their one limb
/// too many.
const BLOCK: usize = 240;
/// Coefficients of one task.
const SEGMENT: usize = 1024;

/// A matrix of periodic real vectors.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    /// Entries `[outputs, inputs, period]`, the last index fastest.
    pub weights: &'a [f64],
    /// What is added to the outputs: `[outputs, period]`.
    pub bias: Option<&'a [f64]>,
    /// Number of outputs.
    pub outputs: usize,
    /// Length of the vectors: 1, 2, 4 or 8.
    pub period: usize,
}

impl Matrix<'_> {
    /// Fails unless the sizes fit `inputs` ciphertexts and every entry is finite.
    fn check(&self, inputs: usize) -> Result<(), CkksError> {
        let (outputs, period) = (self.outputs, self.period);
        if inputs == 0 || outputs == 0 {
            return shape(format!(
                "{inputs} inputs, {outputs} outputs; hint: at least one of each"
            ));
        }
        if !period.is_power_of_two() || period > MAX_PERIOD {
            return shape(format!("period {period}; hint: 1, 2, 4 or {MAX_PERIOD}"));
        }
        let (bias, size) = (self.bias.unwrap_or(&[]), outputs.saturating_mul(period));
        if self.weights.len() != size.saturating_mul(inputs) || self.bias.is_some_and(|b| b.len() != size) {
            return shape(format!(
                "{} weights and {} biases for {outputs} outputs, {inputs} inputs and period {period}",
                self.weights.len(),
                bias.len()
            ));
        }
        match self.weights.iter().chain(bias).find(|w| !w.is_finite()) {
            Some(w) => shape(format!("an entry is {w}; hint: finite numbers only")),
            None => Ok(()),
        }
    }
}

fn shape<T>(detail: String) -> Result<T, CkksError> {
    Err(CkksError::Shape { op: "matmul", detail })
}

impl<B: Backend> Evaluator<B> {
    /// bias_o + sum over i of W_oi * x_i for every output o, rescaled once: one level below the lowest
    /// operand, at exactly the canonical scale. Operands of higher levels are aligned first. No key.
    ///
    /// # Errors
    /// [`CkksError::Level`] at native level 0; [`CkksError::Shape`] for a matrix that does not fit, entries
    /// that are not finite or too large, operands of degree 2, or scales that cannot be aligned.
    pub fn matmul(&self, xs: &[&Of<B>], matrix: &Matrix<'_>) -> Result<Vec<Of<B>>, CkksError> {
        matrix.check(xs.len())?;
        let lowest = xs.iter().min_by_key(|x| x.level()).copied().unwrap_or(xs[0]);
        self.need_level(lowest, "matmul", 1)?;
        let product = Product {
            evaluator: self,
            lanes: self.lanes(matrix.period, lowest.limbs())?,
            xs: self.operands(xs, lowest)?,
            factor: self.plain_scale(lowest),
            scale: lowest.scale * self.plain_scale(lowest) / self.params().prime(lowest.level()),
        };
        let (coefficients, period) = (self.lane_coefficients(matrix), matrix.period);
        let mut out = Vec::with_capacity(matrix.outputs);
        for block in coefficients.chunks(BLOCK * xs.len() * period) {
            let bias = matrix.bias.map(|bias| bias[out.len() * period..].chunks(period));
            out.extend(product.block(block, bias)?);
        }
        Ok(out)
    }

    /// The operands at the level and scale of the lowest; those that are there already, or above at that
    /// scale, are not copied.
    fn operands<'a>(&self, xs: &[&'a Of<B>], lowest: &Of<B>) -> Result<Operands<'a, B>, CkksError> {
        let (level, scale) = (lowest.level(), lowest.scale);
        let operand = |x: &&'a Of<B>| match x.polys.len() {
            2 if fits(x, level, scale) => Ok(Cow::Borrowed(*x)),
            2 => self.align_to(x, level, scale).map(Cow::Owned),
            n => shape(format!(
                "an operand of degree {}; hint: relinearise it first",
                n.wrapping_sub(1)
            )),
        };
        xs.par_iter().map(operand).collect()
    }

    /// By limb and by j < P: the 2P NTT values of Y^j - Y^(2P-j), none for j = 0 where the factor is one.
    fn lanes(&self, period: usize, limbs: usize) -> Result<Lanes, CkksError> {
        let lane = |limb: usize, j: usize| {
            if j == 0 {
                return Ok(Vec::new());
            }
            let mut y = vec![0.0; 2 * period];
            y[j] = 1.0;
            y[2 * period - j] = self.params().prime(limb) - 1.0;
            self.small_table(limb, 2 * period)?.forward(&mut y);
            Ok(y)
        };
        let limb = |i| (0..period).map(|j| lane(i, j)).collect();
        (0..limbs).map(limb).collect()
    }

    /// The matrix [outputs, inputs * period] of the coefficients c_j of its entries.
    fn lane_coefficients(&self, matrix: &Matrix<'_>) -> Vec<f64> {
        let entry = |v: &[f64]| {
            let v: Vec<Complex64> = v.iter().map(|&x| Complex64::new(x, 0.0)).collect();
            let mut c = self.encoder().coefficients(&v);
            c.truncate(v.len());
            c
        };
        matrix
            .weights
            .par_chunks(matrix.period)
            .flat_map_iter(entry)
            .collect()
    }
}

/// The operands of one product, one for each input of the matrix.
type Operands<'a, B> = Vec<Cow<'a, Of<B>>>;

/// One product.
struct Product<'a, B: Backend> {
    evaluator: &'a Evaluator<B>,
    xs: Operands<'a, B>,
    lanes: Lanes,
    /// What entries are multiplied by.
    factor: f64,
    /// Of the outputs.
    scale: f64,
}

impl<B: Backend> Product<'_, B> {
    /// A block of outputs. coefficients: [outputs, inputs * period]; bias: by output, or none.
    fn block(&self, coefficients: &[f64], bias: Option<Chunks<'_, f64>>) -> Result<Vec<Of<B>>, CkksError> {
        let (depth, scale) = (self.xs.len() * self.lanes[0].len(), self.scale);
        let Some(weights) = Weights::round(coefficients, depth, self.factor) else {
            return shape(format!(
                "entries too large for log2 scale {:.1}, or {depth} too many",
                self.factor.log2()
            ));
        };
        let backend = self.evaluator.backend();
        let pairs = backend.multiply_matrix(&self.xs, &self.lanes, &weights)?;
        let rows: Vec<Option<&[f64]>> = match bias {
            Some(bias) => bias.map(Some).take(pairs.len()).collect(),
            None => vec![None; pairs.len()],
        };
        let ciphertext = |(Pair(c0, c1), row): (_, Option<&[f64]>)| {
            let polys = vec![self.biased(c0, row)?, c1];
            Ok(Ciphertext { polys, scale })
        };
        pairs.into_par_iter().zip(rows).map(ciphertext).collect()
    }

    fn biased(&self, x: B::Poly, row: Option<&[f64]>) -> Result<B::Poly, CkksError> {
        let Some(row) = row else { return Ok(x) };
        let v: Vec<Complex64> = row.iter().map(|&b| Complex64::new(b, 0.0)).collect();
        let runs = self.evaluator.encode_periodic(&v, self.scale, x.q_len(), 0)?;
        self.evaluator.backend().add_runs(x, &runs)
    }
}

/// The products of the processor: see [`Backend::multiply_matrix`]. One polynomial of all outputs at a time
/// has its limb too many.
pub(crate) fn multiply(
    rlwe: &Parameters,
    xs: &[Cow<'_, Ciphertext>],
    lanes: &Lanes,
    weights: &Weights,
) -> Vec<Pair<RnsPoly>> {
    let poly = |degree| polynomials(rlwe, (xs, degree), lanes, weights);
    let first = poly(0);
    first.into_iter().zip(poly(1)).map(|(a, b)| Pair(a, b)).collect()
}

/// A polynomial of every input, by its degree in the secret.
type Inputs<'a> = (&'a [Cow<'a, Ciphertext>], usize);

/// That polynomial of the outputs, rescaled.
fn polynomials(rlwe: &Parameters, inputs: Inputs<'_>, lanes: &Lanes, weights: &Weights) -> Vec<RnsPoly> {
    let q_len = lanes.len();
    let mut out: Vec<Vec<AlignedVec>> = (0..weights.rows()).map(|_| Vec::with_capacity(q_len)).collect();
    for (i, lanes) in lanes.iter().enumerate() {
        let limbs = limb((rlwe, i), inputs, lanes, weights);
        out.iter_mut().zip(limbs).for_each(|(poly, limb)| poly.push(limb));
    }
    out.into_par_iter()
        .map(|limbs| keyswitch::rescale(rlwe, RnsPoly { limbs, q_len }))
        .collect()
}

/// Limb `i` of it, segment by segment across the cores.
fn limb(
    (rlwe, i): (&Parameters, usize),
    (xs, degree): Inputs<'_>,
    lanes: &[Vec<f64>],
    weights: &Weights,
) -> Vec<AlignedVec> {
    let inputs: Vec<Input<'_>> = xs
        .iter()
        .flat_map(|x| lanes.iter().map(move |runs| (x, runs)))
        .map(|(x, runs)| Input {
            limb: &x.polys[degree].limbs[i],
            runs,
        })
        .collect();
    let mut out: Vec<AlignedVec> = (0..weights.rows())
        .map(|_| AlignedVec::scratch(rlwe.n()))
        .collect();
    segments(&mut out)
        .into_par_iter()
        .enumerate()
        .for_each(|(s, mut out)| {
            gemm::product(rlwe.modulus(i), weights, &inputs, s * SEGMENT, &mut out);
        });
    out
}

/// By segment: that piece of every limb.
fn segments(limbs: &mut [AlignedVec]) -> Vec<Vec<&mut [f64]>> {
    let count = limbs.first().map_or(0, |limb| limb.len().div_ceil(SEGMENT));
    let mut out: Vec<Vec<&mut [f64]>> = (0..count).map(|_| Vec::with_capacity(limbs.len())).collect();
    for limb in limbs {
        let pieces = limb.chunks_mut(SEGMENT);
        out.iter_mut()
            .zip(pieces)
            .for_each(|(segment, piece)| segment.push(piece));
    }
    out
}
