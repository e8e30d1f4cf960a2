//! Limbs and primes for tests.

use crate::sample::{uniform, Prng};
use crate::{ntt_primes, AlignedVec, Modulus};

/// The largest primes = 1 mod 2^log_2n below 2^50, a middle one and a small one.
pub fn sample_primes(log_2n: u32) -> Vec<Modulus> {
    let mut primes = ntt_primes(50.0, log_2n, 2, &[]).unwrap();
    primes.extend(ntt_primes(44.0, log_2n, 1, &[]).unwrap());
    primes.extend(ntt_primes(22.0, log_2n, 1, &[]).unwrap());
    primes.into_iter().map(|p| Modulus::new(p).unwrap()).collect()
}

pub fn random_limb(m: &Modulus, n: usize, seed: u8) -> AlignedVec {
    let mut out = AlignedVec::zeroed(n);
    uniform(&mut Prng::from_seed([seed; 32]), m, &mut out);
    out
}

/// 0, 1, p - 1 and the middle, in an order that meets all pairs when two such limbs of different `n` phases
/// are combined.
pub fn edge_limb(m: &Modulus, n: usize) -> AlignedVec {
    let edges = [0, 1, m.p() - 1, m.p() / 2, m.p() / 2 + 1, m.p() - 2, 2];
    let values: Vec<f64> = (0..n).map(|i| edges[(i * i + i / 7) % 7] as f64).collect();
    AlignedVec::from_slice(&values)
}
