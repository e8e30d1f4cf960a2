//! The client's secret-key file: its own kind, mode 0600, two bits per ternary coefficient, checksummed.
use crate::error;
use pyo3::PyResult;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use tacita_ckks::CkksParameters;
use tacita_rlwe::SecretKey;
use tacita_wire::{
    expect_end, read_header, read_record, write_header, write_record, Expect, Header, Kind, Owner,
};
use zeroize::{Zeroize, Zeroizing};

const OP: &str = "secret key";

/// Writes the key to a file that is private from its first byte on (an existing one is made private before).
pub fn write(path: &str, params: &CkksParameters, owner: Owner, key: &SecretKey) -> PyResult<()> {
    let mut packed = Zeroizing::new(vec![0u8; params.rlwe().n() / 4]);
    for (i, &c) in key.coefficients().iter().enumerate() {
        packed[i / 4] |= ((c + 1) as u8) << (2 * (i % 4));
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    let mut file = open_private(path, &mut options).map_err(|e| error::io(path, e))?;
    let header = Header {
        kind: Kind::SECRET_KEY,
        parameters: *params.rlwe().hash(),
        owner,
        count: 1,
    };
    write_header(&mut file, OP, &header).map_err(error::wire)?;
    write_record(&mut file, OP, &packed).map_err(error::wire)?;
    file.flush().map_err(|e| error::io(path, e))
}

#[cfg(unix)]
fn open_private(path: &str, options: &mut OpenOptions) -> io::Result<File> {
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    let file = options.mode(0o600).open(path)?;
    file.set_permissions(PermissionsExt::from_mode(0o600))?;
    Ok(file)
}

/// Windows has no modes: a file is its owner's by the rights of the folder, which is in the user's profile
/// unless the user chose another.
#[cfg(not(unix))]
fn open_private(path: &str, options: &mut OpenOptions) -> io::Result<File> {
    options.open(path)
}

/// Reads the key back.
pub fn read(path: &str, params: &CkksParameters) -> PyResult<(Owner, SecretKey)> {
    // Unbuffered, and with the capacity set beforehand: no copy of the secret stays in freed memory.
    let mut r = File::open(path).map_err(|e| error::io(path, e))?;
    let expect = Expect {
        op: OP,
        kind: Kind::SECRET_KEY,
        parameters: Some(params.rlwe().hash()),
        owner: None,
        max_count: 1,
    };
    let header = read_header(&mut r, &expect).map_err(error::wire)?;
    let n = params.rlwe().n();
    let mut packed = Zeroizing::new(Vec::with_capacity(n / 4));
    read_record(&mut r, OP, (n / 4) as u64, &mut packed).map_err(error::wire)?;
    expect_end(&mut r, OP, 1).map_err(error::wire)?;
    let bad = packed.len() != n / 4 || (0..n).any(|i| digit(&packed, i) > 2);
    if bad {
        return Err(error::FormatError::new_err(format!(
            "{OP}: {path} does not hold {n} ternary coefficients; hint: was it made for other parameters?"
        )));
    }
    let mut coefficients: Vec<i8> = (0..n).map(|i| digit(&packed, i) as i8 - 1).collect();
    let key = SecretKey::from_coefficients(params.rlwe(), coefficients.clone());
    coefficients.zeroize();
    Ok((header.owner, key))
}

fn digit(packed: &[u8], i: usize) -> u8 {
    (packed[i / 4] >> (2 * (i % 4))) & 3
}
