//! Products of two ciphertexts: of degree 2 first, then relinearised and rescaled at once.
use crate::keys::KeyKind;
use crate::{Ciphertext, CkksError, Evaluator};
use rayon::prelude::*;
use tacita_ring::kernels;
use tacita_rlwe::ciphertext::scales_agree;
use tacita_rlwe::{keyswitch, RnsPoly};

impl Evaluator {
    /// Slot-wise product, relinearised and rescaled. One level; scale a.scale * b.scale / q.
    ///
    /// Cost: D(L+k) + 3L + 3k NTTs about, D = ceil(L / digit_limbs).
    ///
    /// # Errors
    /// [`CkksError::Level`]; shape errors when the operands are not at one level; a missing relinearisation
    /// key.
    pub fn mul(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, CkksError> {
        self.dot(&[(a, b)])
    }

    /// Sum of products: one relinearisation and one rescale for all.
    ///
    /// # Errors
    /// As [`Self::mul`].
    pub fn dot(&self, pairs: &[(&Ciphertext, &Ciphertext)]) -> Result<Ciphertext, CkksError> {
        let first = pairs.first().ok_or(CkksError::Shape {
            op: "dot",
            detail: "no operands".into(),
        })?;
        self.need_level(first.0, "mul", 1)?;
        let mut acc = self.product(first.0, first.1, first.0.limbs())?;
        for (a, b) in &pairs[1..] {
            self.add_product(&mut acc, a, b)?;
        }
        self.relinearise_rescale(acc)
    }

    /// a * b of degree 2, of their lowest `limbs` limbs. No level.
    pub(crate) fn product(
        &self,
        a: &Ciphertext,
        b: &Ciphertext,
        limbs: usize,
    ) -> Result<Ciphertext, CkksError> {
        let mut acc = Ciphertext {
            polys: (0..3).map(|_| RnsPoly::scratch(self.rlwe(), limbs)).collect(),
            scale: a.scale * b.scale,
        };
        self.tensor(&mut acc, a, b, true)?;
        Ok(acc)
    }

    /// acc (degree 2) += a * b; operands may have more limbs than the accumulator.
    pub(crate) fn add_product(
        &self,
        acc: &mut Ciphertext,
        a: &Ciphertext,
        b: &Ciphertext,
    ) -> Result<(), CkksError> {
        self.tensor(acc, a, b, false)
    }

    /// acc (degree 2) += a * b, or = where it is fresh and holds anything.
    fn tensor(
        &self,
        acc: &mut Ciphertext,
        a: &Ciphertext,
        b: &Ciphertext,
        fresh: bool,
    ) -> Result<(), CkksError> {
        let limbs = acc.limbs();
        if a.limbs() < limbs || b.limbs() < limbs || !scales_agree(a.scale * b.scale, acc.scale) {
            return Err(CkksError::Shape {
                op: "mul",
                detail: format!(
                    "levels {} and {} (log2 scales {:.4} + {:.4}) into an accumulator at level {} ({:.4}); \
                    hint: align first",
                    a.level(),
                    b.level(),
                    a.scale.log2(),
                    b.scale.log2(),
                    acc.level(),
                    acc.scale.log2()
                ),
            });
        }
        let rlwe = self.rlwe();
        let mut polys = acc.polys.iter_mut();
        let (Some(d0), Some(d1), Some(d2)) = (polys.next(), polys.next(), polys.next()) else {
            return Err(CkksError::Shape {
                op: "mul",
                detail: "accumulator is not of degree 2".into(),
            });
        };
        let triples = d0.limbs.par_iter_mut().zip(&mut d1.limbs).zip(&mut d2.limbs);
        triples.enumerate().for_each(|(i, ((x0, x1), x2))| {
            let (m, [a0, a1], [b0, b1]) = (rlwe.modulus(i), halves(a, i), halves(b, i));
            for part in parts(x0.len()) {
                let [x0, x1, x2] = [&mut *x0, &mut *x1, &mut *x2].map(|x| &mut x[part.clone()]);
                if fresh {
                    for x in [&mut *x0, &mut *x1, &mut *x2] {
                        x.fill(0.0);
                    }
                }
                let [a0, a1, b0, b1] = [a0, a1, b0, b1].map(|x| &x[part.clone()]);
                kernels::tensor_accumulate(m, x0, x1, x2, a0, a1, b0, b1);
            }
        });
        Ok(())
    }

    /// Degree 2 -> degree 1 and one level down, with a fused mod-down. Degree 1 is only rescaled.
    pub(crate) fn relinearise_rescale(&self, a: Ciphertext) -> Result<Ciphertext, CkksError> {
        if a.polys.len() == 2 {
            return self.rescale(a);
        }
        let limbs = a.limbs();
        let rlwe = self.rlwe();
        let scale = self.settled(limbs - 2, a.scale / self.params().prime(limbs - 1));
        let key = self.keys().get(KeyKind::Relinearise, limbs)?;
        let (c0, c1) = keyswitch::switch_rescale(rlwe, [&a.polys[0], &a.polys[1], &a.polys[2]], key)?;
        Ok(Ciphertext {
            polys: vec![c0, c1],
            scale,
        })
    }
}

/// Values of a limb that stay in the first-level cache.
const PART: usize = 512;

/// A limb of so many values in parts.
fn parts(n: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    (0..n).step_by(PART).map(move |start| start..n.min(start + PART))
}

/// Limb `i` of both polynomials.
fn halves(a: &Ciphertext, i: usize) -> [&[f64]; 2] {
    [&a.polys[0].limbs[i], &a.polys[1].limbs[i]]
}
