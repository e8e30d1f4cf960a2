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

/// out = a(X^g) mod X^n + 1 on canonical coefficients: coefficient i goes to i g mod n, negated where i g mod
/// 2n >= n.
pub fn automorphism_coefficients(m: &Modulus, a: &[f64], galois: u64, out: &mut [f64]) {
    let n = a.len();
    assert!(galois % 2 == 1 && n.is_power_of_two() && out.len() == n);
    let (mask, mut target) = (2 * n - 1, 0usize);
    for &value in a {
        out[target & (n - 1)] = if target < n {
            value
        } else {
            m.neg(value as u64) as f64
        };
        target = (target + galois as usize) & mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{random_limb, sample_primes};
    use crate::{kernels, AlignedVec, NttTable};
    use proptest::prelude::*;

    #[test]
    fn the_permutation_is_the_map_on_coefficients() {
        for log_n in [1, 5, 8] {
            let m = sample_primes(18)[0];
            let (n, table) = (1usize << log_n, NttTable::new(m, log_n).unwrap());
            for galois in [1, 3, 5, 25, 2 * n as u64 - 1] {
                let a = random_limb(&m, n, 1);
                let (mut mapped, mut values, mut permuted) =
                    (AlignedVec::zeroed(n), a.clone(), AlignedVec::zeroed(n));
                automorphism_coefficients(&m, &a, galois, &mut mapped);
                table.forward(&mut mapped);
                table.forward(&mut values);
                kernels::permute(&mut permuted, &values, &automorphism_permutation(log_n, galois));
                assert_eq!(mapped, permuted, "log_n {log_n}, g {galois}");
            }
        }
    }

    proptest! {
        /// X -> X^g then X -> X^h is X -> X^(gh).
        #[test]
        fn automorphisms_compose(g in 0u64..128, h in 0u64..128) {
            let (g, h) = (2 * g + 1, 2 * h + 1);
            let (first, second) = (automorphism_permutation(6, g), automorphism_permutation(6, h));
            let both: Vec<u32> = second.iter().map(|&i| first[i as usize]).collect();
            prop_assert_eq!(both, automorphism_permutation(6, g * h));
        }
    }
}
