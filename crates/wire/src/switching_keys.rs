//! Switching keys whose shapes both sides know beforehand, in an order that both know: those of coefficient
//! products, which follow the evaluation keys in one file.
//!
//! ```text
//! section = header record*count        body = seed:[32] residues(b_0) residues(b_1) ...
//! ```
use crate::record::{read_record, write_record};
use crate::residues::{check_poly, pack_polys, poly_bytes, unpack_polys};
use crate::{
    read_header, write_header, Expect, Header, Kind, Owner, WireError, HEADER_BYTES, RECORD_OVERHEAD,
};
use std::io::{Read, Write};
use tacita_rlwe::switching::Gadget;
use tacita_rlwe::{Parameters, SwitchingKey};

const OP: &str = "coefficient keys";
const SEED: usize = 32;

/// What a key must be: under which primes and degree, of how many limbs, decomposed how.
#[derive(Clone, Copy)]
pub struct KeyShape<'a> {
    /// The ring of the key.
    pub ring: &'a Parameters,
    /// Ciphertext limbs; all special ones of the ring come on top.
    pub limbs: usize,
    /// Decomposition.
    pub gadget: Gadget,
}

impl KeyShape<'_> {
    fn digits(&self) -> usize {
        SwitchingKey::digits(self.ring, self.rows(), self.gadget)
    }

    fn rows(&self) -> (usize, usize) {
        (self.limbs, self.ring.p_len())
    }

    fn body_bytes(&self) -> usize {
        SEED + self.digits() * poly_bytes(self.ring, self.limbs, self.ring.p_len())
    }

    fn check(&self, key: &SwitchingKey) -> Result<(), WireError> {
        let found = (key.limbs, key.special, key.gadget, key.b.len());
        let wanted = (self.limbs, self.ring.p_len(), self.gadget, self.digits());
        if found != wanted {
            return Err(WireError::Shape {
                op: OP,
                detail: format!("(limbs, special, gadget, digits) = {found:?}, expected {wanted:?}"),
                hint: "write each key with the shape that it was generated from",
            });
        }
        let each = |b| check_poly(OP, self.ring, b, self.limbs, self.ring.p_len());
        key.b.iter().try_for_each(each)
    }
}

/// Bytes of a section with keys of these shapes.
pub fn switching_keys_bytes(shapes: &[KeyShape<'_>]) -> usize {
    let records = shapes.iter().map(|s| RECORD_OVERHEAD + s.body_bytes());
    HEADER_BYTES + records.sum::<usize>()
}

/// Writes keys of these shapes, under the hash of the parameters that the rings were made from.
///
/// # Errors
/// [`WireError::Shape`] for a key of another shape, [`WireError::Count`] for another number of them,
/// [`WireError::Residue`], [`WireError::Io`].
pub fn write_switching_keys(
    w: &mut impl Write,
    parameters: [u8; 32],
    owner: Owner,
    keys: &[&SwitchingKey],
    shapes: &[KeyShape<'_>],
) -> Result<(), WireError> {
    require_count(keys.len() as u64, shapes)?;
    let header = Header {
        kind: Kind::COEFFICIENT_KEYS,
        parameters,
        owner,
        count: shapes.len() as u64,
    };
    write_header(w, OP, &header)?;
    for (key, shape) in keys.iter().zip(shapes) {
        shape.check(key)?;
        let mut body = key.seed.to_vec();
        body.reserve_exact(shape.body_bytes() - SEED);
        pack_polys(OP, shape.ring, &key.b, shape.limbs, shape.ring.p_len(), &mut body)?;
        write_record(w, OP, &body)?;
    }
    Ok(())
}

/// Reads exactly the keys of these shapes, of this client.
///
/// # Errors
/// Those of [`read_header`] and [`read_record`]; [`WireError::Count`], [`WireError::Length`],
/// [`WireError::Residue`].
pub fn read_switching_keys(
    r: &mut impl Read,
    parameters: &[u8; 32],
    owner: Owner,
    shapes: &[KeyShape<'_>],
) -> Result<Vec<SwitchingKey>, WireError> {
    let expect = Expect {
        op: OP,
        kind: Kind::COEFFICIENT_KEYS,
        parameters: Some(parameters),
        owner: Some(owner),
        max_count: shapes.len() as u64,
    };
    require_count(read_header(r, &expect)?.count, shapes)?;
    let mut body = Vec::new();
    let mut one = |shape: &KeyShape<'_>| {
        read_record(r, OP, shape.body_bytes() as u64, &mut body)?;
        parsed(&body, shape)
    };
    shapes.iter().map(&mut one).collect()
}

fn parsed(body: &[u8], shape: &KeyShape<'_>) -> Result<SwitchingKey, WireError> {
    let wrong = || WireError::Length {
        op: OP,
        found: body.len() as u64,
        wanted: shape.body_bytes() as u64,
    };
    if body.len() != shape.body_bytes() {
        return Err(wrong());
    }
    let (seed, residues) = body.split_first_chunk::<SEED>().ok_or_else(wrong)?;
    let b = unpack_polys(OP, shape.ring, residues, shape.digits(), shape.rows())?;
    let (limbs, special) = shape.rows();
    Ok(SwitchingKey::from_parts(
        shape.ring,
        *seed,
        limbs,
        special,
        shape.gadget,
        b,
    ))
}

fn require_count(found: u64, shapes: &[KeyShape<'_>]) -> Result<(), WireError> {
    let cap = shapes.len() as u64;
    let error = || WireError::Count { op: OP, found, cap };
    (found == cap).then_some(()).ok_or_else(error)
}
