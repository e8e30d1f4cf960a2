//! The fields in front of a key's residues, and the sizes that follow from them.
use crate::fields::{to_u16, Fields};
use crate::record::RECORD_OVERHEAD;
use crate::residues::poly_bytes;
use crate::{WireError, HEADER_BYTES, VERSION};
use tacita_ckks::keys::KeySpec;
use tacita_ckks::{sparse, CkksParameters, KeyKind};
use tacita_rlwe::switching::Gadget;
use tacita_rlwe::SwitchingKey;

/// kind, Galois element or place, limbs, special, gadget, seed, digits.
const FIELDS: usize = 1 + 8 + 2 + 2 + 1 + 32 + 2;

/// Special limbs, decomposition and digits of a key: everything that its kind and limbs determine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub special: usize,
    pub gadget: Gadget,
    pub digits: usize,
}

impl Shape {
    /// The shape that a key of this kind must have. `spec.limbs` is in range.
    pub fn of(params: &CkksParameters, spec: &KeySpec) -> Self {
        let (special, gadget) = spec.shape(params);
        Self {
            special,
            gadget,
            digits: SwitchingKey::digits(params.rlwe(), (spec.limbs, special), gadget),
        }
    }
}

/// Version of a file of keys. In version 2 the keys of the raise (kind 5) stand for the key from the sparse
/// secret (kind 3); files of rings without bootstrapping, which have neither, stay of version 1.
pub fn key_version(params: &CkksParameters) -> u32 {
    if params.can_bootstrap() {
        2
    } else {
        VERSION
    }
}

/// Bytes of one key's record.
pub fn key_record_bytes(params: &CkksParameters, spec: &KeySpec) -> usize {
    RECORD_OVERHEAD + body_bytes(params, spec)
}

/// Bytes of a file with these keys.
pub fn key_file_bytes(params: &CkksParameters, specs: &[KeySpec]) -> usize {
    let records = specs.iter().map(|s| key_record_bytes(params, s));
    HEADER_BYTES + records.sum::<usize>()
}

pub(crate) fn body_bytes(params: &CkksParameters, spec: &KeySpec) -> usize {
    let shape = Shape::of(params, spec);
    FIELDS + shape.digits * poly_bytes(params.rlwe(), spec.limbs, shape.special)
}

/// Bytes of the largest key body that these parameters have.
pub(crate) fn max_body_bytes(params: &CkksParameters) -> usize {
    let kinds = [KeyKind::Relinearise, KeyKind::ToSparse, KeyKind::Raise(0)];
    let largest = |kind| KeySpec {
        kind,
        limbs: max_limbs(params, kind),
    };
    let sizes = kinds.map(|kind| body_bytes(params, &largest(kind)));
    sizes.into_iter().max().unwrap_or(0)
}

/// Largest number of different keys: two for each odd Galois element below 2N, one for each diagonal of the
/// raise, and two others.
pub(crate) fn max_keys(params: &CkksParameters) -> u64 {
    2 * params.rlwe().n() as u64 + params.raise_diagonals() + 2
}

/// Most limbs that a key of this kind may have: all of the chain's, but for the key to the sparse secret.
fn max_limbs(params: &CkksParameters, kind: KeyKind) -> usize {
    match kind {
        KeyKind::ToSparse => sparse::LIMBS,
        KeyKind::LowGalois(_) => params.bottom_level() + 1,
        _ => params.rlwe().q_len(),
    }
}

/// Fails unless limbs and Galois element or place are in range.
pub(crate) fn check_spec(op: &'static str, params: &CkksParameters, spec: &KeySpec) -> Result<(), WireError> {
    let most = max_limbs(params, spec.kind);
    check(
        op,
        "limbs",
        (1..=most).contains(&spec.limbs),
        &spec.limbs,
        &format!("1 to {most} for {:?}", spec.kind),
    )?;
    let order = 2 * params.rlwe().n() as u64;
    match spec.kind {
        KeyKind::Galois(g) | KeyKind::LowGalois(g) => check(
            op,
            "galois",
            g % 2 == 1 && g < order,
            &g,
            &format!("odd, below {order}"),
        ),
        KeyKind::Raise(place) => {
            let count = params.raise_diagonals();
            check(op, "place", place < count, &place, &format!("below {count}"))
        }
        _ => Ok(()),
    }
}

fn check(
    op: &'static str,
    field: &'static str,
    ok: bool,
    found: &dyn std::fmt::Debug,
    expected: &str,
) -> Result<(), WireError> {
    let error = || WireError::Field {
        op,
        field,
        found: format!("{found:?}"),
        expected: expected.into(),
    };
    ok.then_some(()).ok_or_else(error)
}

/// Starts a key's body.
pub(crate) fn write_fields(
    op: &'static str,
    spec: &KeySpec,
    shape: &Shape,
    seed: &[u8; 32],
    body: &mut Vec<u8>,
) -> Result<(), WireError> {
    let (kind, number) = tag(spec.kind);
    let limbs = to_u16(op, "limbs", spec.limbs)?;
    let special = to_u16(op, "special", shape.special)?;
    let digits = to_u16(op, "digits", shape.digits)?;
    body.push(kind);
    body.extend_from_slice(&number.to_le_bytes());
    body.extend_from_slice(&limbs.to_le_bytes());
    body.extend_from_slice(&special.to_le_bytes());
    body.push(gadget_tag(shape.gadget));
    body.extend_from_slice(seed);
    body.extend_from_slice(&digits.to_le_bytes());
    Ok(())
}

/// Reads the fields and compares them with the one shape that this kind of key has at its limbs.
pub(crate) fn read_fields(
    op: &'static str,
    params: &CkksParameters,
    fields: &mut Fields<'_>,
) -> Result<(KeySpec, Shape, [u8; 32]), WireError> {
    let kind = kind_of(op, fields.u8()?, fields.u64()?)?;
    let limbs = usize::from(fields.u16()?);
    let spec = KeySpec { kind, limbs };
    check_spec(op, params, &spec)?;
    let shape = Shape::of(params, &spec);
    let special = usize::from(fields.u16()?);
    let gadget = fields.u8()?;
    let seed = fields.array()?;
    let digits = usize::from(fields.u16()?);
    let found = (special, gadget, digits);
    let expected = (shape.special, gadget_tag(shape.gadget), shape.digits);
    check(
        op,
        "(special, gadget, digits)",
        found == expected,
        &found,
        &format!("{expected:?}"),
    )?;
    Ok((spec, shape, seed))
}

/// Number 3 was that of a kind of version 1.
fn tag(kind: KeyKind) -> (u8, u64) {
    match kind {
        KeyKind::Relinearise => (0, 0),
        KeyKind::Galois(g) => (1, g),
        KeyKind::ToSparse => (2, 0),
        KeyKind::LowGalois(g) => (4, g),
        KeyKind::Raise(place) => (5, place),
    }
}

fn kind_of(op: &'static str, tag: u8, number: u64) -> Result<KeyKind, WireError> {
    match (tag, number) {
        (0, 0) => Ok(KeyKind::Relinearise),
        (1, g) => Ok(KeyKind::Galois(g)),
        (2, 0) => Ok(KeyKind::ToSparse),
        (4, g) => Ok(KeyKind::LowGalois(g)),
        (5, place) => Ok(KeyKind::Raise(place)),
        other => Err(WireError::Field {
            op,
            field: "(kind, galois or place)",
            found: format!("{other:?}"),
            expected: "kind 0, 1, 2, 4 or 5, and 0 for kinds 0 and 2".into(),
        }),
    }
}

fn gadget_tag(gadget: Gadget) -> u8 {
    match gadget {
        Gadget::Rns => 0,
        Gadget::Single => 1,
        Gadget::Multiple => 2,
    }
}
