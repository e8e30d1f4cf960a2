//! Real keys and ciphertexts through files: what the server computes from bytes is what the client decrypts.
use crate::common::{insecure_toy_n8, OWNER};
use std::sync::Arc;
use tacita_ckks::generator::KeyGenerator;
use tacita_ckks::keys::KeySpec;
use tacita_ckks::{CkksParameters, Complex64, Evaluator, KeyKind};
use tacita_rlwe::encrypt::{decrypt, encrypt_secret};
use tacita_rlwe::{RnsPoly, SecretKey};
use tacita_wire::{read_evaluation_keys, CiphertextFile, CiphertextWriter, KeyWriter};

fn constant(params: &CkksParameters, value: i64, limbs: usize) -> RnsPoly {
    let mut coefficients = vec![0i64; params.rlwe().n()];
    coefficients[0] = value;
    RnsPoly::from_small(params.rlwe(), &coefficients, limbs, 0)
}

#[test]
fn a_product_computed_from_files_decrypts() {
    let params = insecure_toy_n8();
    let (rlwe, limbs) = (params.rlwe(), params.bottom_level() + 4); // where one limb holds a product
    let secret = SecretKey::generate(rlwe).unwrap();
    let spec = KeySpec {
        kind: KeyKind::Relinearise,
        limbs,
    };
    let key = KeyGenerator::new(&params, &secret)
        .unwrap()
        .generate(spec)
        .unwrap();
    let mut keys = KeyWriter::new(Vec::new(), &params, OWNER, 1).unwrap();
    keys.write(&spec, &key).unwrap();
    let keys = keys.finish().unwrap();
    let scale = params.scale(limbs - 1);
    let plain = constant(&params, (0.75 * scale) as i64, limbs);
    let (ct, seed) = encrypt_secret(rlwe, &secret, &plain, scale).unwrap();
    let mut request = CiphertextWriter::new(Vec::new(), &params, OWNER, 1).unwrap();
    request.write_seeded(&ct, &seed).unwrap();
    let request = request.finish().unwrap();

    let (owner, keys) = read_evaluation_keys(&keys[..], &params, None, Some(&[spec])).unwrap();
    let input = CiphertextFile::read(&mut &request[..], &params, Some(owner)).unwrap();
    let evaluator = Evaluator::new(params.clone(), Arc::new(keys));
    let squared = evaluator
        .mul(&input.ciphertexts[0], &input.ciphertexts[0])
        .unwrap();
    let mut response = Vec::new();
    CiphertextFile::write(&mut response, &params, owner, &[squared]).unwrap();

    let output = CiphertextFile::read(&mut &response[..], &params, Some(OWNER)).unwrap();
    let result = &output.ciphertexts[0];
    let m = decrypt(rlwe, &secret, result).limb_coefficients(rlwe, 0);
    let value = rlwe.modulus(0).center(m[0] as u64) as f64 / result.scale;
    assert!((Complex64::new(value, 0.0) - 0.5625).norm() < 1e-6, "{value}");
}
