use super::*;
use crate::testing::sample_primes;

fn prng(seed: u8) -> Prng {
    Prng::from_seed([seed; 32])
}

#[test]
fn uniform_is_the_documented_function_of_the_stream() {
    for m in sample_primes(18) {
        let mut out = vec![0.0; 3000];
        uniform(&mut prng(1), &m, &mut out);
        let (mut reference, mask) = (prng(1), m.p().next_power_of_two() - 1);
        let words = std::iter::repeat_with(|| {
            let mut word = [0; 8];
            reference.fill(&mut word);
            u64::from_le_bytes(word) & mask
        });
        let expected: Vec<f64> = words
            .filter(|&w| w < m.p())
            .take(3000)
            .map(|w| w as f64)
            .collect();
        assert_eq!(out, expected);
    }
}

#[test]
fn uniform_has_the_right_mean_and_spread() {
    let m = sample_primes(18)[0];
    let mut out = vec![0.0; 1 << 16];
    uniform(&mut prng(2), &m, &mut out);
    let p = m.p() as f64;
    let mean = out.iter().sum::<f64>() / p / out.len() as f64;
    let square = out.iter().map(|x| (x / p) * (x / p)).sum::<f64>() / out.len() as f64;
    assert!(
        (mean - 0.5).abs() < 0.01 && (square - 1.0 / 3.0).abs() < 0.01,
        "{mean} {square}"
    );
}

#[test]
fn ternary_values_are_equally_likely() {
    let values = ternary(&mut prng(3), 1 << 16);
    for v in [-1, 0, 1] {
        let share = values.iter().filter(|&&x| x == v).count() as f64 / values.len() as f64;
        assert!((share - 1.0 / 3.0).abs() < 0.01, "{v}: {share}");
    }
    assert_eq!(ternary(&mut prng(3), 5).len(), 5);
}

#[test]
fn sparse_ternary_has_the_weight_asked_for() {
    for h in [0, 1, 32, 192, 1024] {
        let values = sparse_ternary(&mut prng(4), 1024, h);
        assert_eq!(values.iter().filter(|&&x| x != 0).count(), h);
        assert!(values.iter().all(|x| (-1..=1).contains(x)));
    }
}

#[test]
fn gaussian_has_its_deviation_shape_and_bound() {
    let (n, sigma) = (1 << 18, 3.2);
    let values = gaussian(&mut prng(5), n, sigma);
    let moment = |k: i32| values.iter().map(|&x| f64::from(x).powi(k)).sum::<f64>() / n as f64;
    assert!(moment(1).abs() < 0.05 && moment(3).abs() < 2.0);
    assert!((moment(2).sqrt() - sigma).abs() < 0.03, "{}", moment(2).sqrt());
    assert!((moment(4) / moment(2).powi(2) - 3.0).abs() < 0.1);
    assert!(values.iter().all(|x| x.abs() <= 19));
    let share = |v: i32| values.iter().filter(|&&x| x == v).count() as f64 / n as f64;
    for v in [-3, -1, 0, 1, 2] {
        let expected =
            (-f64::from(v * v) / (2.0 * sigma * sigma)).exp() / (sigma * (2.0 * std::f64::consts::PI).sqrt());
        assert!(
            (share(v) - expected).abs() < 0.004,
            "{v}: {} instead of {expected}",
            share(v)
        );
    }
}

#[test]
fn streams_repeat_by_seed_and_differ_otherwise() {
    assert_eq!(prng(6).seed(), prng(6).seed());
    assert_ne!(prng(6).seed(), prng(7).seed());
    assert_ne!(Prng::from_os().unwrap().seed(), Prng::from_os().unwrap().seed());
}

/// What is left in memory where a stream was: its words must be those of a stream that never had this seed.
#[test]
fn a_dropped_stream_leaves_neither_its_seed_nor_its_bytes() {
    let mut place = Box::new(std::mem::MaybeUninit::new(prng(0x5a)));
    let mut ahead = [0; 8];
    // SAFETY: initialised above; read as a stream before it is dropped and as plain words after.
    let left = unsafe {
        place.assume_init_mut().fill(&mut ahead);
        place.assume_init_drop();
        std::slice::from_raw_parts(place.as_ptr().cast::<u8>(), std::mem::size_of::<Prng>()).to_vec()
    };
    assert!(
        !left.windows(8).any(|bytes| bytes == [0x5a; 8]),
        "the seed is still there"
    );
    assert!(
        !left.windows(8).any(|bytes| bytes == ahead),
        "bytes of the stream are still there"
    );
}
