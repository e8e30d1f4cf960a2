//! The evaluator's half: sums of products, and responses under a mask and a flood; and how the key holder
//! opens them.
use super::{bytes, code, keys, round, EncryptedSlots, PublicKey, SecretKey, SlotRing};
use tacita_ring::{kernels, sample, AlignedVec, Modulus};
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
    /// needs no error of its own: it only occurs under the flood of [`respond`].
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
/// holder sees a pseudorandom and b that decrypts to uniform slots and the flood, at a distance of
/// [`SlotRing::distance_log2`]; the two shares add up to the sum but for the probability of
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
    let mut share = AlignedVec::scratch(ring.n());
    sample::uniform(&mut prng, ring.t(), &mut share);
    let mut mask = code::scaled_residues(ring, share.clone());
    kernels::neg_assign(ring.t(), &mut share);
    let mut flood = flood(&mut prng, ring.n(), ring.flood_log2());
    for (i, (limb, mask)) in sum.b.iter_mut().zip(&mut mask).enumerate() {
        let m = ring.params().modulus(i);
        kernels::add_assign(m, limb, mask);
        residues(m, &flood, mask);
        kernels::add_assign(m, limb, mask);
        (**mask).zeroize();
    }
    flood.zeroize();
    let mut message = Vec::with_capacity(response_len(ring));
    for mut half in [sum.a, sum.b] {
        while half.len() > ring.low() {
            drop_top_prime(ring, &mut half);
        }
        for (limb, &width) in half.iter().zip(ring.widths()) {
            bytes::pack(limb, width, &mut message);
        }
    }
    Ok((message, share))
}

/// n sums of three uniform integers below 2^log2, centred; log2 <= 120.
pub(super) fn flood(prng: &mut sample::Prng, n: usize, log2: u32) -> Vec<i128> {
    let mut bytes = vec![0u8; 48 * n];
    prng.fill(&mut bytes);
    let uniform = |word: &[u8]| {
        let word = u128::from_le_bytes(word.try_into().expect("sixteen bytes"));
        (word >> (128 - log2)) as i128
    };
    let sum = |words: &[u8]| words.chunks_exact(16).map(uniform).sum::<i128>() - (3i128 << (log2 - 1));
    let out = bytes.chunks_exact(48).map(sum).collect();
    bytes.zeroize();
    out
}

/// Residues of integers below 2^119, without a division: the upper bits times 2^56, and the others.
pub(super) fn residues(m: &Modulus, x: &[i128], out: &mut [f64]) {
    const LOW: u32 = 56;
    let unit = m.pow(2, u64::from(LOW));
    let shoup = m.shoup(unit);
    for (out, &x) in out.iter_mut().zip(x) {
        let upper = m.mul_shoup(m.from_i64((x >> LOW) as i64), unit, shoup);
        let lower = m.from_i64((x & ((1 << LOW) - 1)) as i64);
        *out = m.add(upper, lower) as i64 as f64;
    }
}

/// The phase b + a s of a response, modulo the low primes.
#[cfg(test)]
pub(super) fn phase(ring: &SlotRing, secret: &SecretKey, message: &[u8]) -> Vec<AlignedVec> {
    let (a, b) = message.split_at(message.len() / 2);
    let [mut a, b] =
        [a, b].map(|half| bytes::unpack_limbs(ring, &ring.widths()[..ring.low()], half).unwrap());
    add_times_secret(ring, secret, &mut a, &b);
    a
}

/// The phase of a sum of products of zeros before it is masked and flooded: noise alone.
#[cfg(test)]
pub(super) fn noise_of_products(
    ring: &SlotRing,
    public: &PublicKey,
    secret: &SecretKey,
    mut sum: Sum,
) -> Vec<i128> {
    sum.finish(ring, public, &mut sample::Prng::from_seed([7; 32]));
    add_times_secret(ring, secret, &mut sum.a, &sum.b);
    let top = ring.params().q_len() - 1;
    let [p, q] = [top - 1, top].map(|i| ring.params().modulus(i));
    let product = i128::from(p.p()) * i128::from(q.p());
    let integer = |(&x, &y): (&f64, &f64)| {
        let (x, y) = (x as u64, y as u64);
        let digit = q.mul(q.sub(y, x % q.p()), q.inv(p.p()));
        let value = i128::from(x) + i128::from(p.p()) * i128::from(digit);
        value - if value > product / 2 { product } else { 0 }
    };
    sum.a[top - 1]
        .iter()
        .zip(sum.a[top].iter())
        .map(integer)
        .collect()
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
