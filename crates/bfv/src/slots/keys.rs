//! The key holder's secret (one for all plaintext primes) and, per plaintext prime, the public key for fresh
//! encryptions of zero.
use super::{bytes, SlotRing};
use tacita_ring::{kernels, sample, AlignedVec};
use tacita_rlwe::switching::SIGMA;
use tacita_rlwe::RlweError;
use zeroize::Zeroize;

pub use tacita_rlwe::SecretKey;

/// Bytes of a seed.
pub(super) const SEED: usize = 32;

/// A uniform ternary secret, to be had over the primes of any [`SlotRing`].
pub struct Secret(Vec<i8>);

impl Secret {
    /// From the operating system's randomness.
    ///
    /// # Errors
    /// When there is none.
    pub fn generate(n: usize) -> Result<Self, RlweError> {
        Ok(Self(sample::ternary(&mut sample::Prng::from_os()?, n)))
    }

    /// The secret over the primes of `ring`.
    pub fn over(&self, ring: &SlotRing) -> SecretKey {
        SecretKey::from_coefficients(ring.params(), self.0.clone())
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// An encryption of zero under the secret key, (b, a) in NTT form over all ciphertext primes: what the
/// evaluator needs to make others.
pub struct PublicKey {
    pub(super) b: Vec<AlignedVec>,
    pub(super) a: Vec<AlignedVec>,
}

impl PublicKey {
    /// The key in bytes: the seed of a, then b.
    ///
    /// # Errors
    /// When the operating system gives no randomness.
    pub fn generate(ring: &SlotRing, secret: &SecretKey) -> Result<Vec<u8>, RlweError> {
        let zeros = (0..ring.params().q_len())
            .map(|_| AlignedVec::zeroed(ring.n()))
            .collect();
        encrypt_residues(ring, secret, zeros)
    }

    /// Bytes of a key.
    pub fn bytes_len(ring: &SlotRing) -> usize {
        encrypted_len(ring)
    }

    /// Reads a key; `None` unless it has [`PublicKey::bytes_len`] bytes and canonical residues.
    pub fn from_bytes(ring: &SlotRing, bytes: &[u8]) -> Option<Self> {
        let [b, a] = read(ring, bytes)?;
        Some(Self { b, a })
    }
}

/// Bytes of a seeded ciphertext.
pub(super) fn encrypted_len(ring: &SlotRing) -> usize {
    SEED + bytes::packed_len(ring.n(), ring.widths())
}

/// The halves (b, a) of a seeded ciphertext, NTT form.
pub(super) fn read(ring: &SlotRing, bytes: &[u8]) -> Option<[Vec<AlignedVec>; 2]> {
    let (seed, packed) = bytes.split_at_checked(SEED)?;
    let b = bytes::unpack_limbs(ring, ring.widths(), packed)?;
    let seed = seed.try_into().expect("the length of a seed");
    let a = (0..b.len()).map(|i| uniform_half(ring, &seed, i)).collect();
    Some([b, a])
}

/// A seeded ciphertext of a scaled plaintext (coefficient form), in bytes: a = expand(seed), b = -a s + e + m
/// in NTT form.
/// Cost: one NTT and one uniform limb per prime.
pub(super) fn encrypt_residues(
    ring: &SlotRing,
    secret: &SecretKey,
    plain: Vec<AlignedVec>,
) -> Result<Vec<u8>, RlweError> {
    let mut prng = sample::Prng::from_os()?;
    let seed = prng.seed();
    let mut out = Vec::with_capacity(encrypted_len(ring));
    out.extend_from_slice(&seed);
    let mut error = sample::gaussian(&mut prng, ring.n(), SIGMA);
    for (i, mut limb) in plain.into_iter().enumerate() {
        let table = ring.params().table(i);
        add_small(table.modulus().p(), &mut limb, &error);
        table.forward(&mut limb);
        let mut mask = uniform_half(ring, &seed, i);
        kernels::mul_assign(table.modulus(), &mut mask, &secret.ntt().limbs[i]);
        kernels::sub_assign(table.modulus(), &mut limb, &mask);
        bytes::pack(&limb, ring.widths()[i], &mut out);
        (*mask).zeroize();
    }
    error.zeroize();
    Ok(out)
}

/// limb += small signed integers, modulo p.
pub(super) fn add_small(p: u64, limb: &mut [f64], small: &[i32]) {
    let p = p as f64;
    for (x, &e) in limb.iter_mut().zip(small) {
        let sum = *x + f64::from(e);
        let sum = sum + if sum < 0.0 { p } else { 0.0 };
        *x = sum - if sum >= p { p } else { 0.0 };
    }
}

/// The uniform half modulo the i-th prime, NTT form; every prime has a stream of its own.
fn uniform_half(ring: &SlotRing, seed: &[u8; SEED], i: usize) -> AlignedVec {
    let mut hasher = blake3::Hasher::new_keyed(seed);
    hasher.update(&(i as u64).to_le_bytes());
    let mut stream = sample::Prng::from_seed(*hasher.finalize().as_bytes());
    let mut limb = AlignedVec::scratch(ring.n());
    sample::uniform(&mut stream, ring.params().modulus(i), &mut limb);
    limb
}
