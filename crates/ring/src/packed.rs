//! Residues of one prime at its bit length: eight of them fill as many bytes as one has bits.
//!
//! No loop over bits: a residue is one unaligned 64-bit load or store, a shift of at most 7 and a mask (a
//! width of at most 50 bits plus 7 fits a word). The widths of real chains are compiled with their shifts as
//! constants. Kernels unpack by vectors what they read: see [`Row`].
/// Residues per group.
pub(crate) const GROUP: usize = 8;
/// Bytes of one load or store.
const WORD: usize = 8;
/// Room for one group at the largest width, plus the overhang of its last word.
const TAIL: usize = 64;
/// 2^52: adding it to an integer in [0, 2^52) leaves the integer in the low bits of the double.
const TWO_52: f64 = 4_503_599_627_370_496.0;
const TWO_52_BITS: u64 = TWO_52.to_bits();

/// Bit length of a prime.
pub fn width(p: u64) -> usize {
    (u64::BITS - p.leading_zeros()) as usize
}

/// Bytes of `n` residues modulo `p`; `n` is a multiple of 8.
pub fn packed_len(n: usize, p: u64) -> usize {
    n / GROUP * width(p)
}

/// Calls an inlined function with its first argument, the width, as a constant.
macro_rules! at_width {
    ($width:expr, $f:ident($($arg:expr),*)) => {
        match $width {
            44 => $f(44, $($arg),*),
            45 => $f(45, $($arg),*),
            46 => $f(46, $($arg),*),
            47 => $f(47, $($arg),*),
            48 => $f(48, $($arg),*),
            49 => $f(49, $($arg),*),
            50 => $f(50, $($arg),*),
            other => $f(other, $($arg),*),
        }
    };
}

/// Packs residues into `out` (of [`packed_len`] bytes); false when one is not an integer in [0, p).
#[must_use]
pub fn pack(values: &[f64], p: u64, out: &mut [u8]) -> bool {
    at_width!(width(p), pack_groups(values, p, out))
}

/// Unpacks `out.len()` residues from `bytes` (of [`packed_len`] bytes); false when one is not below p.
#[must_use]
pub fn unpack(bytes: &[u8], p: u64, out: &mut [f64]) -> bool {
    at_width!(width(p), unpack_groups(bytes, p, out))
}

/// Bytes behind the residues of a [`Row`] that can be read as well.
pub const SLACK: usize = 64;

/// Residues that [`unpack`] has found in order, or that [`pack`] made, as the kernels read them. Nothing but
/// nonsense comes of others.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    bytes: &'a [u8],
    len: usize,
}

impl<'a> Row<'a> {
    /// The first `len` (a multiple of 8) residues modulo `p`; behind them lie [`SLACK`] bytes at least.
    pub fn new(bytes: &'a [u8], len: usize, p: u64) -> Self {
        let bytes = &bytes[..packed_len(len, p) + SLACK];
        assert!(
            len.is_multiple_of(GROUP),
            "{len} residues are no groups of {GROUP}"
        );
        Self { bytes, len }
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Could they be of this width?
    pub(crate) fn holds(&self, width: usize) -> bool {
        self.bytes.len() >= self.len / GROUP * width + SLACK
    }

    pub(crate) fn as_ptr(&self) -> *const u8 {
        self.bytes.as_ptr()
    }

    /// All of them, as doubles modulo the same p.
    pub fn unpacked(&self, p: u64) -> Vec<f64> {
        let mut out = vec![0.0; self.len];
        let _canonical = unpack(&self.bytes[..packed_len(self.len, p)], p, &mut out);
        out
    }
}

#[inline(always)]
fn pack_groups(width: usize, values: &[f64], p: u64, out: &mut [u8]) -> bool {
    let mut canonical = true;
    for (g, group) in values.chunks_exact(GROUP).enumerate() {
        let at = g * width;
        if let Some(window) = out.get_mut(at..at + width + WORD) {
            canonical &= pack_group(width, group, p, window);
        } else {
            let mut tail = [0u8; TAIL];
            canonical &= pack_group(width, group, p, &mut tail[..width + WORD]);
            out[at..at + width].copy_from_slice(&tail[..width]);
        }
    }
    canonical
}

/// Stores overlap: each word carries the unfinished byte of the one before it. No branches: `excess` has its
/// top bit set by a residue of p or more (negative, infinite and NaN ones look so large), `inexact` is
/// nonzero when one is no integer.
#[inline(always)]
fn pack_group(width: usize, group: &[f64], p: u64, window: &mut [u8]) -> bool {
    let window = &mut window[..width + WORD];
    let (mut excess, mut inexact, mut carry) = (0u64, 0u64, 0u64);
    for (i, &x) in group[..GROUP].iter().enumerate() {
        let shifted = x + TWO_52;
        let residue = shifted.to_bits() ^ TWO_52_BITS;
        excess |= residue | (p - 1).wrapping_sub(residue);
        inexact |= (shifted - TWO_52 - x).to_bits();
        let (at, shift, next) = (i * width / 8, i * width % 8, (i + 1) * width / 8);
        let word = carry | (residue << shift);
        window[at..at + WORD].copy_from_slice(&word.to_le_bytes());
        carry = word >> (8 * (next - at));
    }
    excess >> 63 == 0 && inexact == 0
}

#[inline(always)]
fn unpack_groups(width: usize, bytes: &[u8], p: u64, out: &mut [f64]) -> bool {
    let mut excess = 0u64;
    for (g, group) in out.chunks_exact_mut(GROUP).enumerate() {
        let at = g * width;
        if let Some(window) = bytes.get(at..at + width + WORD) {
            excess |= unpack_group(width, window, p, group);
        } else {
            let mut tail = [0u8; TAIL];
            tail[..width].copy_from_slice(&bytes[at..at + width]);
            excess |= unpack_group(width, &tail[..width + WORD], p, group);
        }
    }
    excess >> 63 == 0
}

/// The top bit of the result is set when a residue is p or more.
#[inline(always)]
fn unpack_group(width: usize, window: &[u8], p: u64, group: &mut [f64]) -> u64 {
    let (window, mask) = (&window[..width + WORD], (1u64 << width) - 1);
    let mut excess = 0u64;
    for (i, x) in group[..GROUP].iter_mut().enumerate() {
        let (at, shift) = (i * width / 8, i * width % 8);
        let mut word = [0u8; WORD];
        word.copy_from_slice(&window[at..at + WORD]);
        let residue = (u64::from_le_bytes(word) >> shift) & mask;
        excess |= (p - 1).wrapping_sub(residue);
        *x = f64::from_bits(residue | TWO_52_BITS) - TWO_52;
    }
    excess
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One bit at a time: the meaning of the format.
    fn pack_by_bits(values: &[u64], width: usize) -> Vec<u8> {
        let mut out = vec![0u8; values.len() * width / 8];
        for (i, v) in values.iter().enumerate() {
            for b in 0..width {
                let at = i * width + b;
                out[at / 8] |= (((v >> b) & 1) as u8) << (at % 8);
            }
        }
        out
    }

    fn residues(p: u64, n: usize) -> Vec<u64> {
        let mut x = p ^ 0x9e37_79b9_7f4a_7c15;
        let mut step = || {
            x = x
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (x >> 13) % p
        };
        let mut v: Vec<u64> = (0..n).map(|_| step()).collect();
        (v[0], v[1], v[n - 1]) = (0, p - 1, p - 1);
        v
    }

    #[test]
    fn every_width_agrees_with_the_bit_by_bit_packing() {
        for width in 21..=50u32 {
            for p in [(1u64 << (width - 1)) + 1, (1u64 << width) - 1] {
                for n in [8, 16, 256] {
                    let values = residues(p, n);
                    let doubles: Vec<f64> = values.iter().map(|&v| v as f64).collect();
                    let mut bytes = vec![0xff; packed_len(n, p)];
                    assert!(pack(&doubles, p, &mut bytes));
                    assert_eq!(bytes, pack_by_bits(&values, width as usize), "{p} {n}");
                    let mut back = vec![f64::NAN; n];
                    assert!(unpack(&bytes, p, &mut back));
                    assert_eq!(back, doubles);
                    bytes.resize(bytes.len() + SLACK, 0xff);
                    assert_eq!(Row::new(&bytes, n, p).unpacked(p), doubles);
                }
            }
        }
    }

    #[test]
    fn residues_out_of_range_are_found_at_every_position() {
        let p = (1u64 << 46) - 65;
        for at in 0..16 {
            let mut values = vec![1u64; 16];
            values[at] = p;
            let mut out = vec![0.0; 16];
            assert!(!unpack(&pack_by_bits(&values, 46), p, &mut out));
            for bad in [
                p as f64,
                -1.0,
                0.5,
                f64::NAN,
                f64::INFINITY,
                1e300,
                -1e300,
                -1e-300,
                4.5e15,
            ] {
                let mut doubles = vec![1.0; 16];
                doubles[at] = bad;
                assert!(!pack(&doubles, p, &mut vec![0; packed_len(16, p)]), "{bad}");
            }
        }
    }
}
