//! Bootstrapping on a toy ring: precision, level, both contents, every stage.
use crate::toy::{average, values, worst, Toy};
use tacita_ckks::bootstrap::{Bootstrapper, Content};

#[test]
fn a_bootstrapped_ciphertext_holds_the_same_values_at_the_top_level() {
    let t = Toy::new("insecure_toy_n10", &[], true);
    let e = &t.evaluator;
    let b = Bootstrapper::new(e).unwrap();
    for (content, complex) in [(Content::Complex, true), (Content::Real, false)] {
        let x = values(512, 1, complex);
        let low = t.encrypt(&x, e.params().bottom_level());
        let out = b.bootstrap(e, &low, content).unwrap().remove(0);
        assert_eq!(out.level(), e.params().top_level());
        let scale = e.params().scale(out.level());
        assert!((out.scale / scale - 1.0).abs() < 1e-9);
        let y = t.decrypt(&out);
        assert!(average(&y, &x).log2() < -20.0, "{}", average(&y, &x).log2());
        assert!(worst(&y, &x).log2() < -17.0, "{}", worst(&y, &x).log2());
    }
}

/// Each as exact as a real one alone: no level for the pair, no doubled error.
#[test]
fn two_reals_at_the_bottom_share_a_bootstrap_and_come_back_apart() {
    let t = Toy::new("insecure_toy_n10", &[], true);
    let e = &t.evaluator;
    let b = Bootstrapper::new(e).unwrap();
    let bottom = e.params().bottom_level();
    let kinds = [Content::Complex, Content::Pair, Content::Pair, Content::Real];
    let slots: Vec<_> = (1..=4).map(|salt| values(512, salt, salt == 1)).collect();
    let cts = slots
        .iter()
        .zip([0, 0, 3, 0])
        .map(|(x, over)| t.encrypt(x, bottom + over));
    let inputs: Vec<_> = cts.zip(kinds).collect();
    let out = b.bootstrap_many(e, &inputs).unwrap();
    assert_eq!(out.len(), 4);
    for (c, x) in out.iter().zip(&slots) {
        assert_eq!(c.level(), e.params().top_level());
        assert!((c.scale / e.params().scale(c.level()) - 1.0).abs() < 1e-9);
        let y = t.decrypt(c);
        assert!(average(&y, x).log2() < -20.0, "{}", average(&y, x).log2());
        assert!(worst(&y, x).log2() < -17.0, "{}", worst(&y, x).log2());
    }
    assert!(b.bootstrap_many(e, &inputs[..2]).is_err());
}

#[test]
fn too_low_a_ciphertext_is_refused() {
    let t = Toy::new("insecure_toy_n8", &[], true);
    let e = &t.evaluator;
    let b = Bootstrapper::new(e).unwrap();
    let c = t.encrypt(&values(128, 2, true), e.params().bottom_level() - 1);
    assert!(b.bootstrap(e, &c, Content::Complex).is_err());
}
