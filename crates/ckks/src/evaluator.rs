//! The evaluator: arithmetic on ciphertexts with exact levels and scales. Holds evaluation keys, never a
//! secret.
use crate::encoding::Encoder;
use crate::keys::{EvaluationKeys, KeyKind};
use crate::{Ciphertext, CkksError, CkksParameters};
use num_complex::Complex64;
use rayon::prelude::*;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tacita_ring::{kernels, AlignedVec, Modulus, NttTable, Permutation};
use tacita_rlwe::ciphertext::scales_agree;
use tacita_rlwe::keyswitch;
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
    /// Encoder.
    pub fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    /// a + b. No level.
    ///
    /// # Errors
    /// [`CkksError::Shape`] through the alignment check when levels or scales differ.
    pub fn add(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, CkksError> {
        self.combine(a, b, "add", RnsPoly::add_assign)
    }

    /// a - b. No level.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn sub(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, CkksError> {
        self.combine(a, b, "sub", RnsPoly::sub_assign)
    }

    fn combine(
        &self,
        a: &Ciphertext,
        b: &Ciphertext,
        op: &'static str,
        f: impl Fn(&mut RnsPoly, &Parameters, &RnsPoly),
    ) -> Result<Ciphertext, CkksError> {
        a.check_aligned(b, op)?;
        let mut out = a.clone();
        for (x, y) in out.polys.iter_mut().zip(&b.polys) {
            f(x, self.rlwe(), y);
        }
        Ok(out)
    }

    /// a -= b. Errors as [`Self::add`].
    pub(crate) fn sub_assign(&self, a: &mut Ciphertext, b: &Ciphertext) -> Result<(), CkksError> {
        a.check_aligned(b, "sub")?;
        for (x, y) in a.polys.iter_mut().zip(&b.polys) {
            x.sub_assign(self.rlwe(), y);
        }
        Ok(())
    }

    /// a *= 2. No level.
    pub(crate) fn double_assign(&self, a: &mut Ciphertext) {
        let rlwe = self.rlwe();
        for p in &mut a.polys {
            p.for_each_limb(rlwe, |i, limb| {
                kernels::mul_scalar_assign(rlwe.modulus(i), limb, 2)
            });
        }
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

    /// acc += round(c * scale) * p over acc's limbs.
    pub(crate) fn add_scaled(&self, acc: &mut RnsPoly, p: &RnsPoly, c: Complex64, scale: f64) {
        let rlwe = self.rlwe();
        let q_len = acc.q_len;
        acc.limbs[..q_len]
            .par_iter_mut()
            .enumerate()
            .for_each(|(i, limb)| {
                let (first, second) = complex_residues(rlwe.table(i), c, scale);
                let m = rlwe.modulus(i);
                let half = limb.len() / 2;
                let (a, b) = p.limbs[i].split_at(half);
                kernels::mul_scalar_add_assign(m, &mut limb[..half], a, first);
                kernels::mul_scalar_add_assign(m, &mut limb[half..], b, second);
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

    /// Slot-wise product, relinearised and rescaled. One level; scale a.scale * b.scale / q.
    ///
    /// Cost: D(L+k) + 3L + 3k NTTs about, D = ceil(L / digit_limbs).
    ///
    /// # Errors
    /// [`CkksError::Level`]; shape errors when the operands are not at one level; a missing relinearisation
    /// key.
    pub fn mul(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, CkksError> {
        self.dot(&[(a, b)])
    }

    /// Sum of products: one relinearisation and one rescale for all.
    ///
    /// # Errors
    /// As [`Self::mul`].
    pub fn dot(&self, pairs: &[(&Ciphertext, &Ciphertext)]) -> Result<Ciphertext, CkksError> {
        let first = pairs.first().ok_or(CkksError::Shape {
            op: "dot",
            detail: "no operands".into(),
        })?;
        self.need_level(first.0, "mul", 1)?;
        let mut acc = self.product(first.0, first.1, first.0.limbs())?;
        for (a, b) in &pairs[1..] {
            self.add_product(&mut acc, a, b)?;
        }
        self.relinearise_rescale(acc)
    }

    /// a * b of degree 2, of their lowest `limbs` limbs. No level.
    pub(crate) fn product(
        &self,
        a: &Ciphertext,
        b: &Ciphertext,
        limbs: usize,
    ) -> Result<Ciphertext, CkksError> {
        let mut acc = Ciphertext {
            polys: (0..3).map(|_| RnsPoly::scratch(self.rlwe(), limbs)).collect(),
            scale: a.scale * b.scale,
        };
        self.tensor(&mut acc, a, b, true)?;
        Ok(acc)
    }

    /// acc (degree 2) += a * b; operands may have more limbs than the accumulator.
    pub(crate) fn add_product(
        &self,
        acc: &mut Ciphertext,
        a: &Ciphertext,
        b: &Ciphertext,
    ) -> Result<(), CkksError> {
        self.tensor(acc, a, b, false)
    }

    /// acc (degree 2) += a * b, or = where it is fresh and holds anything.
    fn tensor(
        &self,
        acc: &mut Ciphertext,
        a: &Ciphertext,
        b: &Ciphertext,
        fresh: bool,
    ) -> Result<(), CkksError> {
        let limbs = acc.limbs();
        if a.limbs() < limbs || b.limbs() < limbs || !scales_agree(a.scale * b.scale, acc.scale) {
            return Err(CkksError::Shape {
                op: "mul",
                detail: format!(
                    "levels {} and {} (log2 scales {:.4} + {:.4}) into an accumulator at level {} ({:.4}); \
                    hint: align first",
                    a.level(),
                    b.level(),
                    a.scale.log2(),
                    b.scale.log2(),
                    acc.level(),
                    acc.scale.log2()
                ),
            });
        }
        let rlwe = self.rlwe();
        let mut polys = acc.polys.iter_mut();
        let (Some(d0), Some(d1), Some(d2)) = (polys.next(), polys.next(), polys.next()) else {
            return Err(CkksError::Shape {
                op: "mul",
                detail: "accumulator is not of degree 2".into(),
            });
        };
        let triples = d0.limbs.par_iter_mut().zip(&mut d1.limbs).zip(&mut d2.limbs);
        triples.enumerate().for_each(|(i, ((x0, x1), x2))| {
            let (m, [a0, a1], [b0, b1]) = (rlwe.modulus(i), halves(a, i), halves(b, i));
            for part in parts(x0.len()) {
                let [x0, x1, x2] = [&mut *x0, &mut *x1, &mut *x2].map(|x| &mut x[part.clone()]);
                if fresh {
                    for x in [&mut *x0, &mut *x1, &mut *x2] {
                        x.fill(0.0);
                    }
                }
                let [a0, a1, b0, b1] = [a0, a1, b0, b1].map(|x| &x[part.clone()]);
                kernels::tensor_accumulate(m, x0, x1, x2, a0, a1, b0, b1);
            }
        });
        Ok(())
    }

    /// Degree 2 -> degree 1 and one level down, with a fused mod-down. Degree 1 is only rescaled.
    pub(crate) fn relinearise_rescale(&self, a: Ciphertext) -> Result<Ciphertext, CkksError> {
        if a.polys.len() == 2 {
            return self.rescale(a);
        }
        let limbs = a.limbs();
        let rlwe = self.rlwe();
        let scale = self.settled(limbs - 2, a.scale / self.params.prime(limbs - 1));
        let key = self.keys.get(KeyKind::Relinearise, limbs)?;
        let (c0, c1) = keyswitch::switch_rescale(rlwe, [&a.polys[0], &a.polys[1], &a.polys[2]], key)?;
        Ok(Ciphertext {
            polys: vec![c0, c1],
            scale,
        })
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

/// Values of a limb that stay in the first-level cache.
const PART: usize = 512;

/// A limb of so many values in parts.
fn parts(n: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    (0..n).step_by(PART).map(move |start| start..n.min(start + PART))
}

/// Limb `i` of both polynomials.
fn halves(a: &Ciphertext, i: usize) -> [&[f64]; 2] {
    [&a.polys[0].limbs[i], &a.polys[1].limbs[i]]
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

fn add_scalar(m: &Modulus, limb: &mut [f64], c: u64) {
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
