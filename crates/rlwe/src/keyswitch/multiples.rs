//! Several multiples of automorphisms of one small pair, added up by one division: sum_d m_d phi_d(c), where
//! m_d is a plaintext times a special prime P'.
//!
//! A key of [`Gadget::Multiple`](crate::switching::Gadget) for each d encrypts m_d phi_d(s') under s over Q
//! and P'. Since c1 is small it is one digit of all of them, so sum_d phi_d(c1) key_d encrypts sum_d m_d
//! phi_d(c1 s'). The rest, sum_d m_d phi_d(c0), holds no secret: it is below P' q_0 q_1, so it is computed in
//! three limbs and converted to the others exactly. What remains is divided by P' once, by which the
//! multiples lose their factor: no prime of Q is used up.
use super::divide::{mod_down, subtract_and_scale, Division};
use super::pieces::{targets, Pieces};
use super::stationary::pair;
use super::{multiply, Rows};
use crate::{Parameters, RnsPoly, SwitchingKey};
use rayon::prelude::*;
use std::ops::Range;
use tacita_ring::{kernels, AlignedVec, Permutation};

/// Ciphertext limbs in which the products without a secret are computed, beside P'.
pub const PLAIN_LIMBS: usize = 2;

/// Values of a block. Those of 32 automorphisms take 256 KB, next to the limb that they come from.
const BLOCK: usize = 1024;

/// One term of a sum.
pub struct Product<'a> {
    /// Encrypts m phi(s').
    pub key: &'a SwitchingKey,
    /// phi, on values.
    pub permutation: &'a Permutation,
    /// m over [`PLAIN_LIMBS`] ciphertext primes and P'.
    pub plain: &'a RnsPoly,
}

impl Product<'_> {
    /// A part of limb `at` of the key (none: of P'), of one half.
    fn row(&self, half: usize, at: Option<usize>, part: &Range<usize>) -> Rows<'_> {
        let at = at.unwrap_or(self.key.limbs);
        self.key.rows(half, 1, at, part)
    }
}

/// sum_d m_d phi_d(c) / P' under s for (c0, c1) under s', which is given by coefficients (centred, below q0 /
/// 2). At `limbs` limbs, of which every key has as many.
///
/// Cost: 3 L + 4 forward and 5 inverse NTTs, 5 L limb pairs of conversion, 2 (L + 1) products of limbs for
/// each d. Error: that of D keys times c1, divided by P', and a rounding.
pub fn switch_products(
    params: &Parameters,
    [c0, c1]: [&[i64]; 2],
    terms: &[Product<'_>],
    limbs: usize,
) -> (RnsPoly, RnsPoly) {
    let ((mut u0, u1), plain) = rayon::join(
        || key_products(params, c1, terms, limbs),
        || plain_products(params, c0, terms),
    );
    let special = params.modulus(params.p_index(0));
    kernels::add_assign(special, &mut u0.limbs[limbs], &plain.limbs[PLAIN_LIMBS]);
    rayon::join(|| divided(params, &u0, &plain), || mod_down(params, u1))
}

/// sum_d phi_d(c1) key_d over Q and P'.
fn key_products(params: &Parameters, c1: &[i64], terms: &[Product<'_>], limbs: usize) -> (RnsPoly, RnsPoly) {
    let c1 = RnsPoly::from_small(params, c1, limbs, 1);
    let limb = |at: usize| {
        let (m, of_key) = (c1.modulus(params, at), (at < limbs).then(|| params.key_limb(at)));
        let [out0, out1] = by_blocks(&c1.limbs[at], terms, |part, ds, outs| {
            let rows = |half| terms.iter().map(|term| term.row(half, of_key, part)).collect();
            multiply(m, ds, &[0, 1].map(rows), outs);
        });
        (out0, out1)
    };
    pair((0..=limbs).into_par_iter().map(limb).collect(), limbs)
}

/// sum_d m_d phi_d(c0) over a few primes, whose product it is below.
fn plain_products(params: &Parameters, c0: &[i64], terms: &[Product<'_>]) -> RnsPoly {
    let c0 = RnsPoly::from_small(params, c0, PLAIN_LIMBS, 1);
    let limb = |at: usize| {
        let m = c0.modulus(params, at);
        let [out] = by_blocks(&c0.limbs[at], terms, |part, ds, [out]| {
            let weights = terms.iter().map(|term| &term.plain.limbs[at][part.clone()]);
            let products: Vec<(&[f64], &[f64])> = ds.iter().copied().zip(weights).collect();
            kernels::sum_runs(m, out, &products);
        });
        out
    };
    RnsPoly {
        limbs: (0..=PLAIN_LIMBS).into_par_iter().map(limb).collect(),
        q_len: PLAIN_LIMBS,
    }
}

/// A limb block by block: `f` makes the block `part` of all results from that of every automorphism of x.
fn by_blocks<const RESULTS: usize>(
    x: &[f64],
    terms: &[Product<'_>],
    f: impl Fn(&Range<usize>, &[&[f64]], [&mut [f64]; RESULTS]),
) -> [AlignedVec; RESULTS] {
    let (n, len) = (x.len(), BLOCK.min(x.len()));
    let mut outs = std::array::from_fn(|_| AlignedVec::scratch(n));
    let mut rooms: Vec<AlignedVec> = terms.iter().map(|_| AlignedVec::scratch(len)).collect();
    for start in (0..n).step_by(len) {
        for (term, room) in terms.iter().zip(&mut rooms) {
            let from = term.permutation.source(start, len);
            term.permutation.apply_block(room, start, &x[from..from + len]);
        }
        let ds: Vec<&[f64]> = rooms.iter().map(|room| &room[..]).collect();
        let part = start..start + len;
        f(
            &part,
            &ds,
            outs.each_mut().map(|out: &mut AlignedVec| &mut out[part.clone()]),
        );
    }
    outs
}

/// (u + plain) / P', where the special limb of u holds that of the sum already.
fn divided(params: &Parameters, u: &RnsPoly, plain: &RnsPoly) -> RnsPoly {
    let limbs = u.q_len;
    let [few, pieces] = [1, limbs].map(|limbs| Pieces::of(limbs, params.n()));
    let [by_special, wide] = [
        Division::by_special(params, limbs, 1),
        Division::wide(params, limbs),
    ];
    let remainder = vec![by_special.source_of(0, &u.limbs[limbs], few)];
    let order = [PLAIN_LIMBS, 0, 1]; // of the primes in `Division::wide`
    let sources = order
        .iter()
        .enumerate()
        .map(|(k, &at)| wide.source_of(k, &plain.limbs[at], few))
        .collect::<Vec<_>>();
    let lifts = [by_special.lift(&remainder, few), wide.lift(&sources, few)];
    let quotient = |group: Vec<usize>| {
        let [remainders, plains] = lifts.each_ref().map(|lift| lift.lifted(&group, pieces));
        let limb = |(&i, (mut r, plain)): (&usize, (AlignedVec, AlignedVec))| {
            kernels::sub_assign(params.modulus(i), &mut r, &plain);
            subtract_and_scale(params, (i, pieces), &u.limbs[i], r, by_special.inverse(i))
        };
        let made = remainders.into_iter().zip(plains);
        group.iter().zip(made).map(limb).collect::<Vec<_>>()
    };
    let quotients = targets(limbs).into_par_iter().flat_map_iter(quotient);
    RnsPoly {
        limbs: quotients.collect(),
        q_len: limbs,
    }
}
