//! Rotations and conjugation of the slots: automorphisms of the ring followed by key switching, hoisted where
//! several share a ciphertext.
use crate::evaluator::lock;
use crate::keys::{galois_of_conjugation, galois_of_rotation, KeyKind};
use crate::{Ciphertext, CkksError, Evaluator};
use std::sync::Arc;
use tacita_ring::{AlignedVec, Permutation};
use tacita_rlwe::keyswitch::{self, Decomposed, Ending};

impl Evaluator {
    /// Left rotation of the slots by `steps`. No level. Cost: D(L+k) + 2k + 2L NTTs.
    ///
    /// # Errors
    /// A missing rotation key.
    pub fn rotate(&self, a: &Ciphertext, steps: i64) -> Result<Ciphertext, CkksError> {
        if self.trivial(steps) {
            return Ok(a.clone());
        }
        self.automorphism(a, galois_of_rotation(self.params(), steps))
    }

    /// Several rotations of one ciphertext sharing one decomposition (hoisting).
    ///
    /// # Errors
    /// A missing rotation key.
    pub fn rotate_many(&self, a: &Ciphertext, steps: &[i64]) -> Result<Vec<Ciphertext>, CkksError> {
        let several = steps.iter().filter(|&&s| !self.trivial(s)).count() > 1;
        let digits = several.then(|| keyswitch::decompose(self.rlwe(), &a.polys[1]));
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
    pub fn conjugate(&self, a: &Ciphertext) -> Result<Ciphertext, CkksError> {
        self.automorphism(a, galois_of_conjugation(self.params()))
    }

    /// A single automorphism, whose digits nobody else needs.
    fn automorphism(&self, a: &Ciphertext, galois: u64) -> Result<Ciphertext, CkksError> {
        let rlwe = self.rlwe();
        let key = self.keys().get(KeyKind::Galois(galois), a.limbs())?;
        let perm = self.permutation(galois);
        let ending = Ending {
            add: [Some(&a.polys[0]), None],
            permutation: Some(&perm),
        };
        let (c0, c1) = keyswitch::switch(rlwe, &a.polys[1], key, &ending)?;
        Ok(Ciphertext {
            polys: vec![c0, c1],
            scale: a.scale,
        })
    }

    fn apply_galois(
        &self,
        a: &Ciphertext,
        digits: &Decomposed,
        galois: u64,
    ) -> Result<Ciphertext, CkksError> {
        let rlwe = self.rlwe();
        let key = self.keys().get(KeyKind::Galois(galois), a.limbs())?;
        let (u0, u1) = keyswitch::inner_product(rlwe, digits, key)?;
        let mut c0 = keyswitch::mod_down(rlwe, u0);
        let c1 = keyswitch::mod_down(rlwe, u1);
        c0.add_assign(rlwe, &a.polys[0]);
        let perm = self.permutation(galois);
        Ok(Ciphertext {
            polys: vec![c0.permuted(&perm), c1.permuted(&perm)],
            scale: a.scale,
        })
    }

    pub(crate) fn permutation(&self, galois: u64) -> Arc<Permutation> {
        let mut cache = lock(&self.permutations);
        cache
            .entry(galois)
            .or_insert_with(|| Arc::new(Permutation::new(self.rlwe().log_n(), galois)))
            .clone()
    }
}

/// A limb with its values in the order of an automorphism.
pub(crate) fn permuted(x: &[f64], perm: &Permutation) -> AlignedVec {
    let mut out = AlignedVec::scratch(x.len());
    perm.apply(&mut out, x);
    out
}
