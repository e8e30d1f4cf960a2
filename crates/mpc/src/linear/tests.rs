use super::*;
use crate::testing::{join, run_pair, split};
use crate::Ring;

fn small(count: usize, seed: u64, bits: u32) -> Vec<i64> {
    let (noise, _) = split(Ring::new(bits), &vec![0; count], seed);
    noise.into_iter().map(|v| Ring::new(bits).signed(v)).collect()
}

/// x y modulo the ring, signed.
fn expected(x: &[i64], y: &[i64], dims: Dims, ring: Ring) -> Vec<i64> {
    let Dims { k, m, n, batch } = dims;
    let mut out = Vec::with_capacity(batch * k * n);
    for (h, i, l) in (0..batch).flat_map(|h| (0..k).flat_map(move |i| (0..n).map(move |l| (h, i, l)))) {
        let sum = (0..m).fold(0u64, |s, j| {
            s.wrapping_add((x[(h * k + i) * m + j] as u64).wrapping_mul(y[(h * m + j) * n + l] as u64))
        });
        out.push(ring.signed(ring.reduce(sum)));
    }
    out
}

fn largest_error(found: &[i64], expected: &[i64], ring: Ring) -> u64 {
    assert_eq!(found.len(), expected.len());
    let error = |(&f, &e): (&i64, &i64)| {
        ring.signed(ring.reduce((f as u64).wrapping_sub(e as u64)))
            .unsigned_abs()
    };
    found.iter().zip(expected).map(error).max().unwrap_or(0)
}

fn dims(k: usize, m: usize, n: usize, batch: usize) -> Dims {
    Dims { k, m, n, batch }
}

fn weights_case(d: Dims, bits: u32, slack: u32, x: &[i64], w: &[i64]) {
    let (ring, options) = (
        Ring::new(bits),
        Options {
            slack,
            ..Options::default()
        },
    );
    let (x1, x0) = split(ring, x, 5);
    let (a, b) = run_pair(
        |p| share_times_weights_with(p, &x1, None, d, ring, options),
        |p| share_times_weights_with(p, &x0, Some(w), d, ring, options),
    );
    let error = largest_error(&join(ring, &a, &b), &expected(x, w, d, ring), ring);
    assert!(error < 1 << slack, "{d:?} in {bits} bits: {error}");
}

#[test]
fn share_times_weights_at_odd_shapes_and_rings() {
    for (d, bits, slack) in [
        (dims(1, 1, 1, 1), 64, 12),
        (dims(3, 5, 7, 1), 40, 6),
        (dims(3, 5, 7, 2), 32, 8),
        (dims(129, 65, 33, 1), 64, 12),
        (dims(1, 8193, 3, 1), 64, 12),
        (dims(2, 100, 900, 1), 50, 12),
    ] {
        let x = small(d.batch * d.k * d.m, 1, bits.min(40));
        let w = small(d.batch * d.m * d.n, 2, 16);
        weights_case(d, bits, slack, &x, &w);
    }
}

#[test]
fn opened_products_take_three_primes_but_no_further_keys() {
    let (d, ring) = (dims(1, 128, 2, 1), Ring::new(64));
    let options = Options {
        opened: true,
        ..Options::default()
    };
    let (x, w) = (small(128, 1, 30), small(256, 2, 18));
    let (x1, x0) = split(ring, &x, 5);
    let ((a, sent), b) = run_pair(
        |p| {
            p.setup_linear()?;
            let before = p.sent();
            let a = share_times_weights_with(p, &x1, None, d, ring, options)?;
            Ok((a, p.sent() - before))
        },
        |p| share_times_weights_with(p, &x0, Some(&w), d, ring, options),
    );
    assert!(largest_error(&join(ring, &a, &b), &expected(&x, &w, d, ring), ring) < 1 << options.slack);
    assert!(sent < 200_000, "{sent} bytes: one request of three primes");
}

/// The mean of rows: the client's weights, which the server has no share of, times shared rows, opened.
#[test]
fn opened_products_of_shares_are_right_and_take_no_further_keys() {
    let (d, ring) = (dims(1, 128, 384, 1), Ring::new(46));
    let options = Options {
        opened: true,
        ..Options::default()
    };
    let (x, y) = (vec![1 << 13; 128], small(128 * 384, 2, 28));
    let (y1, y0) = split(ring, &y, 6);
    let x1: Vec<u64> = x.iter().map(|&v| ring.from_signed(v)).collect();
    let ((a, sent), b) = run_pair(
        |p| {
            p.setup_linear()?;
            let before = p.sent();
            let a = share_times_share_with(p, &x1, &y1, d, ring, options)?;
            Ok((a, p.sent() - before))
        },
        |p| share_times_share_with(p, &[0; 128], &y0, d, ring, options),
    );
    assert!(largest_error(&join(ring, &a, &b), &expected(&x, &y, d, ring), ring) < 1 << options.slack);
    assert!(sent < 2_000_000, "{sent} bytes of requests, no keys");
}

#[test]
fn extreme_values_are_values_like_others() {
    let d = dims(2, 3, 4, 1);
    let x = [i64::MIN, -1, i64::MAX, 0, 1, i64::MIN + 1];
    let w = [1, -1, 0, 1 << 22, -(1 << 22), 7, 0, 0, 1, 2, 3, -4];
    weights_case(d, 64, 4, &x, &w);
}

#[test]
fn private_inputs_on_either_side() {
    let (d, ring) = (dims(2, 300, 11, 1), Ring::new(64));
    let x: Vec<i64> = (0..600).map(|i| i64::from(i % 300 == 17)).collect();
    let w = small(3300, 3, 18);
    let left: Vec<u64> = x.iter().map(|&v| ring.from_signed(v)).collect();
    let (a, b) = run_pair(
        |p| client_times_server(p, Some(&left), None, d, ring),
        |p| client_times_server(p, None, Some(&w), d, ring),
    );
    let error = largest_error(&join(ring, &a, &b), &expected(&x, &w, d, ring), ring);
    assert!(error < 1 << Options::default().slack && a.iter().any(|&v| v != 0));
}

fn shares_case(d: Dims, bits: u32, slack: u32) {
    let (ring, options) = (
        Ring::new(bits),
        Options {
            slack,
            log_norm: 0,
            opened: false,
        },
    );
    let (x, y) = (
        small(d.batch * d.k * d.m, 1, bits),
        small(d.batch * d.m * d.n, 2, bits),
    );
    let ((x1, x0), (y1, y0)) = (split(ring, &x, 5), split(ring, &y, 6));
    let (a, b) = run_pair(
        |p| share_times_share_with(p, &x1, &y1, d, ring, options),
        |p| share_times_share_with(p, &x0, &y0, d, ring, options),
    );
    let error = largest_error(&join(ring, &a, &b), &expected(&x, &y, d, ring), ring);
    assert!(error < 1 << slack, "{d:?} in {bits} bits: {error}");
}

#[test]
fn share_times_share_at_odd_shapes_and_rings() {
    shares_case(dims(1, 1, 1, 1), 40, 8);
    shares_case(dims(3, 5, 7, 3), 32, 4);
    shares_case(dims(33, 65, 17, 1), 46, 12);
}

#[test]
fn heads_of_attention() {
    shares_case(dims(128, 32, 128, 12), 46, 12);
    shares_case(dims(100, 128, 32, 2), 46, 12);
}

#[test]
fn sixty_four_bit_shares_take_three_primes() {
    shares_case(dims(3, 40, 6, 1), 64, 12);
}

#[test]
fn empty_products_need_no_message() {
    let ring = Ring::new(64);
    for d in [dims(0, 3, 2, 1), dims(2, 0, 3, 1), dims(2, 3, 2, 0)] {
        let (x, w) = (vec![0; d.batch * d.k * d.m], vec![0; d.batch * d.m * d.n]);
        let (a, b) = run_pair(
            |p| share_times_weights(p, &x, None, d, ring),
            |p| share_times_weights(p, &x, Some(&w), d, ring),
        );
        assert_eq!(
            (a, b),
            (vec![0; d.batch * d.k * d.n], vec![0; d.batch * d.k * d.n])
        );
    }
}

#[test]
fn wrong_sizes_sides_and_norms_are_errors() {
    let (ring, d) = (Ring::new(64), dims(1, 2, 2, 1));
    run_pair(
        |p| {
            assert!(share_times_weights(p, &[0; 3], None, d, ring).is_err());
            assert!(share_times_weights(p, &[0; 2], Some(&[0; 4]), d, ring).is_err());
            assert!(client_times_server(p, None, None, d, ring).is_err());
            Ok(())
        },
        |p| {
            assert!(share_times_weights(p, &[0; 2], None, d, ring).is_err());
            assert!(share_times_weights(p, &[0; 2], Some(&[0; 5]), d, ring).is_err());
            assert!(share_times_weights(p, &[0; 2], Some(&[1 << 24, 0, 1, 0]), d, ring).is_err());
            Ok(())
        },
    );
}
