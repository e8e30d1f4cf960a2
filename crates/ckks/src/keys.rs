//! Evaluation keys: which ones there are, where each lives, and how the client makes them one at a time.
use crate::{sparse, CkksError, CkksParameters};
use std::collections::HashMap;
use tacita_ring::packed;
use tacita_rlwe::switching::Gadget;
use tacita_rlwe::{RlweError, RnsPoly, SecretKey, SwitchingKey};

/// What an evaluation key switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyKind {
    /// s^2 -> s.
    Relinearise,
    /// Automorphism X -> X^g (rotations and the conjugation).
    Galois(u64),
    /// The same at the bottom of the chain, for slots-to-coefficients: with as many special primes as limbs,
    /// so that a switch of three limbs need not carry all seven.
    LowGalois(u64),
    /// s -> sparse secret, under q0 and one special prime.
    ToSparse,
    /// Sparse secret -> s, for a small input.
    ToDense,
}

impl KeyKind {
    /// Special primes of a key of so many limbs, of `all` that there are.
    pub(crate) fn special(self, limbs: usize, all: usize) -> usize {
        match self {
            Self::ToSparse => 1,
            Self::ToDense => 2,
            Self::LowGalois(_) => limbs.min(all),
            Self::Relinearise | Self::Galois(_) => all,
        }
    }
}

/// A key to be made: what it switches and its number of ciphertext limbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpec {
    /// What it switches.
    pub kind: KeyKind,
    /// Ciphertext limbs: the key serves native levels below this.
    pub limbs: usize,
}

impl KeySpec {
    /// Fails for a key to the sparse secret at more limbs than one, and for keys of bootstrapping without its
    /// primes.
    ///
    /// # Errors
    /// [`CkksError::Shape`] naming key and limbs.
    pub fn check(&self, params: &CkksParameters) -> Result<(), CkksError> {
        let of_bootstrapping = matches!(self.kind, KeyKind::ToSparse | KeyKind::ToDense);
        let exposed = self.kind == KeyKind::ToSparse && self.limbs != sparse::LIMBS;
        if exposed || (of_bootstrapping && !params.can_bootstrap()) {
            return Err(CkksError::Shape {
                op: "key generation",
                detail: format!(
                    "{:?} at {} limbs gives the sparse secret away; hint: {} limb, in a ring that bootstraps",
                    self.kind,
                    self.limbs,
                    sparse::LIMBS
                ),
            });
        }
        Ok(())
    }
    /// Special limbs and decomposition of this kind of key.
    pub fn shape(&self, params: &CkksParameters) -> (usize, Gadget) {
        let special = self.kind.special(self.limbs, params.rlwe().p_len());
        match self.kind {
            KeyKind::ToSparse | KeyKind::ToDense => (special, Gadget::Single),
            _ => (special, Gadget::Rns),
        }
    }
    /// Bytes in the server's memory, where both halves stay packed.
    pub fn bytes(&self, params: &CkksParameters) -> usize {
        let ((special, gadget), rlwe) = (self.shape(params), params.rlwe());
        let primes = rlwe.q()[..self.limbs].iter().chain(&rlwe.p()[..special]);
        let half: usize = primes.map(|&p| packed::packed_len(rlwe.n(), p)).sum();
        2 * SwitchingKey::digits(rlwe, (self.limbs, special), gadget) * half
    }
}

/// Adds a key of its kind, or raises the one that is there to as many limbs. The identity needs none.
pub fn add(all: &mut Vec<KeySpec>, spec: KeySpec) {
    match all.iter_mut().find(|known| known.kind == spec.kind) {
        Some(known) => known.limbs = known.limbs.max(spec.limbs),
        None if spec.kind != KeyKind::Galois(1) => all.push(spec),
        None => {}
    }
}

/// Galois element of a left rotation by `steps` slots.
pub fn galois_of_rotation(params: &CkksParameters, steps: i64) -> u64 {
    let m = 2 * params.rlwe().n() as u64;
    let mut e = steps.rem_euclid(params.slots() as i64) as u64;
    let (mut base, mut acc) = (5u64, 1u64);
    while e > 0 {
        if e & 1 == 1 {
            acc = acc * base % m;
        }
        base = base * base % m;
        e >>= 1;
    }
    acc
}

/// Galois element of the complex conjugation.
pub fn galois_of_conjugation(params: &CkksParameters) -> u64 {
    2 * params.rlwe().n() as u64 - 1
}

/// The client's key maker: holds the secret and the sparse one, makes one key per call so that keys can be
/// streamed to disk. There is one sparse secret per key set, for as long as that set is used.
pub struct KeyGenerator<'a> {
    params: &'a CkksParameters,
    secret: &'a SecretKey,
    sparse: SecretKey,
}

impl<'a> KeyGenerator<'a> {
    /// A generator with a fresh sparse secret. All keys of one client come from one generator.
    ///
    /// # Errors
    /// When the operating system gives no randomness.
    pub fn new(params: &'a CkksParameters, secret: &'a SecretKey) -> Result<Self, CkksError> {
        Ok(Self {
            params,
            secret,
            sparse: SecretKey::generate_sparse(params.rlwe())?,
        })
    }

    /// Makes one key.
    ///
    /// # Errors
    /// As [`KeySpec::check`]; when the operating system gives no randomness.
    pub fn generate(&self, spec: KeySpec) -> Result<SwitchingKey, CkksError> {
        spec.check(self.params)?;
        let rlwe = self.params.rlwe();
        let (special, gadget) = spec.shape(self.params);
        let s = self.secret.ntt();
        let make = |from: &RnsPoly, to: &RnsPoly| {
            SwitchingKey::generate(rlwe, from, to, spec.limbs, special, gadget)
        };
        Ok(match spec.kind {
            KeyKind::Relinearise => {
                let mut square = s.clone();
                square.mul_assign(rlwe, s);
                let key = make(&square, s)?;
                square.wipe();
                key
            }
            KeyKind::Galois(g) | KeyKind::LowGalois(g) => {
                let inverse = inverse_mod_power_of_two(g, 2 * rlwe.n() as u64);
                let rotated = self.secret.automorphism(rlwe, inverse);
                make(s, rotated.ntt())?
            }
            KeyKind::ToSparse => make(s, self.sparse.ntt())?,
            KeyKind::ToDense => make(self.sparse.ntt(), s)?,
        })
    }
}

fn inverse_mod_power_of_two(g: u64, m: u64) -> u64 {
    let mut x = 1u64;
    for _ in 0..6 {
        x = x.wrapping_mul(2u64.wrapping_sub(g.wrapping_mul(x)));
    }
    x % m
}

/// The evaluation keys that a server holds.
#[derive(Default)]
pub struct EvaluationKeys {
    keys: HashMap<KeyKind, SwitchingKey>,
}

impl EvaluationKeys {
    /// Adds a key.
    pub fn insert(&mut self, kind: KeyKind, key: SwitchingKey) {
        self.keys.insert(kind, key);
    }

    /// The key of this kind, for ciphertexts of `limbs` limbs.
    ///
    /// # Errors
    /// [`RlweError::MissingKey`] naming the kind when it is absent or lives too low.
    pub fn get(&self, kind: KeyKind, limbs: usize) -> Result<&SwitchingKey, CkksError> {
        let missing = |why: String| CkksError::from(RlweError::MissingKey(why));
        let key = self.keys.get(&kind).ok_or_else(|| missing(format!("{kind:?}")))?;
        if key.limbs < limbs {
            return Err(missing(format!(
                "{kind:?} at {limbs} limbs (the key was made for {})",
                key.limbs
            )));
        }
        Ok(key)
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }
    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
    /// Bytes in memory.
    pub fn bytes(&self, params: &CkksParameters) -> usize {
        self.keys.values().map(|k| k.bytes(params.rlwe())).sum()
    }
}
