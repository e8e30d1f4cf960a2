//! Rotations and conjugation of the slots: automorphisms of the ring followed by key switching, hoisted where
//! several share a ciphertext.
use crate::evaluator::lock;
use crate::keys::{galois_of_conjugation, galois_of_rotation, KeyKind};
use crate::{Ciphertext, CkksError, Evaluator};
use std::sync::Arc;
use tacita_ring::automorphism_permutation;
use tacita_rlwe::keyswitch::{self, Decomposed};

impl Evaluator {
    /// Left rotation of the slots by `steps`. No level. Cost: D(L+k) + 2k + 2L NTTs.
    ///
    /// # Errors
    /// A missing rotation key.
    pub fn rotate(&self, a: &Ciphertext, steps: i64) -> Result<Ciphertext, CkksError> {
        Ok(self.rotate_many(a, &[steps])?.remove(0))
    }

    /// Several rotations of one ciphertext sharing one decomposition (hoisting).
    ///
    /// # Errors
    /// A missing rotation key.
    pub fn rotate_many(&self, a: &Ciphertext, steps: &[i64]) -> Result<Vec<Ciphertext>, CkksError> {
        let nontrivial = |s: &i64| s.rem_euclid(self.params().slots() as i64) != 0;
        let digits = steps
            .iter()
            .any(nontrivial)
            .then(|| keyswitch::decompose(self.rlwe(), &a.polys[1]));
        steps
            .iter()
            .map(|s| match &digits {
                Some(d) if nontrivial(s) => self.apply_galois(a, d, galois_of_rotation(self.params(), *s)),
                _ => Ok(a.clone()),
            })
            .collect()
    }

    /// Complex conjugation of the slots. No level; cost of a rotation.
    ///
    /// # Errors
    /// A missing conjugation key.
    pub fn conjugate(&self, a: &Ciphertext) -> Result<Ciphertext, CkksError> {
        let digits = keyswitch::decompose(self.rlwe(), &a.polys[1]);
        self.apply_galois(a, &digits, galois_of_conjugation(self.params()))
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

    pub(crate) fn permutation(&self, galois: u64) -> Arc<Vec<u32>> {
        let mut cache = lock(&self.permutations);
        cache
            .entry(galois)
            .or_insert_with(|| Arc::new(automorphism_permutation(self.rlwe().log_n(), galois)))
            .clone()
    }
}
