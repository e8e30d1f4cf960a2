//! Giant steps, over any backend, and the sums that they rotate where nothing is fused.
use super::transform::{steps_of, EncodedTransform};
use crate::backend::{Backend, CiphertextOf as Of, Context, Pair};
use crate::CkksError;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use tacita_rlwe::ciphertext::Polynomial;

impl<B: Backend> Context<'_, B> {
    /// What [`Backend::transform`] is where nothing is fused: all babies are made, then one sum at a time.
    /// lift: takes a polynomial over Q to QP, times P. sum: of babies times the vectors of these indices.
    ///
    /// # Errors
    /// As [`Self::over_giants`], and those of `lift` and `sum`.
    pub fn hoisted_sums(
        &self,
        inputs: &[&Of<B>],
        t: &EncodedTransform<B::Vectors>,
        lift: impl Fn(&B::Poly) -> Result<B::Poly, CkksError>,
        sum: impl Fn(&[(&Pair<B::Poly>, usize)]) -> Result<Pair<B::Poly>, CkksError>,
    ) -> Result<Vec<Pair<B::Poly>>, CkksError> {
        let special = (t.key)(1).special(t.limbs, self.params.rlwe().p_len());
        let mut digits: BTreeMap<usize, B::Digits> = BTreeMap::new();
        let mut babies: BTreeMap<(usize, i64), Pair<B::Poly>> = BTreeMap::new();
        for (input, step) in steps_of(t) {
            let [c0, c1] = [0, 1].map(|k| &inputs[input].polys[k]);
            let baby = if step == 0 {
                let one = |c: &B::Poly| if t.lifted { lift(c) } else { Ok(c.clone()) };
                Pair(one(c0)?, one(c1)?)
            } else {
                if let Entry::Vacant(place) = digits.entry(input) {
                    place.insert(self.backend.decompose(c1, special)?);
                }
                let key = self.rotation(t, step, t.limbs)?;
                self.backend.rotate_digits(c0, &digits[&input], key, t.lifted)?
            };
            babies.insert((input, step), baby);
        }
        drop(digits);
        let giant_free = t.terms.iter().all(|x| x.giant == 0);
        let one = |output: usize| {
            let of_output = || t.terms.iter().filter(move |x| x.output == output);
            let giants: BTreeSet<i64> = of_output().map(|x| x.giant).collect();
            if giants.is_empty() && (giant_free || t.horner_step.is_some()) {
                return self.zero_like(&babies);
            }
            let giants: Vec<i64> = giants.into_iter().collect();
            self.over_giants(t, &giants, |giant| {
                let terms = of_output().filter(|x| x.giant == giant);
                let terms: Vec<_> = terms.map(|x| (&babies[&(x.input, x.baby)], x.vector)).collect();
                if terms.is_empty() {
                    return Ok(None);
                }
                sum(&terms).map(Some)
            })
        };
        (0..t.outputs).map(one).collect()
    }

    fn zero_like(&self, babies: &BTreeMap<(usize, i64), Pair<B::Poly>>) -> Result<Pair<B::Poly>, CkksError> {
        let Some((_, Pair(x, _))) = babies.first_key_value() else {
            return no_terms();
        };
        let zero = self.backend.sub(x, x)?;
        Ok(Pair(zero.clone(), zero))
    }

    /// The inner sums of one output, rotated by their giants and added up. giants: ascending. take: gives the
    /// sum of a giant, once; `None` when it has no terms.
    ///
    /// # Errors
    /// A missing key; [`CkksError::Shape`] for an output without terms.
    pub fn over_giants(
        &self,
        t: &EncodedTransform<B::Vectors>,
        giants: &[i64],
        mut take: impl FnMut(i64) -> Result<Option<Pair<B::Poly>>, CkksError>,
    ) -> Result<Pair<B::Poly>, CkksError> {
        let Some(&largest) = giants.last() else {
            return no_terms();
        };
        match t.horner_step {
            Some(step) => self.horner(t, (largest, step), take),
            None => {
                let (zero, others): (Vec<i64>, Vec<i64>) = giants.iter().rev().partition(|&&g| g == 0);
                let mut acc = None;
                for g in others.into_iter().chain(zero) {
                    let Some(sum) = take(g)? else { continue };
                    let part = if g == 0 { sum } else { self.rotate_pair(sum, g, t)? };
                    acc = Some(self.add_pair(acc, part)?);
                }
                acc.map_or_else(no_terms, Ok)
            }
        }
    }

    fn horner(
        &self,
        t: &EncodedTransform<B::Vectors>,
        (mut giant, step): (i64, i64),
        mut take: impl FnMut(i64) -> Result<Option<Pair<B::Poly>>, CkksError>,
    ) -> Result<Pair<B::Poly>, CkksError> {
        let Some(mut acc) = take(giant)? else {
            return no_terms();
        };
        while giant > 0 {
            giant -= step;
            acc = self.rotate_pair(acc, step, t)?;
            if let Some(part) = take(giant)? {
                acc = self.add_pair(Some(acc), part)?;
            }
        }
        Ok(acc)
    }

    /// Rotates a pair over Q or QP; the result is over QP.
    fn rotate_pair(
        &self,
        p: Pair<B::Poly>,
        steps: i64,
        t: &EncodedTransform<B::Vectors>,
    ) -> Result<Pair<B::Poly>, CkksError> {
        let key = self.rotation(t, steps, p.1.q_len())?;
        self.backend.rotate_lifted(p, key)
    }

    /// acc + part, where acc is over QP whenever part is, or part is over Q.
    fn add_pair(&self, acc: Option<Pair<B::Poly>>, part: Pair<B::Poly>) -> Result<Pair<B::Poly>, CkksError> {
        let Some(Pair(x0, x1)) = acc else { return Ok(part) };
        Ok(Pair(
            self.backend.add_lifted(x0, &part.0)?,
            self.backend.add_lifted(x1, &part.1)?,
        ))
    }
}

fn no_terms<T>() -> Result<T, CkksError> {
    Err(CkksError::Shape {
        op: "linear",
        detail: "an output has no terms".into(),
    })
}
