//! Key-switching keys.
//!
//! A hybrid key from s' to s holds, for each digit d (see [`Parameters::digit`]), (b_d, a_d) with
//! b_d = -a_d*s + e_d + P*g_d*s', where g_d is 1 modulo the primes of digit d and 0 modulo the others. A
//! *single-digit* key has g = 1: it switches polynomials that are already small (c1 of a bootstrap, below
//! q0). The uniform halves a_d come from a public seed, so only b_d and the seed travel.
use crate::packed_key::{NotCanonical, PackedHalves};
use crate::{Parameters, RlweError, RnsPoly};
use rayon::prelude::*;
use std::ops::Range;
use tacita_ring::packed::Row;
use tacita_ring::{kernels, sample, AlignedVec, Lines};
use zeroize::Zeroize;

/// Standard deviation of the error (discrete Gaussian).
pub const SIGMA: f64 = 3.2;

/// How a key decomposes its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gadget {
    /// The digits of [`Parameters::digit`].
    Rns,
    /// One digit for everything: the input must be small.
    Single,
    /// The same for a source that is a multiple of the special primes already, or nearly: see
    /// [`crate::keyswitch::switch_products`].
    Multiple,
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
    /// b_d by digit; each has `limbs` ciphertext limbs and `special` special limbs. Of a packed key none.
    pub b: Vec<RnsPoly>,
    /// a_d by digit. Of a packed key none.
    pub a: Vec<RnsPoly>,
    packed: Option<PackedHalves>,
}

/// The same values of some digits of one half of a key, or of several keys.
pub(crate) enum Rows<'a> {
    Doubles(Vec<&'a [f64]>),
    Packed(Vec<Row<'a>>),
}

impl<'a> FromIterator<Rows<'a>> for Rows<'a> {
    /// All of them in order; they are of one kind.
    fn from_iter<I: IntoIterator<Item = Self>>(rows: I) -> Self {
        let (mut doubles, mut packed) = (Vec::new(), Vec::new());
        for rows in rows {
            match rows {
                Self::Doubles(rows) => doubles.extend(rows),
                Self::Packed(rows) => packed.extend(rows),
            }
        }
        if packed.is_empty() {
            Self::Doubles(doubles)
        } else {
            Self::Packed(packed)
        }
    }
}

impl SwitchingKey {
    /// Number of digits of a key with this shape.
    pub fn digits(params: &Parameters, (limbs, special): (usize, usize), gadget: Gadget) -> usize {
        match gadget {
            Gadget::Rns => params.digits(limbs, special),
            Gadget::Single | Gadget::Multiple => 1,
        }
    }

    /// Number of its digits.
    pub fn count(&self) -> usize {
        self.packed.as_ref().map_or(self.b.len(), PackedHalves::digits)
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
        let digits = Self::digits(params, (limbs, special), gadget);
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
            packed: None,
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
            packed: None,
        }
    }

    /// The same of b halves that are packed, and stay so; the uniform ones become so. Such a key takes a
    /// quarter less memory and switches as fast.
    ///
    /// # Errors
    /// The first limb with a residue that is not below its prime.
    pub fn from_packed(
        params: &Parameters,
        seed: [u8; 32],
        (limbs, special): (usize, usize),
        gadget: Gadget,
        b: &[u8],
    ) -> Result<Self, NotCanonical> {
        let fill = |d, i, limb: &mut [f64]| {
            sample::uniform(&mut limb_stream(&seed, d, i), params.modulus(i), limb);
        };
        let digits = Self::digits(params, (limbs, special), gadget);
        let packed = PackedHalves::new(params, (digits, limbs, special), b, fill)?;
        Ok(Self {
            seed,
            limbs,
            special,
            gadget,
            b: Vec::new(),
            a: Vec::new(),
            packed: Some(packed),
        })
    }

    /// This key for the digits of [`Parameters::with_joined_digits`], `from` being those without: digits are
    /// added up, and the gadget of the sum is 1 modulo the primes of each. Its error is the sum of theirs.
    /// Without the limbs that `from` leaves out, and of doubles; its seed makes none of its halves.
    pub fn joined(&self, from: &Parameters, to: &Parameters) -> Self {
        let digits = self.count();
        let (first, joined) = (from.first_limbs(self.special), to.first_limbs(self.special));
        let group = |d: usize| joined.partition_point(|&limb| limb <= first[d]) - 1;
        let mut chain = vec![None; self.limbs];
        (0..from.q_len()).for_each(|limb| {
            if let Some(at) = chain.get_mut(from.key_limb(limb)) {
                *at = Some(limb);
            }
        });
        chain.extend((0..self.special).map(|k| Some(from.p_index(k))));
        let sum = |half: usize, digits: &[usize], at: usize| {
            let Some(index) = chain[at] else {
                return AlignedVec::zeroed(0);
            };
            let mut sum = AlignedVec::zeroed(from.n());
            for &d in digits {
                kernels::add_assign(from.modulus(index), &mut sum, &self.limb(from, half, d, at));
            }
            sum
        };
        let groups: Vec<Vec<usize>> = (0..joined.len())
            .map(|j| (0..digits).filter(|&d| group(d) == j).collect())
            .filter(|digits: &Vec<usize>| !digits.is_empty())
            .collect();
        let poly = |half: usize, digits: &[usize]| RnsPoly {
            limbs: (0..chain.len())
                .into_par_iter()
                .map(|at| sum(half, digits, at))
                .collect(),
            q_len: self.limbs,
        };
        let [b, a] = [0, 1].map(|half| groups.iter().map(|digits| poly(half, digits)).collect());
        Self {
            seed: [0; 32],
            limbs: self.limbs,
            special: self.special,
            gadget: self.gadget,
            b,
            a,
            packed: None,
        }
    }

    /// Bytes held in memory.
    pub fn bytes(&self, params: &Parameters) -> usize {
        let doubles = 2 * self.b.len() * (self.limbs + self.special) * params.n() * 8;
        self.packed.as_ref().map_or(doubles, PackedHalves::bytes)
    }

    /// Values `part` (whole groups of eight of a packed key) of limb `at` of the first `digits` digits of one
    /// half: b (0) or a (1).
    pub(crate) fn rows(&self, half: usize, digits: usize, at: usize, part: &Range<usize>) -> Rows<'_> {
        match &self.packed {
            Some(packed) => Rows::Packed((0..digits).map(|d| packed.row((half, d, at), part)).collect()),
            None => {
                let row = [&self.b, &self.a][half][..digits].iter();
                Rows::Doubles(row.map(|k| &k.limbs[at][part.clone()]).collect())
            }
        }
    }

    /// Limb `at` of digit `d` of one half, a copy: for comparisons.
    pub fn limb(&self, params: &Parameters, half: usize, d: usize, at: usize) -> Vec<f64> {
        let all = 0..params.n();
        match &self.packed {
            Some(packed) => packed.unpacked((half, d, at), &all),
            None => [&self.b, &self.a][half][d].limbs[at].to_vec(),
        }
    }

    /// Lets the caches be asked for what [`Self::rows`] gives.
    pub(crate) fn ask_for(&self, digits: usize, at: usize, part: &Range<usize>, ahead: &mut Lines) {
        for half in 0..2 {
            for d in 0..digits {
                match &self.packed {
                    Some(packed) => ahead.add(packed.part((half, d, at), part)),
                    None => ahead.add(&[&self.b, &self.a][half][d].limbs[at][part.clone()]),
                }
            }
        }
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
    let limb = |d: usize, i: usize| {
        let index = if i < limbs { i } else { params.p_index(i - limbs) };
        let mut limb = AlignedVec::scratch(params.n());
        sample::uniform(&mut limb_stream(seed, d, index), params.modulus(index), &mut limb);
        limb
    };
    let all = |d| (0..limbs + special).into_par_iter().map(|i| limb(d, i)).collect();
    (0..digits)
        .map(|d| RnsPoly {
            limbs: all(d),
            q_len: limbs,
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
    let own = match gadget {
        Gadget::Single => 0..q_len,
        Gadget::Multiple => 0..a.limbs.len(),
        Gadget::Rns => params.digit(digit, q_len, a.p_len()),
    };
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
        if own.contains(&i) {
            let p = match gadget {
                Gadget::Multiple => 1,
                _ => special_product(params, a.p_len(), index),
            };
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
