//! Primitives timed natively: the yardstick and one NTT, single-threaded, best of several.
use crate::error;
use pyo3::prelude::*;
use std::time::Instant;
use tacita_ring::packed::{pack, packed_len, Row, SLACK};
use tacita_ring::{kernels, ntt_primes, sample, AlignedVec, BaseConverter, Modulus, NttTable, RingError};

/// Milliseconds of one scalar 64-bit Harvey NTT: the unit Y.
#[pyfunction]
pub fn yardstick_ms(py: Python<'_>, log_n: u32, repeats: usize) -> f64 {
    py.detach(|| tacita_ring::yardstick::yardstick_ms(log_n, repeats))
}

/// Milliseconds of one NTT of ours (one 50-bit limb).
#[pyfunction]
pub fn ntt_ms(py: Python<'_>, log_n: u32, repeats: usize) -> PyResult<f64> {
    py.detach(|| -> Result<f64, RingError> {
        let p = ntt_primes(50.0, log_n + 1, 1, &[])?[0];
        let table = NttTable::new(Modulus::new(p)?, log_n)?;
        let mut x = AlignedVec::zeroed(1 << log_n);
        x.iter_mut().enumerate().for_each(|(i, v)| *v = i as f64);
        Ok(best_ms(repeats, 1, || table.forward(&mut x)))
    })
    .map_err(|e| error::rlwe(e.into()))
}

fn best_ms(repeats: usize, times: usize, mut run: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..repeats.max(1) {
        let start = Instant::now();
        (0..times).for_each(|_| run());
        best = best.min(start.elapsed().as_secs_f64() * 1e3);
    }
    best
}

/// Sources and targets of the conversion that is timed: a digit, and as many limbs as read it together.
const CONVERTED: (usize, usize) = (7, 4);
/// Values of a limb that hot kernels work on again and again, since so much of all limbs lies in the caches.
const HOT: usize = 1 << 9;

/// Milliseconds of what a key switch does between its transforms, out of the caches: the conversion of one
/// limb to one prime, and one limb of one half of the product of two digits with a packed key, divided.
#[pyfunction]
pub fn hot_kernels_ms(py: Python<'_>, log_n: u32, repeats: usize) -> PyResult<(f64, f64)> {
    py.detach(|| -> Result<(f64, f64), RingError> {
        let (sources, targets) = CONVERTED;
        let primes = ntt_primes(50.0, log_n + 1, sources + targets, &[])?;
        let moduli = primes
            .iter()
            .map(|&p| Modulus::new(p))
            .collect::<Result<Vec<_>, _>>()?;
        let limb = |(i, m): (usize, &Modulus)| {
            let mut x = AlignedVec::zeroed(HOT);
            sample::uniform(&mut sample::Prng::from_seed([i as u8; 32]), m, &mut x);
            x
        };
        let limbs: Vec<AlignedVec> = moduli.iter().enumerate().map(limb).collect();
        let times = (1usize << log_n).div_ceil(HOT);

        let converter = BaseConverter::new(&moduli[..sources], &moduli[sources..]);
        let mut scaled = limbs[..sources].to_vec();
        scaled
            .iter_mut()
            .enumerate()
            .for_each(|(i, x)| converter.scale_inputs(i, x));
        let ys: Vec<&[f64]> = scaled.iter().map(|y| &y[..]).collect();
        let (all, mut outs) = ((0..targets).collect::<Vec<_>>(), limbs[sources..].to_vec());
        let conversions = best_ms(repeats, times, || converter.convert(&ys, &all, &mut outs));

        let (m, p) = (&moduli[0], primes[0]);
        let mut bytes = vec![0; packed_len(HOT, p) + SLACK];
        assert!(
            pack(&limbs[0], p, &mut bytes[..packed_len(HOT, p)]),
            "residues are canonical"
        );
        let (x, keys, mut out) = (
            &limbs[0][..],
            [Row::new(&bytes, HOT, p); 2],
            AlignedVec::zeroed(HOT),
        );
        let product = || kernels::divided_product_packed(m, &mut out, &[x, x], &keys, x, 3, Some((x, 5)));
        Ok((
            conversions / (sources * targets) as f64,
            best_ms(repeats, times, product),
        ))
    })
    .map_err(|e| error::rlwe(e.into()))
}

/// The commit that was built, 12 hexadecimal digits; empty outside a clone.
#[pyfunction]
pub fn commit() -> &'static str {
    env!("TACITA_COMMIT")
}

/// Which implementation of the kernels is in force: scalar, avx2 or avx512.
#[pyfunction]
pub fn simd_path() -> PyResult<&'static str> {
    let path = tacita_ring::simd_path().map_err(|e| error::rlwe(e.into()))?;
    Ok(path.name())
}

/// How many tasks of equal size a phase of a key switch on so many limbs has. converted: whether the limbs
/// are targets of a conversion.
#[pyfunction]
pub fn limb_tasks(limbs: usize, log_n: u32, threads: usize, converted: bool) -> usize {
    tacita_rlwe::keyswitch::tasks(limbs, 1 << log_n.min(17), threads, converted)
}
