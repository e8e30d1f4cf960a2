//! Division by some of the primes with rounding: by the special ones, by the top ciphertext prime, by both.
use super::pieces::{targets, Pieces};
use crate::{Parameters, RnsPoly};
use rayon::prelude::*;
use std::ops::Range;
use tacita_ring::{kernels, AlignedVec, BaseConverter};

/// Divides by the special primes with rounding: QP -> Q.
///
/// Cost: np inverse and L forward NTTs. Error: at most half a unit plus conversion error.
pub fn mod_down(params: &Parameters, x: RnsPoly) -> RnsPoly {
    divide(&Division::by_special(params, x.q_len, x.p_len()), x)
}

/// Divides by the special primes and the top ciphertext limb at once: QP -> Q / q_top.
///
/// Cost: np + 1 inverse and L - 1 forward NTTs; saves L NTTs against mod-down followed by rescale.
pub fn mod_down_rescale(params: &Parameters, x: RnsPoly) -> RnsPoly {
    divide(&Division::by_special_and_top(params, x.q_len, x.p_len()), x)
}

/// Divides a polynomial over Q by its top limb with rounding.
///
/// Cost: 1 inverse and L - 1 forward NTTs.
pub fn rescale(params: &Parameters, mut x: RnsPoly) -> RnsPoly {
    let top = x.q_len - 1;
    let mut last = x.limbs.swap_remove(top);
    let (n, from) = (params.n(), *params.modulus(top));
    Pieces::of(1, n).inverse_centred(params.table(top), &mut last, None, 1);
    let pieces = Pieces::of(top, n);
    let limbs = (0..top)
        .into_par_iter()
        .map(|i| {
            let m = params.modulus(i);
            let mut lifted = AlignedVec::scratch(n);
            pieces.ranges(n, [&mut lifted], |part, out| {
                kernels::switch_modulus(&from, m, out[0], &last[part]);
            });
            let c = m.inv(from.p() % m.p());
            subtract_and_scale(params, (i, pieces), &x.limbs[i], lifted, c)
        })
        .collect();
    RnsPoly { limbs, q_len: top }
}

/// (x - NTT(lifted)) * c modulo ciphertext prime `i`.
pub(super) fn subtract_and_scale(
    params: &Parameters,
    (i, pieces): (usize, Pieces),
    x: &[f64],
    mut lifted: AlignedVec,
    c: u64,
) -> AlignedVec {
    pieces.forward(params.table(i), &mut [&mut lifted]);
    let mut out = AlignedVec::scratch(params.n());
    pieces.ranges(params.n(), [&mut out], |part, out| {
        kernels::sub_mul_scalar(params.modulus(i), out[0], &x[part.clone()], &lifted[part], c);
    });
    out
}

fn divide(division: &Division, x: RnsPoly) -> RnsPoly {
    let count = division.from.len();
    let pieces = Pieces::of(count, division.params.n());
    let ys: Vec<AlignedVec> = (0..count)
        .into_par_iter()
        .map(|k| division.source_of(k, &x.limbs[division.at(k)], pieces))
        .collect();
    let lift = division.lift(&ys, Pieces::of(1, division.params.n()));
    let limbs = targets(division.keep)
        .into_par_iter()
        .flat_map_iter(|at| lift.limbs(&at, &x.limbs[at[0]..=at[at.len() - 1]]))
        .collect();
    RnsPoly {
        limbs,
        q_len: division.keep,
    }
}

/// By which primes, and what is kept.
pub(super) struct Division<'a> {
    params: &'a Parameters,
    converter: &'a BaseConverter,
    /// Global indices of the primes.
    pub(super) from: Vec<usize>,
    /// Ciphertext limbs before.
    q_len: usize,
    /// Ciphertext limbs after.
    pub(super) keep: usize,
}

impl<'a> Division<'a> {
    /// By the first `np` special primes.
    pub(super) fn by_special(params: &'a Parameters, q_len: usize, np: usize) -> Self {
        Self {
            params,
            converter: params.mod_down(np),
            from: (0..np).map(|k| params.p_index(k)).collect(),
            q_len,
            keep: q_len,
        }
    }

    /// By these and the top ciphertext prime.
    pub(super) fn by_special_and_top(params: &'a Parameters, q_len: usize, np: usize) -> Self {
        let top = q_len - 1;
        let special = (0..np).map(|k| params.p_index(k));
        Self {
            params,
            converter: params.mod_down_rescale(np, top),
            from: special.chain(std::iter::once(top)).collect(),
            q_len,
            keep: top,
        }
    }

    /// By the first special prime and the two lowest ciphertext primes: for the remainder, in all limbs.
    pub(super) fn wide(params: &'a Parameters, q_len: usize) -> Self {
        Self {
            params,
            converter: params.wide(),
            from: vec![params.p_index(0), 0, 1],
            q_len,
            keep: q_len,
        }
    }

    /// Of the divisor modulo ciphertext prime `i`.
    pub(super) fn inverse(&self, i: usize) -> u64 {
        let m = self.params.modulus(i);
        let primes = self.from.iter().map(|&f| self.params.modulus(f).p() % m.p());
        m.inv(primes.fold(1, |acc, p| m.mul(acc, p)))
    }

    /// Where the limb of the k-th prime lies in a polynomial over QP.
    pub(super) fn at(&self, k: usize) -> usize {
        let (index, q) = (self.from[k], self.params.q_len());
        if index < q {
            index
        } else {
            self.q_len + index - q
        }
    }

    /// What the limb of the k-th prime is multiplied by before it is converted.
    pub(super) fn scale(&self, k: usize) -> u64 {
        self.converter.input_scale(k)
    }

    /// The limb of the k-th prime, x in NTT form, as the conversion takes it.
    pub(super) fn source_of(&self, k: usize, x: &[f64], pieces: Pieces) -> AlignedVec {
        let (mut y, table) = (AlignedVec::scratch(x.len()), self.params.table(self.from[k]));
        pieces.inverse_centred(table, &mut y, Some(x), self.scale(k));
        y
    }

    /// What is subtracted from every limb before the division. ys: all sources.
    pub(super) fn lift<'y>(&'y self, ys: &'y [AlignedVec], pieces: Pieces) -> Lift<'y> {
        let sources: Vec<&[f64]> = ys.iter().map(|y| &y[..]).collect();
        let mut overflow = AlignedVec::scratch(self.params.n());
        pieces.ranges(self.params.n(), [&mut overflow], |part, out| {
            self.converter.overflow(&within(&sources, &part), out[0]);
        });
        Lift {
            division: self,
            sources,
            overflow,
        }
    }
}

/// The remainder of a division: its sources and their overflow.
pub(super) struct Lift<'y> {
    division: &'y Division<'y>,
    sources: Vec<&'y [f64]>,
    overflow: AlignedVec,
}

impl Lift<'_> {
    /// Limbs `at` of what is subtracted, in coefficient form.
    pub(super) fn lifted(&self, at: &[usize], pieces: Pieces) -> Vec<AlignedVec> {
        let (n, converter) = (self.division.params.n(), self.division.converter);
        let mut lifted: Vec<AlignedVec> = at.iter().map(|_| AlignedVec::scratch(n)).collect();
        pieces.ranges(n, &mut lifted, |part, outs| {
            let sources = within(&self.sources, &part);
            converter.convert_exact(&sources, &self.overflow[part], at, outs);
        });
        lifted
    }

    /// Limbs `at` of the quotient. xs: those of the dividend.
    fn limbs(&self, at: &[usize], xs: &[AlignedVec]) -> Vec<AlignedVec> {
        let params = self.division.params;
        let pieces = Pieces::of(self.division.keep, params.n());
        let limbs = at.iter().zip(xs).zip(self.lifted(at, pieces)).collect();
        pieces.map(limbs, |((&i, x), lifted)| {
            subtract_and_scale(params, (i, pieces), x, lifted, self.division.inverse(i))
        })
    }
}

/// The same part of each.
pub(super) fn within<'a>(xs: &[&'a [f64]], part: &Range<usize>) -> Vec<&'a [f64]> {
    xs.iter().map(|x| &x[part.clone()]).collect()
}
