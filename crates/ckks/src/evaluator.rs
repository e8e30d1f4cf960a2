//! The evaluator: arithmetic on ciphertexts with exact levels and scales. Holds evaluation keys, never a
//! secret.
use crate::encoding::Encoder;
use crate::keys::EvaluationKeys;
use crate::{Ciphertext, CkksError, CkksParameters};
use num_complex::Complex64;
use rayon::prelude::*;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tacita_ring::{kernels, pool, AlignedVec, Modulus, NttTable, Permutation};
use tacita_rlwe::{Parameters, RnsPoly};

/// Evaluates circuits. Cheap operations take NTTs and bytes as their docs say; L is the number of limbs of
/// the operand.
pub struct Evaluator {
    params: CkksParameters,
    keys: Arc<EvaluationKeys>,
    encoder: Encoder,
    pub(crate) permutations: Mutex<HashMap<u64, Arc<Permutation>>>,
    pub(crate) small_tables: Mutex<HashMap<(usize, u32), Arc<NttTable>>>,
}

impl Evaluator {
    /// An evaluator over the given keys.
    pub fn new(params: CkksParameters, keys: Arc<EvaluationKeys>) -> Self {
        Self {
            encoder: Encoder::new(params.slots()),
            params,
            keys,
            permutations: Mutex::new(HashMap::new()),
            small_tables: Mutex::new(HashMap::new()),
        }
    }

    /// The same keys under other parameters.
    pub(crate) fn over(&self, params: CkksParameters) -> Self {
        Self::new(params, self.keys.clone())
    }

    /// Parameters.
    pub fn params(&self) -> &CkksParameters {
        &self.params
    }
    /// Parameters of the layer below.
    pub fn rlwe(&self) -> &Parameters {
        self.params.rlwe()
    }
    /// Evaluation keys.
    pub fn keys(&self) -> &EvaluationKeys {
        &self.keys
    }
    /// Has the operating system provide `bytes` for ciphertexts now, on all threads, less what lies unused.
    /// Otherwise each operation waits for its pages, one thread at a time: 0.2 to 3 s a gigabyte.
    pub fn reserve(&self, bytes: usize) {
        let n = self.rlwe().n();
        let slabs = bytes.saturating_sub(pool::unused(n)).div_ceil(pool::SLAB);
        (0..slabs).into_par_iter().for_each(|_| {
            pool::add_slab(n);
        });
    }
    /// Bytes that this process has touched for keys and ciphertexts and that none uses now.
    pub fn unused(&self) -> usize {
        pool::unused(self.rlwe().n()) + tacita_ring::provided()
    }
    /// Encoder.
    pub fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    /// a + b. No level.
    ///
    /// # Errors
    /// [`CkksError::Shape`] through the alignment check when levels or scales differ.
    pub fn add(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, CkksError> {
        self.combine(a, b, "add", kernels::add)
    }

    /// a - b. No level.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn sub(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, CkksError> {
        self.combine(a, b, "sub", kernels::sub)
    }

    fn combine(
        &self,
        a: &Ciphertext,
        b: &Ciphertext,
        op: &'static str,
        f: fn(&Modulus, &mut [f64], &[f64], &[f64]),
    ) -> Result<Ciphertext, CkksError> {
        a.check_aligned(b, op)?;
        let halves = a.polys.iter().zip(&b.polys);
        Ok(Ciphertext {
            polys: halves
                .map(|pair| RnsPoly::combined(self.rlwe(), pair, f))
                .collect(),
            scale: a.scale,
        })
    }

    /// -a. No level.
    pub fn neg(&self, a: &Ciphertext) -> Ciphertext {
        let mut out = a.clone();
        out.polys.iter_mut().for_each(|p| p.neg_assign(self.rlwe()));
        out
    }

    /// Adds a complex constant to every slot. No level.
    pub fn add_constant(&self, a: &Ciphertext, c: Complex64) -> Ciphertext {
        let mut out = a.clone();
        self.add_constant_assign(&mut out, c);
        out
    }

    pub(crate) fn add_constant_assign(&self, a: &mut Ciphertext, c: Complex64) {
        let scale = a.scale;
        let rlwe = self.rlwe();
        a.polys[0].for_each_limb(rlwe, |i, limb| {
            let (first, second) = complex_residues(rlwe.table(i), c, scale);
            let m = rlwe.modulus(i);
            let half = limb.len() / 2;
            add_scalar(m, &mut limb[..half], first);
            add_scalar(m, &mut limb[half..], second);
        });
    }

    /// Adds a vector whose length divides the slots, repeated over them. No level.
    ///
    /// # Errors
    /// [`CkksError::Shape`] when the length is not a power of two dividing the slots.
    pub fn add_vector(&self, a: &Ciphertext, v: &[Complex64]) -> Result<Ciphertext, CkksError> {
        let mut out = a.clone();
        let encoded = self.encode_periodic(v, a.scale, a.limbs(), 0)?;
        let rlwe = self.rlwe();
        out.polys[0].for_each_limb(rlwe, |i, limb| {
            add_runs(rlwe.modulus(i), limb, &encoded[i]);
        });
        Ok(out)
    }

    /// Multiplies by an exact small integer. No level; noise and values grow |k| times.
    pub fn mul_integer(&self, a: &Ciphertext, k: i64) -> Ciphertext {
        let mut out = a.clone();
        let rlwe = self.rlwe();
        for p in &mut out.polys {
            p.for_each_limb(rlwe, |i, limb| {
                let m = rlwe.modulus(i);
                kernels::mul_scalar_assign(m, limb, m.from_i64(k));
            });
        }
        out
    }

    /// Multiplies by the imaginary unit: exact, no level, no noise.
    pub fn mul_i(&self, a: &Ciphertext) -> Ciphertext {
        let mut out = a.clone();
        out.polys
            .iter_mut()
            .for_each(|p| self.scale_halves(p, Complex64::i(), 1.0));
        out
    }

    /// p *= round(c * scale), where the imaginary unit is the monomial X^(N/2).
    pub(crate) fn scale_halves(&self, p: &mut RnsPoly, c: Complex64, scale: f64) {
        let rlwe = self.rlwe();
        p.for_each_limb(rlwe, |i, limb| {
            let (first, second) = complex_residues(rlwe.table(i), c, scale);
            let m = rlwe.modulus(i);
            let half = limb.len() / 2;
            kernels::mul_scalar_assign(m, &mut limb[..half], first);
            kernels::mul_scalar_assign(m, &mut limb[half..], second);
        });
    }

    /// a * c for a complex constant, rescaled; the result has the canonical scale of its level. One level.
    ///
    /// # Errors
    /// [`CkksError::Level`] when no level is left.
    pub fn mul_constant(&self, a: &Ciphertext, c: Complex64) -> Result<Ciphertext, CkksError> {
        self.need_level(a, "mul_const", 1)?;
        let factor = self.plain_scale(a);
        let mut out = a.clone();
        out.polys.iter_mut().for_each(|p| self.scale_halves(p, c, factor));
        out.scale *= factor;
        self.rescale(out)
    }

    /// Slot-wise product with a periodic vector, rescaled. One level.
    ///
    /// # Errors
    /// [`CkksError::Level`], [`CkksError::Shape`] as [`Self::add_vector`].
    pub fn mul_vector(&self, a: &Ciphertext, v: &[Complex64]) -> Result<Ciphertext, CkksError> {
        self.need_level(a, "mul_vector", 1)?;
        let factor = self.plain_scale(a);
        let encoded = self.encode_periodic(v, factor, a.limbs(), 0)?;
        let rlwe = self.rlwe();
        let mut out = a.clone();
        for p in &mut out.polys {
            p.for_each_limb(rlwe, |i, limb| {
                let mut x = AlignedVec::zeroed(limb.len());
                kernels::mul_runs_add_assign(rlwe.modulus(i), &mut x, limb, &encoded[i]);
                limb.copy_from_slice(&x);
            });
        }
        out.scale *= factor;
        self.rescale(out)
    }

    /// Scale of a plaintext factor that leads from `a` to the canonical scale one level below.
    pub(crate) fn plain_scale(&self, a: &Ciphertext) -> f64 {
        let l = a.level();
        let next = if l <= self.params.top_level() {
            self.params.scale(l - 1)
        } else {
            a.scale
        };
        next * self.params.prime(l) / a.scale
    }

    pub(crate) fn need_level(
        &self,
        a: &Ciphertext,
        op: &'static str,
        needed: usize,
    ) -> Result<(), CkksError> {
        if a.level() < needed {
            return Err(CkksError::Level {
                op,
                level: self.params.user_level(a.level()),
                needed,
            });
        }
        Ok(())
    }
}

pub(crate) fn lock<T>(m: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    m.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Residues of round(c.re * scale) +- round(c.im * scale) * X^(N/2) at the two halves of the NTT order.
pub(crate) fn complex_residues(table: &NttTable, c: Complex64, scale: f64) -> (u64, u64) {
    let m = table.modulus();
    let re = m.from_i128((c.re * scale).round() as i128);
    if c.im == 0.0 {
        return (re, re);
    }
    let im = m.mul(
        m.from_i128((c.im * scale).round() as i128),
        table.sqrt_minus_one(),
    );
    (m.add(re, im), m.sub(re, im))
}

pub(crate) fn add_scalar(m: &Modulus, limb: &mut [f64], c: u64) {
    let (c, p) = (c as f64, m.p() as f64);
    for x in limb {
        let y = *x + c;
        *x = if y >= p { y - p } else { y };
    }
}

pub(crate) fn add_runs(m: &Modulus, limb: &mut [f64], w: &[f64]) {
    let run = limb.len() / w.len();
    for (chunk, &c) in limb.chunks_exact_mut(run).zip(w) {
        add_scalar(m, chunk, c as u64);
    }
}
