//! What the SIMD transforms need besides the data: the passes, and the roots in the order in which they are
//! read.
//!
//! With L = log2(LANES), the last L of the log2(n) levels run on blocks of LANES x LANES values that are
//! transposed in registers, with one root per lane. The two or three levels before join vectors of such a
//! block and run while the registers hold it. All others are grouped in passes of radix 4 (with AVX2 one of
//! radix 2 if their number is odd). Passes over blocks that fit in the first-level cache run block by block.

use super::powers_bit_reversed;
use crate::{AlignedVec, Modulus, MAX_MODULUS};

/// A pass of 2^log_radix rows over groups that are 2^-log_groups of the limb each.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    pub log_radix: u32,
    pub log_groups: u32,
    /// Reduce the first half of the rows on the way in (forward only).
    pub reduce: bool,
}

/// Where the forward transform reduces: only where the bound on |x| asks for it.
#[derive(Debug)]
struct Schedule {
    passes: Vec<Pass>,
    rows: Pass,
    reduce_lanes: bool,
    reduce_last: bool,
}

#[derive(Debug)]
pub struct Tables {
    pub log_n: u32,
    pub passes: Vec<Pass>,
    /// Of the vectors of a block, before its lanes.
    pub rows: Pass,
    /// Do the forward lane levels reduce half of the rows on the way in?
    pub reduce_lanes: bool,
    /// And before the very last level?
    pub reduce_last: bool,
    /// How many passes run over the whole limb before the rest is done block by block.
    pub outer_passes: usize,
    pub forward: Roots,
    pub inverse: Roots,
    /// 1/n and psi^-brv(1)/n: the last level of the inverse.
    scale: [u64; 2],
}

/// Roots of one direction.
#[derive(Debug)]
pub struct Roots {
    /// (w, w/p) interleaved, for i < n / LANES.
    pub broadcast: AlignedVec,
    /// Per block of LANES^2 values one vector of w: the first row of the last level. All other rows follow
    /// from it (see [`Roots::turns`]), which costs a tenth of a transform and saves six sevenths of the
    /// largest table: together the tables of a key switch do not fit into any cache.
    pub lanes: AlignedVec,
    /// i, e and e i as factors, for i^2 = -1 and e^2 = i. Of the roots in heap order, w[2h]^2 = w[h], w[2h +
    /// 1] = w[2h] i and w[4h + 2] = w[4h] e.
    pub turns: [(f64, f64); 3],
}

impl Roots {
    fn new(m: &Modulus, log_n: u32, base: u64, log_lanes: u32) -> Self {
        let powers = powers_bit_reversed(m, base, log_n);
        let [i, e] = [1, 2].map(|halvings| m.pow(base, 1 << (log_n - halvings)));
        let mut broadcast = AlignedVec::zeroed(2 << (log_n - log_lanes));
        for (pair, &w) in broadcast.chunks_exact_mut(2).zip(&powers) {
            (pair[0], pair[1]) = m.factor(w);
        }
        Self {
            broadcast,
            lanes: lane_roots(m, &powers, log_n, log_lanes),
            turns: [i, e, m.mul(e, i)].map(|w| m.factor(w)),
        }
    }
}

fn lane_roots(m: &Modulus, powers: &[u64], log_n: u32, log_lanes: u32) -> AlignedVec {
    let groups = 1usize << (log_n - log_lanes);
    let root = |g| m.center(powers[(groups + g) << (log_lanes - 1)]) as f64;
    AlignedVec::from_slice(&(0..groups).map(root).collect::<Vec<_>>())
}

/// Blocks of 2^11 doubles (16 KiB) are worked on in the first-level cache.
const LOG_BLOCK: u32 = 11;

impl Tables {
    /// Needs n > LANES^2.
    pub fn new(m: &Modulus, log_n: u32, psi: u64, log_lanes: u32) -> Self {
        let Schedule {
            passes,
            rows,
            reduce_lanes,
            reduce_last,
        } = Bounds::new(m).schedule(log_n - log_lanes, log_lanes);
        let outer_passes = passes
            .iter()
            .take_while(|pass| log_n - pass.log_groups > LOG_BLOCK)
            .count();
        let inv_n = m.inv(1 << log_n);
        let last = m.mul(inv_n, m.pow(m.inv(psi), 1 << (log_n - 1)));
        Self {
            log_n,
            passes,
            rows,
            reduce_lanes,
            reduce_last,
            outer_passes,
            forward: Roots::new(m, log_n, psi, log_lanes),
            inverse: Roots::new(m, log_n, m.inv(psi), log_lanes),
            scale: [inv_n, last],
        }
    }
}

impl Tables {
    /// The factors of the last level of the inverse that also multiplies by c.
    pub fn scale(&self, m: &Modulus, c: u64) -> [(f64, f64); 2] {
        self.scale.map(|w| m.factor(m.mul(w, c)))
    }

    /// The outer passes leave so many blocks, which have nothing to do with each other any more.
    pub fn log_blocks(&self) -> u32 {
        self.passes[..self.outer_passes]
            .iter()
            .map(|pass| pass.log_radix)
            .sum()
    }

    /// The levels, at most `levels`, after which a pass of the forward transform starts or the lane levels
    /// do.
    pub fn whole_passes(&self, levels: u32) -> u32 {
        let ends = self.passes.iter().map(|pass| pass.log_groups + pass.log_radix);
        ends.take_while(|&end| end <= levels).last().unwrap_or(0)
    }
}

/// Bounds k on |x| / p through the forward levels. Smaller primes have smaller quotient errors and more room
/// below 2^53.
struct Bounds {
    /// p / 2^50
    size: f64,
}

impl Bounds {
    /// A reduced row, with room for the roundings of 1/p.
    const REDUCED: f64 = 0.51;
    /// Everything stays below this times 2^50, an exact integer with some room.
    const EXACT: f64 = 7.9;
    /// `canonical` wants |x| < 2 * 2^50.
    const CANONICAL: f64 = 1.99;

    fn new(m: &Modulus) -> Self {
        Self {
            size: m.p() as f64 / MAX_MODULUS as f64,
        }
    }

    /// Of wv for |v| <= kp, in a pass or with the roots of the lanes, which are below 0.632 p and come with
    /// w * (1/p) (see `vector::lane_factors`).
    fn product(&self, k: f64, lanes: bool) -> f64 {
        0.5 + k * self.size * if lanes { 0.237 } else { 1.0 / 8.0 }
    }

    /// After `levels` levels from k, the first half of the rows reduced at first if so asked; None if not
    /// exact.
    fn after(&self, k: f64, levels: u32, reduce: bool, lanes: bool) -> Option<f64> {
        let start = if reduce { Self::REDUCED } else { k };
        let mut bound = start + self.product(k, lanes);
        for _ in 1..levels {
            bound += self.product(bound, lanes);
        }
        (bound * self.size < Self::EXACT).then_some(bound)
    }

    /// After the lane levels; None if out of the range of `canonical`.
    fn after_lanes(&self, k: f64, levels: u32, reduce_lanes: bool, reduce_last: bool) -> Option<f64> {
        let k = self.after(k, levels - 1, reduce_lanes, true)?;
        let bound = self.after(k, 1, reduce_last, true)?;
        (bound * self.size < Self::CANONICAL).then_some(bound)
    }

    /// A pass from bound k, and the bound after it: it reduces if it must, and leaves room for the products
    /// of the next one.
    fn pass(&self, k: f64, log_groups: u32, log_radix: u32) -> (Pass, f64) {
        let lazy = self
            .after(k, log_radix, false, false)
            .filter(|k| k * self.size < 6.5);
        let pass = Pass {
            log_radix,
            log_groups,
            reduce: lazy.is_none(),
        };
        let reduced = || self.after(k, log_radix, true, false);
        (pass, lazy.or_else(reduced).expect("a reduced pass is exact"))
    }

    /// Of `levels` levels before those of the lanes.
    fn schedule(&self, levels: u32, lane_levels: u32) -> Schedule {
        let (mut k, mut passes) = (1.0, Vec::new());
        let row_levels = if lane_levels > 2 { 2 + levels % 2 } else { 2 };
        let outside = levels - row_levels;
        for log_groups in (0..outside).step_by(2) {
            let (pass, after) = self.pass(k, log_groups, 2.min(outside - log_groups));
            passes.push(pass);
            k = after;
        }
        let (rows, k) = self.pass(k, outside, row_levels);
        let choices = [(false, false), (false, true), (true, true)];
        let fits = |&(lanes, last): &(bool, bool)| self.after_lanes(k, lane_levels, lanes, last).is_some();
        let (reduce_lanes, reduce_last) = choices
            .into_iter()
            .find(fits)
            .expect("reduced lane levels are canonical");
        Schedule {
            passes,
            rows,
            reduce_lanes,
            reduce_last,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_degree_and_size_has_a_schedule() {
        for size in [1.0, 0.9, 0.7, 0.5, 0.25, 0.01, 1e-9] {
            for lane_levels in [2, 3] {
                for log_n in 2 * lane_levels + 1..=17 {
                    let schedule = Bounds { size }.schedule(log_n - lane_levels, lane_levels);
                    let levels: u32 = schedule.passes.iter().map(|pass| pass.log_radix).sum();
                    assert_eq!(levels + schedule.rows.log_radix + lane_levels, log_n);
                    assert_eq!(schedule.rows.log_groups, levels);
                    assert!((2..=lane_levels).contains(&schedule.rows.log_radix));
                }
            }
        }
    }

    #[test]
    fn the_largest_primes_reduce_seldom_and_small_ones_never() {
        let reductions = |size| {
            let schedule = Bounds { size }.schedule(14, 2);
            let passes = schedule.passes.iter().chain(std::iter::once(&schedule.rows));
            passes.filter(|pass| pass.reduce).count()
        };
        assert_eq!(reductions(1.0), 2);
        assert_eq!(reductions(0.01), 0);
        assert!(!Bounds { size: 0.01 }.schedule(14, 2).reduce_last);
    }
}
