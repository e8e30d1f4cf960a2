//! Multiples of automorphisms of a small pair, against integers.
use tacita_ring::{ntt_primes, packed, Permutation};
use tacita_rlwe::keyswitch::{switch_products, Product, PLAIN_LIMBS};
use tacita_rlwe::switching::Gadget;
use tacita_rlwe::{Parameters, ParametersLiteral, RnsPoly, SecretKey, SwitchingKey};

const LOG_N: u32 = 8;
const N: usize = 1 << LOG_N;
const LIMBS: usize = 4;
const GALOIS: [u64; 3] = [1, 5, 25];

fn parameters() -> Parameters {
    let primes = ntt_primes(50.0, LOG_N + 1, LIMBS + 2, &[]).unwrap();
    Parameters::new(ParametersLiteral {
        name: "insecure_products".into(),
        log_n: LOG_N,
        q: primes[..LIMBS].to_vec(),
        p: primes[LIMBS..].to_vec(),
        digit_limbs: 2,
    })
    .unwrap()
}

/// Integers below 2^bits.
fn integers(bits: u32, salt: i64) -> Vec<i64> {
    let number = |i: i64| (i * 0x9e37_79b9 + salt).wrapping_mul(0x2545_f491_4f6c_dd1d) >> (63 - bits);
    (1..=N as i64).map(number).collect()
}

/// a b modulo X^N + 1.
fn product(a: &[i128], b: &[i128]) -> Vec<i128> {
    let mut out = vec![0; N];
    for (i, a) in a.iter().enumerate() {
        for (j, b) in b.iter().enumerate() {
            let sign = if i + j < N { 1 } else { -1 };
            out[(i + j) % N] += sign * a * b;
        }
    }
    out
}

/// a(X^g) modulo X^N + 1.
fn mapped(a: &[i128], g: u64) -> Vec<i128> {
    let mut out = vec![0; N];
    for (i, &a) in a.iter().enumerate() {
        let at = i * g as usize % (2 * N);
        out[at % N] = if at < N { a } else { -a };
    }
    out
}

fn wide(a: &[i64]) -> Vec<i128> {
    a.iter().map(|&x| i128::from(x)).collect()
}

/// The key as a server holds it.
fn packed_key(params: &Parameters, key: &SwitchingKey) -> SwitchingKey {
    let mut bytes = Vec::new();
    for (i, limb) in key.b[0].limbs.iter().enumerate() {
        let (p, start) = (key.b[0].modulus(params, i).p(), bytes.len());
        bytes.resize(start + packed::packed_len(N, p), 0);
        assert!(packed::pack(limb, p, &mut bytes[start..]));
    }
    SwitchingKey::from_packed(params, key.seed, (key.limbs, key.special), key.gadget, &bytes).unwrap()
}

#[test]
fn the_sum_is_that_of_integers_at_every_number_of_limbs() {
    let params = parameters();
    let [s, sparse] = [0, 0].map(|_| SecretKey::generate(&params).unwrap());
    let multiples: Vec<Vec<i64>> = (1..=3).map(|salt| integers(36, salt)).collect();
    let [c0, c1] = [7, 8].map(|salt| integers(48, salt));
    let keys: Vec<SwitchingKey> = multiples
        .iter()
        .zip(GALOIS)
        .map(|(m, g)| {
            let mut from = RnsPoly::from_small(&params, m, LIMBS, 1);
            from.mul_assign(&params, sparse.automorphism(&params, g).ntt());
            SwitchingKey::generate(&params, &from, s.ntt(), LIMBS, 1, Gadget::Multiple).unwrap()
        })
        .collect();
    let packed: Vec<SwitchingKey> = keys.iter().map(|key| packed_key(&params, key)).collect();
    let plains: Vec<RnsPoly> = multiples
        .iter()
        .map(|m| RnsPoly::from_small(&params, m, PLAIN_LIMBS, 1))
        .collect();
    let permutations = GALOIS.map(|g| Permutation::new(LOG_N, g));
    let secret: Vec<i128> = sparse.coefficients().iter().map(|&x| i128::from(x)).collect();
    let mut u = product(&wide(&c1), &secret);
    u.iter_mut().zip(&c0).for_each(|(u, &c)| *u += i128::from(c));
    let mut wanted = vec![0; N];
    for (m, g) in multiples.iter().zip(GALOIS) {
        let term = product(&wide(m), &mapped(&u, g));
        wanted.iter_mut().zip(term).for_each(|(sum, x)| *sum += x);
    }
    for limbs in PLAIN_LIMBS..=LIMBS {
        let switched = |keys: &[SwitchingKey]| {
            let each = keys.iter().zip(&permutations).zip(&plains);
            let terms: Vec<Product<'_>> = each
                .map(|((key, permutation), plain)| Product {
                    key,
                    permutation,
                    plain,
                })
                .collect();
            switch_products(&params, [&c0, &c1], &terms, limbs)
        };
        let (mut u0, mut u1) = switched(&keys);
        let same = switched(&packed);
        assert!(u0.limbs == same.0.limbs && u1.limbs == same.1.limbs);
        u1.mul_assign(&params, &s.ntt().truncated(limbs));
        u0.add_assign(&params, &u1);
        for limb in 0..limbs {
            let m = params.modulus(limb);
            let found = u0.limb_coefficients(&params, limb);
            for (x, &wanted) in found.iter().zip(&wanted) {
                let rounded = (wanted / i128::from(params.p()[0])) as i64;
                let error = m.center(m.sub(*x as u64, m.from_i64(rounded)));
                assert!(error.abs() < 200, "{limbs} limbs, limb {limb}: {error}");
            }
        }
    }
}
