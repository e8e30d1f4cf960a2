//! Steps with the other party: calls of the engine's protocols.
use super::checks::{few_bits, fixed, held};
use super::{Model, Walk};
use crate::error::Result;
use crate::program::{gelu_form, silu_form, Do};
use crate::tensor::{misfit, ring, Tensor};
use tacita_mpc::compare;
use tacita_mpc::linear::{self, Dims, Options};
use tacita_mpc::nonlinear::{self, few, Norm};

impl<M: Model> Walk<'_, M> {
    /// Operations of one tensor with the other party.
    pub(super) fn shared(&mut self, what: &Do, x: &Tensor) -> Result<Tensor> {
        let party = &mut *self.party;
        let (to, values) = match *what {
            Do::Extend { ring: bits, to } => {
                let to = ring(to)?;
                (to, compare::extend(party, held(x, bits)?, x.ring(), to)?)
            }
            Do::Relu { ring: bits } => {
                let values = held(x, bits)?;
                let negative = compare::negative(party, values, x.ring())?;
                let below = compare::select(party, &negative, values, x.ring())?;
                let rest = values.iter().zip(below).map(|(&v, b)| x.ring().sub(v, b));
                (x.ring(), rest.collect())
            }
            Do::Square {
                ring: bits,
                to,
                slack,
            } => {
                let to = ring(to)?;
                (
                    to,
                    few::square_any(party, held(x, bits)?, x.ring(), to, few_bits(slack)?)?,
                )
            }
            Do::Tanh(ref f) | Do::Elu(ref f) => {
                let (from, to) = (fixed(f.ring, f.fraction)?, fixed(f.to, f.finer)?);
                let function = match *what {
                    Do::Elu(_) => nonlinear::elu,
                    _ => nonlinear::tanh,
                };
                let values = function(party, held(x, f.ring)?, from, to, few_bits(f.range)?)?;
                (to.ring, values)
            }
            Do::Gelu(ref bump) => {
                let (from, to) = bump.formats()?;
                let Some(form) = gelu_form(&bump.form) else {
                    return misfit("a form of GELU that is not known");
                };
                (
                    to,
                    nonlinear::gelu_with(party, held(x, bump.ring)?, from, to, form, few_bits(bump.range)?)?,
                )
            }
            Do::Silu(ref bump) => {
                let (from, to) = bump.formats()?;
                let Some(form) = silu_form(&bump.form) else {
                    return misfit("a form of SiLU that is not known");
                };
                (
                    to,
                    nonlinear::silu(party, held(x, bump.ring)?, from, to, form, few_bits(bump.range)?)?,
                )
            }
            Do::Norm { .. } => return self.norm(what, x),
            _ => return misfit("a step of other inputs"),
        };
        Tensor::new(x.shape().to_vec(), to, values)
    }

    /// A product with weights, from what was prepared where a row is left of it.
    pub(super) fn linear(&mut self, number: usize, what: &Do, x: &Tensor) -> Result<Tensor> {
        let &Do::Linear {
            outputs,
            ring: bits,
            opened,
        } = what
        else {
            return misfit("no linear map");
        };
        let &[rows, inputs] = x.shape() else {
            return misfit(format!("a map on {:?}", x.shape()));
        };
        let (dims, to) = (dims(1, rows, inputs, outputs), ring(bits)?);
        let (weights, bias) = self.model.linear().unzip();
        let (weights, values) = (weights.as_deref(), held(x, bits)?);
        let ahead = self
            .prepared
            .as_mut()
            .and_then(|prepared| prepared.linear.get_mut(&number));
        let found = match ahead {
            Some(ahead) if rows == 1 && !opened && ahead.left() > 0 => {
                ahead.times(self.party, values, weights)?
            }
            _ => {
                let options = Options {
                    opened,
                    ..Options::default()
                };
                linear::share_times_weights_with(self.party, values, weights, dims, to, options)?
            }
        };
        let product = Tensor::new(vec![rows, outputs], to, found)?;
        match bias {
            None => Ok(product),
            Some(bias) => product.plus(&Tensor::new(vec![rows, outputs], to, bias.repeat(rows))?, to),
        }
    }

    /// A product of shared matrices, from what was prepared where a row is left of it.
    fn product(&mut self, number: usize, what: &Do, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        let &Do::Product {
            ring: bits,
            opened,
            transposed,
            ..
        } = what
        else {
            return misfit("no product");
        };
        let ahead = self
            .prepared
            .as_mut()
            .and_then(|prepared| prepared.products.get_mut(&number));
        if let Some(ahead) = ahead.filter(|ahead| self.all_rows == self.past.rows + 1 && ahead.left() > 0) {
            let newest = y.rows(-1)?;
            return ahead.times(self.party, x, newest.values());
        }
        let right = if transposed { y.transposed()? } else { y.clone() };
        let (&[heads, rows, inner], &[others, meets, columns]) = (x.shape(), right.shape()) else {
            return misfit(format!("a product of {:?}", x.shape()));
        };
        if (heads, inner) != (others, meets) {
            return misfit(format!("a product of {:?} and {:?}", x.shape(), right.shape()));
        }
        let (dims, to) = (dims(heads, rows, inner, columns), ring(bits)?);
        let options = Options {
            opened,
            ..Options::default()
        };
        let (left, right) = (held(x, bits)?, held(&right, bits)?);
        let found = linear::share_times_share_with(self.party, left, right, dims, to, options)?;
        Tensor::new(vec![heads, rows, columns], to, found)
    }

    fn norm(&mut self, what: &Do, x: &Tensor) -> Result<Tensor> {
        let &Do::Norm {
            ring: bits,
            fraction,
            to,
            finer,
            centred,
            bound,
            least,
            gamma,
            epsilon,
        } = what
        else {
            return misfit("no norm");
        };
        let ((heads, rows, cols), from, to) = (x.matrices()?, fixed(bits, fraction)?, fixed(to, finer)?);
        let rows = heads * rows; // of all heads together
        let norm = Norm {
            rows,
            cols,
            centred,
            bound,
            least,
            gamma,
            epsilon,
        };
        let (factors, offsets) = self.model.norm().unzip();
        let values = held(x, bits)?;
        let (factors, offsets) = (factors.as_deref(), offsets.as_deref());
        let found = nonlinear::layer_norm(self.party, values, from, &norm, factors, offsets, to)?;
        Tensor::new(x.shape().to_vec(), to.ring, found)
    }

    pub(super) fn softmax(&mut self, what: &Do, x: &Tensor) -> Result<Vec<Tensor>> {
        let &Do::Softmax {
            ring: bits,
            fraction,
            range,
            power,
            to,
            inverse,
        } = what
        else {
            return misfit("no softmax");
        };
        let (before, rows, cols) = x.matrices()?;
        let (from, power, inverse) = (fixed(bits, fraction)?, ring(power)?, fixed(to, inverse)?);
        let (values, rows) = (held(x, bits)?, before * rows);
        let (powers, inverses) = nonlinear::softmax_parts(
            self.party,
            values,
            rows,
            cols,
            from,
            few_bits(range)?,
            power,
            inverse,
        )?;
        let mut shape = x.shape().to_vec();
        let powers = Tensor::new(shape.clone(), power, powers)?;
        shape.pop();
        shape.push(1);
        Ok(vec![powers, Tensor::new(shape, inverse.ring, inverses)?])
    }

    /// Operations of two tensors.
    pub(super) fn pair(&mut self, number: usize, what: &Do, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        match *what {
            Do::Add { ring: bits } => x.plus(y, ring(bits)?),
            Do::Times {
                held: from,
                short,
                ring: bits,
                slack,
            } => {
                let (short, to) = (ring(short)?, ring(bits)?);
                let (factors, values) = (held(x, from)?, held(y, bits)?);
                let found = few::scaled_any(
                    self.party,
                    factors,
                    [x.ring(), short],
                    values,
                    to,
                    few_bits(slack)?,
                )?;
                Tensor::new(y.shape().to_vec(), to, found)
            }
            Do::Product { .. } => self.product(number, what, x, y),
            _ => misfit("a step of other inputs"),
        }
    }
}

/// Sizes that were checked with the program (`program::sizes`).
fn dims(batch: usize, k: usize, m: usize, n: usize) -> Dims {
    Dims { k, m, n, batch }
}
