//! Polynomials as chains of squares.
//!
//! A chain computes t_0 = sigma x + shift and t_{i+1} = +-t_i^2 + sum_{k<i} c_k t_k + constant; its value is
//! 2^exponent times the last t. Every t of the fitted interval stays inside (-1, 1). In shares: t has f
//! fraction bits in Z_{2^(f+2)}; the square comes with 2f in Z_{2^(2f+2)}, the public combination is added at
//! that precision for nothing, and f bits are dropped locally. With f = 15 a stage costs one square from 17
//! to 32 bits (242 bits on the wire) and, where a later combination uses t, its growth (15 bits), which comes
//! in the same round; nothing else.
use super::few::{droppable, square_growing};
use super::fixed::{add_public, rescale, Fixed};
use super::short::{square, Factors};
use crate::compare::shift_rounded;
use crate::{Party, Result, Ring};

/// Bits by which the slack of a square is more than what is dropped of it: a response is then off by a unit
/// of t at most, as dropping is.
const SPARE: u32 = 2;

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
        let stages: Vec<&Stage> = self.stages.iter().collect();
        Ok(self.run(party, &stages, scaled, frac, |_| Ok(()))?.0)
    }

    /// The square of the value: one stage more. In the format `frac - 2 exponent` fraction bits of
    /// Z_{2^(frac+2)}. And what `beside` returns, which runs beside the first square.
    pub(crate) fn evaluate_squared<T>(
        &self,
        party: &mut Party,
        scaled: Vec<u64>,
        frac: u32,
        beside: impl FnOnce(&mut Party) -> Result<T>,
    ) -> Result<(Vec<u64>, T)> {
        let plain = Stage {
            negate: false,
            mix: &[],
            constant: 0.0,
        };
        let stages: Vec<&Stage> = self.stages.iter().chain([&plain]).collect();
        self.run(party, &stages, scaled, frac, beside)
    }

    fn run<T>(
        &self,
        party: &mut Party,
        stages: &[&Stage],
        scaled: Vec<u64>,
        frac: u32,
        beside: impl FnOnce(&mut Party) -> Result<T>,
    ) -> Result<(Vec<u64>, T)> {
        let start = self.start(party, scaled, frac);
        let narrow = Ring::new(frac + 2);
        let first: Vec<u64> = start.iter().map(|&t| narrow.reduce(t)).collect();
        let rings = [narrow, Self::input(frac).ring];
        let ((squares, _), value) = square_growing(party, &first, rings, frac + SPARE, false, beside)?;
        Ok((after_first(party, stages, squares, start, frac)?, value))
    }

    /// t_0 in [`Chain::input`]`(frac)` from shares of sigma*x.
    fn start(&self, party: &Party, mut scaled: Vec<u64>, frac: u32) -> Vec<u64> {
        let wide = Self::input(frac);
        add_public(party, &mut scaled, wide.ring, wide.encode(self.shift));
        scaled
    }

    /// The squares of sigma*x from shares of it in [`Chain::input`]`(frac)`, sigma |x| < 2; and what `beside`
    /// returns, which runs beside them.
    pub(crate) fn squares<T>(
        party: &mut Party,
        scaled: &[u64],
        frac: u32,
        beside: impl FnOnce(&mut Party) -> Result<T>,
    ) -> Result<(Vec<u64>, T)> {
        let (narrow, wide) = (Ring::new(frac + 3), Self::input(frac).ring);
        let scaled: Vec<u64> = scaled.iter().map(|&t| narrow.reduce(t)).collect();
        let ((squares, _), value) =
            square_growing(party, &scaled, [narrow, wide], frac + SPARE, false, beside)?;
        Ok((squares, value))
    }

    /// [`Chain::evaluate`] of what has these squares: that of t_0 follows without a message. So x's may be
    /// made while |x| is not yet known.
    pub(crate) fn evaluate_from(
        &self,
        party: &mut Party,
        mut squares: Vec<u64>,
        scaled: Vec<u64>,
        frac: u32,
    ) -> Result<Vec<u64>> {
        let ring = Self::input(frac).ring;
        let shift = Self::input(frac).encode(self.shift);
        let pairs = squares.iter_mut().zip(&scaled);
        pairs.for_each(|(square, &x)| *square = square.wrapping_add(x.wrapping_mul(shift) << 1));
        add_public(party, &mut squares, ring, ring.mul(shift, shift));
        let start = self.start(party, scaled, frac);
        let stages: Vec<&Stage> = self.stages.iter().collect();
        after_first(party, &stages, squares, start, frac)
    }

    /// The value from shares of x in [0, 2) with f fraction bits in Z_{2^(f+2)}, f <= 22, in
    /// [`Chain::output`]`(frac)`: the first square is that of x, and sigma and the shift enter behind it, so
    /// that nothing grows ahead of it. By oblivious transfer, a round a stage.
    ///
    /// # Errors
    /// Those of the channel.
    pub(crate) fn evaluate_unit(&self, party: &mut Party, x: &[u64], frac: u32) -> Result<Vec<u64>> {
        let (all, wide) = (Fixed::new(64, frac), Self::input(frac));
        let more = all.ring.bits() - wide.ring.bits();
        let factors = Factors {
            shares: x,
            ring: Ring::new(frac + 2),
            least: 0,
        };
        let drop = droppable("square", all.ring, frac)?;
        let (squares, grown) = square(party, &factors, all.ring, drop, true)?;
        let first = self.stages[0];
        let sign = if first.negate { -1.0 } else { 1.0 };
        let integer = |value: f64, frac: u32| (value * f64::from(frac).exp2()).round() as i64 as u64;
        let second = integer(sign * self.sigma * self.sigma, more);
        let linear = integer(sign * 2.0 * self.sigma * self.shift, frac + more);
        let constant = integer(sign * self.shift * self.shift + first.constant, 2 * frac + more);
        let pairs = squares.iter().zip(&grown);
        let mut next: Vec<u64> = pairs
            .map(|(s, x)| s.wrapping_mul(second).wrapping_add(x.wrapping_mul(linear)))
            .collect();
        add_public(party, &mut next, all.ring, constant);
        let next = shift_rounded(party, &next, all.ring, frac + more);
        let mut start = rescale(party, &grown, all, self.sigma, wide)?;
        add_public(party, &mut start, wide.ring, wide.encode(self.shift));
        let stages: Vec<&Stage> = self.stages.iter().collect();
        later(party, &stages, 1, next, start, frac)
    }
}

/// The last t from the square of t_0, and t_0, in [`Chain::input`]`(frac)`.
fn after_first(
    party: &mut Party,
    stages: &[&Stage],
    squares: Vec<u64>,
    start: Vec<u64>,
    frac: u32,
) -> Result<Vec<u64>> {
    let known = [start];
    let t = next(party, stages[0], squares, &known, Chain::input(frac));
    let [start] = known;
    later(party, stages, 1, t, start, frac)
}

/// The last t from the one of number `at`, f fraction bits in Z_{2^(f+2)}; `start` is t_0 in Z_{2^(2f+2)}. A
/// t that a later stage mixes in grows with its own square.
fn later(
    party: &mut Party,
    stages: &[&Stage],
    at: usize,
    mut t: Vec<u64>,
    start: Vec<u64>,
    frac: u32,
) -> Result<Vec<u64>> {
    let (wide, narrow, mut known) = (Chain::input(frac), Ring::new(frac + 2), vec![start]);
    for (i, stage) in stages.iter().enumerate().skip(at) {
        let grows = stages[i + 1..].iter().any(|later| later.mix.len() > i);
        let ((squares, grown), ()) =
            square_growing(party, &t, [narrow, wide.ring], frac + SPARE, grows, |_| Ok(()))?;
        known.push(grown);
        t = next(party, stage, squares, &known, wide);
    }
    Ok(t)
}

/// The next t from the last one's square and those before, f fraction bits in Z_{2^(f+2)}.
fn next(party: &Party, stage: &Stage, mut sum: Vec<u64>, known: &[Vec<u64>], wide: Fixed) -> Vec<u64> {
    let (ring, frac) = (wide.ring, wide.frac);
    if stage.negate {
        sum.iter_mut().for_each(|s| *s = s.wrapping_neg());
    }
    for (&c, t) in stage.mix.iter().zip(known) {
        let c = wide.encode(c);
        sum.iter_mut()
            .zip(t)
            .for_each(|(s, t)| *s = s.wrapping_add(c.wrapping_mul(*t)));
    }
    let constant = Fixed {
        frac: 2 * frac,
        ..wide
    }
    .encode(stage.constant);
    add_public(party, &mut sum, ring, constant);
    sum.iter_mut().for_each(|s| *s = ring.reduce(*s));
    shift_rounded(party, &sum, ring, frac)
}
