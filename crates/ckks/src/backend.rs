//! Where ciphertexts live and who computes on them: the operations that the evaluator, linear transforms,
//! series and bootstraps are written over. They take whole polynomials in NTT form, so that a backend may
//! fuse what it likes within one of them, and none gives residues back: within a circuit nothing is copied
//! between a device and the processor.
//!
//! Residues are canonical between operations. So every result has one right value, and a backend is proved
//! by equality with [`Processor`](crate::Processor).
use crate::keys::{galois_of_rotation, EvaluationKeys, KeyLimbs};
use crate::linear::transform::EncodedTransform;
use crate::{Ciphertext, CkksError, CkksParameters};
use num_complex::Complex64;
use std::borrow::Cow;
use tacita_ring::{gemm, AlignedVec};
use tacita_rlwe::ciphertext::Polynomial;
use tacita_rlwe::Parameters;

/// By ciphertext limb: what the two halves of the NTT order are multiplied by, or what is added to them. A
/// complex number times a scale is such a pair, the imaginary unit being the monomial X^(N/2).
pub type Halves = Vec<[u64; 2]>;

/// A ciphertext of a backend.
pub type CiphertextOf<B> = Ciphertext<<B as Backend>::Poly>;

/// A ciphertext's two polynomials over Q or over QP (times P).
pub struct Pair<P>(pub P, pub P);

/// By ciphertext limb and lane: the values of a polynomial in X^(N / count) in NTT form, each of which holds
/// for a run of N / count; none where the polynomial is one.
pub type Lanes = Vec<Vec<Vec<f64>>>;

/// Accumulators of degree 2, row by row.
pub type Entries<P> = Vec<[P; 3]>;

/// Factors term by term: those of the rows, and those of the columns.
pub type Factors<'a, P> = [&'a [Cow<'a, Ciphertext<P>>]; 2];

/// Of every ciphertext the polynomial of this degree in the secret.
pub type Inputs<'a, P> = (&'a [Cow<'a, Ciphertext<P>>], usize);

/// A result, or why there is none.
pub type Made<T> = Result<T, CkksError>;

/// Computes on polynomials of its own. Every operation fails where the device does, or its memory is short.
pub trait Backend: Send + Sync + Sized {
    /// A polynomial in NTT form over ciphertext primes, and special ones where that is said.
    type Poly: Polynomial + Clone + Send + Sync;
    /// An evaluation key.
    type Key: KeyLimbs + Send + Sync;
    /// The digits of a polynomial, for several automorphisms of it.
    type Digits: Send + Sync;
    /// Periodic vectors of a linear transform: those of [`Evaluator::encode_periodic`] each.
    ///
    /// [`Evaluator::encode_periodic`]: crate::Evaluator::encode_periodic
    type Vectors: Send + Sync;
    /// A diagonal of the first factor of coefficients-to-slots.
    type Diagonal: Send + Sync;

    /// The same place for other parameters: of this degree, and of some of these primes. A polynomial of
    /// primes that both begin with is one of both, and keys serve as [`Parameters::without`] says.
    fn over(&self, rlwe: &Parameters) -> Made<Self>;
    /// [`SwitchingKey::joined`](tacita_rlwe::SwitchingKey::joined) of a key of this backend's parameters.
    fn joined(&self, key: &Self::Key, from: &Parameters, to: &Parameters) -> Made<Self::Key>;

    /// The first `limbs` ciphertext limbs.
    fn truncated(&self, x: &Self::Poly, limbs: usize) -> Made<Self::Poly>;
    /// a + b, of the same limbs.
    fn add(&self, a: &Self::Poly, b: &Self::Poly) -> Made<Self::Poly>;
    /// a - b, of the same limbs.
    fn sub(&self, a: &Self::Poly, b: &Self::Poly) -> Made<Self::Poly>;
    /// x + y, or x + P y where x is over QP and y over Q, P being the product of x's special primes.
    fn add_lifted(&self, x: Self::Poly, y: &Self::Poly) -> Made<Self::Poly>;
    /// x times constants.
    fn mul_halves(&self, x: Self::Poly, constants: &Halves) -> Made<Self::Poly>;
    /// x plus constants.
    fn add_halves(&self, x: Self::Poly, constants: &Halves) -> Made<Self::Poly>;
    /// x times a periodic vector. runs: by limb.
    fn mul_runs(&self, x: Self::Poly, runs: &[AlignedVec]) -> Made<Self::Poly>;
    /// x plus a periodic vector.
    fn add_runs(&self, x: Self::Poly, runs: &[AlignedVec]) -> Made<Self::Poly>;
    /// A sum of so many limbs: three polynomials with products, two without.
    fn sum(&self, sum: &Sum<'_, Self::Poly>, weights: &Weights, limbs: usize) -> Made<Vec<Self::Poly>>;
    /// Adds to so many rows of accumulators, or begins them where there are none, at so many limbs: to each
    /// the sum over the terms of the products of its row's and its column's factors. Factors may have more
    /// limbs. An error leaves them as they were.
    fn add_outer(
        &self,
        acc: &mut Entries<Self::Poly>,
        factors: Factors<'_, Self::Poly>,
        rows: usize,
        limbs: usize,
    ) -> Made<()>;
    /// Adds the rows of a matrix of integers times the inputs to as many sums, or begins them where there are
    /// none. A column is an input times a lane, the lanes of the first input first; the lanes have the limbs
    /// of the sums, and inputs may have more.
    fn add_matrix(
        &self,
        sums: &mut Vec<Self::Poly>,
        inputs: Inputs<'_, Self::Poly>,
        lanes: &Lanes,
        matrix: &gemm::Weights,
    ) -> Made<()>;
    /// x divided by its top prime with rounding.
    fn rescale(&self, x: Self::Poly) -> Made<Self::Poly>;
    /// x over QP divided by the special primes and the top prime.
    fn mod_down_rescale(&self, x: Self::Poly) -> Made<Self::Poly>;

    /// The digits of x for keys with so many special primes.
    fn decompose(&self, x: &Self::Poly, special: usize) -> Made<Self::Digits>;
    /// X -> X^galois on (x, ..), of whose second polynomial the digits are, switched by its key: over Q, or
    /// over QP and times P where it is to be lifted.
    fn rotate_digits(
        &self,
        x: &Self::Poly,
        digits: &Self::Digits,
        key: (&Self::Key, u64),
        lifted: bool,
    ) -> Made<Pair<Self::Poly>>;
    /// The same of a ciphertext whose digits nobody else needs.
    fn rotate(&self, x: [&Self::Poly; 2], key: (&Self::Key, u64)) -> Made<Pair<Self::Poly>>;
    /// The same of a pair over Q or QP, over QP.
    fn rotate_lifted(&self, x: Pair<Self::Poly>, key: (&Self::Key, u64)) -> Made<Pair<Self::Poly>>;
    /// Degree 2 -> degree 1 and a level down.
    fn relinearise_rescale(&self, x: [&Self::Poly; 3], key: &Self::Key) -> Made<Pair<Self::Poly>>;

    /// Vectors of a transform, as the backend keeps them. vectors: by vector and limb.
    fn vectors(&self, vectors: Vec<Vec<AlignedVec>>) -> Made<Self::Vectors>;
    /// The sums of a transform before the division, over Q or QP: one for each output.
    fn transform(
        context: &Context<'_, Self>,
        inputs: &[&CiphertextOf<Self>],
        t: &EncodedTransform<Self::Vectors>,
    ) -> Made<Vec<Pair<Self::Poly>>>;
    /// A diagonal by the element of its rotation, and its coefficients times the first special prime.
    fn diagonal(&self, galois: u64, integers: &[i64]) -> Made<Self::Diagonal>;
    /// Ciphertexts of one limb -> `limbs` limbs, through the sparse secret and times the diagonals.
    fn raise(
        &self,
        x: [&Self::Poly; 2],
        to_sparse: &Self::Key,
        terms: &[(&Self::Key, &Self::Diagonal)],
        limbs: usize,
    ) -> Made<Pair<Self::Poly>>;
}

/// By limb: the pairs of [`Halves`] of every multiple of a sum, then that of its constant.
pub type Weights = Vec<Halves>;

/// The terms of a sum. Operands may have more limbs than the sum.
pub struct Sum<'a, P> {
    /// Factors; the product of their scales is the scale of the sum. A pair that is there twice counts twice.
    pub products: Vec<(&'a Ciphertext<P>, &'a Ciphertext<P>)>,
    /// Ciphertexts of any scale, and what they are multiplied by.
    pub multiples: Vec<(&'a Ciphertext<P>, Complex64)>,
    /// In every slot.
    pub constant: Complex64,
}

impl<P> Default for Sum<'_, P> {
    fn default() -> Self {
        Self {
            products: Vec::new(),
            multiples: Vec::new(),
            constant: Complex64::default(),
        }
    }
}

/// What a backend applies transforms with.
pub struct Context<'a, B: Backend> {
    /// The backend.
    pub backend: &'a B,
    /// Parameters.
    pub params: &'a CkksParameters,
    /// Evaluation keys.
    pub keys: &'a EvaluationKeys<B::Key>,
}

impl<'a, B: Backend> Context<'a, B> {
    /// The key of a rotation in a transform, for so many limbs, and its element.
    ///
    /// # Errors
    /// A missing key.
    pub fn rotation(
        &self,
        t: &EncodedTransform<B::Vectors>,
        steps: i64,
        limbs: usize,
    ) -> Made<(&'a B::Key, u64)> {
        let galois = galois_of_rotation(self.params, steps);
        Ok((self.keys.get((t.key)(galois), limbs)?, galois))
    }
}
