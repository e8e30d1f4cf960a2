use super::*;
use crate::linear::required_rotations;

fn apply(t: &LinearTransform<'_>, x: &[Complex64]) -> Vec<Complex64> {
    let n = x.len() as i64;
    let mut out = vec![Complex64::new(0.0, 0.0); x.len()];
    for term in &t.terms {
        assert!(term.giant >= 0 && term.baby >= 0);
        let v = &t.vectors[term.vector];
        for j in 0..n {
            let k = j + term.giant;
            out[j as usize] += at(v, k) * at(x, k + term.baby);
        }
    }
    let _ = n;
    out
}

#[test]
fn rotations_are_those_of_the_matrices() {
    for log in 6u32..=13 {
        let slots = 1usize << log;
        let e = Encoder::new(slots);
        let of = |_, t| Ok::<_, ()>(required_rotations(&t));
        assert_eq!(
            Ok(rotations_to_coefficients(slots)),
            slots_to_coefficients(&e, slots, of)
        );
        assert_eq!(
            Ok(rotations_to_slots(slots)),
            coefficients_to_slots(&e, slots, 0.5, of)
        );
    }
}

#[test]
fn matrices_have_their_places_and_one_error_ends_them() {
    let e = Encoder::new(1 << 6);
    let place = |i, _| if i == 1 { Err(i) } else { Ok(i) };
    assert_eq!(slots_to_coefficients(&e, 1 << 6, place), Err(1));
    let place = |i, _| Ok::<_, ()>(i);
    assert_eq!(coefficients_to_slots(&e, 1 << 6, 0.5, place), Ok(vec![0, 1]));
}

#[test]
fn the_two_transforms_are_inverse_and_match_the_encoder() {
    for log in [6u32, 7, 8, 9] {
        let slots = 1usize << log;
        let e = Encoder::new(slots);
        let x: Vec<Complex64> = (0..slots)
            .map(|j| Complex64::new((j * 7 % 13) as f64 - 6.0, (j % 5) as f64))
            .collect();
        let whole = |_, t| Ok::<_, ()>(t);
        let stc = slots_to_coefficients(&e, slots, whole)
            .unwrap()
            .iter()
            .fold(x.clone(), |v, t| apply(t, &v));
        // the polynomial whose slots are `stc` has the bit-reversed x as coefficients
        let c = e.coefficients(&stc);
        for (j, want) in x.iter().enumerate() {
            let r = j.reverse_bits() >> (usize::BITS - log);
            let got = Complex64::new(c[r], c[r + slots]);
            assert!((got - want).norm() < 1e-8, "{log} {j} {got} {want}");
        }
        let mut first = vec![Complex64::new(0.0, 0.0); slots];
        for (d, v) in first_towards_slots(&e, slots, 1.0) {
            for (j, sum) in first.iter_mut().enumerate() {
                *sum += v[j % v.len()] * stc[(j + d as usize) % slots];
            }
        }
        let back = coefficients_to_slots(&e, slots, 1.0, whole)
            .unwrap()
            .iter()
            .fold(first, |v, t| apply(t, &v));
        assert!(back.iter().zip(&x).all(|(a, b)| (a - b).norm() < 1e-8));
    }
}
