//! The evaluator's half: sums of products and masked responses; and how the key holder opens them.
use super::{bytes, code, keys, round, EncryptedSlots, PublicKey, SecretKey, SlotRing};
use tacita_ring::{kernels, sample, AlignedVec};
use tacita_rlwe::switching::SIGMA;
use tacita_rlwe::RlweError;
use zeroize::Zeroize;

/// A sum of ciphertexts times plaintexts, (b, a) in NTT form.
pub struct Sum {
    b: Vec<AlignedVec>,
    a: Vec<AlignedVec>,
}

impl Sum {
    /// Zero.
    pub fn zero(ring: &SlotRing) -> Self {
        let zeros = || {
            (0..ring.params().q_len())
                .map(|_| AlignedVec::zeroed(ring.n()))
                .collect()
        };
        Self {
            b: zeros(),
            a: zeros(),
        }
    }

    /// self += ciphertext * plaintext, slot by slot; `slots` canonical modulo t. Cost: a transform modulo t,
    /// one NTT and two products per prime.
    pub fn add_product(&mut self, ring: &SlotRing, ct: &EncryptedSlots, slots: AlignedVec) {
        code::plain_residues(ring, slots, |i, plain| {
            let m = ring.params().modulus(i);
            kernels::mul_add_assign(m, &mut self.b[i], &ct.b[i], plain);
            kernels::mul_add_assign(m, &mut self.a[i], &ct.a[i], plain);
        });
    }

    /// Adds an encryption of zero that nothing else ever uses, (B u, A u + e), and leaves coefficient form.
    /// Without it the key holder would learn the a-half, a known function of the evaluator's plaintexts. B u
    /// needs no error of its own: it only occurs under the uniform mask of [`respond`].
    fn finish(&mut self, ring: &SlotRing, public: &PublicKey, prng: &mut sample::Prng) {
        let mut small = sample::ternary(prng, ring.n());
        let mut error = sample::gaussian(prng, ring.n(), SIGMA);
        let mut u = AlignedVec::scratch(ring.n());
        for i in 0..ring.params().q_len() {
            let table = ring.params().table(i);
            let m = table.modulus();
            for (u, &s) in u.iter_mut().zip(&small) {
                *u = if s < 0 { (m.p() - 1) as f64 } else { f64::from(s) };
            }
            table.forward(&mut u);
            for (sum, key) in [(&mut self.b[i], &public.b[i]), (&mut self.a[i], &public.a[i])] {
                kernels::mul_add_assign(m, sum, &u, key);
                table.inverse(sum);
            }
            keys::add_small(m.p(), &mut self.a[i], &error);
        }
        (*u).zeroize();
        small.zeroize();
        error.zeroize();
    }
}

/// Bytes of a response: both halves modulo the low primes.
pub fn response_len(ring: &SlotRing) -> usize {
    2 * bytes::packed_len(ring.n(), &ring.widths()[..ring.low()])
}

/// Masks and sends off a sum: (message for the key holder, the evaluator's share in slots modulo t). The key
/// holder sees b uniform and a pseudorandom; the two shares add up to the sum but for the probability of
/// [`SlotRing::failure_log2`].
///
/// # Errors
/// When the operating system gives no randomness.
pub fn respond(
    ring: &SlotRing,
    public: &PublicKey,
    mut sum: Sum,
) -> Result<(Vec<u8>, AlignedVec), RlweError> {
    let mut prng = sample::Prng::from_os()?;
    sum.finish(ring, public, &mut prng);
    let mut message = Vec::with_capacity(response_len(ring));
    drop_top_prime(ring, &mut sum.a);
    drop_top_prime(ring, &mut sum.b);
    for (i, limb) in sum.a.iter().enumerate() {
        bytes::pack(limb, ring.widths()[i], &mut message);
    }
    let mut share = vec![];
    for (i, limb) in sum.b.iter_mut().enumerate() {
        let m = ring.params().modulus(i);
        let mut mask = AlignedVec::scratch(ring.n());
        sample::uniform(&mut prng, m, &mut mask);
        kernels::add_assign(m, limb, &mask);
        bytes::pack(limb, ring.widths()[i], &mut message);
        kernels::neg_assign(m, &mut mask);
        share.push(mask);
    }
    Ok((message, round::round_to_slots(ring, share)))
}

/// The phase b + a s of a response before it is masked, modulo the low primes.
#[cfg(test)]
pub(super) fn phase(
    ring: &SlotRing,
    public: &PublicKey,
    secret: &SecretKey,
    mut sum: Sum,
) -> Vec<AlignedVec> {
    sum.finish(ring, public, &mut sample::Prng::from_seed([7; 32]));
    drop_top_prime(ring, &mut sum.a);
    drop_top_prime(ring, &mut sum.b);
    add_times_secret(ring, secret, &mut sum.a, &sum.b);
    sum.a
}

/// Divides by the top prime and rounds; coefficient form.
fn drop_top_prime(ring: &SlotRing, limbs: &mut Vec<AlignedVec>) {
    let Some(top) = limbs.pop() else { return };
    let from = ring.params().modulus(limbs.len());
    let mut rest = AlignedVec::scratch(ring.n());
    let mut out = AlignedVec::scratch(ring.n());
    for (i, limb) in limbs.iter_mut().enumerate() {
        let m = ring.params().modulus(i);
        kernels::switch_modulus(from, m, &mut rest, &top);
        kernels::sub_mul_scalar(m, &mut out, limb, &rest, m.inv(from.p()));
        std::mem::swap(limb, &mut out);
    }
}

/// The key holder's share of a response, in slots modulo t; `None` unless the message has [`response_len`]
/// bytes and canonical residues. Cost: two NTTs per low prime and a transform modulo t.
pub fn open(ring: &SlotRing, secret: &SecretKey, message: &[u8]) -> Option<AlignedVec> {
    let widths = &ring.widths()[..ring.low()];
    let (a, b) = message.split_at_checked(response_len(ring) / 2)?;
    let mut a = bytes::unpack_limbs(ring, widths, a)?;
    let b = bytes::unpack_limbs(ring, widths, b)?;
    add_times_secret(ring, secret, &mut a, &b);
    Some(round::round_to_slots(ring, a))
}

/// a = b + a s modulo the low primes, coefficient form.
fn add_times_secret(ring: &SlotRing, secret: &SecretKey, a: &mut [AlignedVec], b: &[AlignedVec]) {
    for (i, (a, b)) in a.iter_mut().zip(b).enumerate() {
        let table = ring.params().table(i);
        table.forward(a);
        kernels::mul_assign(table.modulus(), a, &secret.ntt().limbs[i]);
        table.inverse(a);
        kernels::add_assign(table.modulus(), a, b);
    }
}
