//! Key switching of small ciphertexts, sequential: one digit a prime, one special prime, exact lifts.
//!
//! The generic one of `tacita_rlwe` spreads limbs over threads, which pays at N = 65536; here a limb takes 10
//! us and the threads are busy with other ciphertexts.
//!
//! A tree of switches needs a modulo q, since each switch decomposes it, but b is only ever added up. So b
//! stays modulo q P, as P times what it stands for, and is divided once at the root ([`mod_down`]). Cost of a
//! switch with L primes: L + 1 inverse and L^2 + L forward NTTs, 9 for two primes; the division takes L + 1.
use crate::keys::Automorphism;
use tacita_ring::{kernels, AlignedVec};
use tacita_rlwe::{Ciphertext, Parameters, RnsPoly, SwitchingKey};

/// acc + ct(X^g), switched back to s. NTT form, a modulo the same primes, b times P and with the special
/// limb or without it, if that is zero.
pub fn add_automorphism(
    params: &Parameters,
    acc: &mut Ciphertext,
    ct: &Ciphertext,
    automorphism: &Automorphism,
) {
    let (limbs, special) = (ct.limbs(), params.p_index(0));
    let [b, a] = &mut acc.polys[..] else {
        unreachable!("degree one")
    };
    let digits = decompose(params, ct, automorphism);
    let mut moved = AlignedVec::scratch(params.n());
    extend(params, b);
    for (j, x) in b.limbs.iter_mut().enumerate() {
        let m = params.modulus(if j < limbs { j } else { special });
        if let Some(y) = ct.polys[0].limbs.get(j) {
            automorphism.permutation.apply(&mut moved, y);
            kernels::add_assign(m, x, &moved);
        }
        let terms: Vec<_> = terms(&digits, &automorphism.key, 0, j).collect();
        kernels::mac_runs(m, x, &terms);
    }
    let mut top = AlignedVec::scratch(params.n());
    let pairs: Vec<_> = terms(&digits, &automorphism.key, 1, limbs).collect();
    kernels::sum_runs(params.modulus(special), &mut top, &pairs);
    params.table(special).inverse(&mut top);
    for (j, x) in a.limbs.iter_mut().enumerate() {
        let (m, p) = (params.modulus(j), params.modulus(special));
        kernels::switch_modulus(p, m, &mut moved, &top);
        params.table(j).forward(&mut moved);
        let (ds, ks): (Vec<_>, Vec<_>) = terms(&digits, &automorphism.key, 1, j).unzip();
        let mut out = AlignedVec::scratch(params.n());
        let inverse = m.inv(p.p() % m.p());
        kernels::divided_product(m, &mut out, &ds, &ks, &moved, inverse, Some((x, 1)));
        *x = out;
    }
}

/// ct(X^g), switched back to s; both modulo q, NTT form.
pub fn automorphism_of(params: &Parameters, mut ct: Ciphertext, automorphism: &Automorphism) -> Ciphertext {
    let special = params.modulus(params.p_index(0)).p();
    for (i, limb) in ct.polys[0].limbs.iter_mut().enumerate() {
        let m = params.modulus(i);
        kernels::mul_scalar_assign(m, limb, special % m.p());
    }
    let zero = || RnsPoly::zero(params, ct.limbs(), 0);
    let mut out = Ciphertext {
        polys: vec![zero(), zero()],
        scale: ct.scale,
    };
    add_automorphism(params, &mut out, &ct, automorphism);
    mod_down(params, &mut out.polys[0]);
    out
}

/// Gives b its special limb, if it has none.
pub fn extend(params: &Parameters, b: &mut RnsPoly) {
    if b.p_len() == 0 {
        b.limbs.push(AlignedVec::zeroed(params.n()));
    }
}

/// b / P, rounded: b as it was before it was taken times P.
pub fn mod_down(params: &Parameters, b: &mut RnsPoly) {
    let special = params.p_index(0);
    let p = params.modulus(special);
    let mut top = (b.p_len() > 0).then(|| b.limbs.pop()).flatten();
    if let Some(top) = &mut top {
        params.table(special).inverse(top);
    }
    let mut lifted = AlignedVec::scratch(params.n());
    for (j, x) in b.limbs.iter_mut().enumerate() {
        let m = params.modulus(j);
        if let Some(top) = &top {
            kernels::switch_modulus(p, m, &mut lifted, top);
            params.table(j).forward(&mut lifted);
            kernels::sub_assign(m, x, &lifted);
        }
        kernels::mul_scalar_assign(m, x, m.inv(p.p() % m.p()));
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
        let mut coefficients = AlignedVec::scratch(n);
        params.table(d).inverse_centred_into(&mut coefficients, &own, 1);
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

/// Every digit at limb j (the last: the special prime) with what it meets of one half of the key: b (0) or a
/// (1).
fn terms<'a>(
    digits: &'a [Vec<AlignedVec>],
    key: &'a SwitchingKey,
    half: usize,
    j: usize,
) -> impl Iterator<Item = (&'a [f64], &'a [f64])> {
    let at = if j < digits.len() - 1 { j } else { key.limbs };
    let rows = [&key.b, &key.a][half].iter().map(move |row| &row.limbs[at][..]);
    digits[j].iter().map(|digit| &digit[..]).zip(rows)
}
