//! Division of polynomials by some of their primes, and what is converted between them.

use crate::engine::{Engine, Made, Poly};
use crate::limbs::Limbs;
use tacita_rlwe::ciphertext::Polynomial;

impl Engine {
    /// x over Q divided by its top prime.
    pub(crate) fn rescaled(&self, x: &Poly) -> Made<Poly> {
        let rescaler = self.rescaler(&x.limbs.basis)?;
        let limbs = self.ring.rescale(&x.limbs, &rescaler)?;
        let q_len = x.q_len - 1;
        Ok(Poly { limbs, q_len })
    }

    /// x over QP divided by its special primes, and by the top ciphertext prime if that is asked for.
    pub(crate) fn mod_down(&self, x: &Poly, by_top: bool) -> Made<Poly> {
        let q_len = x.q_len - usize::from(by_top);
        let indices = &x.limbs.basis.indices;
        let (special, top) = (&indices[x.q_len..], &indices[q_len..x.q_len]);
        let from = [special, top].concat();
        let sources = self.ring.scratch(&self.basis(&from)?)?;
        let parts = [(0, x.q_len, special), (special.len(), q_len, top)];
        for (to, at, part) in parts.into_iter().filter(|part| !part.2.is_empty()) {
            let part_of = |limbs: &Limbs, start| self.part(limbs, start, part);
            self.copy_to(&part_of(&sources, to)?, &part_of(&x.limbs, at)?)?;
        }
        let lift = self.lifted(sources, q_len)?;
        self.divided(x, lift, &from, q_len)
    }

    /// The remainder of these values in the first `q_len` primes, in coefficient form.
    pub(crate) fn lifted(&self, mut sources: Limbs, q_len: usize) -> Made<Limbs> {
        let indices = sources.basis.indices.clone();
        let converter = self.converter(&indices, &self.chain(q_len, 0))?;
        self.ring.convert_exact(&mut sources, &converter)
    }

    /// (x - lift) / the product of the primes `from`, in the first `q_len` limbs.
    pub(crate) fn divided(&self, x: &Poly, mut lift: Limbs, from: &[usize], q_len: usize) -> Made<Poly> {
        self.ring.forward(&mut lift)?;
        let inverses = self.factors(&lift.basis, |i| {
            let m = self.rlwe.modulus(i);
            let primes = from.iter().map(|&f| self.rlwe.modulus(f).p() % m.p());
            m.inv(primes.fold(1, |product, p| m.mul(product, p)))
        })?;
        let kept = self.part(&x.limbs, 0, &lift.basis.indices)?;
        let limbs = self.ring.sub_mul_scalar(&kept, &lift, &inverses)?;
        Ok(Poly { limbs, q_len })
    }

    /// x + P y on the ciphertext limbs where x is over QP and y over Q, else x + y.
    pub(crate) fn sum_lifted(&self, x: &Poly, y: &Poly) -> Made<Poly> {
        let q_len = x.q_len;
        if x.p_len() == y.p_len() {
            let limbs = self.ring.add(&x.limbs, &y.limbs)?;
            return Ok(Poly { limbs, q_len });
        }
        let limbs = self.ring.copy(&x.limbs, 0, &x.limbs.basis)?;
        let mut own = self.part(&limbs, 0, &y.limbs.basis.indices)?;
        let factors = self.factors(&y.limbs.basis, |i| self.special_product(x.p_len(), i))?;
        self.ring.mul_scalar_add_assign(&mut own, &y.limbs, &factors)?;
        Ok(Poly { limbs, q_len })
    }

    /// P x over QP.
    pub(crate) fn lifted_by_p(&self, x: &Poly) -> Made<Poly> {
        let special = self.rlwe.p_len();
        let limbs = self.ring.scratch(&self.basis(&self.chain(x.q_len, special))?)?;
        self.ring
            .run_values("clear", &limbs, limbs.basis.len(), &[], &[])?;
        let q_len = x.q_len;
        self.sum_lifted(&Poly { limbs, q_len }, x)
    }

    /// The centred coefficients of a polynomial of one limb, over more primes and as values.
    pub(crate) fn spread(&self, x: &Poly, q_len: usize, p_len: usize) -> Made<Poly> {
        let mut source = self.ring.copy(&x.limbs, 0, &x.limbs.basis)?;
        let converter = self.converter(&x.limbs.basis.indices, &self.chain(q_len, p_len))?;
        let mut limbs = self.ring.convert(&mut source, &converter)?;
        self.ring.forward(&mut limbs)?;
        Ok(Poly { limbs, q_len })
    }
}
