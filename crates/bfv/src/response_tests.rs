use super::*;
use crate::params::{parameters_olt, NARROW, WIDE};
use crate::request::{decode_request, encrypt_message, Rounding};
use crate::{ClientKeys, ServerKeys};

struct World {
    params: Parameters,
    client: ClientKeys,
    server: ServerKeys,
}

fn world() -> World {
    let params = parameters_olt().unwrap();
    let client = ClientKeys::generate(&params).unwrap();
    let server = client.server_keys(&params, NARROW, false).unwrap();
    World {
        params,
        client,
        server,
    }
}

fn request(w: &World, message: &[u64], bits: u32, limbs: usize) -> Ciphertext {
    let form = Rounding { limbs, drop: 0 };
    let bytes = encrypt_message(&w.params, &w.client.secret, message, bits, form).unwrap();
    decode_request(&w.params, &bytes, form).unwrap()
}

fn ramp(params: &Parameters) -> Vec<u64> {
    (0..params.n() as u64)
        .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .collect()
}

/// The a part of a response, coefficient by coefficient.
fn a_part(w: &World, bytes: &[u8], kappa: u32) -> Vec<u128> {
    let mut reader = Reader::new(bytes);
    (0..w.params.n()).map(|_| reader.get_wide(kappa)).collect()
}

#[test]
fn shares_sum_to_the_message() {
    let w = world();
    let m = ramp(&w.params);
    let some: Vec<usize> = (0..w.params.n()).rev().step_by(97).collect();
    for (limbs, kappa, keep) in [
        (NARROW, 64, None),
        (NARROW, 58, Some(&some[..])),
        (WIDE, 72, Some(&some[..])),
    ] {
        let ct = request(&w, &m, 64, limbs);
        let response = respond(&w.params, &w.server.public, ct, kappa, keep).unwrap();
        let opened = open(&w.params, &w.client.secret, &response.bytes, kappa, keep).unwrap();
        let kept = keep.map_or_else(|| (0..w.params.n()).collect(), <[usize]>::to_vec);
        assert_eq!((opened.len(), response.share.len()), (kept.len(), kept.len()));
        let mut worst = 0;
        for (i, at) in kept.into_iter().enumerate() {
            let sum = opened[i].wrapping_add(response.share[i]);
            let error = sum.wrapping_sub((u128::from(m[at]) << 64) >> (128 - kappa)) << (128 - kappa);
            worst = worst.max(((error as i128) >> (128 - kappa)).unsigned_abs());
        }
        assert!((1..=u128::from(ERROR)).contains(&worst), "kappa {kappa}: {worst}");
    }
}

/// Both public implementations of the protocol share one encryption of zero between responses, which gives
/// the key holder the differences of the a halves. Here equal ciphertexts are answered several times: were a
/// zero encryption re-used, two a halves would be equal, and for different ciphertexts their difference would
/// be that of the ciphertexts.
#[test]
fn every_response_has_a_fresh_a() {
    let w = world();
    let kappa = 60;
    let (ct, other) = (
        request(&w, &ramp(&w.params), 64, NARROW),
        request(&w, &vec![7; N], 64, NARROW),
    );
    let answer = |ct: &Ciphertext| {
        let r = respond(&w.params, &w.server.public, ct.clone(), kappa, Some(&[])).unwrap();
        a_part(&w, &r.bytes, kappa)
    };
    let plain = |ct: &Ciphertext| {
        let mut a = ct.polys[1].clone();
        (0..NARROW).for_each(|i| w.params.table(i).inverse(&mut a.limbs[i]));
        let mut out = vec![0; N];
        Crt::new(&w.params, NARROW).scale_down(&mut a, kappa, |at, x| out[at] = x);
        out
    };
    let (known, known_other) = (plain(&ct), plain(&other));
    let answers = [answer(&ct), answer(&ct), answer(&other)];
    // None is the unrefreshed a, and no difference is the known one (up to roundings).
    for (x, y, dx, dy) in [
        (&answers[0], &answers[1], &known, &known),
        (&answers[0], &answers[2], &known, &known_other),
        (&answers[1], &answers[2], &known, &known_other),
        (&answers[0], &vec![0; N], &known, &vec![0; N]),
    ] {
        let close = (0..N)
            .filter(|&i| {
                let d = x[i].wrapping_sub(y[i]).wrapping_sub(dx[i].wrapping_sub(dy[i])) << (128 - kappa);
                ((d as i128) >> (128 - kappa)).unsigned_abs() < 1 << 40
            })
            .count();
        assert!(close < 5, "{close} coefficients of a difference are known");
    }
}

use crate::N;

/// Chi-square of the top byte of values of `width` bits; 255 degrees of freedom: standard deviation 22.6.
fn chi_square(values: impl Iterator<Item = u128>, width: u32) -> f64 {
    let mut counts = [0f64; 256];
    let mut total = 0.0;
    for v in values {
        counts[(v >> (width - 8)) as usize & 255] += 1.0;
        total += 1.0;
    }
    let expected = total / 256.0;
    counts.iter().map(|c| (c - expected).powi(2) / expected).sum()
}

#[test]
fn what_the_key_holder_sees_is_uniform_whatever_the_evaluator_did() {
    let w = world();
    let kappa = 59;
    // Small multiples of a request with a constant message: without masks every b would be the same.
    for weight in [0u64, 1, 1 << 20] {
        let mut ct = request(&w, &vec![1 << 40; N], 64, NARROW);
        for poly in &mut ct.polys {
            for i in 0..NARROW {
                kernels::mul_scalar_assign(w.params.modulus(i), &mut poly.limbs[i], weight);
            }
        }
        let r = respond(&w.params, &w.server.public, ct, kappa, None).unwrap();
        let a = a_part(&w, &r.bytes, kappa);
        let mut reader = Reader::new(&r.bytes[packed_len(N, kappa)..]);
        let b: Vec<u128> = (0..N).map(|_| reader.get_wide(kappa - B_DROP)).collect();
        let opened = open(&w.params, &w.client.secret, &r.bytes, kappa, None).unwrap();
        let low = |v: &[u128]| v.iter().map(|x| x & 255).collect::<Vec<_>>();
        for (name, chi) in [
            ("a", chi_square(a.iter().copied(), kappa)),
            ("low a", chi_square(low(&a).into_iter(), 8)),
            ("b", chi_square(b.iter().copied(), kappa - B_DROP)),
            ("low b", chi_square(low(&b).into_iter(), 8)),
            ("opened", chi_square(opened.into_iter(), kappa)),
            ("share", chi_square(r.share.iter().copied(), kappa)),
        ] {
            assert!(
                (255.0 - 7.0 * 22.6..255.0 + 7.0 * 22.6).contains(&chi),
                "{name}, weight {weight}: {chi}"
            );
        }
    }
}

#[test]
fn wrong_lengths_and_arguments_are_errors() {
    let w = world();
    let ct = || request(&w, &vec![0; N], 64, NARROW);
    assert!(respond(&w.params, &w.server.public, ct(), 4, None).is_err());
    assert!(respond(&w.params, &w.server.public, ct(), 73, None).is_err());
    assert!(respond(&w.params, &w.server.public, ct(), 60, Some(&[N])).is_err());
    let len = response_len(&w.params, 60, 3);
    for bytes in [vec![], vec![0; len - 1], vec![0; len + 1]] {
        assert!(open(&w.params, &w.client.secret, &bytes, 60, Some(&[0, 1, 2])).is_err());
    }
    assert!(open(
        &w.params,
        &w.client.secret,
        &vec![0xff; len],
        60,
        Some(&[0, 1, 2])
    )
    .is_ok());
}
