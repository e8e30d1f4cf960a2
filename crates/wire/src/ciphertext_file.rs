//! Files of ciphertexts: all of one client, under one set of parameters.
use crate::ciphertext::{read_buffered, READ, WRITE};
use crate::record::{expect_end, Promise};
use crate::{
    ciphertext_record_bytes, read_header, write_ciphertext, write_header, write_seeded_ciphertext, Expect,
    Header, Kind, Owner, WireError, HEADER_BYTES,
};
use std::io::{Read, Write};
use tacita_ckks::{Ciphertext, CkksParameters};

/// Largest number of ciphertexts in one file.
pub const MAX_CIPHERTEXTS: u64 = 1 << 16;

/// Writes a ciphertext file one ciphertext at a time.
pub struct CiphertextWriter<'a, W: Write> {
    w: W,
    params: &'a CkksParameters,
    promise: Promise,
}

impl<'a, W: Write> CiphertextWriter<'a, W> {
    /// Writes the header of a file of `count` ciphertexts of the client `owner`.
    ///
    /// # Errors
    /// [`WireError::Count`] above [`MAX_CIPHERTEXTS`], [`WireError::Io`].
    pub fn new(mut w: W, params: &'a CkksParameters, owner: Owner, count: u64) -> Result<Self, WireError> {
        if count > MAX_CIPHERTEXTS {
            return Err(WireError::Count {
                op: WRITE,
                found: count,
                cap: MAX_CIPHERTEXTS,
            });
        }
        let header = Header {
            kind: Kind::CIPHERTEXTS,
            parameters: *params.rlwe().hash(),
            owner,
            count,
        };
        write_header(&mut w, WRITE, &header)?;
        Ok(Self {
            w,
            params,
            promise: Promise::new(WRITE, count),
        })
    }

    /// Writes the next ciphertext.
    ///
    /// # Errors
    /// As [`write_ciphertext`]; [`WireError::Promised`] beyond the count of the header.
    pub fn write(&mut self, ct: &Ciphertext) -> Result<(), WireError> {
        self.promise.advance()?;
        write_ciphertext(&mut self.w, self.params, ct)
    }

    /// Writes the next ciphertext in half the bytes, its second half being [`crate::mask::expand_mask`] of
    /// `seed`.
    ///
    /// # Errors
    /// As [`write_seeded_ciphertext`]; [`WireError::Promised`] beyond the count of the header.
    pub fn write_seeded(&mut self, ct: &Ciphertext, seed: &[u8; 32]) -> Result<(), WireError> {
        self.promise.advance()?;
        write_seeded_ciphertext(&mut self.w, self.params, ct, seed)
    }

    /// Flushes and returns the writer.
    ///
    /// # Errors
    /// [`WireError::Promised`] when fewer ciphertexts were written than the header says, [`WireError::Io`].
    pub fn finish(mut self) -> Result<W, WireError> {
        self.promise.kept()?;
        self.w
            .flush()
            .map_err(|source| WireError::Io { op: WRITE, source })?;
        Ok(self.w)
    }
}

/// Reads a ciphertext file one ciphertext at a time: an iterator that ends after the last one or after an
/// error.
pub struct CiphertextReader<'a, R: Read> {
    r: R,
    params: &'a CkksParameters,
    owner: Owner,
    count: u64,
    left: Option<u64>,
    buffer: Vec<u8>,
}

impl<'a, R: Read> CiphertextReader<'a, R> {
    /// Reads the header; `owner`, when given, is the only client accepted.
    ///
    /// # Errors
    /// Those of [`read_header`].
    pub fn new(mut r: R, params: &'a CkksParameters, owner: Option<Owner>) -> Result<Self, WireError> {
        let expect = Expect {
            op: READ,
            kind: Kind::CIPHERTEXTS,
            parameters: Some(params.rlwe().hash()),
            owner,
            max_count: MAX_CIPHERTEXTS,
        };
        let header = read_header(&mut r, &expect)?;
        Ok(Self {
            r,
            params,
            owner: header.owner,
            count: header.count,
            left: Some(header.count),
            buffer: Vec::new(),
        })
    }

    /// Whose ciphertexts they are.
    pub fn owner(&self) -> Owner {
        self.owner
    }
    /// Number of ciphertexts that the header says.
    pub fn records(&self) -> u64 {
        self.count
    }

    fn step(&mut self, left: u64) -> Result<Option<Ciphertext>, WireError> {
        if left == 0 {
            return expect_end(&mut self.r, READ, self.count).map(|()| None);
        }
        let ct = read_buffered(&mut self.r, self.params, &mut self.buffer)?;
        self.left = Some(left - 1);
        Ok(Some(ct))
    }
}

impl<R: Read> Iterator for CiphertextReader<'_, R> {
    type Item = Result<Ciphertext, WireError>;
    fn next(&mut self) -> Option<Self::Item> {
        let left = self.left.take()?;
        self.step(left).transpose()
    }
}

/// A whole ciphertext file in memory.
pub struct CiphertextFile {
    /// Whose ciphertexts they are.
    pub owner: Owner,
    /// The ciphertexts, in order.
    pub ciphertexts: Vec<Ciphertext>,
}

impl CiphertextFile {
    /// Writes ciphertexts of the client `owner`.
    ///
    /// # Errors
    /// As [`write_ciphertext`].
    pub fn write(
        w: &mut impl Write,
        params: &CkksParameters,
        owner: Owner,
        ciphertexts: &[Ciphertext],
    ) -> Result<(), WireError> {
        let mut writer = CiphertextWriter::new(w, params, owner, ciphertexts.len() as u64)?;
        ciphertexts.iter().try_for_each(|ct| writer.write(ct))?;
        writer.finish().map(drop)
    }

    /// Reads all ciphertexts; `owner`, when given, is the only client accepted.
    ///
    /// # Errors
    /// As [`read_header`] and `read_ciphertext`; [`WireError::Trailing`] when bytes follow.
    pub fn read(r: &mut impl Read, params: &CkksParameters, owner: Option<Owner>) -> Result<Self, WireError> {
        let reader = CiphertextReader::new(r, params, owner)?;
        let owner = reader.owner();
        Ok(Self {
            owner,
            ciphertexts: reader.collect::<Result<_, _>>()?,
        })
    }

    /// Bytes of a file of unseeded ciphertexts with these numbers of limbs.
    pub fn bytes(params: &CkksParameters, limbs: &[usize]) -> usize {
        let record = |&l: &usize| ciphertext_record_bytes(params, l, false);
        HEADER_BYTES + limbs.iter().map(record).sum::<usize>()
    }
}
