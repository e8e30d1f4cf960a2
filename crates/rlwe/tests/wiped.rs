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

/// More buffers of limb size than the test has ever used at once: all that were given back are among them.
fn recycled(params: &Parameters) -> Vec<AlignedVec> {
    (0..256).map(|_| AlignedVec::scratch(params.n())).collect()
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

#[test]
fn nothing_that_tells_the_secret_goes_back_to_the_pool() {
    let params = parameters();
    let secret = SecretKey::generate(&params).unwrap();
    let square = secret.ntt().clone();
    let key = SwitchingKey::generate(&params, &square, secret.ntt(), 2, 1, Gadget::Rns).unwrap();
    let (ct, _) = encrypt::encrypt_secret(&params, &secret, &RnsPoly::zero(&params, 2, 0), 1.0).unwrap();
    let mut plain = encrypt::decrypt(&params, &secret, &ct);
    let noise = plain.limbs[0].to_vec();
    plain.wipe();
    drop(plain);
    let mut telling: Vec<Vec<f64>> = key.a.iter().flat_map(|a| products(&params, a, secret.ntt())).collect();
    telling.extend(products(&params, &ct.polys[1], secret.ntt()));
    telling.extend(secret.ntt().limbs.iter().map(|limb| limb.to_vec()));
    telling.push(noise);
    for buffer in recycled(&params) {
        assert!(
            !telling.iter().any(|t| t[..] == buffer[..]),
            "a secret is left in a recycled buffer"
        );
    }
}
