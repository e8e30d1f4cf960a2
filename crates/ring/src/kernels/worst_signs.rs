//! Lazy sums at the ends of their range: operands whose lazy products all err to the same side.

use super::*;
use crate::packed;
use crate::simd::testing::same_on_all_paths;
use crate::testing::{random_limb, sample_primes};
use crate::tiles::{self, Panels, Tiles, Weights, WIDTH};
use crate::{ntt_primes, AlignedVec};

const N: usize = 512;
const TERMS: [usize; 14] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 40, 64, 193];
/// Sums that a tile computes at once.
const TILE: usize = 5;

fn primes() -> Vec<Modulus> {
    let more = ntt_primes(49.3, 18, 1, &[]).unwrap();
    let more = more.into_iter().map(|p| Modulus::new(p).unwrap());
    sample_primes(18).into_iter().chain(more).collect()
}

/// a * b before it is folded, as the fields of `crate::field` compute it; `weight`: with b / p at hand.
fn lazy(m: &Modulus, a: f64, b: f64, weight: bool) -> f64 {
    let (p, inverse, h) = (m.p() as f64, 1.0 / m.p() as f64, a * b);
    let quotient = if weight { a * (b * inverse) } else { h * inverse };
    (-quotient.round_ties_even()).mul_add(p, h) + a.mul_add(b, -h)
}

/// The pairs (a, b) with the lowest and the highest lazy product of a million whose product is near p / 2.
fn extremes(m: &Modulus, weight: bool) -> [(u64, u64); 2] {
    let p = m.p();
    let (few, many) = (random_limb(m, 64, 1), random_limb(m, 1 << 14, 2));
    let with = |a: u64| {
        let inverse = m.inv(a);
        many.iter().map(move |&y| {
            let b = m.mul(p / 2 - p / 8 + y as u64 % (p / 4), inverse);
            let factor = if weight { m.center(b) as f64 } else { b as f64 };
            (lazy(m, a as f64, factor, weight) / p as f64, (a, b))
        })
    };
    let pairs = || few.iter().flat_map(|&x| with(p - 1 - x as u64 % (p / 8)));
    let low = pairs().min_by(|x, y| x.0.total_cmp(&y.0)).unwrap();
    let high = pairs().max_by(|x, y| x.0.total_cmp(&y.0)).unwrap();
    // Modulo a prime of 50 bits the error of the quotient takes them beyond p / 2.
    assert!(
        p < 1 << 49 || (low.0 < -0.55 && high.0 > 0.55),
        "{low:?} {high:?}"
    );
    [low.1, high.1]
}

fn full(value: u64) -> AlignedVec {
    AlignedVec::from_slice(&[value as f64; N])
}

/// `before` plus so many products.
fn exact(m: &Modulus, (a, b): (u64, u64), terms: usize, before: u64) -> f64 {
    m.add(before, m.mul(m.mul(a, b), terms as u64 % m.p())) as f64
}

fn inner_products(m: &Modulus, (a, b): (u64, u64), terms: usize) -> AlignedVec {
    let (a, b) = (full(a), full(b));
    let len = packed::packed_len(N, m.p());
    let mut bytes = vec![0xff; len + packed::SLACK];
    assert!(packed::pack(&b, m.p(), &mut bytes[..len]));
    let (ds, ks) = (vec![&a[..]; terms], vec![&b[..]; terms]);
    let rows: Vec<Row<'_>> = ds.iter().map(|_| Row::new(&bytes, N, m.p())).collect();
    same_on_all_paths(|| {
        let mut out = [(); 4].map(|()| full(m.p() - 1));
        let [x, y, u, v] = &mut out;
        inner_product2(m, x, y, &ds, &ks, &ks);
        inner_product2_packed(m, u, v, &ds, &rows, &rows);
        assert!(out.iter().all(|limb| limb == &out[0]));
        let [x, ..] = out;
        x
    })
}

/// Sums by weights in runs of `run` values; every fifth weight is one for each value.
fn sums_by_runs(m: &Modulus, (a, b): (u64, u64), terms: usize, run: usize) -> [AlignedVec; 2] {
    let (a, b) = (full(a), full(b));
    let weights = |t: usize| if t % 5 == 4 { &b[..] } else { &b[..N / run] };
    let terms: Vec<(&[f64], &[f64])> = (0..terms).map(|t| (&a[..], weights(t))).collect();
    same_on_all_paths(|| {
        let mut out = [full(m.p() - 1), full(0)];
        mac_runs(m, &mut out[0], &terms);
        sum_runs(m, &mut out[1], &terms);
        out
    })
}

fn tiled(m: &Modulus, (a, b): (u64, u64), terms: usize) -> Vec<AlignedVec> {
    let (a, b) = (full(a), full(b));
    let sums: Vec<(usize, usize)> = (0..terms).map(|i| (i, 0)).collect();
    let tiles = Tiles::new(&vec![sums; TILE]).unwrap();
    same_on_all_paths(|| {
        let mut panels = Panels::new(terms, N);
        (0..terms).for_each(|i| panels.set(i, &a));
        let mut weights = Weights::new(&tiles, N, WIDTH);
        tiles.pack(&mut weights, N, 0, &[&b[..N / WIDTH]]);
        let mut out = vec![full(m.p() - 1); TILE];
        let mut limbs: Vec<&mut [f64]> = out.iter_mut().map(|limb| &mut limb[..]).collect();
        tiles::sums(m, &tiles, (&weights, 0), &panels, &mut limbs, false);
        out
    })
}

#[test]
fn products_at_one_end_of_their_range_sum_exactly() {
    for m in primes() {
        for pair in [false, true].into_iter().flat_map(|weight| extremes(&m, weight)) {
            for terms in TERMS {
                let is = |limb: &AlignedVec, before| {
                    let wanted = exact(&m, pair, terms, before);
                    assert!(
                        limb.iter().all(|&x| x == wanted),
                        "{terms} terms {pair:?} mod {}",
                        m.p()
                    );
                };
                is(&inner_products(&m, pair, terms), 0);
                for run in [1, 8, 64, N] {
                    let [onto, alone] = sums_by_runs(&m, pair, terms, run);
                    is(&onto, m.p() - 1);
                    is(&alone, 0);
                }
                tiled(&m, pair, terms).iter().for_each(|limb| is(limb, m.p() - 1));
            }
        }
    }
}
