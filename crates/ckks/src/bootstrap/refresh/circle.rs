//! The first step of a refresh through a function: t -> exp(2*pi*i*t / 8) on all of [-17, 17].
//!
//! `eval_mod` fits near integers, where messages below 2^-7.4 of q0 can lie. A message that fills two thirds
//! of the period can lie anywhere, so this series holds everywhere: the Chebyshev coefficients of
//! exp(i a x), a = 2 pi 17 / 8 = 13.35, are (2 -) i^n J_n(a), and what is left beyond degree 31 is
//! 2 abs(J_32(a)) = 2^-31, 2^-28 after three squarings. Even coefficients are real and odd ones imaginary.
use super::super::eval_mod::DEGREE;
use crate::params::{DOUBLINGS, MOD_RANGE};
use num_complex::Complex64;
use std::f64::consts::PI;

/// Nodes of the quadrature by which the coefficients are found: exact to rounding from degree 60 on.
const NODES: usize = 96;

/// Chebyshev coefficients of exp(2*pi*i * 17x / 2^3).
pub fn coefficients() -> Vec<Complex64> {
    let nodes: Vec<f64> = (0..NODES).map(|j| PI * (j as f64 + 0.5) / NODES as f64).collect();
    let angle = 2.0 * PI * MOD_RANGE / f64::from(1u32 << DOUBLINGS);
    (0..=DEGREE)
        .map(|n| {
            let part = |value: fn(f64) -> f64| {
                let terms = nodes
                    .iter()
                    .map(|x| (n as f64 * x).cos() * value(angle * x.cos()));
                terms.sum::<f64>() * if n == 0 { 1.0 } else { 2.0 } / NODES as f64
            };
            if n % 2 == 0 {
                Complex64::new(part(f64::cos), 0.0)
            } else {
                Complex64::new(0.0, part(f64::sin))
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_circle_is_met_everywhere() {
        let c = coefficients();
        let mut worst = 0f64;
        for i in -17_000i32..=17_000 {
            let t = f64::from(i) / 1000.0;
            let theta = (t / MOD_RANGE).acos();
            let z: Complex64 = c
                .iter()
                .enumerate()
                .map(|(n, a)| a * (n as f64 * theta).cos())
                .sum();
            let exact = Complex64::from_polar(1.0, 2.0 * PI * t);
            worst = worst.max((z.powu(8) - exact).norm());
        }
        assert!((-28.5..-27.5).contains(&worst.log2()), "2^{}", worst.log2());
    }
}
