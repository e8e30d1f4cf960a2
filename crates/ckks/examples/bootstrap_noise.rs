//! Noise of a bootstrap by the multiple of q0 that mod-raise left in a slot: the table of
//! `python/tacita/slots/noise.py`.
//!
//!     cargo run --release -p tacita-ckks --example bootstrap_noise -- insecure_toy_n14 16 1.0
#[allow(dead_code)] // the tests use all of it
#[path = "../tests/suite/toy.rs"]
mod toy;
use num_complex::Complex64;
use std::collections::BTreeMap;
use tacita_ckks::bootstrap::{Bootstrapper, Content};
use tacita_ckks::params::MOD_RANGE;
use toy::{values, Toy};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let named = |at: usize, other: &str| arguments.get(at).map_or(other, String::as_str).to_owned();
    let repeats: u64 = named(1, "4").parse().unwrap();
    let size: f64 = named(2, "1").parse().unwrap();
    let t = Toy::new(&named(0, "insecure_toy_n13"), &[], true);
    let (e, b) = (&t.evaluator, Bootstrapper::new(&t.evaluator).unwrap());
    let mut found: BTreeMap<u64, (f64, f64, f64, f64)> = BTreeMap::new();
    for salt in 1..=repeats {
        let x: Vec<Complex64> = values(e.params().slots(), salt, true)
            .iter()
            .map(|v| v * size)
            .collect();
        let low = t.encrypt(&x, e.params().bottom_level());
        let raised = b
            .mod_raise(e, &b.slots_to_coefficients(e, &low).unwrap())
            .unwrap();
        let slots = b.coefficients_to_slots(e, raised).unwrap();
        let multiples = t.decrypt(&slots);
        let y = t.decrypt(&b.modular_reduction(e, &slots, Content::Complex).unwrap()[0]);
        for ((m, y), x) in multiples.iter().zip(&y).zip(&x) {
            for (m, error) in [(m.re, y.re - x.re), (m.im, y.im - x.im)] {
                let row = found
                    .entry((2.0 * MOD_RANGE * m).round().abs() as u64)
                    .or_default();
                *row = (
                    row.0 + 1.0,
                    row.1 + error * error,
                    row.2 + error.powi(4),
                    row.3.max(error.abs()),
                );
            }
        }
    }
    let all: f64 = found.values().map(|row| row.0).sum();
    println!("multiple, share, log2 of the standard deviation, kurtosis, largest / deviation");
    for (multiple, (count, squares, fourth, largest)) in found {
        let variance = squares / count;
        let kurtosis = fourth / count / variance / variance;
        println!(
            "{multiple:2} {:.2e} {:.2} {kurtosis:.2} {:.1}",
            count / all,
            0.5 * variance.log2(),
            largest / variance.sqrt()
        );
    }
}
