//! Encryption and decryption of RLWE plaintexts (NTT form, already scaled).
use crate::switching::error_poly;
use crate::{Ciphertext, Parameters, RlweError, RnsPoly, SecretKey};
use tacita_ring::sample;
use zeroize::Zeroize;

/// A public key (b, a) with b = -a*s + e over the first `limbs` primes.
pub struct PublicKey {
    /// b.
    pub b: RnsPoly,
    /// a, uniform.
    pub a: RnsPoly,
}

impl PublicKey {
    /// A public key for levels up to `limbs - 1`.
    ///
    /// # Errors
    /// When the operating system gives no randomness.
    pub fn generate(params: &Parameters, secret: &SecretKey, limbs: usize) -> Result<Self, RlweError> {
        let (b, a, _) = zero_encryption(params, secret, limbs)?;
        Ok(Self { b, a })
    }

    /// Encrypts `plain` (NTT form): (b*u + e0 + m, a*u + e1) with ternary u.
    ///
    /// # Errors
    /// When the operating system gives no randomness, or the plaintext has more limbs than the key.
    pub fn encrypt(&self, params: &Parameters, plain: &RnsPoly, scale: f64) -> Result<Ciphertext, RlweError> {
        let limbs = plain.q_len;
        if limbs > self.b.q_len {
            return Err(RlweError::Shape {
                op: "encrypt",
                detail: format!("plaintext has {limbs} limbs, the public key {}", self.b.q_len),
            });
        }
        let mut prng = sample::Prng::from_os()?;
        let mut drawn = sample::ternary(&mut prng, params.n());
        let mut small: Vec<i64> = drawn.iter().map(|&x| i64::from(x)).collect();
        drawn.zeroize();
        let mut u = RnsPoly::from_small(params, &small, limbs, 0);
        small.zeroize();
        let mut half = |k: &RnsPoly| {
            let mut c = u.clone();
            c.mul_assign(params, &k.truncated(limbs));
            let mut e = error_poly(params, &mut prng, limbs, 0);
            c.add_assign(params, &e);
            e.wipe();
            c
        };
        let (mut c0, c1) = (half(&self.b), half(&self.a));
        u.wipe();
        c0.add_assign(params, plain);
        Ok(Ciphertext {
            polys: vec![c0, c1],
            scale,
        })
    }
}

/// Encrypts `plain` (NTT form) under the secret key: (-a*s + e + m, a), with a expanded from the public seed
/// that is returned beside the ciphertext, so that only the seed and the first half need to travel.
///
/// # Errors
/// When the operating system gives no randomness.
pub fn encrypt_secret(
    params: &Parameters,
    secret: &SecretKey,
    plain: &RnsPoly,
    scale: f64,
) -> Result<(Ciphertext, [u8; 32]), RlweError> {
    let (mut b, a, seed) = zero_encryption(params, secret, plain.q_len)?;
    b.add_assign(params, plain);
    let polys = vec![b, a];
    Ok((Ciphertext { polys, scale }, seed))
}

fn zero_encryption(
    params: &Parameters,
    secret: &SecretKey,
    limbs: usize,
) -> Result<(RnsPoly, RnsPoly, [u8; 32]), RlweError> {
    let mut prng = sample::Prng::from_os()?;
    let seed = prng.seed();
    let mut a = RnsPoly::zero(params, limbs, 0);
    a.for_each_limb(params, |i, limb| {
        let mut hasher = blake3::Hasher::new_keyed(&seed);
        hasher.update(&(i as u64).to_le_bytes());
        let mut stream = sample::Prng::from_seed(*hasher.finalize().as_bytes());
        sample::uniform(&mut stream, params.modulus(i), limb);
    });
    let mut b = a.clone();
    let mut s = secret.ntt().truncated(limbs);
    let mut e = error_poly(params, &mut prng, limbs, 0);
    b.mul_assign(params, &s);
    b.neg_assign(params);
    b.add_assign(params, &e);
    s.wipe();
    e.wipe();
    Ok((b, a, seed))
}

/// Decrypts: c0 + c1*s + c2*s^2 ..., in NTT form (scale unchanged). The result is secret material.
pub fn decrypt(params: &Parameters, secret: &SecretKey, ct: &Ciphertext) -> RnsPoly {
    let mut s = secret.ntt().truncated(ct.limbs());
    let mut acc = ct.polys[ct.polys.len() - 1].clone();
    for c in ct.polys.iter().rev().skip(1) {
        acc.mul_assign(params, &s);
        acc.add_assign(params, c);
    }
    s.wipe();
    acc
}
