//! The first bytes of every file: what it is, and whether the reader should go on.
use crate::error::short_hex;
use crate::fields::Fields;
use crate::record::{check_of, read_up_to, write_all};
use crate::WireError;
use std::fmt;
use std::io::{Read, Write};
use std::str::FromStr;

/// Version of the format that this program writes, and the only one that it reads; keys of a ring that
/// bootstraps have one of their own, see [`key_version`](crate::key_version).
pub const VERSION: u32 = 1;
/// Bytes of a header.
pub const HEADER_BYTES: usize = FIXED + CHECK;

const MAGIC: [u8; 6] = *b"TACITA";
/// Magic, kind, version: the part whose place never changes.
const PROLOGUE: usize = 6 + 1 + 4;
const FIXED: usize = PROLOGUE + 32 + 16 + 8;
pub(crate) const CHECK: usize = 16;

/// What a file holds. Kinds that this crate does not write itself are listed so that no number is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind(pub u8);

impl Kind {
    /// Evaluation keys.
    pub const EVALUATION_KEYS: Self = Self(1);
    /// Ciphertexts.
    pub const CIPHERTEXTS: Self = Self(2);
    /// A plan.
    pub const PLAN: Self = Self(3);
    /// Parameters.
    pub const PARAMETERS: Self = Self(4);
    /// A client's secret key; no code in this crate reads or writes its body.
    pub const SECRET_KEY: Self = Self(5);
    /// Keys of coefficient products, behind the evaluation keys of the same file.
    pub const COEFFICIENT_KEYS: Self = Self(6);
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::EVALUATION_KEYS => f.write_str("an evaluation key file"),
            Self::CIPHERTEXTS => f.write_str("a ciphertext file"),
            Self::PLAN => f.write_str("a plan"),
            Self::PARAMETERS => f.write_str("a parameter file"),
            Self::SECRET_KEY => f.write_str("a SECRET KEY file (it must stay with its client)"),
            Self::COEFFICIENT_KEYS => f.write_str("keys of coefficient products"),
            Self(other) => write!(f, "a file of unknown kind {other}"),
        }
    }
}

/// Random id of a client's key set, public: lets a server refuse another client's files with a clear error.
/// All zero for files that belong to no client (plans, parameters).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Owner(pub [u8; 16]);

impl Owner {
    /// A fresh id.
    ///
    /// # Errors
    /// [`WireError::Rlwe`] when the operating system gives no randomness.
    pub fn random() -> Result<Self, WireError> {
        let mut id = [0u8; 16];
        let mut prng = tacita_ring::sample::Prng::from_os().map_err(|source| WireError::Rlwe {
            op: "new key set id",
            source: source.into(),
        })?;
        prng.fill(&mut id);
        Ok(Self(id))
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl FromStr for Owner {
    type Err = WireError;
    /// From 32 hexadecimal digits, as `Display` writes them.
    fn from_str(text: &str) -> Result<Self, WireError> {
        let digits = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let value = u128::from_str_radix(text, 16).ok().filter(|_| digits);
        let value = value.ok_or_else(|| WireError::Field {
            op: "parse key set id",
            field: "id",
            found: text.chars().take(40).collect(),
            expected: "32 hexadecimal digits".into(),
        })?;
        Ok(Self(value.to_be_bytes()))
    }
}

/// A file's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the file holds.
    pub kind: Kind,
    /// `Parameters::hash()` of the parameters that it was made under.
    pub parameters: [u8; 32],
    /// Whose keys it belongs to.
    pub owner: Owner,
    /// Number of records that follow.
    pub count: u64,
}

/// What a reader accepts; `None` accepts any.
#[derive(Clone, Copy, Debug)]
pub struct Expect<'a> {
    /// The operation, for errors.
    pub op: &'static str,
    /// Kind of file.
    pub kind: Kind,
    /// Parameter hash.
    pub parameters: Option<&'a [u8; 32]>,
    /// Key set.
    pub owner: Option<Owner>,
    /// Largest number of records.
    pub max_count: u64,
}

/// Writes a header of [`HEADER_BYTES`] bytes.
///
/// # Errors
/// [`WireError::Io`].
pub fn write_header(w: &mut impl Write, op: &'static str, header: &Header) -> Result<(), WireError> {
    write_versioned(w, op, VERSION, header)
}

/// The same of a version.
pub(crate) fn write_versioned(
    w: &mut impl Write,
    op: &'static str,
    version: u32,
    header: &Header,
) -> Result<(), WireError> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    bytes.extend_from_slice(&MAGIC);
    bytes.push(header.kind.0);
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes.extend_from_slice(&header.parameters);
    bytes.extend_from_slice(&header.owner.0);
    bytes.extend_from_slice(&header.count.to_le_bytes());
    let check = check_of(&bytes);
    bytes.extend_from_slice(&check);
    write_all(w, op, &bytes)
}

/// Reads a header and compares it with what is expected.
///
/// # Errors
/// One variant of [`WireError`] for each thing that can differ: `Magic`, `Version`, `Checksum`, `Kind`,
/// `Parameters`, `Owner`, `Count`; `Truncated` and `Io`.
pub fn read_header(r: &mut impl Read, expect: &Expect<'_>) -> Result<Header, WireError> {
    read_versioned(r, VERSION, expect)
}

/// The same of a version.
pub(crate) fn read_versioned(
    r: &mut impl Read,
    version: u32,
    expect: &Expect<'_>,
) -> Result<Header, WireError> {
    let mut bytes = [0u8; HEADER_BYTES];
    // The version is judged before the rest is read: another version may have another layout.
    read_prologue(r, version, expect, &mut bytes[..PROLOGUE])?;
    fill(r, expect.op, &mut bytes, PROLOGUE)?;
    if check_of(&bytes[..FIXED]) != bytes[FIXED..] {
        return Err(WireError::Checksum {
            op: expect.op,
            part: "the header",
        });
    }
    let mut fields = Fields::new(expect.op, &bytes[PROLOGUE..FIXED]);
    let header = Header {
        kind: Kind(bytes[MAGIC.len()]),
        parameters: fields.array()?,
        owner: Owner(fields.array()?),
        count: fields.u64()?,
    };
    compare(&header, expect)?;
    Ok(header)
}

fn read_prologue(
    r: &mut impl Read,
    supported: u32,
    expect: &Expect<'_>,
    prologue: &mut [u8],
) -> Result<(), WireError> {
    let op = expect.op;
    let got = read_up_to(r, op, prologue)?;
    let mut fields = Fields::new(op, prologue);
    let found = fields.array()?;
    if got >= MAGIC.len() && found != MAGIC {
        return Err(WireError::Magic { op, found });
    }
    check_filled(op, got, PROLOGUE)?;
    check_kind(Kind(fields.u8()?), expect)?; // kinds have versions of their own
    match fields.u32()? {
        found if found == supported => Ok(()),
        found => Err(WireError::Version { op, found, supported }),
    }
}

fn fill(r: &mut impl Read, op: &'static str, bytes: &mut [u8], have: usize) -> Result<(), WireError> {
    let wanted = bytes.len();
    let got = read_up_to(r, op, &mut bytes[have..])?;
    check_filled(op, have + got, wanted)
}

fn check_filled(op: &'static str, got: usize, wanted: usize) -> Result<(), WireError> {
    if got >= wanted {
        return Ok(());
    }
    Err(WireError::Truncated {
        op,
        part: "the header",
        found: got as u64,
        wanted: wanted as u64,
    })
}

fn check_kind(found: Kind, expect: &Expect<'_>) -> Result<(), WireError> {
    let (op, expected) = (expect.op, expect.kind);
    let error = || WireError::Kind { op, found, expected };
    (found == expected).then_some(()).ok_or_else(error)
}

fn compare(found: &Header, expect: &Expect<'_>) -> Result<(), WireError> {
    let op = expect.op;
    if let Some(hash) = expect.parameters.filter(|h| **h != found.parameters) {
        return Err(WireError::Parameters {
            op,
            found: short_hex(&found.parameters),
            expected: short_hex(hash),
        });
    }
    if let Some(expected) = expect.owner.filter(|o| *o != found.owner) {
        return Err(WireError::Owner {
            op,
            found: found.owner,
            expected,
        });
    }
    if found.count > expect.max_count {
        return Err(WireError::Count {
            op,
            found: found.count,
            cap: expect.max_count,
        });
    }
    Ok(())
}
