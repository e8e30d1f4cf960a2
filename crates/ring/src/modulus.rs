//! One prime modulus: its constants in doubles for the SIMD paths, and the u64/u128 arithmetic of the
//! reference path.

use crate::primes::{is_prime, MAX_MODULUS, MIN_MODULUS};
use crate::RingError;

/// An odd prime `2^20 < p < 2^50`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Modulus {
    p: u64,
    pub(crate) p_f: f64,
    /// 1/p rounded to nearest.
    pub(crate) inv: f64,
    /// floor(2^64 / p).
    reciprocal: u64,
}

impl Modulus {
    /// Checks the range and primality of `p`.
    pub fn new(p: u64) -> Result<Self, RingError> {
        let invalid = |reason| Err(RingError::InvalidModulus { modulus: p, reason });
        if !(MIN_MODULUS < p && p < MAX_MODULUS) {
            return invalid("is out of range");
        }
        if !is_prime(p) {
            return invalid("is not prime");
        }
        Ok(Self {
            p,
            p_f: p as f64,
            inv: 1.0 / p as f64,
            reciprocal: ((1u128 << 64) / u128::from(p)) as u64,
        })
    }

    #[inline]
    pub fn p(&self) -> u64 {
        self.p
    }

    /// a + b mod p for a, b < p.
    #[inline]
    pub fn add(&self, a: u64, b: u64) -> u64 {
        let sum = a + b;
        if sum >= self.p {
            sum - self.p
        } else {
            sum
        }
    }

    /// a - b mod p for a, b < p.
    #[inline]
    pub fn sub(&self, a: u64, b: u64) -> u64 {
        if a >= b {
            a - b
        } else {
            a + self.p - b
        }
    }

    /// -a mod p for a < p.
    #[inline]
    pub fn neg(&self, a: u64) -> u64 {
        self.sub(0, a)
    }

    /// a * b mod p for any a, b.
    #[inline]
    pub fn mul(&self, a: u64, b: u64) -> u64 {
        // WebAssembly has neither products of 128 bits nor their division.
        #[cfg(target_family = "wasm")]
        if a < self.p && b < self.p {
            return self.mul_by_quotient(a, b);
        }
        (u128::from(a) * u128::from(b) % u128::from(self.p)) as u64
    }

    /// The same for a, b < p. The quotient is below 2^50, so that doubles find it but for one: the remainder
    /// lies in (-p, 2p).
    #[cfg(any(test, target_family = "wasm"))]
    #[inline]
    fn mul_by_quotient(&self, a: u64, b: u64) -> u64 {
        let quotient = (a as f64 * b as f64 * self.inv) as i64;
        let remainder = a.wrapping_mul(b) as i64;
        let remainder = remainder.wrapping_sub(quotient.wrapping_mul(self.p as i64));
        self.add_if_negative(self.add_if_negative(remainder) - self.p as i64) as u64
    }

    /// base^exponent mod p.
    pub fn pow(&self, base: u64, mut exponent: u64) -> u64 {
        let (mut result, mut base) = (1, base % self.p);
        while exponent > 0 {
            if exponent & 1 == 1 {
                result = self.mul(result, base);
            }
            base = self.mul(base, base);
            exponent >>= 1;
        }
        result
    }

    /// 1/a mod p; 0 for a = 0 mod p (Fermat).
    pub fn inv(&self, a: u64) -> u64 {
        self.pow(a, self.p - 2)
    }

    /// The residue of a signed integer, without a division or a branch: coefficients of secrets and errors
    /// pass here.
    ///
    /// The quotient is off by less than |x| / 2^64 <= 1/2 before its floor is taken, so it is right or off by
    /// one, and the remainder lies in [-p, 2p).
    #[inline]
    pub fn from_i64(&self, x: i64) -> u64 {
        let quotient = ((i128::from(x) * i128::from(self.reciprocal)) >> 64) as i64;
        let remainder = x.wrapping_sub(quotient.wrapping_mul(self.p as i64));
        let below_p = self.add_if_negative(self.add_if_negative(remainder) - self.p as i64);
        below_p as u64
    }

    /// x < 0 ? x + p : x
    #[inline]
    fn add_if_negative(&self, x: i64) -> i64 {
        x + (self.p as i64 & (x >> 63))
    }

    /// floor(w 2^64 / p), by which [`Self::mul_shoup`] multiplies by w < p.
    pub fn shoup(&self, w: u64) -> u64 {
        ((u128::from(w) << 64) / u128::from(self.p)) as u64
    }

    /// a * w mod p for any a, without a division or a branch (Shoup's trick): the remainder lies in [0, 2p).
    #[inline]
    pub fn mul_shoup(&self, a: u64, w: u64, shoup: u64) -> u64 {
        let quotient = ((u128::from(a) * u128::from(shoup)) >> 64) as u64;
        let remainder = a.wrapping_mul(w).wrapping_sub(quotient.wrapping_mul(self.p));
        self.add_if_negative(remainder as i64 - self.p as i64) as u64
    }

    /// The residue of a wide signed integer.
    #[inline]
    pub fn from_i128(&self, x: i128) -> u64 {
        x.rem_euclid(i128::from(self.p)) as u64
    }

    /// The representative of a < p in (-p/2, p/2), without a branch: decrypted values pass here.
    #[inline]
    pub fn center(&self, a: u64) -> i64 {
        let above_half = ((self.p / 2) as i64 - a as i64) >> 63;
        a as i64 - (self.p as i64 & above_half)
    }

    /// A factor ready for the SIMD paths: its centred representative w and w/p.
    pub(crate) fn factor(&self, c: u64) -> (f64, f64) {
        let w = self.center(c % self.p) as f64;
        (w, w / self.p_f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_is_no_prime_in_range() {
        for p in [0, 2, 65537, (1 << 20) + 1, (1 << 50) + 55, 1 << 49] {
            assert!(
                matches!(Modulus::new(p), Err(RingError::InvalidModulus { .. })),
                "{p}"
            );
        }
    }

    #[test]
    fn inverse_center_and_signed_residues() {
        let m = Modulus::new(1_125_899_906_842_597).unwrap();
        for a in [1, 2, 12345, m.p() - 1] {
            assert_eq!(m.mul(a, m.inv(a)), 1);
            assert_eq!(m.from_i64(m.center(a)), a);
            assert_eq!(m.add(a, m.neg(a)), 0);
            assert_eq!(m.from_i128(i128::from(m.p()) * -7 + i128::from(a)), a);
        }
        assert_eq!(m.sub(3, 5), m.p() - 2);
        assert_eq!(m.from_i64(-1), m.p() - 1);
    }

    #[test]
    fn products_by_doubles_are_those_of_a_division() {
        for p in [1_125_899_906_842_597, 1_048_583, 281_474_976_710_597] {
            let m = Modulus::new(p).unwrap();
            let mut x = 1u64;
            let mut next = || {
                x = x
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (x >> 14) % p
            };
            let edges = [0, 1, 2, p / 2, p / 2 + 1, p - 2, p - 1];
            let values: Vec<u64> = edges.into_iter().chain((0..500).map(|_| next())).collect();
            for &a in &values {
                for &b in values.iter().chain(&[m.inv(a.max(1))]) {
                    assert_eq!(m.mul_by_quotient(a, b), m.mul(a, b), "{a} * {b} mod {p}");
                }
            }
        }
    }

    #[test]
    fn residues_without_division_are_those_of_a_division() {
        for p in [1_125_899_906_842_597, 1_048_583, 281_474_976_710_597] {
            let m = Modulus::new(p).unwrap();
            let signed = p as i64;
            let near = |x: i64| (-3..=3).map(move |d| x.saturating_add(d));
            let middles = [0, signed / 2, signed, i64::MAX, i64::MIN];
            let multiples = [-7, 2, 1000].map(|k| k * signed);
            for x in middles.into_iter().chain(multiples).flat_map(near) {
                assert_eq!(m.from_i64(x), x.rem_euclid(signed) as u64, "{x} mod {p}");
                let w = m.from_i64(x);
                for a in [0, 1, p - 1, x as u64, u64::MAX] {
                    assert_eq!(m.mul_shoup(a, w, m.shoup(w)), m.mul(a, w), "{a} * {w} mod {p}");
                }
            }
            for (a, centred) in [
                (0, 0),
                (p / 2, signed / 2),
                (p / 2 + 1, -(signed / 2)),
                (p - 1, -1),
            ] {
                assert_eq!(m.center(a), centred);
            }
        }
    }
}
