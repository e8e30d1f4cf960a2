//! Every kernel: the paths agree bit for bit, on random limbs and on limbs of extreme values, and the
//! reference is right.

mod pairs;

use super::*;
use crate::packed;
use crate::simd::{path, testing::on_path, testing::same_on_all_paths, Path};
use crate::testing::{edge_limb, random_limb, sample_primes};
use crate::AlignedVec;
use proptest::prelude::*;

/// Lengths: whole vectors, and ones that no vector divides.
const LENGTHS: [usize; 4] = [4, 30, 64, 4096];

type Inputs = Vec<AlignedVec>;

/// Eight limbs of each kind: random, edges in several phases, all p - 1.
fn input_sets(m: &Modulus, n: usize) -> Vec<Inputs> {
    let rotated = |i: usize| {
        let mut limb = edge_limb(m, n);
        limb.rotate_left(i * 3 % n);
        limb
    };
    let largest = AlignedVec::from_slice(&vec![(m.p() - 1) as f64; n]);
    vec![
        (0..8).map(|i| random_limb(m, n, i)).collect(),
        (0..8).map(rotated).collect(),
        vec![largest; 8],
    ]
}

fn for_all_inputs(f: impl Fn(&Modulus, &Inputs)) {
    for m in sample_primes(18) {
        for n in LENGTHS {
            input_sets(&m, n).iter().for_each(|inputs| f(&m, inputs));
        }
    }
}

/// Runs `f` on a copy of x on all paths; checks that the result is canonical.
fn agree(m: &Modulus, x: &AlignedVec, f: impl Fn(&mut [f64])) -> AlignedVec {
    let out = same_on_all_paths(|| {
        let mut x = x.clone();
        f(&mut x);
        x
    });
    let canonical = |&v: &f64| v.is_sign_positive() && v < m.p() as f64 && v.fract() == 0.0;
    assert!(out.iter().all(canonical), "not canonical mod {}", m.p());
    out
}

/// Checks `out` against the exact integer expression.
fn is(m: &Modulus, out: &[f64], exact: impl Fn(usize) -> i128) {
    for (i, &value) in out.iter().enumerate() {
        assert_eq!(value as u64, m.from_i128(exact(i)), "index {i} mod {}", m.p());
    }
}

#[test]
fn sums_and_differences() {
    for_all_inputs(|m, v| {
        let (x, a, at) = (&v[0], &v[1], |l: usize, i: usize| v[l][i] as i128);
        is(m, &agree(m, x, |x| add(m, x, &v[1], &v[2])), |i| {
            at(1, i) + at(2, i)
        });
        is(m, &agree(m, x, |x| sub(m, x, &v[1], &v[2])), |i| {
            at(1, i) - at(2, i)
        });
        is(m, &agree(m, x, |x| add_assign(m, x, a)), |i| at(0, i) + at(1, i));
        is(m, &agree(m, x, |x| sub_assign(m, x, a)), |i| at(0, i) - at(1, i));
        is(m, &agree(m, x, |x| neg_assign(m, x)), |i| -at(0, i));
    });
}

#[test]
fn butterflies() {
    for_all_inputs(|m, v| {
        let at = |l: usize, i: usize| v[l][i] as i128;
        let sum = agree(m, &v[0], |x| butterfly(m, x, &mut v[1].clone(), &v[2]));
        is(m, &sum, |i| at(0, i) + at(1, i) * at(2, i));
        let difference = agree(m, &v[1], |y| butterfly(m, &mut v[0].clone(), y, &v[2]));
        is(m, &difference, |i| at(0, i) - at(1, i) * at(2, i));
    });
}

#[test]
fn products() {
    for_all_inputs(|m, v| {
        let (x, a, at) = (&v[0], &v[1], |l: usize, i: usize| v[l][i] as i128);
        is(m, &agree(m, x, |x| mul(m, x, &v[1], &v[2])), |i| {
            at(1, i) * at(2, i)
        });
        is(m, &agree(m, x, |x| mul_assign(m, x, a)), |i| at(0, i) * at(1, i));
        is(m, &agree(m, x, |x| mul_add_assign(m, x, a, &v[2])), |i| {
            at(0, i) + at(1, i) * at(2, i)
        });
    });
}

#[test]
fn products_with_constants() {
    for_all_inputs(|m, v| {
        let (x, a, at) = (&v[0], &v[1], |l: usize, i: usize| v[l][i] as i128);
        for c in [0, 1, m.p() / 2, m.p() / 2 + 1, m.p() - 1, 123_456] {
            let w = i128::from(c);
            is(m, &agree(m, x, |x| mul_scalar(m, x, a, c)), |i| at(1, i) * w);
            is(m, &agree(m, x, |x| mul_scalar_assign(m, x, c)), |i| at(0, i) * w);
            is(m, &agree(m, x, |x| mul_scalar_add_assign(m, x, a, c)), |i| {
                at(0, i) + at(1, i) * w
            });
            is(m, &agree(m, x, |x| sub_mul_scalar(m, x, a, &v[2], c)), |i| {
                (at(1, i) - at(2, i)) * w
            });
        }
    });
}

#[test]
fn key_switching_products() {
    for_all_inputs(|m, v| {
        let at = |l: usize, i: usize| v[l][i] as i128;
        for side in [0, 1] {
            let accumulated = agree(m, &v[0], |x| {
                let mut other = v[1].clone();
                let (acc0, acc1) = if side == 0 {
                    (x, &mut other[..])
                } else {
                    (&mut other[..], x)
                };
                mul_accumulate2(m, acc0, acc1, &v[2], &v[3], &v[4]);
            });
            is(m, &accumulated, |i| at(0, i) + at(2, i) * at(3 + side, i));
        }
    });
}

#[test]
fn inner_products_of_any_number_of_terms() {
    for_all_inputs(|m, v| {
        for terms in [0, 1, 3, 8, 9, 20] {
            let pick = |shift: usize| (0..terms).map(|t| &v[(t + shift) % 8][..]).collect::<Vec<_>>();
            let (ds, k0s, k1s) = (pick(0), pick(3), pick(5));
            for (side, ks) in [&k0s, &k1s].into_iter().enumerate() {
                let out = agree(m, &v[0], |x| {
                    let mut other = v[1].clone();
                    let (out0, out1) = if side == 0 {
                        (x, &mut other[..])
                    } else {
                        (&mut other[..], x)
                    };
                    inner_product2(m, out0, out1, &ds, &k0s, &k1s);
                });
                is(m, &out, |i| {
                    (0..terms).map(|t| ds[t][i] as i128 * ks[t][i] as i128).sum()
                });
            }
        }
    });
}

#[test]
fn tensor_products() {
    for_all_inputs(|m, v| {
        let at = |l: usize, i: usize| v[l][i] as i128;
        for part in 0..3 {
            let out = agree(m, &v[part], |x| {
                let mut d = [v[0].clone(), v[1].clone(), v[2].clone()];
                let [d0, d1, d2] = &mut d;
                tensor_accumulate(m, d0, d1, d2, &v[3], &v[4], &v[5], &v[6]);
                x.copy_from_slice(&d[part]);
            });
            is(m, &out, |i| match part {
                0 => at(0, i) + at(3, i) * at(5, i),
                1 => at(1, i) + at(3, i) * at(6, i) + at(4, i) * at(5, i),
                _ => at(2, i) + at(4, i) * at(6, i),
            });
        }
    });
}

#[test]
fn products_with_runs() {
    for m in sample_primes(18) {
        for n in [32, 64, 4096] {
            for v in input_sets(&m, n) {
                let at = |l: usize, i: usize| v[l][i] as i128;
                for count in [1, 2, n / 8, n / 4, n / 2, n] {
                    let w = &v[2][..count];
                    let out = agree(&m, &v[0], |x| mul_runs_add_assign(&m, x, &v[1], w));
                    is(&m, &out, |i| at(0, i) + at(1, i) * at(2, i / (n / count)));
                }
                let terms: Vec<(&[f64], &[f64])> =
                    (0..20).map(|t| (&v[t % 8][..], &v[3][..n >> (t % 5)])).collect();
                let out = agree(&m, &v[0], |x| mac_runs(&m, x, &terms));
                let term = |t: usize, i: usize| at(t % 8, i) * at(3, i >> (t % 5));
                is(&m, &out, |i| at(0, i) + (0..20).map(|t| term(t, i)).sum::<i128>());
                let out = agree(&m, &v[0], |x| sum_runs(&m, x, &terms));
                is(&m, &out, |i| (0..20).map(|t| term(t, i)).sum());
            }
        }
    }
}

#[test]
fn sums_of_any_number_of_products_with_runs_of_one_length() {
    for m in sample_primes(18) {
        for v in input_sets(&m, 4096) {
            let at = |l: usize, i: usize| v[l][i] as i128;
            for (count, run) in (0..18).flat_map(|count| [1, 2, 4, 8, 4096].map(|run| (count, run))) {
                let terms: Vec<(&[f64], &[f64])> = (0..count)
                    .map(|t| (&v[t % 8][..], &v[(t + 3) % 8][..4096 / run]))
                    .collect();
                let exact = |i| {
                    (0..count)
                        .map(|t| at(t % 8, i) * at((t + 3) % 8, i / run))
                        .sum::<i128>()
                };
                let out = agree(&m, &v[0], |x| sum_runs(&m, x, &terms));
                is(&m, &out, exact);
                let out = agree(&m, &v[0], |x| mac_runs(&m, x, &terms));
                is(&m, &out, |i| at(0, i) + exact(i));
            }
        }
    }
}

#[test]
fn residues_of_integers_of_either_sign() {
    for m in sample_primes(18) {
        let p = m.p() as f64;
        let at = |i: i64| (i - 32) as f64 * ((INTEGERS - 1.0) / 32.0).floor() + (i % 3 - 1) as f64;
        let mut a: Vec<f64> = (0..64)
            .map(|i| at(i).clamp(1.0 - INTEGERS, INTEGERS - 1.0))
            .collect();
        a.splice(..6, [0.0, 1.0 - INTEGERS, INTEGERS - 1.0, -1.0, p, -p]);
        for n in [64, 30] {
            let out = agree(&m, &AlignedVec::zeroed(n), |x| residues(&m, x, &a[..n]));
            is(&m, &out, |i| a[i] as i128);
        }
    }
}

#[test]
fn changes_of_modulus_keep_the_centred_integer() {
    for from in sample_primes(18) {
        for to in sample_primes(18) {
            for v in input_sets(&from, 64) {
                let out = agree(&to, &v[0], |x| switch_modulus(&from, &to, x, &v[1]));
                is(&to, &out, |i| i128::from(from.center(v[1][i] as u64)));
            }
        }
    }
}

#[test]
#[should_panic]
fn unequal_lengths_are_refused() {
    add_assign(
        &sample_primes(18)[0],
        &mut AlignedVec::zeroed(64),
        &AlignedVec::zeroed(56),
    );
}

/// x with multiples of p added and taken off, as far from zero as a lazy transform may leave it; canonical
/// where the reference reads it.
fn lazy(m: &Modulus, x: &AlignedVec) -> AlignedVec {
    let mut out = x.clone();
    if path() != Path::Scalar && x.len().is_multiple_of(8) {
        let far = ((2f64.powi(51) - 1.0) / m.p() as f64).floor() - 1.0;
        let shift = |(i, x): (usize, &mut f64)| *x += far * m.p() as f64 * [1.0, -1.0, 0.0][i % 3];
        out.iter_mut().enumerate().for_each(shift);
    }
    out
}

#[test]
fn divided_products_of_lazy_values() {
    for_all_inputs(|m, v| {
        let (c, e) = (m.p() - 2, m.p() / 3);
        for terms in [1, 2, 4, 5, 9] {
            let at = |t: usize| &v[t % 7][..];
            for add in [None, Some((&v[6][..], e))] {
                let out = agree(m, &v[0], |x| {
                    let (d, lift) = (lazy(m, &v[1]), lazy(m, &v[2]));
                    let (ds, ks) = (vec![&d[..]; terms], (0..terms).map(at).collect::<Vec<_>>());
                    divided_product(m, x, &ds, &ks, &lift, c, add);
                });
                is(m, &out, |i| {
                    let products = (0..terms).map(|t| m.mul(v[1][i] as u64, at(t)[i] as u64));
                    let sum = m.sub(products.fold(0, |a, b| m.add(a, b)), v[2][i] as u64);
                    let added = add.map_or(0, |(a, e)| m.mul(a[i] as u64, e));
                    m.add(m.mul(sum, c), added).into()
                });
            }
        }
    });
}

/// A limb as a key file has it, and what may be read behind it.
fn packed_limb(m: &Modulus, limb: &[f64]) -> Vec<u8> {
    let len = packed::packed_len(limb.len(), m.p());
    let mut bytes = vec![0xff; len + packed::SLACK];
    assert!(packed::pack(limb, m.p(), &mut bytes[..len]));
    bytes
}

/// What kernels make of packed keys is what they make of doubles, on every path, from any group on.
#[test]
fn products_with_packed_keys() {
    for (m, n) in sample_primes(18)
        .into_iter()
        .flat_map(|m| [(m, 8), (m, 64), (m, 1040)])
    {
        for v in input_sets(&m, n) {
            let bytes: Vec<Vec<u8>> = v.iter().map(|limb| packed_limb(&m, limb)).collect();
            for (terms, skip) in [(0, 0), (1, 0), (2, 8), (3, 0), (4, 8), (5, 0), (9, 0)] {
                let (skip, after) = (skip % n, packed::packed_len(skip % n, m.p()));
                let limb = |t: usize| &v[t % 8][skip..];
                let row = |t: usize| Row::new(&bytes[t % 8][after..], n - skip, m.p());
                let ds: Vec<&[f64]> = (0..terms).map(limb).collect();
                let [k0s, k1s] = [3, 5].map(|by| (by..by + terms).map(limb).collect::<Vec<_>>());
                let [p0s, p1s] = [3, 5].map(|by| (by..by + terms).map(row).collect::<Vec<_>>());
                let mut wanted = [v[0].clone(), v[1].clone()];
                let [out0, out1] = &mut wanted;
                reference::inner_product2(&m, &mut out0[skip..], &mut out1[skip..], &ds, &k0s, &k1s);
                let found = same_on_all_paths(|| {
                    let mut out = [v[0].clone(), v[1].clone()];
                    let [out0, out1] = &mut out;
                    inner_product2_packed(&m, &mut out0[skip..], &mut out1[skip..], &ds, &p0s, &p1s);
                    out
                });
                assert_eq!(found, wanted, "{terms} terms mod {}", m.p());
                let add = Some((limb(6), m.p() / 3));
                let mut wanted = v[0].clone();
                reference::divided_product(&m, &mut wanted[skip..], &ds, &k0s, limb(7), 5, add);
                let found = agree(&m, &v[0], |x| {
                    divided_product_packed(&m, &mut x[skip..], &ds, &p0s, limb(7), 5, add);
                });
                assert_eq!(found, wanted, "{terms} terms mod {}", m.p());
            }
        }
    }
}

#[test]
#[should_panic(expected = "different lengths")]
fn rows_of_a_shorter_prime_are_refused() {
    let (short, m) = (Modulus::new((1 << 30) - 35).unwrap(), sample_primes(18)[0]);
    let (x, bytes) = (AlignedVec::zeroed(4096), packed_limb(&short, &[1.0; 4096]));
    let (row, mut out) = (Row::new(&bytes, 4096, short.p()), x.clone());
    assert!(packed::width(m.p()) > 30);
    divided_product_packed(&m, &mut out, &[&x], &[row], &x, 1, None);
}

#[test]
#[should_panic(expected = "different lengths")]
fn rows_of_a_shorter_prime_are_refused_by_the_reference() {
    on_path(Path::Scalar, rows_of_a_shorter_prime_are_refused);
}

proptest! {
    /// a (b + c) = ab + ac for any residues, through the SIMD paths.
    #[test]
    fn distributive(seeds in any::<[u8; 3]>(), prime in 0usize..4) {
        let m = sample_primes(18)[prime];
        let [a, b, c] = seeds.map(|seed| random_limb(&m, 64, seed));
        let mut left = b.clone();
        add_assign(&m, &mut left, &c);
        mul_assign(&m, &mut left, &a);
        let mut right = AlignedVec::zeroed(64);
        mul(&m, &mut right, &a, &b);
        mul_add_assign(&m, &mut right, &a, &c);
        prop_assert_eq!(left, right);
    }

    /// Single products of arbitrary residues equal the u128 product.
    #[test]
    fn products_of_arbitrary_residues(
        raw in proptest::collection::vec(any::<(u64, u64)>(), 64), prime in 0usize..4
    ) {
        let m = sample_primes(18)[prime];
        let a: Vec<f64> = raw.iter().map(|r| (r.0 % m.p()) as f64).collect();
        let b: Vec<f64> = raw.iter().map(|r| (r.1 % m.p()) as f64).collect();
        let out = agree(&m, &AlignedVec::zeroed(64), |x| mul(&m, x, &a, &b));
        for i in 0..64 {
            prop_assert_eq!(out[i] as u64, m.mul(a[i] as u64, b[i] as u64));
        }
    }
}
