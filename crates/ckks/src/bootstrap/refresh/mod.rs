//! Bootstrapping that also applies a function ("functional bootstrapping"): slots w in [-1, 1] become f(w)
//! at a high level, for any real f that a trigonometric polynomial follows.
//!
//! An example: f(w) = GELU(128 w) / 128 by 127 harmonics. Where [`Bootstrapper::bootstrap`] returns w, from
//! which a polynomial then computes f within a calibrated interval, this returns f(w) for *every* w.
//!
//! | step | native level | what the ciphertext holds |
//! |---|---|---|
//! | slots-to-coefficients, times [`MULTIPLE`] | 0 | coefficients 64 w (bit-reversed) at scale q0 / 2^7.5 |
//! | mod-raise, coefficients-to-slots | 24 | slots t / 17, t = I + [`PHASE`] / (2 pi) * w, I integer |
//! | [`circle::coefficients`], three squarings | 16 | z = exp(2 pi i t) = exp(i PHASE w) |
//! | [`crate::polynomial`]: sum c_k z^k, plus its conjugate | 16 - depth | f(w) = Re sum 2 c_k z^k |
//!
//! `bootstrap` keeps messages at 2^-7.5 of q0 so that a short series near integers serves and 8z - z^2 is
//! nearly linear. Here the message fills [`PHASE`] / pi = 69 % of the period: multiplying by an integer
//! modulo q0 is exact and takes no level, a shorter message would need as many more harmonics. The rest of
//! the period is left to the function's *extension*, which joins f(1) to f(-1) smoothly (a Fourier
//! extension, ePrint 2026/367).
//!
//! **Range.** With the sparse secret of weight 32 abs(t) <= (1 + 32) / 2 whatever the message is, for t is
//! the whole of (c0 + c1 s) / q0; the series holds on all of [-17, 17]. So nothing can leave it, as
//! [`raised_range`] computes. A slot beyond 1 is no failure either but another argument of the extension;
//! one beyond pi / PHASE = 1.45 comes round to the other side.
//!
//! **Error.** Let e be the error of z. Then f errs by sum k abs(2 c_k) e, next to what the coefficients lack:
//! the slope in z of the polynomial. e consists of the series (2^-28 at most, see [`circle`]), of rounding
//! and of what w came with, times PHASE; at N = 2^10 e is 2^-29 on average. A fit must keep sum k abs(2
//! c_k) small: see `tacita.approx.fourier`. The suite measures all of it (`tests/suite/refresh.rs`).
pub mod circle;
pub mod shallow;

use super::{of_parts, Bootstrapper, Content};
use crate::backend::{Backend, CiphertextOf as Of};
use crate::params::{CkksParameters, DOUBLINGS};
use crate::sparse::RaisedRange;
use crate::{polynomial, CkksError, Evaluator};
use num_complex::Complex64;

/// What the coefficients are multiplied by before mod-raise: the largest power of two for which the message
/// stays below half of q0.
pub const MULTIPLE: i64 = 64;
/// Angle of z for w = 1 that fits are made for: [`phase`] of preset `n16`, about 64 / (12 * 2^1.3).
pub const PHASE: f64 = 2.166_006_510_901_662;
/// Slots beyond 1 by this share are still where a fit follows its function.
pub const MARGIN: f64 = 1.0 / 256.0;

/// Angle of z for w = 1: 2 pi * [`MULTIPLE`] * coefficient scale / q0. That of the toy presets differs from
/// [`PHASE`] by a share of 2^-24, the distance of their primes from a power of two.
pub fn phase(p: &CkksParameters) -> f64 {
    std::f64::consts::TAU * MULTIPLE as f64 * p.coefficient_scale() / p.prime(0)
}

/// f(w) = Re sum_k c_k exp(i k PHASE w), checked.
#[derive(Clone, Debug)]
pub struct Harmonics {
    halves: Vec<Complex64>,
}

impl Harmonics {
    /// From c_0, c_1 ...: at least one harmonic.
    ///
    /// # Errors
    /// [`CkksError::Shape`] for a constant, or coefficients that are not finite.
    pub fn new(coefficients: &[Complex64]) -> Result<Self, CkksError> {
        let finite = coefficients.iter().all(|c| c.re.is_finite() && c.im.is_finite());
        let end = coefficients.iter().rposition(|c| c.norm() > 0.0).unwrap_or(0);
        if !finite || end == 0 {
            return Err(CkksError::Shape {
                op: "bootstrap_through",
                detail: format!(
                    "{} coefficients are not a finite trigonometric polynomial of degree >= 1",
                    coefficients.len()
                ),
            });
        }
        Ok(Self {
            halves: coefficients[..=end].iter().map(|c| c / 2.0).collect(),
        })
    }

    /// Levels from z to the result: ceil(log2(degree + 1)).
    pub fn depth(&self) -> usize {
        polynomial::depth(self.halves.len() - 1)
    }

    /// Native level of the results.
    ///
    /// # Errors
    /// [`CkksError::Level`] where that would be below the bottom level.
    pub fn out_level(&self, p: &CkksParameters) -> Result<usize, CkksError> {
        let z = p.top_level() + 1;
        z.checked_sub(self.depth())
            .filter(|level| *level >= p.bottom_level())
            .ok_or(CkksError::Level {
                op: "bootstrap_through",
                level: p.user_level(z),
                needed: self.depth(),
            })
    }
}

impl<B: Backend> Bootstrapper<B> {
    /// f of every slot of every input, as many at once as by [`Self::bootstrap_many`]. Inputs as there;
    /// results at [`Harmonics::out_level`]. Complex inputs become f(Re w) + i f(Im w), pairs f of each.
    ///
    /// Cost: a bootstrap less one level, and [`polynomial::best_split`] products for each part.
    ///
    /// # Errors
    /// [`CkksError::Level`] below the bottom level or for too many harmonics, missing keys.
    pub fn bootstrap_through_many(
        &self,
        e: &Evaluator<B>,
        inputs: &[(Of<B>, Content)],
        f: &Harmonics,
    ) -> Result<Vec<Of<B>>, CkksError> {
        self.many(e, inputs, |c, content| self.bootstrap_through(e, c, content, f))
    }

    /// f of every slot of one input.
    ///
    /// # Errors
    /// As [`Self::bootstrap_through_many`].
    pub fn bootstrap_through(
        &self,
        e: &Evaluator<B>,
        c: &Of<B>,
        content: Content,
        f: &Harmonics,
    ) -> Result<Vec<Of<B>>, CkksError> {
        f.out_level(e.params())?;
        let low = e.mul_integer(&self.slots_to_coefficients(e, c)?, MULTIPLE)?;
        let slots = self.coefficients_to_slots(e, self.mod_raise(e, &low)?)?;
        self.apply_to_phase(e, &slots, content, f)
    }

    /// Slots t / 17 -> f(w), from the result of coefficients-to-slots.
    ///
    /// # Errors
    /// As [`Self::bootstrap_through_many`].
    pub fn apply_to_phase(
        &self,
        e: &Evaluator<B>,
        slots: &Of<B>,
        content: Content,
        f: &Harmonics,
    ) -> Result<Vec<Of<B>>, CkksError> {
        let level = f.out_level(e.params())?;
        let scale = e.params().scale(level);
        of_parts(e, slots, content, Complex64::new(1.0, 0.0), |x| {
            e.power_series(&self.phase(e, x)?, &f.halves, Some(scale))
        })
    }

    /// Slots t / 17 -> z = exp(2 pi i t), one level above the top and at the scale of which the square is
    /// canonical, so that powers keep their scales.
    fn phase(&self, e: &Evaluator<B>, x: &Of<B>) -> Result<Of<B>, CkksError> {
        let mut z = e.chebyshev(x, &self.circle, Some(series_scale(e.params())))?;
        for _ in 0..DOUBLINGS {
            z = e.mul(&z, &z)?;
        }
        Ok(z)
    }
}

/// Scale of the series whose squarings, [`DOUBLINGS`] of them and one more, end in the canonical scale.
fn series_scale(p: &CkksParameters) -> f64 {
    let top = p.top_level();
    (0..=DOUBLINGS).fold(p.scale(top), |s, i| (s * p.prime(top + i + 1)).sqrt())
}

/// What decides whether a refresh gets a value that it was not made for: the multiples of q0, and the message
/// with its noise beyond [`MARGIN`].
pub fn raised_range(p: &CkksParameters) -> RaisedRange {
    let narrow = p.raised_range();
    let message = phase(p) / std::f64::consts::TAU;
    RaisedRange {
        message,
        half_width: message * (1.0 + MARGIN),
        noise: RaisedRange::noise_of(p.rlwe(), message),
        ..narrow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRESETS: [&str; 4] = ["n16", "insecure_toy_n8", "insecure_toy_n10", "insecure_toy_n12"];

    #[test]
    fn the_phase_is_that_of_all_presets() {
        for name in PRESETS {
            let p = CkksParameters::preset(name).unwrap();
            let exact = phase(&p);
            let allowed = if name == "n16" { 1e-14 } else { 2f64.powf(-23.9) };
            assert!((exact / PHASE - 1.0).abs() < allowed, "{name}: {exact}");
        }
    }

    #[test]
    fn a_wide_message_cannot_leave_the_range() {
        for name in PRESETS {
            let range = raised_range(&CkksParameters::preset(name).unwrap());
            assert!((0.34..0.35).contains(&range.message) && range.half_width < 0.5);
            assert_eq!(range.failure_log2(), -1000.0);
            let beyond = RaisedRange {
                half_width: range.message,
                ..range
            };
            assert!(beyond.failure_log2() > -2.0);
        }
    }

    #[test]
    fn depth_and_level_are_those_of_the_degree() {
        let p = CkksParameters::preset("insecure_toy_n8").unwrap();
        let of = |degree: usize| Harmonics::new(&vec![Complex64::new(1.0, 0.0); degree + 1]).unwrap();
        assert_eq!(
            (of(1).depth(), of(3).depth(), of(127).depth(), of(128).depth()),
            (1, 2, 7, 8)
        );
        assert_eq!(of(127).out_level(&p).unwrap(), p.top_level() - 6);
        assert!(of(1 << 18).out_level(&p).is_err());
    }

    #[test]
    fn what_is_no_series_is_refused() {
        let zero = Complex64::new(0.0, 0.0);
        let one = Complex64::new(1.0, 0.0);
        for bad in [
            vec![],
            vec![one],
            vec![one, zero],
            vec![one, Complex64::new(f64::NAN, 0.0)],
        ] {
            assert!(Harmonics::new(&bad).is_err());
        }
    }
}
