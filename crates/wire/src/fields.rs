//! Reads little-endian fields off the front of a body.
use crate::WireError;

/// What is left of a body, and the operation for errors.
pub(crate) struct Fields<'a> {
    op: &'static str,
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub fn new(op: &'static str, body: &'a [u8]) -> Self {
        Self { op, rest: body }
    }

    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], WireError> {
        match self.rest.split_at_checked(n) {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(head)
            }
            None => Err(WireError::Truncated {
                op: self.op,
                part: "a record's fields",
                found: self.rest.len() as u64,
                wanted: n as u64,
            }),
        }
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let mut out = [0u8; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    pub fn u8(&mut self) -> Result<u8, WireError> {
        Ok(self.array::<1>()?[0])
    }
    pub fn u16(&mut self) -> Result<u16, WireError> {
        Ok(u16::from_le_bytes(self.array()?))
    }
    pub fn u32(&mut self) -> Result<u32, WireError> {
        Ok(u32::from_le_bytes(self.array()?))
    }
    pub fn u64(&mut self) -> Result<u64, WireError> {
        Ok(u64::from_le_bytes(self.array()?))
    }
    pub fn f64(&mut self) -> Result<f64, WireError> {
        Ok(f64::from_bits(self.u64()?))
    }

    /// Everything that is left.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

/// A count as the u16 of the format.
pub(crate) fn to_u16(op: &'static str, field: &'static str, value: usize) -> Result<u16, WireError> {
    u16::try_from(value).map_err(|_| WireError::Field {
        op,
        field,
        found: value.to_string(),
        expected: "at most 65535".into(),
    })
}
