//! A switch target limb by target limb gives the residues of the one that keeps its digits, bit for bit.
use tacita_ring::{kernels, ntt_primes, packed, sample, AlignedVec, Permutation};
use tacita_rlwe::keyswitch::{self, Ending, Limbs};
use tacita_rlwe::switching::Gadget;
use tacita_rlwe::{Parameters, ParametersLiteral, RnsPoly, SecretKey, SwitchingKey};

const LIMBS: usize = 8;
const SPECIAL: usize = 3;

/// digit_limbs: none for digits of as many limbs as the special primes hold, which are two.
fn parameters(log_n: u32, digit_limbs: usize) -> Parameters {
    let primes = ntt_primes(50.0, log_n + 1, LIMBS + SPECIAL, &[]).unwrap();
    Parameters::new(ParametersLiteral {
        name: "insecure_stationary".into(),
        log_n,
        q: primes[..LIMBS].to_vec(),
        p: primes[LIMBS..].to_vec(),
        digit_limbs,
    })
    .unwrap()
}

/// Uniform residues of so many limbs.
fn random(params: &Parameters, q_len: usize, p_len: usize, seed: u8) -> RnsPoly {
    let mut poly = RnsPoly::zero(params, q_len, p_len);
    poly.for_each_limb(params, |i, limb| {
        let mut prng = sample::Prng::from_seed([seed.wrapping_mul(31).wrapping_add(i as u8); 32]);
        sample::uniform(&mut prng, params.modulus(i), limb);
    });
    poly
}

fn key(params: &Parameters) -> SwitchingKey {
    let secret = SecretKey::generate(params).unwrap();
    let from = secret.automorphism(params, 5);
    SwitchingKey::generate(params, from.ntt(), secret.ntt(), LIMBS, SPECIAL, Gadget::Rns).unwrap()
}

/// The b halves of a key as they travel.
fn packed_b(params: &Parameters, key: &SwitchingKey) -> Vec<u8> {
    let mut bytes = Vec::new();
    for poly in &key.b {
        for (i, limb) in poly.limbs.iter().enumerate() {
            let (p, start) = (poly.modulus(params, i).p(), bytes.len());
            bytes.resize(start + packed::packed_len(limb.len(), p), 0);
            assert!(packed::pack(limb, p, &mut bytes[start..]));
        }
    }
    bytes
}

/// The key as a server holds it.
fn packed_key(params: &Parameters, key: &SwitchingKey) -> SwitchingKey {
    let (bytes, rows) = (packed_b(params, key), (key.limbs, key.special));
    SwitchingKey::from_packed(params, key.seed, rows, key.gadget, &bytes).unwrap()
}

fn as_it_is(_: usize, limbs: Limbs) -> Limbs {
    limbs
}

fn assert_same((a0, a1): &(RnsPoly, RnsPoly), (b0, b1): &(RnsPoly, RnsPoly)) {
    for (a, b) in [(a0, b0), (a1, b1)] {
        assert_eq!((a.q_len, a.limbs.len()), (b.q_len, b.limbs.len()));
        assert!(a.limbs.iter().zip(&b.limbs).all(|(a, b)| a[..] == b[..]));
    }
}

#[test]
fn every_level_and_every_ending() {
    for (log_n, digit_limbs) in [(5, SPECIAL), (10, 0), (10, SPECIAL), (12, SPECIAL)] {
        let params = parameters(log_n, digit_limbs);
        let key = key(&params);
        assert_eq!(key.b.len(), if digit_limbs > 0 { 3 } else { 4 });
        for limbs in 1..=LIMBS {
            let c: Vec<RnsPoly> = (0..3).map(|k| random(&params, limbs, 0, 10 * k + 1)).collect();
            let digits = keyswitch::decompose(&params, &c[2]);
            let kept = || keyswitch::inner_product(&params, &digits, &key).unwrap();
            let over = keyswitch::switch_over(&params, &c[2], &key, as_it_is).unwrap();
            assert_same(&over, &kept());
            let (u0, u1) = kept();
            let down = (keyswitch::mod_down(&params, u0), keyswitch::mod_down(&params, u1));
            assert_same(
                &keyswitch::switch(&params, &c[2], &key, &Ending::default()).unwrap(),
                &down,
            );
            if limbs > 1 {
                let (mut u0, mut u1) = kept();
                u0.add_lifted(&params, &c[0]);
                u1.add_lifted(&params, &c[1]);
                let rescaled = [u0, u1].map(|u| keyswitch::mod_down_rescale(&params, u));
                let found = keyswitch::switch_rescale(&params, [&c[0], &c[1], &c[2]], &key).unwrap();
                assert_same(&found, &rescaled.into());
            }
        }
    }
}

#[test]
fn what_is_finished_limb_by_limb_is_finished_everywhere() {
    let params = parameters(10, SPECIAL);
    let (key, c0, c1) = (key(&params), random(&params, 5, 0, 3), random(&params, 5, 0, 4));
    let added = |i: usize, (mut u0, u1): (AlignedVec, AlignedVec)| {
        keyswitch::add_to_limb(&params, &mut u0, i, (&c0, SPECIAL));
        (u0, u1)
    };
    let found = keyswitch::switch_over(&params, &c1, &key, added).unwrap();
    let (mut u0, u1) = keyswitch::switch_over(&params, &c1, &key, as_it_is).unwrap();
    u0.add_lifted(&params, &c0);
    assert_same(&found, &(u0, u1));
    let over = random(&params, 5, SPECIAL, 7);
    let sum = |i: usize, (mut u0, u1): Limbs| {
        keyswitch::add_to_limb(&params, &mut u0, i, (&over, SPECIAL));
        (u0, u1)
    };
    let found = keyswitch::switch_over(&params, &c1, &key, sum).unwrap();
    let (mut u0, u1) = keyswitch::switch_over(&params, &c1, &key, as_it_is).unwrap();
    u0.for_each_limb(&params, |i, x| {
        let at = if i < LIMBS { i } else { 5 + i - LIMBS };
        kernels::add_assign(params.modulus(i), x, &over.limbs[at]);
    });
    assert_same(&found, &(u0, u1));
}

/// With as many special primes as limbs: the same two orders, and a result that decrypts to c1 * s' with an
/// error far below what rounding adds.
#[test]
fn a_key_with_few_special_primes() {
    let params = parameters(10, SPECIAL);
    let secret = SecretKey::generate(&params).unwrap();
    let from = secret.automorphism(&params, 5);
    for few in 1..SPECIAL {
        let key = SwitchingKey::generate(&params, from.ntt(), secret.ntt(), few, few, Gadget::Rns).unwrap();
        let c = random(&params, few, 0, 9);
        let digits = keyswitch::decompose_for(&params, &c, few);
        let kept = keyswitch::inner_product(&params, &digits, &key).unwrap();
        assert_same(
            &keyswitch::switch_over(&params, &c, &key, as_it_is).unwrap(),
            &kept,
        );
        let (u0, u1) = keyswitch::switch(&params, &c, &key, &Ending::default()).unwrap();
        let down = (
            keyswitch::mod_down(&params, kept.0),
            keyswitch::mod_down(&params, kept.1),
        );
        assert_same(&(u0.clone(), u1.clone()), &down);
        let mut error = u1;
        error.mul_assign(&params, secret.ntt());
        error.add_assign(&params, &u0);
        let mut wanted = c.clone();
        wanted.mul_assign(&params, from.ntt());
        error.sub_assign(&params, &wanted);
        let m = params.modulus(0);
        let size = |&x: &f64| m.center(x as u64).unsigned_abs();
        let largest = error.limb_coefficients(&params, 0).iter().map(size).max();
        assert!(largest < Some(1 << 10), "{few}: {largest:?}");
        // all special primes: digits that do not fit the key
        assert!(keyswitch::inner_product(&params, &keyswitch::decompose(&params, &c), &key).is_err());
        let longer = random(&params, few + 1, 0, 9);
        assert!(keyswitch::switch(&params, &longer, &key, &Ending::default()).is_err());
    }
}

#[test]
fn a_digit_above_the_special_primes_is_refused() {
    let params = parameters(5, SPECIAL);
    let secret = SecretKey::generate(&params).unwrap();
    let key = SwitchingKey::generate(&params, secret.ntt(), secret.ntt(), LIMBS, 1, Gadget::Rns).unwrap();
    assert!(keyswitch::switch(&params, &random(&params, 1, 0, 1), &key, &Ending::default()).is_ok());
    assert!(keyswitch::switch(&params, &random(&params, 2, 0, 1), &key, &Ending::default()).is_err());
}

/// Sixteen threads share limbs, one does not.
#[test]
fn many_threads_give_the_same_bits() {
    let params = parameters(14, SPECIAL);
    let key = packed_key(&params, &key(&params));
    let c: Vec<RnsPoly> = (0..3).map(|k| random(&params, 5, 0, 10 * k + 1)).collect();
    let permutation = Permutation::new(14, 25);
    let ending = Ending {
        add: [Some(&c[0]), None],
        permutation: Some(&permutation),
    };
    let all = || {
        let digits = keyswitch::decompose(&params, &c[2]);
        let kept = keyswitch::inner_product(&params, &digits, &key).unwrap();
        let down = keyswitch::mod_down(&params, kept.0.clone());
        [
            keyswitch::switch(&params, &c[2], &key, &ending).unwrap(),
            keyswitch::switch_rescale(&params, [&c[0], &c[1], &c[2]], &key).unwrap(),
            keyswitch::switch_over(&params, &c[2], &key, as_it_is).unwrap(),
            (keyswitch::rescale(&params, c[0].clone()), down),
            kept,
        ]
    };
    let [one, many] = [1, 16].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.unwrap().install(all)
    });
    one.iter()
        .zip(&many)
        .for_each(|(one, many)| assert_same(one, many));
}

#[test]
fn what_is_added_and_permuted_at_the_end() {
    for log_n in [5, 11, 12, 13] {
        let params = parameters(log_n, SPECIAL);
        let (key, c0, c1) = (key(&params), random(&params, 5, 0, 3), random(&params, 5, 0, 4));
        let plain = keyswitch::switch(&params, &c1, &key, &Ending::default()).unwrap();
        for galois in [5, 25, (2u64 << log_n) - 1] {
            let permutation = Permutation::new(log_n, galois);
            let ending = Ending {
                add: [Some(&c0), None],
                permutation: Some(&permutation),
            };
            let found = keyswitch::switch(&params, &c1, &key, &ending).unwrap();
            let mut u0 = plain.0.clone();
            u0.add_assign(&params, &c0);
            assert_same(
                &found,
                &(u0.permuted(&permutation), plain.1.permuted(&permutation)),
            );
        }
    }
}

#[test]
fn a_key_of_fewer_limbs_is_refused() {
    let params = parameters(5, SPECIAL);
    let secret = SecretKey::generate(&params).unwrap();
    let short = SwitchingKey::generate(&params, secret.ntt(), secret.ntt(), 2, SPECIAL, Gadget::Rns).unwrap();
    let c = random(&params, 3, 0, 1);
    assert!(keyswitch::switch(&params, &c, &short, &Ending::default()).is_err());
    assert!(keyswitch::switch_over(&params, &c, &short, as_it_is).is_err());
    assert!(keyswitch::switch_rescale(&params, [&c, &c, &c], &short).is_err());
}

#[test]
fn a_packed_key_switches_to_the_same_bits() {
    for log_n in [5, 10, 12] {
        let params = parameters(log_n, SPECIAL);
        let key = key(&params);
        let packed = packed_key(&params, &key);
        assert!(packed.bytes(&params) < key.bytes(&params) * 4 / 5);
        for limbs in 1..=LIMBS {
            let c: Vec<RnsPoly> = (0..3).map(|k| random(&params, limbs, 0, 10 * k + 1)).collect();
            let digits = keyswitch::decompose(&params, &c[2]);
            let [a, b] = [&key, &packed].map(|key| {
                let all = [&c[0], &c[1], &c[2]];
                [
                    keyswitch::inner_product(&params, &digits, key).unwrap(),
                    keyswitch::switch(&params, &c[2], key, &Ending::default()).unwrap(),
                    keyswitch::switch_rescale(&params, all, key).unwrap(),
                ]
            });
            a.iter().zip(&b).for_each(|(a, b)| assert_same(a, b));
        }
    }
}

#[test]
fn a_packed_single_digit_key_switches_to_the_same_bits() {
    let params = parameters(10, SPECIAL);
    let secret = SecretKey::generate(&params).unwrap();
    let key = SwitchingKey::generate(&params, secret.ntt(), secret.ntt(), LIMBS, 2, Gadget::Single).unwrap();
    let small: Vec<i64> = (0..params.n() as i64).map(|i| i * i % 1009 - 500).collect();
    let [a, b] = [&key, &packed_key(&params, &key)].map(|key| keyswitch::switch_small(&params, &small, key));
    assert_same(&a, &b);
}

#[test]
fn a_packed_residue_that_is_not_below_its_prime_is_found_in_every_limb() {
    let params = parameters(5, SPECIAL);
    let key = key(&params);
    let good = packed_b(&params, &key);
    let limbs: usize = key.b.iter().map(|b| b.limbs.len()).sum();
    let limb_bytes = good.len() / limbs; // all primes have 50 bits
    for limb in 0..limbs {
        let mut bytes = good.clone();
        bytes[limb * limb_bytes..][..7].fill(0xff);
        let rows = (key.limbs, key.special);
        let error = SwitchingKey::from_packed(&params, key.seed, rows, key.gadget, &bytes).err();
        assert_eq!(error.map(|e| e.limb), Some(limb));
    }
}
