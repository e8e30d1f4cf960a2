use super::*;

/// Phi by Abramowitz and Stegun 7.1.26 (error 1.5e-7).
fn normal(x: f64) -> f64 {
    let z = x.abs() / 2f64.sqrt();
    let t = 1.0 / (1.0 + 0.3275911 * z);
    let p = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
    let tail = 0.5 * p * (-z * z).exp();
    if x < 0.0 {
        tail
    } else {
        1.0 - tail
    }
}

fn true_gelu(x: f64) -> f64 {
    x * normal(x)
}

fn true_silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

fn true_tanh_gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
}

fn inputs(from: Fixed, range: u32) -> Vec<f64> {
    let edge = f64::from(range).exp2() - 1.0;
    let mut x = grid(-11.0, 11.0, 2401);
    x.extend(grid(-edge, edge, 301));
    x.extend(around(
        &[
            -10.5, -10.0, -8.25, -5.0, -4.0, -3.25, -2.75, -1.97, 0.0, 2.75, 3.0, 3.25, 4.0, 8.25, 10.0,
        ],
        from,
    ));
    x.retain(|x| x.abs() <= edge);
    x
}

fn assert_within(form: GeluForm, from: Fixed, out: Ring, range: u32, bound: f64) {
    let (x, to) = (inputs(from, range), Fixed { ring: out, ..from });
    let y = apply(&x, from, to, |party, x| {
        gelu_with(party, x, from, out, form, range)
    });
    let truth = match form {
        GeluForm::Tanh4 | GeluForm::Tanh8 => true_tanh_gelu,
        _ => true_gelu,
    };
    let (error, at) = largest(&x, &y, truth);
    assert!(error < bound, "{form:?} {from:?} range {range}: {error} at {at}");
    assert!(
        error > bound / 8.0,
        "{form:?}: the bound {bound} is loose, {error} found"
    );
}

#[test]
fn gelu_stays_within_its_documented_error() {
    assert_within(GeluForm::Abs4, WIDE, WIDE.ring, RANGE, 3e-3);
    assert_within(GeluForm::Abs8, WIDE, WIDE.ring, RANGE, 1e-3);
    assert_within(GeluForm::Tanh4, WIDE, WIDE.ring, RANGE, 3e-3);
    assert_within(GeluForm::Tanh8, WIDE, WIDE.ring, RANGE, 1e-3);
    assert_within(GeluForm::P4, WIDE, WIDE.ring, RANGE, 1.1e-2);
    assert_within(GeluForm::Seg4, WIDE, WIDE.ring, RANGE, 3.5e-2);
}

#[test]
fn gelu_works_from_narrow_and_odd_rings_and_other_ranges() {
    assert_within(GeluForm::Abs4, Fixed::new(32, 12), Ring::new(32), 6, 4e-3);
    assert_within(GeluForm::Abs4, Fixed::new(37, 14), Ring::new(64), 7, 4e-3);
    assert_within(GeluForm::Abs4, Fixed::new(48, 20), Ring::new(40), 11, 4e-3);
    assert_within(GeluForm::Abs4, Fixed::new(32, 16), Ring::new(32), 1, 4e-3);
    assert_within(GeluForm::Seg4, Fixed::new(40, 14), Ring::new(40), 9, 3.5e-2);
}

#[test]
fn silu_stays_within_its_documented_error() {
    let x = inputs(WIDE, RANGE);
    for (form, bound) in [(SiluForm::Abs8, 2.5e-3), (SiluForm::Abs16, 1e-3)] {
        let y = apply(&x, WIDE, WIDE, |party, x| {
            silu(party, x, WIDE, WIDE.ring, form, RANGE)
        });
        let (error, at) = largest(&x, &y, true_silu);
        assert!(error < bound, "silu {form:?} {error} at {at}");
        assert!(
            error > bound / 8.0,
            "silu {form:?}: the bound {bound} is loose, {error} found"
        );
    }
}

#[test]
fn elu_stays_within_its_documented_error() {
    let truth = |x: f64| if x < 0.0 { x.exp_m1() } else { x };
    for (from, to, range, bound) in [
        (WIDE, WIDE, RANGE, 1.5e-3),
        (Fixed::new(32, 12), Fixed::new(40, 14), 6, 2e-3),
        (Fixed::new(37, 16), Fixed::new(64, 18), 1, 2e-3),
    ] {
        let x = inputs(from, range);
        let y = apply(&x, from, to, |party, x| elu(party, x, from, to, range));
        let (error, at) = largest(&x, &y, truth);
        assert!(error < bound, "{from:?}: {error} at {at}");
        assert!(
            error > bound / 8.0,
            "{from:?}: the bound {bound} is loose, {error} found"
        );
    }
}

#[test]
fn tanh_stays_within_its_documented_error() {
    let x = inputs(WIDE, RANGE);
    let y = apply(&x, WIDE, WIDE, |party, x| tanh(party, x, WIDE, WIDE, RANGE));
    let (error, at) = largest(&x, &y, f64::tanh);
    assert!(error < 1.5e-3, "{error} at {at}");
}

#[test]
fn exp_is_accurate_tolerates_small_positives_and_ends_in_zero() {
    let mut x = grid(-12.0, EXP_MOST, 2401);
    x.extend(around(&[EXP_LEAST, -1024.0, 0.0], WIDE));
    x.extend([-4095.0, -2048.5, -100.0]);
    let to = Fixed::new(32, 14);
    let y = apply(&x, WIDE, to, |party, x| exp(party, x, WIDE, to, 12));
    let (error, at) = largest(&x, &y, f64::exp);
    assert!(error < 1.5e-3, "{error} at {at}");
    for (&x, &y) in x.iter().zip(&y) {
        assert!(
            (y - x.exp()).abs() < 1.5e-3 * (x / 2.0).exp() + 1.3e-4,
            "exp({x}) gave {y}"
        );
        assert!(x > EXP_LEAST - 0.13 || y == 0.0, "exp({x}) gave {y}");
    }
}

#[test]
fn lengths_around_a_ciphertext_and_zero() {
    for count in [0, 1, 4095, 4096, 8193] {
        let x = grid(-4.0, 4.0, count);
        let y = apply(&x, WIDE, WIDE, |party, x| {
            gelu(party, x, WIDE.ring, WIDE.frac, WIDE.ring)
        });
        assert!(largest(&x, &y, true_gelu).0 < 3e-3, "{count}");
    }
}

#[test]
fn parameters_out_of_range_are_refused() {
    let refused = |from: Fixed, out: Ring, range: u32| {
        let (left, _) = run_both((vec![], vec![]), |party, x: Vec<u64>| {
            ready(party)?;
            Ok(gelu_with(party, &x, from, out, GeluForm::Abs4, range).is_err())
        });
        left
    };
    assert!(refused(Fixed::new(32, 18), Ring::new(64), 20));
    assert!(refused(Fixed::new(64, 18), Ring::new(20), 10));
    assert!(refused(Fixed::new(64, 5), Ring::new(64), 10));
    assert!(refused(WIDE, Ring::new(64), 0));
    assert!(!refused(WIDE, Ring::new(64), 10));
}
