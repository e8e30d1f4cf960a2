//! Products with a matrix in clear, against plain arithmetic.
use crate::toy::{values, worst, Toy};
use num_complex::Complex64;
use tacita_ckks::matmul::Matrix;
use tacita_ckks::{Ciphertext, CkksError};

const TIGHT: f64 = 1e-7;

fn real(n: usize, salt: u64) -> Vec<f64> {
    values(n, salt, false).iter().map(|z| z.re).collect()
}

fn references(xs: &[Ciphertext]) -> Vec<&Ciphertext> {
    xs.iter().collect()
}

/// The product in clear.
fn expected(xs: &[Vec<Complex64>], m: &Matrix<'_>) -> Vec<Vec<Complex64>> {
    let entry = |o: usize, i: usize, s: usize| m.weights[(o * xs.len() + i) * m.period + s % m.period];
    let bias = |o: usize, s: usize| m.bias.map_or(0.0, |b| b[o * m.period + s % m.period]);
    let slot = |o: usize, s: usize| {
        (0..xs.len())
            .map(|i| xs[i][s] * entry(o, i, s))
            .sum::<Complex64>()
            + bias(o, s)
    };
    (0..m.outputs)
        .map(|o| (0..xs[0].len()).map(|s| slot(o, s)).collect())
        .collect()
}

#[test]
fn every_period_with_and_without_bias_at_unequal_levels() {
    let t = Toy::new("insecure_toy_n9", &[], false);
    let e = &t.evaluator;
    let xs: Vec<_> = (0..5).map(|i| values(256, i, true)).collect();
    let levels = [6, 9, 6, 7, 12];
    let cts: Vec<_> = xs.iter().zip(levels).map(|(x, l)| t.encrypt(x, l)).collect();
    for (period, with_bias) in [(1, false), (1, true), (2, true), (4, true), (8, false)] {
        let (weights, bias) = (real(7 * 5 * period, 3), real(7 * period, 4));
        let matrix = Matrix {
            weights: &weights,
            bias: with_bias.then_some(&bias),
            outputs: 7,
            period,
        };
        let got = e.matmul(&references(&cts), &matrix).unwrap();
        assert_eq!(got.len(), 7);
        for (got, want) in got.iter().zip(expected(&xs, &matrix)) {
            assert_eq!((got.level(), got.polys.len()), (5, 2));
            assert!((got.scale / e.params().scale(5) - 1.0).abs() < 1e-12);
            let error = worst(&t.decrypt(got), &want);
            assert!(error < TIGHT, "period {period}: {error}");
        }
    }
}

/// More outputs than a block, a ring of more than one segment, and results that take part in further
/// arithmetic.
#[test]
fn many_outputs_on_a_larger_ring() {
    let t = Toy::new("insecure_toy_n11", &[], false);
    let e = &t.evaluator;
    let xs: Vec<_> = (0..2).map(|i| values(1024, i, false)).collect();
    let cts: Vec<_> = xs.iter().map(|x| t.encrypt(x, 3)).collect();
    let weights: Vec<f64> = real(250 * 2 * 2, 8).iter().map(|w| 50.0 * w).collect();
    let matrix = Matrix {
        weights: &weights,
        bias: None,
        outputs: 250,
        period: 2,
    };
    let got = e.matmul(&references(&cts), &matrix).unwrap();
    let want = expected(&xs, &matrix);
    for o in [0, 1, 239, 240, 249] {
        assert!(worst(&t.decrypt(&got[o]), &want[o]) < 50.0 * TIGHT, "output {o}");
    }
    let product = e.mul(&got[3], &e.drop_to(&cts[0], 2).unwrap()).unwrap();
    let both: Vec<_> = want[3].iter().zip(&xs[0]).map(|(a, b)| a * b).collect();
    assert!(worst(&t.decrypt(&product), &both) < 100.0 * TIGHT);
}

#[test]
fn a_matrix_of_zeros_gives_the_bias() {
    let t = Toy::new("insecure_toy_n9", &[], false);
    let x = t.encrypt(&values(256, 1, true), 2);
    let matrix = Matrix {
        weights: &[0.0, 0.0],
        bias: Some(&[0.25, -3.0]),
        outputs: 1,
        period: 2,
    };
    let got = t.evaluator.matmul(&[&x], &matrix).unwrap();
    let want: Vec<_> = (0..256)
        .map(|s| Complex64::new([0.25, -3.0][s % 2], 0.0))
        .collect();
    assert!(worst(&t.decrypt(&got[0]), &want) < TIGHT);
}

#[test]
fn bad_operands_are_refused() {
    let t = Toy::new("insecure_toy_n9", &[], false);
    let e = &t.evaluator;
    let (x, low) = (
        t.encrypt(&values(256, 1, true), 2),
        t.encrypt(&values(256, 1, true), 0),
    );
    let shaped = |weights: &[f64], bias: Option<&[f64]>, outputs, period| {
        let m = Matrix {
            weights,
            bias,
            outputs,
            period,
        };
        matches!(e.matmul(&[&x, &x], &m), Err(CkksError::Shape { .. }))
    };
    assert!(shaped(&[], None, 0, 1));
    assert!(shaped(&[1.0; 3], None, 1, 1));
    assert!(shaped(&[1.0; 6], None, 1, 3));
    assert!(shaped(&[1.0; 32], None, 1, 16));
    assert!(shaped(&[], None, 1, 0));
    assert!(shaped(&[1.0; 2], Some(&[1.0; 2]), 1, 1));
    assert!(shaped(&[], None, usize::MAX, 8));
    assert!(shaped(&[1.0, f64::NAN], None, 1, 1));
    assert!(shaped(&[1.0, f64::INFINITY], None, 1, 1));
    assert!(shaped(&[1.0, 1e300], None, 1, 1));
    assert!(shaped(&[1.0; 2], Some(&[f64::NAN]), 1, 1));
    let one = Matrix {
        weights: &[1.0, 1.0],
        bias: None,
        outputs: 1,
        period: 1,
    };
    assert!(matches!(e.matmul(&[], &one), Err(CkksError::Shape { .. })));
    assert!(matches!(
        e.matmul(&[&x, &low], &one),
        Err(CkksError::Level { .. })
    ));
    let mut quadratic = x.clone();
    quadratic.polys.push(x.polys[1].clone());
    assert!(matches!(
        e.matmul(&[&x, &quadratic], &one),
        Err(CkksError::Shape { .. })
    ));
    let mut other_scale = x.clone();
    other_scale.scale *= 2.0;
    assert!(matches!(
        e.matmul(&[&x, &other_scale], &one),
        Err(CkksError::Shape { .. })
    ));
}

/// Parts were rescaled each for itself, and the last bits depended on the partition. Scales differ by
/// rounding noise, as results of different operations do.
#[test]
fn parts_in_any_order_have_the_bits_of_one_call() {
    let t = Toy::new("insecure_toy_n9", &[], false);
    let e = &t.evaluator;
    let mut cts: Vec<_> = (0..5).map(|i| t.encrypt(&values(256, i, true), 4)).collect();
    cts[3].scale *= 1.0 + 2.0 * f64::EPSILON;
    let (weights, bias) = (real(250 * 5 * 2, 3), real(250 * 2, 4));
    let matrix = Matrix {
        weights: &weights,
        bias: Some(&bias),
        outputs: 250,
        period: 2,
    };
    let want = e.matmul(&references(&cts), &matrix).unwrap();
    for parts in [vec![vec![3, 1], vec![0, 4, 2]], vec![vec![2], vec![0, 1, 3, 4]]] {
        let mut sums = e.begin_matmul(&matrix, 5, &cts[parts[0][0]]).unwrap();
        for columns in &parts {
            let xs: Vec<_> = columns.iter().map(|&k| &cts[k]).collect();
            sums = e.add_matmul(sums, columns, &xs).unwrap();
        }
        let got = e.finish_matmul(sums).unwrap();
        assert_eq!(got.len(), want.len());
        for (got, want) in got.iter().zip(&want) {
            assert_eq!(got.scale.to_bits(), want.scale.to_bits());
            let mut polys = got.polys.iter().zip(&want.polys);
            assert!(polys.all(|(got, want)| got.limbs == want.limbs));
        }
    }
}

#[test]
fn parts_that_are_not_every_operand_once_are_refused() {
    let t = Toy::new("insecure_toy_n9", &[], false);
    let e = &t.evaluator;
    let [x, low] = [2, 1].map(|level| t.encrypt(&values(256, 1, true), level));
    let one = Matrix {
        weights: &[1.0, 1.0],
        bias: None,
        outputs: 1,
        period: 1,
    };
    let begin = || e.begin_matmul(&one, 2, &x).unwrap();
    let refused = |columns: &[usize], xs: &[&Ciphertext]| {
        matches!(e.add_matmul(begin(), columns, xs), Err(CkksError::Shape { .. }))
    };
    assert!(refused(&[], &[]));
    assert!(refused(&[2], &[&x]));
    assert!(refused(&[0, 0], &[&x, &x]));
    assert!(refused(&[0], &[&x, &x]));
    assert!(refused(&[0], &[&low]));
    let half = e.add_matmul(begin(), &[1], &[&x]).unwrap();
    assert!(matches!(
        e.add_matmul(half, &[1], &[&x]),
        Err(CkksError::Shape { .. })
    ));
    let half = e.add_matmul(begin(), &[1], &[&x]).unwrap();
    assert!(matches!(e.finish_matmul(half), Err(CkksError::Shape { .. })));
    let bottom = t.encrypt(&values(256, 1, true), 0);
    let begun = e.begin_matmul(&one, 2, &bottom);
    assert!(matches!(begun, Err(CkksError::Level { .. })));
}
