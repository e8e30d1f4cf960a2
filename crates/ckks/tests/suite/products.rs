//! Outer products with lazy relinearisation, against plain arithmetic and against one `dot` per entry.
use crate::toy::{values, worst, Toy};
use num_complex::Complex64;
use tacita_ckks::{Ciphertext, CkksError};

const TIGHT: f64 = 1e-7;

/// A grid `[terms][count]` of values and their ciphertexts, at the levels in turn.
type Grid = (Vec<Vec<Vec<Complex64>>>, Vec<Vec<Ciphertext>>);

fn grid(t: &Toy, slots: usize, [terms, count]: [usize; 2], salt: u64, levels: &[usize]) -> Grid {
    let at = |c: usize, k: usize| c * count + k;
    let value = |c, k| values(slots, salt + at(c, k) as u64, true);
    let clear: Vec<Vec<_>> = (0..terms)
        .map(|c| (0..count).map(|k| value(c, k)).collect())
        .collect();
    let encrypt = |c: usize, k: usize| t.encrypt(&clear[c][k], levels[at(c, k) % levels.len()]);
    let cts = (0..terms)
        .map(|c| (0..count).map(|k| encrypt(c, k)).collect())
        .collect();
    (clear, cts)
}

fn views(cts: &[Vec<Ciphertext>]) -> Vec<Vec<&Ciphertext>> {
    cts.iter().map(|x| x.iter().collect()).collect()
}

fn entry(left: &[Vec<Vec<Complex64>>], right: &[Vec<Vec<Complex64>>], j: usize, i: usize) -> Vec<Complex64> {
    let slot = |s: usize| left.iter().zip(right).map(|(x, y)| x[j][s] * y[i][s]).sum();
    (0..left[0][0].len()).map(slot).collect()
}

fn is_shape<T>(result: &Result<T, CkksError>) -> bool {
    matches!(result, Err(CkksError::Shape { .. }))
}

#[test]
fn every_entry_is_a_dot_product() {
    let t = Toy::new("insecure_toy_n9", &[], false);
    let e = &t.evaluator;
    for (terms, rows, columns, levels) in [
        (1, 1, 1, [5].as_slice()),
        (3, 5, 7, &[6, 8, 6, 9]),
        (11, 1, 2, &[4, 7]),
    ] {
        let (a, left) = grid(&t, 256, [terms, rows], 1, levels);
        let (b, right) = grid(&t, 256, [terms, columns], 100, levels);
        let lowest = *levels.iter().min().unwrap();
        let acc = e.products(&views(&left), &views(&right)).unwrap();
        assert_eq!((acc.rows(), acc.columns(), acc.level()), (rows, columns, lowest));
        assert_eq!(acc.bytes(), rows * columns * 3 * (lowest + 1) * 512 * 8);
        let found = e.relinearise(acc).unwrap();
        assert!(found.len() == rows && found.iter().all(|row| row.len() == columns));
        for (j, row) in found.iter().enumerate() {
            for (i, got) in row.iter().enumerate() {
                assert_eq!((got.level(), got.polys.len()), (lowest - 1, 2));
                assert!((got.scale / e.params().scale(lowest - 1) - 1.0).abs() < 1e-12);
                assert!(worst(&t.decrypt(got), &entry(&a, &b, j, i)) < TIGHT, "{j}, {i}");
            }
        }
    }
}

/// The same integers as `dot`, bit for bit, where no operand is aligned.
#[test]
fn accumulating_in_two_calls_equals_dot() {
    let t = Toy::new("insecure_toy_n10", &[], false);
    let e = &t.evaluator;
    let (_, left) = grid(&t, 512, [4, 2], 1, &[3]);
    let (_, right) = grid(&t, 512, [4, 3], 50, &[3]);
    let (l, r) = (views(&left), views(&right));
    let mut acc = e.products(&l[..1], &r[..1]).unwrap();
    e.add_products(&mut acc, &l[1..], &r[1..]).unwrap();
    let found = e.relinearise(acc).unwrap();
    for (j, row) in found.iter().enumerate() {
        for (i, got) in row.iter().enumerate() {
            let pairs: Vec<_> = (0..4).map(|c| (&left[c][j], &right[c][i])).collect();
            let want = e.dot(&pairs).unwrap();
            assert!((got.scale / want.scale - 1.0).abs() < 1e-15);
            assert!(got.polys.iter().zip(&want.polys).all(|(x, y)| x.limbs == y.limbs));
        }
    }
}

/// Accumulators keep their level: higher operands come down to it, lower ones are refused and change nothing.
#[test]
fn the_level_is_that_of_the_accumulators() {
    let t = Toy::new("insecure_toy_n9", &[], false);
    let e = &t.evaluator;
    let x = values(256, 1, true);
    let [low, mid, high] = [3, 5, 9].map(|level| t.encrypt(&x, level));
    let mut acc = e.products(&[vec![&mid]], &[vec![&high]]).unwrap();
    e.add_products(&mut acc, &[vec![&high]], &[vec![&high]]).unwrap();
    assert!(is_shape(&e.add_products(&mut acc, &[vec![&high]], &[vec![&low]])));
    assert_eq!(acc.level(), 5);
    let want: Vec<_> = x.iter().map(|z| 2.0 * z * z).collect();
    assert!(worst(&t.decrypt(&e.relinearise(acc).unwrap()[0][0]), &want) < TIGHT);
    let bottom = e.drop_to(&low, 0).unwrap();
    let acc = e.products(&[vec![&bottom]], &[vec![&bottom]]).unwrap();
    assert!(matches!(e.relinearise(acc), Err(CkksError::Level { .. })));
}

#[test]
fn ragged_and_unfit_operands_are_refused() {
    let t = Toy::new("insecure_toy_n9", &[], false);
    let e = &t.evaluator;
    let x = t.encrypt(&values(256, 1, true), 2);
    let terms = |lengths: &[usize]| lengths.iter().map(|&n| vec![&x; n]).collect::<Vec<_>>();
    for (left, right) in [
        (vec![], vec![]),
        (vec![0], vec![1]),
        (vec![1], vec![0]),
        (vec![1, 2], vec![1, 1]),
        (vec![1, 1], vec![1, 2]),
        (vec![1, 1], vec![1]),
    ] {
        assert!(
            is_shape(&e.products(&terms(&left), &terms(&right))),
            "{left:?} {right:?}"
        );
    }
    let mut acc = e.products(&terms(&[1]), &terms(&[2])).unwrap();
    assert!(is_shape(&e.add_products(&mut acc, &terms(&[2]), &terms(&[1]))));
    let (mut quadratic, mut other_scale) = (x.clone(), x.clone());
    quadratic.polys.push(x.polys[1].clone());
    other_scale.scale *= 2.0;
    for bad in [&quadratic, &other_scale] {
        assert!(is_shape(&e.products(&[vec![&x]], &[vec![bad]])));
    }
}
