//! Speed of a product with a matrix at full size, beside the double-precision product on the same cores:
//! `cargo run --release -p tacita-ckks --example matmul -- INPUTS OUTPUTS [LIMBS [THREADS [PERIOD [DISTINCT]]]]`.
//!
//! The residues of the inputs are random, since values cost nothing; DISTINCT of them are in memory and repeated. An input
//! or output takes LIMBS MB. One modular multiply-add counts as one multiply-add of the real product.
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

/// Multiply-adds a second of the real product, on every thread of the pool at once.
fn dgemm(rows: usize, depth: usize) -> f64 {
    let run = |_| {
        let w = vec![0.5; rows * depth];
        let x = vec![0.25; depth * COLUMNS];
        let mut out = vec![0.0; rows * COLUMNS];
        let (k, n) = (depth as isize, COLUMNS as isize);
        let mut best = f64::INFINITY;
        for _ in 0..10 {
            let start = Instant::now();
            // SAFETY: the vectors are whole row-major matrices of these shapes.
            unsafe {
                let (w, x, out) = (w.as_ptr(), x.as_ptr(), out.as_mut_ptr());
                matrixmultiply::dgemm(rows, depth, COLUMNS, 1.0, w, k, 1, x, n, 1, 0.0, out, n, 1);
            }
            best = best.min(start.elapsed().as_secs_f64());
        }
        (rows * depth * COLUMNS) as f64 / best
    };
    (0..rayon::current_num_threads()).into_par_iter().map(run).sum()
}

fn main() {
    let args: Vec<usize> = std::env::args().skip(1).map(|a| a.parse().expect("a number")).collect();
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
            let start = Instant::now();
            let out = e.matmul(&xs, &matrix).expect("a product");
            let seconds = start.elapsed().as_secs_f64();
            drop(out);
            println!(
                "{outputs} x {inputs} x {period}, {limbs} limbs, {threads} threads, {run}: {seconds:.3} s, {:.2} G/s, dgemm {:.2} G/s, share {:.3}",
                count / seconds / 1e9,
                real / 1e9,
                count / seconds / real
            );
        }
    });
}
