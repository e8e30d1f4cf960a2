//! What follows a coefficient product: a bootstrap from mod-raise on.
use crate::Result;
use rayon::prelude::*;
use tacita_ckks::bootstrap::refresh::{Harmonics, MULTIPLE};
use tacita_ckks::bootstrap::{Bootstrapper, Content};
use tacita_ckks::{Ciphertext, CkksError, Evaluator};

/// Coefficients at the lowest prime -> fresh slots, both parts of each; through `function` where there is
/// one, which acts on real and imaginary parts alike. As many at once as in `Bootstrapper::bootstrap_many`.
///
/// Cost of each: a complex bootstrap without its slots-to-coefficients.
///
/// # Errors
/// Missing keys; a function of too many harmonics.
pub fn refresh(
    e: &Evaluator,
    bootstrapper: &Bootstrapper,
    low: &[Ciphertext],
    function: Option<&Harmonics>,
) -> Result<Vec<Ciphertext>> {
    let one = |ct: &Ciphertext| match function {
        Some(f) => through(e, bootstrapper, ct, f),
        None => {
            let slots = bootstrapper.coefficients_to_slots(e, bootstrapper.mod_raise(e, ct)?)?;
            bootstrapper.modular_reduction(e, &slots, Content::Complex)
        }
    };
    let at_once = (rayon::current_num_threads() / 2).max(1);
    let mut out = Vec::with_capacity(low.len());
    for part in low.chunks(at_once) {
        out.extend(
            part.par_iter()
                .map(one)
                .collect::<std::result::Result<Vec<_>, CkksError>>()?,
        );
    }
    Ok(out)
}

fn through(
    e: &Evaluator,
    bootstrapper: &Bootstrapper,
    ct: &Ciphertext,
    f: &Harmonics,
) -> std::result::Result<Ciphertext, CkksError> {
    f.out_level(e.params())?;
    let wide = e.mul_integer(ct, MULTIPLE);
    let slots = bootstrapper.coefficients_to_slots(e, bootstrapper.mod_raise(e, &wide)?)?;
    bootstrapper.apply_to_phase(e, &slots, Content::Complex, f)
}
