//! Speed of a product with a matrix at full size, beside the double-precision product on the same cores:
//! `cargo run --release -p tacita-ckks --example matmul -- INPUTS OUTPUTS [LIMBS [THREADS [PERIOD
//! [DISTINCT]]]]`.
//!
//! The residues of the inputs are random, since values cost nothing; DISTINCT of them are in memory and
//! repeated. An input or output takes LIMBS MB. One modular multiply-add counts as one multiply-add of the
//! real product. Rates are by processor time, so that other work on the machine matters little; the wall time
//! is given beside.
use rayon::prelude::*;
use std::time::Instant;
use tacita_ckks::matmul::Matrix;
use tacita_ckks::{Ciphertext, CkksParameters, EvaluationKeys, Evaluator};
use tacita_ring::sample::{uniform, Prng};
use tacita_rlwe::RnsPoly;

/// Columns of the real product.
const COLUMNS: usize = 1024;

fn random(e: &Evaluator, limbs: usize, seed: u8) -> Ciphertext {
    let poly = |side: u8| {
        let mut p = RnsPoly::zero(e.rlwe(), limbs, 0);
        p.for_each_limb(e.rlwe(), |i, limb| {
            let mut prng = Prng::from_seed([seed.wrapping_mul(2) + side; 32]);
            uniform(&mut prng, e.rlwe().modulus(i), limb);
        });
        p
    };
    Ciphertext {
        polys: vec![poly(0), poly(1)],
        scale: e.params().scale(limbs - 1),
    }
}

/// Processor seconds of the process so far (Linux counts them in hundredths).
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let (_, fields) = stat.rsplit_once(')').expect("the name in parentheses");
    let ticks = |i: usize| {
        fields
            .split_whitespace()
            .nth(i)
            .and_then(|x| x.parse::<f64>().ok())
    };
    (ticks(11).expect("user time") + ticks(12).expect("system time")) / 100.0
}

/// Multiply-adds a processor second of the real product, on every thread of the pool at once.
fn dgemm(rows: usize, depth: usize) -> f64 {
    let repeats = (1 << 35) / (rows * depth * COLUMNS) + 1;
    let run = |_| {
        let w = vec![0.5; rows * depth];
        let x = vec![0.25; depth * COLUMNS];
        let mut out = vec![0.0; rows * COLUMNS];
        let (k, n) = (depth as isize, COLUMNS as isize);
        for _ in 0..repeats {
            // SAFETY: the vectors are whole row-major matrices of these shapes.
            unsafe {
                let (w, x, out) = (w.as_ptr(), x.as_ptr(), out.as_mut_ptr());
                matrixmultiply::dgemm(rows, depth, COLUMNS, 1.0, w, k, 1, x, n, 1, 0.0, out, n, 1);
            }
        }
        (rows * depth * COLUMNS * repeats) as f64
    };
    let start = cpu_seconds();
    let count: f64 = (0..rayon::current_num_threads()).into_par_iter().map(run).sum();
    count / (cpu_seconds() - start)
}

fn main() {
    let args: Vec<usize> = std::env::args()
        .skip(1)
        .map(|a| a.parse().expect("a number"))
        .collect();
    let at = |i: usize, default: usize| args.get(i).copied().unwrap_or(default);
    let (inputs, outputs, limbs, threads, period) = (at(0, 128), at(1, 128), at(2, 10), at(3, 1), at(4, 1));
    let distinct = at(5, inputs).min(inputs);
    let params = CkksParameters::preset("n16").expect("the full-size preset");
    let n = params.rlwe().n();
    let e = Evaluator::new(params, EvaluationKeys::default().into());
    let xs: Vec<Ciphertext> = (0..distinct).map(|i| random(&e, limbs, i as u8)).collect();
    let xs: Vec<&Ciphertext> = xs.iter().cycle().take(inputs).collect();
    let weights: Vec<f64> = (0..outputs * inputs * period).map(|i| (i as f64).sin()).collect();
    let matrix = Matrix {
        weights: &weights,
        bias: None,
        outputs,
        period,
    };
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .expect("a pool");
    pool.install(|| {
        let real = dgemm(outputs, inputs * period);
        let count = (2 * limbs * n * weights.len()) as f64;
        for run in ["first", "warm"] {
            let (start, cpu) = (Instant::now(), cpu_seconds());
            let out = e.matmul(&xs, &matrix).expect("a product");
            let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
            drop(out);
            let rate = count / cpu;
            println!(
                "{outputs} x {inputs} x {period}, {limbs} limbs, {threads} threads, {run}: {seconds:.2} s, \
                cpu {cpu:.2} s, {:.2} G/s, dgemm {:.2} G/s, share {:.3}",
                rate / 1e9,
                real / 1e9,
                rate / real
            );
        }
    });
}
