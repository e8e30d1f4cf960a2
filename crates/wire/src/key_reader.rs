//! Reads evaluation keys one at a time.
use crate::fields::Fields;
use crate::header::read_versioned;
use crate::key_body::{body_bytes, key_version, max_body_bytes, max_keys, read_fields, Shape};
use crate::record::{expect_end, read_record};
use crate::residues::{malformed, unpack_polys};
use crate::{Expect, Kind, Owner, WireError};
use std::collections::HashMap;
use std::collections::HashSet;
use std::io::Read;
use tacita_ckks::keys::KeySpec;
use tacita_ckks::{CkksParameters, EvaluationKeys, KeyKind};
use tacita_rlwe::SwitchingKey;

const OP: &str = "read evaluation key";

/// A key file being read: an iterator over its keys that ends after the last one or after an error. The
/// uniform halves are regenerated from the seed. Memory: one key and its packed bytes.
pub struct KeyReader<'a, R: Read> {
    r: R,
    params: &'a CkksParameters,
    owner: Owner,
    count: u64,
    /// Records that were not read yet.
    unread: u64,
    ended: bool,
    /// The plan's list, when given: limbs by kind.
    listed: Option<HashMap<KeyKind, usize>>,
    seen: HashSet<KeyKind>,
    body: Vec<u8>,
}

impl<'a, R: Read> KeyReader<'a, R> {
    /// Reads the header; `owner`, when given, is the only client accepted.
    ///
    /// # Errors
    /// Those of [`read_header`](crate::read_header).
    pub fn new(mut r: R, params: &'a CkksParameters, owner: Option<Owner>) -> Result<Self, WireError> {
        let expect = Expect {
            op: OP,
            kind: Kind::EVALUATION_KEYS,
            parameters: Some(params.rlwe().hash()),
            owner,
            max_count: max_keys(params),
        };
        let header = read_versioned(&mut r, key_version(params), &expect)?;
        Ok(Self {
            r,
            params,
            owner: header.owner,
            count: header.count,
            unread: header.count,
            ended: false,
            listed: None,
            seen: HashSet::new(),
            body: Vec::new(),
        })
    }

    /// Accepts exactly the keys of a plan's list, in any order: bounds what a hostile file can make a server
    /// hold.
    ///
    /// # Errors
    /// [`WireError::Count`] when the file says that it holds more. Keys that are missing or not listed are
    /// refused when they are met: [`WireError::MissingKeys`], [`WireError::UnexpectedKey`].
    pub fn expecting(mut self, specs: &[KeySpec]) -> Result<Self, WireError> {
        let listed: HashMap<_, _> = specs.iter().map(|s| (s.kind, s.limbs)).collect();
        let cap = listed.len() as u64;
        if self.count > cap {
            return Err(WireError::Count {
                op: OP,
                found: self.count,
                cap,
            });
        }
        self.listed = Some(listed);
        Ok(self)
    }

    /// Whose keys they are.
    pub fn owner(&self) -> Owner {
        self.owner
    }
    /// Number of keys that the header says.
    pub fn records(&self) -> u64 {
        self.count
    }

    fn step(&mut self) -> Result<Option<(KeySpec, SwitchingKey)>, WireError> {
        let mut body = std::mem::take(&mut self.body);
        let found = self.next_record(&mut body)?;
        let record = found.then(|| self.parse(&body)).transpose()?;
        let key = record.map(|record| record.unpacked(self.params)).transpose()?;
        self.body = body;
        Ok(key)
    }

    /// Reads a key's record, its checksum compared; false at the end of a file that has all keys.
    fn next_record(&mut self, body: &mut Vec<u8>) -> Result<bool, WireError> {
        if self.unread == 0 {
            expect_end(&mut self.r, OP, self.count)?;
            return self.check_complete().map(|()| false);
        }
        self.unread -= 1;
        let cap = max_body_bytes(self.params) as u64;
        read_record(&mut self.r, OP, cap, body).map(|()| true)
    }

    /// Checks all of a body but its residues.
    fn parse<'b>(&mut self, body: &'b [u8]) -> Result<Record<'b>, WireError> {
        let mut fields = Fields::new(OP, body);
        let (spec, shape, seed) = read_fields(OP, self.params, &mut fields)?;
        let wanted = body_bytes(self.params, &spec);
        if body.len() != wanted {
            return Err(WireError::Length {
                op: OP,
                found: body.len() as u64,
                wanted: wanted as u64,
            });
        }
        check_listed(self.listed.as_ref(), &spec)?;
        if !self.seen.insert(spec.kind) {
            return Err(WireError::DuplicateKey {
                op: OP,
                kind: spec.kind,
            });
        }
        let residues = fields.rest();
        Ok(Record {
            spec,
            shape,
            seed,
            residues,
        })
    }

    fn check_complete(&self) -> Result<(), WireError> {
        let listed = self.listed.iter().flat_map(HashMap::keys);
        let mut missing: Vec<_> = listed.filter(|k| !self.seen.contains(k)).collect();
        missing.sort_unstable();
        match missing.first() {
            None => Ok(()),
            Some(&&first) => Err(WireError::MissingKeys {
                op: OP,
                missing: missing.len(),
                first,
            }),
        }
    }
}

fn check_listed(listed: Option<&HashMap<KeyKind, usize>>, spec: &KeySpec) -> Result<(), WireError> {
    match listed {
        Some(l) if l.get(&spec.kind) != Some(&spec.limbs) => Err(WireError::UnexpectedKey {
            op: OP,
            kind: spec.kind,
            limbs: spec.limbs,
        }),
        _ => Ok(()),
    }
}

/// A key's body whose fields are in order.
struct Record<'b> {
    spec: KeySpec,
    shape: Shape,
    seed: [u8; 32],
    /// Of the b halves.
    residues: &'b [u8],
}

impl Record<'_> {
    fn unpacked(self, params: &CkksParameters) -> Result<(KeySpec, SwitchingKey), WireError> {
        let (rlwe, spec, shape) = (params.rlwe(), self.spec, self.shape);
        let rows = (spec.limbs, shape.special);
        let b = unpack_polys(OP, rlwe, self.residues, shape.digits, rows)?;
        let key = SwitchingKey::from_parts(rlwe, self.seed, spec.limbs, shape.special, shape.gadget, b);
        Ok((spec, key))
    }

    fn packed(self, params: &CkksParameters) -> Result<(KeySpec, SwitchingKey), WireError> {
        let (spec, shape) = (self.spec, self.shape);
        let rows = (spec.limbs, shape.special);
        let key = SwitchingKey::from_packed(params.rlwe(), self.seed, rows, shape.gadget, self.residues);
        Ok((spec, key.map_err(|bad| malformed(OP, bad.limb, bad.prime))?))
    }
}

impl<R: Read> Iterator for KeyReader<'_, R> {
    type Item = Result<(KeySpec, SwitchingKey), WireError>;
    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let item = self.step().transpose();
        self.ended = !matches!(item, Some(Ok(_)));
        item
    }
}

/// Reads a whole key file for a server, whose keys stay packed; with `specs`, exactly the keys of the plan's
/// list. A key is built by all threads while the next one is read and its checksum compared.
///
/// # Errors
/// As [`KeyReader`].
pub fn read_evaluation_keys(
    r: impl Read + Send,
    params: &CkksParameters,
    owner: Option<Owner>,
    specs: Option<&[KeySpec]>,
) -> Result<(Owner, EvaluationKeys), WireError> {
    let mut reader = KeyReader::new(r, params, owner)?;
    if let Some(specs) = specs {
        reader = reader.expecting(specs)?;
    }
    let owner = reader.owner();
    let mut keys = EvaluationKeys::default();
    let (mut body, mut ahead) = (Vec::new(), Vec::new());
    let mut more = reader.next_record(&mut body)?;
    while more {
        let record = reader.parse(&body)?;
        let build = || record.packed(params);
        let (built, read) = rayon::join(build, || reader.next_record(&mut ahead));
        let (spec, key) = built?;
        keys.insert(spec.kind, key);
        more = read?;
        std::mem::swap(&mut body, &mut ahead);
    }
    Ok((owner, keys))
}
