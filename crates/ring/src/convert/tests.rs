use super::*;
use crate::simd::testing::same_on_all_paths;
use crate::testing::{edge_limb, random_limb};
use crate::{ntt_primes, AlignedVec};

fn moduli(bits: f64, count: usize, exclude: &[u64]) -> Vec<Modulus> {
    ntt_primes(bits, 18, count, exclude)
        .unwrap()
        .into_iter()
        .map(|p| Modulus::new(p).unwrap())
        .collect()
}

/// The definition with i128: two source primes, so that Q fits.
#[test]
fn two_primes_against_big_integers() {
    let (from, to) = (moduli(50.0, 2, &[]), moduli(44.0, 3, &[]));
    let (q0, q1) = (i128::from(from[0].p()), i128::from(from[1].p()));
    let converter = BaseConverter::new(&from, &to);
    for x in [
        0,
        1,
        -1,
        q0 * q1 / 2,
        -(q0 * q1 / 2),
        q0,
        -q1,
        123_456_789_012_345_678_901,
    ] {
        let mut limbs: Vec<Vec<f64>> = from.iter().map(|q| vec![q.from_i128(x) as f64; 8]).collect();
        for (i, limb) in limbs.iter_mut().enumerate() {
            converter.scale_inputs(i, limb);
        }
        let ys: Vec<&[f64]> = limbs.iter().map(|limb| &limb[..]).collect();
        let sum = limbs[0][0] as i128 * q1 + limbs[1][0] as i128 * q0;
        assert_eq!((sum - x).rem_euclid(q0 * q1), 0);
        assert!((sum - x).abs() <= q0 * q1, "overflow of more than k/2");
        for (j, p) in to.iter().enumerate() {
            let mut outs = [AlignedVec::zeroed(8)];
            converter.convert(&ys, &[j], &mut outs);
            assert_eq!(outs[0][0] as u64, p.from_i128(sum));
            let mut overflow = vec![0.0; 8];
            converter.overflow(&ys, &mut overflow);
            converter.convert_exact(&ys, &overflow, &[j], &mut outs);
            let e = overflow[0] as i128;
            assert_eq!(outs[0][0] as u64, p.from_i128(sum - e * q0 * q1));
            assert!((sum - e * q0 * q1).abs() <= q0 * q1 / 2 + ((q0 * q1) >> 40));
        }
    }
}

#[test]
fn paths_agree_for_any_number_of_terms() {
    for (k, n) in [
        (1, 32),
        (2, 1024),
        (3, 2048),
        (7, 64),
        (11, 64),
        (12, 64),
        (13, 600),
        (14, 64),
        (35, 1024),
        (4, 30),
    ] {
        let from = moduli(50.0, k, &[]);
        for to in [moduli(50.0, 2, &[]), moduli(44.0, 1, &[]), moduli(22.0, 1, &[])] {
            let converter = BaseConverter::new(&from, &to);
            for random in [true, false] {
                let limb = |i: usize| {
                    if random {
                        random_limb(&from[i], n, i as u8)
                    } else {
                        edge_limb(&from[i], n)
                    }
                };
                let scaled = same_on_all_paths(|| {
                    let mut limbs: Vec<AlignedVec> = (0..k).map(limb).collect();
                    limbs
                        .iter_mut()
                        .enumerate()
                        .for_each(|(i, limb)| converter.scale_inputs(i, limb));
                    limbs
                });
                for (limb, q) in scaled.iter().zip(&from) {
                    assert!(limb
                        .iter()
                        .all(|y| y.abs() < q.p() as f64 / 2.0 && y.to_bits() != (-0.0f64).to_bits()));
                }
                check_conversions(&converter, &scaled, &to, n);
            }
        }
    }
}

fn check_conversions(converter: &BaseConverter, scaled: &[AlignedVec], to: &[Modulus], n: usize) {
    let ys: Vec<&[f64]> = scaled.iter().map(|limb| &limb[..]).collect();
    let overflow = same_on_all_paths(|| {
        let mut out = AlignedVec::zeroed(n);
        converter.overflow(&ys, &mut out);
        out
    });
    assert!(overflow
        .iter()
        .all(|e| e.abs() <= (ys.len() as f64 / 2.0).round()));
    for (j, p) in to.iter().enumerate() {
        for exact in [false, true] {
            let out = same_on_all_paths(|| {
                let mut outs = [AlignedVec::zeroed(n)];
                if exact {
                    converter.convert_exact(&ys, &overflow, &[j], &mut outs);
                } else {
                    converter.convert(&ys, &[j], &mut outs);
                }
                let [out] = outs;
                out
            });
            assert!(out.iter().all(|&x| x.is_sign_positive() && x < p.p() as f64));
        }
    }
}

/// Several targets at once, and values that are no multiple of a part.
#[test]
fn all_targets_are_those_one_by_one() {
    let (from, to) = (moduli(50.0, 7, &[]), moduli(48.0, 7, &[]));
    let converter = BaseConverter::new(&from, &to);
    let mut limbs: Vec<AlignedVec> = from.iter().map(|q| random_limb(q, 1 << 10, 3)).collect();
    for (i, limb) in limbs.iter_mut().enumerate() {
        converter.scale_inputs(i, limb);
    }
    let ys: Vec<&[f64]> = limbs.iter().map(|limb| &limb[..]).collect();
    let (mut overflow, js) = (AlignedVec::zeroed(1 << 10), [2, 0, 6, 1, 3, 4, 5]);
    converter.overflow(&ys, &mut overflow);
    let mut outs = js.map(|_| AlignedVec::zeroed(1 << 10));
    let mut one = [AlignedVec::zeroed(1 << 10)];
    converter.convert(&ys, &js, &mut outs);
    for (&j, out) in js.iter().zip(&outs) {
        converter.convert(&ys, &[j], &mut one);
        assert_eq!(&one[0], out, "to prime {j}");
    }
    converter.convert_exact(&ys, &overflow, &js, &mut outs);
    for (&j, out) in js.iter().zip(&outs) {
        converter.convert_exact(&ys, &overflow, &[j], &mut one);
        assert_eq!(&one[0], out, "exactly to prime {j}");
    }
}

/// Values at both ends of their range with every pattern of signs: the sums that are farthest from zero.
#[test]
fn conversions_of_values_at_their_ends_are_exact() {
    const N: usize = 64;
    let to: Vec<Modulus> = [(50.0, 1), (44.0, 1), (22.0, 1)]
        .into_iter()
        .flat_map(|(bits, count)| moduli(bits, count, &[]))
        .collect();
    for k in 1..=12usize {
        let from = moduli(49.9, k, &[]);
        let converter = BaseConverter::new(&from, &to);
        for signs in 0..1 << k.min(6) {
            let limb = |(i, q): (usize, &Modulus)| {
                let (sign, end) = (1.0 - 2.0 * f64::from(signs >> (i % 6) & 1), (q.p() / 2) as f64);
                let values = [sign * end, sign * (end - 1.0), sign, -sign * (end / 3.0).round()];
                AlignedVec::from_slice(&values.repeat(N / values.len()))
            };
            let limbs: Vec<AlignedVec> = from.iter().enumerate().map(limb).collect();
            check_at_the_ends(&converter, (&from, &to), &limbs);
        }
    }
}

fn check_at_the_ends(converter: &BaseConverter, (from, to): (&[Modulus], &[Modulus]), limbs: &[AlignedVec]) {
    let ys: Vec<&[f64]> = limbs.iter().map(|limb| &limb[..]).collect();
    let mut overflow = AlignedVec::zeroed(ys[0].len());
    converter.overflow(&ys, &mut overflow);
    for (j, p) in to.iter().enumerate() {
        let [near, exact] = same_on_all_paths(|| {
            let mut outs = [(); 2].map(|()| AlignedVec::zeroed(ys[0].len()));
            converter.convert(&ys, &[j], &mut outs[..1]);
            converter.convert_exact(&ys, &overflow, &[j], &mut outs[1..]);
            outs
        });
        let product = |skip: usize| {
            let others = from.iter().enumerate().filter(|&(i, _)| i != skip);
            others.fold(1, |x, (_, q)| p.mul(x, q.p() % p.p()))
        };
        for (i, (near, exact)) in near.iter().zip(exact.iter()).enumerate().take(4) {
            let terms = ys.iter().enumerate();
            let sum = terms.fold(0, |s, (l, y)| {
                p.add(s, p.mul(p.from_i64(y[i] as i64), product(l)))
            });
            let whole = p.mul(p.from_i64(overflow[i] as i64), product(from.len()));
            assert_eq!((*near, *exact), (sum as f64, p.sub(sum, whole) as f64));
        }
    }
}
