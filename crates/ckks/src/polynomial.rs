//! Chebyshev series on [-1, 1], and power series on the unit circle, evaluated by Paterson-Stockmeyer at
//! depth ceil(log2(d + 1)).
//!
//! A series is split p = q*T_g + r at powers of two. Every node is told the level and the scale at which its
//! parent needs it (Bossuat et al., Eurocrypt 2021, section 3.2), so no scale is ever corrected afterwards: a
//! node is one sum q_1*T_g1 + q_2*T_g2 + ... + leaf at one level and scale, relinearised and rescaled once.
use crate::backend::{Backend, CiphertextOf as Of, Sum};
use crate::{CkksError, Evaluator};
use num_complex::Complex64;
use std::collections::{BTreeMap, BTreeSet};

/// Depth of a series of degree `d`.
pub fn depth(degree: usize) -> usize {
    (usize::BITS - degree.leading_zeros()) as usize
}

/// How a series of one degree is evaluated: baby degree and what that takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// Leaves have a degree below this.
    pub baby: usize,
    /// Ciphertext-ciphertext products in total.
    pub products: usize,
    /// Relinearisations, each with a rescaling: of sums of products, however many there are in a sum.
    pub relinearisations: usize,
    /// Rescalings of sums without products.
    pub rescalings: usize,
}

impl Split {
    /// Of a dense series of degree `d` whose leaves have a degree below `baby`.
    pub fn of(degree: usize, baby: usize) -> Self {
        let mut basis = BTreeSet::new();
        let mut split = Self {
            baby,
            ..Self::default()
        };
        split.count(degree, depth(degree).saturating_sub(1), &mut basis);
        let powers = basis.iter().filter(|&&n| n > 1).count();
        split.products += powers;
        split.relinearisations += powers;
        split
    }

    /// Counts a sum of degree `degree` that is made `budget` levels below the argument; collects the basis.
    fn count(&mut self, degree: usize, budget: usize, basis: &mut BTreeSet<usize>) {
        let (mut own, mut rest) = (0, degree);
        while !is_leaf(rest, budget, self.baby) {
            let g = giant(rest);
            require(g, basis);
            if rest > g {
                own += 1;
                self.count(rest - g, budget.saturating_sub(1), basis);
            }
            rest = g - 1;
        }
        (1..=rest).for_each(|n| require(n, basis));
        self.products += own;
        if own > 0 {
            self.relinearisations += 1;
        } else {
            self.rescalings += 1;
        }
    }

    /// In units of a tenth of a relinearisation: what `python -m bench engine` measures at 10 limbs, rounded.
    fn price(&self) -> usize {
        10 * self.relinearisations + 3 * self.rescalings + 2 * self.products
    }
}

/// The cheapest split of a dense series of degree `d`.
pub fn best_split(degree: usize) -> Split {
    let splits = (1..=depth(degree).max(1)).map(|log| Split::of(degree, 1 << log));
    splits.min_by_key(Split::price).unwrap_or_default()
}

fn require(n: usize, basis: &mut BTreeSet<usize>) {
    if n > 1 && basis.insert(n) {
        let (a, b) = halves(n);
        require(a, basis);
        require(b, basis);
        require(a - b, basis);
    }
}

/// Whether T_1..T_degree are all there `budget` levels below the input, and few enough.
fn is_leaf(degree: usize, budget: usize, baby: usize) -> bool {
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
fn giant(degree: usize) -> usize {
    1 << (usize::BITS - 1 - degree.leading_zeros())
}

/// n = a + b with a >= b, depths below that of n, and a - b small.
fn halves(n: usize) -> (usize, usize) {
    let a = 1 << (power_depth(n) - 1);
    (a, n - a)
}

/// What a series is a sum of multiples of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// T_n, of numbers in [-1, 1].
    Chebyshev,
    /// Powers, of numbers on the unit circle.
    Powers,
}

/// T_n or the n-th power by n, computed on demand.
struct PowerBasis<'e, B: Backend> {
    kind: Kind,
    evaluator: &'e Evaluator<B>,
    first: &'e Of<B>,
    powers: BTreeMap<usize, Of<B>>,
}

impl<B: Backend> PowerBasis<'_, B> {
    fn power(&self, n: usize) -> &Of<B> {
        self.powers.get(&n).unwrap_or(self.first)
    }

    /// Makes sure that the n-th power or T_n exists.
    fn ensure(&mut self, n: usize) -> Result<(), CkksError> {
        if n <= 1 || self.powers.contains_key(&n) {
            return Ok(());
        }
        let (a, b) = halves(n);
        self.ensure(a)?;
        self.ensure(b)?;
        if self.kind == Kind::Chebyshev {
            self.ensure(a - b)?;
        }
        let e = self.evaluator;
        let (x, y) = (self.power(a), self.power(b));
        let lowest = if x.level() < y.level() { x } else { y };
        e.need_level(lowest, "poly", 1)?;
        let raw = e.sum(&self.recurrence(a, b), lowest.limbs(), x.scale * y.scale)?;
        let power = e.relinearise_rescale(raw)?;
        self.powers.insert(n, power);
        Ok(())
    }

    /// T_(a+b) = 2*T_a*T_b - T_(a-b), of which the latter joins before the sum is rescaled, so that it needs
    /// no rescaling of its own; or the product of two powers.
    fn recurrence(&self, a: usize, b: usize) -> Sum<'_, B::Poly> {
        let mut sum = Sum {
            products: vec![(self.power(a), self.power(b))],
            ..Sum::default()
        };
        if self.kind == Kind::Chebyshev {
            let minus = Complex64::new(-1.0, 0.0);
            sum.products.push(sum.products[0]);
            match a - b {
                0 => sum.constant = minus,
                low => sum.multiples.push((self.power(low), minus)),
            }
        }
        sum
    }

    /// (q, r) of a series c = q * giant + r.
    fn divide(&self, c: &[Complex64], g: usize) -> (Vec<Complex64>, Vec<Complex64>) {
        match self.kind {
            Kind::Chebyshev => divide(c, g),
            Kind::Powers => (c[g..].to_vec(), c[..g].to_vec()),
        }
    }
}

/// A series as the sum that it is made as: quotients times giants (where these had to be lowered, by what
/// they became), multiples of powers, a constant.
struct Node<B: Backend> {
    products: Vec<(Of<B>, usize, Option<Of<B>>)>,
    multiples: Vec<(usize, Complex64)>,
    constant: Complex64,
}

impl<B: Backend> Node<B> {
    fn new() -> Self {
        Self {
            products: Vec::new(),
            multiples: Vec::new(),
            constant: Complex64::default(),
        }
    }

    fn sum<'a>(&'a self, basis: &'a PowerBasis<'_, B>) -> Sum<'a, B::Poly> {
        Sum {
            products: {
                let pair = |(q, g, lowered): &'a (_, usize, Option<_>)| {
                    (q, lowered.as_ref().unwrap_or_else(|| basis.power(*g)))
                };
                self.products.iter().map(pair).collect()
            },
            multiples: self.multiples.iter().map(|&(n, c)| (basis.power(n), c)).collect(),
            constant: self.constant,
        }
    }

    /// Adds a series that needs no products.
    fn add_leaf(&mut self, basis: &mut PowerBasis<'_, B>, c: &[Complex64]) -> Result<(), CkksError> {
        self.constant += c[0];
        for (n, &c) in c.iter().enumerate().skip(1).filter(|(_, c)| c.norm() > 0.0) {
            basis.ensure(n)?;
            self.multiples.push((n, c));
        }
        Ok(())
    }
}

impl<B: Backend> Evaluator<B> {
    /// Evaluates sum c_n T_n(x) for slots in [-1, 1]; coefficients may be complex. Depth ceil(log2(d + 1));
    /// the result has `scale` when given, else the canonical scale of its level. Cost: see [`best_split`].
    ///
    /// # Errors
    /// [`CkksError::Level`] when the depth does not fit; [`CkksError::Shape`] for an empty or non-finite
    /// series.
    pub fn chebyshev(
        &self,
        x: &Of<B>,
        coefficients: &[Complex64],
        scale: Option<f64>,
    ) -> Result<Of<B>, CkksError> {
        self.any_series(Kind::Chebyshev, x, coefficients, scale)
    }

    /// Evaluates sum c_n z^n for slots on the unit circle, where powers are as stable a basis as Chebyshev's
    /// is on [-1, 1]. Depth, scale and cost as [`Self::chebyshev`].
    ///
    /// # Errors
    /// As [`Self::chebyshev`].
    pub fn power_series(
        &self,
        z: &Of<B>,
        coefficients: &[Complex64],
        scale: Option<f64>,
    ) -> Result<Of<B>, CkksError> {
        self.any_series(Kind::Powers, z, coefficients, scale)
    }

    fn any_series(
        &self,
        kind: Kind,
        x: &Of<B>,
        coefficients: &[Complex64],
        scale: Option<f64>,
    ) -> Result<Of<B>, CkksError> {
        let c = trimmed(coefficients)?;
        let degree = c.len() - 1;
        let depth = depth(degree);
        self.need_level(x, "poly", depth)?;
        let level = x.level() - depth;
        let scale = scale.unwrap_or_else(|| self.params().scale(level));
        let mut basis = PowerBasis {
            kind,
            evaluator: self,
            first: x,
            powers: BTreeMap::new(),
        };
        self.series(&mut basis, c, (level, scale), best_split(degree).baby)
    }

    /// A power at the canonical scale of a lower level, where its own is twice that or more: a quotient would
    /// have to be as much below the canonical scale as the power is above it.
    fn lowered(&self, power: &Of<B>, level: usize) -> Result<Option<Of<B>>, CkksError> {
        let top = level > self.params().top_level();
        let large = !top && power.scale > 2.0 * self.params().scale(level);
        large.then(|| self.drop_to(power, level)).transpose()
    }

    /// A series at native level `level` with scale `scale`, from a sum one level above, which lies
    /// `x.level() - level - 1` levels below the argument: that many are left for quotients and powers.
    fn series(
        &self,
        basis: &mut PowerBasis<'_, B>,
        c: &[Complex64],
        (level, scale): (usize, f64),
        baby: usize,
    ) -> Result<Of<B>, CkksError> {
        let raw_scale = scale * self.params().prime(level + 1);
        let budget = basis.first.level() - level - 1;
        let (mut node, mut rest) = (Node::new(), c.to_vec());
        while !is_leaf(rest.len() - 1, budget, baby) {
            let g = giant(rest.len() - 1);
            basis.ensure(g)?;
            let (q, r) = basis.divide(&rest, g);
            if q.len() == 1 {
                node.multiples.push((g, q[0]));
            } else {
                let lowered = self.lowered(basis.power(g), level + 1)?;
                let quotient_scale = raw_scale / lowered.as_ref().unwrap_or(basis.power(g)).scale;
                let quotient = self.series(basis, &q, (level + 1, quotient_scale), baby)?;
                node.products.push((quotient, g, lowered));
            }
            rest = trim(&r).to_vec();
        }
        node.add_leaf(basis, &rest)?;
        self.relinearise_rescale(self.sum(&node.sum(basis), level + 2, raw_scale)?)
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

fn trim(c: &[Complex64]) -> &[Complex64] {
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
        // (products, relinearisations, rescalings); the last degrees of a depth are dear
        for (degree, wanted) in [
            (1, (0, 0, 1)),
            (3, (2, 2, 1)),
            (7, (5, 4, 2)),
            (15, (8, 7, 2)),
            (28, (11, 8, 4)),
            (31, (13, 10, 4)),
            (63, (18, 15, 4)),
        ] {
            let s = best_split(degree);
            assert_eq!((s.products, s.relinearisations, s.rescalings), wanted, "{degree}");
        }
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
