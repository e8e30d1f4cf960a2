//! Operations on single values: sums, products, automorphisms.

use crate::limbs::{Basis, Factors, Limbs};
use crate::queue::Argument;
use crate::{OpenClError, Ring};
use std::sync::Arc;

/// Work-items of a group.
const ITEMS: usize = 128;

impl Ring {
    /// Runs a kernel with one work-item a value of the first `limbs` limbs of `out`.
    pub(crate) fn run_values(
        &self,
        kernel: &'static str,
        out: &Limbs,
        limbs: usize,
        inputs: &[&Limbs],
        more: &[Argument<'_>],
    ) -> Result<(), OpenClError> {
        let items = self.n().min(ITEMS);
        self.run(kernel, ([self.n() / items, limbs], items), out, inputs, more)
    }

    /// The same on limbs of one basis, into others.
    fn elementwise(
        &self,
        kernel: &'static str,
        inputs: &[&Limbs],
        factors: Option<&Factors>,
    ) -> Result<Limbs, OpenClError> {
        let out = self.scratch(&inputs[0].basis)?;
        self.elementwise_into(kernel, &out, inputs, factors)?;
        Ok(out)
    }

    fn elementwise_into(
        &self,
        kernel: &'static str,
        out: &Limbs,
        inputs: &[&Limbs],
        factors: Option<&Factors>,
    ) -> Result<(), OpenClError> {
        let bases = inputs
            .iter()
            .map(|limbs| &limbs.basis)
            .chain(factors.map(|factors| &factors.basis));
        for basis in bases {
            Self::same_basis(kernel, &out.basis, basis)?;
        }
        let more: Vec<_> = factors
            .map(|factors| Argument::Words(&factors.words))
            .into_iter()
            .collect();
        self.run_values(kernel, out, out.basis.len(), inputs, &more)
    }

    /// a + b
    ///
    /// # Errors
    /// This and the operations below fail when limbs or factors are of other primes, no slots are free, or
    /// the kernel cannot be run.
    pub fn add(&self, a: &Limbs, b: &Limbs) -> Result<Limbs, OpenClError> {
        self.elementwise("add", &[a, b], None)
    }

    /// a - b
    ///
    /// # Errors
    /// As [`Ring::add`].
    pub fn sub(&self, a: &Limbs, b: &Limbs) -> Result<Limbs, OpenClError> {
        self.elementwise("subtract", &[a, b], None)
    }

    /// -a
    ///
    /// # Errors
    /// As [`Ring::add`].
    pub fn negate(&self, a: &Limbs) -> Result<Limbs, OpenClError> {
        self.elementwise("negate", &[a], None)
    }

    /// a * b
    ///
    /// # Errors
    /// As [`Ring::add`].
    pub fn mul(&self, a: &Limbs, b: &Limbs) -> Result<Limbs, OpenClError> {
        self.elementwise("multiply", &[a, b], None)
    }

    /// x = x + a * b
    ///
    /// # Errors
    /// As [`Ring::add`].
    pub fn mul_add_assign(&self, x: &mut Limbs, a: &Limbs, b: &Limbs) -> Result<(), OpenClError> {
        self.elementwise_into("multiply_add", x, &[a, b], None)
    }

    /// c * a, with the factor c of each limb.
    ///
    /// # Errors
    /// As [`Ring::add`].
    pub fn mul_scalar(&self, a: &Limbs, c: &Factors) -> Result<Limbs, OpenClError> {
        self.elementwise("multiply_scalar", &[a], Some(c))
    }

    /// x = x + c * a
    ///
    /// # Errors
    /// As [`Ring::add`].
    pub fn mul_scalar_add_assign(&self, x: &mut Limbs, a: &Limbs, c: &Factors) -> Result<(), OpenClError> {
        self.elementwise_into("multiply_scalar_add", x, &[a], Some(c))
    }

    /// c * (a - b): the last step of rescaling and of dividing by the special primes.
    ///
    /// # Errors
    /// As [`Ring::add`].
    pub fn sub_mul_scalar(&self, a: &Limbs, b: &Limbs, c: &Factors) -> Result<Limbs, OpenClError> {
        self.elementwise("subtract_multiply_scalar", &[a, b], Some(c))
    }

    /// The values of a(X^galois), galois odd: [`tacita_ring::Permutation`].
    ///
    /// # Errors
    /// As [`Ring::add`], and when galois is even.
    pub fn permute(&self, a: &Limbs, galois: u64) -> Result<Limbs, OpenClError> {
        if galois.is_multiple_of(2) {
            let reason = format!("the Galois element {galois} is even");
            return Err(OpenClError::mismatch("Ring::permute", reason));
        }
        let out = self.scratch(&a.basis)?;
        let galois = galois % (2 * self.n() as u64);
        self.run_values(
            "permute",
            &out,
            out.basis.len(),
            &[a],
            &[Argument::Number(galois as u32)],
        )?;
        Ok(out)
    }

    /// A copy of the limbs from `start` on, as many as the basis has.
    ///
    /// # Errors
    /// As [`Ring::add`], and when the primes are not those of the basis.
    pub fn copy(&self, a: &Limbs, start: usize, basis: &Arc<Basis>) -> Result<Limbs, OpenClError> {
        if a.basis.indices.get(start..start + basis.len()) != Some(basis.indices()) {
            let reason = format!("{:?} from {start} on of {:?}", basis.indices, a.basis.indices);
            return Err(OpenClError::mismatch("Ring::copy", reason));
        }
        let out = self.scratch(basis)?;
        let first = Argument::Number(a.lease.first() + start as u32);
        self.owns("copy", &[a])?;
        self.run_values("copy", &out, out.basis.len(), &[], &[first])?;
        Ok(out)
    }
}
