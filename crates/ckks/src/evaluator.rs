//! The evaluator: arithmetic on ciphertexts with exact levels and scales. Holds evaluation keys, never a
//! secret.
use crate::backend::{Backend, CiphertextOf as Of, Context, Halves, Made};
use crate::encoding::Encoder;
use crate::keys::EvaluationKeys;
use crate::processor::Processor;
use crate::{Ciphertext, CkksError, CkksParameters};
use num_complex::Complex64;
use rayon::prelude::*;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tacita_ring::{pool, NttTable};
use tacita_rlwe::Parameters;

/// Constants times their scales are integers below this, which 128 bits hold with room.
const MAX_CONSTANT: f64 = (1u128 << 120) as f64;

/// Evaluates circuits. Cheap operations take NTTs and bytes as their docs say; L is the number of limbs of
/// the operand.
pub struct Evaluator<B: Backend = Processor> {
    backend: Arc<B>,
    params: CkksParameters,
    keys: Arc<EvaluationKeys<B::Key>>,
    encoder: Encoder,
    pub(crate) small_tables: Mutex<HashMap<(usize, u32), Arc<NttTable>>>,
}

impl Evaluator {
    /// An evaluator over the given keys, on the processor.
    pub fn new(params: CkksParameters, keys: Arc<EvaluationKeys>) -> Self {
        Self::on(Arc::new(Processor::new(params.rlwe().clone())), params, keys)
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
}

impl<B: Backend> Evaluator<B> {
    /// An evaluator over keys of a backend, which was made for these parameters. Evaluators over keys of
    /// several clients share one backend.
    pub fn on(backend: Arc<B>, params: CkksParameters, keys: Arc<EvaluationKeys<B::Key>>) -> Self {
        Self {
            encoder: Encoder::new(params.slots()),
            backend,
            params,
            keys,
            small_tables: Mutex::new(HashMap::new()),
        }
    }

    /// The same keys under the parameters of another backend.
    pub(crate) fn over(&self, backend: Arc<B>, params: CkksParameters) -> Self {
        Self::on(backend, params, self.keys.clone())
    }

    /// Backend.
    pub fn backend(&self) -> &Arc<B> {
        &self.backend
    }
    /// What transforms are applied with.
    pub(crate) fn context(&self) -> Context<'_, B> {
        Context {
            backend: &self.backend,
            params: &self.params,
            keys: &self.keys,
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
    pub fn keys(&self) -> &EvaluationKeys<B::Key> {
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
    pub fn add(&self, a: &Of<B>, b: &Of<B>) -> Result<Of<B>, CkksError> {
        self.combine((a, b), "add", B::add)
    }

    /// a - b. No level.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn sub(&self, a: &Of<B>, b: &Of<B>) -> Result<Of<B>, CkksError> {
        self.combine((a, b), "sub", B::sub)
    }

    fn combine(
        &self,
        (a, b): (&Of<B>, &Of<B>),
        op: &'static str,
        f: impl Fn(&B, &B::Poly, &B::Poly) -> Made<B::Poly>,
    ) -> Result<Of<B>, CkksError> {
        a.check_aligned(b, op)?;
        let halves = a.polys.iter().zip(&b.polys);
        let polys = halves.map(|(x, y)| f(&self.backend, x, y)).collect::<Made<_>>()?;
        let scale = a.scale;
        Ok(Ciphertext { polys, scale })
    }

    /// Every polynomial through f, the scale as it is.
    fn each(a: Of<B>, f: impl FnMut(B::Poly) -> Made<B::Poly>) -> Result<Of<B>, CkksError> {
        let polys = a.polys.into_iter().map(f).collect::<Made<_>>()?;
        let scale = a.scale;
        Ok(Ciphertext { polys, scale })
    }

    /// The first `limbs` limbs, at the same scale.
    pub(crate) fn truncated(&self, a: &Of<B>, limbs: usize) -> Result<Of<B>, CkksError> {
        let polys = a.polys.iter().map(|p| self.backend.truncated(p, limbs));
        let (polys, scale) = (polys.collect::<Made<_>>()?, a.scale);
        Ok(Ciphertext { polys, scale })
    }

    /// -a. No level.
    ///
    /// # Errors
    /// Those of a device, as of all that follow.
    pub fn neg(&self, a: &Of<B>) -> Result<Of<B>, CkksError> {
        self.mul_integer(a, -1)
    }

    /// Adds a complex constant to every slot. No level.
    ///
    /// # Errors
    /// [`CkksError::Shape`] for a constant that is not finite or too large for the scale.
    pub fn add_constant(&self, a: &Of<B>, c: Complex64) -> Result<Of<B>, CkksError> {
        let constants = self.halves(a.limbs(), c, a.scale)?;
        self.add_to_first(a, |x| self.backend.add_halves(x, &constants))
    }

    fn add_to_first(
        &self,
        a: &Of<B>,
        add: impl FnOnce(B::Poly) -> Made<B::Poly>,
    ) -> Result<Of<B>, CkksError> {
        let mut out = a.clone();
        let first = add(out.polys.swap_remove(0))?;
        out.polys.insert(0, first);
        Ok(out)
    }

    /// Adds a vector whose length divides the slots, repeated over them. No level.
    ///
    /// # Errors
    /// [`CkksError::Shape`] when the length is not a power of two dividing the slots.
    pub fn add_vector(&self, a: &Of<B>, v: &[Complex64]) -> Result<Of<B>, CkksError> {
        let encoded = self.encode_periodic(v, a.scale, a.limbs(), 0)?;
        self.add_to_first(a, |x| self.backend.add_runs(x, &encoded))
    }

    /// Multiplies by an exact small integer. No level; noise and values grow |k| times.
    ///
    /// # Errors
    /// As [`Self::neg`].
    pub fn mul_integer(&self, a: &Of<B>, k: i64) -> Result<Of<B>, CkksError> {
        let residue = |i| self.rlwe().modulus(i).from_i64(k);
        let constants = (0..a.limbs()).map(|i| [residue(i); 2]).collect();
        Self::each(a.clone(), |p| self.backend.mul_halves(p, &constants))
    }

    /// Multiplies by the imaginary unit: exact, no level, no noise.
    ///
    /// # Errors
    /// As [`Self::neg`].
    pub fn mul_i(&self, a: &Of<B>) -> Result<Of<B>, CkksError> {
        self.mul_halves(a.clone(), Complex64::i(), 1.0)
    }

    /// a times round(c * scale), at the scale of a: the imaginary unit is the monomial X^(N/2).
    pub(crate) fn mul_halves(&self, a: Of<B>, c: Complex64, scale: f64) -> Result<Of<B>, CkksError> {
        let constants = self.halves(a.limbs(), c, scale)?;
        Self::each(a, |p| self.backend.mul_halves(p, &constants))
    }

    fn halves(&self, limbs: usize, c: Complex64, scale: f64) -> Result<Halves, CkksError> {
        let size = c.norm() * scale;
        if size.is_nan() || size >= MAX_CONSTANT {
            return Err(CkksError::Shape {
                op: "encode",
                detail: format!(
                    "a constant is not finite or too large for log2 scale {:.1}",
                    scale.log2()
                ),
            });
        }
        let residues = |i| complex_residues(self.rlwe().table(i), c, scale);
        Ok((0..limbs).map(residues).collect())
    }

    /// a * c for a complex constant, rescaled; the result has the canonical scale of its level. One level.
    ///
    /// # Errors
    /// [`CkksError::Level`] when no level is left, [`CkksError::Shape`] as [`Self::add_constant`].
    pub fn mul_constant(&self, a: &Of<B>, c: Complex64) -> Result<Of<B>, CkksError> {
        self.need_level(a, "mul_const", 1)?;
        let factor = self.plain_scale(a);
        let mut out = self.mul_halves(a.clone(), c, factor)?;
        out.scale *= factor;
        self.rescale(out)
    }

    /// Slot-wise product with a periodic vector, rescaled. One level.
    ///
    /// # Errors
    /// [`CkksError::Level`], [`CkksError::Shape`] as [`Self::add_vector`].
    pub fn mul_vector(&self, a: &Of<B>, v: &[Complex64]) -> Result<Of<B>, CkksError> {
        self.need_level(a, "mul_vector", 1)?;
        let factor = self.plain_scale(a);
        let encoded = self.encode_periodic(v, factor, a.limbs(), 0)?;
        let mut out = Self::each(a.clone(), |p| self.backend.mul_runs(p, &encoded))?;
        out.scale *= factor;
        self.rescale(out)
    }

    /// Scale of a plaintext factor that leads from `a` to the canonical scale one level below.
    pub(crate) fn plain_scale(&self, a: &Of<B>) -> f64 {
        self.plain_factor(a.level(), a.scale)
    }

    /// The same from this native level and scale.
    pub(crate) fn plain_factor(&self, level: usize, scale: f64) -> f64 {
        let next = if level <= self.params.top_level() {
            self.params.scale(level - 1)
        } else {
            scale
        };
        next * self.params.prime(level) / scale
    }

    pub(crate) fn need_level(&self, a: &Of<B>, op: &'static str, needed: usize) -> Result<(), CkksError> {
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

/// Residues of round(c.re * scale) +- round(c.im * scale) * X^(N/2) at the two halves of the NTT order.
pub(crate) fn complex_residues(table: &NttTable, c: Complex64, scale: f64) -> [u64; 2] {
    let m = table.modulus();
    let re = m.from_i128((c.re * scale).round() as i128);
    if c.im == 0.0 {
        return [re, re];
    }
    let im = m.mul(
        m.from_i128((c.im * scale).round() as i128),
        table.sqrt_minus_one(),
    );
    [m.add(re, im), m.sub(re, im)]
}
