//! What the SIMD transforms need besides the data: the passes, and the roots in the order in which they are read.
//!
//! With L = log2(LANES), the last 2L of the log2(n) levels run on blocks of LANES x LANES values held in registers: L levels
//! across vectors, a transposition, L levels with one root per lane, a transposition back. The levels before are grouped
//! in passes of radix up to 16 or 8. Passes over blocks that fit in the first-level cache run block by block.

use super::powers_bit_reversed;
use crate::{AlignedVec, Modulus};

/// A pass of 2^radix rows over groups that are 1/groups of the limb each.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    pub log_radix: u32,
    pub log_groups: u32,
    /// Reduce the first half of the rows on the way in (forward only).
    pub reduce: bool,
}

/// Bounds on |x| / p between the forward passes: a pass without reduction must leave less than this.
const LAZY_LIMIT: f64 = 6.5;

/// One level without reduction takes a bound k to k + 1/2 + k/8 (see `field`).
fn after_levels(k: f64, levels: u32) -> f64 {
    (0..levels).fold(k, |k, _| k + 0.5 + k / 8.0)
}

/// The bound after a pass whose first half of the rows is reduced on the way in.
fn after_reduced_levels(k: f64, levels: u32) -> f64 {
    after_levels(0.51 + 0.5 + k / 8.0, levels - 1)
}

#[derive(Debug)]
pub struct Tables {
    pub log_n: u32,
    pub passes: Vec<Pass>,
    /// Does the part across vectors of the last step reduce on the way in?
    pub reduce_last: bool,
    /// How many passes run over the whole limb before the rest is done block by block.
    pub outer_passes: usize,
    pub forward: Roots,
    pub inverse: Roots,
    /// 1/n and psi^-brv(1)/n, as factors: the last level of the inverse.
    pub scale: [(f64, f64); 2],
}

/// Roots of one direction.
#[derive(Debug)]
pub struct Roots {
    /// (w, w/p) interleaved, for i < n / LANES.
    pub broadcast: AlignedVec,
    /// Per block of LANES^2 values, LANES - 1 vectors of w: level by level, then row by row.
    pub lanes: AlignedVec,
}

impl Roots {
    fn new(m: &Modulus, log_n: u32, base: u64, log_lanes: u32) -> Self {
        let powers = powers_bit_reversed(m, base, log_n);
        let mut broadcast = AlignedVec::zeroed(2 << (log_n - log_lanes));
        for (pair, &w) in broadcast.chunks_exact_mut(2).zip(&powers) {
            (pair[0], pair[1]) = m.factor(w);
        }
        Self {
            broadcast,
            lanes: lane_roots(m, &powers, log_n, log_lanes),
        }
    }
}

fn lane_roots(m: &Modulus, powers: &[u64], log_n: u32, log_lanes: u32) -> AlignedVec {
    let lanes = 1usize << log_lanes;
    let groups = 1usize << (log_n - log_lanes);
    let mut out = Vec::with_capacity(groups * (lanes - 1));
    for first in (0..groups).step_by(lanes) {
        for level in 0..log_lanes {
            for row in 0..1 << level {
                out.extend((first..first + lanes).map(|g| m.center(powers[((groups + g) << level) + row]) as f64));
            }
        }
    }
    AlignedVec::from_slice(&out)
}

/// `levels` split in passes of nearly equal radix, the larger first.
fn split(levels: u32, max_log_radix: u32) -> Vec<u32> {
    let count = levels.div_ceil(max_log_radix);
    (0..count).map(|i| (levels - i).div_ceil(count)).collect()
}

impl Tables {
    pub fn new(m: &Modulus, log_n: u32, psi: u64, log_lanes: u32) -> Self {
        let radices = split(log_n - 2 * log_lanes, if log_lanes == 3 { 4 } else { 3 });
        let (passes, reduce_last) = plan_passes(&radices, log_lanes);
        let block = |pass: &&Pass| log_n - pass.log_groups > LOG_BLOCK;
        let outer_passes = passes.iter().take_while(block).count();
        let inv_n = m.inv(1 << log_n);
        let last = m.mul(inv_n, m.pow(m.inv(psi), 1 << (log_n - 1)));
        Self {
            log_n,
            passes,
            reduce_last,
            outer_passes,
            forward: Roots::new(m, log_n, psi, log_lanes),
            inverse: Roots::new(m, log_n, m.inv(psi), log_lanes),
            scale: [m.factor(inv_n), m.factor(last)],
        }
    }
}

/// Blocks of 2^11 doubles (16 KiB) are worked on in the first-level cache.
const LOG_BLOCK: u32 = 11;

fn plan_passes(radices: &[u32], log_lanes: u32) -> (Vec<Pass>, bool) {
    let (mut bound, mut log_groups, mut passes) = (1.0, 0, Vec::new());
    for &log_radix in radices {
        let reduce = after_levels(bound, log_radix) > LAZY_LIMIT;
        bound = if reduce {
            after_reduced_levels(bound, log_radix)
        } else {
            after_levels(bound, log_radix)
        };
        assert!(bound <= LAZY_LIMIT);
        passes.push(Pass {
            log_radix,
            log_groups,
            reduce,
        });
        log_groups += log_radix;
    }
    let reduce_last = after_levels(bound, log_lanes) > LAZY_LIMIT;
    (passes, reduce_last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_evenly() {
        assert_eq!(split(10, 4), [4, 3, 3]);
        assert_eq!(split(12, 3), [3, 3, 3, 3]);
        assert_eq!(split(1, 4), [1]);
        assert_eq!(split(11, 4), [4, 4, 3]);
    }

    #[test]
    fn bounds_stay_in_the_exact_range_for_every_degree() {
        for log_lanes in [2, 3] {
            for log_n in 2 * log_lanes + 1..=17 {
                let (passes, reduce_last) = plan_passes(&split(log_n - 2 * log_lanes, 6 - log_lanes.min(2)), log_lanes);
                let mut k = 1.0;
                for pass in &passes {
                    k = if pass.reduce {
                        after_reduced_levels(k, pass.log_radix)
                    } else {
                        after_levels(k, pass.log_radix)
                    };
                    assert!(k < 8.0);
                }
                k = if reduce_last {
                    after_reduced_levels(k, log_lanes)
                } else {
                    after_levels(k, log_lanes)
                };
                assert!(k <= LAZY_LIMIT);
                assert!(last_bound(k, log_lanes) < 2.0, "log_n {log_n}");
            }
        }
    }

    /// The bound on the outputs of the lane levels: reduced on the way in and before the last level, roots w * (1/p).
    fn last_bound(k: f64, log_lanes: u32) -> f64 {
        let product = |k: f64| 0.5 + 3.0 * k / 16.0;
        let mut k = 0.51 + product(k);
        for _ in 0..log_lanes - 2 {
            k += product(k);
        }
        assert!(k < 8.0);
        0.51 + product(k)
    }
}
