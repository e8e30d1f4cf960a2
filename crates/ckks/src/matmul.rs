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
//!
//! Operands may come part by part ([`Evaluator::begin_matmul`]): integers are added up modulo each prime and
//! rescaled in the end, so that any parts in any order give the bits of one call. Memory is then as much as
//! one operand for each output, and one limb of 240 outputs.
use crate::backend::{Backend, CiphertextOf as Of, Inputs, Lanes};
use crate::levels::fits;
use crate::{Ciphertext, CkksError, Evaluator};
use num_complex::Complex64;
use rayon::prelude::*;
use std::borrow::Cow;
use tacita_ring::gemm::{self, Input, Weights};
use tacita_ring::{kernels, AlignedVec};
use tacita_rlwe::ciphertext::Polynomial;
use tacita_rlwe::{Parameters, RnsPoly};

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

/// Sums of a product whose operands come part by part: of every output, before it is rescaled. Not a
/// ciphertext, and taken over by what makes ciphertexts of it.
pub struct Sums<P = RnsPoly> {
    frame: Frame,
    /// By degree in the secret: sums of the outputs, none before the first part.
    blocks: Vec<(Weights, [Vec<P>; 2])>,
    /// [outputs, period].
    bias: Option<Vec<f64>>,
    /// By input, whether it was added.
    added: Vec<bool>,
}

/// What the outputs of one product have in common.
struct Frame {
    lanes: Lanes,
    /// Scale of the operands, whose limbs the lanes have.
    operands: f64,
    /// Of the outputs.
    outputs: f64,
    /// What entries are multiplied by.
    factor: f64,
}

impl Frame {
    fn period(&self) -> usize {
        self.lanes[0].len()
    }

    /// The rows of a block as integers.
    fn round(&self, block: &[f64], depth: usize) -> Result<Weights, CkksError> {
        let Some(weights) = Weights::round(block, depth, self.factor) else {
            return shape(format!(
                "entries too large for log2 scale {:.1}, or {depth} too many",
                self.factor.log2()
            ));
        };
        Ok(weights)
    }
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
        let frame = self.frame(lowest, matrix.period)?;
        let (xs, depth) = (self.operands(xs, &frame)?, xs.len() * matrix.period);
        let mut out = Vec::with_capacity(matrix.outputs);
        for block in self.lane_coefficients(matrix).chunks(BLOCK * depth) {
            let weights = frame.round(block, depth)?;
            // degree by degree: there is a limb too many of one polynomial, not of both
            let polys = |degree| {
                let mut sums = Vec::new();
                self.backend()
                    .add_matrix(&mut sums, (&xs, degree), &frame.lanes, &weights)?;
                self.rescaled(sums)
            };
            let polys = [polys(0)?, polys(1)?];
            self.finish_block(&mut out, polys, matrix.bias, &frame)?;
        }
        Ok(out)
    }

    /// Begins the same of so many operands that come part by part, all at the level and scale of this one.
    ///
    /// # Errors
    /// As [`Self::matmul`].
    pub fn begin_matmul(
        &self,
        matrix: &Matrix<'_>,
        inputs: usize,
        operand: &Of<B>,
    ) -> Result<Sums<B::Poly>, CkksError> {
        matrix.check(inputs)?;
        let frame = self.frame(operand, matrix.period)?;
        let (coefficients, depth) = (self.lane_coefficients(matrix), inputs * matrix.period);
        let blocks = coefficients.chunks(BLOCK * depth);
        let blocks = blocks.map(|block| Ok((frame.round(block, depth)?, [Vec::new(), Vec::new()])));
        Ok(Sums {
            blocks: blocks.collect::<Result<_, CkksError>>()?,
            frame,
            bias: matrix.bias.map(<[f64]>::to_vec),
            added: vec![false; inputs],
        })
    }

    /// Adds operands times their columns of the matrix. No rescaling; an error ends the product.
    ///
    /// # Errors
    /// [`CkksError::Shape`] for columns that are not there or were added, for operands of degree 2 or of
    /// another level or scale.
    pub fn add_matmul(
        &self,
        mut sums: Sums<B::Poly>,
        columns: &[usize],
        xs: &[&Of<B>],
    ) -> Result<Sums<B::Poly>, CkksError> {
        let (frame, inputs) = (&sums.frame, sums.added.len());
        let alike = columns.len() == xs.len() && xs.iter().all(|x| x.limbs() == frame.lanes.len());
        let mut fresh = columns.iter().map(|&k| {
            let added = sums.added.get_mut(k);
            added.is_some_and(|added| !std::mem::replace(added, true))
        });
        if !alike || xs.is_empty() || !fresh.all(|fresh| fresh) {
            return shape(format!(
                "a part of {} operands and {} columns of {inputs}; hint: every column once, operands of one \
                level",
                xs.len(),
                columns.len(),
            ));
        }
        let (xs, period) = (self.operands(xs, frame)?, frame.period());
        let lanes = |&k: &usize| k * period..(k + 1) * period;
        let columns: Vec<usize> = columns.iter().flat_map(lanes).collect();
        for (weights, polys) in &mut sums.blocks {
            let weights = weights.columns(&columns);
            for (degree, sums) in polys.iter_mut().enumerate() {
                self.backend()
                    .add_matrix(sums, (&xs, degree), &frame.lanes, &weights)?;
            }
        }
        Ok(sums)
    }

    /// The outputs, each rescaled once.
    ///
    /// # Errors
    /// [`CkksError::Shape`] where operands are missing.
    pub fn finish_matmul(&self, sums: Sums<B::Poly>) -> Result<Vec<Of<B>>, CkksError> {
        let missing = sums.added.iter().filter(|added| !**added).count();
        if missing > 0 {
            return shape(format!(
                "{missing} operands did not come; hint: every column once"
            ));
        }
        let mut out = Vec::new();
        for (_, [c0, c1]) in sums.blocks {
            let polys = [self.rescaled(c0)?, self.rescaled(c1)?];
            self.finish_block(&mut out, polys, sums.bias.as_deref(), &sums.frame)?;
        }
        Ok(out)
    }

    /// The frame of a product of operands at the level of this one.
    fn frame(&self, operand: &Of<B>, period: usize) -> Result<Frame, CkksError> {
        self.need_level(operand, "matmul", 1)?;
        let level = operand.level();
        // rounding noise of a scale must not decide by which integers a matrix multiplies
        let operands = self.settled(level, operand.scale);
        let factor = self.plain_factor(level, operands);
        Ok(Frame {
            lanes: self.lanes(period, operand.limbs())?,
            operands,
            outputs: operands * factor / self.params().prime(level),
            factor,
        })
    }

    fn rescaled(&self, sums: Vec<B::Poly>) -> Result<Vec<B::Poly>, CkksError> {
        let sums = sums.into_par_iter();
        sums.map(|x| self.backend().rescale(x)).collect()
    }

    /// Appends the outputs of a block: its polynomials, rescaled, and the bias.
    fn finish_block(
        &self,
        out: &mut Vec<Of<B>>,
        [c0, c1]: [Vec<B::Poly>; 2],
        bias: Option<&[f64]>,
        frame: &Frame,
    ) -> Result<(), CkksError> {
        let (first, period, scale) = (out.len(), frame.period(), frame.outputs);
        let ciphertext = |(o, (c0, c1)): (usize, (B::Poly, B::Poly))| {
            let row = bias.map(|bias| &bias[(first + o) * period..][..period]);
            let polys = vec![self.biased(c0, row, scale)?, c1];
            Ok(Ciphertext { polys, scale })
        };
        let pairs = c0.into_par_iter().zip(c1).enumerate().map(ciphertext);
        out.extend(pairs.collect::<Result<Vec<_>, CkksError>>()?);
        Ok(())
    }

    fn biased(&self, x: B::Poly, row: Option<&[f64]>, scale: f64) -> Result<B::Poly, CkksError> {
        let Some(row) = row else { return Ok(x) };
        let v: Vec<Complex64> = row.iter().map(|&b| Complex64::new(b, 0.0)).collect();
        let runs = self.encode_periodic(&v, scale, x.q_len(), 0)?;
        self.backend().add_runs(x, &runs)
    }

    /// The operands at the level and scale of the frame; those that are there already, or above at that
    /// scale, are not copied.
    fn operands<'a>(&self, xs: &[&'a Of<B>], frame: &Frame) -> Result<Vec<Cow<'a, Of<B>>>, CkksError> {
        let (level, scale) = (frame.lanes.len() - 1, frame.operands);
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

/// What [`Backend::add_matrix`] is on the processor: limb by limb, of which one of all outputs is beside the
/// sums.
pub(crate) fn add_matrix(
    rlwe: &Parameters,
    sums: &mut Vec<RnsPoly>,
    inputs: Inputs<'_, RnsPoly>,
    lanes: &Lanes,
    weights: &Weights,
) {
    let (q_len, fresh) = (lanes.len(), sums.is_empty());
    if fresh {
        let empty = || Vec::with_capacity(q_len);
        sums.extend((0..weights.rows()).map(|_| RnsPoly {
            limbs: empty(),
            q_len,
        }));
    }
    for (i, lanes) in lanes.iter().enumerate() {
        let limbs = limb((rlwe, i), inputs, lanes, weights);
        if fresh {
            sums.iter_mut()
                .zip(limbs)
                .for_each(|(x, limb)| x.limbs.push(limb));
        } else {
            let pairs = sums.par_iter_mut().zip(limbs);
            pairs.for_each(|(x, limb)| kernels::add_assign(rlwe.modulus(i), &mut x.limbs[i], &limb));
        }
    }
}

/// Limb `i` of it, segment by segment across the cores.
fn limb(
    (rlwe, i): (&Parameters, usize),
    (xs, degree): Inputs<'_, RnsPoly>,
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
