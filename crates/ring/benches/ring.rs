//! Kernels at N = 2^16 on one core, beside the yardstick Y. Run once per path:
//! `TACITA_SIMD=avx2 taskset -c 1 cargo bench -p tacita-ring`.

use criterion::{criterion_group, criterion_main, Criterion};
use std::time::Duration;
use tacita_ring::yardstick::Yardstick;
use tacita_ring::{kernels, ntt_primes, sample, AlignedVec, BaseConverter, Modulus, NttTable};

const LOG_N: u32 = 16;
const PRIMES: usize = 12;

struct Setup {
    moduli: Vec<Modulus>,
    limbs: Vec<AlignedVec>,
}

impl Setup {
    fn new() -> Self {
        let primes = ntt_primes(49.9, LOG_N + 1, PRIMES, &[]).expect("primes abound");
        let moduli: Vec<Modulus> = primes
            .into_iter()
            .map(|p| Modulus::new(p).expect("a prime"))
            .collect();
        let limbs = moduli.iter().map(random_limb).collect();
        Self { moduli, limbs }
    }
}

fn random_limb(m: &Modulus) -> AlignedVec {
    let mut limb = AlignedVec::zeroed(1 << LOG_N);
    sample::uniform(&mut sample::Prng::from_seed([7; 32]), m, &mut limb);
    limb
}

/// One prime again and again (roots in cache), and twelve in turn (roots from further away, as in use).
fn transforms(c: &mut Criterion) {
    let mut yardstick = Yardstick::new(LOG_N);
    c.bench_function("yardstick", |b| b.iter(|| yardstick.run()));
    let Setup { moduli, mut limbs } = Setup::new();
    let tables: Vec<NttTable> = moduli
        .iter()
        .map(|&m| NttTable::new(m, LOG_N).expect("friendly"))
        .collect();
    c.bench_function("ntt forward", |b| b.iter(|| tables[0].forward(&mut limbs[0])));
    c.bench_function("ntt inverse", |b| b.iter(|| tables[0].inverse(&mut limbs[0])));
    c.bench_function("ntt forward, 12 primes", |b| {
        b.iter(|| {
            tables
                .iter()
                .zip(&mut limbs)
                .for_each(|(table, x)| table.forward(x))
        })
    });
    c.bench_function("ntt inverse, 12 primes", |b| {
        b.iter(|| {
            tables
                .iter()
                .zip(&mut limbs)
                .for_each(|(table, x)| table.inverse(x))
        })
    });
}

fn base_conversion(c: &mut Criterion) {
    let Setup { moduli, mut limbs } = Setup::new();
    let mut out = AlignedVec::zeroed(1 << LOG_N);
    let converter = BaseConverter::new(&moduli[..7], &moduli[7..]);
    c.bench_function("convert, scale one limb", |b| {
        b.iter(|| converter.scale_inputs(0, &mut limbs[0]))
    });
    limbs
        .iter_mut()
        .enumerate()
        .take(7)
        .for_each(|(i, limb)| converter.scale_inputs(i, limb));
    let ys: Vec<&[f64]> = limbs[..7].iter().map(|limb| &limb[..]).collect();
    c.bench_function("convert, overflow of 7 terms", |b| {
        b.iter(|| converter.overflow(&ys, &mut out))
    });
    let mut outs: Vec<AlignedVec> = (0..4).map(|_| AlignedVec::zeroed(1 << LOG_N)).collect();
    c.bench_function("convert, 7 terms to 4 primes", |b| {
        b.iter(|| converter.convert(&ys, &[0, 1, 2, 3], &mut outs))
    });
}

fn products(c: &mut Criterion) {
    let Setup { moduli, limbs } = Setup::new();
    let (m, refs) = (moduli[0], limbs.iter().map(|limb| &limb[..]).collect::<Vec<_>>());
    let (mut x, mut y) = (random_limb(&m), random_limb(&m));
    c.bench_function("mul", |b| b.iter(|| kernels::mul(&m, &mut x, refs[0], refs[1])));
    c.bench_function("mul_accumulate2", |b| {
        b.iter(|| kernels::mul_accumulate2(&m, &mut x, &mut y, refs[0], refs[1], refs[2]))
    });
    c.bench_function("inner_product2, 4 digits", |b| {
        b.iter(|| kernels::inner_product2(&m, &mut x, &mut y, &refs[..4], &refs[4..8], &refs[8..]))
    });
    for weights in [64, 4096, 32768, 65536] {
        let terms: Vec<(&[f64], &[f64])> = refs[..8].iter().map(|&a| (a, &refs[8][..weights])).collect();
        let name = format!("mac_runs, 8 terms of {weights} weights");
        c.bench_function(&name, |b| b.iter(|| kernels::mac_runs(&m, &mut x, &terms)));
    }
}

fn sampling(c: &mut Criterion) {
    let m = Setup::new().moduli[0];
    let (mut prng, mut out) = (sample::Prng::from_seed([1; 32]), AlignedVec::zeroed(1 << LOG_N));
    c.bench_function("uniform", |b| b.iter(|| sample::uniform(&mut prng, &m, &mut out)));
    c.bench_function("gaussian", |b| {
        b.iter(|| sample::gaussian(&mut prng, 1 << LOG_N, 3.2))
    });
}

criterion_group! {
    name = ring;
    config = Criterion::default()
        .measurement_time(Duration::from_secs(2))
        .warm_up_time(Duration::from_millis(300));
    targets = transforms, base_conversion, products, sampling
}
criterion_main!(ring);
