//! The maps X -> X^g for odd g, on values (a permutation) and on coefficients (a signed one).

use crate::ntt::bit_reverse;
use crate::Modulus;

/// perm such that NTT(a(X^g))[i] = NTT(a)[perm[i]] for every prime. `galois` is odd; taken mod 2n.
pub fn automorphism_permutation(log_n: u32, galois: u64) -> Vec<u32> {
    assert!(
        galois % 2 == 1,
        "automorphism_permutation: the Galois element {galois} is even"
    );
    let mask = (2u64 << log_n) - 1;
    let source = |i: usize| {
        let exponent = (2 * bit_reverse(i, log_n) as u64 + 1).wrapping_mul(galois) & mask;
        bit_reverse((exponent >> 1) as usize, log_n) as u32
    };
    (0..1usize << log_n).map(source).collect()
}

/// out = a(X^g) mod X^n + 1 on canonical coefficients: coefficient i goes to i g mod n, negated where i g mod 2n >= n.
pub fn automorphism_coefficients(m: &Modulus, a: &[f64], galois: u64, out: &mut [f64]) {
    let n = a.len();
    assert!(galois % 2 == 1 && n.is_power_of_two() && out.len() == n);
    let (mask, mut target) = (2 * n - 1, 0usize);
    for &value in a {
        out[target & (n - 1)] = if target < n { value } else { m.neg(value as u64) as f64 };
        target = (target + galois as usize) & mask;
    }
}
