//! Deterministic objects under the insecure toy ring, and the means to forge files with valid checksums.
#![allow(dead_code)]
use tacita_ckks::keys::KeySpec;
use tacita_ckks::{Ciphertext, CkksParameters, KeyKind};
use tacita_rlwe::{Parameters, RnsPoly, SwitchingKey};
use tacita_wire::mask::expand_mask;
use tacita_wire::{CiphertextFile, CiphertextWriter, KeyWriter, Owner, HEADER_BYTES};

pub const OWNER: Owner = Owner([7; 16]);
pub const OTHER: Owner = Owner([8; 16]);
pub const SEED: [u8; 32] = [3; 32];

/// N = 256: no security at all.
pub fn insecure_toy_n8() -> CkksParameters {
    CkksParameters::preset("insecure_toy_n8").unwrap()
}

/// Residues from a fixed stream, the extreme ones included.
pub fn poly(params: &Parameters, limbs: usize, special: usize, salt: u64) -> RnsPoly {
    let mut out = RnsPoly::zero(params, limbs, special);
    let mut x = salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for i in 0..limbs + special {
        let p = out.modulus(params, i).p();
        for value in out.limbs[i].iter_mut() {
            x = x
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            *value = ((x >> 12) % p) as f64;
        }
        (out.limbs[i][0], out.limbs[i][params.n() - 1]) = (0.0, (p - 1) as f64);
    }
    out
}

pub fn ciphertext(params: &CkksParameters, limbs: usize, salt: u64) -> Ciphertext {
    let half = |s| poly(params.rlwe(), limbs, 0, s);
    Ciphertext {
        polys: vec![half(salt), half(salt + 1)],
        scale: params.scale(params.top_level()) * 1.25,
    }
}

pub fn seeded_ciphertext(params: &CkksParameters, limbs: usize, salt: u64) -> Ciphertext {
    let mut ct = ciphertext(params, limbs, salt);
    ct.polys[1] = expand_mask(params.rlwe(), &SEED, limbs);
    ct
}

pub fn key(params: &CkksParameters, spec: &KeySpec) -> SwitchingKey {
    let (special, gadget) = spec.shape(params);
    let digits = SwitchingKey::digits(params.rlwe(), (spec.limbs, special), gadget) as u64;
    let b = (0..digits).map(|d| poly(params.rlwe(), spec.limbs, special, d + 5));
    let seed = [spec.limbs as u8; 32];
    SwitchingKey::from_parts(params.rlwe(), seed, spec.limbs, special, gadget, b.collect())
}

/// One key of each kind, small.
pub fn specs() -> Vec<KeySpec> {
    let spec = |kind, limbs| KeySpec { kind, limbs };
    vec![
        spec(KeyKind::Relinearise, 2),
        spec(KeyKind::Galois(5), 1),
        spec(KeyKind::Galois(511), 1),
        spec(KeyKind::ToSparse, 1),
        spec(KeyKind::Raise(1), 3),
    ]
}

pub fn key_file(params: &CkksParameters, specs: &[KeySpec]) -> Vec<u8> {
    let mut writer = KeyWriter::new(Vec::new(), params, OWNER, specs.len() as u64).unwrap();
    for spec in specs {
        writer.write(spec, &key(params, spec)).unwrap();
    }
    writer.finish().unwrap()
}

pub fn ciphertext_file(params: &CkksParameters) -> Vec<u8> {
    let cts = [ciphertext(params, 1, 1), ciphertext(params, 3, 9)];
    let mut bytes = Vec::new();
    CiphertextFile::write(&mut bytes, params, OWNER, &cts).unwrap();
    bytes
}

pub fn seeded_file(params: &CkksParameters) -> Vec<u8> {
    let mut writer = CiphertextWriter::new(Vec::new(), params, OWNER, 1).unwrap();
    let ct = seeded_ciphertext(params, 2, 4);
    writer.write_seeded(&ct, &SEED).unwrap();
    writer.finish().unwrap()
}

/// Bytes of record `index`'s body.
pub fn body_of(bytes: &[u8], index: usize) -> std::ops::Range<usize> {
    let mut at = HEADER_BYTES;
    for _ in 0..index {
        at += 24 + length_at(bytes, at);
    }
    at + 8..at + 8 + length_at(bytes, at)
}

fn length_at(bytes: &[u8], at: usize) -> usize {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize
}

/// Recomputes every checksum that can be found, as an attacker would.
pub fn reseal(bytes: &mut [u8]) {
    if bytes.len() < HEADER_BYTES {
        return;
    }
    seal(bytes, 0, HEADER_BYTES - 16);
    let mut at = HEADER_BYTES;
    while at + 24 <= bytes.len() {
        let length = length_at(bytes, at);
        let Some(end) = length.checked_add(at + 24).filter(|e| *e <= bytes.len()) else {
            return;
        };
        seal(bytes, at + 8, end - 16);
        at = end;
    }
}

fn seal(bytes: &mut [u8], from: usize, to: usize) {
    let check = blake3::hash(&bytes[from..to]);
    bytes[to..to + 16].copy_from_slice(&check.as_bytes()[..16]);
}
