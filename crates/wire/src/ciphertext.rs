//! One ciphertext: degree one, any level, with or without its seeded half.
use crate::fields::{to_u16, Fields};
use crate::mask::expand_mask;
use crate::record::{read_record, write_record, RECORD_OVERHEAD};
use crate::residues::{check_poly, pack_polys, poly_bytes, unpack_polys};
use crate::WireError;
use std::io::{Read, Write};
use tacita_ckks::{Ciphertext, CkksParameters};

pub(crate) const WRITE: &str = "write ciphertext";
pub(crate) const READ: &str = "read ciphertext";
const POLYS: u8 = 2;
/// polys, seeded, limbs, scale.
const FIELDS: usize = 1 + 1 + 2 + 8;
const SEED: usize = 32;
/// log2 of the smallest and largest scale admitted.
const LOG_SCALES: (i32, i32) = (10, 100);

/// Bytes of one ciphertext's record; `seeded` when its second half travels as a seed.
pub fn ciphertext_record_bytes(params: &CkksParameters, limbs: usize, seeded: bool) -> usize {
    RECORD_OVERHEAD + body_bytes(params, limbs, seeded)
}

fn body_bytes(params: &CkksParameters, limbs: usize, seeded: bool) -> usize {
    let poly = poly_bytes(params.rlwe(), limbs, 0);
    FIELDS + if seeded { SEED + poly } else { 2 * poly }
}

/// Writes one ciphertext as a record.
///
/// # Errors
/// [`WireError::Shape`] unless it has two polynomials with as many limbs as the parameters allow;
/// [`WireError::Scale`], [`WireError::Residue`] when it is not what a reader would accept; [`WireError::Io`].
pub fn write_ciphertext(
    w: &mut impl Write,
    params: &CkksParameters,
    ct: &Ciphertext,
) -> Result<(), WireError> {
    let mut body = fields_of(params, ct, false)?;
    pack_polys(WRITE, params.rlwe(), &ct.polys, ct.limbs(), 0, &mut body)?;
    write_record(w, WRITE, &body)
}

/// Writes one ciphertext whose second half is [`expand_mask`] of `seed`, in half the bytes.
///
/// # Errors
/// As [`write_ciphertext`], and [`WireError::Shape`] when the second half does not come from the seed.
pub fn write_seeded_ciphertext(
    w: &mut impl Write,
    params: &CkksParameters,
    ct: &Ciphertext,
    seed: &[u8; 32],
) -> Result<(), WireError> {
    let (rlwe, limbs) = (params.rlwe(), ct.polys.first().map_or(0, |p| p.q_len));
    let mut body = fields_of(params, ct, true)?;
    if expand_mask(rlwe, seed, limbs).limbs != ct.polys[1].limbs {
        return Err(WireError::Shape {
            op: WRITE,
            detail: "the second half does not come from the seed".into(),
            hint: "write it without a seed, or give the seed that it was encrypted with",
        });
    }
    body.extend_from_slice(seed);
    pack_polys(WRITE, rlwe, &ct.polys[..1], limbs, 0, &mut body)?;
    write_record(w, WRITE, &body)
}

/// Checks a ciphertext and starts its body.
fn fields_of(params: &CkksParameters, ct: &Ciphertext, seeded: bool) -> Result<Vec<u8>, WireError> {
    if ct.polys.len() != usize::from(POLYS) {
        return Err(WireError::Shape {
            op: WRITE,
            detail: format!("{} polynomials, expected {POLYS}", ct.polys.len()),
            hint: "relinearise before writing",
        });
    }
    let limbs = ct.limbs();
    check_limbs(WRITE, params, limbs)?;
    check_scale(WRITE, ct.scale)?;
    for poly in &ct.polys {
        check_poly(WRITE, params.rlwe(), poly, limbs, 0)?;
    }
    let mut body = Vec::with_capacity(body_bytes(params, limbs, seeded));
    body.extend_from_slice(&[POLYS, u8::from(seeded)]);
    body.extend_from_slice(&to_u16(WRITE, "limbs", limbs)?.to_le_bytes());
    body.extend_from_slice(&ct.scale.to_bits().to_le_bytes());
    Ok(body)
}

/// Reads one ciphertext; a seeded half is regenerated.
///
/// # Errors
/// Those of [`read_record`]; [`WireError::Field`], [`WireError::Scale`], [`WireError::Length`],
/// [`WireError::Residue`] for a body that is whole but not a ciphertext under these parameters.
pub fn read_ciphertext(r: &mut impl Read, params: &CkksParameters) -> Result<Ciphertext, WireError> {
    read_buffered(r, params, &mut Vec::new())
}

/// [`read_ciphertext`] with a buffer that is used again.
pub(crate) fn read_buffered(
    r: &mut impl Read,
    params: &CkksParameters,
    buffer: &mut Vec<u8>,
) -> Result<Ciphertext, WireError> {
    let cap = body_bytes(params, params.rlwe().q_len(), false);
    read_record(r, READ, cap as u64, buffer)?;
    parse(params, buffer)
}

fn parse(params: &CkksParameters, body: &[u8]) -> Result<Ciphertext, WireError> {
    let mut fields = Fields::new(READ, body);
    let polys = fields.u8()?;
    check_field("polys", polys, polys == POLYS, "2")?;
    let seeded = fields.u8()?;
    check_field("seeded", seeded, seeded <= 1, "0 or 1")?;
    let limbs = usize::from(fields.u16()?);
    check_limbs(READ, params, limbs)?;
    let scale = fields.f64()?;
    check_scale(READ, scale)?;
    let wanted = body_bytes(params, limbs, seeded == 1);
    if body.len() != wanted {
        return Err(WireError::Length {
            op: READ,
            found: body.len() as u64,
            wanted: wanted as u64,
        });
    }
    let rlwe = params.rlwe();
    let polys = if seeded == 1 {
        let seed = fields.array()?;
        let mut polys = unpack_polys(READ, rlwe, fields.rest(), 1, (limbs, 0))?;
        polys.push(expand_mask(rlwe, &seed, limbs));
        polys
    } else {
        unpack_polys(READ, rlwe, fields.rest(), usize::from(POLYS), (limbs, 0))?
    };
    Ok(Ciphertext { polys, scale })
}

fn check_field(field: &'static str, found: u8, ok: bool, expected: &str) -> Result<(), WireError> {
    let error = || WireError::Field {
        op: READ,
        field,
        found: found.to_string(),
        expected: expected.into(),
    };
    ok.then_some(()).ok_or_else(error)
}

fn check_limbs(op: &'static str, params: &CkksParameters, limbs: usize) -> Result<(), WireError> {
    let max = params.rlwe().q_len();
    let error = || WireError::Field {
        op,
        field: "limbs",
        found: limbs.to_string(),
        expected: format!("1 to {max}"),
    };
    (1..=max).contains(&limbs).then_some(()).ok_or_else(error)
}

fn check_scale(op: &'static str, scale: f64) -> Result<(), WireError> {
    let (min_log, max_log) = LOG_SCALES;
    let range = f64::from(min_log).exp2()..=f64::from(max_log).exp2();
    let error = || WireError::Scale {
        op,
        found: scale,
        min_log,
        max_log,
    };
    // NaN and infinities are in no range.
    range.contains(&scale).then_some(()).ok_or_else(error)
}
