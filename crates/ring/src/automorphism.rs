//! The maps X -> X^g for odd g, on values (a permutation) and on coefficients (a signed one).

use crate::ntt::bit_reverse;
use crate::simd::dispatch;
use crate::Modulus;

/// Values of a line: one cache line, one register of AVX-512.
const LINE: usize = 8;

/// What X -> X^g does to the values of a transformed limb, for every prime:
/// `NTT(a(X^g))[i] = NTT(a)[perm(i)]`.
///
/// Neighbours in bit-reversed order differ in the highest bits of their exponents, so an aligned block of any
/// power of two comes from an aligned block, and a line of eight from a line, in one of eight orders. A table
/// of lines is a 16th of a table of values, and a line is one load, one shuffle and one store.
#[derive(Clone, Debug)]
pub struct Permutation {
    /// By line: the line that it comes from, times eight, and the number of its order. Empty below eight
    /// values.
    lines: Vec<u32>,
    orders: [[u64; LINE]; LINE],
    /// The source of each value of a limb that is shorter than a line.
    short: Vec<u32>,
}

impl Permutation {
    /// `galois` is odd; taken mod 2n.
    pub fn new(log_n: u32, galois: u64) -> Self {
        assert!(
            galois % 2 == 1,
            "Permutation: the Galois element {galois} is even"
        );
        let n = 1usize << log_n;
        let mut found = Self {
            lines: Vec::new(),
            orders: [[0; LINE]; LINE],
            short: Vec::new(),
        };
        if n < LINE {
            found.short = (0..n).map(|i| source(log_n, galois, i) as u32).collect();
            return found;
        }
        found.lines = (0..n)
            .step_by(LINE)
            .map(|i| found.line(log_n, galois, i))
            .collect();
        found
    }

    /// The entry of the line that starts at i; notes its order, which the first of its sources tells.
    fn line(&mut self, log_n: u32, galois: u64, i: usize) -> u32 {
        let first = source(log_n, galois, i);
        for (j, place) in self.orders[first % LINE].iter_mut().enumerate() {
            *place = (source(log_n, galois, i + j) % LINE) as u64;
        }
        first as u32
    }

    /// out = the values of a in their new order. Panics unless both have the length of the limb.
    pub fn apply(&self, out: &mut [f64], a: &[f64]) {
        assert_eq!(out.len(), self.len(), "permute: a limb of another length");
        if self.lines.is_empty() {
            return (out.iter_mut().zip(&self.short)).for_each(|(x, &j)| *x = a[j as usize]);
        }
        reorder(out, a, 0, &self.lines, &self.orders);
    }

    /// The block of an aligned block of `len` values, a power of two from eight up, that it comes from.
    pub fn source(&self, start: usize, len: usize) -> usize {
        (self.lines[start / LINE] as usize) & !(len - 1)
    }

    /// out = the values of the block at `start`. a: those of the block at [`Permutation::source`].
    pub fn apply_block(&self, out: &mut [f64], start: usize, a: &[f64]) {
        assert_eq!(out.len(), a.len(), "permute: blocks of different lengths");
        let lines = &self.lines[start / LINE..][..out.len() / LINE];
        reorder(out, a, self.source(start, a.len()), lines, &self.orders);
    }

    /// Of a limb.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        (LINE * self.lines.len()).max(self.short.len())
    }
}

/// The index of the value that comes to index i.
fn source(log_n: u32, galois: u64, i: usize) -> usize {
    let mask = (2u64 << log_n) - 1;
    let exponent = (2 * bit_reverse(i, log_n) as u64 + 1).wrapping_mul(galois) & mask;
    bit_reverse((exponent >> 1) as usize, log_n)
}

dispatch! {
    /// Lines of `out` from lines of a, which starts at value `base` of the limb.
    fn reorder(out: &mut [f64], a: &[f64], base: usize, lines: &[u32], orders: &[[u64; 8]; 8]);
}

mod reference {
    use super::LINE;

    pub fn reorder(out: &mut [f64], a: &[f64], base: usize, lines: &[u32], orders: &[[u64; 8]; 8]) {
        for (out, &line) in out.chunks_exact_mut(LINE).zip(lines) {
            let (from, order) = (line as usize / LINE * LINE - base, &orders[line as usize % LINE]);
            let a = &a[from..from + LINE];
            (out.iter_mut().zip(order)).for_each(|(x, &j)| *x = a[j as usize % LINE]);
        }
    }
}

mod generic {
    use super::{reference, LINE};
    use crate::simd::Simd;

    #[inline(always)]
    pub fn reorder<S: Simd>(
        s: S,
        out: &mut [f64],
        a: &[f64],
        base: usize,
        lines: &[u32],
        orders: &[[u64; 8]; 8],
    ) {
        if S::LANES != LINE {
            return reference::reorder(out, a, base, lines, orders);
        }
        for (out, &line) in out.chunks_exact_mut(LINE).zip(lines) {
            let (from, order) = (line as usize / LINE * LINE - base, &orders[line as usize % LINE]);
            let a = &a[from..from + LINE];
            // SAFETY: both slices have LINE = LANES doubles.
            unsafe { s.store(out.as_mut_ptr(), s.pick(s.load(a.as_ptr()), order)) };
        }
    }
}

/// out = a(X^g) mod X^n + 1 on canonical coefficients: coefficient i goes to i g mod n, negated where i g mod
/// 2n >= n.
pub fn automorphism_coefficients(m: &Modulus, a: &[f64], galois: u64, out: &mut [f64]) {
    let n = a.len();
    assert!(galois % 2 == 1 && n.is_power_of_two() && out.len() == n);
    let (mask, mut target) = (2 * n - 1, 0usize);
    for &value in a {
        out[target & (n - 1)] = if target < n {
            value
        } else {
            m.neg(value as u64) as f64
        };
        target = (target + galois as usize) & mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::testing::same_on_all_paths;
    use crate::testing::{random_limb, sample_primes};
    use crate::{AlignedVec, NttTable};
    use proptest::prelude::*;

    fn permuted(a: &[f64], galois: u64) -> AlignedVec {
        let mut out = AlignedVec::zeroed(a.len());
        Permutation::new(a.len().ilog2(), galois).apply(&mut out, a);
        out
    }

    #[test]
    fn the_permutation_is_the_map_on_coefficients() {
        for log_n in [1, 2, 3, 5, 8, 12] {
            let m = sample_primes(18)[0];
            let (n, table) = (1usize << log_n, NttTable::new(m, log_n).unwrap());
            for galois in [1, 3, 5, 25, 2 * n as u64 - 1] {
                let a = random_limb(&m, n, 1);
                let (mut mapped, mut values) = (AlignedVec::zeroed(n), a.clone());
                automorphism_coefficients(&m, &a, galois, &mut mapped);
                table.forward(&mut mapped);
                table.forward(&mut values);
                let found = same_on_all_paths(|| permuted(&values, galois));
                assert_eq!(mapped, found, "log_n {log_n}, g {galois}");
            }
        }
    }

    #[test]
    fn blocks_come_from_blocks() {
        let a: Vec<f64> = (0..1 << 10).map(f64::from).collect();
        for galois in [3, 5, 125, 2047] {
            let (permutation, whole) = (Permutation::new(10, galois), permuted(&a, galois));
            for len in [8, 64, 1024] {
                for start in (0..a.len()).step_by(len) {
                    let from = permutation.source(start, len);
                    let mut out = vec![0.0; len];
                    permutation.apply_block(&mut out, start, &a[from..from + len]);
                    assert_eq!(out[..], whole[start..start + len], "{len} values at {start}");
                }
            }
        }
    }

    proptest! {
        /// X -> X^g then X -> X^h is X -> X^(gh).
        #[test]
        fn automorphisms_compose(g in 0u64..128, h in 0u64..128) {
            let (g, h) = (2 * g + 1, 2 * h + 1);
            let a: Vec<f64> = (0..64).map(f64::from).collect();
            prop_assert_eq!(permuted(&permuted(&a, h), g), permuted(&a, g * h));
        }
    }
}
