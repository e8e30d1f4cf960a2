//! The chain with bootstrapping: digits as long as the special primes allow, and keys that a server can hold.
use tacita_ckks::{bootstrap, CkksParameters};

#[test]
fn three_digits_are_shorter_than_the_special_primes() {
    let p = CkksParameters::preset("n16").unwrap();
    let (rlwe, limbs) = (p.rlwe(), p.rlwe().q_len());
    let bits_of = |primes: &[u64]| primes.iter().map(|&p| (p as f64).log2()).sum::<f64>();
    for special in [2, 3, 9] {
        let digits = 0..rlwe.digits(limbs, special);
        let longest = digits
            .map(|d| bits_of(&rlwe.q()[rlwe.digit(d, limbs, special)]))
            .fold(0.0, f64::max);
        assert!(longest < bits_of(&rlwe.p()[..special]) - 5.0, "{special}");
    }
    assert_eq!(
        [11, 12, 21, 22, 30].map(|limbs| rlwe.digits(limbs, 9)),
        [1, 2, 2, 3, 3]
    );
    let keys = bootstrap::required_keys(&p);
    let bytes: usize = keys.iter().map(|key| key.bytes(&p)).sum();
    println!("{bytes} bytes, log2 QP {:.2}", rlwe.log_qp());
    assert!(bytes <= 2_300_000_000, "{bytes}");
}
