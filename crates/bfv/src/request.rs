//! Requests: ciphertexts under the secret key, the uniform half replaced by its public seed.
//!
//! Two wire forms. *Residues* ([`seeded_to_bytes`]): seed and b in NTT form, limb by limb; exact, any number
//! of primes. *Rounded* ([`encrypt_message`]): b in coefficient form as an integer below q without its `drop`
//! low bits; the receiver puts the middle of the dropped interval. That adds at most 2^(drop-1) to the error
//! of the phase and is a function of b alone, so it tells nothing more than b. Cost of a rounded one: (98 -
//! drop) * N bits, 2 inverse NTTs at the sender, 2 forward at the receiver (and one uniform polynomial from
//! ChaCha20 on both sides).
use crate::bits::{packed_len, Reader, Writer};
use crate::crt::Crt;
use crate::error::check_len;
use crate::residues::{poly_len, read_poly, write_poly};
use crate::{BfvError, Result};
use tacita_ring::{kernels, sample};
use tacita_rlwe::switching::SIGMA;
use tacita_rlwe::{Ciphertext, Parameters, RnsPoly, SecretKey};
use zeroize::Zeroize;

const SEED: usize = 32;

/// The uniform half of a seed, NTT form: the derivation of `tacita_rlwe::encrypt`, so both agree.
pub fn expand(params: &Parameters, seed: &[u8; 32], limbs: usize) -> RnsPoly {
    let mut a = RnsPoly::zero(params, limbs, 0);
    for (i, limb) in a.limbs.iter_mut().enumerate() {
        let mut hasher = blake3::Hasher::new_keyed(seed);
        hasher.update(&(i as u64).to_le_bytes());
        let mut stream = sample::Prng::from_seed(*hasher.finalize().as_bytes());
        sample::uniform(&mut stream, params.modulus(i), limb);
    }
    a
}

/// Bytes of [`seeded_to_bytes`].
pub fn seeded_len(params: &Parameters, limbs: usize) -> usize {
    SEED + poly_len(params, limbs, 0)
}

/// Seed and packed b (NTT form) of a ciphertext from `tacita_rlwe::encrypt::encrypt_secret`.
pub fn seeded_to_bytes(params: &Parameters, seed: &[u8; 32], b: &RnsPoly) -> Vec<u8> {
    let mut out = Vec::with_capacity(seeded_len(params, b.q_len));
    out.extend_from_slice(seed);
    write_poly(params, b, &mut out);
    out
}

/// Inverse of [`seeded_to_bytes`]: the ciphertext with its uniform half expanded.
///
/// # Errors
/// For another length or a residue that is not below its prime.
pub fn seeded_from_bytes(params: &Parameters, bytes: &[u8], limbs: usize) -> Result<Ciphertext> {
    check_len("ciphertext", bytes, seeded_len(params, limbs))?;
    let (seed, mut rest) = bytes.split_at(SEED);
    let b = read_poly(params, &mut rest, limbs, 0)?;
    let a = expand(params, seed.try_into().expect("32 bytes"), limbs);
    Ok(pair(b, a))
}

/// A ciphertext with phase b + a*s.
pub(crate) fn pair(b: RnsPoly, a: RnsPoly) -> Ciphertext {
    let polys = vec![b, a];
    Ciphertext { polys, scale: 1.0 }
}

/// How b of a rounded request travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounding {
    /// Ciphertext primes: 1 to 3.
    pub limbs: usize,
    /// Low bits of b that stay at home (0 with three primes).
    pub drop: u32,
}

impl Rounding {
    /// Bits of b without its low ones (one or two primes).
    fn width(self, params: &Parameters) -> u32 {
        128 - (Crt::new(params, self.limbs).product() - 1).leading_zeros() - self.drop
    }

    /// Bytes of one request.
    pub fn byte_len(self, params: &Parameters) -> usize {
        if self.limbs <= 2 {
            SEED + packed_len(params.n(), self.width(params))
        } else {
            seeded_len(params, self.limbs)
        }
    }
}

/// Encrypts round(q m / 2^bits) + e, ready to travel. `message`: N values below 2^bits (1 <= bits <= 64).
///
/// # Errors
/// When the operating system gives no randomness.
pub fn encrypt_message(
    params: &Parameters,
    secret: &SecretKey,
    message: &[u64],
    bits: u32,
    form: Rounding,
) -> Result<Vec<u8>> {
    Ok(Zero::new(params, secret, form.limbs)?.encrypt(params, message, bits, form))
}

/// A fresh encryption of zero, for one request: all of its work that waits for no message.
pub struct Zero {
    seed: [u8; SEED],
    /// a s - e, coefficient form.
    product: RnsPoly,
}

impl Zero {
    /// Of `limbs` primes. Cost: uniform and Gaussian samples, an NTT a prime.
    ///
    /// # Errors
    /// When the operating system gives no randomness.
    pub fn new(params: &Parameters, secret: &SecretKey, limbs: usize) -> Result<Self> {
        let mut prng = sample::Prng::from_os()?;
        let seed = prng.seed();
        let mut error = sample::gaussian(&mut prng, params.n(), SIGMA);
        let mut product = expand(params, &seed, limbs);
        for (i, a) in product.limbs.iter_mut().enumerate() {
            let m = params.modulus(i);
            kernels::mul_assign(m, a, &secret.ntt().limbs[i]);
            params.table(i).inverse(a);
            for (a, &e) in a.iter_mut().zip(&error) {
                *a = m.sub(*a as u64, m.from_i64(i64::from(e))) as f64;
            }
        }
        error.zeroize();
        Ok(Self { seed, product })
    }

    /// The request of a message, as [`encrypt_message`] makes it; `form` has the primes of this zero.
    pub fn encrypt(self, params: &Parameters, message: &[u64], bits: u32, form: Rounding) -> Vec<u8> {
        let mut b = Crt::new(params, form.limbs).scale_up(message, bits);
        for (i, (b, product)) in b.limbs.iter_mut().zip(&self.product.limbs).enumerate() {
            kernels::sub_assign(params.modulus(i), b, product);
        }
        let bytes = if form.limbs <= 2 {
            rounded_bytes(params, &self.seed, &b, form)
        } else {
            seeded_to_bytes(params, &self.seed, &b)
        };
        b.wipe();
        bytes
    }
}

impl Drop for Zero {
    fn drop(&mut self) {
        self.product.wipe();
    }
}

fn rounded_bytes(params: &Parameters, seed: &[u8; 32], b: &RnsPoly, form: Rounding) -> Vec<u8> {
    let width = form.width(params);
    let mut writer = Writer::with_capacity(form.byte_len(params));
    Crt::new(params, form.limbs).integers(b, |_, x| writer.put_wide(x >> form.drop, width));
    let mut out = seed.to_vec();
    out.extend_from_slice(&writer.finish());
    out
}

/// Inverse of [`encrypt_message`] up to rounding: the ciphertext in NTT form.
///
/// # Errors
/// For another length or values that are not below q.
pub fn decode_request(params: &Parameters, bytes: &[u8], form: Rounding) -> Result<Ciphertext> {
    check_len("request", bytes, form.byte_len(params))?;
    let (seed, mut rest) = bytes.split_at(SEED);
    let mut b = if form.limbs <= 2 {
        read_rounded(params, rest, form)?
    } else {
        read_poly(params, &mut rest, form.limbs, 0)?
    };
    for (i, limb) in b.limbs.iter_mut().enumerate() {
        params.table(i).forward(limb);
    }
    let a = expand(params, seed.try_into().expect("32 bytes"), form.limbs);
    Ok(pair(b, a))
}

fn read_rounded(params: &Parameters, bytes: &[u8], form: Rounding) -> Result<RnsPoly> {
    let crt = Crt::new(params, form.limbs);
    let (width, q) = (form.width(params), crt.product());
    let mut reader = Reader::new(bytes);
    let middle = (1u128 << form.drop) >> 1;
    let mut largest = 0;
    let values = (0..params.n()).map(|_| {
        let floor = reader.get_wide(width) << form.drop;
        largest = largest.max(floor);
        let value = floor + middle;
        value.min(q - 1).min(value.wrapping_sub(q)) // below q: only a refused one is beyond 2 q
    });
    let poly = crt.residues(values);
    if largest >= q {
        let detail = "a coefficient is not below q".into();
        return Err(BfvError::Bytes {
            op: "request",
            detail,
        });
    }
    Ok(poly)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::{parameters_olt, NARROW, WIDE};
    use crate::ClientKeys;
    use tacita_rlwe::encrypt::decrypt;

    fn message(params: &Parameters, bits: u32) -> Vec<u64> {
        let mask = u64::MAX >> (64 - bits);
        (0..params.n() as u64)
            .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits) & mask)
            .collect()
    }

    #[test]
    fn the_phase_is_the_scaled_message_plus_a_small_error() {
        let params = parameters_olt().unwrap();
        let keys = ClientKeys::generate(&params).unwrap();
        for (limbs, drop, bits, bound) in [
            (NARROW, 0, 64, 22),
            (NARROW, 20, 64, (1 << 19) + 22),
            (1, 12, 28, (1 << 11) + 22),
            (WIDE, 0, 33, 22),
        ] {
            let (form, m) = (Rounding { limbs, drop }, message(&params, bits));
            let bytes = encrypt_message(&params, &keys.secret, &m, bits, form).unwrap();
            assert_eq!(bytes.len(), form.byte_len(&params));
            let ct = decode_request(&params, &bytes, form).unwrap();
            let mut phase = decrypt(&params, &keys.secret, &ct);
            let scaled = Crt::new(&params, limbs).scale_up(&m, bits);
            let mut worst = 0;
            for i in 0..limbs {
                params.table(i).inverse(&mut phase.limbs[i]);
                let p = params.modulus(i);
                for (&x, &y) in phase.limbs[i].iter().zip(scaled.limbs[i].iter()) {
                    worst = worst.max(p.center(p.sub(x as u64, y as u64)).abs());
                }
            }
            assert!(worst <= bound && worst >= bound / 3, "{form:?}: {worst}");
        }
    }

    #[test]
    fn requests_of_equal_messages_differ_and_hostile_bytes_are_refused() {
        let params = parameters_olt().unwrap();
        let keys = ClientKeys::generate(&params).unwrap();
        let form = Rounding {
            limbs: NARROW,
            drop: 9,
        };
        let m = vec![0; params.n()];
        let once = encrypt_message(&params, &keys.secret, &m, 64, form).unwrap();
        let again = encrypt_message(&params, &keys.secret, &m, 64, form).unwrap();
        assert!(once[..32] != again[..32] && once[32..] != again[32..]);
        assert!(decode_request(&params, &once[1..], form).is_err());
        let wide = Rounding { limbs: WIDE, drop: 0 };
        for form in [form, wide] {
            let garbage = vec![0xff; form.byte_len(&params)];
            assert!(decode_request(&params, &garbage, form).is_err());
        }
    }

    #[test]
    fn exact_requests_survive_the_wire() {
        let params = parameters_olt().unwrap();
        let keys = ClientKeys::generate(&params).unwrap();
        let plain = Crt::new(&params, WIDE).scale_up(&message(&params, 64), 64);
        let (ct, seed) = tacita_rlwe::encrypt::encrypt_secret(&params, &keys.secret, &plain, 1.0).unwrap();
        let back = seeded_from_bytes(&params, &seeded_to_bytes(&params, &seed, &ct.polys[0]), WIDE).unwrap();
        assert!((0..2).all(|i| back.polys[i].limbs == ct.polys[i].limbs));
    }
}
