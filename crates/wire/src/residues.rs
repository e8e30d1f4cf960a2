//! Polynomials as packed residues, limbs in parallel.
use crate::WireError;
use rayon::prelude::*;
use tacita_ring::{packed, AlignedVec};
use tacita_rlwe::{Parameters, RnsPoly};

/// Primes of a polynomial's limbs: the first `limbs` of Q, then the first `special` of P.
fn primes(params: &Parameters, limbs: usize, special: usize) -> impl Iterator<Item = u64> + Clone + '_ {
    let q = params.q().iter().take(limbs);
    q.chain(params.p().iter().take(special)).copied()
}

/// Packed bytes of one polynomial.
pub(crate) fn poly_bytes(params: &Parameters, limbs: usize, special: usize) -> usize {
    primes(params, limbs, special)
        .map(|p| packed::packed_len(params.n(), p))
        .sum()
}

/// Appends the packed residues of polynomials that all have `limbs` + `special` limbs (checked by the
/// caller).
pub(crate) fn pack_polys(
    op: &'static str,
    params: &Parameters,
    polys: &[RnsPoly],
    limbs: usize,
    special: usize,
    body: &mut Vec<u8>,
) -> Result<(), WireError> {
    let start = body.len();
    body.resize(start + polys.len() * poly_bytes(params, limbs, special), 0u8);
    let (mut rest, mut jobs) = (&mut body[start..], Vec::new());
    for poly in polys {
        for (limb, p) in poly.limbs.iter().zip(primes(params, limbs, special)) {
            let (out, tail) = rest.split_at_mut(packed::packed_len(params.n(), p));
            jobs.push((limb, p, out));
            rest = tail;
        }
    }
    jobs.into_par_iter()
        .enumerate()
        .try_for_each(|(i, (limb, p, out))| {
            let hint = "write only canonical residues (a result that was not reduced?)";
            let canonical = packed::pack(limb, p, out);
            canonical
                .then_some(())
                .ok_or_else(|| residue_error(op, i, p, hint))
        })
}

/// Unpacks `count` polynomials of `limbs` + `special` limbs; `bytes` has exactly their length (checked by the
/// caller).
pub(crate) fn unpack_polys(
    op: &'static str,
    params: &Parameters,
    bytes: &[u8],
    count: usize,
    (limbs, special): (usize, usize),
) -> Result<Vec<RnsPoly>, WireError> {
    let mut rest = bytes;
    let mut jobs = Vec::with_capacity(count * (limbs + special));
    for p in (0..count).flat_map(|_| primes(params, limbs, special)) {
        let (bytes, tail) = rest.split_at(packed::packed_len(params.n(), p));
        jobs.push((bytes, p));
        rest = tail;
    }
    let unpack = |(i, (bytes, p))| {
        let mut limb = AlignedVec::scratch(params.n());
        let below = packed::unpack(bytes, p, &mut limb);
        below.then_some(limb).ok_or_else(|| malformed(op, i, p))
    };
    let all: Result<Vec<AlignedVec>, WireError> = jobs.into_par_iter().enumerate().map(unpack).collect();
    let mut all = all?.into_iter();
    let poly = |_| RnsPoly {
        limbs: all.by_ref().take(limbs + special).collect(),
        q_len: limbs,
    };
    Ok((0..count).map(poly).collect())
}

/// Fails unless the polynomial has `limbs` ciphertext limbs and `special` special ones, of N residues each.
pub(crate) fn check_poly(
    op: &'static str,
    params: &Parameters,
    poly: &RnsPoly,
    limbs: usize,
    special: usize,
) -> Result<(), WireError> {
    let rows = poly.limbs.iter().all(|l| l.len() == params.n());
    if rows && poly.q_len == limbs && poly.limbs.len() == limbs + special {
        return Ok(());
    }
    Err(WireError::Shape {
        op,
        detail: format!(
            "a polynomial with {} limbs ({} of Q), expected {limbs} + {special} of {} residues",
            poly.limbs.len(),
            poly.q_len,
            params.n()
        ),
        hint: "write it under the parameters that it was made with",
    })
}

/// Of a limb that was read.
pub(crate) fn malformed(op: &'static str, limb: usize, prime: u64) -> WireError {
    residue_error(op, limb, prime, "the file is malformed, make it again")
}

fn residue_error(op: &'static str, limb: usize, prime: u64, hint: &'static str) -> WireError {
    WireError::Residue {
        op,
        limb,
        prime,
        hint,
    }
}
