use super::*;

#[test]
fn the_full_preset_is_secure_and_its_scale_falls() {
    let p = CkksParameters::preset("n16").unwrap();
    assert!(p.rlwe().log_qp() <= 1732.0);
    assert_eq!(p.rlwe().security_bits(), 128);
    let near = |l: usize, bits: f64| assert!((p.scale(l).log2() - bits).abs() < 0.01, "{l}");
    (0..3).for_each(|l| near(l, 41.0));
    (3..16).for_each(|l| near(l, 38.0));
    (16..).zip([42.0, 46.0, 48.0]).for_each(|(l, bits)| near(l, bits));
    assert!((7.0..8.0).contains(&p.log_message_ratio()));
}

/// Same primes as ever: files of older releases stay readable.
#[test]
fn the_full_preset_is_what_it_was() {
    let p = CkksParameters::preset("n16").unwrap();
    assert!(p.can_bootstrap());
    assert_eq!((p.top_level(), p.bottom_level(), p.rlwe().q_len()), (18, 2, 30));
    assert_eq!(p.rlwe().hash()[..4], [0x95, 0x58, 0x47, 0x9f]);
}

#[test]
fn a_chain_without_limbs_has_the_scales_around_them() {
    let p = CkksParameters::preset("insecure_toy_n8").unwrap();
    let low = p.ending_at(3, 4).unwrap();
    assert_eq!(
        (low.rlwe().q_len(), low.top_level(), low.bottom_level()),
        (18, 6, 2)
    );
    assert_eq!(low.rlwe().q()[..4], p.rlwe().q()[..4]);
    assert_eq!(low.rlwe().q()[4..], p.rlwe().q()[16..]);
    assert_eq!([3, 6].map(|l| low.scale(l)), [3, 18].map(|l| p.scale(l)));
    let digits = |p: &CkksParameters| [4, 5, 9, 10, 14, 18].map(|limbs| p.rlwe().digits(limbs, 9));
    let joined = low.with_joined_digits().unwrap();
    assert_eq!(digits(&low), [1, 2, 2, 3, 3, 3]);
    assert_eq!(digits(&joined), [1, 1, 1, 2, 2, 2]);
    assert_eq!(joined.rlwe().q(), low.rlwe().q());
    // Digits of a whole chain are as long as they may be.
    let whole = p.with_joined_digits().unwrap();
    for special in 1..=9 {
        assert!((1..=30).all(|l| whole.rlwe().digits(l, special) == p.rlwe().digits(l, special)));
    }
    assert_eq!(p.ending_at(18, 1).unwrap().rlwe().q(), p.rlwe().q());
    assert!(p.ending_at(18, 2).is_err() && p.ending_at(3, 30).is_err());
}

#[test]
fn leveled_presets_are_secure_and_as_the_table_says() {
    for (log_n, depth, special, digits, log_qp) in [
        (13, 3, 1, 4, 212.0),
        (14, 7, 2, 4, 429.0),
        (15, 17, 3, 6, 862.0),
        (16, 34, 6, 6, 1744.0),
        (17, 70, 11, 7, 3470.0),
    ] {
        let p = CkksParameters::preset(&format!("n{log_n}_leveled")).unwrap();
        let (rlwe, chain) = (p.rlwe(), p.chain);
        assert_eq!((rlwe.log_n(), rlwe.security_bits()), (log_n, 128));
        assert_eq!((p.top_level(), p.bottom_level(), p.user_level(0)), (depth, 0, 0));
        assert_eq!(
            (
                rlwe.p_len(),
                rlwe.digits(rlwe.q_len(), rlwe.p_len()),
                p.can_bootstrap()
            ),
            (special, digits, false)
        );
        assert!((rlwe.log_qp() - log_qp).abs() < 0.05, "{}", rlwe.log_qp());
        assert!((0..=depth).all(|l| (p.scale(l).log2() - chain.log_scale).abs() < 0.01));
        assert!((8.0..10.1).contains(&(p.prime(0) / p.scale(0)).log2()));
        let n = f64::from(1 << log_n);
        assert!((n * (1.0 + 2.0 * n / 3.0) / 12.0).sqrt() / p.scale(depth) < 2f64.powi(-26));
    }
}

#[test]
fn leveled_toys_have_a_chain_of_the_same_shape() {
    let full = CkksParameters::preset("n15_leveled").unwrap();
    for log_n in 9..=12 {
        let p = CkksParameters::preset(&format!("insecure_toy_leveled_n{log_n}")).unwrap();
        assert_eq!(
            (p.top_level(), p.rlwe().p_len()),
            (full.top_level(), full.rlwe().p_len())
        );
        assert!(p.rlwe().security_bits() < 40);
    }
}

#[test]
fn unknown_presets_are_refused() {
    for name in [
        "n15",
        "insecure_toy_n99",
        "n12_leveled",
        "n16_leveled2",
        "n_leveled",
        "insecure_toy_leveled_n13",
        "",
    ] {
        assert!(CkksParameters::preset(name).is_err(), "{name}");
    }
}
