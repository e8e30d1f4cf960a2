//! Steps that need no message. Shapes and formats were checked with the program (`program::sizes`).
use super::rotary::{turned_from, Angles};
use super::Walk;
use crate::error::Result;
use crate::program::{Do, Hide};
use crate::tensor::{misfit, Tensor};
use tacita_mpc::Ring;

impl<M> Walk<'_, M> {
    /// What needs no message, if this is it.
    pub(super) fn local(&self, what: &Do, x: &Tensor) -> Result<Option<Tensor>> {
        Ok(Some(match what {
            Do::ShiftDown { bits, ring } => {
                let unit = u64::from(self.party.is_client()); // which is right on average
                x.map(Ring::new(*ring), |v| (v >> bits).wrapping_add(unit))
            }
            Do::ShiftUp { bits, ring } => x.map(Ring::new(*ring), |v| v << bits),
            Do::Reduce { ring } => x.map(Ring::new(*ring), |v| v),
            Do::Scale { factor, .. } => x.map(x.ring(), |v| v.wrapping_mul(*factor as u64)),
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

    /// The client's share without the gap where a query does not see a key.
    fn hidden(&self, hide: &Hide, x: &Tensor) -> Result<Tensor> {
        let &Hide { gap, back, on, .. } = hide;
        let (_, queries, keys) = x.matrices()?;
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
        let less = x.ring().from_signed(gap << hide.fraction);
        let place = |at: usize| ((at / keys) % queries, at % keys);
        let values = x.values().iter().enumerate().map(|(at, &v)| {
            let (query, key) = place(at);
            match sees(first + query, key) {
                true => v,
                false => v.wrapping_sub(less),
            }
        });
        Tensor::new(x.shape().to_vec(), x.ring(), values.collect())
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
    pub(super) fn average(&self, fraction: u32, ring: Ring) -> Result<Tensor> {
        if !self.party.is_client() {
            return Tensor::new(vec![1, 1, self.all_rows], ring, vec![0; self.all_rows]);
        }
        let real = self.mask.iter().filter(|&&real| real).count().max(1) as f64;
        let (mut rows, mut end) = (0.0, 0.0);
        let weight = |&counts: &bool| {
            let begin = end;
            rows += f64::from(u8::from(counts));
            end = (rows / real * f64::from(fraction).exp2()).round_ties_even();
            ring.from_signed((end - begin) as i64)
        };
        let weights = self.mask.iter().map(weight).collect();
        Tensor::new(vec![1, 1, self.all_rows], ring, weights)
    }
}
