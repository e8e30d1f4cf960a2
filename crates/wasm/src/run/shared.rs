//! Steps with the other party: calls of the engine's protocols.
use super::checks::{fixed, held};
use super::{Model, Walk};
use crate::error::Result;
use crate::program::{gelu_form, silu_form, Bounds, Do, Map, Product, Softmax};
use crate::tensor::{misfit, ring, Tensor};
use tacita_mpc::compare;
use tacita_mpc::linear::{self, Dims, Options};
use tacita_mpc::nonlinear::{self, few};

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
                (to, few::square_any(party, held(x, bits)?, x.ring(), to, slack)?)
            }
            Do::Tanh(ref f) | Do::Elu(ref f) => {
                let (from, to) = (fixed(f.ring, f.fraction)?, fixed(f.to, f.finer)?);
                let function = match *what {
                    Do::Elu(_) => nonlinear::elu,
                    _ => nonlinear::tanh,
                };
                let values = function(party, held(x, f.ring)?, from, to, f.range)?;
                (to.ring, values)
            }
            Do::Gelu(ref bump) => {
                let (from, to) = bump.formats()?;
                let Some(form) = gelu_form(&bump.form) else {
                    return misfit("a form of GELU that is not known");
                };
                let values = held(x, bump.ring)?;
                let values = nonlinear::gelu_with(party, values, from, to, form, bump.range)?;
                (to, values)
            }
            Do::Silu(ref bump) => {
                let (from, to) = bump.formats()?;
                let Some(form) = silu_form(&bump.form) else {
                    return misfit("a form of SiLU that is not known");
                };
                let values = held(x, bump.ring)?;
                (to, nonlinear::silu(party, values, from, to, form, bump.range)?)
            }
            Do::Norm(ref bounds) => return self.norm(bounds, x),
            _ => return misfit("a step of other inputs"),
        };
        Tensor::new(x.shape().to_vec(), to, values)
    }

    /// A product with weights, from what was prepared where a row is left of it.
    pub(super) fn linear(&mut self, number: usize, map: Map, x: &Tensor) -> Result<Tensor> {
        let (outputs, opened) = (map.outputs, map.opened);
        let &[rows, inputs] = x.shape() else {
            return misfit(format!("a map on {:?}", x.shape()));
        };
        let (dims, to) = (dims(1, rows, inputs, outputs), ring(map.ring)?);
        let (weights, bias) = self.model.linear().unzip();
        let (weights, values) = (weights.as_deref(), held(x, map.ring)?);
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
    fn product(&mut self, number: usize, what: &Product, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        let (bits, opened, transposed) = (what.ring, what.opened, what.transposed);
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

    fn norm(&mut self, f: &Bounds, x: &Tensor) -> Result<Tensor> {
        let (from, to) = (fixed(f.ring, f.fraction)?, fixed(f.to, f.finer)?);
        let (heads, rows, cols) = x.matrices()?;
        let norm = f.norm(heads * rows, cols);
        let (factors, offsets) = self.model.norm().unzip();
        let values = held(x, f.ring)?;
        let (factors, offsets) = (factors.as_deref(), offsets.as_deref());
        let found = nonlinear::layer_norm(self.party, values, from, &norm, factors, offsets, to)?;
        Tensor::new(x.shape().to_vec(), to.ring, found)
    }

    pub(super) fn softmax(&mut self, f: &Softmax, x: &Tensor) -> Result<Vec<Tensor>> {
        let (before, rows, cols) = x.matrices()?;
        let (power, inverse) = (ring(f.power)?, fixed(f.to, f.inverse)?);
        let (from, values, rows) = (fixed(f.ring, f.fraction)?, held(x, f.ring)?, before * rows);
        let party = &mut *self.party;
        let (powers, inverses) =
            nonlinear::softmax_parts(party, values, rows, cols, from, f.range, power, inverse)?;
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
                let rings = [x.ring(), short];
                let found = few::scaled_any(self.party, factors, rings, values, to, slack)?;
                Tensor::new(y.shape().to_vec(), to, found)
            }
            Do::Product(ref product) => self.product(number, product, x, y),
            _ => misfit("a step of other inputs"),
        }
    }
}

/// Sizes that were checked with the program (`program::sizes`).
fn dims(batch: usize, k: usize, m: usize, n: usize) -> Dims {
    Dims { k, m, n, batch }
}
