//! Runs a program on this party's shares. Either party can: the client with its text's mask, the server with
//! its weights.
use crate::error::Result;
use crate::program::{Bump, Do, Program, Step};
use crate::tensor::{misfit, ring, Tensor};
use tacita_mpc::linear::{self, Dims, Options};
use tacita_mpc::nonlinear::{self, few, Fixed, GeluForm, Norm, SiluForm};
use tacita_mpc::{compare, Party, Ring};

/// What the server has of the model, in the order in which the program asks for it. The client has nothing.
pub trait Model {
    /// Integers (inputs, outputs) of the next linear map, and a bias in its format for each output.
    fn linear(&mut self) -> Option<(Vec<i64>, Vec<u64>)> {
        None
    }

    /// Factors and offsets of the next norm.
    fn norm(&mut self) -> Option<(Vec<f64>, Vec<f64>)> {
        None
    }
}

/// The client's model: none.
pub struct Unknown;

impl Model for Unknown {}

/// One run. mask: of real tokens, at the client alone.
struct Walk<'a, M> {
    party: &'a mut Party,
    model: &'a mut M,
    mask: &'a [bool],
}

/// Runs all steps on this party's share of the input and gives its share of the answer.
///
/// mask: which rows are real, at the client; empty at the server. watch: called as each node begins.
///
/// # Errors
/// [`crate::ClientError::Damaged`] for a program whose steps do not fit; those of the protocols.
pub fn run<M: Model>(
    party: &mut Party,
    program: &Program,
    model: &mut M,
    input: Tensor,
    mask: &[bool],
    watch: &mut dyn FnMut(&str),
) -> Result<Tensor> {
    if input.shape() != [program.tokens, program.hidden] || input.ring().bits() != program.entered.ring {
        return misfit("an input of another shape");
    }
    let mut walk = Walk { party, model, mask };
    let mut registers = vec![Some(input)];
    let last = last_uses(program);
    for (number, step) in program.steps.iter().enumerate() {
        if let Do::Enter { name } = &step.what {
            watch(name);
        }
        let found = walk.step(step, &inputs(step, &registers)?)?;
        if step
            .outputs
            .iter()
            .copied()
            .ne(registers.len()..registers.len() + found.len())
        {
            return misfit(format!("step {number} writes other registers"));
        }
        registers.extend(found.into_iter().map(Some));
        for &input in step
            .inputs
            .iter()
            .filter(|&&input| last.get(input) == Some(&number))
        {
            registers[input] = None;
        }
    }
    let answer = registers.get_mut(program.answer).and_then(Option::take);
    match answer {
        Some(answer) if answer.shape() == program.shape && answer.ring().bits() == program.answered.ring => {
            Ok(answer)
        }
        _ => misfit("no answer in its register"),
    }
}

/// The last step that reads each register; never, for the answer's.
fn last_uses(program: &Program) -> Vec<usize> {
    let reads = program.steps.iter().flat_map(|step| &step.inputs);
    let most = reads
        .chain([&program.answer])
        .max()
        .map_or(0, |&most| most.min(1 << 16));
    let mut last = vec![usize::MAX; most + 1];
    for (number, step) in program.steps.iter().enumerate() {
        for &input in step.inputs.iter().filter(|&&input| input <= most) {
            last[input] = number;
        }
    }
    if let Some(kept) = last.get_mut(program.answer) {
        *kept = usize::MAX;
    }
    last
}

fn inputs<'a>(step: &Step, registers: &'a [Option<Tensor>]) -> Result<Vec<&'a Tensor>> {
    let found = |&number: &usize| match registers.get(number) {
        Some(Some(tensor)) => Ok(tensor),
        _ => misfit(format!("register {number} is empty")),
    };
    step.inputs.iter().map(found).collect()
}

fn fixed(bits: u32, frac: u32) -> Result<Fixed> {
    let ring = ring(bits)?;
    if frac < bits {
        return Ok(Fixed { ring, frac });
    }
    misfit(format!("{frac} fraction bits in a ring of {bits}"))
}

/// A number of bits.
fn few_bits(bits: u32) -> Result<u32> {
    if bits <= 64 {
        return Ok(bits);
    }
    misfit(format!("{bits} bits"))
}

fn held(x: &Tensor, bits: u32) -> Result<&[u64]> {
    if x.ring().bits() == bits {
        return Ok(x.values());
    }
    misfit(format!("a ring of {} bits, {bits} are expected", x.ring().bits()))
}

impl<M: Model> Walk<'_, M> {
    fn step(&mut self, step: &Step, given: &[&Tensor]) -> Result<Vec<Tensor>> {
        match (&step.what, given) {
            (Do::Enter { .. }, []) => Ok(vec![]),
            (Do::Columns { widths }, [x]) => x.columns(widths),
            (Do::Softmax { .. }, [x]) => self.softmax(&step.what, x),
            (
                Do::Average {
                    tokens,
                    fraction,
                    ring,
                },
                [],
            ) => Ok(vec![self.average(*tokens, *fraction, *ring)?]),
            (what, [x]) => Ok(vec![match self.local(what, x)? {
                Some(found) => found,
                None => self.shared(what, x)?,
            }]),
            (what, [x, y]) => Ok(vec![self.pair(what, x, y)?]),
            _ => misfit(format!("{} inputs", given.len())),
        }
    }

    /// What needs no message, if this is it.
    fn local(&self, what: &Do, x: &Tensor) -> Result<Option<Tensor>> {
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
    fn average(&self, tokens: usize, fraction: u32, bits: u32) -> Result<Tensor> {
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

    /// Operations of one tensor with the other party.
    fn shared(&mut self, what: &Do, x: &Tensor) -> Result<Tensor> {
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
            Do::Tanh {
                ring: bits,
                fraction,
                to,
                finer,
                range,
            } => {
                let (from, to) = (fixed(bits, fraction)?, fixed(to, finer)?);
                (
                    to.ring,
                    nonlinear::tanh(party, held(x, bits)?, from, to, few_bits(range)?)?,
                )
            }
            Do::Gelu(ref bump) => {
                let (from, to) = bump.formats()?;
                let form = gelu_form(&bump.form)?;
                (
                    to,
                    nonlinear::gelu_with(party, held(x, bump.ring)?, from, to, form, few_bits(bump.range)?)?,
                )
            }
            Do::Silu(ref bump) => {
                let (from, to) = bump.formats()?;
                let form = silu_form(&bump.form)?;
                (
                    to,
                    nonlinear::silu(party, held(x, bump.ring)?, from, to, form, few_bits(bump.range)?)?,
                )
            }
            Do::Linear { .. } => return self.linear(what, x),
            Do::Norm { .. } => return self.norm(what, x),
            _ => return misfit("a step of other inputs"),
        };
        Tensor::new(x.shape().to_vec(), to, values)
    }

    fn linear(&mut self, what: &Do, x: &Tensor) -> Result<Tensor> {
        let &Do::Linear {
            rows,
            inputs,
            outputs,
            ring: bits,
            opened,
        } = what
        else {
            return misfit("no linear map");
        };
        if x.shape() != [rows, inputs] {
            return misfit(format!("a map of ({rows}, {inputs}) on {:?}", x.shape()));
        }
        let (dims, to) = (sized(1, rows, inputs, outputs)?, ring(bits)?);
        let (weights, bias) = self.model.linear().unzip();
        let options = Options {
            opened,
            ..Options::default()
        };
        let values = held(x, bits)?;
        let found =
            linear::share_times_weights_with(self.party, values, weights.as_deref(), dims, to, options)?;
        let product = Tensor::new(vec![rows, outputs], to, found)?;
        match bias {
            None => Ok(product),
            Some(bias) => product.plus(&Tensor::new(vec![rows, outputs], to, bias.repeat(rows))?, to),
        }
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
        let (&[rows, cols], from, to) = (x.shape(), fixed(bits, fraction)?, fixed(to, finer)?) else {
            return misfit(format!("a norm of {:?}", x.shape()));
        };
        if !(positive(bound) && positive(least) && positive(gamma) && (0.0..1.0).contains(&epsilon)) {
            return misfit("bounds of a norm");
        }
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

    fn softmax(&mut self, what: &Do, x: &Tensor) -> Result<Vec<Tensor>> {
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
    fn pair(&mut self, what: &Do, x: &Tensor, y: &Tensor) -> Result<Tensor> {
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
            Do::Product {
                heads,
                rows,
                inner,
                columns,
                ring: bits,
                opened,
            } => {
                if x.shape() != [heads, rows, inner] || y.shape() != [heads, inner, columns] {
                    return misfit(format!("a product of {:?} and {:?}", x.shape(), y.shape()));
                }
                let (dims, to) = (sized(heads, rows, inner, columns)?, ring(bits)?);
                let options = Options {
                    opened,
                    ..Options::default()
                };
                let (left, right) = (held(x, bits)?, held(y, bits)?);
                let found = linear::share_times_share_with(self.party, left, right, dims, to, options)?;
                Tensor::new(vec![heads, rows, columns], to, found)
            }
            _ => misfit("a step of other inputs"),
        }
    }
}

fn shifted_up(x: &Tensor, bits: u32, to: Ring) -> Result<Tensor> {
    if bits >= 64 || to.bits() != 64.min(x.ring().bits() + bits) {
        return misfit(format!("a shift by {bits} from {:?} to {to:?}", x.ring()));
    }
    Ok(x.map(to, |v| v << bits))
}

fn sized(batch: usize, k: usize, m: usize, n: usize) -> Result<Dims> {
    let most = [k, m, n, batch]
        .into_iter()
        .try_fold(1usize, |p, size| p.checked_mul(size.max(1)));
    match most {
        Some(_) if batch * k * n <= 1 << 25 => Ok(Dims { k, m, n, batch }),
        _ => misfit(format!("a product of ({batch}, {k}, {m}, {n})")),
    }
}

/// A bound of values: far within what formats hold.
fn positive(x: f64) -> bool {
    (1e-12..=1e12).contains(&x)
}

impl Bump {
    fn formats(&self) -> Result<(Fixed, Ring)> {
        Ok((fixed(self.ring, self.fraction)?, ring(self.to)?))
    }
}

fn gelu_form(name: &str) -> Result<GeluForm> {
    match name {
        "abs4" => Ok(GeluForm::Abs4),
        "abs8" => Ok(GeluForm::Abs8),
        "tanh4" => Ok(GeluForm::Tanh4),
        "tanh8" => Ok(GeluForm::Tanh8),
        _ => misfit("a form of GELU that is not known"),
    }
}

fn silu_form(name: &str) -> Result<SiluForm> {
    match name {
        "abs8" => Ok(SiluForm::Abs8),
        "abs16" => Ok(SiluForm::Abs16),
        _ => misfit("a form of SiLU that is not known"),
    }
}
