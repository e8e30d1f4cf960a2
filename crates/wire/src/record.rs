//! Framing of everything after the header: length, body, checksum.
use crate::header::CHECK;
use crate::WireError;
use std::io::{ErrorKind, Read, Write};

/// Bytes of a record beside its body.
pub const RECORD_OVERHEAD: usize = 8 + CHECK;

/// Writes one record.
///
/// # Errors
/// [`WireError::Io`].
pub fn write_record(w: &mut impl Write, op: &'static str, body: &[u8]) -> Result<(), WireError> {
    write_all(w, op, &(body.len() as u64).to_le_bytes())?;
    write_all(w, op, body)?;
    write_all(w, op, &check_of(body))
}

/// Reads one record's body into `body` (replaced), refusing lengths above `cap`. The buffer grows as bytes
/// arrive; if its capacity is `cap` already it is never moved (readers of secrets: give it that capacity,
/// zeroise it after use).
///
/// # Errors
/// [`WireError::TooLarge`], [`WireError::Truncated`], [`WireError::Checksum`], [`WireError::Io`].
pub fn read_record(
    r: &mut impl Read,
    op: &'static str,
    cap: u64,
    body: &mut Vec<u8>,
) -> Result<(), WireError> {
    let length = u64::from_le_bytes(read_array(r, op, "a record's length")?);
    if length > cap {
        return Err(WireError::TooLarge {
            op,
            found: length,
            cap,
        });
    }
    body.clear();
    r.take(length)
        .read_to_end(body)
        .map_err(|source| WireError::Io { op, source })?;
    check_whole(op, "a record", body.len(), length)?;
    let check: [u8; CHECK] = read_array(r, op, "a record's checksum")?;
    if check_of(body) != check {
        return Err(WireError::Checksum { op, part: "a record" });
    }
    Ok(())
}

/// Fails unless the input ends here.
///
/// # Errors
/// [`WireError::Trailing`], [`WireError::Io`].
pub fn expect_end(r: &mut impl Read, op: &'static str, count: u64) -> Result<(), WireError> {
    match read_up_to(r, op, &mut [0u8])? {
        0 => Ok(()),
        _ => Err(WireError::Trailing { op, count }),
    }
}

/// First 16 bytes of BLAKE3.
pub(crate) fn check_of(bytes: &[u8]) -> [u8; CHECK] {
    let mut check = [0u8; CHECK];
    check.copy_from_slice(&blake3::hash(bytes).as_bytes()[..CHECK]);
    check
}

pub(crate) fn write_all(w: &mut impl Write, op: &'static str, bytes: &[u8]) -> Result<(), WireError> {
    w.write_all(bytes).map_err(|source| WireError::Io { op, source })
}

/// Fills as much of `buffer` as the input has; returns how much.
pub(crate) fn read_up_to(r: &mut impl Read, op: &'static str, buffer: &mut [u8]) -> Result<usize, WireError> {
    let mut filled = 0;
    while filled < buffer.len() {
        match r.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(source) => return Err(WireError::Io { op, source }),
        }
    }
    Ok(filled)
}

fn read_array<const N: usize>(
    r: &mut impl Read,
    op: &'static str,
    part: &'static str,
) -> Result<[u8; N], WireError> {
    let mut out = [0u8; N];
    let found = read_up_to(r, op, &mut out)?;
    check_whole(op, part, found, N as u64)?;
    Ok(out)
}

fn check_whole(op: &'static str, part: &'static str, found: usize, wanted: u64) -> Result<(), WireError> {
    let found = found as u64;
    if found == wanted {
        return Ok(());
    }
    Err(WireError::Truncated {
        op,
        part,
        found,
        wanted,
    })
}

/// Counts the records written against the count in the header.
pub(crate) struct Promise {
    op: &'static str,
    promised: u64,
    written: u64,
}

impl Promise {
    pub fn new(op: &'static str, promised: u64) -> Self {
        Self {
            op,
            promised,
            written: 0,
        }
    }

    /// One more record; fails beyond the count.
    pub fn advance(&mut self) -> Result<(), WireError> {
        self.written += 1;
        self.check(self.written <= self.promised)
    }

    /// Fails when records are missing.
    pub fn kept(&self) -> Result<(), WireError> {
        self.check(self.written == self.promised)
    }

    fn check(&self, ok: bool) -> Result<(), WireError> {
        let error = || WireError::Promised {
            op: self.op,
            written: self.written,
            promised: self.promised,
        };
        ok.then_some(()).ok_or_else(error)
    }
}
