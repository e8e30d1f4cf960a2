//! Slots to ciphertext residues: plaintexts centred (evaluator) or times Q/t (key holder).
use super::SlotRing;
use tacita_ring::{kernels, AlignedVec};
use zeroize::Zeroize;

/// Slots to the centred polynomial modulo every ciphertext prime, NTT form. Cost: 1 + limbs NTTs.
pub(super) fn plain_residues(
    ring: &SlotRing,
    mut slots: AlignedVec,
    mut each: impl FnMut(usize, &AlignedVec),
) {
    ring.plain().inverse(&mut slots);
    let mut limb = AlignedVec::scratch(ring.n());
    for i in 0..ring.params().q_len() {
        let table = ring.params().table(i);
        kernels::switch_modulus(ring.t(), table.modulus(), &mut limb, &slots);
        table.forward(&mut limb);
        each(i, &limb);
    }
    (*limb).zeroize();
    (*slots).zeroize();
}

/// round(Q m / t) modulo every ciphertext prime, coefficient form: with w = Q m modulo t, centred, it is (Q m
/// - w) / t, and Q is 0 modulo its primes.
pub(super) fn scaled_residues(ring: &SlotRing, mut slots: AlignedVec) -> Vec<AlignedVec> {
    let (t, params) = (ring.t(), ring.params());
    ring.plain().inverse(&mut slots);
    let q = params.q().iter().fold(1, |product, &p| t.mul(product, p));
    kernels::mul_scalar_assign(t, &mut slots, q);
    let limb = |i: usize| {
        let m = params.modulus(i);
        let mut limb = AlignedVec::scratch(ring.n());
        kernels::switch_modulus(t, m, &mut limb, &slots);
        kernels::mul_scalar_assign(m, &mut limb, m.neg(m.inv(t.p())));
        limb
    };
    let limbs = (0..params.q_len()).map(limb).collect();
    (*slots).zeroize();
    limbs
}
