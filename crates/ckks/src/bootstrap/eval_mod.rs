//! The modular reduction: t -> t - round(t) for t within 2^-7.5 of an integer, |t| <= 16.5.
//!
//! z = exp(2*pi*i*t / 8) is a complex Chebyshev series of degree 31 in t/17, fitted by least squares on the
//! 33 intervals where t can lie (Han and Ki, CT-RSA 2020, fit the cosine near integers likewise); three
//! squarings give exp(2*pi*i*t). Then Im(8z - z^2) / (12*pi) is t - round(t) up to the fifth power of its
//! size, where the sine alone stops at the third. Even coefficients are real and odd ones imaginary, so the
//! series costs as much as a cosine.
use crate::params::{DOUBLINGS, MOD_RANGE};
use num_complex::Complex64;
use std::f64::consts::PI;

/// Degree of the series.
pub const DEGREE: usize = 31;
/// Largest multiple of q0 after mod-raise, for a secret of weight 32.
pub(crate) const MAX_MULTIPLE: i64 = 16;
/// Half-width of the intervals of the fit.
pub(crate) const HALF_WIDTH: f64 = 1.05 / 181.0;
const POINTS: usize = 12;

/// Chebyshev coefficients of exp(2*pi*i * 17x / 2^3).
pub fn coefficients() -> Vec<Complex64> {
    let points: Vec<f64> = (-MAX_MULTIPLE..=MAX_MULTIPLE)
        .flat_map(|k| {
            (0..POINTS).map(move |i| {
                let node = ((2 * i + 1) as f64 * PI / (2 * POINTS) as f64).cos();
                k as f64 + HALF_WIDTH * node
            })
        })
        .collect();
    let mut out = vec![Complex64::new(0.0, 0.0); DEGREE + 1];
    for parity in 0..2 {
        let target = |t: f64| {
            let angle = 2.0 * PI * t / f64::from(1u32 << DOUBLINGS);
            if parity == 0 {
                angle.cos()
            } else {
                angle.sin()
            }
        };
        let degrees: Vec<usize> = (parity..=DEGREE).step_by(2).collect();
        let chebyshev = |n: usize| {
            points
                .iter()
                .map(|t| (n as f64 * (t / MOD_RANGE).acos()).cos())
                .collect()
        };
        let columns: Vec<Vec<f64>> = degrees.iter().map(|&n| chebyshev(n)).collect();
        let rhs = points.iter().map(|&t| target(t)).collect();
        for (&n, c) in degrees.iter().zip(least_squares(columns, rhs)) {
            out[n] = if parity == 0 {
                Complex64::new(c, 0.0)
            } else {
                Complex64::new(0.0, c)
            };
        }
    }
    out
}

/// Minimises |A x - b| by Householder reflections; `columns` are those of A.
fn least_squares(mut columns: Vec<Vec<f64>>, mut b: Vec<f64>) -> Vec<f64> {
    for k in 0..columns.len() {
        let below = &columns[k][k..];
        let norm = below.iter().map(|x| x * x).sum::<f64>().sqrt();
        let mut v = below.to_vec();
        v[0] += norm.copysign(v[0]);
        let vv: f64 = v.iter().map(|x| x * x).sum();
        for column in columns[k..].iter_mut().chain(std::iter::once(&mut b)) {
            let dot: f64 = v.iter().zip(&column[k..]).map(|(x, y)| x * y).sum();
            column[k..]
                .iter_mut()
                .zip(&v)
                .for_each(|(y, x)| *y -= 2.0 * dot / vv * x);
        }
    }
    let mut x = vec![0.0; columns.len()];
    for k in (0..x.len()).rev() {
        let known: f64 = (k + 1..x.len()).map(|j| columns[j][k] * x[j]).sum();
        x[k] = (b[k] - known) / columns[k][k];
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reduction_is_accurate_at_every_multiple() {
        let c = coefficients();
        let mut worst = 0f64;
        for k in -16i64..=16 {
            for i in -20i32..=20 {
                let r = f64::from(i) / 20.0 / 181.0;
                let theta = ((k as f64 + r) / MOD_RANGE).acos();
                let z: Complex64 = c
                    .iter()
                    .enumerate()
                    .map(|(n, a)| a * (n as f64 * theta).cos())
                    .sum();
                let z = z.powu(8);
                let t = (8.0 * z - z * z).im / (12.0 * PI);
                worst = worst.max((t - r).abs() * 181.0);
            }
        }
        assert!(worst < 2f64.powi(-23), "2^{}", worst.log2());
    }
}
