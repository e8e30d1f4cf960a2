//! The modular matrix product on one core beside the double-precision product of the same shape, in columns
//! of one limb. One modular product counts as one multiply-add: the share of DGEMM is the ratio of the two
//! times, at most a half. Run once per path:
//! `TACITA_SIMD=avx2 taskset -c 1 cargo bench -p tacita-ring --bench gemm`.

mod timing;
use tacita_ring::gemm::{self, Input, Weights};
use tacita_ring::{ntt_primes, sample, AlignedVec, Modulus};
use timing::time;

/// Length of a limb, and the columns of it that one call multiplies.
const N: usize = 1 << 16;
const COLUMNS: usize = 1024;

struct Setup {
    modulus: Modulus,
    limbs: Vec<AlignedVec>,
}

impl Setup {
    /// Residues are uniform, so that data at every place costs the same.
    fn new(depth: usize) -> Self {
        let prime = ntt_primes(48.0, 17, 1, &[]).expect("primes abound")[0];
        let modulus = Modulus::new(prime).expect("a prime");
        let mut prng = sample::Prng::from_seed([7; 32]);
        let limb = |_| {
            let mut limb = AlignedVec::zeroed(N);
            sample::uniform(&mut prng, &modulus, &mut limb);
            limb
        };
        let limbs = (0..depth).map(limb).collect();
        Self { modulus, limbs }
    }
}

fn matrix(rows: usize, depth: usize) -> Vec<f64> {
    (0..rows * depth).map(|i| (i as f64 * 0.37).sin() * 0.1).collect()
}

fn modular(rows: usize, depth: usize) {
    let Setup { modulus, limbs } = Setup::new(depth);
    let weights = Weights::round(&matrix(rows, depth), depth, 48f64.exp2()).expect("a matrix");
    let inputs: Vec<Input<'_>> = limbs.iter().map(|limb| Input { limb, runs: &[] }).collect();
    let mut out: Vec<AlignedVec> = (0..rows).map(|_| AlignedVec::zeroed(COLUMNS)).collect();
    let mut first = 0;
    time(&format!("modular, {rows} x {depth} x {COLUMNS}"), || {
        let mut out: Vec<&mut [f64]> = out.iter_mut().map(|o| &mut o[..]).collect();
        gemm::product(&modulus, &weights, &inputs, first, &mut out);
        first = (first + COLUMNS) % N;
    });
}

fn real(rows: usize, depth: usize) {
    let (w, x, mut out) = (matrix(rows, depth), matrix(depth, COLUMNS), matrix(rows, COLUMNS));
    let (k, n) = (depth as isize, COLUMNS as isize);
    let product = |out: &mut [f64]| {
        // SAFETY: the slices are whole row-major matrices of these shapes.
        unsafe {
            let (w, x, out) = (w.as_ptr(), x.as_ptr(), out.as_mut_ptr());
            matrixmultiply::dgemm(rows, depth, COLUMNS, 1.0, w, k, 1, x, n, 1, 0.0, out, n, 1);
        }
    };
    time(&format!("dgemm, {rows} x {depth} x {COLUMNS}"), || {
        product(&mut out)
    });
}

fn products() {
    for (rows, depth) in [(128, 128), (768, 768), (768, 3072)] {
        modular(rows, depth);
        real(rows, depth);
    }
}

fn main() {
    products();
}
