//! Bytes on the wire, so that a change that costs more is seen. COTs come from the test dealer and are not
//! counted.
use super::*;
use crate::channel::Link;
use crate::compare::{max_rows, Window};
use crate::nonlinear::few::FEW;
use crate::testing::run_behind;
use std::time::Duration;

/// Bits for each element, and rounds, of a protocol at the client, keys left out.
fn cost(count: usize, protocol: impl Fn(&mut Party, &[u64]) -> Result<Vec<u64>> + Sync + Send) -> (f64, u64) {
    let shares = (vec![0u64; count], vec![0u64; count]);
    let ((bits, rounds), _) = run_both(shares, |party, x| {
        ready(party)?;
        protocol(party, &x)?;
        let (before, rounds) = (party.sent() + party.received(), party.profile().rounds());
        protocol(party, &x)?;
        let bytes = party.sent() + party.received() - before;
        Ok((
            8.0 * bytes as f64 / count as f64,
            party.profile().rounds() - rounds,
        ))
    });
    (bits, rounds)
}

/// Within 5% of the expected value, so that a saving is written down too.
fn assert_near(what: &str, found: f64, expected: f64) {
    println!("{what}: {found:.0} bits");
    assert!(
        (found / expected - 1.0).abs() < 0.05,
        "{what}: {found:.0} bits an element, {expected} expected"
    );
}

#[test]
fn activations_cost_what_is_documented() {
    let gelu = |form| {
        cost(8192, move |party, x| {
            gelu_with(party, x, WIDE, WIDE.ring, form, RANGE)
        })
    };
    let (bits, rounds) = gelu(GeluForm::Abs4);
    assert!(rounds <= 16, "{rounds} rounds");
    assert_near("gelu", bits, 920.0);
    assert_near("gelu, third square", gelu(GeluForm::Abs8).0, 1153.0);
    assert_near("gelu of the paper", gelu(GeluForm::Seg4).0, 3164.0);
    assert_near(
        "silu",
        cost(8192, |party, x| {
            silu(party, x, WIDE, WIDE.ring, SiluForm::Abs8, RANGE)
        })
        .0,
        1185.0,
    );
    assert_near(
        "silu, fourth square",
        cost(8192, |party, x| {
            silu(party, x, WIDE, WIDE.ring, SiluForm::Abs16, RANGE)
        })
        .0,
        1418.0,
    );
    let (bits, rounds) = cost(8192, |party, x| elu(party, x, WIDE, WIDE, RANGE));
    assert!(rounds <= 16, "{rounds} rounds of elu");
    assert_near("elu", bits, 1342.0);
}

#[test]
fn rows_cost_what_is_documented() {
    assert_near(
        "softmax",
        cost(16384, |party, x| softmax(party, x, 128, 128, WIDE, 11, WIDE)).0,
        1981.0,
    );
    let norm = |rows, cols| Norm {
        rows,
        cols,
        centred: true,
        bound: 8.0,
        least: 0.1,
        gamma: 2.0,
        epsilon: 1e-5,
    };
    let layer = |rows: usize, cols: usize| {
        let run = move |party: &mut Party, x: &[u64]| {
            let gamma = vec![1.0; cols];
            let gamma = (!party.is_client()).then_some(gamma.as_slice());
            layer_norm(party, x, WIDE, &norm(rows, cols), gamma, None, WIDE)
        };
        cost(rows * cols, run).0
    };
    assert_near("layer norm", layer(64, 128), 1597.0);
    assert_near("layer norm of four ciphertexts", layer(128, 256), 1116.0);
    assert_near("layer norm of a row", layer(1, 576), 3130.0);
}

/// Messages that wait for one another in a second run of a protocol: each link of the longest chain takes a
/// second of a clock on which nothing else takes time.
fn chain(count: usize, protocol: impl Fn(&mut Party, &[u64]) -> Result<Vec<u64>> + Sync + Send) -> f64 {
    let link = Link {
        bandwidth: f64::INFINITY,
        rtt: Duration::from_secs(2),
    };
    let [client, server] = run_behind(link, |party| {
        ready(party)?;
        let x = vec![0; count];
        protocol(party, &x)?;
        let before = party.skipped_seconds();
        protocol(party, &x)?;
        Ok(party.skipped_seconds() - before)
    });
    client.max(server)
}

/// Half rounds, counted by hand: thresholds 6 of 41 bits (4 of 23, whose last goes with the choice), what
/// they choose 2, three squares 6, the product 2, and 2 where the result has to grow. Of one row thresholds 4
/// of 31 bits, beside a square, what they choose 2.
#[test]
fn functions_of_rows_wait_seldom() {
    let (narrow, wide) = (Fixed::new(46, 32), Fixed::new(56, 16));
    let span = Span { low: -12, high: 8 };
    let root = |to: Fixed| chain(128, move |party, x| rsqrt(party, x, narrow, span, 1.0, to));
    assert_eq!((root(wide), root(Fixed::new(30, 16))), (18.0, 16.0));
    let (sums, inverse) = (Fixed::new(42, 28), Fixed::new(24, 16));
    let one = chain(1, move |party, x| rsqrt(party, x, sums, span, 1.0, inverse));
    assert_eq!(one, 6.0);
    let sums = (Fixed::new(26, 14), Span { low: -1, high: 8 });
    let inverse = |party: &mut Party, x: &[u64]| reciprocal(party, x, sums.0, sums.1, Fixed::new(40, 24));
    assert_eq!((chain(256, inverse), chain(3, inverse)), (14.0, 8.0));
}

/// Half rounds: the thresholds of an activation 6, beside the first square, the sign's choice 2, two squares
/// 4, the choice inside 2, growth 2. Many values square by ciphertexts, which wait for the thresholds.
#[test]
fn the_first_square_does_not_wait_for_thresholds() {
    let (from, to) = (Fixed::new(50, 18), Fixed::new(44, 14));
    let silu = |count: usize| {
        chain(count, move |party, x| {
            silu(party, x, from, Ring::new(44), SiluForm::Abs8, 5)
        })
    };
    assert_eq!((silu(8), silu(FEW - 1), silu(FEW)), (16.0, 16.0, 18.0));
    let exp = |count: usize| chain(count, move |party, x| exp(party, x, from, to, 5));
    assert_eq!(exp(FEW - 1), exp(FEW) - 2.0);
}

/// A comparison of 16 bits is 3 or 5 half rounds, its look-ups 1 or 2, its choice 2: three levels of 128
/// columns, where pairs took seven; five of 2048 words.
#[test]
fn maxima_take_few_levels() {
    let most = |rows: usize, cols: usize| {
        let ring = Ring::new(17);
        chain(rows * cols, move |party, x| {
            max_rows(party, x, rows, cols, ring, Window::whole(ring))
        })
    };
    assert!(most(128, 128) <= 27.0, "{}", most(128, 128));
    assert!(most(1, 2048) <= 34.0, "{}", most(1, 2048));
}
