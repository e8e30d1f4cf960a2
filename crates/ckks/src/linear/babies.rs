//! Rotated inputs that are kept: for transforms of which not all inner sums fit into memory at once, or whose
//! babies are brought back to Q.
use super::transform::{EncodedTransform, Pair};
use crate::keys::galois_of_rotation;
use crate::{Ciphertext, CkksError, Evaluator};
use tacita_rlwe::keyswitch::{self, Decomposed};
use tacita_rlwe::RnsPoly;

/// Both polynomials of a baby, wherever they lie.
pub(super) type Halves<'a> = [&'a RnsPoly; 2];

impl Evaluator {
    pub(super) fn decompose_inputs(
        &self,
        inputs: &[&Ciphertext],
        t: &EncodedTransform,
    ) -> Result<Vec<Option<Decomposed>>, CkksError> {
        let all = self.rlwe().p_len();
        let special = (t.key)(1).special(t.limbs, all);
        Ok(inputs
            .iter()
            .enumerate()
            .map(|(i, c)| {
                let rotated = t.terms.iter().any(|x| x.input == i && x.baby != 0);
                rotated.then(|| keyswitch::decompose_for(self.rlwe(), &c.polys[1], special))
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
                *found = Some(keyswitch::decompose(self.rlwe(), &inputs[i].polys[1]));
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
    ) -> Result<Vec<Option<Pair>>, CkksError> {
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
    ) -> Result<Option<Pair>, CkksError> {
        let (rlwe, lifted) = (self.rlwe(), t.lifted);
        let (c0, c1) = (&x.polys[0], &x.polys[1]);
        let Some(digits) = digits.filter(|_| step != 0) else {
            return Ok(lifted.then(|| Pair(c0.lift_by_p(rlwe), c1.lift_by_p(rlwe))));
        };
        let galois = galois_of_rotation(self.params(), step);
        let key = self.keys().get((t.key)(galois), x.limbs())?;
        let (mut u0, mut u1) = keyswitch::inner_product(rlwe, digits, key)?;
        if lifted {
            u0.add_lifted(rlwe, c0);
        } else {
            u0 = keyswitch::mod_down(rlwe, u0);
            u1 = keyswitch::mod_down(rlwe, u1);
            u0.add_assign(rlwe, c0);
        }
        let perm = self.permutation(galois);
        Ok(Some(Pair(u0.permuted(&perm), u1.permuted(&perm))))
    }
}

/// Both halves of the babies of `steps`.
pub(super) fn halves<'a>(
    inputs: &[&'a Ciphertext],
    steps: &[(usize, i64)],
    babies: &'a [Option<Pair>],
) -> Vec<Halves<'a>> {
    let of = |(&(i, _), baby): (&(usize, i64), &'a Option<Pair>)| match baby {
        Some(pair) => [&pair.0, &pair.1],
        None => [&inputs[i].polys[0], &inputs[i].polys[1]],
    };
    steps.iter().zip(babies).map(of).collect()
}
