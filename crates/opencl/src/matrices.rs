//! Ciphertexts times a matrix of integers: what batches multiply by. A column that is an input takes no room;
//! one that is an input times a lane is made by a launch, so many at once.

use crate::engine::{Engine, Made, Poly};
use crate::limbs::{Basis, Limbs};
use crate::products::{Matrix, Plaintexts};
use std::sync::Arc;
use tacita_ckks::backend::{Inputs, Lanes};
use tacita_ring::gemm::Weights;

/// Columns that are made at once: enough that adding to the outputs costs little, and few enough for a card
/// (0.7 GB at N = 2^16 and ten limbs).
const COLUMNS: usize = 128;

/// The lanes of a product on the device.
struct Uploaded {
    /// By lane, its plaintext; none where it is one.
    numbers: Vec<Option<usize>>,
    plaintexts: Option<Plaintexts>,
}

impl Engine {
    /// See `Backend::add_matrix`.
    pub(crate) fn add_matrix_products(
        &self,
        sums: &mut Vec<Poly>,
        (inputs, degree): Inputs<'_, Poly>,
        lanes: &Lanes,
        matrix: &Weights,
    ) -> Made<()> {
        let q_len = lanes.len();
        let basis = self.basis(&self.chain(q_len, 0))?;
        let lanes = self.lanes(&basis, lanes)?;
        let (count, made) = (lanes.numbers.len(), lanes.numbers.iter().flatten().count());
        let at_once = COLUMNS
            .checked_div(made)
            .map_or(inputs.len(), |inputs| inputs.max(1));
        for (at, part) in inputs.chunks(at_once).enumerate() {
            let first = at * at_once * count;
            let matrix = self
                .ring
                .matrix(&basis, matrix, first..first + part.len() * count)?;
            let part: Vec<&Limbs> = part.iter().map(|x| &x.polys[degree].limbs).collect();
            let more = self.part_product(&part, &matrix, &lanes)?;
            if sums.is_empty() {
                sums.extend(more.into_iter().map(|limbs| Poly { limbs, q_len }));
                continue;
            }
            for (sum, more) in sums.iter_mut().zip(more) {
                sum.limbs = self.ring.add(&sum.limbs, &more)?;
            }
        }
        Ok(())
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
