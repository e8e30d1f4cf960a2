//! Ciphertexts times a matrix of integers: what batches multiply by. A column that is an input takes no room;
//! one that is an input times a lane is made by a launch, so many at once.

use crate::engine::{Engine, Made, Poly};
use crate::limbs::{Basis, Limbs};
use crate::products::{Matrix, Plaintexts};
use std::borrow::Cow;
use std::sync::Arc;
use tacita_ckks::backend::{CiphertextOf, Lanes, Pair};
use tacita_ring::gemm::Weights;

/// Columns that are made at once: enough that adding to the outputs costs little, and few enough for a card
/// (0.7 GB at N = 2^16 and ten limbs).
const COLUMNS: usize = 128;

type Inputs<'a> = &'a [Cow<'a, CiphertextOf<Engine>>];

/// The lanes of a product on the device.
struct Uploaded {
    /// By lane, its plaintext; none where it is one.
    numbers: Vec<Option<usize>>,
    plaintexts: Option<Plaintexts>,
}

impl Engine {
    /// See `Backend::multiply_matrix`.
    pub(crate) fn matrix_products(
        &self,
        inputs: Inputs<'_>,
        lanes: &Lanes,
        matrix: &Weights,
    ) -> Made<Vec<Pair<Poly>>> {
        let basis = self.basis(&self.chain(lanes.len(), 0))?;
        let lanes = self.lanes(&basis, lanes)?;
        let (count, made) = (lanes.numbers.len(), lanes.numbers.iter().flatten().count());
        let at_once = COLUMNS
            .checked_div(made)
            .map_or(inputs.len(), |inputs| inputs.max(1));
        let columns = |at: usize, part: Inputs<'_>| at * at_once * count..(at * at_once + part.len()) * count;
        let parts = inputs.chunks(at_once).enumerate().map(|(at, part)| {
            let matrix = self.ring.matrix(&basis, matrix, columns(at, part))?;
            Ok((part, matrix))
        });
        let parts = parts.collect::<Made<Vec<_>>>()?;
        let poly = |degree| self.matrix_product(&parts, &lanes, degree);
        let first = poly(0)?;
        Ok(first.into_iter().zip(poly(1)?).map(|(a, b)| Pair(a, b)).collect())
    }

    fn lanes(&self, basis: &Arc<Basis>, lanes: &Lanes) -> Made<Uploaded> {
        let mut all: Vec<Vec<&[f64]>> = Vec::new();
        let mut number = |lane: usize| {
            let is_one = lanes[0][lane].is_empty();
            all.extend((!is_one).then(|| lanes.iter().map(|limb| &limb[lane][..]).collect()));
            (!is_one).then(|| all.len() - 1)
        };
        let numbers = (0..lanes[0].len()).map(&mut number).collect();
        let plaintexts = (!all.is_empty()).then(|| self.ring.plaintexts(basis, &all));
        Ok(Uploaded {
            numbers,
            plaintexts: plaintexts.transpose()?,
        })
    }

    /// Polynomial `degree` of the outputs, rescaled.
    fn matrix_product(
        &self,
        parts: &[(Inputs<'_>, Matrix)],
        lanes: &Uploaded,
        degree: usize,
    ) -> Made<Vec<Poly>> {
        let mut sums: Vec<Limbs> = Vec::new();
        for (inputs, matrix) in parts {
            let inputs: Vec<&Limbs> = inputs.iter().map(|x| &x.polys[degree].limbs).collect();
            let more = self.part_product(&inputs, matrix, lanes)?;
            if sums.is_empty() {
                sums = more;
                continue;
            }
            for (sum, more) in sums.iter_mut().zip(more) {
                *sum = self.ring.add(sum, &more)?;
            }
        }
        let rescaled = |limbs: Limbs| {
            let q_len = limbs.basis.len();
            self.rescaled(&Poly { limbs, q_len })
        };
        sums.into_iter().map(rescaled).collect()
    }

    /// A part of the columns times its part of the matrix.
    fn part_product(&self, inputs: &[&Limbs], matrix: &Matrix, lanes: &Uploaded) -> Made<Vec<Limbs>> {
        let Some(plaintexts) = &lanes.plaintexts else {
            return self.ring.multiply_matrix(matrix, inputs);
        };
        let places = inputs
            .iter()
            .flat_map(|x| lanes.numbers.iter().map(move |&lane| (*x, lane)));
        let made = places.clone().filter_map(|(x, lane)| Some((x, lane?)));
        let made = made.map(|term| self.ring.sum_products(matrix.basis(), &[term], plaintexts));
        let made = made.collect::<Made<Vec<_>>>()?;
        let mut next = made.iter();
        let columns: Option<Vec<&Limbs>> = places
            .map(|(x, lane)| if lane.is_some() { next.next() } else { Some(x) })
            .collect();
        self.ring.multiply_matrix(matrix, &columns.unwrap_or_default())
    }
}
