//! Speed of outer products at full size, beside one tensor product at a time:
//! `cargo run --release -p tacita-ckks --example products -- ROWS COLUMNS TERMS [LIMBS [THREADS]]`.
//!
//! Residues are random, since values cost nothing. An accumulator takes 1.5 MB a limb. A product counts as
//! four modular products a coefficient, and bytes are what a call must move: accumulators in and out, factors
//! in.
use rayon::prelude::*;
use std::time::Instant;
use tacita_ckks::generator::KeyGenerator;
use tacita_ckks::keys::KeySpec;
use tacita_ckks::products::Products;
use tacita_ckks::{Ciphertext, CkksParameters, EvaluationKeys, Evaluator, KeyKind};
use tacita_ring::kernels;
use tacita_ring::sample::{uniform, Prng};
use tacita_rlwe::{RnsPoly, SecretKey};

const REPEATS: usize = 3;

fn random(e: &Evaluator, limbs: usize, seed: usize) -> Ciphertext {
    let poly = |side: usize| {
        let mut p = RnsPoly::zero(e.rlwe(), limbs, 0);
        p.for_each_limb(e.rlwe(), |i, limb| {
            let mut prng = Prng::from_seed([(2 * seed + side) as u8; 32]);
            uniform(&mut prng, e.rlwe().modulus(i), limb);
        });
        p
    };
    Ciphertext {
        polys: vec![poly(0), poly(1)],
        scale: e.params().scale(limbs - 1),
    }
}

/// Best seconds of some runs.
fn best(mut run: impl FnMut()) -> f64 {
    let seconds = |_| {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64()
    };
    (0..REPEATS).map(seconds).fold(f64::INFINITY, f64::min)
}

/// One tensor product at a time, as a loop over `mul` would do it.
fn one_by_one(e: &Evaluator, acc: &mut [RnsPoly], a: &Ciphertext, b: &Ciphertext) {
    let [d0, d1, d2] = acc else { return };
    let limbs = d0.limbs.par_iter_mut().zip(&mut d1.limbs).zip(&mut d2.limbs);
    limbs.enumerate().for_each(|(i, ((d0, d1), d2))| {
        let m = e.rlwe().modulus(i);
        let [a0, a1] = [0, 1].map(|k| &a.polys[k].limbs[i][..]);
        let [b0, b1] = [0, 1].map(|k| &b.polys[k].limbs[i][..]);
        kernels::tensor_accumulate(m, d0, d1, d2, a0, a1, b0, b1);
    });
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = std::env::args().skip(1).map(|x| x.parse::<usize>());
    let sizes: Vec<usize> = arguments.collect::<Result<_, _>>()?;
    let size = |i: usize, default: usize| sizes.get(i).copied().unwrap_or(default);
    let (rows, columns, terms, limbs, threads) =
        (size(0, 8), size(1, 16), size(2, 4), size(3, 12), size(4, 1));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    let e = evaluator(limbs)?;
    let grid = |count: usize, salt: usize| -> Vec<Vec<Ciphertext>> {
        let row = |c: usize| {
            (0..count)
                .map(|k| random(&e, limbs, salt + c * count + k))
                .collect()
        };
        (0..terms).map(row).collect()
    };
    let (left, right) = (grid(rows, 0), grid(columns, 100));
    let a: Vec<Vec<&Ciphertext>> = left.iter().map(|x| x.iter().collect()).collect();
    let b: Vec<Vec<&Ciphertext>> = right.iter().map(|x| x.iter().collect()).collect();
    let mut acc = pool.install(|| e.products(&a, &b))?;
    let seconds = pool.install(|| best(|| e.add_products(&mut acc, &a, &b).expect("operands fit")));
    let limb = (limbs * e.rlwe().n()) as f64;
    let products = (rows * columns * terms) as f64;
    let bytes = 8.0 * limb * (6.0 * (rows * columns) as f64 + 2.0 * (terms * (rows + columns)) as f64);
    let report = |name: &str, seconds: f64| {
        println!(
            "{name}: {:.3} ms a product, {:.2} G modular products/s",
            1e3 * seconds / products,
            4e-9 * products * limb / seconds
        );
    };
    report("together", seconds);
    println!("  {:.1} GB/s, {:.1} s for all", 1e-9 * bytes / seconds, seconds);
    let mut single: Vec<RnsPoly> = (0..3).map(|_| RnsPoly::zero(e.rlwe(), limbs, 0)).collect();
    let pairs = left[0].iter().flat_map(|a| right[0].iter().map(move |b| (a, b)));
    let pairs: Vec<_> = pairs.collect();
    let seconds = pool.install(|| best(|| pairs.iter().for_each(|(a, b)| one_by_one(&e, &mut single, a, b))));
    report(
        "one by one, one accumulator",
        seconds * products / pairs.len() as f64,
    );
    relinearisations(&pool, &e, acc, &left[0][0])
}

/// An evaluator with a relinearisation key for `limbs` limbs.
fn evaluator(limbs: usize) -> Result<Evaluator, Box<dyn std::error::Error>> {
    let params = CkksParameters::preset("n16")?;
    let secret = SecretKey::generate(params.rlwe())?;
    let kind = KeyKind::Relinearise;
    let mut keys = EvaluationKeys::default();
    keys.insert(
        kind,
        KeyGenerator::new(&params, &secret)?.generate(KeySpec { kind, limbs })?,
    );
    Ok(Evaluator::new(params, keys.into()))
}

/// All accumulators at once, across the threads, beside one after the other with the threads inside each.
fn relinearisations(
    pool: &rayon::ThreadPool,
    e: &Evaluator,
    acc: Products,
    x: &Ciphertext,
) -> Result<(), Box<dyn std::error::Error>> {
    let count = (acc.rows() * acc.columns()) as f64;
    let start = Instant::now();
    pool.install(|| e.relinearise(acc).map(drop))?;
    let across = 1e3 * start.elapsed().as_secs_f64() / count;
    let alone = || pool.install(|| e.products(&[vec![x]], &[vec![x]]));
    let singles = (0..16).map(|_| alone()).collect::<Result<Vec<_>, _>>()?;
    let start = Instant::now();
    for acc in singles {
        pool.install(|| e.relinearise(acc).map(drop))?;
    }
    let inside = 1e3 * start.elapsed().as_secs_f64() / 16.0;
    println!("relinearise and rescale: {across:.1} ms each together, {inside:.1} ms one by one");
    Ok(())
}
