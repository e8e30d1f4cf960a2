//! A whole key switch, target limb by target limb: what a limb of the result needs is made, used while the
//! caches hold it, and dropped. The D (L + k) limbs of digits and the 2 (L + k) limbs of products never lie
//! in memory together, which is most of what a switch used to move ("output-centric", arXiv 2311.01598).
//!
//! The results are those of `decompose`, `inner_product` and a division, bit for bit.
use super::divide::Division;
use super::{add_to_limb, digit_of, require, scaled_coefficients, whole_products};
use crate::switching::SwitchingKey;
use crate::{Parameters, RlweError, RnsPoly};
use rayon::prelude::*;
use tacita_ring::AlignedVec;

/// One limb of both halves of a result.
pub type Limbs = (AlignedVec, AlignedVec);

/// Switches `c1` with `key` and divides by P: (u0, u1) over Q with u0 + u1*s = c1*s'.
///
/// finish: turns limb i of the pair into that of the result, while it is in the cache.
/// Cost: D (L + k) + 2 L forward and L + 2 k inverse NTTs, for k special primes and D digits.
///
/// # Errors
/// [`RlweError::MissingKey`] when the key lives below the level of `c1`.
pub fn switch(
    params: &Parameters,
    c1: &RnsPoly,
    key: &SwitchingKey,
    finish: impl Fn(usize, Limbs) -> Limbs + Sync,
) -> Result<(RnsPoly, RnsPoly), RlweError> {
    let switch = Switch::new(params, c1, key)?;
    let division = Division::by_special(params, c1.q_len, params.p_len());
    Ok(divided(&division, |at| switch.limb(at), finish))
}

/// Switches `c1` with `key` and stays over QP: P times what [`switch`] gives.
///
/// finish: as there, of ciphertext limbs and then the special ones. Cost: D (L + k) - L forward and L inverse
/// NTTs.
///
/// # Errors
/// [`RlweError::MissingKey`] as [`switch`].
pub fn switch_over(
    params: &Parameters,
    c1: &RnsPoly,
    key: &SwitchingKey,
    finish: impl Fn(usize, Limbs) -> Limbs + Sync,
) -> Result<(RnsPoly, RnsPoly), RlweError> {
    let switch = Switch::new(params, c1, key)?;
    let limbs = 0..c1.q_len + params.p_len();
    let pairs = limbs.into_par_iter().map(|at| finish(at, switch.limb(at)));
    Ok(pair(pairs.collect(), c1.q_len))
}

/// (d0, d1) + switched `d2`, divided by the top prime: relinearisation and rescaling at once.
///
/// Cost: D (L + k) + 2 (L - 1) forward and L + 2 (k + 1) inverse NTTs, less D where the top limb is its own.
///
/// # Errors
/// [`RlweError::MissingKey`] as [`switch`].
pub fn switch_rescale(
    params: &Parameters,
    [d0, d1, d2]: [&RnsPoly; 3],
    key: &SwitchingKey,
) -> Result<(RnsPoly, RnsPoly), RlweError> {
    let switch = Switch::new(params, d2, key)?;
    let division = Division::by_special_and_top(params, d2.q_len, params.p_len());
    let raised = |at: usize| {
        let (mut u0, mut u1) = switch.limb(at);
        add_to_limb(params, &mut u0, at, d0);
        add_to_limb(params, &mut u1, at, d1);
        (u0, u1)
    };
    Ok(divided(&division, raised, |_, limbs| limbs))
}

/// A polynomial about to be switched: its digits in coefficient form, and the key.
struct Switch<'a> {
    params: &'a Parameters,
    c1: &'a RnsPoly,
    key: &'a SwitchingKey,
    coefficients: Vec<AlignedVec>,
}

impl<'a> Switch<'a> {
    fn new(params: &'a Parameters, c1: &'a RnsPoly, key: &'a SwitchingKey) -> Result<Self, RlweError> {
        require(params, key, c1.q_len)?;
        Ok(Self {
            params,
            c1,
            key,
            coefficients: scaled_coefficients(params, c1),
        })
    }

    /// Limb `at` of the pair over QP.
    fn limb(&self, at: usize) -> Limbs {
        let (limbs, dl) = (self.c1.q_len, self.params.digit_limbs());
        let own = (at < limbs).then(|| at / dl);
        let made: Vec<Option<AlignedVec>> = (0..limbs.div_ceil(dl))
            .map(|d| (own != Some(d)).then(|| self.extended(d, at)))
            .collect();
        let own_limb = |d: &Option<AlignedVec>| d.is_none().then(|| &self.c1.limbs[at][..]);
        let ds: Vec<&[f64]> = made
            .iter()
            .filter_map(|d| d.as_deref().or_else(|| own_limb(d)))
            .collect();
        whole_products(self.params, self.key, limbs, at, &ds)
    }

    /// Digit `d` in the limb `at`, in NTT form.
    fn extended(&self, d: usize, at: usize) -> AlignedVec {
        let (params, limbs, dl) = (self.params, self.c1.q_len, self.params.digit_limbs());
        let (_, len) = digit_of(d * dl, dl, limbs);
        let sources: Vec<&[f64]> = self.coefficients[d * dl..][..len]
            .iter()
            .map(|y| &y[..])
            .collect();
        let index = if at < limbs {
            at
        } else {
            params.p_index(at - limbs)
        };
        let mut x = AlignedVec::scratch(params.n());
        params.mod_up(d, len).convert(&sources, index, &mut x);
        params.table(index).forward(&mut x);
        x
    }
}

/// Divides a pair whose limbs are made when they are asked for; see [`switch`] for `finish`.
fn divided(
    division: &Division,
    limb: impl Fn(usize) -> Limbs + Sync,
    finish: impl Fn(usize, Limbs) -> Limbs + Sync,
) -> (RnsPoly, RnsPoly) {
    let sources: Vec<Limbs> = (0..division.from.len())
        .into_par_iter()
        .map(|k| {
            let (y0, y1) = limb(division.at(k));
            (division.source(k, y0), division.source(k, y1))
        })
        .collect();
    let (ys0, ys1): (Vec<_>, Vec<_>) = sources.into_iter().unzip();
    let (lift0, lift1) = rayon::join(|| division.lift(&ys0), || division.lift(&ys1));
    let pairs = (0..division.keep)
        .into_par_iter()
        .map(|i| {
            let (x0, x1) = limb(i);
            finish(i, (lift0.limb(i, &x0), lift1.limb(i, &x1)))
        })
        .collect();
    pair(pairs, division.keep)
}

/// Limbs of pairs as a pair of polynomials.
pub(super) fn pair(limbs: Vec<Limbs>, q_len: usize) -> (RnsPoly, RnsPoly) {
    let (l0, l1) = limbs.into_iter().unzip();
    let poly = |limbs| RnsPoly { limbs, q_len };
    (poly(l0), poly(l1))
}
