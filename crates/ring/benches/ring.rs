//! Kernels at N = 2^16 on one core, beside the yardstick Y. Run once per path:
//! `TACITA_SIMD=avx2 taskset -c 1 cargo bench -p tacita-ring`.

mod timing;
use tacita_ring::yardstick::Yardstick;
use tacita_ring::{
    kernels, ntt_primes, packed, sample, AlignedVec, BaseConverter, Modulus, NttTable, Region,
};
use timing::time;

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
fn transforms() {
    let mut yardstick = Yardstick::new(LOG_N);
    time("yardstick", || yardstick.run());
    let Setup { moduli, mut limbs } = Setup::new();
    let tables: Vec<NttTable> = moduli
        .iter()
        .map(|&m| NttTable::new(m, LOG_N).expect("friendly"))
        .collect();
    time("ntt forward", || tables[0].forward(&mut limbs[0]));
    time("ntt inverse", || tables[0].inverse(&mut limbs[0]));
    time("ntt forward, 12 primes", || {
        tables
            .iter()
            .zip(&mut limbs)
            .for_each(|(table, x)| table.forward(x))
    });
    time("ntt inverse, 12 primes", || {
        tables
            .iter()
            .zip(&mut limbs)
            .for_each(|(table, x)| table.inverse(x))
    });
}

fn base_conversion() {
    let Setup { moduli, mut limbs } = Setup::new();
    let mut out = AlignedVec::zeroed(1 << LOG_N);
    let converter = BaseConverter::new(&moduli[..7], &moduli[7..]);
    time("convert, scale one limb", || {
        converter.scale_inputs(0, &mut limbs[0])
    });
    limbs
        .iter_mut()
        .enumerate()
        .take(7)
        .for_each(|(i, limb)| converter.scale_inputs(i, limb));
    let ys: Vec<&[f64]> = limbs[..7].iter().map(|limb| &limb[..]).collect();
    time("convert, overflow of 7 terms", || {
        converter.overflow(&ys, &mut out)
    });
    let mut outs: Vec<AlignedVec> = (0..4).map(|_| AlignedVec::zeroed(1 << LOG_N)).collect();
    time("convert, 7 terms to 4 primes", || {
        converter.convert(&ys, &[0, 1, 2, 3], &mut outs)
    });
}

fn products() {
    let Setup { moduli, limbs } = Setup::new();
    let (m, refs) = (moduli[0], limbs.iter().map(|limb| &limb[..]).collect::<Vec<_>>());
    let (mut x, mut y) = (random_limb(&m), random_limb(&m));
    time("mul", || kernels::mul(&m, &mut x, refs[0], refs[1]));
    time("mul_accumulate2", || {
        kernels::mul_accumulate2(&m, &mut x, &mut y, refs[0], refs[1], refs[2])
    });
    time("inner_product2, 4 digits", || {
        kernels::inner_product2(&m, &mut x, &mut y, &refs[..4], &refs[4..8], &refs[8..])
    });
    for weights in [64, 4096, 32768, 65536] {
        let terms: Vec<(&[f64], &[f64])> = refs[..8].iter().map(|&a| (a, &refs[8][..weights])).collect();
        let name = format!("mac_runs, 8 terms of {weights} weights");
        time(&name, || kernels::mac_runs(&m, &mut x, &terms));
    }
}

/// A limb of three digits with packed keys of 38 bits: each key is read once, of more than any cache holds,
/// in order or by blocks of an automorphism's order; or the same block of one key again and again.
fn switches() {
    const KEYS: usize = 400;
    let (n, p) = (
        1 << LOG_N,
        ntt_primes(38.0, LOG_N + 1, 1, &[]).expect("primes abound")[0],
    );
    let (m, bytes) = (Modulus::new(p).expect("a prime"), packed::packed_len(n, p));
    let digit = random_limb(&m);
    let (ds, mut outs) = ([(); 3].map(|()| digit.clone()), [(); 2].map(|()| random_limb(&m)));
    let mut keys = Region::zeroed(6 * KEYS * bytes + packed::SLACK);
    for row in keys[..6 * KEYS * bytes].chunks_exact_mut(bytes) {
        assert!(packed::pack(&digit, p, row));
    }
    let mut key = 0;
    for (name, block, step) in [
        ("in order", n, 1),
        ("by blocks", 2048, 37),
        ("in the caches", 2048, 0),
    ] {
        time(&format!("inner_product2_packed, 3 digits, {name}"), || {
            key = (key + step.min(1)) % KEYS;
            for b in 0..n / block {
                let from = (b * step + key) % (n / block) * block * step.min(1);
                let at = |row: usize| (6 * key + row) * bytes + packed::packed_len(from, p);
                let row = |row: usize| packed::Row::new(&keys[at(row)..], block, p);
                let parts = ds.each_ref().map(|d| &d[from..from + block]);
                let [out0, out1] = outs.each_mut().map(|out| &mut out[from..from + block]);
                let halves = [[0, 1, 2].map(row), [3, 4, 5].map(row)];
                kernels::inner_product2_packed(&m, out0, out1, &parts, &halves[0], &halves[1]);
            }
        });
    }
}

fn sampling() {
    let m = Setup::new().moduli[0];
    let (mut prng, mut out) = (sample::Prng::from_seed([1; 32]), AlignedVec::zeroed(1 << LOG_N));
    time("uniform", || sample::uniform(&mut prng, &m, &mut out));
    time("gaussian", || sample::gaussian(&mut prng, 1 << LOG_N, 3.2));
}

fn main() {
    transforms();
    base_conversion();
    products();
    switches();
    sampling();
}
