//! Presets without bootstrapping: every level spent, the precision that is left (in bits), and what they
//! refuse.
use crate::toy::{average, values, worst, Toy};
use num_complex::Complex64;
use tacita_ckks::bootstrap::{required_keys, Bootstrapper};
use tacita_ckks::{CkksParameters, KeyKind};

/// Multiplies by a fresh rotation of its values at every level down to zero. Values stay on the unit circle.
fn spend_all_levels(name: &str) -> (f64, f64) {
    let t = Toy::new(name, &[1], false);
    let e = &t.evaluator;
    let (slots, top) = (e.params().slots(), e.params().top_level());
    let circle = |z: &Complex64| Complex64::from_polar(1.0, 3.0 * z.re);
    let x: Vec<_> = values(slots, 1, false).iter().map(circle).collect();
    let mut shifted = x.clone();
    shifted.rotate_left(1);
    let (mut want, mut got) = (x.clone(), t.encrypt(&x, top));
    let factor = e.rotate(&got, 1).unwrap();
    for level in (0..top).rev() {
        got = e
            .mul(&got, &e.align_to(&factor, level + 1, got.scale).unwrap())
            .unwrap();
        want.iter_mut().zip(&shifted).for_each(|(w, y)| *w *= y);
        assert_eq!(got.level(), level);
        assert!((got.scale / e.params().scale(level) - 1.0).abs() < 1e-12);
    }
    assert!(e.mul(&got, &got).is_err());
    let found = t.decrypt(&got);
    (average(&found, &want).log2(), worst(&found, &want).log2())
}

#[test]
fn toys_keep_their_precision_down_to_the_last_level() {
    for n in 9..=12 {
        let (mean, worst) = spend_all_levels(&format!("insecure_toy_leveled_n{n}"));
        assert!(
            mean < -24.0 && worst < -21.0,
            "n = {n}: mean {mean}, worst {worst}"
        );
    }
}

#[test]
fn secure_presets_keep_their_precision_down_to_the_last_level() {
    for n in [13, 14] {
        let (mean, worst) = spend_all_levels(&format!("n{n}_leveled"));
        assert!(
            mean < -24.0 && worst < -21.0,
            "n = {n}: mean {mean}, worst {worst}"
        );
    }
}

/// 8 bits of room above the scale: values up to 100 decrypt at level zero.
#[test]
fn there_is_room_for_values_above_one() {
    let t = Toy::new("insecure_toy_leveled_n9", &[], false);
    let x: Vec<_> = values(256, 1, false).iter().map(|z| z * 100.0).collect();
    let bottom = t.evaluator.drop_to(&t.encrypt(&x, 3), 0).unwrap();
    assert!(worst(&t.decrypt(&bottom), &x) < 1e-5);
}

#[test]
fn bootstrapping_is_refused_and_has_no_keys() {
    let t = Toy::new("insecure_toy_leveled_n9", &[], false);
    let error = Bootstrapper::new(&t.evaluator).err().map(|e| e.to_string());
    assert!(error
        .is_some_and(|e| e.contains("insecure_toy_leveled_n9") && e.contains("no primes for bootstrapping")));
    let params = CkksParameters::preset("n14_leveled").unwrap();
    let keys = required_keys(&params);
    assert!(keys.iter().all(|k| k.limbs == params.rlwe().q_len()));
    assert!(keys.len() == 2 && keys[0].kind == KeyKind::Relinearise);
}
