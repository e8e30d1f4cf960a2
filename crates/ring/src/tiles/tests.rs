//! Tiles of sums: the paths agree bit for bit, and with exact integers.
use super::*;
use crate::simd::testing::same_on_all_paths;
use crate::testing::{edge_limb, random_limb, sample_primes};

const N: usize = 1024;

type Terms = Vec<Vec<(usize, usize)>>;

fn largest_limb(m: &Modulus) -> AlignedVec {
    AlignedVec::from_slice(&vec![(m.p() - 1) as f64; N])
}

/// Limbs of eight inputs; their beginnings serve as weights.
fn limb_sets(m: &Modulus) -> Vec<Vec<AlignedVec>> {
    vec![
        (0..8).map(|i| random_limb(m, N, i)).collect(),
        (0..8).map(|_| edge_limb(m, N)).collect(),
        (0..8).map(|_| largest_limb(m)).collect(),
    ]
}

/// Weights of vector v: N >> (v % spread) / 16 of them.
fn weights_of(limbs: &[AlignedVec], v: usize, spread: usize) -> &[f64] {
    &limbs[(v + 3) % 8][..(N / WIDTH) >> (v % spread)]
}

/// The sums of inputs 0, 1, .. (limb b % 8 is input b), block by block.
fn blocks(m: &Modulus, terms: &Terms, limbs: &[AlignedVec], spread: usize, replace: bool) -> Vec<AlignedVec> {
    let tiles = Tiles::new(terms).unwrap();
    let (inputs, block, long) = (tiles.inputs() + 1, N / 4, N / 2);
    let mut out: Vec<AlignedVec> = terms.iter().map(|_| limbs[5].clone()).collect();
    let (mut panels, mut packed) = (Panels::new(inputs, block), Weights::new(&tiles, long, WIDTH));
    let count = terms.iter().flatten().map(|&(_, v)| v + 1).max().unwrap_or(0);
    let vectors: Vec<&[f64]> = (0..count).map(|v| weights_of(limbs, v, spread)).collect();
    for start in (0..N).step_by(block) {
        (0..inputs).for_each(|b| panels.set(b, &limbs[b % 8][start..start + block]));
        if start % long == 0 {
            tiles.pack(&mut packed, N, start, &vectors);
        }
        let mut out: Vec<&mut [f64]> = out.iter_mut().map(|x| &mut x[start..start + block]).collect();
        sums(m, &tiles, (&packed, start % long), &panels, &mut out, replace);
    }
    out
}

fn exact(m: &Modulus, terms: &[(usize, usize)], limbs: &[AlignedVec], spread: usize, i: usize) -> u64 {
    let term = |&(b, v): &(usize, usize)| {
        let w = weights_of(limbs, v, spread);
        m.mul(limbs[b % 8][i] as u64, w[i / (N / w.len())] as u64)
    };
    terms.iter().map(term).fold(0, |sum, x| m.add(sum, x))
}

fn assert_exact(m: &Modulus, terms: &Terms, limbs: &[AlignedVec], spread: usize) {
    for replace in [true, false] {
        let out = same_on_all_paths(|| blocks(m, terms, limbs, spread, replace));
        for (out, terms) in out.iter().zip(terms) {
            for (i, &x) in out.iter().enumerate() {
                let before = if replace { 0 } else { limbs[5][i] as u64 };
                let want = m.add(before, exact(m, terms, limbs, spread, i));
                assert!(
                    x.is_sign_positive() && x == want as f64,
                    "value {i} mod {}",
                    m.p()
                );
            }
        }
    }
}

/// Sums of all of so many inputs.
fn dense(sums: usize, inputs: usize) -> Terms {
    let terms = |g: usize| (0..inputs).map(|b| (b, g * inputs + b)).collect();
    (0..sums).map(terms).collect()
}

#[test]
fn sums_of_any_shape_are_exact() {
    for m in sample_primes(18) {
        for limbs in limb_sets(&m) {
            for (sums, inputs) in [(4, 1), (3, 8), (6, 9), (9, 17)] {
                assert_exact(&m, &dense(sums, inputs), &limbs, 1);
            }
        }
    }
}

#[test]
fn weights_of_several_periods_and_terms_that_are_not_there() {
    let mut terms = dense(6, 12);
    terms[1].retain(|(b, _)| b % 3 > 0);
    terms[2].truncate(5);
    terms[4].clear();
    for m in sample_primes(18) {
        let limbs = &limb_sets(&m)[0];
        assert_exact(&m, &terms, limbs, 5);
    }
}

#[test]
fn as_many_products_as_the_accumulators_take_and_more() {
    for m in sample_primes(18) {
        let limbs = vec![largest_limb(&m); 8];
        for inputs in [4096, 4097] {
            let (terms, last) = (dense(2, inputs), m.mul(inputs as u64, 1));
            let out = same_on_all_paths(|| blocks(&m, &terms, &limbs, 1, true));
            assert!(
                out.iter().all(|x| x.iter().all(|&x| x == last as f64)),
                "{inputs}"
            );
        }
    }
}

#[test]
fn no_tiles_of_what_is_mostly_absent_or_there_twice() {
    let alone = |g: usize| vec![(g, g)];
    assert!(Tiles::new(&(0..4).map(alone).collect::<Vec<_>>()).is_none());
    assert!(Tiles::new(&vec![vec![(0, 0), (0, 1)]; 4]).is_none());
    assert!(Tiles::new(&vec![vec![(0, 0), (1, 1)]; 4]).is_some());
}

#[test]
#[should_panic(expected = "1 outputs over 32")]
fn outputs_that_are_not_there() {
    let tiles = Tiles::new(&dense(4, 2)).unwrap();
    let m = sample_primes(18)[0];
    let (panels, weights) = (Panels::new(2, 32), Weights::new(&tiles, 32, WIDTH));
    sums(&m, &tiles, (&weights, 0), &panels, &mut [&mut [0.0; 32]], true);
}
