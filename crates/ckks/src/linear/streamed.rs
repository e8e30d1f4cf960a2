//! Inner sums without rotated inputs: what a block of a limb takes of every baby is made, multiplied while
//! the caches hold it, and dropped.
//!
//! A baby over QP is as large as two ciphertexts and read once, so keeping it costs more memory traffic than
//! the digits that it is made from. Blocks of an automorphism come from blocks (see
//! [`tacita_ring::Permutation`]), which is what lets a block be made alone.
use super::inner_sums::{pick, runs_of};
use super::tiled::Tiled;
use super::transform::{steps_of, EncodedTransform};
use crate::backend::{Context, Pair};
use crate::keys::{galois_of_rotation, KeyKind};
use crate::processor::Processor;
use crate::{Ciphertext, CkksError};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Arc;
use tacita_ring::{kernels, AlignedVec, Permutation};
use tacita_rlwe::keyswitch::{self, Decomposed, InnerProduct, Limbs};
use tacita_rlwe::RnsPoly;

/// Values of a block. Both halves of the sixteen babies of a bootstrap take 256 KB: they fit into the
/// second-level cache.
const BLOCK: usize = 2048;

/// A rotated input over QP that does not exist.
struct Baby<'a> {
    x: &'a Ciphertext,
    rotation: Option<(InnerProduct<'a>, Arc<Permutation>)>,
}

/// One block of both halves of a baby, and room for it before it is permuted.
struct Room {
    block: [AlignedVec; 2],
    before: [AlignedVec; 2],
}

impl Context<'_, Processor> {
    /// The sum of each wanted (output, giant), over QP. digits: of the inputs that are rotated.
    ///
    /// Cost: for each baby an inner product and two permutations over L + k limbs; keys and digits are read
    /// once.
    pub(super) fn streamed(
        &self,
        inputs: &[&Ciphertext],
        digits: &[Option<Decomposed>],
        wanted: &[(usize, i64)],
        t: &EncodedTransform,
    ) -> Result<Vec<Pair<RnsPoly>>, CkksError> {
        let steps = steps_of(t);
        let babies = steps
            .iter()
            .map(|&(i, step)| self.unmade(inputs[i], digits[i].as_ref(), step))
            .collect::<Result<Vec<_>, _>>()?;
        let terms = pick(t, &steps, wanted);
        let tiled = Tiled::new(self.params.rlwe().n(), &terms, t);
        let limbs: Vec<Vec<Limbs>> = (0..t.limbs + self.special(t))
            .into_par_iter()
            .map(|at| match &tiled {
                Some(tiled) => self.tiled_sums(at, &babies, tiled, terms.len()),
                None => self.limb_sums(at, &babies, &terms, t),
            })
            .collect();
        Ok(pairs(limbs, wanted.len(), t.limbs))
    }

    fn unmade<'a>(
        &'a self,
        x: &'a Ciphertext,
        digits: Option<&'a Decomposed>,
        step: i64,
    ) -> Result<Baby<'a>, CkksError> {
        let Some(digits) = digits.filter(|_| step != 0) else {
            return Ok(Baby { x, rotation: None });
        };
        let galois = galois_of_rotation(self.params, step);
        let key = self.keys.get(KeyKind::Galois(galois), x.limbs())?;
        let product = InnerProduct::new(self.params.rlwe(), digits, key)?;
        let rotation = Some((product, self.backend.permutation(galois)));
        Ok(Baby { x, rotation })
    }

    /// Limb `at` of so many sums, by tiles.
    fn tiled_sums(&self, at: usize, babies: &[Baby<'_>], tiled: &Tiled<'_>, count: usize) -> Vec<Limbs> {
        let rlwe = self.params.rlwe();
        let limb = || AlignedVec::scratch(rlwe.n());
        let mut sums: Vec<Limbs> = (0..count).map(|_| (limb(), limb())).collect();
        let (mut room, mut workspace) = (Room::new(tiled.block()), tiled.workspace(at, babies.len()));
        for part in tiled.blocks() {
            for &b in tiled.used() {
                self.make(&babies[b], at, part.clone(), &mut room);
                for (panels, block) in workspace.panels.iter_mut().zip(&room.block) {
                    panels.set(b, block);
                }
            }
            let (firsts, seconds) = sums
                .iter_mut()
                .map(|sum| (&mut sum.0[part.clone()], &mut sum.1[part.clone()]))
                .unzip();
            let m = rlwe.modulus(self.index(at, tiled.limbs()));
            tiled.add(m, part.start, &mut workspace, [firsts, seconds], true);
        }
        sums
    }

    /// Limb `at` of all sums.
    fn limb_sums(
        &self,
        at: usize,
        babies: &[Baby<'_>],
        terms: &[Vec<(usize, usize)>],
        t: &EncodedTransform,
    ) -> Vec<Limbs> {
        let rlwe = self.params.rlwe();
        let (n, block) = (rlwe.n(), BLOCK.min(rlwe.n()));
        let limb = || AlignedVec::scratch(n);
        let mut sums: Vec<Limbs> = terms.iter().map(|_| (limb(), limb())).collect();
        let mut rooms: Vec<Room> = babies.iter().map(|_| Room::new(block)).collect();
        for start in (0..n).step_by(block) {
            let part = start..start + block;
            for (baby, room) in babies.iter().zip(&mut rooms) {
                self.make(baby, at, part.clone(), room);
            }
            for (sum, terms) in sums.iter_mut().zip(terms) {
                self.set_sum(at, &part, (sum, terms), &rooms, t);
            }
        }
        sums
    }

    /// A block of a limb of a baby.
    fn make(&self, baby: &Baby<'_>, at: usize, part: Range<usize>, room: &mut Room) {
        let (rlwe, polys) = (self.params.rlwe(), &baby.x.polys);
        let Some((product, permutation)) = &baby.rotation else {
            for (out, c) in room.block.iter_mut().zip(polys) {
                out.fill(0.0);
                keyswitch::add_part(rlwe, out, at, (c, rlwe.p_len(), part.clone()));
            }
            return;
        };
        let from = permutation.source(part.start, part.len());
        let source = from..from + part.len();
        let [u0, u1] = &mut room.before;
        product.part(at, source.clone(), [u0, u1]);
        keyswitch::add_part(rlwe, u0, at, (&polys[0], rlwe.p_len(), source));
        for (out, u) in room.block.iter_mut().zip(&room.before) {
            permutation.apply_block(out, part.start, u);
        }
    }

    /// A block of one sum.
    fn set_sum(
        &self,
        at: usize,
        part: &Range<usize>,
        (sum, terms): (&mut Limbs, &[(usize, usize)]),
        rooms: &[Room],
        t: &EncodedTransform,
    ) {
        let rlwe = self.params.rlwe();
        let m = rlwe.modulus(self.index(at, t.limbs));
        for (half, sum) in [&mut sum.0, &mut sum.1].into_iter().enumerate() {
            let product = |&(baby, vector): &(usize, usize)| {
                let weights = runs_of(&t.vectors[vector][at], part, rlwe.n());
                (&rooms[baby].block[half][..], weights)
            };
            let products: Vec<(&[f64], &[f64])> = terms.iter().map(product).collect();
            kernels::sum_runs(m, &mut sum[part.clone()], &products);
        }
    }
}

impl Room {
    fn new(block: usize) -> Self {
        let room = || [AlignedVec::scratch(block), AlignedVec::scratch(block)];
        Self {
            block: room(),
            before: room(),
        }
    }
}

/// By limb and sum -> by sum.
fn pairs(limbs: Vec<Vec<Limbs>>, count: usize, q_len: usize) -> Vec<Pair<RnsPoly>> {
    let empty = || RnsPoly {
        limbs: Vec::with_capacity(limbs.len()),
        q_len,
    };
    let mut found: Vec<Pair<RnsPoly>> = (0..count).map(|_| Pair(empty(), empty())).collect();
    for row in limbs {
        for (pair, (x0, x1)) in found.iter_mut().zip(row) {
            pair.0.limbs.push(x0);
            pair.1.limbs.push(x1);
        }
    }
    found
}
