//! Steps that need no message.
use super::checks::{fixed, held};
use super::Walk;
use crate::error::Result;
use crate::program::Do;
use crate::tensor::{misfit, ring, Tensor};
use tacita_mpc::Ring;

impl<M> Walk<'_, M> {
    /// What needs no message, if this is it.
    pub(super) fn local(&self, what: &Do, x: &Tensor) -> Result<Option<Tensor>> {
        Ok(Some(match what {
            Do::ShiftDown { bits, ring: to } => self.shifted_down(x, *bits, ring(*to)?)?,
            Do::ShiftUp { bits, ring: to } => shifted_up(x, *bits, ring(*to)?)?,
            Do::Reduce { ring: to } if *to <= x.ring().bits() => x.map(ring(*to)?, |v| v),
            Do::Scale { factor, ring: to } => {
                held(x, *to)?;
                x.map(ring(*to)?, |v| v.wrapping_mul(*factor as u64))
            }
            Do::Rows { count } => x.rows(*count)?,
            Do::Heads { count } => x.heads(*count)?,
            Do::Merge {} => x.merged()?,
            Do::Transpose {} => x.transposed()?,
            Do::Reshape { shape } => x.reshaped(shape.clone())?,
            Do::Hide { .. } => self.hidden(what, x)?,
            _ => return Ok(None),
        }))
    }

    /// Without the low bits; the client adds the unit that makes it right on average.
    fn shifted_down(&self, x: &Tensor, bits: u32, to: Ring) -> Result<Tensor> {
        if bits >= x.ring().bits() || x.ring().bits() - bits != to.bits() {
            return misfit(format!("a shift by {bits} from {:?} to {to:?}", x.ring()));
        }
        let unit = u64::from(self.party.is_client());
        Ok(x.map(to, |v| (v >> bits).wrapping_add(unit)))
    }

    /// The client's share without the gap where a query does not see a key.
    fn hidden(&self, what: &Do, x: &Tensor) -> Result<Tensor> {
        let &Do::Hide {
            gap,
            fraction,
            ring: bits,
            back,
            on,
        } = what
        else {
            return misfit("no step that hides");
        };
        let ((_, queries, keys), form) = (x.matrices()?, fixed(bits, fraction)?);
        held(x, bits)?;
        if !self.party.is_client() {
            return Ok(x.clone());
        }
        if self.mask.len() != keys || on == Some(0) {
            return misfit(format!("a mask of {} tokens for {keys} keys", self.mask.len()));
        }
        let reach = |query: usize, key: usize| {
            back.is_none_or(|back| key + back >= query) && on.is_none_or(|on| key <= query.saturating_add(on))
        };
        let less = form.ring.from_signed(gap << fraction.min(62));
        let place = |at: usize| ((at / keys) % queries, at % keys);
        let values = x.values().iter().enumerate().map(|(at, &v)| {
            let (query, key) = place(at);
            let seen = self.mask[key] && reach(query, key);
            if seen {
                v
            } else {
                v.wrapping_sub(less)
            }
        });
        Tensor::new(x.shape().to_vec(), form.ring, values.collect())
    }

    /// 1/n for each of the n real tokens, at the client.
    pub(super) fn average(&self, tokens: usize, fraction: u32, bits: u32) -> Result<Tensor> {
        let form = fixed(bits, fraction)?;
        let real = self.mask.iter().filter(|&&real| real).count().max(1);
        let each = form.encode(1.0 / real as f64);
        let values = match self.party.is_client() {
            true => self
                .mask
                .iter()
                .map(|&real| if real { each } else { 0 })
                .collect(),
            false => vec![0; tokens.min(1 << 16)],
        };
        Tensor::new(vec![1, 1, tokens], form.ring, values)
    }
}

fn shifted_up(x: &Tensor, bits: u32, to: Ring) -> Result<Tensor> {
    if bits >= 64 || to.bits() != 64.min(x.ring().bits() + bits) {
        return misfit(format!("a shift by {bits} from {:?} to {to:?}", x.ring()));
    }
    Ok(x.map(to, |v| v << bits))
}
