//! Polynomials of the large ring as polynomials of the small one, by the residues of their exponents.
use super::RingPair;
use crate::{Parameters, RnsPoly};
use rayon::prelude::*;
use tacita_ring::AlignedVec;

impl RingPair {
    /// c -> c_0 ... c_(r-1), in NTT form both.
    ///
    /// Cost, for L limbs: L inverse NTTs of degree N, L r forward ones of degree n.
    pub fn split(&self, c: &RnsPoly) -> Vec<RnsPoly> {
        let (ratio, limbs) = (self.ratio(), c.q_len);
        let coefficients: Vec<AlignedVec> = (0..limbs)
            .into_par_iter()
            .map(|i| c.limb_coefficients(&self.large, i))
            .collect();
        let part = |class: usize| {
            let limb = |(i, x): (usize, &AlignedVec)| self.class(x, class, i);
            RnsPoly {
                limbs: coefficients.iter().enumerate().map(limb).collect(),
                q_len: limbs,
            }
        };
        (0..ratio).into_par_iter().map(part).collect()
    }

    /// Limb `i` of one class, from the coefficients of that limb of the whole.
    fn class(&self, coefficients: &[f64], class: usize, i: usize) -> AlignedVec {
        let mut out = AlignedVec::scratch(self.small.n());
        let source = coefficients[class..].iter().step_by(self.ratio());
        out.iter_mut().zip(source).for_each(|(to, &x)| *to = x);
        self.small.table(i).forward(&mut out);
        out
    }

    /// The inverse of [`RingPair::split`].
    ///
    /// Cost, for L limbs: L r inverse NTTs of degree n, L forward ones of degree N.
    pub fn join(&self, parts: &[&RnsPoly]) -> RnsPoly {
        let limbs = parts[0].q_len;
        let made = (0..limbs).into_par_iter().map(|i| {
            let mut whole = self.joined_coefficients(parts, i);
            self.large.table(i).forward(&mut whole);
            whole
        });
        RnsPoly {
            limbs: made.collect(),
            q_len: limbs,
        }
    }

    /// Limb `i` of the whole, in coefficient form.
    pub(super) fn joined_coefficients(&self, parts: &[&RnsPoly], i: usize) -> AlignedVec {
        let classes: Vec<AlignedVec> = parts
            .par_iter()
            .map(|p| p.limb_coefficients(&self.small, i))
            .collect();
        let mut out = AlignedVec::scratch(self.large.n());
        for (k, places) in out.chunks_exact_mut(self.ratio()).enumerate() {
            places.iter_mut().zip(&classes).for_each(|(to, c)| *to = c[k]);
        }
        out
    }
}

/// Canonical residues of limb `i` as signed integers next to zero.
pub(super) fn centred(params: &Parameters, residues: &[f64], i: usize) -> Vec<i64> {
    let m = params.modulus(i);
    residues.iter().map(|&v| m.center(v as u64)).collect()
}
