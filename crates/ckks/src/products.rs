//! Outer products of ciphertexts with lazy relinearisation: rows x columns accumulators of degree 2, to which
//! any number of products are added before each is relinearised and rescaled once.
//!
//! With J rows, I columns and C terms a call makes J * I * C tensor products at three modular products each,
//! while an accumulator is read and written once: see `kernels::outer`. Memory: 3 N L doubles an
//! accumulator (18.9 MB at N = 2^16 and 12 limbs), so [`Evaluator::relinearise`] consumes them and frees each
//! as soon as it is done.
use crate::backend::{Backend, CiphertextOf as Of, Entries, Factors};
use crate::keys::KeyKind;
use crate::levels::fits;
use crate::{Ciphertext, CkksError, Evaluator};
use rayon::prelude::*;
use std::borrow::Cow;
use std::ops::Range;
use tacita_ring::kernels::outer::{outer, Accumulator, Factor};
use tacita_rlwe::{Parameters, RnsPoly};

/// Coefficients of one task: enough tasks to keep two threads even, long enough to pack factors by tiles.
const SEGMENT: usize = 4096;

type Terms<'a, P> = [Vec<&'a Ciphertext<P>>];

/// Accumulators of degree 2 at one level and scale: `[rows][columns]`.
pub struct Products<P = RnsPoly> {
    entries: Entries<P>,
    rows: usize,
    limbs: usize,
    /// Coefficients of a limb.
    n: usize,
    /// Scale of every factor; the products have its square.
    factor_scale: f64,
}

impl<P> Products<P> {
    /// Rows: factors on the left in one term.
    pub fn rows(&self) -> usize {
        self.rows
    }
    /// Columns: factors on the right in one term.
    pub fn columns(&self) -> usize {
        self.entries.len() / self.rows
    }
    /// Native level of all accumulators.
    pub fn level(&self) -> usize {
        self.limbs - 1
    }
    /// Bytes held in memory.
    pub fn bytes(&self) -> usize {
        self.entries.len() * 3 * self.limbs * self.n * size_of::<f64>()
    }
}

fn shape<T>(detail: String) -> Result<T, CkksError> {
    Err(CkksError::Shape {
        op: "products",
        detail,
    })
}

/// (rows, columns) of the terms; fails when they are ragged or empty.
fn shape_of<P>(left: &Terms<'_, P>, right: &Terms<'_, P>) -> Result<(usize, usize), CkksError> {
    let (rows, columns) = (
        left.first().map_or(0, Vec::len),
        right.first().map_or(0, Vec::len),
    );
    let ragged = left.iter().any(|x| x.len() != rows) || right.iter().any(|x| x.len() != columns);
    if rows == 0 || columns == 0 || ragged || left.len() != right.len() {
        let lengths = |x: &Terms<'_, P>| x.iter().map(Vec::len).collect::<Vec<_>>();
        return shape(format!(
            "terms of {:?} and {:?} factors; hint: as many terms on either side, all of one length above \
            zero",
            lengths(left),
            lengths(right)
        ));
    }
    Ok((rows, columns))
}

impl<B: Backend> Evaluator<B> {
    /// `acc[j][i]` = sum over c of `left[c][j]` * `right[c][i]`, neither relinearised nor rescaled, at the
    /// lowest level of the operands; those above it are aligned first. left: `[terms][rows]`, right:
    /// `[terms][columns]`. No key, no level.
    ///
    /// # Errors
    /// [`CkksError::Shape`] for ragged or no operands, operands of degree 2, and scales that cannot be
    /// aligned.
    pub fn products(
        &self,
        left: &Terms<'_, B::Poly>,
        right: &Terms<'_, B::Poly>,
    ) -> Result<Products<B::Poly>, CkksError> {
        let (rows, _) = shape_of(left, right)?;
        let mut all = left.iter().chain(right).flatten();
        let lowest = all.by_ref().min_by_key(|x| x.level()).unwrap_or(&left[0][0]);
        let mut acc = Products {
            entries: Vec::new(),
            rows,
            limbs: lowest.limbs(),
            n: self.rlwe().n(),
            factor_scale: lowest.scale,
        };
        self.add_outer(&mut acc, left, right)?;
        Ok(acc)
    }

    /// As [`Self::products`], added to `acc`, at its level. An error leaves `acc` as it was.
    ///
    /// # Errors
    /// As [`Self::products`]; [`CkksError::Shape`] when rows or columns differ from those of `acc`, or an
    /// operand is below its level.
    pub fn add_products(
        &self,
        acc: &mut Products<B::Poly>,
        left: &Terms<'_, B::Poly>,
        right: &Terms<'_, B::Poly>,
    ) -> Result<(), CkksError> {
        let (rows, columns) = shape_of(left, right)?;
        if (rows, columns) != (acc.rows(), acc.columns()) {
            return shape(format!(
                "{rows} x {columns} products onto {} x {} accumulators",
                acc.rows(),
                acc.columns()
            ));
        }
        self.add_outer(acc, left, right)
    }

    fn add_outer(
        &self,
        acc: &mut Products<B::Poly>,
        left: &Terms<'_, B::Poly>,
        right: &Terms<'_, B::Poly>,
    ) -> Result<(), CkksError> {
        let (left, right) = (self.factors(acc, left)?, self.factors(acc, right)?);
        self.backend()
            .add_outer(&mut acc.entries, [&left, &right], acc.rows, acc.limbs)
    }

    /// The factors, term by term, at the level and scale of `acc`; those that fit are not copied.
    fn factors<'a>(
        &self,
        acc: &Products<B::Poly>,
        terms: &Terms<'a, B::Poly>,
    ) -> Result<Vec<Cow<'a, Of<B>>>, CkksError> {
        let (level, scale) = (acc.level(), acc.factor_scale);
        let factor = |x: &&'a Of<B>| match x.polys.len() {
            2 if fits(x, level, scale) => Ok(Cow::Borrowed(*x)),
            2 if x.level() < level => shape(format!(
                "an operand at level {} onto accumulators at level {}; hint: begin with the lowest operands",
                self.params().user_level(x.level()),
                self.params().user_level(level)
            )),
            2 => self.align_to(x, level, scale).map(Cow::Owned),
            n => shape(format!(
                "an operand of degree {}; hint: relinearise it first",
                n.wrapping_sub(1)
            )),
        };
        terms.par_iter().flatten().map(factor).collect()
    }

    /// Relinearises and rescales every accumulator: `[rows][columns]`, one level down. Consumes the
    /// accumulators, each of which is freed as soon as it is done.
    ///
    /// Cost: one relinearisation and two rescalings an accumulator, as [`Self::mul`].
    ///
    /// # Errors
    /// [`CkksError::Level`] at native level 0; a missing relinearisation key.
    pub fn relinearise(&self, acc: Products<B::Poly>) -> Result<Vec<Vec<Of<B>>>, CkksError> {
        self.check_relinearise(&acc)?;
        let (columns, scale) = (acc.columns(), acc.factor_scale * acc.factor_scale);
        let finish = |polys: [B::Poly; 3]| {
            self.relinearise_rescale(Ciphertext {
                polys: polys.into(),
                scale,
            })
        };
        let mut done: Vec<Of<B>> = acc
            .entries
            .into_par_iter()
            .map(finish)
            .collect::<Result<_, _>>()?;
        let mut out = Vec::with_capacity(acc.rows);
        while !done.is_empty() {
            let rest = done.split_off(columns);
            out.push(std::mem::replace(&mut done, rest));
        }
        Ok(out)
    }

    /// Fails when [`Self::relinearise`] would.
    ///
    /// # Errors
    /// As there.
    pub fn check_relinearise(&self, acc: &Products<B::Poly>) -> Result<(), CkksError> {
        if acc.level() == 0 {
            return Err(CkksError::Level {
                op: "relinearise",
                level: self.params().user_level(0),
                needed: 1,
            });
        }
        self.keys().get(KeyKind::Relinearise, acc.limbs).map(drop)
    }
}

/// What [`Backend::add_outer`] is on the processor.
pub(crate) fn add_outer(
    rlwe: &Parameters,
    acc: &mut Entries<RnsPoly>,
    [left, right]: Factors<'_, RnsPoly>,
    rows: usize,
    limbs: usize,
) {
    let fresh = acc.is_empty();
    if fresh {
        let terms = left.len() / rows;
        let scratch = || RnsPoly::scratch(rlwe, limbs);
        let entries = 0..rows * (right.len() / terms);
        *acc = entries.map(|_| [scratch(), scratch(), scratch()]).collect();
    }
    for i in 0..limbs {
        let m = rlwe.modulus(i);
        let segments = segments(acc, i).into_par_iter().enumerate();
        segments.for_each(|(s, mut acc)| {
            let range = s * SEGMENT..s * SEGMENT + acc[0][0].len();
            let [left, right] =
                [left, right].map(|x| x.iter().map(|x| piece(x, i, range.clone())).collect::<Vec<_>>());
            outer(m, &mut acc, &left, &right, rows, fresh);
        });
    }
}

/// A piece of limb `i` of a ciphertext.
fn piece(x: &Ciphertext, i: usize, range: Range<usize>) -> Factor<'_> {
    [&x.polys[0].limbs[i][range.clone()], &x.polys[1].limbs[i][range]]
}

/// By segment: that piece of limb `i` of every accumulator.
fn segments(entries: &mut [[RnsPoly; 3]], i: usize) -> Vec<Vec<Accumulator<'_>>> {
    let count = entries
        .first()
        .map_or(0, |d| d[0].limbs[i].len().div_ceil(SEGMENT));
    let mut out: Vec<Vec<Accumulator<'_>>> = (0..count).map(|_| Vec::with_capacity(entries.len())).collect();
    for d in entries {
        let [d0, d1, d2] = d.each_mut().map(|d| d.limbs[i].chunks_mut(SEGMENT));
        for (segment, ((d0, d1), d2)) in out.iter_mut().zip(d0.zip(d1).zip(d2)) {
            segment.push([d0, d1, d2]);
        }
    }
    out
}
