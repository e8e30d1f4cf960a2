//! Errors of the wire layer. Each names the operation, the clashing values and a hint; none carries a body's
//! content.
use crate::header::{Kind, Owner};
use tacita_ckks::KeyKind;
use tacita_rlwe::RlweError;
use thiserror::Error;

/// What can be wrong with a file, or with what is to be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WireError {
    /// The reader or writer failed.
    #[error("{op}: {source}; hint: check the path, its rights and the space left")]
    Io {
        /// The operation.
        op: &'static str,
        /// The cause.
        source: std::io::Error,
    },
    /// The first bytes are not ours.
    #[error("{op}: starts with {found:02x?}, expected \"TACITA\"; hint: this is not a Tacita file")]
    Magic {
        /// The operation.
        op: &'static str,
        /// First bytes found.
        found: [u8; 6],
    },
    /// Written by another version of the format.
    #[error(
        "{op}: format version {found}, this program reads {supported}; hint: use one release for client \
        and server, and make the file again"
    )]
    Version {
        /// The operation.
        op: &'static str,
        /// Version in the file.
        found: u32,
        /// Version of this program.
        supported: u32,
    },
    /// A file of another kind.
    #[error("{op}: found {found}, expected {expected}; hint: the files were mixed up")]
    Kind {
        /// The operation.
        op: &'static str,
        /// Kind in the file.
        found: Kind,
        /// Kind asked for.
        expected: Kind,
    },
    /// Made under other parameters.
    #[error(
        "{op}: made under parameters {found}.., expected {expected}..; hint: make it again with this plan's \
        parameters"
    )]
    Parameters {
        /// The operation.
        op: &'static str,
        /// First bytes of the hash in the file, in hex.
        found: String,
        /// First bytes of the hash expected, in hex.
        expected: String,
    },
    /// Made with another client's keys.
    #[error(
        "{op}: belongs to key set {found}, expected {expected}; hint: this is another client's file, or \
        from an earlier key generation"
    )]
    Owner {
        /// The operation.
        op: &'static str,
        /// Owner in the file.
        found: Owner,
        /// Owner expected.
        expected: Owner,
    },
    /// The header says more records than are allowed.
    #[error("{op}: {found} records, the cap is {cap}; hint: made for another plan, or damaged")]
    Count {
        /// The operation.
        op: &'static str,
        /// Count in the header.
        found: u64,
        /// Largest allowed.
        cap: u64,
    },
    /// The file ends early.
    #[error("{op}: {part} ends after {found} of {wanted} bytes; hint: the file is truncated, copy it again")]
    Truncated {
        /// The operation.
        op: &'static str,
        /// What was being read.
        part: &'static str,
        /// Bytes there.
        found: u64,
        /// Bytes wanted.
        wanted: u64,
    },
    /// Bytes changed on the way.
    #[error("{op}: the checksum of {part} does not match; hint: the file is damaged, copy it again")]
    Checksum {
        /// The operation.
        op: &'static str,
        /// What was being read.
        part: &'static str,
    },
    /// A record that claims more bytes than anything valid has.
    #[error(
        "{op}: a record of {found} bytes, the cap is {cap}; hint: the file is damaged or made under other \
        parameters"
    )]
    TooLarge {
        /// The operation.
        op: &'static str,
        /// Length claimed.
        found: u64,
        /// Largest allowed.
        cap: u64,
    },
    /// A record whose length is not the one that its own fields imply.
    #[error(
        "{op}: a record of {found} bytes where its fields imply {wanted}; hint: the file is malformed, make \
        it again"
    )]
    Length {
        /// The operation.
        op: &'static str,
        /// Bytes there.
        found: u64,
        /// Bytes implied.
        wanted: u64,
    },
    /// Bytes after the last record.
    #[error(
        "{op}: bytes follow after the last of {count} records; hint: the file was appended to or its \
        header altered, copy it again"
    )]
    Trailing {
        /// The operation.
        op: &'static str,
        /// Records read.
        count: u64,
    },
    /// A field outside its range.
    #[error(
        "{op}: {field} = {found}, expected {expected}; hint: the file is malformed or made under other \
        parameters"
    )]
    Field {
        /// The operation.
        op: &'static str,
        /// Name of the field.
        field: &'static str,
        /// Value found.
        found: String,
        /// Values allowed.
        expected: String,
    },
    /// A residue that is not an integer in [0, p).
    #[error("{op}: limb {limb} holds a residue outside [0, {prime}); hint: {hint}")]
    Residue {
        /// The operation.
        op: &'static str,
        /// Limb, counted over all polynomials of the record.
        limb: usize,
        /// Its prime.
        prime: u64,
        /// What to do.
        hint: &'static str,
    },
    /// A ciphertext's scale that no circuit of ours produces.
    #[error(
        "{op}: scale {found:e}, expected between 2^{min_log} and 2^{max_log}; hint: the file is malformed"
    )]
    Scale {
        /// The operation.
        op: &'static str,
        /// Scale found.
        found: f64,
        /// log2 of the smallest allowed.
        min_log: i32,
        /// log2 of the largest allowed.
        max_log: i32,
    },
    /// An object in memory that does not have the shape it is to be written with.
    #[error("{op}: {detail}; hint: {hint}")]
    Shape {
        /// The operation.
        op: &'static str,
        /// The clashing values.
        detail: String,
        /// What to do.
        hint: &'static str,
    },
    /// The same key twice in one file.
    #[error("{op}: key {kind:?} occurs twice; hint: list every key once, make the keys again")]
    DuplicateKey {
        /// The operation.
        op: &'static str,
        /// The key.
        kind: KeyKind,
    },
    /// A key that the plan does not list, or lists at another level.
    #[error(
        "{op}: key {kind:?} at {limbs} limbs is not in the plan's list; hint: make the keys again with \
        this plan"
    )]
    UnexpectedKey {
        /// The operation.
        op: &'static str,
        /// The key.
        kind: KeyKind,
        /// Its limbs.
        limbs: usize,
    },
    /// Keys of the plan's list that the file lacks.
    #[error(
        "{op}: {missing} of the plan's keys are missing, the first is {first:?}; hint: make the keys \
        again with this plan"
    )]
    MissingKeys {
        /// The operation.
        op: &'static str,
        /// How many.
        missing: usize,
        /// One of them.
        first: KeyKind,
    },
    /// More or fewer records written than the header promised.
    #[error(
        "{op}: record {written} where the header promised {promised}; hint: give the writer the right count"
    )]
    Promised {
        /// The operation.
        op: &'static str,
        /// Records written, the refused one included.
        written: u64,
        /// Records promised.
        promised: u64,
    },
    /// Parameters whose security is below 128 bits, where such are not wanted.
    #[error(
        "{op}: parameters {name:?} have less than 128-bit security; hint: allow insecure parameters in \
        tests only"
    )]
    Insecure {
        /// The operation.
        op: &'static str,
        /// Preset name.
        name: String,
    },
    /// Parameters that cannot be built, or no randomness.
    #[error("{op}: {source}")]
    Rlwe {
        /// The operation.
        op: &'static str,
        /// The cause.
        source: RlweError,
    },
}

/// First eight bytes in hex, enough to tell hashes apart.
pub(crate) fn short_hex(bytes: &[u8]) -> String {
    bytes.iter().take(8).map(|b| format!("{b:02x}")).collect()
}
