//! What follows a coefficient product: a bootstrap from mod-raise on.
use rayon::prelude::*;
use tacita_ckks::backend::{Backend, CiphertextOf as Of};
use tacita_ckks::bootstrap::refresh::shallow::ShallowRefresh;
use tacita_ckks::bootstrap::refresh::{Harmonics, MULTIPLE};
use tacita_ckks::bootstrap::{Bootstrapper, Content};
use tacita_ckks::{CkksError, Evaluator, Processor};

/// How coefficients become slots.
pub enum Refresh<'a, B: Backend = Processor> {
    /// As they are, at the top level.
    Whole(&'a Bootstrapper<B>),
    /// Through a function, as high as it can end.
    Through(&'a Bootstrapper<B>, &'a Harmonics),
    /// Through a function, at the level that the matrices were made for.
    Shallow(&'a ShallowRefresh<B>, &'a Harmonics),
}

/// Coefficients at the lowest prime -> fresh slots, both parts of each; a function acts on real and imaginary
/// parts alike. As many at once as in `Bootstrapper::bootstrap_many`, and at most `at_once`, if it is not 0:
/// each takes a gigabyte at N = 2^16 while it runs.
///
/// Cost of each: a complex bootstrap without its slots-to-coefficients, at fewer limbs where it is shallow.
///
/// # Errors
/// Missing keys; a function of too many harmonics.
pub fn refresh<B: Backend>(
    e: &Evaluator<B>,
    how: &Refresh<'_, B>,
    low: &[&Of<B>],
    at_once: usize,
) -> Result<Vec<Of<B>>, CkksError> {
    let half = (rayon::current_num_threads() / 2).max(1);
    let at_once = if at_once == 0 { half } else { at_once.min(half) };
    let mut out = Vec::with_capacity(low.len());
    for part in low.chunks(at_once) {
        let done: Result<Vec<_>, _> = part.par_iter().map(|ct| how.one(e, ct)).collect();
        out.extend(done?.into_iter().flatten());
    }
    Ok(out)
}

impl<B: Backend> Refresh<'_, B> {
    fn one(&self, e: &Evaluator<B>, low: &Of<B>) -> Result<Vec<Of<B>>, CkksError> {
        let wide = || e.mul_integer(low, MULTIPLE);
        match self {
            Self::Whole(b) => {
                let slots = b.coefficients_to_slots(e, b.mod_raise(e, low)?)?;
                b.modular_reduction(e, &slots, Content::Complex)
            }
            Self::Through(b, f) => {
                let slots = b.coefficients_to_slots(e, b.mod_raise(e, &wide()?)?)?;
                b.apply_to_phase(e, &slots, Content::Complex, f)
            }
            Self::Shallow(shallow, f) => shallow.refresh(&wide()?, Content::Complex, f),
        }
    }
}
