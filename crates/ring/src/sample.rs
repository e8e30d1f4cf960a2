//! Randomness: ChaCha20 streams and the distributions of lattice cryptography.
//!
//! Secrets and errors are drawn without branches or addresses that depend on the value drawn (rejected draws
//! are independent of the accepted ones); [`sparse_ternary`] writes to secret positions. The caller wipes
//! what it no longer needs.

use crate::{Modulus, RingError};
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};
use std::sync::atomic::{compiler_fence, Ordering};
use zeroize::Zeroize;

/// A ChaCha20 stream. Its key and the bytes that it made in advance are wiped when it is dropped; copies that
/// the compiler left on the stack while the stream was built and moved are not.
pub struct Prng(ChaCha20Rng);

impl Drop for Prng {
    fn drop(&mut self) {
        let nothing = ChaCha20Rng::from_seed([0; 32]);
        // SAFETY: the field is valid and owned; the state holds no resources. Volatile, so that the write is
        // not left out.
        unsafe { std::ptr::write_volatile(&mut self.0, nothing) };
        compiler_fence(Ordering::SeqCst);
    }
}

impl Prng {
    /// Seeded by the operating system: for secrets.
    pub fn from_os() -> Result<Self, RingError> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|e| RingError::Randomness(e.to_string()))?;
        let prng = Self::from_seed(seed);
        seed.zeroize();
        Ok(prng)
    }

    /// Seeded by 32 bytes: for the uniform halves that travel as a public seed.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self(ChaCha20Rng::from_seed(seed))
    }

    /// The next bytes of the stream.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }

    /// A fresh seed.
    pub fn seed(&mut self) -> [u8; 32] {
        let mut seed = [0; 32];
        self.fill(&mut seed);
        seed
    }
}

/// Little-endian words drawn at once.
const BULK: usize = 512;

/// Uniform canonical residues. The stream is read in little-endian words, masked to the bit length of p;
/// words >= p are skipped.
pub fn uniform(prng: &mut Prng, m: &Modulus, out: &mut [f64]) {
    let mask = u64::MAX >> m.p().leading_zeros();
    let mut bytes = [0; 8 * BULK];
    let mut filled = 0;
    while filled < out.len() {
        let words = BULK.min(out.len() - filled);
        prng.fill(&mut bytes[..8 * words]);
        for word in bytes[..8 * words].chunks_exact(8) {
            let value = u64::from_le_bytes(word.try_into().expect("eight bytes")) & mask;
            out[filled] = value as i64 as f64;
            filled += usize::from(value < m.p());
        }
    }
}

/// n values uniform in {-1, 0, 1}: pairs of bits, the fourth pair rejected.
pub fn ternary(prng: &mut Prng, n: usize) -> Vec<i8> {
    let (mut out, mut bytes) = (vec![0; n], [0u8; BULK]);
    let mut filled = 0;
    while filled < n {
        let count = BULK.min((n - filled).div_ceil(4));
        prng.fill(&mut bytes[..count]);
        for pair in bytes[..count]
            .iter()
            .flat_map(|b| (0..4).map(move |i| (b >> (2 * i)) & 3))
        {
            if filled < n {
                out[filled] = pair as i8 - 1;
                filled += usize::from(pair < 3);
            }
        }
    }
    bytes.zeroize();
    out
}

/// n values of which exactly h, at uniform places, are 1 or -1.
pub fn sparse_ternary(prng: &mut Prng, n: usize, h: usize) -> Vec<i8> {
    assert!(
        n.is_power_of_two() && h <= n,
        "sparse_ternary: cannot place {h} nonzero values in {n}"
    );
    let mut out = vec![0i8; n];
    let mut placed = 0;
    while placed < h {
        let draw = prng.0.next_u64();
        let place = (draw >> 1) as usize & (n - 1);
        if out[place] == 0 {
            out[place] = (draw & 1) as i8 * 2 - 1;
            placed += 1;
        }
    }
    out
}

/// n values of the discrete Gaussian of standard deviation sigma, cut at 6 sigma. The whole table is compared
/// for every draw.
pub fn gaussian(prng: &mut Prng, n: usize, sigma: f64) -> Vec<i32> {
    let table = cumulative(sigma);
    let mut bytes = vec![0u8; 8 * n];
    prng.fill(&mut bytes);
    let mut out = vec![0; n];
    draw(&table, &bytes, &mut out);
    bytes.zeroize();
    out
}

/// Of words, those of a group at once: a sign, and how many bounds of the table the other bits reach.
fn draw(table: &[i64], bytes: &[u8], out: &mut [i32]) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512dq")]
        fn avx512(table: &[i64], bytes: &[u8], out: &mut [i32]) {
            draw_groups(table, bytes, out);
        }
        #[target_feature(enable = "avx2")]
        fn avx2(table: &[i64], bytes: &[u8], out: &mut [i32]) {
            draw_groups(table, bytes, out);
        }
        if is_x86_feature_detected!("avx512dq") && is_x86_feature_detected!("avx512f") {
            // SAFETY: the features were just found on this processor.
            return unsafe { avx512(table, bytes, out) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { avx2(table, bytes, out) };
        }
    }
    draw_groups(table, bytes, out);
}

#[inline(always)]
fn draw_groups(table: &[i64], bytes: &[u8], out: &mut [i32]) {
    const GROUP: usize = 32;
    let (words, _) = bytes.as_chunks();
    let (mut levels, mut reached) = ([0; GROUP], [0; GROUP]);
    for (out, words) in out.chunks_mut(GROUP).zip(words.chunks(GROUP)) {
        reached.fill(0);
        for (level, &word) in levels.iter_mut().zip(words) {
            *level = (u64::from_le_bytes(word) >> 1) as i64;
        }
        for &bound in table {
            for (reached, &level) in reached.iter_mut().zip(&levels) {
                *reached += i64::from(level >= bound);
            }
        }
        for ((out, word), &magnitude) in out.iter_mut().zip(words).zip(&reached) {
            let sign = i32::from(word[0] & 1);
            *out = (magnitude as i32 ^ -sign) + sign;
        }
    }
    levels.zeroize();
    reached.zeroize();
}

/// `table[k]` = 2^63 P(|x| <= k) for k < 6 sigma, where 0 has half its weight on either sign.
fn cumulative(sigma: f64) -> Vec<i64> {
    assert!(
        sigma > 0.0 && sigma < 1e6,
        "gaussian: sigma = {sigma} is out of range"
    );
    let tail = (6.0 * sigma).floor() as u32;
    let weight = |k: u32| (-f64::from(k * k) / (2.0 * sigma * sigma)).exp() * if k == 0 { 0.5 } else { 1.0 };
    let total: f64 = (0..=tail).map(weight).sum();
    let mut sum = 0.0;
    (0..tail)
        .map(|k| {
            sum += weight(k);
            (sum / total * (1u64 << 63) as f64) as i64
        })
        .collect()
}

#[cfg(test)]
mod tests;
