//! Writes evaluation keys one at a time, so that a client never holds more than one.
use crate::header::write_versioned;
use crate::key_body::{body_bytes, check_spec, key_version, max_keys, write_fields, Shape};
use crate::record::{write_record, Promise};
use crate::residues::{check_poly, pack_polys};
use crate::{Header, Kind, Owner, WireError};
use std::collections::HashSet;
use std::io::Write;
use tacita_ckks::keys::KeySpec;
use tacita_ckks::{CkksParameters, KeyKind};
use tacita_rlwe::SwitchingKey;

const OP: &str = "write evaluation key";

/// A key file being written. A key travels as its seed and its b halves, packed by limbs in parallel.
pub struct KeyWriter<'a, W: Write> {
    w: W,
    params: &'a CkksParameters,
    promise: Promise,
    seen: HashSet<KeyKind>,
    body: Vec<u8>,
}

impl<'a, W: Write> KeyWriter<'a, W> {
    /// Writes the header of a file of `count` keys of the client `owner`.
    ///
    /// # Errors
    /// [`WireError::Count`] when there are not so many different keys, [`WireError::Io`].
    pub fn new(mut w: W, params: &'a CkksParameters, owner: Owner, count: u64) -> Result<Self, WireError> {
        if count > max_keys(params) {
            return Err(WireError::Count {
                op: OP,
                found: count,
                cap: max_keys(params),
            });
        }
        let header = Header {
            kind: Kind::EVALUATION_KEYS,
            parameters: *params.rlwe().hash(),
            owner,
            count,
        };
        write_versioned(&mut w, OP, key_version(params), &header)?;
        Ok(Self {
            w,
            params,
            promise: Promise::new(OP, count),
            seen: HashSet::new(),
            body: Vec::new(),
        })
    }

    /// Writes one key.
    ///
    /// # Errors
    /// [`WireError::Shape`] when the key is not what `spec` says, [`WireError::DuplicateKey`],
    /// [`WireError::Residue`], [`WireError::Promised`] beyond the count of the header, [`WireError::Io`].
    pub fn write(&mut self, spec: &KeySpec, key: &SwitchingKey) -> Result<(), WireError> {
        let shape = self.check(spec, key)?;
        self.body.clear();
        self.body.reserve_exact(body_bytes(self.params, spec));
        write_fields(OP, spec, &shape, &key.seed, &mut self.body)?;
        let rlwe = self.params.rlwe();
        pack_polys(OP, rlwe, &key.b, spec.limbs, shape.special, &mut self.body)?;
        self.promise.advance()?;
        write_record(&mut self.w, OP, &self.body)
    }

    fn check(&mut self, spec: &KeySpec, key: &SwitchingKey) -> Result<Shape, WireError> {
        check_spec(OP, self.params, spec)?;
        let shape = Shape::of(self.params, spec);
        let found = (key.limbs, key.special, key.gadget, key.b.len());
        let wanted = (spec.limbs, shape.special, shape.gadget, shape.digits);
        if found != wanted {
            return Err(WireError::Shape {
                op: OP,
                detail: format!(
                    "{:?} is (limbs, special, gadget, digits) = {found:?}, expected {wanted:?}",
                    spec.kind
                ),
                hint: "write each key with the spec that it was generated from",
            });
        }
        for b in &key.b {
            check_poly(OP, self.params.rlwe(), b, spec.limbs, shape.special)?;
        }
        let kind = spec.kind;
        let fresh = self.seen.insert(kind);
        fresh
            .then_some(shape)
            .ok_or(WireError::DuplicateKey { op: OP, kind })
    }

    /// Flushes and returns the writer.
    ///
    /// # Errors
    /// [`WireError::Promised`] when fewer keys were written than the header says, [`WireError::Io`].
    pub fn finish(mut self) -> Result<W, WireError> {
        self.promise.kept()?;
        self.w
            .flush()
            .map_err(|source| WireError::Io { op: OP, source })?;
        Ok(self.w)
    }
}
