//! The chain whose scale falls: as safe as the other one, with longer digits and smaller keys.
use tacita_ckks::{bootstrap, CkksParameters};

#[test]
fn the_deep_preset_is_as_safe_with_longer_digits() {
    let named = |name| CkksParameters::preset(name).unwrap();
    let (p, n16) = (named("n16_deep"), named("n16"));
    let rlwe = p.rlwe();
    assert_eq!(rlwe.security_bits(), 128);
    assert_eq!(p.failure_log2(), n16.failure_log2());
    assert!((p.log_message_ratio() - n16.log_message_ratio()).abs() < 0.01);
    assert_eq!((p.top_level(), p.bottom_level(), rlwe.q_len()), (16, 2, 28));
    let bits: Vec<f64> = (0..=16).map(|l| p.scale(l).log2()).collect();
    assert!(bits[..3].iter().all(|b| (b - 41.0).abs() < 0.01));
    assert!(bits[3..14].iter().all(|b| (b - 38.0).abs() < 0.01));
    assert!(bits[14..]
        .iter()
        .zip([42.0, 46.0, 48.0])
        .all(|(b, wanted)| (b - wanted).abs() < 0.01));
    let bits_of = |primes: &[u64]| primes.iter().map(|&p| (p as f64).log2()).sum::<f64>();
    for special in [2, 3, 9] {
        let digits = 0..rlwe.digits(28, special);
        let longest = digits
            .map(|d| bits_of(&rlwe.q()[rlwe.digit(d, 28, special)]))
            .fold(0.0, f64::max);
        assert!(longest < bits_of(&rlwe.p()[..special]) - 5.0, "{special}");
    }
    assert_eq!([11, 12, 28].map(|limbs| rlwe.digits(limbs, 9)), [1, 2, 3]);
    let bytes = |p: &CkksParameters| -> usize {
        let keys = bootstrap::required_keys(p);
        keys.iter().map(|key| key.bytes(p)).sum()
    };
    assert!(bytes(&p) <= 2_300_000_000 && bytes(&n16) > 2_700_000_000);
}
