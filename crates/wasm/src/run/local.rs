//! Steps that need no message.
use super::checks::{fixed, held};
use super::rotary::{turned_from, Angles};
use super::Walk;
use crate::error::Result;
use crate::program::{Do, Hide};
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
            Do::Group { heads } => x.grouped(*heads)?,
            Do::Bias { .. } => x.clone(), // the client's share stays as it is
            Do::Turn {
                bits, base, scales, ..
            } => self.turned(x, (*base, scales), *bits)?,
            Do::Hide(hide) => self.hidden(hide, x)?,
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
    fn hidden(&self, hide: &Hide, x: &Tensor) -> Result<Tensor> {
        let &Hide { gap, back, on, .. } = hide;
        let ((_, queries, keys), form) = (x.matrices()?, fixed(hide.ring, hide.fraction)?);
        held(x, hide.ring)?;
        if !self.party.is_client() {
            return Ok(x.clone());
        }
        let (mask, first) = match &self.tile {
            Some(tile) => (self.mask.get(tile.keys.clone()).unwrap_or_default(), tile.first),
            // where nothing ahead is seen the queries are those of the last rows, and each sees itself
            None if on == Some(0) => (self.mask, keys.saturating_sub(queries)),
            None => (self.mask, 0),
        };
        if mask.len() != keys || queries > keys {
            return misfit(format!("a mask of {} tokens for {keys} keys", mask.len()));
        }
        let sees = |query: usize, key: usize| {
            let near = back.is_none_or(|back| key.saturating_add(back) >= query)
                && on.is_none_or(|on| key <= query.saturating_add(on));
            mask[key] && near || on == Some(0) && key == query
        };
        let less = form.ring.from_signed(gap << hide.fraction);
        let place = |at: usize| ((at / keys) % queries, at % keys);
        let values = x.values().iter().enumerate().map(|(at, &v)| {
            let (query, key) = place(at);
            match sees(first + query, key) {
                true => v,
                false => v.wrapping_sub(less),
            }
        });
        Tensor::new(x.shape().to_vec(), form.ring, values.collect())
    }

    /// Rows turned by their positions.
    fn turned(&self, x: &Tensor, angles: Angles, bits: u32) -> Result<Tensor> {
        let &[_, rows, size] = x.shape() else {
            return misfit("rows that are not turned by heads");
        };
        let [cos, sin] = turned_from(angles, self.past.rows, rows, size, bits);
        let half = size / 2;
        let value = |at: usize| {
            let (line, column) = (at / size, at % size);
            let table = line % rows * half + column % half;
            let (own, other) = (x.values()[at], x.values()[line * size + (column + half) % size]);
            let own = own.wrapping_mul(cos[table] as u64);
            let other = other.wrapping_mul(sin[table] as u64);
            match column < half {
                true => own.wrapping_sub(other),
                false => own.wrapping_add(other),
            }
        };
        let values = (0..x.values().len()).map(value).collect();
        Tensor::new(x.shape().to_vec(), x.ring(), values)
    }

    /// 1/n for each of the n real tokens, at the client, up or down so that all are 1 together.
    pub(super) fn average(&self, fraction: u32, bits: u32) -> Result<Tensor> {
        let form = fixed(bits, fraction)?;
        if !self.party.is_client() {
            return Tensor::new(vec![1, 1, self.all_rows], form.ring, vec![0; self.all_rows]);
        }
        let real = self.mask.iter().filter(|&&real| real).count().max(1) as f64;
        let (mut rows, mut end) = (0.0, 0.0);
        let weight = |&counts: &bool| {
            let begin = end;
            rows += f64::from(u8::from(counts));
            end = (rows / real * f64::from(fraction).exp2()).round_ties_even();
            form.ring.from_signed((end - begin) as i64)
        };
        let weights = self.mask.iter().map(weight).collect();
        Tensor::new(vec![1, 1, self.all_rows], form.ring, weights)
    }
}

fn shifted_up(x: &Tensor, bits: u32, to: Ring) -> Result<Tensor> {
    if bits >= 64 || to.bits() != 64.min(x.ring().bits() + bits) {
        return misfit(format!("a shift by {bits} from {:?} to {to:?}", x.ring()));
    }
    Ok(x.map(to, |v| v << bits))
}
