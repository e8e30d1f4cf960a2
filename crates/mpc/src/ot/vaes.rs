//! AVX-512 and VAES kernels: four blocks an instruction, four instructions in flight. Callers check
//! [`available`]; the portable paths beside the callers do the same with the `aes` crate.
#![cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Blocks of one step.
pub(super) const STEP: usize = 16;

/// Round keys of AES-128.
pub(super) struct Keys([u128; 11]);

/// Whether this CPU runs the kernels.
pub(super) fn available() -> bool {
    is_x86_feature_detected!("aes") && is_x86_feature_detected!("vaes") && is_x86_feature_detected!("avx512f")
}

impl Keys {
    /// The key schedule, when the CPU has the instructions.
    pub(super) fn new(key: u128) -> Option<Self> {
        // SAFETY: the features that the function enables were just detected.
        available().then(|| unsafe { schedule(key) })
    }
}

type Four = [__m512i; 4];

#[target_feature(enable = "aes")]
fn schedule(key: u128) -> Keys {
    let mut keys = [key; 11];
    macro_rules! rounds {
        ($($round:literal $constant:literal),*) => {
            $(keys[$round] = next_key::<$constant>(keys[$round - 1]);)*
        };
    }
    rounds!(1 1, 2 2, 3 4, 4 8, 5 16, 6 32, 7 64, 8 128, 9 27, 10 54);
    Keys(keys)
}

/// One step of FIPS 197's key expansion: the last word, rotated and substituted, added to all words, then
/// prefix sums.
#[target_feature(enable = "aes")]
fn next_key<const CONSTANT: i32>(key: u128) -> u128 {
    let assisted = _mm_aeskeygenassist_si128::<CONSTANT>(to_vector(key));
    let word = from_vector(assisted) >> 96;
    let sums = key ^ (key << 32);
    let sums = sums ^ (sums << 64);
    sums ^ word ^ (word << 32) ^ (word << 64) ^ (word << 96)
}

fn to_vector(x: u128) -> __m128i {
    // SAFETY: both types are 16 plain bytes.
    unsafe { std::mem::transmute(x) }
}

fn from_vector(x: __m128i) -> u128 {
    // SAFETY: both types are 16 plain bytes.
    unsafe { std::mem::transmute(x) }
}

#[target_feature(enable = "avx512f")]
fn load(blocks: &[u128; STEP]) -> Four {
    let start = blocks.as_ptr().cast::<__m512i>();
    // SAFETY: 16 blocks are four vectors; the loads need no alignment.
    std::array::from_fn(|i| unsafe { _mm512_loadu_si512(start.add(i)) })
}

#[target_feature(enable = "avx512f")]
fn store(blocks: &mut [u128; STEP], vectors: Four) {
    let start = blocks.as_mut_ptr().cast::<__m512i>();
    for (i, vector) in vectors.into_iter().enumerate() {
        // SAFETY: 16 blocks are four vectors; the stores need no alignment.
        unsafe { _mm512_storeu_si512(start.add(i), vector) };
    }
}

#[target_feature(enable = "avx512f")]
fn add(a: Four, b: Four) -> Four {
    [
        _mm512_xor_si512(a[0], b[0]),
        _mm512_xor_si512(a[1], b[1]),
        _mm512_xor_si512(a[2], b[2]),
        _mm512_xor_si512(a[3], b[3]),
    ]
}

#[target_feature(enable = "avx512f,vaes")]
fn encrypt(keys: &[__m512i; 11], mut x: Four) -> Four {
    x = add(x, [keys[0]; 4]);
    for key in &keys[1..10] {
        x = [
            _mm512_aesenc_epi128(x[0], *key),
            _mm512_aesenc_epi128(x[1], *key),
            _mm512_aesenc_epi128(x[2], *key),
            _mm512_aesenc_epi128(x[3], *key),
        ];
    }
    [
        _mm512_aesenclast_epi128(x[0], keys[10]),
        _mm512_aesenclast_epi128(x[1], keys[10]),
        _mm512_aesenclast_epi128(x[2], keys[10]),
        _mm512_aesenclast_epi128(x[3], keys[10]),
    ]
}

#[target_feature(enable = "avx512f")]
fn broadcast(keys: &Keys) -> [__m512i; 11] {
    let mut out = [_mm512_setzero_si512(); 11];
    for (out, key) in out.iter_mut().zip(keys.0) {
        *out = _mm512_broadcast_i32x4(to_vector(key));
    }
    out
}

/// sigma(l, r) = (l + r, l) in every block: halves swapped, the old upper half added to... the upper half.
#[target_feature(enable = "avx512f")]
fn sigma(x: __m512i) -> __m512i {
    let upper = _mm512_set4_epi64(-1, 0, -1, 0);
    let swapped = _mm512_shuffle_epi32::<0b01_00_11_10>(x);
    _mm512_xor_si512(swapped, _mm512_and_si512(x, upper))
}

#[target_feature(enable = "avx512f,vaes")]
fn hash(keys: &[__m512i; 11], x: Four) -> Four {
    let s = [sigma(x[0]), sigma(x[1]), sigma(x[2]), sigma(x[3])];
    add(encrypt(keys, s), s)
}

/// H of every block. A CPU without the features is refused by `Keys`.
pub(super) fn hash_all(keys: &Keys, blocks: &mut [u128]) {
    #[target_feature(enable = "avx512f,vaes")]
    fn body(keys: &Keys, blocks: &mut [u128]) {
        let keys = broadcast(keys);
        let (whole, rest) = blocks.as_chunks_mut::<STEP>();
        for chunk in whole {
            store(chunk, hash(&keys, load(chunk)));
        }
        if !rest.is_empty() {
            let mut padded = [0; STEP];
            padded[..rest.len()].copy_from_slice(rest);
            let hashed = hash(&keys, load(&padded));
            store(&mut padded, hashed);
            rest.copy_from_slice(&padded[..rest.len()]);
        }
    }
    // SAFETY: `Keys` exist only where the features were detected.
    unsafe { body(keys, blocks) }
}

/// low becomes H(low), high low + H(low), of the same length; returns the sum of H(low).
pub(super) fn expand(keys: &Keys, low: &mut [u128], high: &mut [u128]) -> u128 {
    #[target_feature(enable = "avx512f,vaes")]
    fn body(keys: &Keys, low: &mut [u128], high: &mut [u128]) -> u128 {
        let keys = broadcast(keys);
        let ((low, low_rest), (high, high_rest)) =
            (low.as_chunks_mut::<STEP>(), high.as_chunks_mut::<STEP>());
        let mut sums = [_mm512_setzero_si512(); 4];
        for (low, high) in low.iter_mut().zip(high) {
            let x = load(low);
            let hashed = hash(&keys, x);
            store(low, hashed);
            store(high, add(x, hashed));
            sums = add(sums, hashed);
        }
        let mut parts = [0; STEP];
        store(&mut parts, sums);
        let mut sum = parts.iter().fold(0, |sum, part| sum ^ part);
        if !low_rest.is_empty() {
            parts[..low_rest.len()].copy_from_slice(low_rest);
            let hashed = hash(&keys, load(&parts));
            store(&mut parts, hashed);
            for ((low, high), &hashed) in low_rest.iter_mut().zip(high_rest).zip(&parts) {
                *high = *low ^ hashed;
                *low = hashed;
                sum ^= hashed;
            }
        }
        sum
    }
    assert_eq!(low.len(), high.len(), "both halves of a level");
    // SAFETY: `Keys` exist only where the features were detected.
    unsafe { body(keys, low, high) }
}

/// Words of AES in counter mode from block `counter` on, each scaled to below `below`: floor(word * below /
/// 2^32).
pub(super) fn scaled_words(keys: &Keys, counter: u64, below: u32, out: &mut [[u32; 4 * STEP]]) {
    #[target_feature(enable = "avx512f,vaes")]
    fn body(keys: &Keys, counter: u64, below: u32, out: &mut [[u32; 4 * STEP]]) {
        let keys = broadcast(keys);
        let factor = _mm512_set1_epi64(below.into());
        let four = |at: u64| {
            _mm512_add_epi64(
                _mm512_set1_epi64(at as i64),
                _mm512_set_epi64(0, 3, 0, 2, 0, 1, 0, 0),
            )
        };
        let low = _mm512_set4_epi64(0, -1, 0, -1);
        for (step, out) in (0u64..).zip(out) {
            let at = counter + STEP as u64 * step;
            let counters = [four(at), four(at + 4), four(at + 8), four(at + 12)];
            let counters = counters.map(|c| _mm512_and_si512(c, low));
            let start = out.as_mut_ptr().cast::<__m512i>();
            for (i, words) in encrypt(&keys, counters).into_iter().enumerate() {
                let even = _mm512_srli_epi64::<32>(_mm512_mul_epu32(words, factor));
                let odd = _mm512_mul_epu32(_mm512_srli_epi64::<32>(words), factor);
                let scaled = _mm512_mask_mov_epi32(even, 0xaaaa, odd);
                // SAFETY: 64 words are four vectors; the stores need no alignment.
                unsafe { _mm512_storeu_si512(start.add(i), scaled) };
            }
        }
    }
    // SAFETY: `Keys` exist only where the features were detected.
    unsafe { body(keys, counter, below, out) }
}
