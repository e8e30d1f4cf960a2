//! What key generation and decryption leave behind in recycled buffers. A process of its own: the pool is one
//! for all.
use tacita_ring::{ntt_primes, AlignedVec};
use tacita_rlwe::switching::Gadget;
use tacita_rlwe::{encrypt, Parameters, ParametersLiteral, RnsPoly, SecretKey, SwitchingKey};

/// log2 of the smallest degree whose buffers are recycled.
const LOG_N: u32 = 12;

fn parameters() -> Parameters {
    let primes = ntt_primes(50.0, LOG_N + 1, 3, &[]).unwrap();
    Parameters::new(ParametersLiteral {
        name: "insecure_wiped".into(),
        log_n: LOG_N,
        q: primes[..2].to_vec(),
        p: primes[2..].to_vec(),
        digit_limbs: 1,
    })
    .unwrap()
}

/// Fails when a buffer that was given back holds one of these limbs. It takes more buffers than were ever
/// used at once, so that those are among them; all go back at the end.
fn assert_forgotten(params: &Parameters, telling: &[Vec<f64>]) {
    let recycled: Vec<_> = (0..256).map(|_| AlignedVec::scratch(params.n())).collect();
    for buffer in &recycled {
        let left = telling.iter().any(|limb| limb[..] == buffer[..]);
        assert!(!left, "a secret is left in a recycled buffer");
    }
}

/// a * s of every limb, in plain integers: with a public, as good as s.
fn products(params: &Parameters, a: &RnsPoly, s: &RnsPoly) -> Vec<Vec<f64>> {
    let limb = |(i, (a, s)): (usize, (&AlignedVec, &AlignedVec))| {
        let p = u128::from(a_prime(params, i));
        let product = |(&x, &y): (&f64, &f64)| (x as u128 * y as u128 % p) as f64;
        a.iter().zip(s.iter()).map(product).collect()
    };
    a.limbs.iter().zip(&s.limbs).enumerate().map(limb).collect()
}

fn a_prime(params: &Parameters, limb: usize) -> u64 {
    params.modulus(limb).p()
}

fn limbs(poly: &RnsPoly) -> Vec<Vec<f64>> {
    poly.limbs.iter().map(|limb| limb.to_vec()).collect()
}

#[test]
fn key_generation_leaves_no_product_by_the_secret() {
    let params = parameters();
    let secret = SecretKey::generate(&params).unwrap();
    let from = secret.automorphism(&params, 5);
    let key = SwitchingKey::generate(&params, from.ntt(), secret.ntt(), 2, 1, Gadget::Rns).unwrap();
    let telling: Vec<_> = key
        .a
        .iter()
        .flat_map(|a| products(&params, a, secret.ntt()))
        .collect();
    assert_forgotten(&params, &telling);
}

#[test]
fn encryption_and_decryption_leave_neither_the_secret_nor_what_was_decrypted() {
    let params = parameters();
    let secret = SecretKey::generate(&params).unwrap();
    let zero = RnsPoly::zero(&params, 2, 0);
    let (ct, _) = encrypt::encrypt_secret(&params, &secret, &zero, 1.0).unwrap();
    let mut telling = products(&params, &ct.polys[1], secret.ntt());
    telling.extend(limbs(secret.ntt()));
    assert_forgotten(&params, &telling);
    let mut plain = encrypt::decrypt(&params, &secret, &ct);
    telling.extend(limbs(&plain));
    plain.wipe();
    drop(plain);
    drop(secret);
    assert_forgotten(&params, &telling);
}
