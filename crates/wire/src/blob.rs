//! Opaque bytes in one record: plans, and whatever else is public and parsed elsewhere.
use crate::record::{expect_end, read_record, write_record};
use crate::{read_header, write_header, Expect, Header, Kind, Owner, WireError};
use std::io::{Read, Write};

/// Writes `bytes` as a file of the given kind.
///
/// # Errors
/// [`WireError::Io`].
pub fn write_blob(
    w: &mut impl Write,
    kind: Kind,
    parameters: &[u8; 32],
    owner: Owner,
    bytes: &[u8],
) -> Result<(), WireError> {
    const OP: &str = "write file";
    let header = Header {
        kind,
        parameters: *parameters,
        owner,
        count: 1,
    };
    write_header(w, OP, &header)?;
    write_record(w, OP, bytes)
}

/// Reads a file of the given kind with at most `cap` bytes of content; `None` accepts any parameters.
///
/// # Errors
/// Those of [`read_header`] and [`read_record`]; [`WireError::Field`] when the file does not hold one record,
/// [`WireError::Trailing`] when bytes follow it.
pub fn read_blob(
    r: &mut impl Read,
    kind: Kind,
    parameters: Option<&[u8; 32]>,
    cap: u64,
) -> Result<(Header, Vec<u8>), WireError> {
    const OP: &str = "read file";
    let expect = Expect {
        op: OP,
        kind,
        parameters,
        owner: None,
        max_count: 1,
    };
    let header = read_header(r, &expect)?;
    if header.count != 1 {
        return Err(WireError::Field {
            op: OP,
            field: "records",
            found: header.count.to_string(),
            expected: "1".into(),
        });
    }
    let mut body = Vec::new();
    read_record(r, OP, cap, &mut body)?;
    expect_end(r, OP, 1)?;
    Ok((header, body))
}
