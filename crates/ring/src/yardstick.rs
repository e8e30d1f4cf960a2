//! The unit of time of our benchmarks, Y: one scalar 64-bit negacyclic NTT with Harvey's lazy butterflies and
//! Shoup's precomputed quotients, on the same core in the same run. Times in Y carry from machine to machine.

use crate::ntt::powers_bit_reversed;
use crate::{ntt_primes, Modulus, NttTable};
use std::time::Instant;

/// Roots and data of the scalar transform.
pub struct Yardstick {
    p: u64,
    roots: Vec<u64>,
    quotients: Vec<u64>,
    data: Vec<u64>,
}

impl Yardstick {
    /// Degree 2^log_n, 1 <= log_n <= 17; Y itself is log_n = 16.
    pub fn new(log_n: u32) -> Self {
        let p = ntt_primes(49.0, log_n + 1, 1, &[]).expect("primes near 2^49 abound")[0];
        let m = Modulus::new(p).expect("a prime in range");
        let psi = NttTable::new(m, log_n).expect("a degree in range").psi();
        let roots = powers_bit_reversed(&m, psi, log_n);
        let quotients = roots
            .iter()
            .map(|&w| ((u128::from(w) << 64) / u128::from(p)) as u64)
            .collect();
        Self {
            p,
            roots,
            quotients,
            data: (0..1 << log_n).map(|i| m.pow(3, i)).collect(),
        }
    }

    /// One transform, in place over the result of the last one.
    pub fn run(&mut self) {
        let (n, p, p2) = (self.data.len(), self.p, 2 * self.p);
        let mut groups = 1;
        while groups < n {
            match n / groups {
                2 => self.level::<2>(groups, 2),
                4 => self.level::<4>(groups, 4),
                8 => self.level::<8>(groups, 8),
                len => self.level::<0>(groups, len),
            }
            groups *= 2;
        }
        for x in &mut self.data {
            *x = if *x >= p2 { *x - p2 } else { *x };
            *x = if *x >= p { *x - p } else { *x };
        }
    }

    /// One level; LEN is the length of a group where it is short (a constant saves its loop), else 0.
    fn level<const LEN: usize>(&mut self, groups: usize, len: usize) {
        let len = if LEN > 0 { LEN } else { len };
        let roots = self.roots[groups..2 * groups]
            .iter()
            .zip(&self.quotients[groups..2 * groups]);
        for (x, (&w, &quotient)) in self.data.chunks_exact_mut(len).zip(roots) {
            butterflies(x, w, quotient, self.p);
        }
    }

    /// The residues after the last run.
    pub fn data(&self) -> &[u64] {
        &self.data
    }
}

/// Values stay below 4p.
#[inline(always)]
fn butterflies(x: &mut [u64], w: u64, quotient: u64, p: u64) {
    let (low, high) = x.split_at_mut(x.len() / 2);
    for (u, v) in low.iter_mut().zip(high) {
        let a = if *u >= 2 * p { *u - 2 * p } else { *u };
        let q = ((u128::from(*v) * u128::from(quotient)) >> 64) as u64;
        let b = v.wrapping_mul(w).wrapping_sub(q.wrapping_mul(p));
        (*u, *v) = (a + b, a + 2 * p - b);
    }
}

/// The best time of `repeats` runs, in milliseconds.
pub fn yardstick_ms(log_n: u32, repeats: usize) -> f64 {
    let mut yardstick = Yardstick::new(log_n);
    let mut best = f64::INFINITY;
    for _ in 0..repeats.max(1) {
        let start = Instant::now();
        yardstick.run();
        best = best.min(start.elapsed().as_secs_f64() * 1e3);
    }
    std::hint::black_box(yardstick.data());
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_yardstick_computes_the_transform() {
        let mut yardstick = Yardstick::new(10);
        let m = Modulus::new(yardstick.p).unwrap();
        let mut x: Vec<f64> = yardstick.data().iter().map(|&v| v as f64).collect();
        NttTable::new(m, 10).unwrap().forward(&mut x);
        yardstick.run();
        assert!(x.iter().zip(yardstick.data()).all(|(&a, &b)| a == b as f64));
    }

    #[test]
    fn times_are_positive() {
        assert!(yardstick_ms(8, 3) > 0.0);
    }
}
