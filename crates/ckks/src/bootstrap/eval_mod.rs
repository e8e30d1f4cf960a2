//! The modular reduction: t -> t - round(t) for t within 2^-7.5 of an integer, |t| <= 16.5.
//!
//! z = exp(2*pi*i*t / 8) is a complex Chebyshev series in t/17, fitted on the 33 intervals where t can lie
//! (Han and Ki, CT-RSA 2020, fit the cosine near integers likewise); three squarings give exp(2*pi*i*t). Then
//! Im(8z - z^2) / (12*pi) is t - round(t) up to the fifth power of its size, where the sine alone stops at
//! the third. Even coefficients are real and odd ones imaginary, so the series costs as much as a cosine.
//!
//! The fit spends its freedom where it counts. An error across z shifts t and is a loss of 230 times its size
//! in the message; one along z changes the length of z, which scales what is left of t, and costs 5.3 times
//! its size. So the latter weighs 1/64 (1/43 would make them equal; this is better in the end), which is what
//! lets degree 28 do for what took 31: see decision 21. A few rounds of weights even the intervals out.
use crate::params::{DOUBLINGS, MOD_RANGE};
use crate::sparse::{HALF_WIDTH, MAX_MULTIPLE};
use num_complex::Complex64;
use std::f64::consts::PI;

/// Degree of the series: the last before the dear ones, which take two relinearisations more.
pub const NEAR_DEGREE: usize = 28;
/// The largest degree of as many levels, which a series on all of [-17, 17] needs.
pub const DEGREE: usize = 31;
/// Weight of an error along z.
const ALONG: f64 = 1.0 / 64.0;
const POINTS: usize = 12;
const ROUNDS: usize = 6;

/// Chebyshev coefficients of a function whose eighth power is exp(2*pi*i * 17x) near the multiples of 1/17,
/// in direction, and nearly in length.
pub fn coefficients() -> Vec<Complex64> {
    let mut weights = vec![1.0; MAX_MULTIPLE as usize + 1];
    let mut found = fit(&weights);
    for _ in 1..ROUNDS {
        let errors: Vec<f64> = (0..=MAX_MULTIPLE).map(|k| worst(&found, k)).collect();
        let largest = errors.iter().copied().fold(0.0, f64::max);
        let even = |(w, e): (&mut f64, &f64)| *w *= (e / largest).sqrt();
        weights.iter_mut().zip(&errors).for_each(even);
        found = fit(&weights);
    }
    found
}

/// Largest error of a message, of size 1, at multiple `k` of q0.
fn worst(series: &[Complex64], k: i64) -> f64 {
    let error = |i: i32| {
        let r = f64::from(i) / 20.0 / 181.0;
        let theta = ((k as f64 + r) / MOD_RANGE).acos();
        let terms = series
            .iter()
            .enumerate()
            .map(|(n, a)| a * (n as f64 * theta).cos());
        let z = terms.sum::<Complex64>().powu(1 << DOUBLINGS);
        ((8.0 * z - z * z).im / (12.0 * PI) - r).abs() * 181.0
    };
    (-20..=20).map(error).fold(0.0, f64::max)
}

/// The series of least squares; weights: of the intervals at 0, 1, ... (those below zero are their mirrors).
fn fit(weights: &[f64]) -> Vec<Complex64> {
    let node = |i: usize| ((2 * i + 1) as f64 * PI / (2 * POINTS) as f64).cos();
    let interval = |(k, &w): (usize, &f64)| (0..POINTS).map(move |i| (k as f64 + HALF_WIDTH * node(i), w));
    let points: Vec<(f64, f64)> = weights.iter().enumerate().flat_map(interval).collect();
    let column = |n: usize| -> Vec<f64> {
        let value = |t: f64| {
            let angle = 2.0 * PI * t / f64::from(1u32 << DOUBLINGS);
            let c = (n as f64 * (t / MOD_RANGE).acos()).cos();
            if n.is_multiple_of(2) {
                [-angle.sin() * c, ALONG * angle.cos() * c]
            } else {
                [angle.cos() * c, ALONG * angle.sin() * c]
            }
        };
        points
            .iter()
            .flat_map(|&(t, w)| value(t).map(|x| w * x))
            .collect()
    };
    let wanted = points.iter().flat_map(|&(_, w)| [0.0, w * ALONG]).collect();
    let found = least_squares((0..=NEAR_DEGREE).map(column).collect(), wanted);
    let coefficient = |(n, c): (usize, f64)| match n % 2 {
        0 => Complex64::new(c, 0.0),
        _ => Complex64::new(0.0, c),
    };
    found.into_iter().enumerate().map(coefficient).collect()
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
    use crate::polynomial::{best_split, depth};

    #[test]
    fn reduction_is_accurate_at_every_multiple() {
        let series = coefficients();
        for k in -MAX_MULTIPLE..=MAX_MULTIPLE {
            let worst = worst(&series, k);
            assert!(worst < 2f64.powi(-23), "{k}: 2^{}", worst.log2());
        }
    }

    #[test]
    fn the_degree_is_the_last_cheap_one_of_its_depth() {
        assert_eq!(depth(NEAR_DEGREE), depth(DEGREE));
        let relinearisations = |degree: usize| best_split(degree).relinearisations;
        assert!(relinearisations(NEAR_DEGREE) < relinearisations(NEAR_DEGREE + 1));
        assert_eq!((relinearisations(NEAR_DEGREE), relinearisations(DEGREE)), (8, 10));
    }

    #[test]
    fn a_length_that_is_off_costs_little() {
        let series = coefficients();
        for k in 0..=MAX_MULTIPLE {
            let theta = (k as f64 / MOD_RANGE).acos();
            let z: Complex64 = (series.iter().enumerate())
                .map(|(n, a)| a * (n as f64 * theta).cos())
                .sum();
            assert!((z.norm() - 1.0).abs() < 2f64.powi(-25), "{k}: {}", z.norm() - 1.0);
        }
    }
}
