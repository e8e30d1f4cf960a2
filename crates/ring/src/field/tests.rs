//! The stated ranges at their ends: worst primes, worst operands, every vector type of this processor.

use super::*;
#[cfg(target_arch = "aarch64")]
use crate::simd::Neon;
#[cfg(target_arch = "x86_64")]
use crate::simd::{Avx2, Avx512, Path};
use crate::testing::sample_primes;
use proptest::prelude::*;

/// One operation on one value (all lanes alike).
fn lane0<S: Simd>(s: S, v: S::V) -> f64 {
    let mut out = [0.0; 8];
    // SAFETY: no vector has more than eight lanes.
    unsafe { s.store(out.as_mut_ptr(), v) };
    out[0]
}

trait Check {
    fn check<S: Simd>(&self, s: S, f: Field<S>, m: &Modulus);
}

fn on_every_vector(m: &Modulus, check: &impl Check) {
    #[cfg(target_arch = "aarch64")]
    {
        // SAFETY: part of the target.
        let s = unsafe { Neon::assume() };
        check.check(s, Field::new(s, m), m);
    }
    #[cfg(target_arch = "x86_64")]
    if Path::Avx2.is_supported() {
        // SAFETY: supported.
        let s = unsafe { Avx2::assume() };
        check.check(s, Field::new(s, m), m);
    }
    #[cfg(target_arch = "x86_64")]
    if Path::Avx512.is_supported() {
        // SAFETY: supported.
        let s: Avx512 = unsafe { Avx512::assume() };
        check.check(s, Field::new(s, m), m);
    }
}

/// a mod p, both exact integers.
fn residue(m: &Modulus, a: f64) -> i128 {
    (a as i128).rem_euclid(i128::from(m.p()))
}

/// All claims of the module for the operands a (|a| < 8p) and w (canonical).
struct Claims {
    a: i64,
    w: u64,
}

impl Check for Claims {
    fn check<S: Simd>(&self, s: S, f: Field<S>, m: &Modulus) {
        let (p, a) = (m.p() as f64, self.a as f64);
        let k = a.abs() / p;
        let reduced = lane0(s, f.reduce(s.splat(a)));
        assert!(
            reduced.abs() <= p / 2.0 + 8.0 && residue(m, reduced) == residue(m, a),
            "reduce {a} mod {p}"
        );
        if k < 1.0 {
            assert!(reduced.abs() < p / 2.0, "reduce {a} mod {p} is not centred");
        }
        if a.abs() < 2.0 * MAX {
            assert_eq!(
                lane0(s, f.canonical(s.splat(a))) as i128,
                residue(m, a),
                "canonical {a} mod {p}"
            );
        }
        assert_eq!(lane0(s, f.canonical_wide(s.splat(a))) as i128, residue(m, a));
        self.check_products(s, f, m, a, k);
    }
}

const MAX: f64 = (1u64 << 50) as f64;

impl Claims {
    fn check_products<S: Simd>(&self, s: S, f: Field<S>, m: &Modulus, a: f64, k: f64) {
        let (p, size) = (m.p() as f64, m.p() as f64 / MAX);
        let factor = m.factor(self.w);
        let exact = (a as i128 * i128::from(self.w)).rem_euclid(i128::from(m.p()));
        let by = lane0(s, f.mul_by(s.splat(a), f.splat_factor(factor)));
        assert!(
            by.abs() <= (0.5 + size * k / 8.0) * p && residue(m, by) == exact,
            "{a} * {} mod {p}",
            self.w
        );
        let lanes = lane0(s, f.mul_by(s.splat(a), f.factor(s.splat(factor.0))));
        assert!(lanes.abs() <= (0.5 + size * k * 3.0 / 16.0) * p && residue(m, lanes) == exact);
        if k < 1.0 {
            let plain = lane0(s, f.mul(s.splat(a), s.splat(self.w as f64)));
            assert!(
                plain.abs() < 7.0 / 8.0 * p && residue(m, plain) == exact,
                "{a} * {} mod {p}",
                self.w
            );
        }
    }
}

#[test]
fn ranges_hold_at_their_ends() {
    for m in sample_primes(18) {
        let p = m.p() as i64;
        let multiples = (-8..=8).flat_map(|k| [k * p, k * p + p / 2, k * p + p / 2 + 1]);
        let near = multiples
            .flat_map(|x| (-3..=3).map(move |d| x + d))
            .filter(|x| x.abs() < 8 * p);
        for a in near {
            for w in [
                0,
                1,
                2,
                m.p() / 2 - 1,
                m.p() / 2,
                m.p() / 2 + 1,
                m.p() - 2,
                m.p() - 1,
            ] {
                on_every_vector(&m, &Claims { a, w });
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn ranges_hold_inside(a in -8.0f64..8.0, w in any::<u64>(), prime in 0usize..4) {
        let m = sample_primes(18)[prime];
        on_every_vector(&m, &Claims { a: (a * (m.p() - 1) as f64) as i64, w: w % m.p() });
    }
}
