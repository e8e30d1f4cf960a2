//! Every way in which a file can be wrong has its own error; none of them panics.
use crate::common::*;
use tacita_ckks::keys::KeySpec;
use tacita_ckks::{CkksParameters, KeyKind};
use tacita_wire::*;

fn keys(bytes: &[u8], params: &CkksParameters, listed: Option<&[KeySpec]>) -> WireError {
    let result = read_evaluation_keys(bytes, params, Some(OWNER), listed);
    result.err().expect("the file must be refused")
}

fn cts(bytes: &[u8], params: &CkksParameters) -> WireError {
    let result = CiphertextFile::read(&mut &bytes[..], params, Some(OWNER));
    result.err().expect("the file must be refused")
}

/// Overwrites bytes of record 0's body and repairs the checksums.
fn forged(file: Vec<u8>, at: usize, value: &[u8]) -> Vec<u8> {
    let mut bytes = file;
    let body = body_of(&bytes, 0);
    bytes[body.start + at..body.start + at + value.len()].copy_from_slice(value);
    reseal(&mut bytes);
    bytes
}

macro_rules! refused {
    ($error:expr, $($pattern:tt)+) => {{
        let error = $error;
        assert!(matches!(error, WireError::$($pattern)+), "{error}");
        assert!(error.to_string().contains("hint"), "{error}");
    }};
}

#[test]
fn headers() {
    let params = insecure_toy_n8();
    let good = ciphertext_file(&params);
    let with = |at: usize, value: u8, seal: bool| {
        let mut bytes = good.clone();
        bytes[at] = value;
        if seal {
            reseal(&mut bytes);
        }
        bytes
    };
    refused!(cts(b"PK\x03\x04 a zip file", &params), Magic { .. });
    refused!(cts(&with(7, 0, true), &params), Version { found: 0, .. });
    refused!(cts(&with(7, 2, true), &params), Version { found: 2, .. });
    refused!(cts(&with(6, 1, true), &params), Kind { .. });
    refused!(cts(&with(11, 0xee, true), &params), Parameters { .. });
    refused!(cts(&with(43, 0xee, true), &params), Owner { .. });
    refused!(cts(&with(43, 0xee, false), &params), Checksum { .. });
    refused!(cts(&with(66, 1, true), &params), Count { .. });
    refused!(cts(&with(59, 3, true), &params), Truncated { .. });
    refused!(cts(&with(59, 1, true), &params), Trailing { count: 1, .. });
}

#[test]
fn another_client_other_parameters_another_kind() {
    let (params, other) = (
        insecure_toy_n8(),
        CkksParameters::preset("insecure_toy_n9").unwrap(),
    );
    let (key, ct) = (key_file(&params, &specs()), ciphertext_file(&params));
    refused!(cts(&ct, &other), Parameters { .. });
    refused!(keys(&key, &other, None), Parameters { .. });
    refused!(cts(&key, &params), Kind { .. });
    refused!(keys(&ct, &params, None), Kind { .. });
    let wrong = read_evaluation_keys(&key[..], &params, Some(OTHER), None).err();
    refused!(wrong.unwrap(), Owner { .. });
    let mut secret = Vec::new();
    write_blob(&mut secret, Kind::SECRET_KEY, params.rlwe().hash(), OWNER, b"").unwrap();
    assert!(cts(&secret, &params).to_string().contains("SECRET KEY"));
}

#[test]
fn every_truncation_and_every_flipped_bit_of_a_byte() {
    let params = insecure_toy_n8();
    for file in [
        seeded_file(&params),
        key_file(
            &params,
            &[KeySpec {
                kind: KeyKind::Galois(5),
                limbs: 1,
            }],
        ),
    ] {
        let refuse = |bytes: &[u8]| match file[6] {
            1 => keys(bytes, &params, None),
            _ => cts(bytes, &params),
        };
        for end in (0..200).chain(file.len() - 40..file.len()) {
            refused!(refuse(&file[..end]), Truncated { .. });
        }
        for at in (0..200).chain((200..file.len()).step_by(97)) {
            let mut bytes = file.clone();
            bytes[at] ^= 1 << (at % 8);
            refuse(&bytes);
        }
        let mut bytes = file.clone();
        bytes[1000] ^= 4;
        refused!(refuse(&bytes), Checksum { .. });
        refused!(refuse(&[&file[..], b"x"].concat()), Trailing { .. });
    }
}

#[test]
fn lengths_beyond_the_cap_are_refused_before_reading() {
    let params = insecure_toy_n8();
    for (mut bytes, is_key) in [
        (ciphertext_file(&params), false),
        (key_file(&params, &specs()), true),
    ] {
        bytes[HEADER_BYTES..HEADER_BYTES + 8].copy_from_slice(&u64::MAX.to_le_bytes());
        let error = if is_key {
            keys(&bytes, &params, None)
        } else {
            cts(&bytes, &params)
        };
        refused!(error, TooLarge { found: u64::MAX, .. });
    }
}

#[test]
fn forged_ciphertexts() {
    let params = insecure_toy_n8();
    let forge = |at, value: &[u8]| cts(&forged(ciphertext_file(&params), at, value), &params);
    refused!(forge(0, &[3]), Field { field: "polys", .. });
    refused!(forge(1, &[2]), Field { field: "seeded", .. });
    refused!(forge(1, &[1]), Length { .. });
    refused!(forge(2, &[0, 0]), Field { field: "limbs", .. });
    let above = params.rlwe().q_len() as u8 + 1;
    refused!(forge(2, &[above, 0]), Field { field: "limbs", .. });
    refused!(forge(2, &[2, 0]), Length { .. });
    for scale in [f64::NAN, f64::INFINITY, 0.0, -1e9, 1023.0, 1e31] {
        refused!(forge(4, &scale.to_bits().to_le_bytes()), Scale { .. });
    }
    refused!(forge(12, &[0xff; 8]), Residue { limb: 0, .. });
}

#[test]
fn forged_keys() {
    let params = insecure_toy_n8();
    let spec = [KeySpec {
        kind: KeyKind::Galois(5),
        limbs: 1,
    }];
    let forge = |at, value: &[u8]| keys(&forged(key_file(&params, &spec), at, value), &params, None);
    let few = "(special, gadget, digits)";
    refused!(forge(0, &[4]), Field { field, .. } if field == few);
    refused!(forge(0, &[5]), Field { field, .. } if field == few);
    refused!(
        forge(0, &[6]),
        Field {
            field: "(kind, galois or place)",
            ..
        }
    );
    refused!(
        forge(0, &[0]),
        Field {
            field: "(kind, galois or place)",
            ..
        }
    );
    refused!(forge(1, &4u64.to_le_bytes()), Field { field: "galois", .. });
    refused!(forge(1, &513u64.to_le_bytes()), Field { field: "galois", .. });
    refused!(forge(9, &[0, 0]), Field { field: "limbs", .. });
    refused!(forge(9, &[0xff, 0xff]), Field { field: "limbs", .. });
    refused!(forge(9, &[2, 0]), Length { .. });
    refused!(forge(11, &[6, 0]), Field { .. });
    refused!(forge(13, &[1]), Field { .. });
    refused!(forge(46, &[2, 0]), Field { .. });
    refused!(forge(48, &[0xff; 8]), Residue { limb: 0, .. });
}

/// A weight-32 key under a large modulus is broken: neither read nor written, whatever a plan's list says.
#[test]
fn keys_to_the_sparse_secret_at_more_than_one_limb() {
    let params = insecure_toy_n8();
    let [one, two] = [1, 2].map(|limbs| KeySpec {
        kind: KeyKind::ToSparse,
        limbs,
    });
    let file = key_file(&params, &[one]);
    let forge = |limbs: u8| keys(&forged(file.clone(), 9, &[limbs, 0]), &params, Some(&[two]));
    refused!(forge(2), Field { field: "limbs", .. });
    refused!(forge(28), Field { field: "limbs", .. });
    let mut writer = KeyWriter::new(Vec::new(), &params, OWNER, 1).unwrap();
    refused!(
        writer.write(&two, &key(&params, &two)).unwrap_err(),
        Field { field: "limbs", .. }
    );
}

#[test]
fn keys_of_the_raise_beyond_the_diagonals() {
    let params = insecure_toy_n8();
    let count = params.raise_diagonals();
    let spec = |place| KeySpec {
        kind: KeyKind::Raise(place),
        limbs: 2,
    };
    let file = key_file(&params, &[spec(count - 1)]);
    let place = forged(file.clone(), 1, &count.to_le_bytes());
    refused!(keys(&place, &params, None), Field { field: "place", .. });
    // gadget 1, as of the key that version 1 had in its place
    refused!(keys(&forged(file.clone(), 13, &[1]), &params, None), Field { .. });
    refused!(keys(&forged(file, 0, &[3]), &params, None), Field { .. });
    let mut writer = KeyWriter::new(Vec::new(), &params, OWNER, 1).unwrap();
    refused!(
        writer
            .write(&spec(count), &key(&params, &spec(count)))
            .unwrap_err(),
        Field { field: "place", .. }
    );
}

#[test]
fn keys_of_the_version_before() {
    let params = insecure_toy_n8();
    let mut file = key_file(&params, &specs());
    file[7..11].copy_from_slice(&1u32.to_le_bytes());
    refused!(
        keys(&file, &params, None),
        Version {
            found: 1,
            supported: 2,
            ..
        }
    );
    let leveled = CkksParameters::preset("insecure_toy_leveled_n9").unwrap();
    assert_eq!([key_version(&params), key_version(&leveled)], [2, 1]);
}

#[test]
fn keys_that_are_double_missing_or_not_in_the_plan() {
    let params = insecure_toy_n8();
    let (list, file) = (specs(), key_file(&params, &specs()));
    let mut twice = key_file(&params, &list[1..3]);
    let body = body_of(&twice, 1);
    twice[body.start + 1..body.start + 9].copy_from_slice(&5u64.to_le_bytes());
    reseal(&mut twice);
    refused!(
        keys(&twice, &params, None),
        DuplicateKey {
            kind: KeyKind::Galois(5),
            ..
        }
    );
    refused!(
        keys(&file, &params, Some(&list[1..])),
        Count { found: 5, cap: 4, .. }
    );
    let mut other = specs();
    other[1].limbs = 2;
    refused!(keys(&file, &params, Some(&other)), UnexpectedKey { limbs: 1, .. });
    let fewer = key_file(&params, &list[..4]);
    refused!(
        keys(&fewer, &params, Some(&list)),
        MissingKeys {
            missing: 1,
            first: KeyKind::Raise(1),
            ..
        }
    );
}

#[test]
fn forged_parameters() {
    let params = insecure_toy_n8();
    let mut file = Vec::new();
    write_parameters(&mut file, params.rlwe()).unwrap();
    let forge = |at, value: &[u8]| {
        let bytes = forged(file.clone(), at, value);
        read_parameters(&mut &bytes[..], true).err().unwrap()
    };
    let names = 10 + params.rlwe().name().len();
    refused!(
        read_parameters(&mut &file[..], false).err().unwrap(),
        Insecure { .. }
    );
    refused!(forge(0, &[65, 0]), Field { field: "name", .. });
    refused!(forge(2, &[18, 0]), Field { field: "log_n", .. });
    refused!(forge(6, &[9, 0]), Length { .. });
    refused!(forge(10, &[0xff]), Field { field: "name", .. });
    refused!(forge(4, &[3, 0]), Parameters { .. });
    let swapped: Vec<u8> = [params.rlwe().q()[1], params.rlwe().q()[0]]
        .iter()
        .flat_map(|p| p.to_le_bytes())
        .collect();
    refused!(forge(names, &swapped), Parameters { .. });
    assert!(matches!(
        forge(names, &4u64.to_le_bytes()),
        WireError::Rlwe { .. }
    ));
    assert!(matches!(forge(10, b"x"), WireError::Rlwe { .. }));
}

#[test]
fn writers_refuse_what_readers_would() {
    let params = insecure_toy_n8();
    let write = |ct: &_| write_ciphertext(&mut Vec::new(), &params, ct).err().unwrap();
    let mut ct = ciphertext(&params, 2, 1);
    ct.scale = f64::NAN;
    refused!(write(&ct), Scale { .. });
    let mut ct = ciphertext(&params, 2, 1);
    ct.polys[1].limbs[1][7] = params.prime(1);
    refused!(write(&ct), Residue { limb: 3, .. });
    let mut ct = ciphertext(&params, 2, 1);
    ct.polys.push(ct.polys[0].clone());
    refused!(write(&ct), Shape { .. });
    let mut ct = ciphertext(&params, 2, 1);
    ct.polys[1].truncate(1);
    refused!(write(&ct), Shape { .. });
}

#[test]
fn writers_keep_their_count_and_their_specs() {
    let params = insecure_toy_n8();
    let (list, writer) = (specs(), |n| {
        KeyWriter::new(Vec::new(), &params, OWNER, n).unwrap()
    });
    let mut w = writer(2);
    w.write(&list[0], &key(&params, &list[0])).unwrap();
    refused!(
        w.write(&list[0], &key(&params, &list[0])).unwrap_err(),
        DuplicateKey { .. }
    );
    refused!(
        w.write(&list[1], &key(&params, &list[0])).unwrap_err(),
        Shape { .. }
    );
    refused!(
        w.finish().unwrap_err(),
        Promised {
            written: 1,
            promised: 2,
            ..
        }
    );
    let mut w = writer(0);
    refused!(
        w.write(&list[0], &key(&params, &list[0])).unwrap_err(),
        Promised { .. }
    );
    refused!(
        KeyWriter::new(Vec::new(), &params, OWNER, 523).err().unwrap(),
        Count { .. }
    );
}
