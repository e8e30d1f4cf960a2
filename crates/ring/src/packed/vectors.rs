//! Unpacking by vectors: bytes are shuffled into lanes, shifted, masked and made doubles by their exponent.
//!
//! A group of eight residues is read as 64 bytes, of which it fills at most 50, so the last groups are left
//! to the caller.
use super::{GROUP, TWO_52, TWO_52_BITS};
use std::arch::x86_64::*;

/// Bytes that a group is read as.
const READ: usize = 64;

/// Groups that can be read whole.
fn readable(bytes: &[u8], width: usize) -> usize {
    let starts = (bytes.len() + 1).saturating_sub(READ);
    starts.div_ceil(width)
}

/// Eight residues at a time; returns the groups done. None where the processor does not shuffle bytes across
/// a whole register: then four at a time.
pub fn eight_lanes(bytes: &[u8], width: usize, out: &mut [f64]) -> usize {
    if !(is_x86_feature_detected!("avx512vbmi") && is_x86_feature_detected!("avx512f")) {
        return four_lanes(bytes, width, out);
    }
    let groups = readable(bytes, width).min(out.len() / GROUP);
    // SAFETY: the features are there, and every group is readable and has its place in `out`.
    unsafe { eight(bytes, width, &mut out[..groups * GROUP]) };
    groups
}

/// Four residues at a time; returns the groups done, none without AVX2.
pub fn four_lanes(bytes: &[u8], width: usize, out: &mut [f64]) -> usize {
    if !is_x86_feature_detected!("avx2") {
        return 0;
    }
    let groups = readable(bytes, width).min(out.len() / GROUP);
    // SAFETY: as above.
    unsafe { four(bytes, width, &mut out[..groups * GROUP]) };
    groups
}

/// # Safety
/// The processor has the features; `READ` bytes can be read where each group of `out` begins.
#[target_feature(enable = "avx512f,avx512vbmi")]
unsafe fn eight(bytes: &[u8], width: usize, out: &mut [f64]) {
    let (mut places, mut shifts) = ([0u8; READ], [0u64; GROUP]);
    for i in 0..GROUP {
        shifts[i] = (i * width % 8) as u64;
        (0..8).for_each(|b| places[8 * i + b] = (i * width / 8 + b) as u8);
    }
    // SAFETY: reads the arrays above, and of `bytes` and `out` what the caller promises.
    unsafe {
        let places = _mm512_loadu_si512(places.as_ptr().cast());
        let shifts = _mm512_loadu_si512(shifts.as_ptr().cast());
        let mask = _mm512_set1_epi64((1 << width) - 1);
        let (exponent, two_52) = (_mm512_set1_epi64(TWO_52_BITS as i64), _mm512_set1_pd(TWO_52));
        for (g, group) in out.chunks_exact_mut(GROUP).enumerate() {
            let x = _mm512_loadu_si512(bytes.as_ptr().add(g * width).cast());
            let x = _mm512_srlv_epi64(_mm512_permutexvar_epi8(places, x), shifts);
            let x = _mm512_or_si512(_mm512_and_si512(x, mask), exponent);
            let x = _mm512_sub_pd(_mm512_castsi512_pd(x), two_52);
            _mm512_storeu_pd(group.as_mut_ptr(), x);
        }
    }
}

/// # Safety
/// As [`eight`].
#[target_feature(enable = "avx2")]
unsafe fn four(bytes: &[u8], width: usize, out: &mut [f64]) {
    // Two residues are read as 16 bytes from the first one's first byte on: 7 + 2 * 50 bits at most.
    let first = |pair: usize| 2 * pair * width / 8;
    let (mut places, mut shifts) = ([0u8; 8 * GROUP], [0u64; GROUP]);
    for i in 0..GROUP {
        shifts[i] = (i * width % 8) as u64;
        (0..8).for_each(|b| places[8 * i + b] = (i * width / 8 - first(i / 2) + b).min(15) as u8);
    }
    // SAFETY: as in `eight`; the last pair is read from byte 37 on, to byte 53.
    unsafe {
        let half = |h: usize| {
            let places = _mm256_loadu_si256(places.as_ptr().add(32 * h).cast());
            (places, _mm256_loadu_si256(shifts.as_ptr().add(4 * h).cast()))
        };
        let halves = [half(0), half(1)];
        let mask = _mm256_set1_epi64x((1 << width) - 1);
        let (exponent, two_52) = (_mm256_set1_epi64x(TWO_52_BITS as i64), _mm256_set1_pd(TWO_52));
        for (g, group) in out.chunks_exact_mut(GROUP).enumerate() {
            let start = bytes.as_ptr().add(g * width);
            for (h, (places, shifts)) in halves.iter().enumerate() {
                let pair = |k: usize| _mm_loadu_si128(start.add(first(2 * h + k)).cast());
                let x = _mm256_set_m128i(pair(1), pair(0));
                let x = _mm256_srlv_epi64(_mm256_shuffle_epi8(x, *places), *shifts);
                let x = _mm256_or_si256(_mm256_and_si256(x, mask), exponent);
                let x = _mm256_sub_pd(_mm256_castsi256_pd(x), two_52);
                _mm256_storeu_pd(group.as_mut_ptr().add(4 * h), x);
            }
        }
    }
}
