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
use crate::levels::fits;
use crate::processor::add_runs;
use crate::{Ciphertext, CkksError, Evaluator};
use num_complex::Complex64;
use rayon::prelude::*;
use std::borrow::Cow;
use tacita_ring::gemm::{self, Input, Weights};
use tacita_ring::AlignedVec;
use tacita_rlwe::{keyswitch, RnsPoly};

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

impl Evaluator {
    /// bias_o + sum over i of W_oi * x_i for every output o, rescaled once: one level below the lowest
    /// operand, at exactly the canonical scale. Operands of higher levels are aligned first. No key.
    ///
    /// # Errors
    /// [`CkksError::Level`] at native level 0; [`CkksError::Shape`] for a matrix that does not fit, entries
    /// that are not finite or too large, operands of degree 2, or scales that cannot be aligned.
    pub fn matmul(&self, xs: &[&Ciphertext], matrix: &Matrix<'_>) -> Result<Vec<Ciphertext>, CkksError> {
        matrix.check(xs.len())?;
        let lowest = xs.iter().min_by_key(|x| x.level()).copied().unwrap_or(xs[0]);
        self.need_level(lowest, "matmul", 1)?;
        let xs = self.operands(xs, lowest)?;
        let product = Product {
            evaluator: self,
            lanes: self.lanes(matrix.period, lowest.limbs())?,
            xs: &xs,
            limbs: lowest.limbs(),
        };
        let factor = self.plain_scale(lowest);
        let scale = lowest.scale * factor / self.params().prime(lowest.level());
        let mut out = Vec::with_capacity(matrix.outputs);
        for block in self
            .lane_coefficients(matrix)
            .chunks(BLOCK * xs.len() * matrix.period)
        {
            out.extend(product.block(block, factor, scale)?);
        }
        self.add_bias(&mut out, matrix)?;
        Ok(out)
    }

    /// The operands at the level and scale of the lowest; those that are there already, or above at that
    /// scale, are not copied.
    fn operands<'a>(
        &self,
        xs: &[&'a Ciphertext],
        lowest: &Ciphertext,
    ) -> Result<Vec<Cow<'a, Ciphertext>>, CkksError> {
        let (level, scale) = (lowest.level(), lowest.scale);
        let operand = |x: &&'a Ciphertext| match x.polys.len() {
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
    fn lanes(&self, period: usize, limbs: usize) -> Result<Vec<Vec<Vec<f64>>>, CkksError> {
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

    fn add_bias(&self, out: &mut [Ciphertext], matrix: &Matrix<'_>) -> Result<(), CkksError> {
        let Some(bias) = matrix.bias else { return Ok(()) };
        let rows = bias.par_chunks(matrix.period);
        out.par_iter_mut().zip(rows).try_for_each(|(x, row)| {
            let v: Vec<Complex64> = row.iter().map(|&b| Complex64::new(b, 0.0)).collect();
            let encoded = self.encode_periodic(&v, x.scale, x.limbs(), 0)?;
            x.polys[0].for_each_limb(self.rlwe(), |i, limb| {
                add_runs(self.rlwe().modulus(i), limb, &encoded[i])
            });
            Ok(())
        })
    }
}

/// The operands of one product.
struct Product<'a> {
    evaluator: &'a Evaluator,
    xs: &'a [Cow<'a, Ciphertext>],
    lanes: Vec<Vec<Vec<f64>>>,
    limbs: usize,
}

impl Product<'_> {
    /// A block of outputs, rescaled to `scale`. coefficients: [outputs, inputs * period].
    fn block(&self, coefficients: &[f64], factor: f64, scale: f64) -> Result<Vec<Ciphertext>, CkksError> {
        let depth = self.xs.len() * self.lanes[0].len();
        let Some(weights) = Weights::round(coefficients, depth, factor) else {
            return shape(format!(
                "entries too large for log2 scale {:.1}, or {depth} too many",
                factor.log2()
            ));
        };
        let first = self.poly(&weights, 0);
        let second = self.poly(&weights, 1);
        let pairs = first.into_iter().zip(second);
        let ciphertext = |(a, b)| Ciphertext {
            polys: vec![a, b],
            scale,
        };
        Ok(pairs.map(ciphertext).collect())
    }

    /// Polynomial `degree` of the outputs, rescaled.
    fn poly(&self, weights: &Weights, degree: usize) -> Vec<RnsPoly> {
        let mut out: Vec<Vec<AlignedVec>> = (0..weights.rows())
            .map(|_| Vec::with_capacity(self.limbs))
            .collect();
        for i in 0..self.limbs {
            let limbs = self.limb(weights, degree, i);
            out.iter_mut().zip(limbs).for_each(|(poly, limb)| poly.push(limb));
        }
        let rescale = |limbs| {
            let q_len = self.limbs;
            keyswitch::rescale(self.evaluator.rlwe(), RnsPoly { limbs, q_len })
        };
        out.into_par_iter().map(rescale).collect()
    }

    /// Limb `i` of polynomial `degree` of the outputs, segment by segment across the cores.
    fn limb(&self, weights: &Weights, degree: usize, i: usize) -> Vec<AlignedVec> {
        let rlwe = self.evaluator.rlwe();
        let inputs: Vec<Input<'_>> = self
            .xs
            .iter()
            .flat_map(|x| self.lanes[i].iter().map(move |runs| (x, runs)))
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
