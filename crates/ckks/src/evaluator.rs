//! The evaluator: arithmetic on ciphertexts with exact levels and scales. Holds evaluation keys, never a secret.
use crate::encoding::Encoder;
use crate::keys::{galois_of_conjugation, galois_of_rotation, EvaluationKeys, KeyKind};
use crate::{Ciphertext, CkksError, CkksParameters};
use num_complex::Complex64;
use rayon::prelude::*;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tacita_ring::{automorphism_permutation, kernels, AlignedVec, Modulus, NttTable};
use tacita_rlwe::keyswitch::{self, Decomposed};
use tacita_rlwe::{Parameters, RnsPoly};

/// Relative difference of a scale from the canonical one that is rounding: 2^-36.
const SETTLED: f64 = 1.0 / (1u64 << 36) as f64;

/// Evaluates circuits. Cheap operations take NTTs and bytes as their docs say; L is the number of limbs of the operand.
pub struct Evaluator {
    params: CkksParameters,
    keys: Arc<EvaluationKeys>,
    encoder: Encoder,
    permutations: Mutex<HashMap<u64, Arc<Vec<u32>>>>,
    small_tables: Mutex<HashMap<(usize, u32), Arc<NttTable>>>,
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
    fn scale_halves(&self, p: &mut RnsPoly, c: Complex64, scale: f64) {
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
        acc.limbs[..q_len].par_iter_mut().enumerate().for_each(|(i, limb)| {
            let (first, second) = complex_residues(rlwe.table(i), c, scale);
            let m = rlwe.modulus(i);
            let half = limb.len() / 2;
            let (a, b) = p.limbs[i].split_at(half);
            kernels::mul_scalar_add_assign(m, &mut limb[..half], a, first);
            kernels::mul_scalar_add_assign(m, &mut limb[half..], b, second);
        });
    }

    /// Divides by the top prime. One level. Cost: 2 inverse and 2(L-1) forward NTTs.
    ///
    /// # Errors
    /// [`CkksError::Level`] at native level 0.
    pub fn rescale(&self, a: Ciphertext) -> Result<Ciphertext, CkksError> {
        self.need_level(&a, "rescale", 1)?;
        let scale = self.settled(a.level() - 1, a.scale / self.params.prime(a.level()));
        let polys = a
            .polys
            .into_iter()
            .map(|p| keyswitch::rescale(self.rlwe(), p))
            .collect();
        Ok(Ciphertext { polys, scale })
    }

    /// The canonical scale of native level `level` when `scale` is within 2^-36 of it: what rounding left of a difference
    /// would double with every later product, and 2^-36 of a value is far below its noise. Else `scale`.
    fn settled(&self, level: usize, scale: f64) -> f64 {
        if level > self.params.top_level() {
            return scale;
        }
        let canonical = self.params.scale(level);
        if (scale / canonical - 1.0).abs() < SETTLED {
            canonical
        } else {
            scale
        }
    }

    /// Brings `a` to a lower native level at exactly `scale` (to 2^-38): one multiplication by a constant and a rescale,
    /// or a plain truncation when the scale already fits.
    ///
    /// # Errors
    /// [`CkksError::Shape`] when `a` is below `level`, or at it with another scale.
    pub fn align_to(&self, a: &Ciphertext, level: usize, scale: f64) -> Result<Ciphertext, CkksError> {
        if fits(a, level, scale) {
            return Ok(a.truncated(level + 1));
        }
        if a.level() <= level {
            return Err(CkksError::Shape {
                op: "align",
                detail: format!(
                    "cannot bring level {} at log2 scale {:.6} to level {level} at {:.6}",
                    a.level(),
                    a.scale.log2(),
                    scale.log2()
                ),
            });
        }
        let mut x = a.truncated(level + 2);
        let factor = (scale * self.params.prime(level + 1) / a.scale).round();
        x.polys
            .iter_mut()
            .for_each(|p| self.scale_halves(p, Complex64::new(1.0, 0.0), factor));
        x.scale *= factor;
        self.rescale(x)
    }

    /// Drops to native level `level` at the canonical scale there.
    ///
    /// # Errors
    /// As [`Self::align_to`].
    pub fn drop_to(&self, a: &Ciphertext, level: usize) -> Result<Ciphertext, CkksError> {
        self.align_to(a, level, self.params.scale(level))
    }

    /// Both operands at the lower of their levels.
    ///
    /// # Errors
    /// As [`Self::align_to`].
    pub fn align(&self, a: &Ciphertext, b: &Ciphertext) -> Result<(Ciphertext, Ciphertext), CkksError> {
        let level = a.level().min(b.level());
        let scale = if a.level() == level { a.scale } else { b.scale };
        Ok((self.align_to(a, level, scale)?, self.align_to(b, level, scale)?))
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
    /// [`CkksError::Level`]; shape errors when the operands are not at one level; a missing relinearisation key.
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
        let mut acc = self.zero_product(first.0.limbs(), first.0.scale * first.1.scale);
        for (a, b) in pairs {
            self.add_product(&mut acc, a, b)?;
        }
        self.relinearise_rescale(acc)
    }

    pub(crate) fn zero_product(&self, limbs: usize, scale: f64) -> Ciphertext {
        let zero = || RnsPoly::zero(self.rlwe(), limbs, 0);
        Ciphertext {
            polys: vec![zero(), zero(), zero()],
            scale,
        }
    }

    /// acc (degree 2) += a * b; operands may have more limbs than the accumulator.
    pub(crate) fn add_product(&self, acc: &mut Ciphertext, a: &Ciphertext, b: &Ciphertext) -> Result<(), CkksError> {
        let limbs = acc.limbs();
        let ratio = (a.scale * b.scale / acc.scale - 1.0).abs();
        if a.limbs() < limbs || b.limbs() < limbs || ratio > 1e-9 {
            return Err(CkksError::Shape {
                op: "mul",
                detail: format!(
                    "levels {} and {} (log2 scales {:.4} + {:.4}) into an accumulator at level {} ({:.4}); hint: align first",
                    a.level(), b.level(), a.scale.log2(), b.scale.log2(), acc.level(), acc.scale.log2()
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
            kernels::tensor_accumulate(
                rlwe.modulus(i),
                x0,
                x1,
                x2,
                &a.polys[0].limbs[i],
                &a.polys[1].limbs[i],
                &b.polys[0].limbs[i],
                &b.polys[1].limbs[i],
            );
        });
        Ok(())
    }

    /// Degree 2 -> degree 1 and one level down, with a fused mod-down. Degree 1 is only rescaled.
    pub(crate) fn relinearise_rescale(&self, mut a: Ciphertext) -> Result<Ciphertext, CkksError> {
        if a.polys.len() == 2 {
            return self.rescale(a);
        }
        let limbs = a.limbs();
        let rlwe = self.rlwe();
        let scale = self.settled(limbs - 2, a.scale / self.params.prime(limbs - 1));
        let key = self.keys.get(KeyKind::Relinearise, limbs)?;
        let digits = keyswitch::decompose(rlwe, &a.polys[2]);
        let (mut u0, mut u1) = keyswitch::inner_product(rlwe, &digits, key)?;
        u0.add_lifted(rlwe, &a.polys[0]);
        u1.add_lifted(rlwe, &a.polys[1]);
        a.polys.clear();
        let polys = vec![
            keyswitch::mod_down_rescale(rlwe, u0),
            keyswitch::mod_down_rescale(rlwe, u1),
        ];
        Ok(Ciphertext { polys, scale })
    }

    /// Left rotation of the slots by `steps`. No level. Cost: D(L+k) + 2k + 2L NTTs.
    ///
    /// # Errors
    /// A missing rotation key.
    pub fn rotate(&self, a: &Ciphertext, steps: i64) -> Result<Ciphertext, CkksError> {
        Ok(self.rotate_many(a, &[steps])?.remove(0))
    }

    /// Several rotations of one ciphertext sharing one decomposition (hoisting).
    ///
    /// # Errors
    /// A missing rotation key.
    pub fn rotate_many(&self, a: &Ciphertext, steps: &[i64]) -> Result<Vec<Ciphertext>, CkksError> {
        let nontrivial = |s: &i64| s.rem_euclid(self.params.slots() as i64) != 0;
        let digits = steps
            .iter()
            .any(nontrivial)
            .then(|| keyswitch::decompose(self.rlwe(), &a.polys[1]));
        steps
            .iter()
            .map(|s| match &digits {
                Some(d) if nontrivial(s) => self.apply_galois(a, d, galois_of_rotation(&self.params, *s)),
                _ => Ok(a.clone()),
            })
            .collect()
    }

    /// Complex conjugation of the slots. No level; cost of a rotation.
    ///
    /// # Errors
    /// A missing conjugation key.
    pub fn conjugate(&self, a: &Ciphertext) -> Result<Ciphertext, CkksError> {
        let digits = keyswitch::decompose(self.rlwe(), &a.polys[1]);
        self.apply_galois(a, &digits, galois_of_conjugation(&self.params))
    }

    fn apply_galois(&self, a: &Ciphertext, digits: &Decomposed, galois: u64) -> Result<Ciphertext, CkksError> {
        let rlwe = self.rlwe();
        let key = self.keys.get(KeyKind::Galois(galois), a.limbs())?;
        let (u0, u1) = keyswitch::inner_product(rlwe, digits, key)?;
        let mut c0 = keyswitch::mod_down(rlwe, u0);
        let c1 = keyswitch::mod_down(rlwe, u1);
        c0.add_assign(rlwe, &a.polys[0]);
        let perm = self.permutation(galois);
        Ok(Ciphertext {
            polys: vec![c0.permuted(&perm), c1.permuted(&perm)],
            scale: a.scale,
        })
    }

    pub(crate) fn permutation(&self, galois: u64) -> Arc<Vec<u32>> {
        let mut cache = lock(&self.permutations);
        cache
            .entry(galois)
            .or_insert_with(|| Arc::new(automorphism_permutation(self.rlwe().log_n(), galois)))
            .clone()
    }

    /// Encodes a periodic vector (length p, a power of two dividing the slots) at `scale` for the first `limbs`
    /// ciphertext primes and the first `special` special ones: per prime, the 2p (at least 32) NTT values of the runs.
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
        let coefficients = self.integer_coefficients(v, scale)?;
        let primes: Vec<usize> = (0..limbs).chain((0..special).map(|k| self.rlwe().p_index(k))).collect();
        primes
            .par_iter()
            .map(|&i| {
                let table = self.small_table(i, coefficients.len())?;
                let m = self.rlwe().modulus(i);
                let mut x = AlignedVec::zeroed(coefficients.len());
                x.iter_mut()
                    .zip(&coefficients)
                    .for_each(|(x, &c)| *x = m.from_i64(c) as f64);
                table.forward(&mut x);
                Ok(x)
            })
            .collect()
    }

    fn integer_coefficients(&self, v: &[Complex64], scale: f64) -> Result<Vec<i64>, CkksError> {
        let (p, slots) = (v.len(), self.params.slots());
        if !p.is_power_of_two() || p > slots {
            return Err(CkksError::Shape {
                op: "encode",
                detail: format!(
                    "a vector of length {p} does not repeat over {slots} slots; hint: pad it to a power of two"
                ),
            });
        }
        let tiled = if p < 16 {
            v.iter().copied().cycle().take(16).collect()
        } else {
            v.to_vec()
        };
        let coefficients = self.encoder.coefficients(&tiled);
        if !coefficients.iter().all(|c| (c * scale).abs() < 4e18) {
            return Err(CkksError::Shape {
                op: "encode",
                detail: format!("a value is not finite or too large for log2 scale {:.1}", scale.log2()),
            });
        }
        Ok(coefficients.iter().map(|c| (c * scale).round() as i64).collect())
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

    /// Encodes to a full polynomial in NTT form (for encryption).
    ///
    /// # Errors
    /// As [`Self::encode_periodic`].
    pub fn encode(&self, v: &[Complex64], scale: f64, limbs: usize) -> Result<RnsPoly, CkksError> {
        let runs = self.encode_periodic(v, scale, limbs, 0)?;
        let n = self.rlwe().n();
        let limbs_ = runs
            .iter()
            .map(|w| {
                let mut x = AlignedVec::zeroed(n);
                let run = n / w.len();
                x.chunks_exact_mut(run).zip(w.iter()).for_each(|(c, &y)| c.fill(y));
                x
            })
            .collect();
        Ok(RnsPoly {
            limbs: limbs_,
            q_len: limbs,
        })
    }

    /// Decodes a decrypted polynomial (NTT form; the low limbs suffice): centred coefficients by CRT over at most two
    /// limbs, then the special FFT.
    pub fn decode(&self, plain: &RnsPoly, scale: f64) -> Vec<Complex64> {
        decode(self.rlwe(), &self.encoder, plain, scale)
    }

    pub(crate) fn need_level(&self, a: &Ciphertext, op: &'static str, needed: usize) -> Result<(), CkksError> {
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

/// Decodes a decrypted polynomial: see [`Evaluator::decode`]. Free function because the client has no evaluator.
pub fn decode(rlwe: &Parameters, encoder: &Encoder, plain: &RnsPoly, scale: f64) -> Vec<Complex64> {
    let low = plain.limb_coefficients(rlwe, 0);
    let (m0, p0) = (rlwe.modulus(0), rlwe.q()[0]);
    let coefficients: Vec<f64> = if plain.q_len == 1 {
        low.iter().map(|&x| m0.center(x as u64) as f64 / scale).collect()
    } else {
        let high = plain.limb_coefficients(rlwe, 1);
        let m1 = rlwe.modulus(1);
        let inverse = m1.inv(p0 % m1.p());
        let half = i128::from(p0) * i128::from(m1.p()) / 2;
        low.iter()
            .zip(high.iter())
            .map(|(&x, &y)| {
                let d = m1.mul(m1.sub(y as u64, x as u64 % m1.p()), inverse);
                let mut v = i128::from(x as u64) + i128::from(d) * i128::from(p0);
                if v > half {
                    v -= i128::from(p0) * i128::from(m1.p());
                }
                v as f64 / scale
            })
            .collect()
    };
    encoder.slots(&coefficients)
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
    let im = m.mul(m.from_i128((c.im * scale).round() as i128), table.sqrt_minus_one());
    (m.add(re, im), m.sub(re, im))
}

/// Does `a` serve at `level` and `scale` as it is, but for its limbs above?
pub(crate) fn fits(a: &Ciphertext, level: usize, scale: f64) -> bool {
    // canonical scales of two levels can agree to ten digits on small rings; a difference doubles with every product,
    // so only rounding noise may pass when there is a limb to correct it with
    let near = if a.level() > level { 1e-13 } else { 1e-10 };
    (a.scale / scale - 1.0).abs() < near && a.level() >= level
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
