use super::*;
use crate::simd::testing::{on_path, paths, same_on_all_paths};
use crate::testing::{edge_limb, random_limb, sample_primes};
use crate::{ntt_primes, AlignedVec, Lines};

fn schoolbook(m: &Modulus, a: &[f64], b: &[f64]) -> Vec<f64> {
    let n = a.len();
    let mut out = vec![0; n];
    for (i, &a) in a.iter().enumerate() {
        for (j, &b) in b.iter().enumerate() {
            let product = m.mul(a as u64, b as u64);
            let at = (i + j) % n;
            out[at] = if i + j < n {
                m.add(out[at], product)
            } else {
                m.sub(out[at], product)
            };
        }
    }
    out.iter().map(|&x| x as f64).collect()
}

#[test]
fn values_are_those_of_the_definition() {
    for log_n in 1..=8 {
        let m = Modulus::new(ntt_primes(49.9, log_n + 1, 1, &[]).unwrap()[0]).unwrap();
        let (table, a) = (NttTable::new(m, log_n).unwrap(), random_limb(&m, 1 << log_n, 1));
        let values = same_on_all_paths(|| {
            let mut x = a.clone();
            table.forward(&mut x);
            x
        });
        for (i, &value) in values.iter().enumerate() {
            let point = m.pow(table.psi(), 2 * bit_reverse(i, log_n) as u64 + 1);
            let horner = a
                .iter()
                .rev()
                .fold(0, |sum, &c| m.add(m.mul(sum, point), c as u64));
            assert_eq!(value, horner as f64, "log_n {log_n}, index {i}");
        }
    }
}

#[test]
fn all_paths_agree_and_invert_at_every_degree() {
    for log_n in 1..=17 {
        for m in sample_primes(18) {
            let table = NttTable::new(m, log_n).unwrap();
            for a in [
                random_limb(&m, 1 << log_n, 2),
                edge_limb(&m, 1 << log_n),
                worst_limb(&m, 1 << log_n),
            ] {
                let values = same_on_all_paths(|| transformed(&a, |x| table.forward(x)));
                assert!(values
                    .iter()
                    .all(|&v| v >= 0.0 && v < m.p() as f64 && v.to_bits() != (-0.0f64).to_bits()));
                let back = same_on_all_paths(|| transformed(&values, |x| table.inverse(x)));
                assert_eq!(back, a, "log_n {log_n}, p {}", m.p());
                same_on_all_paths(|| transformed(&a, |x| table.inverse(x)));
            }
        }
    }
}

#[test]
fn a_prefix_transforms_like_the_whole_with_zeros() {
    for log_n in [1, 5, 7, 10, 13, 14] {
        for m in sample_primes(18) {
            let table = NttTable::new(m, log_n).unwrap();
            for log_len in 0..=log_n {
                let len = 1 << log_len;
                for a in [random_limb(&m, 1 << log_n, 3), worst_limb(&m, 1 << log_n)] {
                    let mut whole = a.clone();
                    whole[len..].fill(0.0);
                    table.forward(&mut whole);
                    let prefix = same_on_all_paths(|| transformed(&a, |x| table.forward_prefix(x, len)));
                    assert_eq!(prefix, whole, "log_n {log_n}, {len} of them, p {}", m.p());
                    let parts = same_on_all_paths(|| transformed(&a, |x| by_parts(&table, x, len)));
                    assert_eq!(parts, whole, "log_n {log_n}, {len} of them in parts, p {}", m.p());
                }
            }
        }
    }
}

/// Every part from the coefficients alone, the last one first.
fn by_parts(table: &NttTable, x: &mut [f64], len: usize) {
    let coefficients = x[..len].to_vec();
    let mut parts = table.blocks(x, table.prefix_parts(len));
    for part in parts.iter_mut().rev() {
        part[..len].copy_from_slice(&coefficients);
        table.forward_prefix_blocks(part, len);
    }
}

#[test]
fn blocks_end_what_columns_begin() {
    for log_n in 1..=15 {
        for m in sample_primes(18) {
            let (n, table) = (1 << log_n, NttTable::new(m, log_n).unwrap());
            for limbs in several(&m, 1 << log_n) {
                let whole = all_transformed(&limbs, |xs| xs.iter_mut().for_each(|x| table.forward(x)));
                let parts = if log_n % 3 == 0 { 4 } else { n };
                let found = same_on_all_paths(|| all_transformed(&limbs, |xs| in_parts(&table, xs, parts)));
                assert_eq!(found, whole, "log_n {log_n}, p {}, {parts} parts", m.p());
            }
        }
    }
}

#[test]
fn limbs_of_one_prime_transform_together_as_alone() {
    for log_n in 1..=13 {
        for m in sample_primes(18) {
            let table = NttTable::new(m, log_n).unwrap();
            for limbs in several(&m, 1 << log_n) {
                let alone = all_transformed(&limbs, |xs| xs.iter_mut().for_each(|x| table.forward(x)));
                let together = same_on_all_paths(|| all_transformed(&limbs, |xs| table.forward_all(xs)));
                assert_eq!(together, alone, "log_n {log_n}, p {}", m.p());
            }
        }
    }
}

/// One limb, two, and three.
fn several(m: &Modulus, n: usize) -> [Vec<AlignedVec>; 3] {
    let all = [random_limb(m, n, 4), worst_limb(m, n), random_limb(m, n, 8)];
    [1, 2, 3].map(|count| all[..count].to_vec())
}

fn all_transformed(limbs: &[AlignedVec], f: impl Fn(&mut [&mut [f64]])) -> Vec<AlignedVec> {
    let mut limbs = limbs.to_vec();
    f(&mut limbs.iter_mut().map(|x| &mut x[..]).collect::<Vec<_>>());
    limbs
}

/// Transforms columns and blocks from the last to the first, and makes canonical what single blocks leave.
fn in_parts(table: &NttTable, xs: &mut [&mut [f64]], parts: usize) {
    let m = table.modulus();
    for x in xs.iter_mut() {
        table
            .columns(x, parts)
            .into_iter()
            .rev()
            .for_each(|x| table.forward_columns(x));
    }
    let mut blocks: Vec<_> = xs.iter_mut().map(|x| table.blocks(x, parts)).collect();
    for at in (0..blocks[0].len()).rev() {
        let mut same: Vec<Blocks> = blocks.iter_mut().filter_map(Vec::pop).collect();
        if parts < table.block_count() {
            table.forward_blocks(&mut same);
            continue;
        }
        let mut ahead = Lines::default();
        ahead.add(table.block_roots(at));
        ahead.add(&same[0]);
        table.forward_block(&mut same, &mut ahead);
        for x in same.iter_mut().flat_map(|x| x.iter_mut()) {
            assert!(x.abs() < 2f64.powi(51));
            *x = m.from_i64(*x as i64) as f64;
        }
    }
}

#[test]
fn centred_inverses_are_scaled() {
    for log_n in [1, 5, 7, 10, 11, 12, 13] {
        for m in sample_primes(18) {
            let table = NttTable::new(m, log_n).unwrap();
            for c in [1, m.p() - 1, m.p() / 3] {
                for a in [
                    random_limb(&m, 1 << log_n, 6),
                    worst_limb(&m, 1 << log_n),
                    edge_limb(&m, 1 << log_n),
                ] {
                    let found = same_on_all_paths(|| transformed(&a, |x| table.inverse_centred(x, c)));
                    let into = same_on_all_paths(|| {
                        transformed(&a, |x| {
                            x.fill(1.0);
                            table.inverse_centred_into(x, &a, c);
                        })
                    });
                    assert_eq!(into, found);
                    let parts = same_on_all_paths(|| {
                        transformed(&a, |x| {
                            x.fill(1.0);
                            let mut blocks = table.blocks(x, 8);
                            blocks
                                .iter_mut()
                                .rev()
                                .for_each(|x| table.inverse_blocks(x, Some(&a), c));
                            let columns = table.columns(x, 8);
                            columns
                                .into_iter()
                                .rev()
                                .for_each(|x| table.inverse_columns(x, c));
                        })
                    });
                    assert_eq!(parts, found);
                    let plain = transformed(&a, |x| table.inverse(x));
                    for (&x, &y) in plain.iter().zip(found.iter()) {
                        assert_eq!(y, m.center(m.mul(x as u64, c)) as f64);
                    }
                }
            }
        }
    }
}

fn worst_limb(m: &Modulus, n: usize) -> AlignedVec {
    AlignedVec::from_slice(&vec![(m.p() - 1) as f64; n])
}

fn transformed(a: &AlignedVec, f: impl Fn(&mut [f64])) -> AlignedVec {
    let mut x = a.clone();
    f(&mut x);
    x
}

#[test]
fn products_of_values_are_negacyclic_products() {
    for log_n in [1, 4, 5, 6, 7, 9] {
        let m = sample_primes(18)[0];
        let (n, table) = (1 << log_n, NttTable::new(m, log_n).unwrap());
        let (a, b) = (random_limb(&m, n, 3), random_limb(&m, n, 4));
        for path in paths() {
            on_path(path, || {
                let (mut x, mut y) = (a.clone(), b.clone());
                table.forward(&mut x);
                table.forward(&mut y);
                crate::kernels::mul_assign(&m, &mut x, &y);
                table.inverse(&mut x);
                assert_eq!(&x[..], &schoolbook(&m, &a, &b)[..]);
            });
        }
    }
}

#[test]
fn the_square_root_of_minus_one_sits_in_the_lower_half() {
    for log_n in [1, 5, 10] {
        let (m, n) = (sample_primes(18)[0], 1usize << log_n);
        let table = NttTable::new(m, log_n).unwrap();
        let mut x = AlignedVec::zeroed(n);
        x[n / 2] = 1.0;
        table.forward(&mut x);
        let root = table.sqrt_minus_one();
        assert_eq!(m.mul(root, root), m.p() - 1);
        assert!(x[..n / 2].iter().all(|&v| v == root as f64));
        assert!(x[n / 2..].iter().all(|&v| v == (m.p() - root) as f64));
    }
}

#[test]
fn sparse_polynomials_have_runs() {
    let (m, log_n, log_run) = (sample_primes(18)[0], 10, 4);
    let (table, small) = (
        NttTable::new(m, log_n).unwrap(),
        NttTable::new(m, log_n - log_run).unwrap(),
    );
    let mut y = random_limb(&m, 1 << (log_n - log_run), 5);
    let mut x = AlignedVec::zeroed(1 << log_n);
    for (i, &c) in y.iter().enumerate() {
        x[i << log_run] = c;
    }
    table.forward(&mut x);
    // The small ring's root is psi^run, so that its values are those of the sparse polynomial.
    assert_eq!(small.psi(), m.pow(table.psi(), 1 << log_run));
    small.forward(&mut y);
    for (i, &v) in x.iter().enumerate() {
        assert_eq!(v, y[i >> log_run]);
    }
}

#[test]
fn refuses_what_does_not_fit() {
    let m = Modulus::new(ntt_primes(40.0, 12, 1, &[]).unwrap()[0]).unwrap();
    assert!(NttTable::new(m, 18).is_err());
    let unfriendly = Modulus::new((1 << 20) + 7).unwrap();
    assert!(matches!(
        NttTable::new(unfriendly, 10),
        Err(RingError::NoRootOfUnity { .. })
    ));
}
