//! Products whose ciphertexts travel before their values are known: what few rows at a time need.
//!
//! A token of a generated text is one row, and a ciphertext of one row costs about as much as one of many
//! ([`super::share_times_weights`]). So the client draws uniform rows R for as many tokens as it will want,
//! both get shares of R W by one product of all of them, and a token later sends x_1 - r, which hides x_1
//! perfectly, as r is used once:
//!
//! x W = (x_0 + (x_1 - r)) W + r W: the first term is local to the server, the second is shared already.
//!
//! Cost of a row then: m ring elements from the client, half a round, m n multiply-adds at the server. Errors
//! are those of the product of R.
use super::local::multiply;
use super::protocol::client_times_server_with;
use super::state::Options;
use crate::bits::{pack, packed_len, unpack};
use crate::{MpcError, Party, Result, Ring};
use tacita_bfv::matmul::Dims;
use tacita_ring::sample::Prng;
use zeroize::Zeroizing;

/// One party's part of the rows that are prepared for one matrix of weights. Each row serves once.
pub struct Prepared {
    /// The client's rows, row-major; empty at the server.
    masks: Zeroizing<Vec<u64>>,
    /// This party's shares of R W.
    products: Zeroizing<Vec<u64>>,
    shape: Shape,
    used: usize,
}

/// Of the masks: all public.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Products that are prepared.
    pub rows: usize,
    /// Length of a row.
    pub inputs: usize,
    /// Columns of the weights.
    pub outputs: usize,
    /// Of the shares.
    pub ring: Ring,
}

impl Prepared {
    /// Draws the masks and multiplies them: the cost of a [`super::share_times_weights`] of `shape.rows`
    /// rows.
    ///
    /// # Errors
    /// Those of [`super::client_times_server`], randomness.
    pub fn new(party: &mut Party, weights: Option<&[i64]>, shape: Shape, options: Options) -> Result<Self> {
        let dims = shape.dims(shape.rows);
        let masks = if party.is_client() {
            Some(random(shape.rows * shape.inputs, shape.ring)?)
        } else {
            None
        };
        let left = masks.as_ref().map(|m| &m[..]);
        let products = client_times_server_with(party, left, weights, dims, shape.ring, options)?;
        Ok(Self {
            masks: masks.unwrap_or_default(),
            products: Zeroizing::new(products),
            shape,
            used: 0,
        })
    }

    /// Rows that are left.
    pub fn left(&self) -> usize {
        self.shape.rows - self.used
    }

    /// What was asked for.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Shares of X W for shares of X (k x inputs), by the next k of the prepared rows, which are gone then,
    /// whatever becomes of the message. The server gives the weights of which the rows were made.
    ///
    /// # Errors
    /// For more rows than are left, for inputs of another size or on the wrong side (nothing is used up
    /// then); those of the channel.
    pub fn times(&mut self, party: &mut Party, x: &[u64], weights: Option<&[i64]>) -> Result<Vec<u64>> {
        let rows = self.check(x.len(), weights.map(<[i64]>::len), party.is_client())?;
        let Shape { inputs, outputs, .. } = self.shape;
        let first = self.used;
        self.used += rows; // before anything is sent: no row may serve twice
        let mut out = self.products[first * outputs..][..rows * outputs].to_vec();
        let mask = self.masks.get(first * inputs..).unwrap_or_default();
        party.measured("share times prepared", |party| {
            let Some(weights) = weights else {
                self.send_masked(party, x, mask)?;
                return Ok(());
            };
            self.add_open_part(party, x, weights, &mut out)
        })?;
        Ok(out)
    }

    /// x_1 - r.
    fn send_masked(&self, party: &mut Party, x: &[u64], mask: &[u64]) -> Result<()> {
        let ring = self.shape.ring;
        let masked: Vec<u64> = x.iter().zip(mask).map(|(&x, &r)| ring.sub(x, r)).collect();
        party.send(&pack(&masked, ring.bits()))
    }

    /// out += (x_0 + x_1 - r) W.
    fn add_open_part(&self, party: &mut Party, x: &[u64], weights: &[i64], out: &mut [u64]) -> Result<()> {
        let Shape {
            inputs,
            outputs,
            ring,
            ..
        } = self.shape;
        let bytes = party.receive(packed_len(x.len(), ring.bits()))?;
        let masked = unpack(&bytes, ring.bits(), x.len());
        let sum: Vec<u64> = x.iter().zip(masked).map(|(&x, m)| ring.add(x, m)).collect();
        multiply(&sum, weights, out, (x.len() / inputs, inputs, outputs));
        out.iter_mut().for_each(|o| *o = ring.reduce(*o));
        Ok(())
    }

    /// The rows of x, when everything fits.
    fn check(&self, len: usize, weights: Option<usize>, client: bool) -> Result<usize> {
        let Shape { inputs, outputs, .. } = self.shape;
        let rows = len.checked_div(inputs).unwrap_or(0);
        let wrong = |detail: String| {
            Err(MpcError::Shape {
                op: "prepared product",
                detail,
            })
        };
        if rows * inputs != len {
            return wrong(format!("{len} values are not rows of {inputs}"));
        }
        if rows > self.left() {
            return wrong(format!(
                "{rows} rows asked for, {} of the prepared are left",
                self.left()
            ));
        }
        match weights {
            None if client => Ok(rows),
            Some(found) if !client && found == inputs * outputs => Ok(rows),
            _ => wrong(format!(
                "the server gives {inputs} x {outputs} weights, the client none"
            )),
        }
    }
}

impl Shape {
    fn dims(self, rows: usize) -> Dims {
        Dims {
            k: rows,
            m: self.inputs,
            n: self.outputs,
            batch: 1,
        }
    }
}

/// Uniform ring elements.
fn random(count: usize, ring: Ring) -> Result<Zeroizing<Vec<u64>>> {
    let mut bytes = Zeroizing::new(vec![0; packed_len(count, 64)]);
    Prng::from_os()?.fill(&mut bytes);
    let (words, _) = bytes.as_chunks();
    let values = words.iter().map(|&word| ring.reduce(u64::from_le_bytes(word)));
    Ok(Zeroizing::new(values.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{join, run_pair, split};

    fn shape(rows: usize, inputs: usize, outputs: usize, bits: u32) -> Shape {
        Shape {
            rows,
            inputs,
            outputs,
            ring: Ring::new(bits),
        }
    }

    fn small(count: usize, seed: u64, bits: u32) -> Vec<i64> {
        let ring = Ring::new(bits);
        let (noise, _) = split(ring, &vec![0; count], seed);
        noise.into_iter().map(|v| ring.signed(v)).collect()
    }

    /// x W modulo the ring, signed.
    fn expected(x: &[i64], w: &[i64], s: Shape) -> Vec<i64> {
        let mut out = vec![0; x.len() / s.inputs * s.outputs];
        let x: Vec<u64> = x.iter().map(|&v| v as u64).collect();
        multiply(&x, w, &mut out, (x.len() / s.inputs, s.inputs, s.outputs));
        out.into_iter().map(|v| s.ring.signed(s.ring.reduce(v))).collect()
    }

    #[test]
    fn rows_in_any_portions_give_the_product() {
        for (s, portions) in [
            (shape(5, 7, 3, 64), vec![1, 3, 1]),
            (shape(3, 65, 33, 41), vec![2, 1]),
            (shape(1, 1, 1, 20), vec![1]),
        ] {
            let x = small(s.rows * s.inputs, 1, s.ring.bits().min(40));
            let w = small(s.inputs * s.outputs, 2, 12);
            let (x1, x0) = split(s.ring, &x, 5);
            let run = |party: &mut Party, x: &[u64], w: Option<&[i64]>| {
                let mut prepared = Prepared::new(party, w, s, Options::default())?;
                let (mut out, mut at) = (Vec::new(), 0);
                for &rows in &portions {
                    out.extend(prepared.times(party, &x[at..][..rows * s.inputs], w)?);
                    at += rows * s.inputs;
                }
                assert_eq!(prepared.left(), 0);
                Ok(out)
            };
            let (a, b) = run_pair(|p| run(p, &x1, None), |p| run(p, &x0, Some(&w)));
            for (found, expected) in join(s.ring, &a, &b).into_iter().zip(expected(&x, &w, s)) {
                let error = s
                    .ring
                    .signed(s.ring.reduce((found as u64).wrapping_sub(expected as u64)));
                assert!(error.abs() < 1 << Options::default().slack, "{s:?}: {error}");
            }
        }
    }

    #[test]
    fn a_row_costs_its_own_bytes_and_hides_the_share() {
        let s = shape(2, 576, 40, 48);
        let w = small(s.inputs * s.outputs, 2, 12);
        let zeros = vec![0u64; s.inputs];
        let ((sent, masks), _) = run_pair(
            |p| {
                let mut prepared = Prepared::new(p, None, s, Options::default())?;
                let before = p.sent();
                prepared.times(p, &zeros, None)?;
                Ok((p.sent() - before, prepared.masks.to_vec()))
            },
            |p| Prepared::new(p, Some(&w), s, Options::default())?.times(p, &zeros, Some(&w)),
        );
        assert!((576 * 6..576 * 6 + 64).contains(&sent), "{sent} bytes");
        assert_ne!(masks[..576], masks[576..], "every row has a mask of its own");
    }

    #[test]
    fn more_rows_than_prepared_and_wrong_sides_are_errors_before_anything_is_sent() {
        let (s, w) = (shape(1, 4, 2, 32), vec![1; 8]);
        run_pair(
            |p| {
                let mut prepared = Prepared::new(p, None, s, Options::default())?;
                let before = p.sent();
                assert!(prepared.times(p, &[0; 8], None).is_err());
                assert!(prepared.times(p, &[0; 3], None).is_err());
                assert!(prepared.times(p, &[0; 4], Some(&[1; 8])).is_err());
                assert_eq!((prepared.left(), p.sent()), (1, before));
                Ok(())
            },
            |p| {
                let mut prepared = Prepared::new(p, Some(&w), s, Options::default())?;
                assert!(prepared.times(p, &[0; 4], None).is_err());
                assert!(prepared.times(p, &[0; 4], Some(&w[1..])).is_err());
                Ok(())
            },
        );
    }
}
