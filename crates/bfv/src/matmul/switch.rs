//! Key switching of small ciphertexts, sequential: one digit a prime, one special prime, exact lifts.
//!
//! The generic one of `tacita_rlwe` spreads limbs over threads, which pays at N = 65536; here a limb takes 10
//! us and the threads are busy with other ciphertexts. Cost with L primes: L + 2 inverse and L^2 + 2L forward
//! NTTs: 12 for two primes.
use crate::keys::Automorphism;
use tacita_ring::{kernels, AlignedVec};
use tacita_rlwe::{Ciphertext, Parameters, SwitchingKey};

/// acc + ct(X^g), switched back to s. Ciphertexts in NTT form of the same number of primes.
pub fn add_automorphism(
    params: &Parameters,
    acc: &mut Ciphertext,
    ct: &Ciphertext,
    automorphism: &Automorphism,
) {
    let limbs = ct.limbs();
    let digits = decompose(params, ct, automorphism);
    let special = params.p_index(0);
    let [mut top0, mut top1] = inner_product(params, &digits, &automorphism.key, limbs);
    params.table(special).inverse(&mut top0);
    params.table(special).inverse(&mut top1);
    let mut moved = AlignedVec::scratch(params.n());
    for j in 0..limbs {
        let [out0, out1] = inner_product(params, &digits, &automorphism.key, j);
        let [b, a] = &mut acc.polys[..] else {
            unreachable!("degree one")
        };
        add_quotient(params, j, &mut b.limbs[j], &out0, &top0);
        add_quotient(params, j, &mut a.limbs[j], &out1, &top1);
        automorphism.permutation.apply(&mut moved, &ct.polys[0].limbs[j]);
        kernels::add_assign(params.modulus(j), &mut b.limbs[j], &moved);
    }
}

/// `digits[j][d]`: the residue modulo prime d of a(X^g), centred, modulo prime j (the special one last), NTT
/// form.
fn decompose(params: &Parameters, ct: &Ciphertext, automorphism: &Automorphism) -> Vec<Vec<AlignedVec>> {
    let limbs = ct.limbs();
    let n = params.n();
    let mut digits: Vec<Vec<AlignedVec>> = (0..=limbs).map(|_| Vec::with_capacity(limbs)).collect();
    for d in 0..limbs {
        let mut own = AlignedVec::scratch(n);
        automorphism.permutation.apply(&mut own, &ct.polys[1].limbs[d]);
        let mut coefficients = own.clone();
        params.table(d).inverse(&mut coefficients);
        let mut own = Some(own);
        for (j, row) in digits.iter_mut().enumerate() {
            if j == d {
                row.extend(own.take());
                continue;
            }
            let index = if j < limbs { j } else { params.p_index(0) };
            let mut lifted = AlignedVec::scratch(n);
            kernels::switch_modulus(
                params.modulus(d),
                params.modulus(index),
                &mut lifted,
                &coefficients,
            );
            params.table(index).forward(&mut lifted);
            row.push(lifted);
        }
    }
    digits
}

/// The two halves of the inner product with the key at limb j (`limbs`: the special prime).
fn inner_product(
    params: &Parameters,
    digits: &[Vec<AlignedVec>],
    key: &SwitchingKey,
    j: usize,
) -> [AlignedVec; 2] {
    let limbs = digits.len() - 1;
    let (index, at) = if j < limbs {
        (j, j)
    } else {
        (params.p_index(0), key.limbs)
    };
    let ds: Vec<&[f64]> = digits[j].iter().map(|d| &d[..]).collect();
    let bs: Vec<&[f64]> = key.b[..limbs].iter().map(|k| &k.limbs[at][..]).collect();
    let ks: Vec<&[f64]> = key.a[..limbs].iter().map(|k| &k.limbs[at][..]).collect();
    let mut out = [AlignedVec::scratch(params.n()), AlignedVec::scratch(params.n())];
    let [out0, out1] = &mut out;
    kernels::inner_product2(params.modulus(index), out0, out1, &ds, &bs, &ks);
    out
}

/// acc += (x - top) / P modulo prime j, where `top` (coefficient form) is x modulo P.
fn add_quotient(params: &Parameters, j: usize, acc: &mut [f64], x: &[f64], top: &[f64]) {
    let (m, p) = (params.modulus(j), params.modulus(params.p_index(0)));
    let mut lifted = AlignedVec::scratch(params.n());
    kernels::switch_modulus(p, m, &mut lifted, top);
    params.table(j).forward(&mut lifted);
    let mut quotient = AlignedVec::scratch(params.n());
    kernels::sub_mul_scalar(m, &mut quotient, x, &lifted, m.inv(p.p() % m.p()));
    kernels::add_assign(m, acc, &quotient);
}
