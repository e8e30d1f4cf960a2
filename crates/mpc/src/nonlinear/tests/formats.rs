use super::*;
use crate::nonlinear::chain::Chain;
use crate::nonlinear::fits;

#[test]
fn rescaling_multiplies_in_every_format() {
    let x: Vec<f64> = noise(200, 3)
        .iter()
        .map(|n| 30.0 * n)
        .chain([0.0, 31.5, -31.5])
        .collect();
    for (from, factor, to) in [
        (WIDE, 1.0, Fixed::new(20, 6)),
        (WIDE, 0.378766387, Fixed::new(32, 15)),
        (WIDE, -2.5, Fixed::new(40, 18)),
        (Fixed::new(32, 12), 0.37, Fixed::new(32, 15)),
        (Fixed::new(20, 10), 1.7, Fixed::new(48, 22)),
        (Fixed::new(33, 8), 1.0, Fixed::new(50, 20)),
    ] {
        let y = apply(&x, from, to, |party, x| rescale(party, x, from, factor, to));
        let unit = (-f64::from(to.frac)).exp2();
        for (&x, &y) in x.iter().zip(&y) {
            let exact = from.decode(from.encode(x)) * factor;
            let error = (y - exact).abs();
            assert!(
                error <= 1.01 * unit + exact.abs() / 16384.0,
                "{x} {from:?} to {to:?}: off by {error}"
            );
        }
    }
}

#[test]
fn rescaling_wraps_with_the_smaller_ring() {
    let to = Fixed::new(8, 2);
    let y = apply(&[100.0, -100.0, 33.0], WIDE, to, |party, x| {
        rescale(party, x, WIDE, 1.0, to)
    });
    for (y, expected) in y.iter().zip([-28.0, 28.0, -31.0]) {
        assert!((y - expected).abs() <= 0.25, "{y} for {expected}");
    }
}

#[test]
fn converting_keeps_values_up_to_the_bound() {
    let from = Fixed::new(20, 10);
    let most = 256.0 - 1.0 / 1024.0;
    let x = [0.0, 1.0 / 1024.0, -1.0 / 1024.0, most, -256.0, 17.25];
    for to in [
        Fixed::new(64, 18),
        Fixed::new(30, 10),
        Fixed::new(19, 4),
        Fixed::new(40, 30),
    ] {
        let y = apply(&x, from, to, |party, x| convert(party, x, from, to));
        let unit = (-f64::from(to.frac.min(from.frac))).exp2();
        for (&x, &y) in x.iter().zip(&y) {
            let error = (y - x).abs();
            let allowed = if to.frac < from.frac { unit } else { 0.0 };
            assert!(error <= allowed, "{x} to {to:?}: off by {error}");
        }
    }
}

#[test]
fn formats_that_cannot_hold_a_value_are_refused() {
    let (refused, _) = run_both((vec![1], vec![2]), |party, x| {
        ready(party)?;
        let down = convert(party, &x, Fixed::new(20, 2), Fixed::new(10, 14)).is_err();
        Ok(down && rescale(party, &x, WIDE, 1e-9, Fixed::new(60, 18)).is_err())
    });
    assert!(refused);
}

fn t_values(chain: &Chain, x: f64) -> Vec<f64> {
    (0..=chain.stages.len())
        .map(|n| {
            Chain {
                stages: &chain.stages[..n],
                exponent: 0,
                ..*chain
            }
            .plain(x)
        })
        .collect()
}

/// A chain, its function and the largest error.
type Case<'a> = (&'a Chain, &'a dyn Fn(f64) -> f64, f64);

#[test]
fn every_chain_stays_in_its_range_and_near_its_function() {
    let silu = |a: f64| a / (1.0 + a.exp());
    let tanh = |a: f64| 0.5 * a * (1.0 - (0.7978845608 * (a + 0.044715 * a.powi(3))).tanh());
    let cases: [Case; 8] = [
        (&fits::GELU_TANH, &tanh, 2e-3),
        (&fits::GELU_TANH_FINE, &tanh, 1.5e-4),
        (&fits::SILU, &silu, 2.1e-3),
        (&fits::SILU_FINE, &silu, 1.4e-4),
        (&fits::ROOT_EXP, &|x: f64| (x / 2.0).exp() / 2f64.sqrt(), 6e-5),
        (&fits::TANH, &|a: f64| 1.0 - a.tanh(), 3.8e-4),
        (&fits::RECIPROCAL, &|x: f64| 1.0 / x, 8e-6),
        (&fits::RSQRT, &|x: f64| 1.0 / x.sqrt(), 1.5e-6),
    ];
    for (chain, function, bound) in cases {
        for x in grid(chain.low, chain.high, 3001) {
            let error = (chain.plain(x) - function(x)).abs();
            assert!(error < bound, "{chain:?} at {x}: {error}");
        }
    }
    for chain in [&fits::GELU, &fits::GELU_FINE, &fits::P4]
        .into_iter()
        .chain(cases.map(|c| c.0))
    {
        let largest = grid(chain.low, chain.high, 3001)
            .into_iter()
            .flat_map(|x| t_values(chain, x));
        let largest = largest.fold(0.0, |a: f64, t| a.max(t.abs()));
        assert!(largest < 0.999, "{chain:?} reaches {largest}");
    }
}
