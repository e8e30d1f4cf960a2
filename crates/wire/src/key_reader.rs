//! Reads evaluation keys one at a time.
use crate::fields::Fields;
use crate::key_body::{body_bytes, max_body_bytes, max_keys, read_fields};
use crate::record::{expect_end, read_record};
use crate::residues::unpack_polys;
use crate::{read_header, Expect, Kind, Owner, WireError};
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
    left: Option<u64>,
    /// The plan's list, when given: limbs by kind.
    listed: Option<HashMap<KeyKind, usize>>,
    seen: HashSet<KeyKind>,
    body: Vec<u8>,
}

impl<'a, R: Read> KeyReader<'a, R> {
    /// Reads the header; `owner`, when given, is the only client accepted.
    ///
    /// # Errors
    /// Those of [`read_header`].
    pub fn new(mut r: R, params: &'a CkksParameters, owner: Option<Owner>) -> Result<Self, WireError> {
        let expect = Expect {
            op: OP,
            kind: Kind::EVALUATION_KEYS,
            parameters: Some(params.rlwe().hash()),
            owner,
            max_count: max_keys(params),
        };
        let header = read_header(&mut r, &expect)?;
        Ok(Self {
            r,
            params,
            owner: header.owner,
            count: header.count,
            left: Some(header.count),
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

    fn step(&mut self, left: u64) -> Result<Option<(KeySpec, SwitchingKey)>, WireError> {
        if left == 0 {
            expect_end(&mut self.r, OP, self.count)?;
            return self.check_complete().map(|()| None);
        }
        let cap = max_body_bytes(self.params) as u64;
        read_record(&mut self.r, OP, cap, &mut self.body)?;
        let key = self.parse()?;
        self.left = Some(left - 1);
        Ok(Some(key))
    }

    fn parse(&mut self) -> Result<(KeySpec, SwitchingKey), WireError> {
        let mut fields = Fields::new(OP, &self.body);
        let (spec, shape, seed) = read_fields(OP, self.params, &mut fields)?;
        let wanted = body_bytes(self.params, &spec);
        if self.body.len() != wanted {
            return Err(WireError::Length {
                op: OP,
                found: self.body.len() as u64,
                wanted: wanted as u64,
            });
        }
        let packed = fields.rest();
        check_listed(self.listed.as_ref(), &spec)?;
        if !self.seen.insert(spec.kind) {
            return Err(WireError::DuplicateKey {
                op: OP,
                kind: spec.kind,
            });
        }
        let rlwe = self.params.rlwe();
        let rows = (spec.limbs, shape.special);
        let b = unpack_polys(OP, rlwe, packed, shape.digits, rows)?;
        let key = SwitchingKey::from_parts(rlwe, seed, spec.limbs, shape.special, shape.gadget, b);
        Ok((spec, key))
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

impl<R: Read> Iterator for KeyReader<'_, R> {
    type Item = Result<(KeySpec, SwitchingKey), WireError>;
    fn next(&mut self) -> Option<Self::Item> {
        let left = self.left.take()?;
        self.step(left).transpose()
    }
}

/// Reads a whole key file for a server; with `specs`, exactly the keys of the plan's list.
///
/// # Errors
/// As [`KeyReader`].
pub fn read_evaluation_keys(
    r: impl Read,
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
    for item in reader {
        let (spec, key) = item?;
        keys.insert(spec.kind, key);
    }
    Ok((owner, keys))
}
