//! Fast base conversion between RNS bases: from residues mod Q = q_1 .. q_k to residues mod p_j, without big
//! integers.
//!
//! Definition (exact, the same on every path): with y_i = x_i (Q/q_i)^-1 mod q_i in (-q_i/2, q_i/2),
//! out_j = sum_i y_i (Q/q_i) mod p_j. The integer sum_i y_i (Q/q_i) is congruent to x mod Q and below kQ/2 in
//! absolute value, so it is the centred x plus e Q with |e| <= k/2: the overflow that hybrid key switching
//! and rescaling tolerate.

use crate::simd::dispatch;
use crate::Modulus;
use std::ops::DerefMut;

/// Constants for converting from one base to another.
#[derive(Clone, Debug)]
pub struct BaseConverter {
    from: Vec<Modulus>,
    to: Vec<Modulus>,
    /// (Q/q_i)^-1 mod q_i
    scales: Vec<u64>,
    /// By target.
    targets: Vec<Target>,
}

/// What a conversion to one prime multiplies by: (Q/q_i) mod p_j for each i, then -Q mod p_j.
#[derive(Clone, Debug)]
struct Target {
    factors: Vec<(f64, f64)>,
    integers: Vec<u64>,
}

/// The weights of the terms of a sum.
struct Weights<'a> {
    factors: &'a [(f64, f64)],
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code))]
    integers: &'a [u64],
}

impl Target {
    fn new(p: &Modulus, integers: Vec<u64>) -> Self {
        Self {
            factors: integers.iter().map(|&w| p.factor(w)).collect(),
            integers,
        }
    }

    /// For so many terms: all sources, or the overflow too.
    fn weights(&self, terms: usize) -> Weights<'_> {
        Weights {
            factors: &self.factors[..terms],
            integers: &self.integers[..terms],
        }
    }
}

/// Adding and subtracting this rounds a double below 2^51 to the nearest integer, ties to even, on every path
/// alike.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// Values of the sources that stay in the first-level cache while several targets read them.
const SHARED: usize = 512;

#[cfg(target_arch = "x86_64")]
mod ifma;

fn product_without(from: &[Modulus], i: usize, m: &Modulus) -> u64 {
    let others = from.iter().enumerate().filter(|&(l, _)| l != i);
    others.fold(1, |product, (_, q)| m.mul(product, q.p()))
}

impl BaseConverter {
    /// The primes of `from` are distinct; `to` may repeat or share primes with it.
    pub fn new(from: &[Modulus], to: &[Modulus]) -> Self {
        let k = from.len();
        let scales = (0..k)
            .map(|i| from[i].inv(product_without(from, i, &from[i])))
            .collect();
        let minus_q = |p: &Modulus| p.neg(product_without(from, k, p));
        let target = |p: &Modulus| {
            let weights = (0..k).map(|i| product_without(from, i, p));
            Target::new(p, weights.chain(std::iter::once(minus_q(p))).collect())
        };
        Self {
            from: from.to_vec(),
            to: to.to_vec(),
            scales,
            targets: to.iter().map(target).collect(),
        }
    }

    /// What limb i is multiplied by before it is converted, (Q/q_i)^-1 mod q_i; see
    /// [`crate::NttTable::inverse_centred`].
    pub fn input_scale(&self, i: usize) -> u64 {
        self.scales[i]
    }

    /// In place: canonical x_i to the centred y_i, as [`BaseConverter::convert`] wants them.
    pub fn scale_inputs(&self, i: usize, limb: &mut [f64]) {
        scale_and_center(&self.from[i], limb, self.scales[i]);
    }

    /// `outs[t]` = sum_i `ys[i]` (Q/q_i) mod `to[js[t]]`, canonical; `ys` are all limbs of the source base,
    /// scaled and centred. Every source is read once for all targets.
    pub fn convert(&self, ys: &[&[f64]], js: &[usize], outs: &mut [impl DerefMut<Target = [f64]>]) {
        assert_eq!(ys.len(), self.from.len(), "convert: one limb per source prime");
        self.sums(ys, js, outs);
    }

    /// As [`BaseConverter::convert`], less `overflow` times Q: the residues of the centred x itself.
    pub fn convert_exact(
        &self,
        ys: &[&[f64]],
        overflow: &[f64],
        js: &[usize],
        outs: &mut [impl DerefMut<Target = [f64]>],
    ) {
        assert_eq!(
            ys.len(),
            self.from.len(),
            "convert_exact: one limb per source prime"
        );
        let all: Vec<&[f64]> = ys.iter().copied().chain(std::iter::once(overflow)).collect();
        self.sums(&all, js, outs);
    }

    fn sums(&self, ys: &[&[f64]], js: &[usize], outs: &mut [impl DerefMut<Target = [f64]>]) {
        #[cfg(target_arch = "x86_64")]
        if crate::simd::path() == crate::simd::Path::Ifma && self.sums_ifma(ys, js, outs) {
            return;
        }
        let n = ys.first().map_or(0, |y| y.len());
        let mut part: Vec<&[f64]> = Vec::with_capacity(ys.len());
        for start in (0..n).step_by(SHARED) {
            let end = n.min(start + SHARED);
            part.clear();
            part.extend(ys.iter().map(|y| &y[start..end]));
            for (&j, out) in js.iter().zip(outs.iter_mut()) {
                let weights = self.targets[j].weights(ys.len());
                factor_sum(&self.to[j], &mut out[start..end], &part, weights.factors);
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn sums_ifma(&self, ys: &[&[f64]], js: &[usize], outs: &mut [impl DerefMut<Target = [f64]>]) -> bool {
        let sum = |(&j, out): (&usize, _)| ifma::Sum {
            m: &self.to[j],
            weights: self.targets[j].weights(ys.len()),
            out,
        };
        let mut sums: Vec<_> = js
            .iter()
            .zip(outs.iter_mut().map(|out| &mut out[..]))
            .map(sum)
            .collect();
        ifma::weighted_sums(ys, &mut sums)
    }

    /// The overflow e of the conversion, coefficient by coefficient: out = round(sum_i `ys[i]` / q_i), |e| <=
    /// k/2. Exact but for values within 2^-40 of a tie, where either neighbour is a valid result.
    pub fn overflow(&self, ys: &[&[f64]], out: &mut [f64]) {
        assert_eq!(ys.len(), self.from.len(), "overflow: one limb per source prime");
        let inverses: Vec<f64> = self.from.iter().map(|q| 1.0 / q.p() as f64).collect();
        rounded_sum(out, ys, &inverses);
    }
}

dispatch! {
    /// x = c * x, centred.
    fn scale_and_center(m: &Modulus, x: &mut [f64], c: u64);
    /// out = sum of `ys[i]` * `factors[i]` for centred ys of other moduli (|y| < 2^49), canonical.
    fn factor_sum(m: &Modulus, out: &mut [f64], ys: &[&[f64]], factors: &[(f64, f64)]);
    /// out = round(sum of `ys[i]` * `inverses[i]`), in doubles, in order, each product and each sum rounded.
    fn rounded_sum(out: &mut [f64], ys: &[&[f64]], inverses: &[f64]);
}

mod reference {
    use crate::Modulus;

    pub fn scale_and_center(m: &Modulus, x: &mut [f64], c: u64) {
        for x in x {
            *x = m.center(m.mul(*x as u64, c)) as f64;
        }
    }

    pub fn rounded_sum(out: &mut [f64], ys: &[&[f64]], inverses: &[f64]) {
        for (i, out) in out.iter_mut().enumerate() {
            let sum: f64 = ys
                .iter()
                .zip(inverses)
                .fold(0.0, |sum, (y, inverse)| sum + y[i] * inverse);
            *out = (sum + super::ROUND) - super::ROUND;
        }
    }

    pub fn factor_sum(m: &Modulus, out: &mut [f64], ys: &[&[f64]], factors: &[(f64, f64)]) {
        let factors: Vec<u64> = factors.iter().map(|f| m.from_i64(f.0 as i64)).collect();
        for (i, out) in out.iter_mut().enumerate() {
            let terms = ys
                .iter()
                .zip(&factors)
                .map(|(y, &w)| m.mul(m.from_i64(y[i] as i64), w));
            *out = terms.fold(0, |sum, term| m.add(sum, term)) as f64;
        }
    }
}

mod generic {
    use super::reference;
    use crate::field::Field;
    use crate::simd::Simd;
    use crate::Modulus;

    #[inline(always)]
    pub fn scale_and_center<S: Simd>(s: S, m: &Modulus, x: &mut [f64], c: u64) {
        if !x.len().is_multiple_of(S::LANES) {
            return reference::scale_and_center(m, x, c);
        }
        let (f, c) = (Field::new(s, m), m.factor(c));
        let c = f.splat_factor(c);
        for x in x.chunks_exact_mut(S::LANES) {
            // SAFETY: the chunk has LANES doubles.
            unsafe { s.store(x.as_mut_ptr(), f.reduce(f.mul_by(s.load(x.as_ptr()), c))) };
        }
    }

    /// Doubles of the output that stay in the first-level cache while the terms pass.
    const BLOCK: usize = 512;
    /// Terms per sweep over the block: few streams, for caches of low associativity.
    const SWEEP: usize = 3;
    /// A term is below 9p/16 (|y| < 2^49), a reduced sum below p/2 + 8: three sweeps and it stay below 8p.
    const LAZY_SWEEPS: usize = 4;

    #[inline(always)]
    pub fn factor_sum<S: Simd>(s: S, m: &Modulus, out: &mut [f64], ys: &[&[f64]], factors: &[(f64, f64)]) {
        let n = out.len();
        assert!(ys.len() == factors.len() && ys.iter().all(|y| y.len() == n));
        if !n.is_multiple_of(S::LANES) {
            return reference::factor_sum(m, out, ys, factors);
        }
        let f = Field::new(s, m);
        for (block, out) in out.chunks_mut(BLOCK).enumerate() {
            out.fill(0.0);
            for (sweep, (ys, factors)) in ys.chunks(SWEEP).zip(factors.chunks(SWEEP)).enumerate() {
                let reduce = sweep % LAZY_SWEEPS == LAZY_SWEEPS - 1;
                match ys.len() {
                    1 => add_terms::<S, 1>(f, out, ys, factors, block * BLOCK, reduce),
                    2 => add_terms::<S, 2>(f, out, ys, factors, block * BLOCK, reduce),
                    _ => add_terms::<S, SWEEP>(f, out, ys, factors, block * BLOCK, reduce),
                }
            }
            for out in out.chunks_exact_mut(S::LANES) {
                // SAFETY: the chunk has LANES doubles.
                unsafe { s.store(out.as_mut_ptr(), f.canonical_wide(s.load(out.as_ptr()))) };
            }
        }
    }

    #[inline(always)]
    pub fn rounded_sum<S: Simd>(s: S, out: &mut [f64], ys: &[&[f64]], inverses: &[f64]) {
        assert!(ys.len() == inverses.len() && ys.iter().all(|y| y.len() == out.len()));
        if !out.len().is_multiple_of(S::LANES) {
            return reference::rounded_sum(out, ys, inverses);
        }
        let round = s.splat(super::ROUND);
        for (block, out) in out.chunks_mut(BLOCK).enumerate() {
            out.fill(0.0);
            for (y, &inverse) in ys.iter().zip(inverses) {
                let (y, inverse) = (&y[block * BLOCK..][..out.len()], s.splat(inverse));
                for (out, y) in out.chunks_exact_mut(S::LANES).zip(y.chunks_exact(S::LANES)) {
                    // SAFETY: both chunks have LANES doubles.
                    unsafe {
                        let product = s.mul(s.load(y.as_ptr()), inverse);
                        s.store(out.as_mut_ptr(), s.add(s.load(out.as_ptr()), product));
                    }
                }
            }
            for out in out.chunks_exact_mut(S::LANES) {
                // SAFETY: the chunk has LANES doubles.
                unsafe { s.store(out.as_mut_ptr(), s.sub(s.add(s.load(out.as_ptr()), round), round)) };
            }
        }
    }

    /// out += the terms, without reduction.
    #[inline(always)]
    fn add_terms<S: Simd, const T: usize>(
        f: Field<S>,
        out: &mut [f64],
        ys: &[&[f64]],
        factors: &[(f64, f64)],
        offset: usize,
        reduce: bool,
    ) {
        let mut w = [(f.p, f.p); T];
        let mut at = [out.as_ptr(); T];
        for t in 0..T {
            w[t] = f.splat_factor(factors[t]);
            at[t] = ys[t][offset..offset + out.len()].as_ptr();
        }
        for i in (0..out.len()).step_by(S::LANES) {
            // SAFETY: i + LANES <= out.len(), the length of out and of every slice of ys that `at` points to.
            unsafe {
                let mut sum = f.s.load(out.as_ptr().add(i));
                for t in 0..T {
                    sum = f.s.add(sum, f.mul_by(f.s.load(at[t].add(i)), w[t]));
                }
                if reduce {
                    sum = f.reduce(sum);
                }
                f.s.store(out.as_mut_ptr().add(i), sum);
            }
        }
    }
}

#[cfg(test)]
mod tests;
