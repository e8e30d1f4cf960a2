//! Responses: from a ciphertext under the client's key to additive shares of its phase modulo 2^kappa.
//!
//! The evaluator holds (b, a) with phase b + a s = (q / 2^bits) m + e. For *every* response it
//! 1. adds a fresh encryption of zero under the public key (A, B): (b + B u, a + A u + e1) with ternary u,
//!    Gaussian e1. Without it, or with one shared by several responses, the key holder would see a (or
//!    differences of them), a known function of the evaluator's matrix;
//! 2. scales both halves by 2^kappa / q with rounding;
//! 3. adds a uniform mask to b, and sends of b only the coefficients that carry a result.
//!
//! What the key holder sees: b is a one-time pad's output, uniform and independent of everything else, so the
//! noise of the phase needs no flooding (the error polynomial that a textbook encryption adds to b would
//! drown in the mask, too: it is left out); a is A u + e1 plus something, an RLWE sample with secret u that
//! is pseudo-random even for the holder of s, since B u only occurs under the mask.
//!
//! Error: the shares sum to 2^kappa (phase / q) up to the rounding of a times s (standard deviation 21, since
//! s is ternary: sqrt(N (2/3) / 12)), the rounding of b (64 / sqrt(12): it travels with 6 bits less) and the
//! noise of the zero encryption, 2^kappa / q times about 2^9. [`ERROR`] bounds the first two at 8 standard
//! deviations.
use crate::bits::{packed_len, Reader, Writer};
use crate::crt::Crt;
use crate::error::check_len;
use crate::request::pair;
use crate::{BfvError, Result};
use tacita_ring::{kernels, sample};
use tacita_rlwe::switching::SIGMA;
use tacita_rlwe::{Ciphertext, Parameters, PublicKey, RnsPoly, SecretKey};
use zeroize::Zeroize;

/// Bits by which b is shorter than a: its rounding is not multiplied by the secret.
pub const B_DROP: u32 = 6;
/// Bound (8 standard deviations, probability of more below 2^-48) of the rounding error of a response, in
/// units of 2^-kappa.
pub const ERROR: u32 = 224;
/// Range of kappa: more than `B_DROP` bits, and what fixed-point fractions carry.
const KAPPA: std::ops::RangeInclusive<u32> = B_DROP + 1..=72;

/// A masked ciphertext and the evaluator's share.
pub struct Response {
    /// What travels: a, then the kept coefficients of b.
    pub bytes: Vec<u8>,
    /// The evaluator's share modulo 2^kappa of every kept coefficient, in the order of `keep`.
    pub share: Vec<u128>,
}

/// Bytes of a response: kappa * N bits of a, kappa - 6 bits for every kept coefficient of b.
pub fn response_len(params: &Parameters, kappa: u32, kept: usize) -> usize {
    packed_len(params.n(), kappa) + packed_len(kept, kappa - B_DROP)
}

fn check(params: &Parameters, op: &'static str, kappa: u32, keep: Option<&[usize]>) -> Result<()> {
    let outside = keep.is_some_and(|k| k.iter().any(|&i| i >= params.n()));
    if KAPPA.contains(&kappa) && !outside {
        return Ok(());
    }
    let detail = format!("kappa {kappa} is outside {KAPPA:?} or a kept coefficient is beyond the degree");
    Err(BfvError::Shape { op, detail })
}

/// (B u, A u + e1) for fresh u, e1: added to a ciphertext it hides how the ciphertext was made, as long as b
/// is masked afterwards. NTT form, `limbs` primes. Cost: 2 * `limbs` NTTs, N ternary and N Gaussian samples.
///
/// # Errors
/// When the operating system gives no randomness.
pub fn fresh_zero(params: &Parameters, public: &PublicKey, limbs: usize) -> Result<Ciphertext> {
    let mut prng = sample::Prng::from_os()?;
    let mut u: Vec<i64> = sample::ternary(&mut prng, params.n())
        .into_iter()
        .map(i64::from)
        .collect();
    let mut e: Vec<i64> = sample::gaussian(&mut prng, params.n(), SIGMA)
        .into_iter()
        .map(i64::from)
        .collect();
    let mut b = small(params, &u, limbs);
    let mut a = small(params, &e, limbs);
    for (i, (b, a)) in b.limbs.iter_mut().zip(&mut a.limbs).enumerate() {
        let m = params.modulus(i);
        kernels::mul_add_assign(m, a, b, &public.a.limbs[i]);
        kernels::mul_assign(m, b, &public.b.limbs[i]);
    }
    u.zeroize();
    e.zeroize();
    Ok(pair(b, a))
}

fn small(params: &Parameters, values: &[i64], limbs: usize) -> RnsPoly {
    let mut out = RnsPoly::zero(params, limbs, 0);
    for (i, limb) in out.limbs.iter_mut().enumerate() {
        let p = params.modulus(i).p() as f64;
        for (x, &v) in limb.iter_mut().zip(values) {
            *x = v as f64 + if v < 0 { p } else { 0.0 };
        }
        params.table(i).forward(limb);
    }
    out
}

/// Masks `ct` (NTT form): see the module. `keep`: coefficients that carry results, all of them when `None`.
///
/// Cost: 4 NTTs a prime, about 20 N wide multiplications, [`response_len`] bytes.
///
/// # Errors
/// For kappa outside 7..=72 or coefficients beyond the degree; when the operating system gives no randomness.
pub fn respond(
    params: &Parameters,
    public: &PublicKey,
    mut ct: Ciphertext,
    kappa: u32,
    keep: Option<&[usize]>,
) -> Result<Response> {
    check(params, "respond", kappa, keep)?;
    let limbs = ct.limbs();
    let zero = fresh_zero(params, public, limbs)?;
    for (poly, zero) in ct.polys.iter_mut().zip(&zero.polys) {
        for (i, (x, z)) in poly.limbs.iter_mut().zip(&zero.limbs).enumerate() {
            kernels::add_assign(params.modulus(i), x, z);
            params.table(i).inverse(x);
        }
    }
    let crt = Crt::new(params, limbs);
    let mut a = Writer::with_capacity(response_len(params, kappa, params.n()));
    crt.scale_down(&mut ct.polys[1], kappa, |_, x| a.put_wide(x, kappa));
    let mut b = vec![0u128; params.n()];
    crt.scale_down(&mut ct.polys[0], kappa - B_DROP, |at, x| b[at] = x);
    let (masked, share) = mask(&b, kappa, keep)?;
    let mut bytes = a.finish();
    bytes.extend_from_slice(&masked);
    Ok(Response { bytes, share })
}

/// Adds fresh uniform masks to the kept coefficients: packed, and minus the masks.
fn mask(b: &[u128], kappa: u32, keep: Option<&[usize]>) -> Result<(Vec<u8>, Vec<u128>)> {
    let width = kappa - B_DROP;
    let low = u128::MAX >> (128 - width);
    let kept = keep.map_or(b.len(), <[usize]>::len);
    let mut random = vec![0u8; 16 * kept];
    sample::Prng::from_os()?.fill(&mut random);
    let mut out = Writer::with_capacity(packed_len(kept, width));
    let mut share = Vec::with_capacity(kept);
    for (i, r) in random.chunks_exact(16).enumerate() {
        let r = u128::from_le_bytes(r.try_into().expect("16 bytes")) & low;
        let at = keep.map_or(i, |k| k[i]);
        out.put_wide(b[at].wrapping_add(r) & low, width);
        share.push((r.wrapping_neg() & low) << B_DROP);
    }
    random.zeroize();
    Ok((out.finish(), share))
}

/// The key holder's share modulo 2^kappa of every kept coefficient, in the order of `keep`.
///
/// Cost: 4 NTTs: a s is computed exactly modulo q_0 q_1 (it is below 2^(kappa + 13) <= 2^85).
///
/// # Errors
/// For bytes of another length.
pub fn open(
    params: &Parameters,
    secret: &SecretKey,
    bytes: &[u8],
    kappa: u32,
    keep: Option<&[usize]>,
) -> Result<Vec<u128>> {
    check(params, "open", kappa, keep)?;
    let kept = keep.map_or(params.n(), <[usize]>::len);
    check_len("response", bytes, response_len(params, kappa, kept))?;
    let (a, b) = bytes.split_at(packed_len(params.n(), kappa));
    let mut product = times_secret(params, secret, a, kappa);
    let (low, mut reader) = (u128::MAX >> (128 - kappa), Reader::new(b));
    let share = (0..kept)
        .map(|i| {
            let b = reader.get_wide(kappa - B_DROP) << B_DROP;
            b.wrapping_add(product[keep.map_or(i, |k| k[i])]) & low
        })
        .collect();
    product.zeroize();
    Ok(share)
}

/// a s over the integers, modulo 2^128.
fn times_secret(params: &Parameters, secret: &SecretKey, a: &[u8], kappa: u32) -> Vec<u128> {
    let crt = Crt::new(params, 2);
    let mut reader = Reader::new(a);
    let mut poly = crt.residues((0..params.n()).map(|_| reader.get_wide(kappa)));
    for (i, limb) in poly.limbs.iter_mut().enumerate() {
        params.table(i).forward(limb);
        kernels::mul_assign(params.modulus(i), limb, &secret.ntt().limbs[i]);
        params.table(i).inverse(limb);
    }
    let mut out = vec![0; params.n()];
    let q = crt.product();
    crt.integers(&poly, |at, x| {
        out[at] = if x > q / 2 { x.wrapping_sub(q) } else { x }
    });
    poly.wipe();
    out
}

#[cfg(test)]
#[path = "response_tests.rs"]
mod tests;
