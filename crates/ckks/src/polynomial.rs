//! Chebyshev series on [-1, 1], evaluated by Paterson-Stockmeyer at depth ceil(log2(d + 1)).
//!
//! A series is split p = q*T_g + r at powers of two. Every node is told the level and the scale at which its
//! parent needs it (Bossuat et al., Eurocrypt 2021, section 3.2), so no scale is ever corrected afterwards: a
//! node returns a *raw* degree-2 sum that its parent relinearises and rescales once.
use crate::evaluator::complex_residues;
use crate::{Ciphertext, CkksError, Evaluator};
use num_complex::Complex64;
use std::collections::BTreeMap;
use tacita_ring::kernels;
use tacita_rlwe::RnsPoly;

/// Depth of a series of degree `d`.
pub fn depth(degree: usize) -> usize {
    (usize::BITS - degree.leading_zeros()) as usize
}

/// How a series of one degree is evaluated: baby degree and the ciphertext products it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Leaves have a degree below this.
    pub baby: usize,
    /// Ciphertext-ciphertext products in total.
    pub products: usize,
}

/// The cheapest split of a dense series of degree `d`.
pub fn best_split(degree: usize) -> Split {
    let mut best: Option<Split> = None;
    for log in 1..=depth(degree).max(1) {
        let baby = 1usize << log;
        let mut basis = std::collections::BTreeSet::new();
        let top = depth(degree);
        let node = count(degree, top.saturating_sub(1), baby, &mut basis);
        let products = node + basis.iter().filter(|&&n| n > 1).count();
        if best.is_none_or(|b| products < b.products) {
            best = Some(Split { baby, products });
        }
    }
    best.unwrap_or(Split { baby: 2, products: 0 })
}

/// Products of a node of degree `d` whose raw result may use `budget` levels; collects the basis it needs.
fn count(degree: usize, budget: usize, baby: usize, basis: &mut std::collections::BTreeSet<usize>) -> usize {
    if is_leaf(degree, budget, baby) {
        (1..=degree).for_each(|n| require(n, basis));
        return 0;
    }
    let g = giant(degree);
    require(g, basis);
    let quotient = degree - g;
    let below = if quotient == 0 {
        0
    } else {
        1 + count(quotient, budget.saturating_sub(1), baby, basis)
    };
    below + count(g - 1, budget, baby, basis)
}

fn require(n: usize, basis: &mut std::collections::BTreeSet<usize>) {
    if n > 1 && basis.insert(n) {
        let (a, b) = halves(n);
        require(a, basis);
        require(b, basis);
        require(a - b, basis);
    }
}

/// Whether T_1..T_degree are all there `budget` levels below the input, and few enough.
pub(crate) fn is_leaf(degree: usize, budget: usize, baby: usize) -> bool {
    degree < baby && power_depth(degree) <= budget
}

/// Depth of T_n: ceil(log2 n).
fn power_depth(n: usize) -> usize {
    if n <= 1 {
        0
    } else {
        (usize::BITS - (n - 1).leading_zeros()) as usize
    }
}

/// Largest power of two not above the degree.
pub(crate) fn giant(degree: usize) -> usize {
    1 << (usize::BITS - 1 - degree.leading_zeros())
}

/// n = a + b with a >= b, depths below that of n, and a - b small.
pub(crate) fn halves(n: usize) -> (usize, usize) {
    let a = 1 << (power_depth(n) - 1);
    (a, n - a)
}

/// T_n by n, computed on demand.
struct PowerBasis<'e> {
    evaluator: &'e Evaluator,
    powers: BTreeMap<usize, Ciphertext>,
}

impl PowerBasis<'_> {
    /// Makes sure T_n exists: T_(a+b) = 2*T_a*T_b - T_(a-b).
    fn ensure(&mut self, n: usize) -> Result<(), CkksError> {
        if n == 0 || self.powers.contains_key(&n) {
            return Ok(());
        }
        let (a, b) = halves(n);
        self.ensure(a)?;
        self.ensure(b)?;
        self.ensure(a - b)?;
        let e = self.evaluator;
        let (x, y) = (&self.powers[&a], &self.powers[&b]);
        let level = x.level().min(y.level());
        e.need_level(if x.level() < y.level() { x } else { y }, "poly", 1)?;
        let mut out = e.relinearise_rescale(e.product(x, y, level + 1)?)?;
        e.double_assign(&mut out);
        if a == b {
            e.add_constant_assign(&mut out, Complex64::new(-1.0, 0.0));
        } else {
            let low = e.align_to(&self.powers[&(a - b)], out.level(), out.scale)?;
            e.sub_assign(&mut out, &low)?;
        }
        self.powers.insert(n, out);
        Ok(())
    }
}

impl Evaluator {
    /// Evaluates sum c_n T_n(x) for slots in [-1, 1]; coefficients may be complex. Depth ceil(log2(d + 1));
    /// the result has `scale` when given, else the canonical scale of its level.
    ///
    /// # Errors
    /// [`CkksError::Level`] when the depth does not fit; [`CkksError::Shape`] for an empty or non-finite
    /// series.
    pub fn chebyshev(
        &self,
        x: &Ciphertext,
        coefficients: &[Complex64],
        scale: Option<f64>,
    ) -> Result<Ciphertext, CkksError> {
        let c = trimmed(coefficients)?;
        let degree = c.len() - 1;
        let depth = depth(degree);
        self.need_level(x, "poly", depth)?;
        let level = x.level() - depth;
        let scale = scale.unwrap_or_else(|| self.params().scale(level));
        let mut basis = PowerBasis {
            evaluator: self,
            powers: BTreeMap::from([(1, x.clone())]),
        };
        let baby = best_split(degree).baby;
        let raw_scale = scale * self.params().prime(level + 1);
        let raw = self.node(&mut basis, c, level + 1, raw_scale, baby)?;
        self.finish(raw)
    }

    fn finish(&self, raw: Ciphertext) -> Result<Ciphertext, CkksError> {
        self.relinearise_rescale(raw)
    }

    /// A raw sum at native level `level` with scale `scale`; `x.level() - level` is the node's budget.
    fn node(
        &self,
        basis: &mut PowerBasis<'_>,
        c: &[Complex64],
        level: usize,
        scale: f64,
        baby: usize,
    ) -> Result<Ciphertext, CkksError> {
        let degree = c.len() - 1;
        let budget = basis.powers[&1].level() - level;
        if is_leaf(degree, budget, baby) {
            return self.leaf(basis, c, level, scale);
        }
        let g = giant(degree);
        basis.ensure(g)?;
        let (q, r) = divide(c, g);
        let mut acc = self.node(basis, trim(&r), level, scale, baby)?;
        let power_scale = basis.powers[&g].scale;
        if q.len() == 1 {
            let power = basis.powers[&g].truncated(level + 1);
            self.add_multiple(&mut acc, &power, q[0]);
            return Ok(acc);
        }
        let quotient_scale = scale / power_scale * self.params().prime(level + 1);
        let quotient = self.finish(self.node(basis, &q, level + 1, quotient_scale, baby)?)?;
        if acc.polys.len() == 2 {
            acc.polys.push(RnsPoly::zero(self.rlwe(), level + 1, 0));
        }
        self.add_product(&mut acc, &quotient, &basis.powers[&g])?;
        Ok(acc)
    }

    fn leaf(
        &self,
        basis: &mut PowerBasis<'_>,
        c: &[Complex64],
        level: usize,
        scale: f64,
    ) -> Result<Ciphertext, CkksError> {
        let mut acc = Ciphertext {
            polys: (0..2).map(|_| RnsPoly::scratch(self.rlwe(), level + 1)).collect(),
            scale,
        };
        let used = |n: &usize| c[*n].norm() > 0.0;
        for n in (1..c.len()).filter(used) {
            basis.ensure(n)?;
        }
        let terms: Vec<_> = (1..c.len())
            .filter(used)
            .map(|n| (&basis.powers[&n], c[n]))
            .collect();
        self.set_multiples(&mut acc, &terms);
        self.add_constant_assign(&mut acc, c[0]);
        Ok(acc)
    }

    /// acc = sum_n c_n * x_n at acc's scale, reading every operand once; operands may have more limbs.
    pub(crate) fn set_multiples(&self, acc: &mut Ciphertext, terms: &[(&Ciphertext, Complex64)]) {
        let (rlwe, scale) = (self.rlwe(), acc.scale);
        for (k, poly) in acc.polys.iter_mut().enumerate() {
            poly.for_each_limb(rlwe, |i, limb| {
                let weigh = |(x, c): &(&Ciphertext, Complex64)| {
                    let (first, second) = complex_residues(rlwe.table(i), *c, scale / x.scale);
                    [first as f64, second as f64]
                };
                let weights: Vec<[f64; 2]> = terms.iter().map(weigh).collect();
                let pairs: Vec<(&[f64], &[f64])> = terms
                    .iter()
                    .zip(&weights)
                    .map(|((x, _), w)| (&x.polys[k].limbs[i][..], &w[..]))
                    .collect();
                limb.fill(0.0);
                kernels::mac_runs(rlwe.modulus(i), limb, &pairs);
            });
        }
    }

    /// acc += c * x at acc's scale.
    pub(crate) fn add_multiple(&self, acc: &mut Ciphertext, x: &Ciphertext, c: Complex64) {
        let factor = acc.scale / x.scale;
        for (a, p) in acc.polys.iter_mut().zip(&x.polys) {
            self.add_scaled(a, p, c, factor);
        }
    }
}

/// p = q*T_g + r for g <= deg p < 2g, by T_g*T_j = (T_(g+j) + T_(g-j)) / 2.
fn divide(c: &[Complex64], g: usize) -> (Vec<Complex64>, Vec<Complex64>) {
    let mut r = c[..g].to_vec();
    let mut q = vec![c[g]];
    for j in 1..c.len() - g {
        q.push(2.0 * c[g + j]);
        r[g - j] -= c[g + j];
    }
    (q, r)
}

pub(crate) fn trim(c: &[Complex64]) -> &[Complex64] {
    let end = c.iter().rposition(|x| x.norm() > 0.0).unwrap_or(0);
    &c[..=end]
}

fn trimmed(c: &[Complex64]) -> Result<&[Complex64], CkksError> {
    let finite = c.iter().all(|x| x.re.is_finite() && x.im.is_finite());
    if c.is_empty() || !finite || trim(c).len() < 2 {
        return Err(CkksError::Shape {
            op: "poly",
            detail: format!("{} coefficients are not a finite series of degree >= 1", c.len()),
        });
    }
    Ok(trim(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_costs_are_known() {
        assert_eq!(depth(31), 5);
        assert_eq!(depth(32), 6);
        assert_eq!(depth(1), 1);
        let s = best_split(31);
        assert!(s.products <= 13, "{s:?}");
    }

    #[test]
    fn division_is_exact() {
        let c: Vec<Complex64> = (0..12).map(|i| Complex64::new(i as f64 - 5.0, 1.0)).collect();
        let (q, r) = divide(&c, 8);
        for x in [-0.9f64, -0.2, 0.4, 1.0] {
            let t = |n: usize| (n as f64 * x.acos()).cos();
            let value = |c: &[Complex64]| c.iter().enumerate().map(|(n, a)| a * t(n)).sum::<Complex64>();
            assert!((value(&c) - value(&q) * t(8) - value(&r)).norm() < 1e-9);
        }
    }
}
