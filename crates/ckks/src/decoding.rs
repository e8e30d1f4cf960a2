//! Decoding: a decrypted polynomial to slots. What is decrypted is secret: every buffer but the result is
//! wiped.
use crate::encoding::Encoder;
use num_complex::Complex64;
use tacita_ring::AlignedVec;
use tacita_rlwe::{Parameters, RnsPoly};
use zeroize::Zeroize;

/// The slots of a decrypted polynomial: see [`crate::Evaluator::decode`]. Free function because the client
/// has no evaluator.
///
/// No branch and no division depends on a decrypted value, but for the conversion of 128-bit integers to
/// doubles.
pub fn decode(rlwe: &Parameters, encoder: &Encoder, plain: &RnsPoly, scale: f64) -> Vec<Complex64> {
    let mut low = plain.limb_coefficients(rlwe, 0);
    let mut coefficients: Vec<f64> = if plain.q_len == 1 {
        let m = rlwe.modulus(0);
        low.iter().map(|&x| m.center(x as u64) as f64 / scale).collect()
    } else {
        let mut high = plain.limb_coefficients(rlwe, 1);
        let joined = join(rlwe, &low, &high).map(|v| v as f64 / scale).collect();
        high.zeroize();
        joined
    };
    low.zeroize();
    let slots = encoder.slots(&coefficients);
    coefficients.zeroize();
    slots
}

/// The centred integers modulo the product of the two lowest primes.
fn join<'a>(rlwe: &Parameters, low: &'a AlignedVec, high: &'a AlignedVec) -> impl Iterator<Item = i128> + 'a {
    let (p0, m1) = (rlwe.q()[0], *rlwe.modulus(1));
    let inverse = m1.inv(p0 % m1.p());
    let shoup = m1.shoup(inverse);
    let modulus = i128::from(p0) * i128::from(m1.p());
    low.iter().zip(high.iter()).map(move |(&x, &y)| {
        let difference = m1.from_i64(y as i64 - x as i64);
        let d = m1.mul_shoup(difference, inverse, shoup);
        let v = i128::from(x as u64) + i128::from(d) * i128::from(p0);
        v - (modulus & ((modulus / 2 - v) >> 127))
    })
}
