//! Polynomials in a ciphertext of numbers on the unit circle, by Paterson-Stockmeyer in powers.
//!
//! Powers of such numbers stay on the circle, so their basis is as stable here as Chebyshev's is on [-1, 1];
//! levels, scales and splits are those of [`crate::polynomial`].
use crate::polynomial::{best_split, depth, giant, halves, is_leaf, trim};
use crate::{Ciphertext, CkksError, Evaluator};
use num_complex::Complex64;
use std::collections::BTreeMap;
use tacita_rlwe::RnsPoly;

/// z^n by n, computed on demand.
struct Powers<'e> {
    evaluator: &'e Evaluator,
    baby: usize,
    found: BTreeMap<usize, Ciphertext>,
}

impl Evaluator {
    /// sum c_k z^k at `scale`, ceil(log2(degree + 1)) levels below z. The last coefficient is not zero and the
    /// degree is at least one.
    ///
    /// # Errors
    /// [`CkksError::Level`] when the depth does not fit, a missing relinearisation key.
    pub(crate) fn power_series(
        &self,
        z: &Ciphertext,
        c: &[Complex64],
        scale: f64,
    ) -> Result<Ciphertext, CkksError> {
        let degree = c.len() - 1;
        self.need_level(z, "poly", depth(degree))?;
        let level = z.level() + 1 - depth(degree);
        let mut powers = Powers {
            evaluator: self,
            baby: best_split(degree).baby,
            found: BTreeMap::from([(1, z.clone())]),
        };
        let raw = powers.node(c, level, scale * self.params().prime(level))?;
        self.relinearise_rescale(raw)
    }
}

impl Powers<'_> {
    /// Makes sure z^n exists.
    fn ensure(&mut self, n: usize) -> Result<(), CkksError> {
        if self.found.contains_key(&n) {
            return Ok(());
        }
        let (a, b) = halves(n);
        self.ensure(a)?;
        self.ensure(b)?;
        let (x, y) = (&self.found[&a], &self.found[&b]);
        let raw = self.evaluator.product(x, y, x.limbs().min(y.limbs()))?;
        let power = self.evaluator.relinearise_rescale(raw)?;
        self.found.insert(n, power);
        Ok(())
    }

    /// A raw sum at native level `level` with scale `scale`: p = q z^g + r.
    fn node(&mut self, c: &[Complex64], level: usize, scale: f64) -> Result<Ciphertext, CkksError> {
        let (e, degree) = (self.evaluator, c.len() - 1);
        if is_leaf(degree, self.found[&1].level() - level, self.baby) {
            return self.leaf(c, level, scale);
        }
        let g = giant(degree);
        self.ensure(g)?;
        let mut acc = self.node(trim(&c[..g]), level, scale)?;
        if degree == g {
            e.add_multiple(&mut acc, &self.found[&g], c[g]);
            return Ok(acc);
        }
        let prime = e.params().prime(level + 1);
        let raw = self.node(&c[g..], level + 1, scale / self.found[&g].scale * prime)?;
        let quotient = e.relinearise_rescale(raw)?;
        if acc.polys.len() == 2 {
            acc.polys.push(RnsPoly::zero(e.rlwe(), level + 1, 0));
        }
        e.add_product(&mut acc, &quotient, &self.found[&g])?;
        Ok(acc)
    }

    fn leaf(&mut self, c: &[Complex64], level: usize, scale: f64) -> Result<Ciphertext, CkksError> {
        let e = self.evaluator;
        let used: Vec<usize> = (1..c.len()).filter(|&n| c[n].norm() > 0.0).collect();
        for &n in &used {
            self.ensure(n)?;
        }
        let mut acc = Ciphertext {
            polys: (0..2).map(|_| RnsPoly::scratch(e.rlwe(), level + 1)).collect(),
            scale,
        };
        let terms: Vec<_> = used.iter().map(|n| (&self.found[n], c[*n])).collect();
        e.set_multiples(&mut acc, &terms);
        e.add_constant_assign(&mut acc, c[0]);
        Ok(acc)
    }
}
