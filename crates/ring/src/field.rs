//! Modular arithmetic on vectors of doubles. Every result is an exact integer.
//!
//! With p < 2^50 and u = 2^-53 (half a unit in the last place, relative):
//!
//! * [`Field::reduce`]: |a| < 8p gives |r| <= p/2 + 8. For |a| < p it is exactly the centred residue: the
//!   quotient a/p is at least 1/(2p) >= 4u away from a half-integer and its computed value is off by less
//!   than 2u.
//! * [`Field::mul_by`]: |a| < 8p, |w| < p/2: the quotient is off by |a w/p| 2u <= k/8 for |a| <= kp, so |r|
//!   <= (1/2 + k/8) p. `h - qp` and `h - aw` are integers below 2^53, so both fused operations are exact, and
//!   so is their difference (`h - aw`, since NEON has no `aw - h`). With w/p computed as w * (1/p) instead of
//!   divided, the bound is (1/2 + 3k/16) p.
//! * [`Field::mul`]: |a|, |b| < p: the quotient is off by 3u p <= 3/8, so |r| < 7p/8. With |b| < p/2, |r| <
//!   11p/16.
//! * [`Field::canonical`]: |a| < 2^51: (a + 1/2)/p is at least 1/(2p) away from an integer and is computed
//!   with an error below 2u |a|/p < 1/(2p), so its floor is the exact quotient and the result lies in [0, p).
//! * No result is -0: a difference of equal numbers is +0, and the rest follows from the signs of the fused
//!   operations.

use crate::simd::Simd;
use crate::Modulus;

/// A factor and its quotient by p, in every lane or one per lane.
pub type Factor<S> = (<S as Simd>::V, <S as Simd>::V);

#[derive(Clone, Copy)]
pub(crate) struct Field<S: Simd> {
    pub s: S,
    pub p: S::V,
    pub inv: S::V,
    half_inv: S::V,
    half: S::V,
}

impl<S: Simd> Field<S> {
    #[inline(always)]
    pub fn new(s: S, m: &Modulus) -> Self {
        let half = s.splat((m.p_f - 1.0) / 2.0);
        Self {
            s,
            p: s.splat(m.p_f),
            inv: s.splat(m.inv),
            half_inv: s.splat(0.5 * m.inv),
            half,
        }
    }

    /// |a| < 8p to about [-p/2, p/2].
    #[inline(always)]
    pub fn reduce(self, a: S::V) -> S::V {
        let q = self.s.round(self.s.mul(a, self.inv));
        self.s.fnma(q, self.p, a)
    }

    /// |a| < 2^51 (so |a| < 2p will do) to [0, p).
    #[inline(always)]
    pub fn canonical(self, a: S::V) -> S::V {
        let q = self.s.floor(self.s.fma(a, self.inv, self.half_inv));
        self.s.fnma(q, self.p, a)
    }

    /// |a| < 8p to [0, p).
    #[inline(always)]
    pub fn canonical_wide(self, a: S::V) -> S::V {
        self.s.add_if_negative(self.reduce(a), self.p)
    }

    /// |a| < p to [0, p).
    #[inline(always)]
    pub fn fold(self, a: S::V) -> S::V {
        self.s.add_if_negative(a, self.p)
    }

    /// [0, p) to (-p/2, p/2).
    #[inline(always)]
    pub fn center(self, a: S::V) -> S::V {
        self.s.sub_if_above(a, self.half, self.p)
    }

    /// a*w by a factor (w, w/p); see the module for the range.
    #[inline(always)]
    pub fn mul_by(self, a: S::V, (w, w_over_p): (S::V, S::V)) -> S::V {
        let h = self.s.mul(a, w);
        let q = self.s.round(self.s.mul(a, w_over_p));
        self.s.sub(self.s.fnma(q, self.p, h), self.s.fnma(a, w, h))
    }

    /// a*b without precomputation; see the module for the range.
    #[inline(always)]
    pub fn mul(self, a: S::V, b: S::V) -> S::V {
        let h = self.s.mul(a, b);
        let q = self.s.round(self.s.mul(h, self.inv));
        self.s.sub(self.s.fnma(q, self.p, h), self.s.fnma(a, b, h))
    }

    /// The factor of a centred w, with the weaker bound.
    #[inline(always)]
    pub fn factor(self, w: S::V) -> (S::V, S::V) {
        (w, self.s.mul(w, self.inv))
    }

    #[inline(always)]
    pub fn splat_factor(self, (w, w_over_p): (f64, f64)) -> (S::V, S::V) {
        (self.s.splat(w), self.s.splat(w_over_p))
    }
}

#[cfg(test)]
mod tests;
