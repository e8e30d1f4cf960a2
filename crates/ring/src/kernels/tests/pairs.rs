//! Sums of several rows against the same pairs.
use super::*;

/// Up to two whole groups of rows, and more terms than are added up lazily.
#[test]
fn inner_products_of_several_rows_with_the_same_pairs() {
    for m in sample_primes(18) {
        for (kind, replace) in (0..3).flat_map(|kind| [(kind, true), (kind, false)]) {
            for (count, terms, n) in [
                (1, 1, 8),
                (2, 9, 24),
                (3, 16, 16),
                (4, 7, 64),
                (6, 19, 40),
                (2, 0, 8),
            ] {
                let limbs = &input_sets(&m, n)[kind];
                let limb = |i: usize| &limbs[i % limbs.len()];
                let rows: Vec<&[f64]> = (0..count * terms).map(|i| &limb(i)[..]).collect();
                let mut pairs = Vec::new();
                for i in (0..n).step_by(PAIR) {
                    for t in 0..terms {
                        pairs.extend_from_slice(&limb(t + 3)[i..i + PAIR]);
                        pairs.extend_from_slice(&limb(3 * t + 1)[i..i + PAIR]);
                    }
                }
                for (r, half) in (0..count).flat_map(|r| [(r, 0), (r, 1)]) {
                    let out = agree(&m, limb(5), |x| {
                        let mut all: Vec<_> =
                            (0..count).map(|_| [limb(5).clone(), limb(5).clone()]).collect();
                        let mut outs: Vec<_> =
                            all.iter_mut().map(|o| o.each_mut().map(|o| &mut o[..])).collect();
                        inner_products2(&m, &mut outs, &rows, &pairs, replace);
                        x.copy_from_slice(&all[r][half]);
                    });
                    is(&m, &out, |i| {
                        let other = |t: usize| limb(if half == 0 { t + 3 } else { 3 * t + 1 })[i] as i128;
                        let sum: i128 = (0..terms)
                            .map(|t| rows[r * terms + t][i] as i128 * other(t))
                            .sum();
                        sum + if replace { 0 } else { limb(5)[i] as i128 }
                    });
                }
            }
        }
    }
}
