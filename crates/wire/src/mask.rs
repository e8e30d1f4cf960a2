//! The uniform half of a ciphertext that was encrypted under the secret key, from its public seed: half the
//! bytes.
use tacita_ring::sample::{uniform, Prng};
use tacita_rlwe::{Parameters, RnsPoly};

/// The mask c1 of `limbs` limbs, NTT form: limb i comes from a stream of its own, keyed by BLAKE3(seed; i).
/// This is the derivation of `tacita_rlwe::encrypt`. Cost: N uniform residues a limb, limbs in parallel.
pub fn expand_mask(params: &Parameters, seed: &[u8; 32], limbs: usize) -> RnsPoly {
    let mut mask = RnsPoly::zero(params, limbs, 0);
    mask.for_each_limb(params, |i, limb| {
        let mut hasher = blake3::Hasher::new_keyed(seed);
        hasher.update(&(i as u64).to_le_bytes());
        let mut stream = Prng::from_seed(*hasher.finalize().as_bytes());
        uniform(&mut stream, params.modulus(i), limb);
    });
    mask
}
