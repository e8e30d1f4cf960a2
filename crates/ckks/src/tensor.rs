//! Products of two ciphertexts: of degree 2 first, then relinearised and rescaled at once.
use crate::backend::{Backend, CiphertextOf as Of, Pair, Sum};
use crate::keys::KeyKind;
use crate::{Ciphertext, CkksError, Evaluator};

impl<B: Backend> Evaluator<B> {
    /// Slot-wise product, relinearised and rescaled. One level; scale a.scale * b.scale / q.
    ///
    /// Cost: D(L+k) + 3L + 3k NTTs about, D digits.
    ///
    /// # Errors
    /// [`CkksError::Level`]; shape errors when the operands are not at one level; a missing relinearisation
    /// key.
    pub fn mul(&self, a: &Of<B>, b: &Of<B>) -> Result<Of<B>, CkksError> {
        self.dot(&[(a, b)])
    }

    /// Sum of products: one relinearisation and one rescale for all.
    ///
    /// # Errors
    /// As [`Self::mul`].
    pub fn dot(&self, pairs: &[(&Of<B>, &Of<B>)]) -> Result<Of<B>, CkksError> {
        let (a, b) = pairs.first().ok_or(CkksError::Shape {
            op: "dot",
            detail: "no operands".into(),
        })?;
        self.need_level(a, "mul", 1)?;
        let sum = Sum {
            products: pairs.to_vec(),
            ..Sum::default()
        };
        self.relinearise_rescale(self.sum(&sum, a.limbs(), a.scale * b.scale)?)
    }

    /// Degree 2 -> degree 1 and one level down, with a fused mod-down. Degree 1 is only rescaled.
    pub(crate) fn relinearise_rescale(&self, a: Of<B>) -> Result<Of<B>, CkksError> {
        if a.polys.len() == 2 {
            return self.rescale(a);
        }
        let limbs = a.limbs();
        let scale = self.settled(limbs - 2, a.scale / self.params().prime(limbs - 1));
        let key = self.keys().get(KeyKind::Relinearise, limbs)?;
        let polys = [&a.polys[0], &a.polys[1], &a.polys[2]];
        let Pair(c0, c1) = self.backend().relinearise_rescale(polys, key)?;
        Ok(Ciphertext {
            polys: vec![c0, c1],
            scale,
        })
    }
}
