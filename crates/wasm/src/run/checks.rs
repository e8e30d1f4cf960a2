//! What a step says of formats and sizes, checked: programs come from a peer.
use crate::error::Result;
use crate::program::Bump;
use crate::tensor::{misfit, ring, Tensor};
use tacita_mpc::linear::Dims;
use tacita_mpc::nonlinear::{Fixed, GeluForm, SiluForm};
use tacita_mpc::Ring;

pub(super) fn fixed(bits: u32, frac: u32) -> Result<Fixed> {
    let ring = ring(bits)?;
    if frac < bits {
        return Ok(Fixed { ring, frac });
    }
    misfit(format!("{frac} fraction bits in a ring of {bits}"))
}

/// A number of bits.
pub(super) fn few_bits(bits: u32) -> Result<u32> {
    if bits <= 64 {
        return Ok(bits);
    }
    misfit(format!("{bits} bits"))
}

pub(super) fn held(x: &Tensor, bits: u32) -> Result<&[u64]> {
    if x.ring().bits() == bits {
        return Ok(x.values());
    }
    misfit(format!("a ring of {} bits, {bits} are expected", x.ring().bits()))
}

pub(super) fn sized(batch: usize, k: usize, m: usize, n: usize) -> Result<Dims> {
    let most = [k, m, n, batch]
        .into_iter()
        .try_fold(1usize, |p, size| p.checked_mul(size.max(1)));
    match most {
        Some(_) if batch * k * n <= 1 << 25 => Ok(Dims { k, m, n, batch }),
        _ => misfit(format!("a product of ({batch}, {k}, {m}, {n})")),
    }
}

/// A bound of values: far within what formats hold.
pub(super) fn positive(x: f64) -> bool {
    (1e-12..=1e12).contains(&x)
}

impl Bump {
    pub(super) fn formats(&self) -> Result<(Fixed, Ring)> {
        Ok((fixed(self.ring, self.fraction)?, ring(self.to)?))
    }
}

pub(super) fn gelu_form(name: &str) -> Result<GeluForm> {
    match name {
        "abs4" => Ok(GeluForm::Abs4),
        "abs8" => Ok(GeluForm::Abs8),
        "tanh4" => Ok(GeluForm::Tanh4),
        "tanh8" => Ok(GeluForm::Tanh8),
        _ => misfit("a form of GELU that is not known"),
    }
}

pub(super) fn silu_form(name: &str) -> Result<SiluForm> {
    match name {
        "abs8" => Ok(SiluForm::Abs8),
        "abs16" => Ok(SiluForm::Abs16),
        _ => misfit("a form of SiLU that is not known"),
    }
}
