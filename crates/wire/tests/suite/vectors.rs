//! Recorded files of format version 1 (keys: 2) under `insecure_toy_n8` (N = 256, no security, no secrets:
//! the residues come from a fixed stream). They pin the bytes: today's writer must make them, today's reader
//! must read them.
//!
//! When a preset's primes change on purpose, or the format does (then raise `VERSION` first), make them
//! again: `TACITA_WRITE_VECTORS=1 cargo test -p tacita-wire --test suite the_writer`
use crate::common::*;
use std::path::PathBuf;
use tacita_wire::{read_evaluation_keys, read_parameters, write_parameters, CiphertextFile, WireError};

fn path(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    folder.join(format!("insecure_toy_n8_{name}.bin"))
}

fn recorded(name: &str, made: &[u8]) -> Vec<u8> {
    if std::env::var_os("TACITA_WRITE_VECTORS").is_some() {
        std::fs::write(path(name), made).unwrap();
    }
    std::fs::read(path(name)).unwrap()
}

/// A file as a release before version 1 would have begun it.
fn of_version_0(file: &[u8]) -> Vec<u8> {
    let mut bytes = file[..200].to_vec();
    bytes[7..11].copy_from_slice(&0u32.to_le_bytes());
    bytes
}

#[test]
fn the_writer_makes_the_recorded_bytes() {
    let params = insecure_toy_n8();
    let mut literal = Vec::new();
    write_parameters(&mut literal, params.rlwe()).unwrap();
    for (name, made) in [
        ("parameters_v1", literal),
        ("ciphertexts_v1", ciphertext_file(&params)),
        ("seeded_v1", seeded_file(&params)),
        ("keys_v2", key_file(&params, &specs())),
        ("ciphertexts_v0", of_version_0(&ciphertext_file(&params))),
    ] {
        let same = recorded(name, &made) == made;
        assert!(
            same,
            "{name}: the bytes differ from the recorded ones; see the head of this file"
        );
    }
}

#[test]
fn the_reader_reads_the_recorded_bytes() {
    let params = insecure_toy_n8();
    let read = |name: &str| std::fs::read(path(name)).unwrap();
    let cts = CiphertextFile::read(&mut &read("ciphertexts_v1")[..], &params, Some(OWNER)).unwrap();
    assert_eq!(
        cts.ciphertexts[1].polys[1].limbs,
        poly(params.rlwe(), 3, 0, 10).limbs
    );
    let seeded = CiphertextFile::read(&mut &read("seeded_v1")[..], &params, Some(OWNER)).unwrap();
    assert_eq!(
        seeded.ciphertexts[0].polys[0].limbs,
        poly(params.rlwe(), 2, 0, 4).limbs
    );
    let keys = read("keys_v2");
    let (_, keys) = read_evaluation_keys(&keys[..], &params, None, Some(&specs())).unwrap();
    assert_eq!(keys.len(), specs().len());
    let literal = read_parameters(&mut &read("parameters_v1")[..], true).unwrap();
    assert_eq!(literal.hash(), params.rlwe().hash());
}

#[test]
fn an_older_version_is_refused_as_such() {
    let bytes = std::fs::read(path("ciphertexts_v0")).unwrap();
    let error = CiphertextFile::read(&mut &bytes[..], &insecure_toy_n8(), None).err();
    assert!(matches!(
        error,
        Some(WireError::Version {
            found: 0,
            supported: 1,
            ..
        })
    ));
}
