//! Sums of products, each in one pass: ciphertexts times plaintexts, tensor products, matrices.
//!
//! Operands lie anywhere in the arena, so a call brings a list of their slots, in a buffer of its own; no
//! command waits for it.

use crate::limbs::{Basis, Limbs};
use crate::queue::Argument;
use crate::{OpenClError, Ring};
use opencl3::memory::Buffer;
use std::ops::Range;
use std::sync::Arc;
use tacita_ring::gemm::Weights;

/// Rows of a matrix that one work-item makes values of.
const ROWS: usize = 4;

/// Plaintexts on the device, in one buffer: the values of polynomials, sparse ones by their runs.
pub struct Plaintexts {
    basis: Arc<Basis>,
    words: Buffer<u64>,
    /// By plaintext, where it begins, and the logarithm of the values in a row that are equal.
    places: Vec<[u32; 2]>,
}

impl Plaintexts {
    /// How many there are.
    #[allow(clippy::len_without_is_empty)] // a ring makes none that is
    pub fn len(&self) -> usize {
        self.places.len()
    }
}

/// A matrix of integers on the device: see [`tacita_ring::gemm`].
pub struct Matrix {
    basis: Arc<Basis>,
    rows: usize,
    depth: usize,
    weights: Buffer<u64>,
    factors: Buffer<u64>,
}

impl Matrix {
    /// Of the limbs that it multiplies.
    pub(crate) fn basis(&self) -> &Arc<Basis> {
        &self.basis
    }
}

impl Ring {
    /// Uploads plaintexts: of each, one slice a prime of the basis, canonical, all of one length that divides
    /// n; value i of a limb is value i len / n of its slice.
    ///
    /// # Errors
    /// When there is none, lengths or numbers do not fit, or memory is short.
    pub fn plaintexts(&self, basis: &Arc<Basis>, all: &[Vec<&[f64]>]) -> Result<Plaintexts, OpenClError> {
        let mismatch = |reason: String| OpenClError::mismatch("Ring::plaintexts", reason);
        let (mut words, mut places) = (Vec::new(), Vec::with_capacity(all.len()));
        for limbs in all {
            let len = limbs.first().map_or(0, |limb| limb.len());
            if limbs.len() != basis.len() || limbs.iter().any(|limb| limb.len() != len) {
                let reason = format!(
                    "{} slices for {} primes, or of many lengths",
                    limbs.len(),
                    basis.len()
                );
                return Err(mismatch(reason));
            }
            if len == 0 || !self.n().is_multiple_of(len) {
                return Err(mismatch(format!("{len} values do not divide n = {}", self.n())));
            }
            let Ok(start) = u32::try_from(words.len()) else {
                return Err(mismatch(
                    "more than 2^32 values; hint: several of them".to_owned(),
                ));
            };
            places.push([start, (self.n() / len).ilog2()]);
            words.extend(
                limbs
                    .iter()
                    .flat_map(|limb| limb.iter())
                    .map(|&x| self.flavour().word(x)),
            );
        }
        if places.is_empty() {
            return Err(mismatch("no plaintext".to_owned()));
        }
        Ok(Plaintexts {
            basis: Arc::clone(basis),
            words: self.buffer_of(&words)?,
            places,
        })
    }

    /// The sum of a * w over the terms (a, number of the plaintext w), one or more: [`kernels::sum_runs`] of
    /// every limb. basis: that of the plaintexts, once for each polynomial that lies in an operand; operands
    /// may have more limbs than it.
    ///
    /// [`kernels::sum_runs`]: tacita_ring::kernels::sum_runs
    ///
    /// # Errors
    /// As [`Ring::add`], when there is no term, and when there is no such plaintext.
    pub fn sum_products(
        &self,
        basis: &Arc<Basis>,
        terms: &[(&Limbs, usize)],
        plaintexts: &Plaintexts,
    ) -> Result<Limbs, OpenClError> {
        let out = self.scratch(basis)?;
        self.products_into(&out, terms, plaintexts, false)?;
        Ok(out)
    }

    /// The same, added to x: [`kernels::mac_runs`].
    ///
    /// [`kernels::mac_runs`]: tacita_ring::kernels::mac_runs
    ///
    /// # Errors
    /// As [`Ring::sum_products`].
    pub fn add_products_assign(
        &self,
        x: &mut Limbs,
        terms: &[(&Limbs, usize)],
        plaintexts: &Plaintexts,
    ) -> Result<(), OpenClError> {
        self.products_into(x, terms, plaintexts, true)
    }

    fn products_into(
        &self,
        out: &Limbs,
        terms: &[(&Limbs, usize)],
        plaintexts: &Plaintexts,
        is_added: bool,
    ) -> Result<(), OpenClError> {
        let operation = "Ring::sum_products";
        let mut primes = out.basis.indices.chunks(plaintexts.basis.len());
        if terms.is_empty() || !primes.all(|primes| primes == plaintexts.basis.indices) {
            let reason = format!(
                "{} terms at {:?} for plaintexts at {:?}",
                terms.len(),
                out.basis.indices,
                plaintexts.basis.indices
            );
            return Err(OpenClError::mismatch(operation, reason));
        }
        let operands: Vec<&Limbs> = terms.iter().map(|term| term.0).collect();
        self.operands(operation, &out.basis, &operands)?;
        let mut places = Vec::with_capacity(3 * terms.len());
        for &(a, plaintext) in terms {
            let Some(&[word, run]) = plaintexts.places.get(plaintext) else {
                let reason = format!("plaintext {plaintext} of {}", plaintexts.len());
                return Err(OpenClError::mismatch(operation, reason));
            };
            places.extend([a.lease.first(), word, run]);
        }
        let places = self.constants_of(&places)?;
        let more = [
            Argument::Number(is_added.into()),
            Argument::Number(terms.len() as u32),
            Argument::Indices(&places),
            Argument::Number(plaintexts.basis.len() as u32),
            Argument::Words(&plaintexts.words),
        ];
        self.run_values("sum_products", out, out.basis.len(), &[], &more)
    }

    /// The sum of the tensor products (a0 b0, a0 b1 + a1 b0, a1 b1) over the terms [a0, a1, b0, b1], one or
    /// more: [`kernels::tensor_accumulate`] of every limb. Operands may have more limbs than the basis.
    ///
    /// [`kernels::tensor_accumulate`]: tacita_ring::kernels::tensor_accumulate
    ///
    /// # Errors
    /// As [`Ring::add`], and when there is no term.
    pub fn sum_tensors(&self, basis: &Arc<Basis>, terms: &[[&Limbs; 4]]) -> Result<[Limbs; 3], OpenClError> {
        let out = [self.scratch(basis)?, self.scratch(basis)?, self.scratch(basis)?];
        self.tensors_into(&out, terms, false)?;
        Ok(out)
    }

    /// The same, added to x.
    ///
    /// # Errors
    /// As [`Ring::sum_tensors`].
    pub fn add_tensors_assign(&self, x: &mut [Limbs; 3], terms: &[[&Limbs; 4]]) -> Result<(), OpenClError> {
        self.tensors_into(x, terms, true)
    }

    fn tensors_into(
        &self,
        out: &[Limbs; 3],
        terms: &[[&Limbs; 4]],
        is_added: bool,
    ) -> Result<(), OpenClError> {
        let [out0, out1, out2] = out;
        let operation = "Ring::sum_tensors";
        for other in [out1, out2] {
            Self::same_basis(operation, &out0.basis, &other.basis)?;
        }
        let operands: Vec<&Limbs> = terms.iter().flatten().copied().collect();
        self.operands(operation, &out0.basis, &operands)?;
        let places: Vec<u32> = operands.iter().map(|limbs| limbs.lease.first()).collect();
        if places.is_empty() {
            return Err(OpenClError::mismatch(operation, "no terms"));
        }
        let places = self.constants_of(&places)?;
        let more = [
            Argument::Number(is_added.into()),
            Argument::Number(terms.len() as u32),
            Argument::Indices(&places),
        ];
        self.run_values("sum_tensors", out0, out0.basis.len(), &[out1, out2], &more)
    }

    /// Uploads these columns of a matrix for limbs of a basis.
    ///
    /// # Errors
    /// When memory is short.
    pub fn matrix(
        &self,
        basis: &Arc<Basis>,
        matrix: &Weights,
        columns: Range<usize>,
    ) -> Result<Matrix, OpenClError> {
        let (rows, depth) = (matrix.rows(), columns.len());
        let blocks = (0..rows.next_multiple_of(ROWS)).step_by(ROWS);
        let places = blocks.flat_map(|block| columns.clone().map(move |k| (block, k)));
        let weight = |row: usize, k: usize| if row < rows { matrix.weight(row, k) } else { 0.0 };
        let weights: Vec<u64> = places
            .flat_map(|(block, k)| (block..block + ROWS).map(move |row| weight(row, k)))
            .map(|w| self.flavour().signed_word(w))
            .collect();
        let factors: Vec<u64> = (0..rows)
            .flat_map(|row| basis.indices.iter().map(move |&prime| (row, prime)))
            .flat_map(|(row, prime)| {
                let m = self.modulus(prime);
                let c = m.from_i128(matrix.multiplier(row));
                [c, m.mul(c, 1 << 25)].map(|c| self.flavour().factor(m, c))
            })
            .flatten()
            .collect();
        Ok(Matrix {
            basis: Arc::clone(basis),
            rows,
            depth,
            weights: self.buffer_of(&weights)?,
            factors: self.buffer_of(&factors)?,
        })
    }

    /// The rows of the matrix times the inputs, one for each column: [`tacita_ring::gemm::product`] of every
    /// limb. Inputs may have more limbs than the matrix. Polynomials in X^(n / 2P), by which the processor
    /// multiplies inputs as it reads them, are plaintexts of [`Ring::sum_products`].
    ///
    /// # Errors
    /// As [`Ring::add`], and when there are more or fewer inputs than columns.
    pub fn multiply_matrix(&self, matrix: &Matrix, inputs: &[&Limbs]) -> Result<Vec<Limbs>, OpenClError> {
        let operation = "Ring::multiply_matrix";
        if inputs.len() != matrix.depth {
            let reason = format!("{} inputs for {} columns", inputs.len(), matrix.depth);
            return Err(OpenClError::mismatch(operation, reason));
        }
        self.operands(operation, &matrix.basis, inputs)?;
        let outs = (0..matrix.rows).map(|_| self.scratch(&matrix.basis));
        let outs = outs.collect::<Result<Vec<_>, _>>()?;
        let operands = inputs.iter().copied().chain(&outs);
        let places: Vec<u32> = operands.map(|limbs| limbs.lease.first()).collect();
        let places = self.constants_of(&places)?;
        let limbs = matrix.basis.len();
        let more = [
            Argument::Indices(&places),
            Argument::Number(matrix.depth as u32),
            Argument::Number(matrix.rows as u32),
            Argument::Number(limbs as u32),
            Argument::Words(&matrix.weights),
            Argument::Words(&matrix.factors),
        ];
        let groups = matrix.rows.div_ceil(ROWS) * limbs;
        self.run_values("multiply_matrix", &outs[0], groups, &[], &more)?;
        Ok(outs)
    }

    /// Fails unless operands are of this ring and their primes begin with those of the basis.
    fn operands(&self, operation: &'static str, basis: &Basis, all: &[&Limbs]) -> Result<(), OpenClError> {
        self.owns(operation, all)?;
        match all.iter().find(|a| !a.basis.indices.starts_with(&basis.indices)) {
            Some(a) => Self::same_basis(operation, &a.basis, basis),
            None => Ok(()),
        }
    }
}
