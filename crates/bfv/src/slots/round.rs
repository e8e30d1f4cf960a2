//! From a phase modulo Q' (the low ciphertext primes) to slots modulo t: round(t v / Q'), exactly.
use super::SlotRing;
use tacita_ring::{kernels, AlignedVec};
use zeroize::Zeroize;

/// Slots of round(t v / Q') modulo t, for v by its residues (coefficient form). Cost: one transform modulo t,
/// two passes per prime.
///
/// With B_i the centred t v (Q'/q_i)^-1 modulo q_i, t v / Q' is an integer congruent to -sum B_i / q_i modulo
/// t, plus the rational sum B_i / q_i.
pub(super) fn round_to_slots(ring: &SlotRing, mut v: Vec<AlignedVec>) -> AlignedVec {
    let t = ring.t();
    let mut sum = AlignedVec::zeroed(ring.n());
    let mut limb = AlignedVec::scratch(ring.n());
    to_fractions(ring, &mut v);
    for (i, v) in v.iter().enumerate() {
        let m = ring.params().modulus(i);
        kernels::switch_modulus(m, t, &mut limb, v);
        kernels::mul_scalar_add_assign(t, &mut sum, &limb, t.neg(t.inv(m.p())));
    }
    add_rounded_fractions(ring, &v, &mut sum);
    v.iter_mut()
        .chain([&mut limb])
        .for_each(|limb| (**limb).zeroize());
    ring.plain().forward(&mut sum);
    sum
}

/// v_i to B_i, canonical.
fn to_fractions(ring: &SlotRing, v: &mut [AlignedVec]) {
    let low = v.len();
    for (i, v) in v.iter_mut().enumerate() {
        let m = ring.params().modulus(i);
        let others = (0..low).filter(|&j| j != i).map(|j| ring.params().q()[j]);
        let cofactor = others.fold(1, |product, p| m.mul(product, p));
        kernels::mul_scalar_assign(m, v, m.mul(ring.t().p(), m.inv(cofactor)));
    }
}

/// |noise| of every coefficient, in units of Q'/t: the distance of t v / Q' from an integer.
#[cfg(test)]
pub(super) fn noise(ring: &SlotRing, mut v: Vec<AlignedVec>) -> Vec<f64> {
    to_fractions(ring, &mut v);
    let mut out = vec![];
    each_fraction(ring, &v, |_, total, product| {
        let distance = total - i128::from(rounded(total, product)) * product;
        out.push((distance as f64 / product as f64).abs());
    });
    out
}

/// sum += round(sum of the centred B_i / q_i) modulo t.
fn add_rounded_fractions(ring: &SlotRing, fractions: &[AlignedVec], sum: &mut [f64]) {
    let t = ring.t().p() as f64;
    each_fraction(ring, fractions, |k, total, product| {
        let x = sum[k] + f64::from(rounded(total, product));
        let x = x + if x < 0.0 { t } else { 0.0 };
        sum[k] = x - if x >= t { t } else { 0.0 };
    });
}

/// Calls f(k, numerator, Q') with the sum of the centred B_i / q_i of every coefficient k. Exact, in 128-bit
/// integers over the common denominator Q' < 2^125: the failure probability leaves no room for the error of a
/// double.
fn each_fraction(ring: &SlotRing, fractions: &[AlignedVec], mut f: impl FnMut(usize, i128, i128)) {
    let primes: Vec<i64> = ring.params().q()[..fractions.len()]
        .iter()
        .map(|&p| p as i64)
        .collect();
    let product: i128 = primes.iter().map(|&p| i128::from(p)).product();
    let cofactors: Vec<i128> = primes.iter().map(|&p| product / i128::from(p)).collect();
    for k in 0..ring.n() {
        let mut total = 0i128;
        for ((limb, &p), &cofactor) in fractions.iter().zip(&primes).zip(&cofactors) {
            let b = limb[k] as i64;
            let centred = b - if b > p / 2 { p } else { 0 };
            total += i128::from(centred) * cofactor;
        }
        f(k, total, product);
    }
}

/// round(x / q) for odd q and |x| <= 3q/2: the number of halves above and below.
fn rounded(x: i128, q: i128) -> i32 {
    let half = q >> 1;
    i32::from(x > half) + i32::from(x > half + q) - i32::from(x < -half) - i32::from(x < -half - q)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_at_the_halves() {
        let q = (1i128 << 123) - 3;
        let half = q / 2;
        for (x, expected) in [
            (0, 0),
            (half, 0),
            (half + 1, 1),
            (-half, 0),
            (-half - 1, -1),
            (q, 1),
        ] {
            assert_eq!(rounded(x, q), expected);
        }
        assert_eq!((rounded(q + half, q), rounded(q + half + 1, q)), (1, 2));
        assert_eq!((rounded(-q - half, q), rounded(-q - half - 1, q)), (-1, -2));
    }

    /// round(t v / Q') by long arithmetic: v = t^-1-free values small enough to check by hand, and values
    /// next to the halves.
    #[test]
    fn agrees_with_the_definition_on_multiples_of_the_step() {
        for width in [22, 38, 49] {
            let ring = SlotRing::new(width, 0).unwrap();
            let (t, low) = (ring.t().p(), ring.low());
            let product: i128 = ring.params().q()[..low].iter().map(|&p| i128::from(p)).product();
            let quotients: Vec<i128> = (0..ring.n() as i128)
                .map(|k| (k * k * 7919 + k) % i128::from(t))
                .collect();
            for offset in [
                0,
                product / i128::from(t) / 2 - 1,
                -(product / i128::from(t) / 2) + 1,
            ] {
                // v = floor(k Q' / t) + offset: k Q' overflows, so (Q'/t) k is put together from quotient and
                // remainder
                let step = |k: &i128| {
                    k * (product / i128::from(t)) + k * (product % i128::from(t)) / i128::from(t) + offset
                };
                let limbs = (0..low).map(|i| {
                    let m = ring.params().modulus(i);
                    let values: Vec<f64> = quotients.iter().map(|k| m.from_i128(step(k)) as f64).collect();
                    AlignedVec::from_slice(&values)
                });
                let mut slots = round_to_slots(&ring, limbs.collect());
                ring.plain().inverse(&mut slots);
                for (k, found) in quotients.iter().zip(slots.iter()) {
                    assert_eq!(*k, *found as i128, "{width} bits, offset {offset}");
                }
            }
        }
    }
}
