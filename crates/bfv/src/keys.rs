//! The client's keys and what the server gets of them.
use crate::error::check_len;
use crate::request::expand;
use crate::residues::{poly_len, read_poly, write_poly};
use crate::Result;
use tacita_ring::Permutation;
use tacita_rlwe::switching::Gadget;
use tacita_rlwe::{encrypt, Parameters, PublicKey, RnsPoly, SecretKey, SwitchingKey};

/// The key holder's secret. Wiped on drop; no `Debug`, no bytes.
pub struct ClientKeys {
    /// The ternary secret.
    pub secret: SecretKey,
}

/// Key switching from s(X^g) to s with g = N/h + 1: the map that flips the sign of odd multiples of h among
/// multiples of h.
pub struct Automorphism {
    /// Where each NTT value comes from.
    pub permutation: Permutation,
    /// The switching key.
    pub key: SwitchingKey,
}

/// What the evaluating side holds: a public key over all primes, to refresh responses, and automorphism keys
/// over `limbs` ciphertext primes.
pub struct ServerKeys {
    /// (b, a) with b + a s = e.
    pub public: PublicKey,
    /// By log2(h), 0 <= log2(h) < log2(N).
    pub automorphisms: Vec<Automorphism>,
    public_seed: [u8; 32],
    limbs: usize,
}

/// The Galois element N/h + 1 with N = 2^log_n and h = 2^log_h.
pub const fn galois_element(log_n: u32, log_h: u32) -> u64 {
    (1 << (log_n - log_h)) + 1
}

const SEED: usize = 32;

impl ClientKeys {
    /// A fresh secret from the operating system.
    ///
    /// # Errors
    /// When the operating system gives no randomness.
    pub fn generate(params: &Parameters) -> Result<Self> {
        let secret = SecretKey::generate(params)?;
        Ok(Self { secret })
    }

    /// Keys for a server that evaluates on ciphertexts of up to `limbs` primes; `packing`: with the 13
    /// automorphism keys.
    ///
    /// # Errors
    /// When the operating system gives no randomness.
    pub fn server_keys(&self, params: &Parameters, limbs: usize, packing: bool) -> Result<ServerKeys> {
        let zero = RnsPoly::zero(params, params.q_len(), 0);
        let (ct, public_seed) = encrypt::encrypt_secret(params, &self.secret, &zero, 1.0)?;
        let mut polys = ct.polys.into_iter();
        let (Some(b), Some(a)) = (polys.next(), polys.next()) else {
            unreachable!("a fresh ciphertext has two polynomials")
        };
        let count = if packing { params.log_n() } else { 0 };
        let automorphisms = (0..count)
            .map(|log_h| Automorphism::generate(params, &self.secret, log_h, limbs))
            .collect::<Result<_>>()?;
        Ok(ServerKeys {
            public: PublicKey { b, a },
            automorphisms,
            public_seed,
            limbs,
        })
    }
}

impl Automorphism {
    /// Made by the holder of `secret`, for ciphertexts of up to `limbs` primes in a ring of any degree N
    /// above 2^log_h whose digits are single primes.
    ///
    /// # Errors
    /// When the operating system gives no randomness.
    pub fn generate(params: &Parameters, secret: &SecretKey, log_h: u32, limbs: usize) -> Result<Self> {
        let from = secret.automorphism(params, galois_element(params.log_n(), log_h));
        let special = params.p_len();
        let key = SwitchingKey::generate(params, from.ntt(), secret.ntt(), limbs, special, Gadget::Rns)?;
        Ok(Self::new(params, log_h, key))
    }

    /// From a key that `generate` made for the same `log_h`.
    pub fn new(params: &Parameters, log_h: u32, key: SwitchingKey) -> Self {
        Self {
            permutation: Permutation::new(params.log_n(), galois_element(params.log_n(), log_h)),
            key,
        }
    }
}

impl ServerKeys {
    /// Bytes of keys for `limbs` primes: 0.15 MB of public key and 0.3 MB (narrow) or 0.6 MB (wide) an
    /// automorphism.
    pub fn byte_len(params: &Parameters, limbs: usize, packing: bool) -> usize {
        let digits = SwitchingKey::digits(params, (limbs, params.p_len()), Gadget::Rns);
        let one = SEED + digits * poly_len(params, limbs, params.p_len());
        let count = if packing { params.log_n() as usize } else { 0 };
        SEED + poly_len(params, params.q_len(), 0) + count * one
    }

    /// Ciphertext primes of the automorphism keys.
    pub fn limbs(&self) -> usize {
        self.limbs
    }

    /// Seeds and b halves.
    pub fn to_bytes(&self, params: &Parameters) -> Vec<u8> {
        let mut out = self.public_seed.to_vec();
        write_poly(params, &self.public.b, &mut out);
        for automorphism in &self.automorphisms {
            out.extend_from_slice(&automorphism.key.seed);
            let bodies = &automorphism.key.b;
            bodies.iter().for_each(|b| write_poly(params, b, &mut out));
        }
        out
    }

    /// Inverse of [`ServerKeys::to_bytes`].
    ///
    /// # Errors
    /// For another length or a residue that is not below its prime.
    pub fn from_bytes(params: &Parameters, bytes: &[u8], limbs: usize, packing: bool) -> Result<Self> {
        check_len("server keys", bytes, Self::byte_len(params, limbs, packing))?;
        let mut rest = bytes;
        let public_seed = take_seed(&mut rest);
        let public = PublicKey {
            b: read_poly(params, &mut rest, params.q_len(), 0)?,
            a: expand(params, &public_seed, params.q_len()),
        };
        let count = if packing { params.log_n() } else { 0 };
        let automorphisms = (0..count)
            .map(|log_h| read_automorphism(params, &mut rest, log_h, limbs))
            .collect::<Result<_>>()?;
        Ok(Self {
            public,
            automorphisms,
            public_seed,
            limbs,
        })
    }
}

fn read_automorphism(
    params: &Parameters,
    rest: &mut &[u8],
    log_h: u32,
    limbs: usize,
) -> Result<Automorphism> {
    let seed = take_seed(rest);
    let special = params.p_len();
    let bodies = (0..SwitchingKey::digits(params, (limbs, params.p_len()), Gadget::Rns))
        .map(|_| read_poly(params, rest, limbs, special))
        .collect::<Result<_>>()?;
    let key = SwitchingKey::from_parts(params, seed, limbs, special, Gadget::Rns, bodies);
    Ok(Automorphism::new(params, log_h, key))
}

/// The first 32 bytes; the length was checked.
fn take_seed(rest: &mut &[u8]) -> [u8; SEED] {
    let (seed, tail) = rest.split_at(SEED);
    *rest = tail;
    seed.try_into().expect("32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::{parameters_olt, NARROW, WIDE};

    #[test]
    fn keys_survive_the_wire() {
        let params = parameters_olt().unwrap();
        let client = ClientKeys::generate(&params).unwrap();
        for (limbs, packing) in [(NARROW, true), (WIDE, false)] {
            let keys = client.server_keys(&params, limbs, packing).unwrap();
            let bytes = keys.to_bytes(&params);
            assert_eq!(bytes.len(), ServerKeys::byte_len(&params, limbs, packing));
            let back = ServerKeys::from_bytes(&params, &bytes, limbs, packing).unwrap();
            assert!(back.public.b.limbs == keys.public.b.limbs && back.public.a.limbs == keys.public.a.limbs);
            assert_eq!(back.automorphisms.len(), keys.automorphisms.len());
            for (x, y) in back.automorphisms.iter().zip(&keys.automorphisms) {
                assert!(x.key.a[0].limbs == y.key.a[0].limbs && x.key.b[1].limbs == y.key.b[1].limbs);
            }
        }
    }

    #[test]
    fn short_long_and_garbage_keys_are_refused() {
        let params = parameters_olt().unwrap();
        let len = ServerKeys::byte_len(&params, NARROW, false);
        for bytes in [vec![0; len - 1], vec![0; len + 1], vec![0xff; len], vec![]] {
            assert!(ServerKeys::from_bytes(&params, &bytes, NARROW, false).is_err());
        }
        assert!(ServerKeys::from_bytes(&params, &vec![0; len], NARROW, false).is_ok());
    }

    #[test]
    fn the_public_key_encrypts_zero() {
        let params = parameters_olt().unwrap();
        let client = ClientKeys::generate(&params).unwrap();
        let keys = client.server_keys(&params, NARROW, false).unwrap();
        let mut phase = keys.public.a.clone();
        phase.mul_assign(&params, client.secret.ntt());
        phase.add_assign(&params, &keys.public.b);
        for i in 0..WIDE {
            let m = params.modulus(i);
            let worst = phase
                .limb_coefficients(&params, i)
                .iter()
                .map(|&x| m.center(x as u64).abs())
                .max();
            assert!((1..=20).contains(&worst.unwrap()), "{worst:?}");
        }
    }
}
