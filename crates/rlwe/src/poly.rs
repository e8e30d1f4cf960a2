//! RNS polynomials: one aligned buffer per limb. Limb `i` belongs to global prime `primes[i]`.
use crate::Parameters;
use rayon::prelude::*;
use tacita_ring::{kernels, AlignedVec, Modulus, Permutation};
use zeroize::Zeroize;

/// A polynomial modulo a product of primes. Whether it is in NTT or coefficient form is the caller's
/// business; every ciphertext and key in this crate is in NTT form.
pub struct RnsPoly {
    /// Residues, canonical in [0, p).
    pub limbs: Vec<AlignedVec>,
    /// Ciphertext limbs come first; the rest are special primes.
    pub q_len: usize,
}

impl Clone for RnsPoly {
    fn clone(&self) -> Self {
        let (limbs, q_len) = (copies(&self.limbs), self.q_len);
        Self { limbs, q_len }
    }
}

impl RnsPoly {
    /// The zero polynomial over the first `q_len` ciphertext primes and first `p_len` special primes.
    pub fn zero(params: &Parameters, q_len: usize, p_len: usize) -> Self {
        let limbs = (0..q_len + p_len)
            .into_par_iter()
            .map(|_| AlignedVec::zeroed(params.n()))
            .collect();
        Self { limbs, q_len }
    }

    /// Number of special-prime limbs.
    pub fn p_len(&self) -> usize {
        self.limbs.len() - self.q_len
    }

    /// Global prime index of limb `i`.
    pub fn prime_index(&self, params: &Parameters, i: usize) -> usize {
        prime_index(params, self.q_len, i)
    }

    /// Modulus of limb `i`.
    pub fn modulus<'a>(&self, params: &'a Parameters, i: usize) -> &'a Modulus {
        params.modulus(self.prime_index(params, i))
    }

    /// Small signed integers (coefficients) reduced modulo every prime and brought into NTT form.
    pub fn from_small(params: &Parameters, coeffs: &[i64], q_len: usize, p_len: usize) -> Self {
        let mut out = Self::zero(params, q_len, p_len);
        out.for_each_limb(params, |table_index, limb| {
            let m = params.modulus(table_index);
            for (x, &c) in limb.iter_mut().zip(coeffs) {
                *x = m.from_i64(c) as f64;
            }
            params.table(table_index).forward(limb);
        });
        out
    }

    /// Runs `f(global prime index, limb)` over all limbs in parallel.
    pub fn for_each_limb(&mut self, params: &Parameters, f: impl Fn(usize, &mut [f64]) + Sync) {
        let q_len = self.q_len;
        self.limbs
            .par_iter_mut()
            .enumerate()
            .for_each(|(i, limb)| f(prime_index(params, q_len, i), limb));
    }

    /// self += other, over self's limbs.
    pub fn add_assign(&mut self, params: &Parameters, other: &Self) {
        self.zip(params, other, kernels::add_assign);
    }
    /// self -= other, over self's limbs.
    pub fn sub_assign(&mut self, params: &Parameters, other: &Self) {
        self.zip(params, other, kernels::sub_assign);
    }
    /// self *= other (NTT form, pointwise).
    pub fn mul_assign(&mut self, params: &Parameters, other: &Self) {
        self.zip(params, other, kernels::mul_assign);
    }
    /// self = -self.
    pub fn neg_assign(&mut self, params: &Parameters) {
        self.for_each_limb(params, |i, x| kernels::neg_assign(params.modulus(i), x));
    }

    /// f(out, a, b) limb by limb, where b has as many limbs as a, or more of each kind.
    pub fn combined(
        params: &Parameters,
        (a, b): (&Self, &Self),
        f: impl Fn(&Modulus, &mut [f64], &[f64], &[f64]) + Sync,
    ) -> Self {
        let limb = |(i, x): (usize, &AlignedVec)| {
            let mut out = AlignedVec::scratch(x.len());
            let m = a.modulus(params, i);
            f(m, &mut out, x, &b.limbs[place_in(b, a.q_len, i)]);
            out
        };
        let (limbs, q_len) = (a.limbs.par_iter().enumerate().map(limb).collect(), a.q_len);
        Self { limbs, q_len }
    }

    fn zip(&mut self, params: &Parameters, other: &Self, f: impl Fn(&Modulus, &mut [f64], &[f64]) + Sync) {
        assert!(
            self.q_len <= other.q_len && self.p_len() <= other.p_len(),
            "operand has fewer limbs"
        );
        let q_len = self.q_len;
        self.limbs.par_iter_mut().enumerate().for_each(|(i, x)| {
            let j = place_in(other, q_len, i);
            f(params.modulus(prime_index(params, q_len, i)), x, &other.limbs[j]);
        });
    }

    /// Overwrites all residues with zeros that the compiler may not leave out: for secrets, errors and
    /// plaintexts.
    pub fn wipe(&mut self) {
        self.limbs.iter_mut().for_each(|l| (**l).zeroize());
    }

    /// Keeps the first `q_len` ciphertext limbs and drops the others (special ones too).
    pub fn truncate(&mut self, q_len: usize) {
        debug_assert!(q_len <= self.q_len);
        self.limbs.truncate(q_len);
        self.q_len = q_len;
    }

    /// Over Q, with arbitrary residues: for callers that overwrite all of them.
    pub fn scratch(params: &Parameters, q_len: usize) -> Self {
        Self {
            limbs: (0..q_len).map(|_| AlignedVec::scratch(params.n())).collect(),
            q_len,
        }
    }

    /// A copy with only the first `q_len` ciphertext limbs.
    pub fn truncated(&self, q_len: usize) -> Self {
        Self {
            limbs: copies(&self.limbs[..q_len]),
            q_len,
        }
    }

    /// X -> X^g by a permutation of the NTT values.
    pub fn permuted(&self, perm: &Permutation) -> Self {
        let limbs = self
            .limbs
            .par_iter()
            .map(|a| {
                let mut out = AlignedVec::scratch(a.len());
                perm.apply(&mut out, a);
                out
            })
            .collect();
        Self {
            limbs,
            q_len: self.q_len,
        }
    }

    /// Coefficient form of ciphertext limb `i`.
    pub fn limb_coefficients(&self, params: &Parameters, i: usize) -> AlignedVec {
        let mut x = self.limbs[i].clone();
        params.table(self.prime_index(params, i)).inverse(&mut x);
        x
    }
}

/// On all threads: a copy is bound by memory, and one thread does not fill its channels.
fn copies(limbs: &[AlignedVec]) -> Vec<AlignedVec> {
    limbs.par_iter().cloned().collect()
}

/// Where `other` has the prime of limb `i` of a polynomial of `q_len` ciphertext limbs.
fn place_in(other: &RnsPoly, q_len: usize, i: usize) -> usize {
    if i < q_len {
        i
    } else {
        other.q_len + i - q_len
    }
}

fn prime_index(params: &Parameters, q_len: usize, i: usize) -> usize {
    if i < q_len {
        i
    } else {
        params.p_index(i - q_len)
    }
}
