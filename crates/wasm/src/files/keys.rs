//! The client's keys: the secret half stays in this memory, the other is made and written one key at a time.
use crate::error::{ClientError, Result};
use sha2::{Digest, Sha256};
use std::io::{self, Write};
use tacita_ckks::generator::KeyGenerator;
use tacita_ckks::keys::KeySpec;
use tacita_ckks::CkksParameters;
use tacita_rlwe::SecretKey;
use tacita_wire::{KeyWriter, Owner};

/// A secret key and its public name. Wiped when dropped.
pub struct Secret {
    pub(super) key: SecretKey,
    pub(super) owner: Owner,
}

impl Secret {
    /// From the host's randomness.
    ///
    /// # Errors
    /// [`ClientError::Engine`] when it gives none.
    pub fn generate(params: &CkksParameters) -> Result<Self> {
        let key = SecretKey::generate(params.rlwe()).map_err(ClientError::engine)?;
        let owner = Owner::random().map_err(ClientError::engine)?;
        Ok(Self { key, owner })
    }

    /// The id of the keys that belong to it, 32 hexadecimal digits.
    pub fn id(&self) -> String {
        self.owner.to_string()
    }

    /// Writes the file of these evaluation keys. One is in memory at a time: at N = 2^16 some 200 MB with its
    /// uniform half and its bytes. Cost: an NTT for each limb of each digit.
    ///
    /// # Errors
    /// [`ClientError::Engine`], also where `out` fails.
    pub fn write_keys(&self, params: &CkksParameters, specs: &[KeySpec], out: impl Write) -> Result<()> {
        let generator = KeyGenerator::new(params, &self.key).map_err(ClientError::engine)?;
        let mut writer =
            KeyWriter::new(out, params, self.owner, specs.len() as u64).map_err(ClientError::engine)?;
        for spec in specs {
            let key = generator.generate(*spec).map_err(ClientError::engine)?;
            writer.write(spec, &key).map_err(ClientError::engine)?;
        }
        writer.finish().map_err(ClientError::engine)?;
        Ok(())
    }
}

/// Passes bytes on and hashes them.
pub struct Hashing<W> {
    out: W,
    digest: Sha256,
}

impl<W: Write> Hashing<W> {
    /// Of nothing yet.
    pub fn new(out: W) -> Self {
        Self {
            out,
            digest: Sha256::new(),
        }
    }

    /// Of all bytes, in hexadecimal digits.
    pub fn finish(self) -> String {
        hex(&self.digest.finalize())
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.digest.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Lower-case hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
