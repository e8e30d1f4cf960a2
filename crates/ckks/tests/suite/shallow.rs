//! A refresh through a function that ends low: values, level and scale, at several depths and levels.
use crate::toy::{average, values, worst, Toy};
use std::sync::Arc;
use tacita_ckks::bootstrap::refresh::shallow::{ShallowMatrices, ShallowRefresh};
use tacita_ckks::bootstrap::refresh::{phase, Harmonics, MULTIPLE};
use tacita_ckks::bootstrap::{Bootstrapper, Content};
use tacita_ckks::Complex64;

fn coefficients(degree: usize) -> Vec<Complex64> {
    (0..=degree)
        .map(|k| Complex64::from_polar(1.0 / ((k * k + 1) as f64), 0.7 * k as f64))
        .collect()
}

#[test]
fn the_result_is_that_of_a_refresh_at_a_lower_level() {
    let t = Toy::new("insecure_toy_n10", &[], true);
    let e = &t.evaluator;
    let b = Bootstrapper::new(e).unwrap();
    let angle = phase(e.params());
    for (degree, above, content) in [
        (3, 0, Content::Complex),
        (10, 1, Content::Complex),
        (10, 1, Content::Real),
        (100, 4, Content::Complex),
        (10, 10, Content::Real),
    ] {
        let c = coefficients(degree);
        let f = Harmonics::new(&c).unwrap();
        let out = e.params().bottom_level() + above;
        let matrices = ShallowMatrices::new(e, f.depth(), out).unwrap();
        let shallow = ShallowRefresh::new(e, Arc::new(matrices)).unwrap();
        let x = values(512, degree as u64, content == Content::Complex);
        let low = b
            .slots_to_coefficients(e, &t.encrypt(&x, e.params().bottom_level()))
            .unwrap();
        let found = shallow
            .refresh(&e.mul_integer(&low, MULTIPLE).unwrap(), content, &f)
            .unwrap()
            .remove(0);
        assert_eq!(found.level(), out);
        assert!((found.scale / e.params().scale(out) - 1.0).abs() < 1e-9);
        let value = |w: f64| -> f64 {
            let terms = c.iter().enumerate();
            terms
                .map(|(k, c)| (c * Complex64::from_polar(1.0, angle * k as f64 * w)).re)
                .sum()
        };
        let imaginary = |w: f64| {
            if content == Content::Complex {
                value(w)
            } else {
                0.0
            }
        };
        let wanted: Vec<Complex64> = x
            .iter()
            .map(|w| Complex64::new(value(w.re), imaginary(w.im)))
            .collect();
        let slope: f64 = c.iter().enumerate().map(|(k, c)| k as f64 * c.norm()).sum();
        let got = t.decrypt(&found);
        let (mean, largest) = (average(&got, &wanted) / slope, worst(&got, &wanted) / slope);
        println!(
            "degree {degree} to level {above}: 2^{:.1}, at most 2^{:.1}",
            mean.log2(),
            largest.log2()
        );
        assert!(
            mean.log2() < -26.0 && largest.log2() < -24.5,
            "{degree}: {mean} {largest}"
        );
    }
}

#[test]
fn what_takes_too_many_limbs_or_another_depth_is_refused() {
    let t = Toy::new("insecure_toy_n8", &[], true);
    let e = &t.evaluator;
    let top = e.params().top_level();
    assert!(ShallowMatrices::new(e, 1, top).is_ok());
    assert!(ShallowMatrices::new(e, 2, top).is_err());
    let matrices = ShallowMatrices::new(e, 2, e.params().bottom_level()).unwrap();
    let shallow = ShallowRefresh::new(e, Arc::new(matrices)).unwrap();
    let low = e
        .drop_to(&t.encrypt(&values(128, 1, true), 2), 1)
        .unwrap()
        .truncated(1);
    let f = Harmonics::new(&coefficients(4)).unwrap();
    assert!(shallow.refresh(&low, Content::Complex, &f).is_err());
}
