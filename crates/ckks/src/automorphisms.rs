//! Rotations and conjugation of the slots: automorphisms of the ring followed by key switching, hoisted where
//! several share a ciphertext.
use crate::backend::{Backend, CiphertextOf as Of, Pair};
use crate::keys::{galois_of_conjugation, galois_of_rotation, KeyKind};
use crate::{Ciphertext, CkksError, Evaluator};

impl<B: Backend> Evaluator<B> {
    /// Left rotation of the slots by `steps`. No level. Cost: D(L+k) + 2k + 2L NTTs.
    ///
    /// # Errors
    /// A missing rotation key.
    pub fn rotate(&self, a: &Of<B>, steps: i64) -> Result<Of<B>, CkksError> {
        if self.trivial(steps) {
            return Ok(a.clone());
        }
        self.automorphism(a, galois_of_rotation(self.params(), steps))
    }

    /// Several rotations of one ciphertext sharing one decomposition (hoisting).
    ///
    /// # Errors
    /// A missing rotation key.
    pub fn rotate_many(&self, a: &Of<B>, steps: &[i64]) -> Result<Vec<Of<B>>, CkksError> {
        let several = steps.iter().filter(|&&s| !self.trivial(s)).count() > 1;
        let decompose = || self.backend().decompose(&a.polys[1], self.rlwe().p_len());
        let digits = several.then(decompose).transpose()?;
        steps
            .iter()
            .map(|&s| match &digits {
                Some(d) if !self.trivial(s) => self.apply_galois(a, d, galois_of_rotation(self.params(), s)),
                _ => self.rotate(a, s),
            })
            .collect()
    }

    /// Whether a rotation by `steps` leaves everything in its place.
    fn trivial(&self, steps: i64) -> bool {
        steps.rem_euclid(self.params().slots() as i64) == 0
    }

    /// Complex conjugation of the slots. No level; cost of a rotation.
    ///
    /// # Errors
    /// A missing conjugation key.
    pub fn conjugate(&self, a: &Of<B>) -> Result<Of<B>, CkksError> {
        self.automorphism(a, galois_of_conjugation(self.params()))
    }

    /// A single automorphism, whose digits nobody else needs.
    fn automorphism(&self, a: &Of<B>, galois: u64) -> Result<Of<B>, CkksError> {
        let key = self.keys().get(KeyKind::Galois(galois), a.limbs())?;
        let polys = [&a.polys[0], &a.polys[1]];
        Ok(of_pair(self.backend().rotate(polys, (key, galois))?, a.scale))
    }

    fn apply_galois(&self, a: &Of<B>, digits: &B::Digits, galois: u64) -> Result<Of<B>, CkksError> {
        let key = self.keys().get(KeyKind::Galois(galois), a.limbs())?;
        let pair = self
            .backend()
            .rotate_digits(&a.polys[0], digits, (key, galois), false)?;
        Ok(of_pair(pair, a.scale))
    }
}

fn of_pair<P>(Pair(c0, c1): Pair<P>, scale: f64) -> Ciphertext<P> {
    Ciphertext {
        polys: vec![c0, c1],
        scale,
    }
}
