//! Primality and the search for NTT-friendly primes.

use crate::RingError;

/// Smallest modulus (exclusive): keeps `|a| / p` small enough for exact quotients in `switch_modulus`.
pub const MIN_MODULUS: u64 = 1 << 20;
/// Largest modulus (exclusive): 8p = 2^53 is the range of exact integers in a double.
pub const MAX_MODULUS: u64 = 1 << 50;

fn mul_mod(a: u64, b: u64, n: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(n)) as u64
}

fn pow_mod(mut base: u64, mut exponent: u64, n: u64) -> u64 {
    let mut result = 1;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = mul_mod(result, base, n);
        }
        base = mul_mod(base, base, n);
        exponent >>= 1;
    }
    result
}

/// Does `witness` prove that the odd n is composite? (Miller-Rabin)
fn is_witness(witness: u64, n: u64) -> bool {
    let twos = (n - 1).trailing_zeros();
    let mut x = pow_mod(witness, (n - 1) >> twos, n);
    if x == 1 || x == n - 1 {
        return false;
    }
    for _ in 1..twos {
        x = mul_mod(x, x, n);
        if x == n - 1 {
            return false;
        }
    }
    true
}

/// Deterministic primality for all of u64 (the first twelve primes are enough witnesses: Sorenson and
/// Webster, 2015).
pub fn is_prime(n: u64) -> bool {
    const WITNESSES: [u64; 12] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37];
    if n < 2 {
        return false;
    }
    for small in WITNESSES {
        if n.is_multiple_of(small) {
            return n == small;
        }
    }
    !WITNESSES.iter().any(|&w| is_witness(w, n))
}

/// The `count` primes = 1 mod 2^log_2n nearest to 2^bits_target, nearest first, between 2^20 and 2^50, none
/// in `exclude`.
pub fn ntt_primes(
    bits_target: f64,
    log_2n: u32,
    count: usize,
    exclude: &[u64],
) -> Result<Vec<u64>, RingError> {
    let (step, centre) = (1i64 << log_2n, bits_target.exp2());
    let mut above = (centre as i64 / step) * step + 1;
    if (above as f64) < centre {
        above += step;
    }
    let mut below = above - step;
    let mut found = Vec::with_capacity(count);
    while found.len() < count {
        let (up, down) = (above < MAX_MODULUS as i64, below > MIN_MODULUS as i64);
        let candidate = match (up, down) {
            (false, false) => {
                return Err(RingError::NotEnoughPrimes {
                    found: found.len(),
                    wanted: count,
                    log_2n,
                })
            }
            (true, down) if !down || above as f64 - centre <= centre - below as f64 => {
                above += step;
                above - step
            }
            _ => {
                below -= step;
                below + step
            }
        } as u64;
        if candidate > MIN_MODULUS && !exclude.contains(&candidate) && is_prime(candidate) {
            found.push(candidate);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primality_of_known_numbers() {
        for n in [2, 3, 37, 65537, (1 << 61) - 1, 18_446_744_073_709_551_557] {
            assert!(is_prime(n), "{n}");
        }
        for n in [0, 1, 4, 561, 3_215_031_751, 3_825_123_056_546_413_051, u64::MAX] {
            assert!(!is_prime(n), "{n}");
        }
    }

    #[test]
    fn primes_are_nearest_distinct_and_friendly() {
        let primes = ntt_primes(44.0, 17, 13, &[]).unwrap();
        let distance = |p: u64| (p as f64 - 44f64.exp2()).abs();
        for pair in primes.windows(2) {
            assert!(distance(pair[0]) <= distance(pair[1]));
        }
        assert!(primes.iter().all(|&p| p % (1 << 17) == 1 && is_prime(p)));
        assert!(primes.iter().any(|&p| p > 1 << 44) && primes.iter().any(|&p| p < 1 << 44));
        let others = ntt_primes(44.0, 17, 5, &primes).unwrap();
        assert!(others.iter().all(|p| !primes.contains(p)));
    }

    #[test]
    fn stays_below_the_limit_and_reports_exhaustion() {
        assert!(ntt_primes(50.0, 17, 10, &[])
            .unwrap()
            .iter()
            .all(|&p| p < MAX_MODULUS));
        assert!(matches!(
            ntt_primes(49.0, 47, 50, &[]),
            Err(RingError::NotEnoughPrimes { .. })
        ));
    }
}
