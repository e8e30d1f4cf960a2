//! The homomorphic DFT as a product of sparse matrices.
//!
//! Slots z and coefficients u (as complex numbers u_k + i*u_(k+N/2)) are related by z = B_L ... B_1 R u, with
//! butterflies B_l and the bit reversal R. Slots-to-coefficients applies B_L ... B_1, coefficients-to-slots
//! its inverse; R cancels between them (Cheon, Han, Kim, Kim, Song, ePrint 2018/360; Chen, Chillotti, Song,
//! ePrint 2018/1043). Butterflies are merged in groups; a group has about 2*radix diagonals, or `radix` for
//! the group of the largest strides, which wraps. A butterfly of length `len` is periodic with period `len`,
//! so all but the largest group have short plaintexts.
//!
//! Rotations of a group are made non-negative by letting the previous group deliver its result already
//! rotated: the wrapping group absorbs that offset for nothing.
use crate::encoding::Encoder;
use crate::linear::{LinearTransform, Term};
use num_complex::Complex64;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// What coefficients-to-slots multiplies by: half, as adding the conjugate doubles the real part.
pub(crate) const FACTOR: f64 = 0.5;

/// A matrix as diagonals: out = sum_d v_d * rot(x, d), with periodic v_d.
#[derive(Clone, Debug)]
pub struct Diagonals(BTreeMap<i64, Vec<Complex64>>);

impl Diagonals {
    fn add(&mut self, rotation: i64, v: Vec<Complex64>) {
        match self.0.get_mut(&rotation) {
            None => {
                self.0.insert(rotation, v);
            }
            Some(old) => {
                let period = old.len().max(v.len());
                *old = (0..period).map(|j| old[j % old.len()] + v[j % v.len()]).collect();
            }
        }
    }

    /// self after `first`.
    fn after(&self, first: &Self) -> Self {
        let mut out = Self(BTreeMap::new());
        for (&a, va) in &self.0 {
            for (&b, vb) in &first.0 {
                let period = va.len().max(vb.len());
                let v = (0..period as i64).map(|j| at(va, j) * at(vb, j + a)).collect();
                out.add(a + b, v);
            }
        }
        out
    }

    fn scaled(mut self, c: f64) -> Self {
        self.0.values_mut().flatten().for_each(|x| *x *= c);
        self
    }

    /// The matrix whose result is rotated left by `o`.
    fn shift_output(self, o: i64) -> Self {
        let rotate = |v: Vec<Complex64>| (0..v.len() as i64).map(|j| at(&v, j + o)).collect();
        Self(self.0.into_iter().map(|(d, v)| (d + o, rotate(v))).collect())
    }

    /// The matrix for an input that arrives rotated left by `o`.
    fn shift_input(self, o: i64) -> Self {
        Self(self.0.into_iter().map(|(d, v)| (d - o, v)).collect())
    }

    fn wrapped(self, slots: i64) -> Self {
        let mut out = Self(BTreeMap::new());
        for (d, v) in self.0 {
            out.add(d.rem_euclid(slots), v);
        }
        out
    }

    /// Baby-step giant-step form with Horner's rule; rotations must be non-negative multiples of `stride`.
    fn baby_giant(self, stride: i64, babies: i64) -> LinearTransform<'static> {
        let step = stride * babies;
        let (mut vectors, mut terms) = (Vec::new(), Vec::new());
        for (d, mut v) in self.0 {
            let giant = d / step * step;
            let period = v.len() as i64;
            v.rotate_right(giant.rem_euclid(period) as usize);
            terms.push(Term {
                output: 0,
                giant,
                input: 0,
                baby: d - giant,
                vector: vectors.len(),
            });
            vectors.push(v.into());
        }
        LinearTransform {
            vectors,
            terms,
            outputs: 1,
            horner_step: Some(step),
        }
    }
}

fn at(v: &[Complex64], j: i64) -> Complex64 {
    v[j.rem_euclid(v.len() as i64) as usize]
}

/// Butterfly of length 2^(l+1): coefficients towards slots, or its inverse.
fn butterfly(encoder: &Encoder, l: u32, inverse: bool) -> Diagonals {
    let half = 1usize << l;
    let (zero, one) = (Complex64::new(0.0, 0.0), Complex64::new(1.0, 0.0));
    let w = |j: usize| encoder.twiddles(2 * half)[j];
    let vector = |first: &dyn Fn(usize) -> Complex64, second: &dyn Fn(usize) -> Complex64| {
        (0..2 * half)
            .map(|j| if j < half { first(j) } else { second(j - half) })
            .collect::<Vec<_>>()
    };
    let (diagonal, up, down) = if inverse {
        let h = Complex64::new(0.5, 0.0);
        (
            vector(&|_| h, &|j| -h * w(j).conj()),
            vector(&|_| h, &|_| zero),
            vector(&|_| zero, &|j| h * w(j).conj()),
        )
    } else {
        (
            vector(&|_| one, &|j| -w(j)),
            vector(&w, &|_| zero),
            vector(&|_| zero, &|_| one),
        )
    };
    let mut out = Diagonals(BTreeMap::new());
    out.add(0, diagonal);
    out.add(half as i64, up);
    out.add(-(half as i64), down);
    out
}

/// Butterflies lo..hi merged, in the order in which they act.
fn group(encoder: &Encoder, lo: u32, hi: u32, inverse: bool) -> Diagonals {
    let each = (lo..hi).map(|l| butterfly(encoder, l, inverse));
    let ordered: Vec<Diagonals> = if inverse {
        each.rev().collect()
    } else {
        each.collect()
    };
    let mut iter = ordered.into_iter();
    let first = iter.next().unwrap_or(Diagonals(BTreeMap::new()));
    iter.fold(first, |acc, b| b.after(&acc))
}

/// Cuts `total` butterflies into `groups` runs, larger strides getting the smaller runs' leftovers last.
fn cuts(total: u32, groups: u32) -> Vec<(u32, u32)> {
    let base = total / groups;
    let extra = total % groups;
    let mut out = Vec::new();
    let mut lo = 0;
    for g in 0..groups {
        let hi = lo + base + u32::from(g >= groups - extra);
        out.push((lo, hi));
        lo = hi;
    }
    out
}

fn babies_for(bits: u32) -> i64 {
    1 << bits.div_ceil(2)
}

/// One factor of the product: merged butterflies, and how its rotations are made non-negative and split.
struct Group {
    /// The first, and the one after the last.
    butterflies: (u32, u32),
    /// The input arrives rotated left by so much.
    arrives: i64,
    /// The result leaves rotated left by so much.
    leaves: i64,
    /// Whether rotations are taken modulo the slots.
    wraps: bool,
    /// Of which all rotations are multiples.
    stride: i64,
    babies: i64,
}

impl Group {
    fn merged(&self, encoder: &Encoder, slots: usize, inverse: bool, factor: f64) -> Diagonals {
        let (lo, hi) = self.butterflies;
        let merged = group(encoder, lo, hi, inverse).scaled(factor);
        let shifted = merged.shift_input(self.arrives).shift_output(self.leaves);
        if self.wraps {
            shifted.wrapped(slots as i64)
        } else {
            shifted
        }
    }

    fn matrix(
        &self,
        encoder: &Encoder,
        slots: usize,
        inverse: bool,
        factor: f64,
    ) -> LinearTransform<'static> {
        let whole = self.merged(encoder, slots, inverse, factor);
        whole.baby_giant(self.stride, self.babies)
    }

    /// What [`required_rotations`](crate::linear::required_rotations) says of the matrix, which is not made.
    fn rotations(&self, slots: usize) -> BTreeSet<i64> {
        let step = self.stride * self.babies;
        let diagonals = self.diagonals(slots);
        let babies = diagonals.iter().map(|d| d % step);
        let giant = diagonals.iter().any(|&d| d >= step).then_some(step);
        babies.chain(giant).filter(|&d| d != 0).collect()
    }

    fn diagonals(&self, slots: usize) -> BTreeSet<i64> {
        let (lo, hi) = self.butterflies;
        let merged = (lo..hi).fold(BTreeSet::from([self.leaves - self.arrives]), |all, l| {
            let half = 1i64 << l;
            all.iter().flat_map(|d| [d - half, *d, d + half]).collect()
        });
        let wrap = |d: i64| if self.wraps { d.rem_euclid(slots as i64) } else { d };
        merged.into_iter().map(wrap).collect()
    }
}

/// Slots-to-coefficients in two groups, smallest strides first.
fn towards_coefficients(slots: usize) -> [Group; 2] {
    let runs = cuts(slots.trailing_zeros(), crate::params::STC_LEVELS as u32);
    let (a, b) = (runs[0], runs[1]);
    let offset = 1i64 << b.0;
    [
        Group {
            butterflies: a,
            arrives: 0,
            leaves: offset,
            wraps: false,
            stride: 1,
            babies: babies_for(a.1 - a.0 + 1),
        },
        Group {
            butterflies: b,
            arrives: offset,
            leaves: 0,
            wraps: true,
            stride: offset,
            babies: babies_for(b.1 - b.0),
        },
    ]
}

/// Coefficients-to-slots in three groups, largest strides first. The raise of the modulus takes the first one
/// diagonal by diagonal.
fn towards_slots(slots: usize) -> [Group; 3] {
    let runs = cuts(slots.trailing_zeros(), crate::params::CTS_LEVELS as u32 + 1);
    let (small, middle, large) = (runs[0], runs[1], runs[2]);
    let (o3, o2) = (1i64 << middle.0, 1i64 << large.0);
    [
        Group {
            butterflies: large,
            arrives: 0,
            leaves: -o2,
            wraps: true,
            stride: o2,
            babies: 1,
        },
        Group {
            butterflies: middle,
            arrives: -o2,
            leaves: -o3,
            wraps: false,
            stride: o3,
            babies: babies_for(middle.1 - middle.0 + 1) - 1, // 63 diagonals are 7 * 9
        },
        Group {
            butterflies: small,
            arrives: -o3,
            leaves: 0,
            wraps: false,
            stride: 1,
            babies: babies_for(small.1 - small.0 + 1),
        },
    ]
}

/// Slots-to-coefficients, the matrix that acts first in front. `each`, of place and matrix, runs on all
/// threads: a matrix goes when it is encoded, and is made while others are. Errors are those of `each`.
pub fn slots_to_coefficients<T: Send, E: Send>(
    encoder: &Encoder,
    slots: usize,
    each: impl Fn(usize, LinearTransform<'static>) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let groups = towards_coefficients(slots).into_par_iter().enumerate();
    groups
        .map(|(i, group)| each(i, group.matrix(encoder, slots, false, 1.0)))
        .collect()
}

/// The first factor of coefficients-to-slots: its diagonals with their rotations, in ascending order. Every
/// factor is multiplied by the cube root of `factor`.
pub fn first_towards_slots(encoder: &Encoder, slots: usize, factor: f64) -> Vec<(i64, Vec<Complex64>)> {
    let [first, ..] = towards_slots(slots);
    first
        .merged(encoder, slots, true, factor.cbrt())
        .0
        .into_iter()
        .collect()
}

/// The other factors of coefficients-to-slots, as [`slots_to_coefficients`].
pub fn coefficients_to_slots<T: Send, E: Send>(
    encoder: &Encoder,
    slots: usize,
    factor: f64,
    each: impl Fn(usize, LinearTransform<'static>) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let [_, middle, last] = towards_slots(slots);
    [middle, last]
        .into_par_iter()
        .enumerate()
        .map(|(i, group)| each(i, group.matrix(encoder, slots, true, factor.cbrt())))
        .collect()
}

/// The rotations that each matrix of [`slots_to_coefficients`] needs, without making it: at 2^15 slots all
/// matrices take two seconds.
pub fn rotations_to_coefficients(slots: usize) -> Vec<BTreeSet<i64>> {
    towards_coefficients(slots)
        .iter()
        .map(|group| group.rotations(slots))
        .collect()
}

/// The same for [`coefficients_to_slots`].
pub fn rotations_to_slots(slots: usize) -> Vec<BTreeSet<i64>> {
    towards_slots(slots)[1..]
        .iter()
        .map(|group| group.rotations(slots))
        .collect()
}

#[cfg(test)]
mod tests;
