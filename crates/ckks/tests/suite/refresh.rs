//! Bootstrapping through a function on a toy ring: values, level, scale, and the error that its docs state.
use crate::toy::{average, values, worst, Toy};
use tacita_ckks::bootstrap::refresh::{phase, Harmonics};
use tacita_ckks::bootstrap::{Bootstrapper, Content};
use tacita_ckks::{CkksError, Complex64};

/// Coefficients of Re sum c_k z^k that fall off as those of a function with a corner in its slope.
fn coefficients(degree: usize) -> Vec<Complex64> {
    (0..=degree)
        .map(|k| Complex64::from_polar(1.0 / ((k * k + 1) as f64), 0.7 * k as f64))
        .collect()
}

fn value(t: &Toy, c: &[Complex64], w: f64) -> f64 {
    let angle = phase(t.evaluator.params());
    let terms = c.iter().enumerate();
    terms
        .map(|(k, c)| (c * Complex64::from_polar(1.0, angle * k as f64 * w)).re)
        .sum()
}

/// What an error of z is multiplied by.
fn slope(c: &[Complex64]) -> f64 {
    c.iter().enumerate().map(|(k, c)| k as f64 * c.norm()).sum()
}

#[test]
fn a_refreshed_ciphertext_holds_the_function_of_every_slot() {
    let t = Toy::new("insecure_toy_n10", &[], true);
    let e = &t.evaluator;
    let b = Bootstrapper::new(e).unwrap();
    for (degree, content) in [
        (1, Content::Real),
        (6, Content::Complex),
        (31, Content::Real),
        (127, Content::Complex),
        (200, Content::Real),
    ] {
        let c = coefficients(degree);
        let f = Harmonics::new(&c).unwrap();
        let x = values(512, degree as u64, content == Content::Complex);
        let low = t.encrypt(&x, e.params().bottom_level() + degree % 2);
        let out = b.bootstrap_through(e, &low, content, &f).unwrap().remove(0);
        assert_eq!(out.level(), e.params().top_level() + 1 - f.depth());
        assert!((out.scale / e.params().scale(out.level()) - 1.0).abs() < 1e-9);
        let imaginary = |w: f64| {
            if content == Content::Complex {
                value(&t, &c, w)
            } else {
                0.0
            }
        };
        let wanted: Vec<Complex64> = x
            .iter()
            .map(|w| Complex64::new(value(&t, &c, w.re), imaginary(w.im)))
            .collect();
        let got = t.decrypt(&out);
        let error = (average(&got, &wanted) / slope(&c)).log2();
        let largest = (worst(&got, &wanted) / slope(&c)).log2();
        println!("degree {degree}: average 2^{error:.1}, largest 2^{largest:.1} of the slope");
        assert!(error < -27.5, "degree {degree}: 2^{error}");
        assert!(largest < -26.0, "degree {degree}: 2^{largest}");
    }
}

/// Slots beyond 1 are arguments of the extension, up to the end of the period at 1.45.
#[test]
fn the_rest_of_the_period_is_met_as_well() {
    let t = Toy::new("insecure_toy_n8", &[], true);
    let (e, c) = (&t.evaluator, coefficients(12));
    let x: Vec<Complex64> = values(128, 5, true).iter().map(|w| w * 1.44).collect();
    let low = t.encrypt(&x, e.params().bottom_level());
    let f = Harmonics::new(&c).unwrap();
    let out = Bootstrapper::new(e)
        .unwrap()
        .bootstrap_through(e, &low, Content::Complex, &f);
    let wanted: Vec<Complex64> = x
        .iter()
        .map(|w| Complex64::new(value(&t, &c, w.re), value(&t, &c, w.im)))
        .collect();
    assert!(worst(&t.decrypt(&out.unwrap()[0]), &wanted).log2() < -22.0);
}

#[test]
fn many_are_refreshed_in_their_order() {
    let t = Toy::new("insecure_toy_n8", &[], true);
    let (e, c) = (&t.evaluator, coefficients(3));
    let f = Harmonics::new(&c).unwrap();
    let inputs: Vec<_> = (1..=3)
        .map(|salt| {
            (
                t.encrypt(&values(128, salt, false), e.params().bottom_level()),
                Content::Real,
            )
        })
        .collect();
    let found = Bootstrapper::new(e)
        .unwrap()
        .bootstrap_through_many(e, &inputs, &f)
        .unwrap();
    for (salt, out) in (1..=3).zip(&found) {
        let x = values(128, salt, false);
        let wanted: Vec<Complex64> = x
            .iter()
            .map(|w| Complex64::new(value(&t, &c, w.re), 0.0))
            .collect();
        assert!(worst(&t.decrypt(out), &wanted).log2() < -18.0);
    }
}

#[test]
fn too_low_a_ciphertext_and_too_many_harmonics_are_refused() {
    let t = Toy::new("insecure_toy_n8", &[], true);
    let e = &t.evaluator;
    let b = Bootstrapper::new(e).unwrap();
    let through = |level: usize, degree: usize| {
        let f = Harmonics::new(&coefficients(degree)).unwrap();
        b.bootstrap_through(e, &t.encrypt(&values(128, 2, false), level), Content::Real, &f)
    };
    let bottom = e.params().bottom_level();
    assert!(matches!(through(bottom - 1, 3), Err(CkksError::Level { .. })));
    assert!(matches!(through(bottom, 1 << 18), Err(CkksError::Level { .. })));
}
