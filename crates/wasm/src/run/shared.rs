//! Steps with the other party: calls of the engine's protocols. Shapes and formats were checked with the
//! program (`program::sizes`).
use super::{Model, Walk};
use crate::error::Result;
use crate::program::{gelu_form, silu_form, Bounds, Do, Map, Product, Softmax};
use crate::tensor::{misfit, Tensor};
use tacita_mpc::compare;
use tacita_mpc::linear::{self, Dims, Options};
use tacita_mpc::nonlinear::{self, few, Fixed};
use tacita_mpc::Ring;

impl<M: Model> Walk<'_, M> {
    /// Operations of one tensor with the other party.
    pub(super) fn shared(&mut self, what: &Do, x: &Tensor) -> Result<Tensor> {
        let (party, values, ring) = (&mut *self.party, x.values(), x.ring());
        let (to, values) = match *what {
            Do::Extend { to, .. } => {
                let to = Ring::new(to);
                (to, compare::extend(party, values, ring, to)?)
            }
            Do::Relu { .. } => {
                let negative = compare::negative(party, values, ring)?;
                let below = compare::select(party, &negative, values, ring)?;
                let rest = values.iter().zip(below).map(|(&v, b)| ring.sub(v, b));
                (ring, rest.collect())
            }
            Do::Square { to, slack, .. } => {
                let to = Ring::new(to);
                (to, few::square_any(party, values, ring, to, slack)?)
            }
            Do::Tanh(ref f) | Do::Elu(ref f) => {
                let (from, to) = (Fixed::new(f.ring, f.fraction), Fixed::new(f.to, f.finer));
                let function = match *what {
                    Do::Elu(_) => nonlinear::elu,
                    _ => nonlinear::tanh,
                };
                (to.ring, function(party, values, from, to, f.range)?)
            }
            Do::Gelu(ref bump) => {
                let (from, to) = (Fixed::new(bump.ring, bump.fraction), Ring::new(bump.to));
                let Some(form) = gelu_form(&bump.form) else {
                    return misfit("a form of GELU that is not known");
                };
                let values = nonlinear::gelu_with(party, values, from, to, form, bump.range)?;
                (to, values)
            }
            Do::Silu(ref bump) => {
                let (from, to) = (Fixed::new(bump.ring, bump.fraction), Ring::new(bump.to));
                let Some(form) = silu_form(&bump.form) else {
                    return misfit("a form of SiLU that is not known");
                };
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
        let (dims, to) = (dims(1, rows, inputs, outputs), x.ring());
        let (weights, bias) = self.model.linear().unzip();
        let (weights, values) = (weights.as_deref(), x.values());
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
        let (opened, transposed) = (what.opened, what.transposed);
        let ahead = self
            .prepared
            .as_mut()
            .and_then(|prepared| prepared.products.get_mut(&number));
        if let Some(ahead) = ahead.filter(|ahead| self.all_rows == self.past.rows + 1 && ahead.left() > 0) {
            let newest = y.rows(-1)?;
            return ahead.times(self.party, x, newest.values());
        }
        let right = if transposed { y.transposed()? } else { y.clone() };
        let (&[heads, rows, inner], &[_, _, columns]) = (x.shape(), right.shape()) else {
            return misfit(format!("a product of {:?}", x.shape()));
        };
        let (dims, to) = (dims(heads, rows, inner, columns), x.ring());
        let options = Options {
            opened,
            ..Options::default()
        };
        let (left, right) = (x.values(), right.values());
        let found = linear::share_times_share_with(self.party, left, right, dims, to, options)?;
        Tensor::new(vec![heads, rows, columns], to, found)
    }

    fn norm(&mut self, f: &Bounds, x: &Tensor) -> Result<Tensor> {
        let (from, to) = (Fixed::new(f.ring, f.fraction), Fixed::new(f.to, f.finer));
        let (heads, rows, cols) = x.matrices()?;
        let norm = f.norm(heads * rows, cols);
        let (factors, offsets) = self.model.norm().unzip();
        let (factors, offsets) = (factors.as_deref(), offsets.as_deref());
        let found = nonlinear::layer_norm(self.party, x.values(), from, &norm, factors, offsets, to)?;
        Tensor::new(x.shape().to_vec(), to.ring, found)
    }

    pub(super) fn softmax(&mut self, f: &Softmax, x: &Tensor) -> Result<Vec<Tensor>> {
        let (before, rows, cols) = x.matrices()?;
        let (power, inverse) = (Ring::new(f.power), Fixed::new(f.to, f.inverse));
        let (from, values, rows) = (Fixed::new(f.ring, f.fraction), x.values(), before * rows);
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
            Do::Add { ring } => x.plus(y, Ring::new(ring)),
            Do::Times { short, slack, .. } => {
                let (rings, to) = ([x.ring(), Ring::new(short)], y.ring());
                let found = few::scaled_any(self.party, x.values(), rings, y.values(), to, slack)?;
                Tensor::new(y.shape().to_vec(), to, found)
            }
            Do::Product(ref product) => self.product(number, product, x, y),
            _ => misfit("a step of other inputs"),
        }
    }
}

fn dims(batch: usize, k: usize, m: usize, n: usize) -> Dims {
    Dims { k, m, n, batch }
}
