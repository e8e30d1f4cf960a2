//! Arithmetic, linear transforms and polynomials on a toy ring, against plain complex arithmetic.
use crate::toy::{values, worst, Toy};
use num_complex::Complex64;
use std::borrow::Cow;
use tacita_ckks::linear::{LinearTransform, Term};

const RING: &str = "insecure_toy_n9";
const TIGHT: f64 = 1e-8;

#[test]
fn sums_products_rotations_and_conjugation() {
    let t = Toy::new(RING, &[1, 5, -3], false);
    let e = &t.evaluator;
    let (x, y) = (values(256, 1, true), values(256, 2, true));
    let (a, b) = (t.encrypt(&x, 10), t.encrypt(&y, 10));
    let zip = |f: fn(Complex64, Complex64) -> Complex64| -> Vec<Complex64> {
        x.iter().zip(&y).map(|(p, q)| f(*p, *q)).collect()
    };
    assert!(worst(&t.decrypt(&a), &x) < TIGHT);
    assert!(worst(&t.decrypt(&e.add(&a, &b).unwrap()), &zip(|p, q| p + q)) < TIGHT);
    assert!(worst(&t.decrypt(&e.sub(&a, &b).unwrap()), &zip(|p, q| p - q)) < TIGHT);
    let product = e.mul(&a, &b).unwrap();
    assert_eq!(product.level(), 9);
    assert!((product.scale / e.params().scale(9) - 1.0).abs() < 1e-12);
    assert!(worst(&t.decrypt(&product), &zip(|p, q| p * q)) < TIGHT);
    let dot = e.dot(&[(&a, &b), (&b, &b)]).unwrap();
    assert!(worst(&t.decrypt(&dot), &zip(|p, q| p * q + q * q)) < TIGHT);
    assert!(worst(&t.decrypt(&e.mul_i(&a).unwrap()), &zip(|p, _| p * Complex64::i())) < TIGHT);
    assert!(worst(&t.decrypt(&e.conjugate(&a).unwrap()), &zip(|p, _| p.conj())) < TIGHT);
    let steps = [1i64, 5, -3, 0];
    for (r, got) in steps.iter().zip(e.rotate_many(&a, &steps).unwrap()) {
        let want: Vec<_> = (0..256).map(|j| x[(j + r).rem_euclid(256) as usize]).collect();
        assert!(worst(&t.decrypt(&got), &want) < TIGHT, "rotation {r}");
    }
    assert!(e.rotate(&a, 7).is_err());
}

#[test]
fn constants_vectors_and_alignment() {
    let t = Toy::new(RING, &[], false);
    let e = &t.evaluator;
    let x = values(256, 3, true);
    let a = t.encrypt(&x, 12);
    let c = Complex64::new(0.7, -1.3);
    let v = values(32, 4, true);
    let map = |f: &dyn Fn(usize, Complex64) -> Complex64| -> Vec<Complex64> {
        x.iter().enumerate().map(|(i, p)| f(i, *p)).collect()
    };
    assert!(worst(&t.decrypt(&e.mul_constant(&a, c).unwrap()), &map(&|_, p| p * c)) < TIGHT);
    assert!(worst(&t.decrypt(&e.add_constant(&a, c).unwrap()), &map(&|_, p| p + c)) < TIGHT);
    assert!(
        worst(
            &t.decrypt(&e.mul_vector(&a, &v).unwrap()),
            &map(&|i, p| p * v[i % 32])
        ) < TIGHT
    );
    assert!(
        worst(
            &t.decrypt(&e.add_vector(&a, &v).unwrap()),
            &map(&|i, p| p + v[i % 32])
        ) < TIGHT
    );
    assert!(
        worst(
            &t.decrypt(&e.mul_integer(&a, -37).unwrap()),
            &map(&|_, p| p * -37.0)
        ) < 1e-6
    );
    let low = e.drop_to(&a, 3).unwrap();
    assert_eq!(low.level(), 3);
    assert!((low.scale / e.params().scale(3) - 1.0).abs() < 1e-12);
    assert!(worst(&t.decrypt(&low), &x) < TIGHT);
    assert!(e.add(&a, &low).is_err());
    let bottom = e.drop_to(&a, 0).unwrap();
    assert!(e.mul(&bottom, &bottom).is_err());
}

/// No integer stands for these: NaN would be rounded to zero.
#[test]
fn constants_that_are_not_finite_or_too_large_are_refused() {
    let t = Toy::new(RING, &[], false);
    let (e, a) = (&t.evaluator, t.encrypt(&values(256, 6, true), 4));
    for bad in [f64::NAN, f64::INFINITY, -f64::INFINITY, 1e300] {
        for c in [Complex64::new(bad, 0.0), Complex64::new(0.0, bad)] {
            assert!(
                e.add_constant(&a, c).is_err() && e.mul_constant(&a, c).is_err(),
                "{c}"
            );
        }
    }
    assert!(e.add_constant(&a, Complex64::new(1e6, -1e6)).is_ok());
}

/// Also from the top, whose scale is 2^10 above that of most levels.
#[test]
fn a_drop_ends_at_exactly_the_scale_of_its_level() {
    let t = Toy::new(RING, &[], false);
    let (e, top) = (&t.evaluator, t.evaluator.params().top_level());
    let x = values(256, 7, true);
    let fresh = t.encrypt(&x, top);
    for level in 0..top {
        let low = e.drop_to(&fresh, level).unwrap();
        assert_eq!((low.level(), low.scale), (level, e.params().scale(level)));
        assert!(worst(&t.decrypt(&low), &x) < 1e-7, "{level}");
    }
}

#[test]
fn linear_transforms_in_every_form() {
    let rotations: Vec<i64> = (-8..=32).collect();
    let t = Toy::new(RING, &rotations, false);
    let e = &t.evaluator;
    let xs = [values(256, 5, true), values(256, 6, true)];
    let cts = [t.encrypt(&xs[0], 9), t.encrypt(&xs[1], 8)];
    let vectors: Vec<_> = (0..24).map(|i| values(16, 10 + i, true)).collect();
    let term = |output, giant, input, baby, vector| Term {
        output,
        giant,
        input,
        baby,
        vector,
    };
    let babies: Vec<_> = (0..24)
        .map(|i| term(i % 3, 0, i % 2, (i / 2) as i64 - 6, i))
        .collect();
    let giants: Vec<_> = (0..24)
        .map(|i| term(0, (i as i64 % 8) * 4, i % 2, 0, i))
        .collect();
    let both: Vec<_> = (0..24)
        .map(|i| term(i % 2, (i as i64 / 8) * 8, i % 2, i as i64 % 8, i))
        .collect();
    for (terms, outputs, horner_step) in [
        (babies, 3, None),
        (giants.clone(), 1, None),
        (giants, 1, Some(4)),
        (both.clone(), 2, None),
        (both, 2, Some(8)),
    ] {
        let tr = LinearTransform {
            vectors: vectors.iter().map(|v| Cow::Borrowed(&v[..])).collect(),
            terms,
            outputs,
            horner_step,
        };
        let got = e.linear(&cts, &tr).unwrap();
        for (j, out) in got.iter().enumerate() {
            let mut want = vec![Complex64::new(0.0, 0.0); 256];
            for x in tr.terms.iter().filter(|x| x.output == j) {
                for (s, w) in want.iter_mut().enumerate() {
                    let k = (s as i64 + x.giant).rem_euclid(256);
                    let from = (k + x.baby).rem_euclid(256) as usize;
                    *w += vectors[x.vector][(k % 16) as usize] * xs[x.input][from];
                }
            }
            assert!(worst(&t.decrypt(out), &want) < 1e-6);
        }
    }
}

#[test]
fn chebyshev_series_at_optimal_depth() {
    let t = Toy::new(RING, &[], false);
    let e = &t.evaluator;
    let x = values(256, 7, false);
    let a = t.encrypt(&x, 14);
    for degree in [1usize, 2, 3, 5, 7, 8, 15, 27, 31, 47, 63, 100, 127] {
        let c: Vec<Complex64> = values(degree + 1, 20 + degree as u64, true)
            .iter()
            .map(|z| z / (degree as f64))
            .collect();
        let got = e.chebyshev(&a, &c, None).unwrap();
        assert_eq!(got.level(), 14 - tacita_ckks::polynomial::depth(degree));
        let want: Vec<Complex64> = x
            .iter()
            .map(|z| {
                c.iter()
                    .enumerate()
                    .map(|(n, c)| c * (n as f64 * z.re.acos()).cos())
                    .sum()
            })
            .collect();
        let err = worst(&t.decrypt(&got), &want);
        assert!(err < 1e-6, "degree {degree}: {err}");
    }
}

#[test]
fn power_series_on_the_unit_circle() {
    let t = Toy::new(RING, &[], false);
    let e = &t.evaluator;
    let angle = |x: &Complex64| Complex64::from_polar(1.0, 3.0 * x.re);
    let z: Vec<Complex64> = values(256, 8, false).iter().map(angle).collect();
    let a = t.encrypt(&z, 14);
    for degree in [1usize, 2, 6, 28, 31, 63] {
        let c = values(degree + 1, 40 + degree as u64, true);
        let got = e.power_series(&a, &c, None).unwrap();
        assert_eq!(got.level(), 14 - tacita_ckks::polynomial::depth(degree));
        let value = |z: &Complex64| {
            c.iter()
                .rev()
                .fold(Complex64::new(0.0, 0.0), |sum, c| sum * z + c)
        };
        let err = worst(&t.decrypt(&got), &z.iter().map(value).collect::<Vec<_>>());
        assert!(err < 1e-6, "degree {degree}: {err}");
    }
}

/// Scales as a hostile file may have them: nothing is computed with what is not a number, and no factor is
/// rounded to zero.
#[test]
fn operands_whose_scales_are_far_off_are_refused() {
    let t = Toy::new(RING, &[], false);
    let e = &t.evaluator;
    let fresh = t.encrypt(&values(256, 5, true), 10);
    for scale in [f64::NAN, f64::INFINITY, 0.0, 100f64.exp2()] {
        let mut odd = fresh.clone();
        odd.scale = scale;
        assert!(e.drop_to(&odd, 3).is_err(), "{scale}");
        assert!(
            e.add(&odd, &fresh).is_err() && e.add(&fresh, &odd).is_err(),
            "{scale}"
        );
        assert!(e.align(&odd, &e.drop_to(&fresh, 3).unwrap()).is_err(), "{scale}");
        if !scale.is_normal() {
            assert!(e.mul(&odd, &fresh).is_err(), "{scale}");
        }
    }
}
