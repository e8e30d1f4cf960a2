use super::*;
use crate::{encrypt, RnsPoly};
use tacita_ring::ntt_primes;

const LOG_N: u32 = 9;
const LOG_SMALL: u32 = 6;

fn whole(name: &str, log_n: u32) -> Parameters {
    let primes = ntt_primes(49.0, log_n + 1, 5, &[]).unwrap();
    Parameters::new(ParametersLiteral {
        name: name.into(),
        log_n,
        q: primes[..3].to_vec(),
        p: primes[3..].to_vec(),
        digit_limbs: 2,
    })
    .unwrap()
}

fn message(n: usize) -> Vec<i64> {
    (0..n as i64).map(|i| (i * 7919 % 1013 - 500) << 24).collect()
}

/// Centred coefficients of the phase, in the lowest limb.
fn phase(params: &Parameters, secret: &SecretKey, ct: &Ciphertext) -> Vec<i64> {
    let plain = encrypt::decrypt(params, secret, ct);
    let m = params.modulus(0);
    let low = plain.limb_coefficients(params, 0);
    low.iter().map(|&x| m.center(x as u64)).collect()
}

fn worst(a: &[i64], b: impl IntoIterator<Item = i64>) -> i64 {
    a.iter().zip(b).map(|(x, y)| (x - y).abs()).max().unwrap()
}

#[test]
fn splitting_and_joining_are_inverse_and_sort_by_residue() {
    let pair = RingPair::new(&whole("insecure_ring", LOG_N), LOG_SMALL, 2).unwrap();
    let values = message(pair.large().n());
    let poly = RnsPoly::from_small(pair.large(), &values, 2, 0);
    let parts = pair.split(&poly);
    assert_eq!(parts.len(), 8);
    for (i, part) in parts.iter().enumerate() {
        let own: Vec<i64> = values.iter().skip(i).step_by(8).copied().collect();
        assert!(part.limbs == RnsPoly::from_small(pair.small(), &own, 2, 0).limbs);
    }
    assert!(pair.join(&parts.iter().collect::<Vec<_>>()).limbs == poly.limbs);
}

#[test]
fn a_ciphertext_goes_down_and_comes_back() {
    let whole = whole("insecure_ring", LOG_N);
    let pair = RingPair::new(&whole, LOG_SMALL, 2).unwrap();
    let (secret, small) = (
        SecretKey::generate(&whole).unwrap(),
        SecretKey::generate(pair.small()).unwrap(),
    );
    let keys = RingSwitchingKeys::generate(&pair, &secret, &small).unwrap();
    let values = message(whole.n());
    let plain = RnsPoly::from_small(&whole, &values, 2, 0);
    let (ct, _) = encrypt::encrypt_secret(&whole, &secret, &plain, 1.0).unwrap();
    let parts = pair.descend(&keys, &ct).unwrap();
    for (i, part) in parts.iter().enumerate() {
        let found = phase(pair.small(), &small, part);
        assert!(worst(&found, values.iter().skip(i).step_by(8).copied()) < 1 << 10);
    }
    let low: Vec<Ciphertext> = parts.iter().map(|p| p.truncated(1)).collect();
    let back = pair.ascend(&keys, &low).unwrap();
    let found = phase(&whole, &secret, &back);
    let error = worst(&found, values);
    assert!((1..1 << 11).contains(&error), "{error}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let whole = whole("insecure_ring", LOG_N);
    let pair = RingPair::new(&whole, LOG_SMALL, 2).unwrap();
    let secret = SecretKey::generate(&whole).unwrap();
    let small = SecretKey::generate(pair.small()).unwrap();
    let keys = RingSwitchingKeys::generate(&pair, &secret, &small).unwrap();
    let zero = |params: &Parameters, limbs: usize| Ciphertext {
        polys: vec![RnsPoly::zero(params, limbs, 0), RnsPoly::zero(params, limbs, 0)],
        scale: 1.0,
    };
    assert!(pair.descend(&keys, &zero(&whole, 3)).is_err());
    let parts = |count: usize, limbs: usize| -> Vec<Ciphertext> {
        (0..count).map(|_| zero(pair.small(), limbs)).collect()
    };
    assert!(pair.ascend(&keys, &parts(8, 1)).is_ok());
    assert!(pair.ascend(&keys, &parts(7, 1)).is_err());
    assert!(pair.ascend(&keys, &parts(8, 2)).is_err());
    assert!(pair.ascend(&keys, &[]).is_err());
    for (log_small, limbs) in [(LOG_N, 2), (LOG_SMALL, 4), (LOG_SMALL, 0)] {
        assert!(RingPair::new(&whole, log_small, limbs).is_err());
    }
}

/// Degree 8192 takes 214 bits: two primes and a special one are 134, and three of four would still fit; at
/// 4096 they do not, unless the name says so.
#[test]
fn the_small_secret_keeps_128_bits_or_is_called_insecure() {
    let secure = whole("ring", 15);
    let pair = RingPair::new(&secure, 13, 2).unwrap();
    assert_eq!(pair.small().security_bits(), 128);
    assert!((pair.small().log_qp() - 147.0).abs() < 0.1);
    assert_eq!(pair.small().name(), "ring_subring_n13");
    let error = RingPair::new(&secure, 12, 2)
        .err()
        .map(|e| e.to_string())
        .unwrap();
    assert!(error.contains("147.0 at N = 2^12 exceeds 106"), "{error}");
    let toy = RingPair::new(&whole("insecure_ring", 15), 12, 2).unwrap();
    assert!(toy.small().name().starts_with("insecure_") && toy.small().security_bits() < 128);
}
