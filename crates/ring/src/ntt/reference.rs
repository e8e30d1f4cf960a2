//! The transform in integers, one butterfly at a time: the definition for the SIMD paths.

use super::powers_bit_reversed;
use crate::Modulus;

/// psi^brv(i) and psi^-brv(i) for i < n.
#[derive(Debug)]
pub struct Roots {
    forward: Vec<u64>,
    inverse: Vec<u64>,
}

impl Roots {
    pub fn new(m: &Modulus, log_n: u32, psi: u64) -> Self {
        Self {
            forward: powers_bit_reversed(m, psi, log_n),
            inverse: powers_bit_reversed(m, m.inv(psi), log_n),
        }
    }
}

/// Cooley-Tukey, natural order in, bit-reversed out.
pub fn forward(m: &Modulus, roots: &Roots, x: &mut [f64]) {
    let n = x.len();
    let mut groups = 1;
    while groups < n {
        let len = n / groups;
        for (g, x) in x.chunks_exact_mut(len).enumerate() {
            let (low, high) = x.split_at_mut(len / 2);
            for (u, v) in low.iter_mut().zip(high) {
                let (a, b) = (*u as u64, m.mul(*v as u64, roots.forward[groups + g]));
                (*u, *v) = (m.add(a, b) as f64, m.sub(a, b) as f64);
            }
        }
        groups *= 2;
    }
}

/// Gentleman-Sande, bit-reversed in, natural order out, times 1/n.
pub fn inverse(m: &Modulus, roots: &Roots, x: &mut [f64]) {
    let n = x.len();
    let mut groups = n / 2;
    while groups > 0 {
        let len = n / groups;
        for (g, x) in x.chunks_exact_mut(len).enumerate() {
            let (low, high) = x.split_at_mut(len / 2);
            for (u, v) in low.iter_mut().zip(high) {
                let (a, b) = (*u as u64, *v as u64);
                (*u, *v) = (
                    m.add(a, b) as f64,
                    m.mul(m.sub(a, b), roots.inverse[groups + g]) as f64,
                );
            }
        }
        groups /= 2;
    }
    let scale = m.inv(n as u64);
    for x in x {
        *x = m.mul(*x as u64, scale) as f64;
    }
}
