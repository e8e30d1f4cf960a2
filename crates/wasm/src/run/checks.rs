//! Formats that a step states, checked: programs come from a peer.
use crate::error::Result;
use crate::program::Bump;
use crate::tensor::{misfit, ring, Tensor};
use tacita_mpc::nonlinear::Fixed;
use tacita_mpc::Ring;

pub(super) fn fixed(bits: u32, frac: u32) -> Result<Fixed> {
    let ring = ring(bits)?;
    if frac < bits {
        return Ok(Fixed { ring, frac });
    }
    misfit(format!("{frac} fraction bits in a ring of {bits}"))
}

pub(super) fn held(x: &Tensor, bits: u32) -> Result<&[u64]> {
    if x.ring().bits() == bits {
        return Ok(x.values());
    }
    misfit(format!("a ring of {} bits, {bits} are expected", x.ring().bits()))
}

impl Bump {
    pub(super) fn formats(&self) -> Result<(Fixed, Ring)> {
        Ok((fixed(self.ring, self.fraction)?, ring(self.to)?))
    }
}
