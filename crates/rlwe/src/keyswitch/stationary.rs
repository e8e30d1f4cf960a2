//! A whole key switch, target limb by target limb: what a limb of the result needs is made, used while the
//! caches hold it, and dropped. The D (L + k) limbs of digits and the 2 (L + k) limbs of products never lie
//! in memory together, which is most of what a switch used to move ("output-centric", arXiv 2311.01598).
//!
//! The results are those of `decompose`, `inner_product` and a division, bit for bit.
use super::divide::Division;
use super::pieces::{targets, Pieces};
use super::{add_part, converted, prime_of, products, require, scaled_coefficients, whole_products};
use crate::switching::SwitchingKey;
use crate::{Parameters, RlweError, RnsPoly};
use rayon::prelude::*;
use std::ops::Range;
use tacita_ring::{AlignedVec, Permutation};

/// What happens to both halves of the quotient.
#[derive(Default)]
pub struct Ending<'a> {
    /// Polynomials over Q, P times which count as part of the pair before the division.
    pub add: [Option<&'a RnsPoly>; 2],
    /// The order of the values at the end.
    pub permutation: Option<&'a Permutation>,
}

/// One limb of both halves of a result.
pub type Limbs = (AlignedVec, AlignedVec);

/// Switches `c1` with `key` and divides by P: (u0, u1) over Q with u0 + u1*s = c1*s', then ends as told.
///
/// Cost: D (L + k) + 2 L forward and L + 2 k inverse NTTs, for k special primes and D digits.
///
/// # Errors
/// [`RlweError::MissingKey`] when the key lives below the level of `c1`.
pub fn switch(
    params: &Parameters,
    c1: &RnsPoly,
    key: &SwitchingKey,
    ending: &Ending<'_>,
) -> Result<(RnsPoly, RnsPoly), RlweError> {
    let switch = Switch::new(params, c1, key)?;
    let division = Division::by_special(params, c1.q_len, key.special);
    let sources = switch.sources(&division, |_, _, _| ());
    Ok(switch.divided(&division, &sources, ending))
}

/// Switches `c1` with `key` and stays over QP: P times what [`switch`] gives.
///
/// finish: turns limb i of the pair, of the ciphertext limbs and then the special ones, into that of the
/// result. Cost: D (L + k) - L forward and L inverse
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
    let groups = targets(c1.q_len + key.special).into_par_iter();
    let made = |group: Vec<usize>| {
        let pairs = group.iter().zip(switch.limbs(&group));
        pairs.map(|(&at, limbs)| finish(at, limbs)).collect::<Vec<_>>()
    };
    Ok(pair(groups.flat_map_iter(made).collect(), c1.q_len))
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
    let division = Division::by_special_and_top(params, d2.q_len, key.special);
    let raised = |at, part: &Range<usize>, [u0, u1]: [&mut [f64]; 2]| {
        add_part(params, u0, at, (d0, key.special, part.clone()));
        add_part(params, u1, at, (d1, key.special, part.clone()));
    };
    let sources = switch.sources(&division, raised);
    let ending = Ending {
        add: [Some(d0), Some(d1)],
        permutation: None,
    };
    Ok(switch.divided(&division, &sources, &ending))
}

/// A polynomial about to be switched: its digits in coefficient form, and the key.
pub(super) struct Switch<'a> {
    pub(super) params: &'a Parameters,
    pub(super) c1: &'a RnsPoly,
    pub(super) key: &'a SwitchingKey,
    coefficients: Vec<AlignedVec>,
}

impl<'a> Switch<'a> {
    fn new(params: &'a Parameters, c1: &'a RnsPoly, key: &'a SwitchingKey) -> Result<Self, RlweError> {
        require(params, key, c1.q_len)?;
        Ok(Self {
            params,
            c1,
            key,
            coefficients: scaled_coefficients(params, c1, key.special),
        })
    }

    /// Limbs `targets` of the pair over QP.
    fn limbs(&self, targets: &[usize]) -> Vec<Limbs> {
        let pieces = Pieces::of(self.c1.q_len + self.key.special, self.params.n());
        let pairs = targets.iter().zip(self.digits(targets, pieces));
        pieces.map(pairs.collect(), |(&at, mut digits)| {
            let prime = prime_of(self.params, self.c1.q_len, at);
            let mut limbs: Vec<&mut [f64]> = digits.iter_mut().flatten().map(|x| &mut x[..]).collect();
            pieces.forward(self.params.table(prime), &mut limbs);
            self.product((at, pieces), &digits)
        })
    }

    /// By target, limb by limb, every digit in coefficient form; none for the digit that the limb belongs to.
    pub(super) fn digits(&self, targets: &[usize], pieces: Pieces) -> Vec<Vec<Option<AlignedVec>>> {
        let (params, limbs, special) = (self.params, self.c1.q_len, self.key.special);
        let mut made: Vec<Vec<Option<AlignedVec>>> = targets.iter().map(|_| Vec::new()).collect();
        for d in 0..params.digits(limbs, special) {
            let own = params.digit(d, limbs, special);
            let limbs = converted(params, limbs, &self.coefficients, (own, targets), pieces);
            for (row, x) in made.iter_mut().zip(limbs) {
                row.push(x);
            }
        }
        made
    }

    /// Limb `at` of the pair. digits: that limb of each, none for the digit that it belongs to.
    fn product(&self, (at, pieces): (usize, Pieces), digits: &[Option<AlignedVec>]) -> Limbs {
        let own = self.c1.limbs.get(at);
        let ds: Vec<&[f64]> = digits
            .iter()
            .filter_map(|x| Some(&x.as_ref().or(own)?[..]))
            .collect();
        whole_products(self.params, self.key, self.c1.q_len, (at, pieces), &ds)
    }

    /// Both halves of what a division takes of the pair, after `raised`, which gets the limb, and the values
    /// of a part of it.
    fn sources(
        &self,
        division: &Division,
        raised: impl Fn(usize, &Range<usize>, [&mut [f64]; 2]) + Sync,
    ) -> (Vec<AlignedVec>, Vec<AlignedVec>) {
        let pieces = Pieces::of(division.from.len(), self.params.n());
        let made = |group: Vec<usize>| {
            let at: Vec<usize> = group.iter().map(|&k| division.at(k)).collect();
            let limbs = group.into_iter().zip(self.digits(&at, pieces)).collect();
            pieces.map(limbs, |(k, digits)| {
                self.source((division, k), digits, pieces, &raised)
            })
        };
        targets(division.from.len())
            .into_par_iter()
            .flat_map_iter(made)
            .unzip()
    }

    /// The k-th of these: piece by piece the end of the forward transforms, products, the beginning of the
    /// inverse ones. digits: in coefficient form.
    fn source(
        &self,
        (division, k): (&Division, usize),
        mut digits: Vec<Option<AlignedVec>>,
        pieces: Pieces,
        raised: &(impl Fn(usize, &Range<usize>, [&mut [f64]; 2]) + Sync),
    ) -> Limbs {
        let (n, at, scale) = (self.params.n(), division.at(k), division.scale(k));
        let table = self.params.table(division.from[k]);
        let own: Vec<Option<&[f64]>> = digits
            .iter()
            .map(|x| {
                x.as_ref()
                    .map_or_else(|| Some(&self.c1.limbs.get(at)?[..]), |_| None)
            })
            .collect();
        let mut limbs: Vec<&mut [f64]> = digits.iter_mut().flatten().map(|x| &mut x[..]).collect();
        pieces.forward_columns(table, &mut limbs);
        let mut out = [AlignedVec::scratch(n), AlignedVec::scratch(n)];
        let outs = pieces.blocks(table, out.iter_mut().map(|x| &mut x[..]));
        let tasks = pieces.blocks(table, limbs).into_iter().zip(outs).collect();
        pieces.map(tasks, |((part, mut xs), (_, mut outs))| {
            table.forward_blocks(&mut xs);
            let mut xs = xs.iter().map(|x| &x[..]);
            let ds: Vec<&[f64]> = own
                .iter()
                .filter_map(|own| own.map(|x| &x[part.clone()]).or_else(|| xs.next()))
                .collect();
            let [u0, u1] = &mut outs[..] else {
                unreachable!("two halves")
            };
            products(
                self.params,
                self.key,
                self.c1.q_len,
                at,
                (&ds, part.clone()),
                [u0, u1],
            );
            raised(at, &part, [u0, u1]);
            table.inverse_blocks(u0, None, scale);
            table.inverse_blocks(u1, None, scale);
        });
        let whole = out.iter_mut().map(|x| &mut x[..]).collect();
        pieces.map(whole, |x: &mut [f64]| pieces.inverse_columns(table, x, scale));
        out.into()
    }
}

/// Limbs of pairs as a pair of polynomials.
pub(super) fn pair(limbs: Vec<Limbs>, q_len: usize) -> (RnsPoly, RnsPoly) {
    let (l0, l1) = limbs.into_iter().unzip();
    let poly = |limbs| RnsPoly { limbs, q_len };
    (poly(l0), poly(l1))
}
