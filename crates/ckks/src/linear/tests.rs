//! Two ways to the same inner sums: babies that are kept, and babies that are made block by block.
use super::babies::halves;
use super::inner_sums::pick;
use super::tiled;
use super::transform::{giants_of, steps_of};
use super::*;
use crate::generator::KeyGenerator;
use crate::keys::{galois_of_rotation, KeySpec};
use crate::{CkksParameters, EvaluationKeys};
use num_complex::Complex64;
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
fn transform(slots: usize) -> LinearTransform<'static> {
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
        vectors: (0..places.len())
            .map(|v| vector(slots >> (v % 4), v).into())
            .collect(),
        terms: places.into_iter().enumerate().map(term).collect(),
        outputs: 2,
        horner_step: None,
    }
}

fn encrypted(e: &Evaluator, secret: &SecretKey, level: usize, seed: usize) -> Ciphertext {
    let scale = e.params().scale(level);
    let plain = e
        .encode(&vector(e.params().slots(), seed), scale, level + 1)
        .unwrap();
    encrypt::encrypt_secret(e.rlwe(), secret, &plain, scale)
        .unwrap()
        .0
}

#[test]
fn streamed_sums_are_those_of_kept_babies() {
    let (e, secret) = client();
    let t = transform(e.params().slots());
    for level in [1, 4] {
        let [first, second] = [1, 2].map(|seed| encrypted(&e, &secret, level, seed));
        let inputs = [&first, &second];
        let encoded = e
            .encode_transform(&t, level + 1, e.plain_scale(inputs[0]), true)
            .unwrap();
        let (steps, wanted) = (steps_of(&encoded), giants_of(&encoded));
        let digits = e.context().decompose_inputs(&inputs, &encoded).unwrap();
        let streamed = e.context().streamed(&inputs, &digits, &wanted, &encoded).unwrap();
        let babies = e.context().babies(&inputs, &digits, &steps, &encoded).unwrap();
        let mut kept = e.context().zero_pairs(wanted.len(), &encoded);
        let babies = halves(&inputs, &steps, &babies);
        e.context().accumulate(
            &mut kept,
            &pick(&encoded, &steps, &wanted),
            &babies,
            &encoded,
            false,
        );
        assert_eq!(streamed.len(), 4);
        for (a, b) in streamed.iter().zip(&kept) {
            for (a, b) in [(&a.0, &b.0), (&a.1, &b.1)] {
                assert_eq!((a.q_len, a.limbs.len()), (b.q_len, b.limbs.len()));
                assert!(a.limbs.iter().zip(&b.limbs).all(|(a, b)| a[..] == b[..]));
            }
        }
    }
}

/// Nine sums of thirteen babies of six inputs: what is made by tiles.
fn dense(slots: usize) -> LinearTransform<'static> {
    let mut terms = Vec::new();
    let sums = (0..5).flat_map(|output| [(output, 0), (output, 5)]).take(9);
    let babies = || std::iter::once((0, 0)).chain((0..6).flat_map(|input| [(input, 1), (input, 2)]));
    for (output, giant) in sums {
        for (input, baby) in babies() {
            let vector = terms.len();
            terms.push(Term {
                output,
                giant,
                input,
                baby,
                vector,
            });
        }
    }
    LinearTransform {
        vectors: (0..terms.len())
            .map(|v| vector((slots / 16) >> (v % 3), v).into())
            .collect(),
        terms,
        outputs: 5,
        horner_step: None,
    }
}

#[test]
fn sums_by_tiles_are_those_term_by_term() {
    let (e, secret) = client();
    let (slots, limbs) = (e.params().slots(), 4);
    let input = |seed| {
        let scale = e.params().scale(limbs - 1);
        let plain = e.encode(&vector(slots, seed), scale, limbs).unwrap();
        encrypt::encrypt_secret(e.rlwe(), &secret, &plain, scale)
            .unwrap()
            .0
    };
    let made: Vec<_> = (1..=6).map(input).collect();
    let inputs: Vec<_> = made.iter().collect();
    let t = e
        .encode_transform(&dense(slots), limbs, e.plain_scale(inputs[0]), true)
        .unwrap();
    let (steps, wanted) = (steps_of(&t), giants_of(&t));
    let terms = pick(&t, &steps, &wanted);
    assert!(tiled::Tiled::new(e.rlwe().n(), &terms, &t).is_some());
    let few: Vec<_> = terms.iter().map(|terms| terms[..1].to_vec()).collect();
    assert!(tiled::Tiled::new(e.rlwe().n(), &few[..2], &t).is_none());
    let digits = e.context().decompose_inputs(&inputs, &t).unwrap();
    let babies = e.context().babies(&inputs, &digits, &steps, &t).unwrap();
    let babies = halves(&inputs, &steps, &babies);
    let mut plain = e.context().zero_pairs(wanted.len(), &t);
    for (at, row) in inner_sums::by_limb(&mut plain).into_iter().enumerate() {
        e.context().add_terms(
            (e.rlwe().modulus(e.context().index(at, t.limbs)), at),
            row,
            &terms,
            &babies,
            &t,
            false,
        );
    }
    let mut kept = e.context().zero_pairs(wanted.len(), &t);
    e.context().accumulate(&mut kept, &terms, &babies, &t, false);
    let mut fresh = e.context().scratch_pairs(wanted.len(), &t);
    e.context().accumulate(&mut fresh, &terms, &babies, &t, true);
    let streamed = e.context().streamed(&inputs, &digits, &wanted, &t).unwrap();
    for other in [&kept, &fresh, &streamed] {
        for (a, b) in plain.iter().zip(other) {
            assert!(a.0.limbs == b.0.limbs && a.1.limbs == b.1.limbs);
        }
    }
}

/// Also of an output without terms.
#[test]
fn sums_without_giants_are_those_of_kept_babies() {
    let (e, secret) = client();
    let (slots, limbs) = (e.params().slots(), 4);
    let mut t = dense(slots);
    t.terms.iter_mut().for_each(|term| term.giant = 0);
    t.terms
        .retain(|term| term.vector < 13 || (26..39).contains(&term.vector));
    let scale = e.params().scale(limbs - 1);
    let plain = e.encode(&vector(slots, 1), scale, limbs).unwrap();
    let made: Vec<_> = (0..6)
        .map(|_| {
            encrypt::encrypt_secret(e.rlwe(), &secret, &plain, scale)
                .unwrap()
                .0
        })
        .collect();
    let inputs: Vec<_> = made.iter().collect();
    let t = e
        .encode_transform(&t, limbs, e.plain_scale(inputs[0]), true)
        .unwrap();
    let (steps, wanted): (_, Vec<_>) = (steps_of(&t), (0..t.outputs).map(|j| (j, 0)).collect());
    let digits = e.context().decompose_inputs(&inputs, &t).unwrap();
    let babies = e.context().babies(&inputs, &digits, &steps, &t).unwrap();
    let mut kept = e.context().zero_pairs(wanted.len(), &t);
    let babies = halves(&inputs, &steps, &babies);
    e.context()
        .accumulate(&mut kept, &pick(&t, &steps, &wanted), &babies, &t, false);
    assert!(kept[4].0.limbs.iter().all(|limb| limb.iter().all(|&x| x == 0.0)));
    for (a, b) in e.context().babies_only(&inputs, &t).unwrap().iter().zip(&kept) {
        assert!(a.0.limbs == b.0.limbs && a.1.limbs == b.1.limbs);
    }
}

#[test]
fn outputs_in_turn_are_those_of_one_call() {
    let (e, secret) = client();
    let mut t = transform(e.params().slots());
    for term in &mut t.terms {
        if term.output == 1 {
            term.baby = 0; // the second output rotates no input
        }
    }
    let inputs = [1, 2].map(|seed| encrypted(&e, &secret, 4, seed));
    let limbs = inputs[0].limbs() + e.rlwe().p_len();
    let all = parts_of(&t, limbs * 8, usize::MAX).len();
    assert_eq!((all, parts_of(&t, limbs * 8, 0).len()), (1, 2));
    let (once, in_turn) = (
        e.linear(&inputs, &t).unwrap(),
        e.linear_within(&inputs, &t, 0).unwrap(),
    );
    assert_eq!(once.len(), in_turn.len());
    for (a, b) in once.iter().zip(&in_turn) {
        assert_eq!((a.scale, a.polys.len()), (b.scale, b.polys.len()));
        let mut polys = a.polys.iter().zip(&b.polys);
        assert!(polys.all(|(a, b)| a.q_len == b.q_len && a.limbs == b.limbs));
    }
}

/// Those without terms go with their neighbours, and so do those of which every vector is there.
#[test]
fn outputs_without_vectors_of_their_own_are_no_parts() {
    let term = |output, vector| Term {
        output,
        giant: 0,
        input: 0,
        baby: 0,
        vector,
    };
    let t = LinearTransform {
        vectors: vec![vector(4, 0).into(), vector(4, 1).into()],
        terms: vec![term(1, 0), term(3, 0), term(4, 1)],
        outputs: 6,
        horner_step: None,
    };
    let parts = parts_of(&t, 8, 0);
    let outputs: Vec<usize> = parts.iter().map(|part| part.outputs).collect();
    assert_eq!(outputs, [4, 2]);
    let vectors = parts.iter().flat_map(|part| &part.vectors);
    assert!(vectors.zip(&t.vectors).all(|(a, b)| a.as_ptr() == b.as_ptr())); // where they are
    assert!(parts.iter().all(|part| !part.terms.is_empty()));
}
