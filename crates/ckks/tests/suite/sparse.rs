//! Keys that would give the sparse secret away are not made.
use tacita_ckks::generator::KeyGenerator;
use tacita_ckks::keys::KeySpec;
use tacita_ckks::{CkksError, CkksParameters, KeyKind};
use tacita_rlwe::SecretKey;

fn made(preset: &str, kind: KeyKind, limbs: usize) -> Result<usize, CkksError> {
    let params = CkksParameters::preset(preset).unwrap();
    let secret = SecretKey::generate(params.rlwe()).unwrap();
    let generator = KeyGenerator::new(&params, &secret).unwrap();
    generator.generate(KeySpec { kind, limbs }).map(|key| key.limbs)
}

#[test]
fn the_key_to_the_sparse_secret_has_one_limb() {
    assert_eq!(made("insecure_toy_n8", KeyKind::ToSparse, 1).unwrap(), 1);
    for limbs in [0, 2, 28] {
        let error = made("insecure_toy_n8", KeyKind::ToSparse, limbs).unwrap_err();
        assert!(matches!(error, CkksError::Shape { .. }), "{error}");
        assert!(
            error.to_string().contains("sparse secret") && error.to_string().contains("hint"),
            "{error}"
        );
    }
}

#[test]
fn without_bootstrapping_there_are_no_keys_of_the_sparse_secret() {
    for kind in [KeyKind::ToSparse, KeyKind::Raise(0)] {
        assert!(made("insecure_toy_leveled_n9", kind, 1).is_err(), "{kind:?}");
    }
}
