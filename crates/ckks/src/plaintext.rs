//! Plaintexts in the form in which the evaluator multiplies and adds them: full polynomials, or the runs of
//! periodic vectors.
use crate::decoding::decode;
use crate::processor::lock;
use crate::{Backend, CkksError, Evaluator};
use num_complex::Complex64;
use rayon::prelude::*;
use std::sync::Arc;
use tacita_ring::{kernels, AlignedVec, NttTable};
use tacita_rlwe::RnsPoly;
use zeroize::Zeroize;

impl<B: Backend> Evaluator<B> {
    /// Encodes a periodic vector (length p, a power of two dividing the slots) at `scale` for the first
    /// `limbs` ciphertext primes and the first `special` special ones: per prime, the 2p (at least 32) NTT
    /// values of the runs.
    ///
    /// # Errors
    /// [`CkksError::Shape`] for a bad length or a value too large for the scale.
    pub fn encode_periodic(
        &self,
        v: &[Complex64],
        scale: f64,
        limbs: usize,
        special: usize,
    ) -> Result<Vec<AlignedVec>, CkksError> {
        let mut coefficients = self.encoder().rounded(v, scale)?;
        let exact = coefficients.iter().all(|c| c.abs() < kernels::INTEGERS);
        let primes: Vec<usize> = (0..limbs)
            .chain((0..special).map(|k| self.rlwe().p_index(k)))
            .collect();
        let encoded = primes
            .par_iter()
            .map(|&i| {
                let table = self.small_table(i, coefficients.len())?;
                let m = self.rlwe().modulus(i);
                let mut x = AlignedVec::scratch(coefficients.len());
                if exact {
                    kernels::residues(m, &mut x, &coefficients);
                } else {
                    let each = x.iter_mut().zip(&coefficients);
                    each.for_each(|(x, &c)| *x = m.from_i64(c as i64) as f64);
                }
                table.forward(&mut x);
                Ok(x)
            })
            .collect();
        coefficients.zeroize();
        encoded
    }

    pub(crate) fn small_table(&self, prime: usize, size: usize) -> Result<Arc<NttTable>, CkksError> {
        let log = size.trailing_zeros();
        let mut cache = lock(&self.small_tables);
        if let Some(t) = cache.get(&(prime, log)) {
            return Ok(t.clone());
        }
        // The ring layer's roots fit together: psi of degree 2p is the (N/2p)-th power of psi of degree N.
        let table = Arc::new(NttTable::new(*self.rlwe().modulus(prime), log)?);
        cache.insert((prime, log), table.clone());
        Ok(table)
    }

    /// Encodes to a full polynomial in NTT form (for encryption). The result is what is to be kept secret:
    /// wipe it.
    ///
    /// # Errors
    /// As [`Self::encode_periodic`].
    pub fn encode(&self, v: &[Complex64], scale: f64, limbs: usize) -> Result<RnsPoly, CkksError> {
        let mut runs = self.encode_periodic(v, scale, limbs, 0)?;
        let n = self.rlwe().n();
        let limbs_ = runs
            .iter()
            .map(|w| {
                let mut x = AlignedVec::zeroed(n);
                let run = n / w.len();
                x.chunks_exact_mut(run)
                    .zip(w.iter())
                    .for_each(|(c, &y)| c.fill(y));
                x
            })
            .collect();
        runs.iter_mut().for_each(|run| (**run).zeroize());
        Ok(RnsPoly {
            limbs: limbs_,
            q_len: limbs,
        })
    }

    /// Decodes a decrypted polynomial (NTT form; the low limbs suffice): centred coefficients by CRT over at
    /// most two limbs, then the special FFT.
    pub fn decode(&self, plain: &RnsPoly, scale: f64) -> Vec<Complex64> {
        decode(self.rlwe(), self.encoder(), plain, scale)
    }
}
