//! Division by some of the primes with rounding: by the special ones, by the top ciphertext prime, by both.
use crate::{Parameters, RnsPoly};
use rayon::prelude::*;
use tacita_ring::{kernels, AlignedVec, BaseConverter};

/// Divides by the special primes with rounding: QP -> Q.
///
/// Cost: np inverse and L forward NTTs. Error: at most half a unit plus conversion error.
pub fn mod_down(params: &Parameters, x: RnsPoly) -> RnsPoly {
    divide(&Division::by_special(params, x.q_len, x.p_len()), x)
}

/// Divides by the special primes and the top ciphertext limb at once: QP -> Q / q_top.
///
/// Cost: np + 1 inverse and L - 1 forward NTTs; saves L NTTs against mod-down followed by rescale.
pub fn mod_down_rescale(params: &Parameters, x: RnsPoly) -> RnsPoly {
    divide(&Division::by_special_and_top(params, x.q_len, x.p_len()), x)
}

/// Divides a polynomial over Q by its top limb with rounding.
///
/// Cost: 1 inverse and L - 1 forward NTTs.
pub fn rescale(params: &Parameters, mut x: RnsPoly) -> RnsPoly {
    let top = x.q_len - 1;
    let mut last = x.limbs.swap_remove(top);
    let (table, from) = (params.table(top), *params.modulus(top));
    table.inverse(&mut last);
    let limbs = (0..top)
        .into_par_iter()
        .map(|i| {
            let m = params.modulus(i);
            let mut lifted = AlignedVec::scratch(params.n());
            kernels::switch_modulus(&from, m, &mut lifted, &last);
            subtract_and_scale(params, i, &x.limbs[i], lifted, m.inv(from.p() % m.p()))
        })
        .collect();
    RnsPoly { limbs, q_len: top }
}

/// (x - NTT(lifted)) * c modulo ciphertext prime `i`.
fn subtract_and_scale(
    params: &Parameters,
    i: usize,
    x: &[f64],
    mut lifted: AlignedVec,
    c: u64,
) -> AlignedVec {
    params.table(i).forward(&mut lifted);
    let mut out = AlignedVec::scratch(params.n());
    kernels::sub_mul_scalar(params.modulus(i), &mut out, x, &lifted, c);
    out
}

fn divide(division: &Division, x: RnsPoly) -> RnsPoly {
    let ys: Vec<AlignedVec> = (0..division.from.len())
        .into_par_iter()
        .map(|k| division.source_of(k, &x.limbs[division.at(k)]))
        .collect();
    let lift = division.lift(&ys);
    let limbs = targets(division.keep)
        .into_par_iter()
        .flat_map_iter(|at| lift.limbs(&at, &x.limbs[at[0]..=at[at.len() - 1]]))
        .collect();
    RnsPoly {
        limbs,
        q_len: division.keep,
    }
}

/// Limbs that are converted together, at most: the sources are read once for all of them.
const TOGETHER: usize = 4;

/// The numbers below `count`, in groups that are converted together: as many for each thread, of sizes that
/// differ by one at most.
pub(super) fn targets(count: usize) -> Vec<Vec<usize>> {
    groups(count, rayon::current_num_threads())
}

fn groups(count: usize, threads: usize) -> Vec<Vec<usize>> {
    let groups = count.div_ceil(TOGETHER).next_multiple_of(threads).min(count);
    let start = |g: usize| g * count / groups.max(1);
    (0..groups).map(|g| (start(g)..start(g + 1)).collect()).collect()
}

/// By which primes, and what is kept.
pub(super) struct Division<'a> {
    params: &'a Parameters,
    converter: &'a BaseConverter,
    /// Global indices of the primes.
    pub(super) from: Vec<usize>,
    /// Ciphertext limbs before.
    q_len: usize,
    /// Ciphertext limbs after.
    pub(super) keep: usize,
}

impl<'a> Division<'a> {
    /// By the first `np` special primes.
    pub(super) fn by_special(params: &'a Parameters, q_len: usize, np: usize) -> Self {
        Self {
            params,
            converter: params.mod_down(np),
            from: (0..np).map(|k| params.p_index(k)).collect(),
            q_len,
            keep: q_len,
        }
    }

    /// By these and the top ciphertext prime.
    pub(super) fn by_special_and_top(params: &'a Parameters, q_len: usize, np: usize) -> Self {
        let top = q_len - 1;
        let special = (0..np).map(|k| params.p_index(k));
        Self {
            params,
            converter: params.mod_down_rescale(np, top),
            from: special.chain(std::iter::once(top)).collect(),
            q_len,
            keep: top,
        }
    }

    /// Of the divisor modulo ciphertext prime `i`.
    pub(super) fn inverse(&self, i: usize) -> u64 {
        let m = self.params.modulus(i);
        let primes = self.from.iter().map(|&f| self.params.modulus(f).p() % m.p());
        m.inv(primes.fold(1, |acc, p| m.mul(acc, p)))
    }

    /// Where the limb of the k-th prime lies in a polynomial over QP.
    pub(super) fn at(&self, k: usize) -> usize {
        let (index, q) = (self.from[k], self.params.q_len());
        if index < q {
            index
        } else {
            self.q_len + index - q
        }
    }

    /// The limb of the k-th prime (NTT form) as the conversion takes it.
    pub(super) fn source(&self, k: usize, mut y: AlignedVec) -> AlignedVec {
        let scale = self.converter.input_scale(k);
        self.params.table(self.from[k]).inverse_centred(&mut y, scale);
        y
    }

    /// The same, of a limb that is kept.
    fn source_of(&self, k: usize, x: &[f64]) -> AlignedVec {
        let (mut y, scale) = (AlignedVec::scratch(x.len()), self.converter.input_scale(k));
        let table = self.params.table(self.from[k]);
        table.inverse_centred_into(&mut y, x, scale);
        y
    }

    /// What is subtracted from every limb before the division. ys: all sources.
    pub(super) fn lift<'y>(&'y self, ys: &'y [AlignedVec]) -> Lift<'y> {
        let sources: Vec<&[f64]> = ys.iter().map(|y| &y[..]).collect();
        let mut overflow = AlignedVec::scratch(self.params.n());
        self.converter.overflow(&sources, &mut overflow);
        Lift {
            division: self,
            sources,
            overflow,
        }
    }
}

/// The remainder of a division: its sources and their overflow.
pub(super) struct Lift<'y> {
    division: &'y Division<'y>,
    sources: Vec<&'y [f64]>,
    overflow: AlignedVec,
}

impl Lift<'_> {
    /// Limbs `at` of what is subtracted, in coefficient form.
    pub(super) fn lifted(&self, at: &[usize]) -> Vec<AlignedVec> {
        let n = self.division.params.n();
        let mut lifted: Vec<AlignedVec> = at.iter().map(|_| AlignedVec::scratch(n)).collect();
        let converter = self.division.converter;
        converter.convert_exact(&self.sources, &self.overflow, at, &mut lifted);
        lifted
    }

    /// Limbs `at` of the quotient. xs: those of the dividend.
    fn limbs(&self, at: &[usize], xs: &[AlignedVec]) -> Vec<AlignedVec> {
        let (params, lifted) = (self.division.params, self.lifted(at));
        let quotient = |((&i, x), lifted): ((&usize, &AlignedVec), AlignedVec)| {
            subtract_and_scale(params, i, x, lifted, self.division.inverse(i))
        };
        at.iter().zip(xs).zip(lifted).map(quotient).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_small_and_even() {
        for threads in [1, 2, 3, 16] {
            for count in 0..40 {
                let found = groups(count, threads);
                assert_eq!(found.concat(), (0..count).collect::<Vec<_>>());
                let sizes: Vec<usize> = found.iter().map(Vec::len).collect();
                let (least, most) = (sizes.iter().min(), sizes.iter().max());
                assert!(most <= Some(&TOGETHER) && least >= most.map(|m| m - 1).as_ref());
                assert!(found.len() == count || found.len().is_multiple_of(threads));
            }
        }
    }
}
