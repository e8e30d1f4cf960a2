//! Rotated inputs that are kept: for transforms of which not all inner sums fit into memory at once, or whose
//! babies are brought back to Q.
use super::transform::EncodedTransform;
use crate::backend::{Backend, Context, Pair};
use crate::processor::Processor;
use crate::{Ciphertext, CkksError};
use tacita_rlwe::keyswitch::{self, Decomposed};
use tacita_rlwe::RnsPoly;

/// Both polynomials of a baby, wherever they lie.
pub(super) type Halves<'a> = [&'a RnsPoly; 2];

impl Context<'_, Processor> {
    pub(super) fn decompose_inputs(
        &self,
        inputs: &[&Ciphertext],
        t: &EncodedTransform,
    ) -> Result<Vec<Option<Decomposed>>, CkksError> {
        let all = self.params.rlwe().p_len();
        let special = (t.key)(1).special(t.limbs, all);
        Ok(inputs
            .iter()
            .enumerate()
            .map(|(i, c)| {
                let rotated = t.terms.iter().any(|x| x.input == i && x.baby != 0);
                rotated.then(|| keyswitch::decompose_for(self.params.rlwe(), &c.polys[1], special))
            })
            .collect())
    }

    /// Leaves the digits of the inputs that are rotated in `steps`, and makes those that are not there.
    pub(super) fn keep_digits(
        &self,
        inputs: &[&Ciphertext],
        steps: &[(usize, i64)],
        digits: &mut [Option<Decomposed>],
    ) {
        let rotated = |input| steps.iter().any(|&(i, baby)| i == input && baby != 0);
        for (i, found) in digits.iter_mut().enumerate() {
            if !rotated(i) {
                *found = None;
            }
        }
        for (i, found) in digits.iter_mut().enumerate() {
            if rotated(i) && found.is_none() {
                *found = Some(keyswitch::decompose(self.params.rlwe(), &inputs[i].polys[1]));
            }
        }
    }

    /// The rotated inputs of `steps` (input, rotation), lifted or not; none where the input itself serves.
    pub(super) fn babies(
        &self,
        inputs: &[&Ciphertext],
        digits: &[Option<Decomposed>],
        steps: &[(usize, i64)],
        t: &EncodedTransform,
    ) -> Result<Vec<Option<Pair<RnsPoly>>>, CkksError> {
        steps
            .iter()
            .map(|&(i, b)| self.baby(inputs[i], digits[i].as_ref(), b, t))
            .collect()
    }

    fn baby(
        &self,
        x: &Ciphertext,
        digits: Option<&Decomposed>,
        step: i64,
        t: &EncodedTransform,
    ) -> Result<Option<Pair<RnsPoly>>, CkksError> {
        let (c0, c1) = (&x.polys[0], &x.polys[1]);
        let Some(digits) = digits.filter(|_| step != 0) else {
            let lift = |c: &RnsPoly| c.lift_by_p(self.params.rlwe());
            return Ok(t.lifted.then(|| Pair(lift(c0), lift(c1))));
        };
        let key = self.rotation(t, step, x.limbs())?;
        self.backend.rotate_digits(c0, digits, key, t.lifted).map(Some)
    }
}

/// Both halves of the babies of `steps`.
pub(super) fn halves<'a>(
    inputs: &[&'a Ciphertext],
    steps: &[(usize, i64)],
    babies: &'a [Option<Pair<RnsPoly>>],
) -> Vec<Halves<'a>> {
    let of = |(&(i, _), baby): (&(usize, i64), &'a Option<Pair<RnsPoly>>)| match baby {
        Some(pair) => [&pair.0, &pair.1],
        None => [&inputs[i].polys[0], &inputs[i].polys[1]],
    };
    steps.iter().zip(babies).map(of).collect()
}
