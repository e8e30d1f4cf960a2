//! What is written is what is read, in as many bytes as promised.
use crate::common::*;
use tacita_ckks::bootstrap::required_keys;
use tacita_ckks::keys::KeySpec;
use tacita_ckks::{Ciphertext, CkksParameters, KeyKind};
use tacita_wire::*;

fn same(a: &Ciphertext, b: &Ciphertext) -> bool {
    a.scale == b.scale
        && a.polys
            .iter()
            .zip(&b.polys)
            .all(|(x, y)| x.q_len == y.q_len && x.limbs == y.limbs)
}

#[test]
fn ciphertexts_of_every_level() {
    let params = insecure_toy_n8();
    let levels: Vec<usize> = (1..=params.rlwe().q_len()).collect();
    let cts: Vec<_> = levels.iter().map(|&l| ciphertext(&params, l, l as u64)).collect();
    let mut bytes = Vec::new();
    CiphertextFile::write(&mut bytes, &params, OWNER, &cts).unwrap();
    assert_eq!(bytes.len(), CiphertextFile::bytes(&params, &levels));
    let back = CiphertextFile::read(&mut &bytes[..], &params, Some(OWNER)).unwrap();
    assert_eq!(back.owner, OWNER);
    assert_eq!(back.ciphertexts.len(), cts.len());
    assert!(back.ciphertexts.iter().zip(&cts).all(|(a, b)| same(a, b)));
}

#[test]
fn seeded_ciphertexts_take_half_the_bytes() {
    let params = insecure_toy_n8();
    let ct = seeded_ciphertext(&params, 16, 4);
    let (mut half, mut whole) = (Vec::new(), Vec::new());
    write_seeded_ciphertext(&mut half, &params, &ct, &SEED).unwrap();
    write_ciphertext(&mut whole, &params, &ct).unwrap();
    assert_eq!(half.len(), ciphertext_record_bytes(&params, 16, true));
    assert_eq!(whole.len(), ciphertext_record_bytes(&params, 16, false));
    assert!(half.len() * 2 < whole.len() + 200);
    for bytes in [half, whole] {
        assert!(same(&read_ciphertext(&mut &bytes[..], &params).unwrap(), &ct));
    }
}

#[test]
fn a_wrong_seed_is_refused_on_writing() {
    let params = insecure_toy_n8();
    let ct = ciphertext(&params, 2, 4);
    let result = write_seeded_ciphertext(&mut Vec::new(), &params, &ct, &SEED);
    assert!(matches!(result, Err(WireError::Shape { .. })));
}

#[test]
fn keys_of_every_kind() {
    let params = insecure_toy_n8();
    let bytes = key_file(&params, &specs());
    assert_eq!(bytes.len(), key_file_bytes(&params, &specs()));
    let reader = KeyReader::new(&bytes[..], &params, Some(OWNER)).unwrap();
    assert_eq!((reader.owner(), reader.records()), (OWNER, 5));
    let read: Vec<_> = reader.map(Result::unwrap).collect();
    assert_eq!(read.len(), specs().len());
    for ((spec, got), wanted) in read.iter().zip(specs()) {
        let made = key(&params, &wanted);
        assert_eq!(*spec, wanted);
        assert_eq!((got.seed, got.limbs), (made.seed, made.limbs));
        for (x, y) in [(&got.a, &made.a), (&got.b, &made.b)] {
            assert!(x.iter().zip(y).all(|(x, y)| x.limbs == y.limbs));
        }
    }
    let (owner, keys) = read_evaluation_keys(&bytes[..], &params, None, Some(&specs())).unwrap();
    assert_eq!((owner, keys.len()), (OWNER, 5));
}

/// A server's keys stay packed; they are those that a reader of one after the other gives.
#[test]
fn packed_keys_hold_the_same_residues() {
    let params = insecure_toy_n8();
    let bytes = key_file(&params, &specs());
    let (_, packed) = read_evaluation_keys(&bytes[..], &params, None, None).unwrap();
    let rlwe = params.rlwe();
    for item in KeyReader::new(&bytes[..], &params, None).unwrap() {
        let (spec, plain) = item.unwrap();
        let (found, digits) = (packed.get(spec.kind, spec.limbs).unwrap(), plain.b.len());
        assert_eq!((found.seed, found.special), (plain.seed, plain.special));
        let limbs = spec.limbs + plain.special;
        for (half, d, at) in (0..2 * digits * limbs).map(|i| (i % 2, i / 2 % digits, i / 2 / digits)) {
            assert_eq!(
                found.limb(rlwe, half, d, at),
                plain.limb(rlwe, half, d, at),
                "{spec:?} limb {at}"
            );
        }
    }
}

#[test]
fn a_key_at_the_top_level() {
    let params = insecure_toy_n8();
    let spec = tacita_ckks::keys::KeySpec {
        kind: tacita_ckks::KeyKind::Relinearise,
        limbs: params.rlwe().q_len(),
    };
    let bytes = key_file(&params, &[spec]);
    let mut reader = KeyReader::new(&bytes[..], &params, None).unwrap();
    let (got, key) = reader.next().unwrap().unwrap();
    let digits = params.rlwe().digits(spec.limbs, params.rlwe().p_len());
    assert_eq!((got, key.b.len()), (spec, digits));
    assert!(reader.next().is_none());
}

#[test]
fn parameters_and_blobs() {
    let params = insecure_toy_n8();
    let mut bytes = Vec::new();
    write_parameters(&mut bytes, params.rlwe()).unwrap();
    let back = read_parameters(&mut &bytes[..], true).unwrap();
    assert_eq!(back.hash(), params.rlwe().hash());
    assert_eq!(back.name(), params.rlwe().name());

    let (hash, plan) = (params.rlwe().hash(), b"{\"stages\": []}");
    let mut bytes = Vec::new();
    write_blob(&mut bytes, Kind::PLAN, hash, OWNER, plan).unwrap();
    let (header, body) = read_blob(&mut &bytes[..], Kind::PLAN, Some(hash), 1 << 20).unwrap();
    assert_eq!((header.owner, &body[..]), (OWNER, &plan[..]));
}

/// A preset without bootstrapping: another chain, another number of special primes, all its keys and levels.
#[test]
fn files_of_a_leveled_preset() {
    let params = CkksParameters::preset("insecure_toy_leveled_n9").unwrap();
    let mut bytes = Vec::new();
    write_parameters(&mut bytes, params.rlwe()).unwrap();
    assert_eq!(
        read_parameters(&mut &bytes[..], true).unwrap().hash(),
        params.rlwe().hash()
    );
    let cts: Vec<_> = (1..=params.top_level() + 1)
        .map(|l| ciphertext(&params, l, l as u64))
        .collect();
    let mut bytes = Vec::new();
    CiphertextFile::write(&mut bytes, &params, OWNER, &cts).unwrap();
    let back = CiphertextFile::read(&mut &bytes[..], &params, Some(OWNER)).unwrap();
    assert!(back.ciphertexts.iter().zip(&cts).all(|(a, b)| same(a, b)));
    let specs = required_keys(&params);
    let bytes = key_file(&params, &specs);
    assert_eq!(bytes.len(), key_file_bytes(&params, &specs));
    let (_, keys) = read_evaluation_keys(&bytes[..], &params, Some(OWNER), Some(&specs)).unwrap();
    assert_eq!(keys.len(), 2);
    let other = insecure_toy_n8();
    assert!(read_evaluation_keys(&bytes[..], &other, None, None).is_err());
}

#[test]
fn keys_of_the_bottom_of_the_chain_have_few_special_primes() {
    let params = insecure_toy_n8();
    let specs = [2, 3].map(|limbs| KeySpec {
        kind: KeyKind::LowGalois(4 * limbs as u64 + 1),
        limbs,
    });
    let bytes = key_file(&params, &specs);
    assert_eq!(bytes.len(), key_file_bytes(&params, &specs));
    let (_, keys) = read_evaluation_keys(&bytes[..], &params, Some(OWNER), Some(&specs)).unwrap();
    for spec in &specs {
        assert_eq!(keys.get(spec.kind, spec.limbs).unwrap().special, spec.limbs);
    }
    let high = KeySpec {
        kind: KeyKind::LowGalois(5),
        limbs: 4,
    };
    let mut writer = KeyWriter::new(Vec::new(), &params, OWNER, 1).unwrap();
    assert!(writer.write(&high, &key(&params, &high)).is_err());
}

#[test]
fn owner_ids_are_random_and_print_as_hex() {
    let (a, b) = (Owner::random().unwrap(), Owner::random().unwrap());
    assert_ne!(a, b);
    assert_eq!(a.to_string().parse::<Owner>().unwrap(), a);
    for bad in ["", "+123456789abcdef0123456789abcdef", "é", "0123"] {
        assert!(bad.parse::<Owner>().is_err());
    }
}
