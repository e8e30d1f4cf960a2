use super::*;
use crate::channel::Link;

fn true_softmax(row: &[f64]) -> Vec<f64> {
    let most = row.iter().fold(f64::MIN, |a, &b| a.max(b));
    let powers: Vec<f64> = row.iter().map(|x| (x - most).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().map(|p| p / sum).collect()
}

fn softmax_error(x: &[f64], cols: usize) -> f64 {
    let rows = x.len() / cols;
    let y = apply(x, WIDE, WIDE, |party, x| {
        softmax(party, x, rows, cols, WIDE, 11, WIDE)
    });
    let truth: Vec<f64> = x.chunks(cols).flat_map(true_softmax).collect();
    y.iter()
        .zip(&truth)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f64::max)
}

#[test]
fn softmax_of_many_shapes() {
    for (rows, cols, scale) in [
        (1, 1, 5.0),
        (3, 1, 100.0),
        (7, 2, 8.0),
        (5, 17, 3.0),
        (12, 128, 6.0),
        (9, 180, 1.0),
        (4, 180, 0.01),
    ] {
        let x: Vec<f64> = noise(rows * cols, 5).iter().map(|n| n * scale).collect();
        let error = softmax_error(&x, cols);
        assert!(error < 3e-4, "({rows}, {cols}) scale {scale}: {error}");
    }
}

#[test]
fn softmax_of_masked_rows() {
    let cols = 16;
    let mut x = vec![-1024.0; 4 * cols];
    x[cols] = 0.5; // one position alive
    x[2 * cols..2 * cols + 3].copy_from_slice(&[1.0, 2.0, 3.0]);
    x[3 * cols..].copy_from_slice(&noise(cols, 3));
    x[3 * cols + 7] = 1000.0;
    assert!(softmax_error(&x, cols) < 3e-4);
    assert_eq!(softmax_error(&[], 3), 0.0);
}

#[test]
fn the_parts_of_softmax_multiply_to_it() {
    let (rows, cols) = (6, 40);
    let x: Vec<f64> = noise(rows * cols, 9).iter().map(|n| 4.0 * n).collect();
    let inverse = Fixed::new(40, 24);
    let power = Fixed::new(44, 14);
    let parts =
        |party: &mut Party, x: &[u64]| softmax_parts(party, x, rows, cols, WIDE, 10, power.ring, inverse);
    let powers = apply(&x, WIDE, power, |party, x| Ok(parts(party, x)?.0));
    let inverses = apply(&x, WIDE, inverse, |party, x| Ok(parts(party, x)?.1));
    let truth: Vec<f64> = x.chunks(cols).flat_map(true_softmax).collect();
    for i in 0..x.len() {
        assert!((powers[i] * inverses[i / cols] - truth[i]).abs() < 1e-3);
    }
}

#[test]
fn reciprocals_and_roots_over_many_powers_of_two() {
    let from = Fixed::new(40, 12);
    let span = Span { low: -6, high: 10 };
    let mut x: Vec<f64> = (-6..10)
        .flat_map(|e| around(&[f64::from(e).exp2()], from))
        .skip(1)
        .collect();
    x.extend(grid(0.02, 1023.9, 500));
    let to = Fixed::new(64, 30);
    let y = apply(&x, from, to, |party, x| reciprocal(party, x, from, span, to));
    let relative = |x: f64| x;
    let product: Vec<f64> = x.iter().zip(&y).map(|(x, y)| x * y).collect();
    let encoded: Vec<f64> = x.iter().map(|&x| from.decode(from.encode(x)) / x).collect();
    for i in 0..x.len() {
        let error = (product[i] * encoded[i] - 1.0).abs();
        assert!(error < RELATIVE_ERROR, "1/{}: {error}", relative(x[i]));
    }
    let y = apply(&x, from, to, |party, x| rsqrt(party, x, from, span, 5.0, to));
    for (&x, &y) in x.iter().zip(&y) {
        let x = from.decode(from.encode(x));
        let error = (y * x.sqrt() / 5.0 - 1.0).abs();
        assert!(error < RELATIVE_ERROR, "5/sqrt({x}): {error}");
    }
}

/// Values around all ends of segments, and between them, over a link where few values take segments; the
/// results have 16 fraction bits, and one has a ring in which its polynomials have no room.
#[test]
fn few_values_over_many_powers_of_two() {
    let from = Fixed::new(46, 28);
    let marks = [64, 69, 72, 74, 80, 81, 87, 91, 94, 101, 102, 109, 114, 118];
    for (low, high) in [(-14, -7), (-7, 0), (0, 7), (-16, 10), (9, 10)] {
        let ends = (low..high).flat_map(|e| marks.map(|c| f64::from(c) / 64.0 * f64::from(e).exp2()));
        let ends: Vec<f64> = ends.collect();
        let x: Vec<f64> = around(&ends, from).split_off(1);
        let span = Span { low, high };
        let most = 256 / (high - low) as usize;
        for x in x.chunks(most) {
            let roots = apply(x, from, Fixed::new(26, 16), |party, x| {
                party.set_link(Link::FAR);
                rsqrt(party, x, from, span, 1.25, Fixed::new(26, 16))
            });
            let inverses = apply(x, from, Fixed::new(34, 16), |party, x| {
                party.set_link(Link::FAR);
                reciprocal(party, x, from, span, Fixed::new(34, 16))
            });
            for (&x, (&root, &inverse)) in x.iter().zip(roots.iter().zip(&inverses)) {
                let x = from.decode(from.encode(x));
                for (found, truth) in [(root, 1.25 / x.sqrt()), (inverse, 1.0 / x)] {
                    let error = (found - truth).abs() - 1.0 / 65536.0;
                    assert!(error < RELATIVE_ERROR * truth, "{found} at {x}: {error}");
                }
            }
        }
    }
}

#[test]
fn spans_that_do_not_fit_are_refused() {
    let from = Fixed::new(40, 12);
    for span in [
        Span { low: -13, high: 2 },
        Span { low: 3, high: 3 },
        Span { low: 0, high: 28 },
        Span { low: -12, high: 21 },
    ] {
        let (refused, _) = run_both((vec![1], vec![1]), |party, x| {
            ready(party)?;
            Ok(reciprocal(party, &x, from, span, WIDE).is_err())
        });
        assert!(refused, "{span:?}");
    }
}

fn true_norm(x: &[f64], gamma: &[f64], beta: &[f64], norm: &Norm) -> Vec<f64> {
    let (n, epsilon) = (norm.cols as f64, norm.epsilon);
    let row = |row: &[f64]| {
        let mean = if norm.centred {
            row.iter().sum::<f64>() / n
        } else {
            0.0
        };
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        let scale = 1.0 / (variance + epsilon).sqrt();
        (0..row.len())
            .map(|j| gamma[j] * (row[j] - mean) * scale + beta[j])
            .collect::<Vec<_>>()
    };
    x.chunks(gamma.len()).flat_map(row).collect()
}

fn norm_error(x: &[f64], norm: Norm) -> f64 {
    let gamma: Vec<f64> = noise(norm.cols, 31)
        .iter()
        .map(|g| g * norm.gamma * 0.999)
        .collect();
    let beta = noise(norm.cols, 32);
    let y = apply(x, WIDE, WIDE, |party, x| {
        let server = !party.is_client();
        let (gamma, beta) = (
            server.then_some(gamma.as_slice()),
            server.then_some(beta.as_slice()),
        );
        layer_norm(party, x, WIDE, &norm, gamma, beta, WIDE)
    });
    let truth = true_norm(x, &gamma, &beta, &norm);
    y.iter()
        .zip(&truth)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f64::max)
}

fn norm(rows: usize, cols: usize, bound: f64, least: f64) -> Norm {
    Norm {
        rows,
        cols,
        centred: true,
        bound,
        least,
        gamma: 2.0,
        epsilon: 1e-5,
    }
}

#[test]
fn layer_norm_of_ordinary_rows() {
    for (rows, cols, scale) in [
        (5, 128, 4.0),
        (1, 768, 1.0),
        (3, 2, 10.0),
        (0, 64, 1.0),
        (2, 384, 0.5),
    ] {
        let x: Vec<f64> = noise(rows * cols, 7).iter().map(|n| scale * (n + 3.0)).collect();
        let error = norm_error(&x, norm(rows, cols, 2.0 * scale, 0.05 * scale));
        assert!(error < 3e-4, "({rows}, {cols}) scale {scale}: {error}");
    }
}

/// Rows with a mean of three deviations, as one block of activations and as the heads of an attention; rows
/// of zeros, which epsilon keeps finite.
#[test]
fn a_norm_without_mean() {
    for (rows, cols, scale) in [(5, 128, 4.0), (1, 768, 1.0), (300, 32, 2.0), (2049, 4, 1.0)] {
        let mut x: Vec<f64> = noise(rows * cols, 7).iter().map(|n| scale * (n + 1.0)).collect();
        let norm = Norm {
            centred: false,
            ..norm(rows, cols, 2.0 * scale, 0.1 * scale)
        };
        let error = norm_error(&x, norm);
        assert!(error < 3e-4, "({rows}, {cols}) scale {scale}: {error}");
        x.iter_mut().for_each(|x| *x = 0.0);
        let error = norm_error(
            &x[..cols],
            Norm {
                rows: 1,
                epsilon: 0.02 * scale * scale,
                ..norm
            },
        );
        assert!(error < 3e-4, "zeros, {cols}: {error}");
    }
}

#[test]
fn layer_norm_of_rows_of_very_different_deviations_and_outliers() {
    let (rows, cols) = (8, 128);
    let mut x: Vec<f64> = noise(rows * cols, 8)
        .iter()
        .enumerate()
        .map(|(i, n)| n * 0.3 * (1 << (i / cols)) as f64)
        .collect();
    x[5] += 110.0;
    x[3 * cols + 9] -= 100.0;
    let error = norm_error(&x, norm(rows, cols, 120.0, 0.1));
    assert!(error < 1.5e-3, "{error}");
}

#[test]
fn layer_norm_of_equal_values_is_beta() {
    let constant = Norm {
        epsilon: 1e-2,
        ..norm(2, 64, 4.0, 0.09)
    };
    assert!(norm_error(&[2.5; 128], constant) < 1e-3);
}

#[test]
fn layer_norm_refuses_what_does_not_fit() {
    let good = norm(2, 8, 4.0, 0.1);
    let cases = [
        Norm { rows: 3, ..good },
        Norm { cols: 0, ..good },
        Norm {
            bound: f64::NAN,
            ..good
        },
        Norm { least: 5.0, ..good },
        Norm { least: 1e-6, ..good },
        Norm { bound: 1e15, ..good },
        Norm { gamma: 1e9, ..good },
    ];
    for case in cases {
        let (refused, _) = run_both((vec![0; 16], vec![0; 16]), |party, x| {
            ready(party)?;
            let gamma = vec![1.0; case.cols];
            let gamma = (!party.is_client()).then_some(gamma.as_slice());
            Ok(layer_norm(party, &x, WIDE, &case, gamma, None, WIDE).is_err())
        });
        assert!(refused, "{case:?}");
    }
}
