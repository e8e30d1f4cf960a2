//! Polynomials as packed residues; every residue is checked when it is read.
use crate::bits::{Reader, Writer};
use crate::error::check_len;
use crate::{BfvError, Result};
use tacita_rlwe::{Parameters, RnsPoly};

/// Bits of a residue modulo p.
fn width(p: u64) -> u32 {
    u64::BITS - p.leading_zeros()
}

/// Bytes of a polynomial over the first `limbs` ciphertext primes and `special` special ones.
pub fn poly_len(params: &Parameters, limbs: usize, special: usize) -> usize {
    primes(params, limbs, special)
        .map(|p| crate::bits::packed_len(params.n(), width(p)))
        .sum()
}

fn primes(params: &Parameters, limbs: usize, special: usize) -> impl Iterator<Item = u64> + '_ {
    let q = params.q().iter().take(limbs);
    q.chain(params.p().iter().take(special)).copied()
}

/// Appends the residues of a polynomial.
pub fn write_poly(params: &Parameters, poly: &RnsPoly, out: &mut Vec<u8>) {
    for (limb, p) in poly.limbs.iter().zip(primes(params, poly.q_len, poly.p_len())) {
        let mut writer = Writer::with_capacity(params.n() * 7);
        limb.iter().for_each(|&x| writer.put(x as u64, width(p)));
        out.extend_from_slice(&writer.finish());
    }
}

/// Takes a polynomial off the front of `bytes`.
///
/// # Errors
/// [`BfvError::Bytes`] for a string that is too short or a residue that is not below its prime.
pub fn read_poly(params: &Parameters, bytes: &mut &[u8], limbs: usize, special: usize) -> Result<RnsPoly> {
    let op = "polynomial";
    let len = poly_len(params, limbs, special);
    check_len(op, &bytes[..bytes.len().min(len)], len)?;
    let (mine, rest) = bytes.split_at(len);
    *bytes = rest;
    let mut poly = RnsPoly::zero(params, limbs, special);
    let mut at = 0;
    for (limb, p) in poly.limbs.iter_mut().zip(primes(params, limbs, special)) {
        let end = at + crate::bits::packed_len(params.n(), width(p));
        let mut reader = Reader::new(&mine[at..end]);
        let mut largest = 0;
        for x in limb.iter_mut() {
            let value = reader.get(width(p));
            largest = largest.max(value);
            *x = value as f64;
        }
        if largest >= p {
            let detail = format!("a residue is not below its prime {p}");
            return Err(BfvError::Bytes { op, detail });
        }
        at = end;
    }
    Ok(poly)
}
