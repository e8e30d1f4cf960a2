//! Key-switching keys.
//!
//! A hybrid key from s' to s holds, for each digit d of `digit_limbs` ciphertext primes, (b_d, a_d) with
//! b_d = -a_d*s + e_d + P*g_d*s', where g_d is 1 modulo the primes of digit d and 0 modulo the others. A
//! *single-digit* key has g = 1: it switches polynomials that are already small (the freshly raised c1 of
//! bootstrapping). The uniform halves a_d come from a public seed, so only b_d and the seed travel.
use crate::{Parameters, RlweError, RnsPoly};
use rayon::prelude::*;
use tacita_ring::{kernels, sample, AlignedVec};
use zeroize::Zeroize;

/// Standard deviation of the error (discrete Gaussian).
pub const SIGMA: f64 = 3.2;

/// How a key decomposes its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gadget {
    /// One digit per `digit_limbs` ciphertext primes.
    Rns,
    /// One digit for everything: the input must be small.
    Single,
}

/// A switching key that lives at levels up to `limbs - 1`.
pub struct SwitchingKey {
    /// Public seed of the uniform halves.
    pub seed: [u8; 32],
    /// Ciphertext limbs of the key.
    pub limbs: usize,
    /// Special limbs of the key.
    pub special: usize,
    /// Decomposition.
    pub gadget: Gadget,
    /// b_d by digit; each has `limbs` ciphertext limbs and `special` special limbs.
    pub b: Vec<RnsPoly>,
    /// a_d by digit.
    pub a: Vec<RnsPoly>,
}

impl SwitchingKey {
    /// Number of digits of a key with this shape.
    pub fn digits(params: &Parameters, limbs: usize, gadget: Gadget) -> usize {
        match gadget {
            Gadget::Rns => params.digits(limbs),
            Gadget::Single => 1,
        }
    }

    /// Makes the key that switches from `from` to `to` (secrets in NTT form over all primes).
    ///
    /// # Errors
    /// When the operating system gives no randomness.
    pub fn generate(
        params: &Parameters,
        from: &RnsPoly,
        to: &RnsPoly,
        limbs: usize,
        special: usize,
        gadget: Gadget,
    ) -> Result<Self, RlweError> {
        let mut prng = sample::Prng::from_os()?;
        let mut seed = [0u8; 32];
        prng.fill(&mut seed);
        let digits = Self::digits(params, limbs, gadget);
        let a = expand_uniform(params, &seed, digits, limbs, special);
        let b = (0..digits)
            .map(|d| digit_body(params, &mut prng, from, to, &a[d], d, gadget))
            .collect();
        Ok(Self {
            seed,
            limbs,
            special,
            gadget,
            b,
            a,
        })
    }

    /// Rebuilds a key from its seed and the b halves (after they were checked).
    pub fn from_parts(
        params: &Parameters,
        seed: [u8; 32],
        limbs: usize,
        special: usize,
        gadget: Gadget,
        b: Vec<RnsPoly>,
    ) -> Self {
        let a = expand_uniform(params, &seed, b.len(), limbs, special);
        Self {
            seed,
            limbs,
            special,
            gadget,
            b,
            a,
        }
    }

    /// Bytes held in memory.
    pub fn bytes(&self, params: &Parameters) -> usize {
        2 * self.b.len() * (self.limbs + self.special) * params.n() * 8
    }
}

/// The uniform halves, each limb from its own stream so that limbs can be made in parallel.
fn expand_uniform(
    params: &Parameters,
    seed: &[u8; 32],
    digits: usize,
    limbs: usize,
    special: usize,
) -> Vec<RnsPoly> {
    (0..digits)
        .map(|d| {
            let mut poly = RnsPoly::zero(params, limbs, special);
            poly.for_each_limb(params, |i, limb| {
                sample::uniform(&mut limb_stream(seed, d, i), params.modulus(i), limb);
            });
            poly
        })
        .collect()
}

fn limb_stream(seed: &[u8; 32], digit: usize, prime: usize) -> sample::Prng {
    let mut h = blake3::Hasher::new_keyed(seed);
    h.update(&(digit as u64).to_le_bytes());
    h.update(&(prime as u64).to_le_bytes());
    sample::Prng::from_seed(*h.finalize().as_bytes())
}

fn digit_body(
    params: &Parameters,
    prng: &mut sample::Prng,
    from: &RnsPoly,
    to: &RnsPoly,
    a: &RnsPoly,
    digit: usize,
    gadget: Gadget,
) -> RnsPoly {
    let mut error = error_poly(params, prng, a.q_len, a.p_len());
    let q_len = a.q_len;
    let secret_q = params.q_len();
    let dl = params.digit_limbs();
    error.limbs.par_iter_mut().enumerate().for_each(|(i, out)| {
        let special = i >= q_len;
        let index = if special { params.p_index(i - q_len) } else { i };
        let m = params.modulus(index);
        let at = if special { secret_q + i - q_len } else { i };
        let mut product = AlignedVec::scratch(params.n());
        kernels::mul(m, &mut product, &a.limbs[i], &to.limbs[at]);
        kernels::sub_assign(m, out, &product);
        // `a` is public: what goes back to the pool must not be a multiple of the secret by it.
        product.zeroize();
        let in_digit = gadget == Gadget::Single || i / dl == digit;
        if !special && in_digit {
            let p = special_product(params, a.p_len(), index);
            kernels::mul_scalar_add_assign(m, out, &from.limbs[at], p);
        }
    });
    error
}

/// Product of the first `special` special primes modulo prime `index`.
pub(crate) fn special_product(params: &Parameters, special: usize, index: usize) -> u64 {
    let m = params.modulus(index);
    (0..special).fold(1, |acc, k| m.mul(acc, params.p()[k] % m.p()))
}

/// A fresh error polynomial in NTT form.
pub(crate) fn error_poly(
    params: &Parameters,
    prng: &mut sample::Prng,
    q_len: usize,
    p_len: usize,
) -> RnsPoly {
    let mut small = sample::gaussian(prng, params.n(), SIGMA);
    let mut e: Vec<i64> = small.iter().map(|&x| i64::from(x)).collect();
    let poly = RnsPoly::from_small(params, &e, q_len, p_len);
    small.zeroize();
    e.zeroize();
    poly
}
