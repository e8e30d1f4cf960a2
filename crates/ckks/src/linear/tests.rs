//! Two ways to the same inner sums: babies that are kept, and babies that are made block by block.
use super::*;
use crate::keys::KeyGenerator;
use crate::keys::KeySpec;
use crate::{CkksParameters, EvaluationKeys};
use std::sync::Arc;
use tacita_rlwe::{encrypt, SecretKey};

const STEPS: [i64; 3] = [1, 2, 5];

fn client() -> (Evaluator, SecretKey) {
    let params = CkksParameters::preset("insecure_toy_n11").unwrap();
    let secret = SecretKey::generate(params.rlwe()).unwrap();
    let generator = KeyGenerator::new(&params, &secret).unwrap();
    let (mut keys, limbs) = (EvaluationKeys::default(), params.rlwe().q_len());
    for step in STEPS {
        let kind = KeyKind::Galois(galois_of_rotation(&params, step));
        keys.insert(kind, generator.generate(KeySpec { kind, limbs }).unwrap());
    }
    (Evaluator::new(params, Arc::new(keys)), secret)
}

fn vector(length: usize, seed: usize) -> Vec<Complex64> {
    let value = |j: usize| ((7 * j + seed) % 13) as f64 / 13.0 - 0.5;
    (0..length)
        .map(|j| Complex64::new(value(j), value(j + 3)))
        .collect()
}

/// Two inputs, two outputs, two giants; vectors of several periods; one input is not rotated.
fn transform(slots: usize) -> LinearTransform {
    let term = |(vector, (output, giant, input, baby))| Term {
        output,
        giant,
        input,
        baby,
        vector,
    };
    let places = [
        (0, 0, 0, 1),
        (0, 0, 0, 2),
        (0, 5, 0, 0),
        (0, 5, 1, 0),
        (1, 0, 0, 2),
        (1, 5, 0, 1),
    ];
    LinearTransform {
        vectors: (0..places.len()).map(|v| vector(slots >> (v % 4), v)).collect(),
        terms: places.into_iter().enumerate().map(term).collect(),
        outputs: 2,
        horner_step: None,
    }
}

#[test]
fn streamed_sums_are_those_of_kept_babies() {
    let (e, secret) = client();
    let (rlwe, t) = (e.rlwe(), transform(e.params().slots()));
    for level in [1, 4] {
        let input = |seed| {
            let scale = e.params().scale(level);
            let plain = e
                .encode(&vector(e.params().slots(), seed), scale, level + 1)
                .unwrap();
            encrypt::encrypt_secret(rlwe, &secret, &plain, scale).unwrap().0
        };
        let inputs = [input(1), input(2)];
        let encoded = e
            .encode_transform(&t, level + 1, e.plain_scale(&inputs[0]), true)
            .unwrap();
        let (steps, wanted) = (steps_of(&encoded), giants_of(&encoded));
        let digits = e.decompose_inputs(&inputs, &encoded).unwrap();
        let streamed = e.streamed(&inputs, &digits, &wanted, &encoded).unwrap();
        let babies = e.babies(&inputs, &digits, &steps, &encoded).unwrap();
        let mut kept = e.zero_pairs(wanted.len(), &encoded);
        let babies = halves(&inputs, &steps, &babies);
        e.accumulate(&mut kept, &pick(&encoded, &steps, &wanted), &babies, &encoded);
        assert_eq!(streamed.len(), 4);
        for (a, b) in streamed.iter().zip(&kept) {
            for (a, b) in [(&a.0, &b.0), (&a.1, &b.1)] {
                assert_eq!((a.q_len, a.limbs.len()), (b.q_len, b.limbs.len()));
                assert!(a.limbs.iter().zip(&b.limbs).all(|(a, b)| a[..] == b[..]));
            }
        }
    }
}
