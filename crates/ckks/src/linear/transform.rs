//! What a linear transform is: its terms and vectors in clear, and encoded for one level.
use crate::keys::KeyKind;
use num_complex::Complex64;
use std::borrow::Cow;
use std::collections::BTreeSet;
use tacita_ring::AlignedVec;

/// One term of a transform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// Output ciphertext.
    pub output: usize,
    /// Giant rotation, applied after the product.
    pub giant: i64,
    /// Input ciphertext.
    pub input: usize,
    /// Baby rotation, applied before the product.
    pub baby: i64,
    /// Index of the vector.
    pub vector: usize,
}

/// A linear transform in clear: vectors (each of a power-of-two length dividing the slots) and terms.
#[derive(Clone, Debug)]
pub struct LinearTransform<'a> {
    /// Diagonal vectors, repeated over the slots: its own, or read where they are.
    pub vectors: Vec<Cow<'a, [Complex64]>>,
    /// Terms.
    pub terms: Vec<Term>,
    /// Number of outputs.
    pub outputs: usize,
    /// Step of Horner's rule, when every giant is a non-negative multiple of it.
    pub horner_step: Option<i64>,
}

impl LinearTransform<'_> {
    /// Whether inputs are rotated before the products.
    pub fn rotates(&self) -> bool {
        self.terms.iter().any(|x| x.baby != 0)
    }
}

/// The rotations a transform needs keys for.
pub fn required_rotations(t: &LinearTransform<'_>) -> BTreeSet<i64> {
    let mut steps: BTreeSet<i64> = t.terms.iter().map(|x| x.baby).collect();
    match t.horner_step {
        Some(s) if t.terms.iter().any(|x| x.giant != 0) => {
            steps.insert(s);
        }
        Some(_) => {}
        None => steps.extend(t.terms.iter().map(|x| x.giant)),
    }
    steps.remove(&0);
    steps
}

/// A transform encoded for one level and scale.
pub struct EncodedTransform<V = Vec<Vec<AlignedVec>>> {
    pub(super) terms: Vec<Term>,
    pub(super) outputs: usize,
    pub(super) horner_step: Option<i64>,
    /// The 2p run values of each vector and limb, as a backend keeps them.
    pub(super) vectors: V,
    /// Of the run values.
    pub(super) bytes: usize,
    pub(super) limbs: usize,
    pub(super) lifted: bool,
    pub(super) plain_scale: f64,
    /// Of an automorphism: the key of which its rotations are made.
    pub(crate) key: fn(u64) -> KeyKind,
}

impl<V> EncodedTransform<V> {
    /// The same with the keys of the bottom of the chain, which have as many special primes as limbs. Not for
    /// a transform over QP.
    pub(crate) fn with_low_keys(self) -> Self {
        debug_assert!(!self.lifted);
        let key = KeyKind::LowGalois;
        Self { key, ..self }
    }
    /// The run values, as a backend keeps them.
    pub fn vectors(&self) -> &V {
        &self.vectors
    }
    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    /// Limbs of the ciphertexts it applies to.
    pub fn limbs(&self) -> usize {
        self.limbs
    }
}

/// The sums that are rotated: (output, giant).
pub(super) fn giants_of<V>(t: &EncodedTransform<V>) -> Vec<(usize, i64)> {
    let set: BTreeSet<(usize, i64)> = t.terms.iter().map(|x| (x.output, x.giant)).collect();
    set.into_iter().collect()
}

/// The inputs and their rotations: (input, baby).
pub(super) fn steps_of<V>(t: &EncodedTransform<V>) -> Vec<(usize, i64)> {
    let set: BTreeSet<(usize, i64)> = t.terms.iter().map(|x| (x.input, x.baby)).collect();
    set.into_iter().collect()
}
