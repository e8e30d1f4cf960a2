//! Polynomials as chains of squares.
//!
//! A chain computes t_0 = sigma x + shift and t_{i+1} = +-t_i^2 + sum_{k<i} c_k t_k + constant; its value is
//! 2^exponent times the last t. Every t of the fitted interval stays inside (-1, 1). In shares: t has f
//! fraction bits in Z_{2^(f+2)}; the square comes with 2f in Z_{2^(2f+2)}, the public combination is added at
//! that precision for nothing, and f bits are dropped locally. With f = 15 a stage costs one square from 17
//! to 32 bits (385 bits on the wire) and, where a later combination uses t, one extension (16 bits); nothing
//! else.
use super::few::square_any;
use super::fixed::{add_public, Fixed};
use crate::compare::{extend, shift_rounded};
use crate::{Party, Result, Ring};

/// One square and what is added to it.
#[derive(Clone, Copy, Debug)]
pub struct Stage {
    /// Whether the square is subtracted.
    pub negate: bool,
    /// Weights of t_0, t_1, ... (those that are missing are zero).
    pub mix: &'static [f64],
    /// The public constant.
    pub constant: f64,
}

/// A fitted polynomial.
#[derive(Clone, Copy, Debug)]
pub struct Chain {
    /// Scale of the input.
    pub sigma: f64,
    /// t_0 = sigma x + shift.
    pub shift: f64,
    /// The squares.
    pub stages: &'static [Stage],
    /// The value is 2^exponent times the last t.
    pub exponent: i32,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Chain {
    /// The value in floating point: what the shares approximate inside the interval.
    pub fn plain(&self, x: f64) -> f64 {
        let mut t = vec![self.sigma * x + self.shift];
        for stage in self.stages {
            let last = t[t.len() - 1];
            let mixed: f64 = stage.mix.iter().zip(&t).map(|(c, t)| c * t).sum();
            t.push(if stage.negate { -last * last } else { last * last } + mixed + stage.constant);
        }
        t[t.len() - 1] * f64::from(self.exponent).exp2()
    }

    /// The format of t_0's shares for f fraction bits.
    pub fn input(frac: u32) -> Fixed {
        Fixed::new(2 * frac + 2, frac)
    }

    /// The format of the value's shares for f fraction bits: those of 2^-exponent times the value, read as
    /// the value.
    pub fn output(&self, frac: u32) -> Fixed {
        Fixed::new(frac + 2, (frac as i32 - self.exponent) as u32)
    }

    /// The value from shares of sigma*x (without the shift) in [`Chain::input`]`(frac)`, in
    /// [`Chain::output`]`(frac)`. Outside the interval the result is arbitrary. Error: the fit's, and
    /// rounding of about one unit of 2^-frac at each t.
    ///
    /// # Errors
    /// Those of the channel.
    pub(crate) fn evaluate(&self, party: &mut Party, scaled: Vec<u64>, frac: u32) -> Result<Vec<u64>> {
        self.run(party, scaled, frac, false)
    }

    /// The square of the value: one stage more. In the format `frac - 2 exponent` fraction bits of
    /// Z_{2^(frac+2)}.
    pub(crate) fn evaluate_squared(
        &self,
        party: &mut Party,
        scaled: Vec<u64>,
        frac: u32,
    ) -> Result<Vec<u64>> {
        self.run(party, scaled, frac, true)
    }

    fn run(&self, party: &mut Party, scaled: Vec<u64>, frac: u32, squared: bool) -> Result<Vec<u64>> {
        let wide = Self::input(frac);
        let mut start = scaled;
        add_public(party, &mut start, wide.ring, wide.encode(self.shift));
        let mut known = vec![Term::of_wide(start, frac)];
        let plain = Stage {
            negate: false,
            mix: &[],
            constant: 0.0,
        };
        let stages: Vec<&Stage> = self.stages.iter().chain(squared.then_some(&plain)).collect();
        for (i, stage) in stages.iter().enumerate() {
            let mixed = stages[i + 1..].iter().any(|later| later.mix.len() > i + 1);
            let next = step(party, stage, &known, wide)?;
            known.push(Term::of_narrow(party, next, wide, mixed)?);
        }
        Ok(known.pop().map(|last| last.narrow).unwrap_or_default())
    }
}

/// A t: f fraction bits in Z_{2^(f+2)}, and in Z_{2^(2f+2)} where a later combination needs it.
struct Term {
    narrow: Vec<u64>,
    wide: Vec<u64>,
}

impl Term {
    fn of_wide(wide: Vec<u64>, frac: u32) -> Self {
        let ring = Ring::new(frac + 2);
        let narrow = wide.iter().map(|&t| ring.reduce(t)).collect();
        Self { narrow, wide }
    }

    fn of_narrow(party: &mut Party, narrow: Vec<u64>, wide: Fixed, mixed: bool) -> Result<Self> {
        let extended = if mixed {
            extend(party, &narrow, Ring::new(wide.frac + 2), wide.ring)?
        } else {
            vec![]
        };
        Ok(Self {
            narrow,
            wide: extended,
        })
    }
}

/// The next t from those known, f fraction bits in Z_{2^(f+2)}.
fn step(party: &mut Party, stage: &Stage, known: &[Term], wide: Fixed) -> Result<Vec<u64>> {
    let (ring, frac) = (wide.ring, wide.frac);
    let mut sum = square_any(
        party,
        &known[known.len() - 1].narrow,
        Ring::new(frac + 2),
        ring,
        frac,
    )?;
    if stage.negate {
        sum.iter_mut().for_each(|s| *s = s.wrapping_neg());
    }
    for (&c, t) in stage.mix.iter().zip(known) {
        let c = wide.encode(c);
        sum.iter_mut()
            .zip(&t.wide)
            .for_each(|(s, t)| *s = s.wrapping_add(c.wrapping_mul(*t)));
    }
    let constant = Fixed {
        frac: 2 * frac,
        ..wide
    }
    .encode(stage.constant);
    add_public(party, &mut sum, ring, constant);
    sum.iter_mut().for_each(|s| *s = ring.reduce(*s));
    Ok(shift_rounded(party, &sum, ring, frac))
}
