//! Evaluation keys: which ones there are, and where each lives.
use crate::{sparse, CkksError, CkksParameters};
use std::collections::HashMap;
use tacita_ring::packed;
use tacita_rlwe::switching::Gadget;
use tacita_rlwe::{RlweError, SwitchingKey};

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
    /// A diagonal of the first factor of coefficients-to-slots, by its place, times the sparse secret,
    /// rotated -> s, for a small input: see `bootstrap`. One special prime.
    Raise(u64),
}

impl KeyKind {
    /// Special primes of a key of so many limbs, of `all` that there are.
    pub(crate) fn special(self, limbs: usize, all: usize) -> usize {
        match self {
            Self::ToSparse | Self::Raise(_) => 1,
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
    /// Fails for a key to the sparse secret at more limbs than one, for keys of bootstrapping without its
    /// primes, and for a diagonal that there is not.
    ///
    /// # Errors
    /// [`CkksError::Shape`] naming key and limbs.
    pub fn check(&self, params: &CkksParameters) -> Result<(), CkksError> {
        let bad = match self.kind {
            KeyKind::ToSparse => self.limbs != sparse::LIMBS || !params.can_bootstrap(),
            KeyKind::Raise(place) => place >= params.raise_diagonals(),
            _ => false,
        };
        if bad {
            return Err(CkksError::Shape {
                op: "key generation",
                detail: format!(
                    "{:?} at {} limbs is none of bootstrapping, and could give the sparse secret away; hint: \
                    ToSparse has {} limb, places of Raise are below {}",
                    self.kind,
                    self.limbs,
                    sparse::LIMBS,
                    params.raise_diagonals()
                ),
            });
        }
        Ok(())
    }
    /// Special limbs and decomposition of this kind of key.
    pub fn shape(&self, params: &CkksParameters) -> (usize, Gadget) {
        let special = self.kind.special(self.limbs, params.rlwe().p_len());
        match self.kind {
            KeyKind::ToSparse => (special, Gadget::Single),
            KeyKind::Raise(_) => (special, Gadget::Multiple),
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

/// A key of a backend, which serves ciphertexts of so many limbs.
pub trait KeyLimbs {
    /// Ciphertext limbs.
    fn limbs(&self) -> usize;
}

impl KeyLimbs for SwitchingKey {
    fn limbs(&self) -> usize {
        self.limbs
    }
}

/// The evaluation keys that a server holds.
pub struct EvaluationKeys<K = SwitchingKey> {
    keys: HashMap<KeyKind, K>,
}

impl<K> Default for EvaluationKeys<K> {
    fn default() -> Self {
        let keys = HashMap::new();
        Self { keys }
    }
}

impl EvaluationKeys {
    /// The same keys where a backend keeps its own.
    ///
    /// # Errors
    /// The first of `f`.
    pub fn copied<K>(
        &self,
        mut f: impl FnMut(&SwitchingKey) -> Result<K, CkksError>,
    ) -> Result<EvaluationKeys<K>, CkksError> {
        let copy = |(&kind, key)| Ok((kind, f(key)?));
        let keys = self.keys.iter().map(copy).collect::<Result<_, CkksError>>()?;
        Ok(EvaluationKeys { keys })
    }

    /// Bytes in memory.
    pub fn bytes(&self, params: &CkksParameters) -> usize {
        self.keys.values().map(|k| k.bytes(params.rlwe())).sum()
    }
}

impl<K: KeyLimbs> EvaluationKeys<K> {
    /// Adds a key.
    pub fn insert(&mut self, kind: KeyKind, key: K) {
        self.keys.insert(kind, key);
    }

    /// The key of this kind, for ciphertexts of `limbs` limbs.
    ///
    /// # Errors
    /// [`RlweError::MissingKey`] naming the kind when it is absent or lives too low.
    pub fn get(&self, kind: KeyKind, limbs: usize) -> Result<&K, CkksError> {
        let missing = |why: String| CkksError::from(RlweError::MissingKey(why));
        let key = self.keys.get(&kind).ok_or_else(|| missing(format!("{kind:?}")))?;
        if key.limbs() < limbs {
            return Err(missing(format!(
                "{kind:?} at {limbs} limbs (the key was made for {})",
                key.limbs()
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
}
