//! The negacyclic number-theoretic transform of one limb: `Z_p[X]`/(X^n + 1) to its n values and back.
//!
//! Index i of the transformed limb holds a(psi^(2 brv(i) + 1)) with brv the reversal of log2(n) bits. A
//! polynomial in X^r (r a power of two) therefore has runs of r equal values.

mod forward;
mod inverse;
mod plan;
pub(crate) mod reference;
mod vector;

use crate::simd::{path, Path};
use crate::{Modulus, RingError};
use std::sync::OnceLock;

/// Degrees from 2 (tests) to 2^17.
pub const MIN_LOG_N: u32 = 1;
pub const MAX_LOG_N: u32 = 17;

/// Roots for one (modulus, n). Tables of a path are built at its first use; 3 n bytes each for forward and
/// inverse with eight lanes (AVX-512), 6 n with four (AVX2, NEON).
#[derive(Debug)]
pub struct NttTable {
    modulus: Modulus,
    log_n: u32,
    psi: u64,
    integers: OnceLock<reference::Roots>,
    four: OnceLock<plan::Tables>,
    eight: OnceLock<plan::Tables>,
}

/// Runs a kernel of `vector`, for four lanes or eight, with its tables; or `otherwise`.
macro_rules! by_lanes {
    ($self:ident, $four:ident | $eight:ident as $run:ident, $tables:ident => $call:expr, $otherwise:expr) => {
        match $self.path() {
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            Path::Avx2 | Path::Neon => {
                let $tables = $self.four_tables();
                let $run = vector::$four;
                $call
            }
            #[cfg(target_arch = "x86_64")]
            Path::Avx512 => {
                let $tables = $self.eight_tables();
                let $run = vector::$eight;
                $call
            }
            _ => $otherwise,
        }
    };
}

mod parts;
pub use parts::{Blocks, Columns};

impl NttTable {
    /// Needs p = 1 mod 2n and 1 <= log_n <= 17. Tables are built lazily, in O(n).
    pub fn new(modulus: Modulus, log_n: u32) -> Result<Self, RingError> {
        if !(MIN_LOG_N..=MAX_LOG_N).contains(&log_n) {
            return Err(RingError::InvalidDegree {
                log_n,
                min: MIN_LOG_N,
                max: MAX_LOG_N,
            });
        }
        let no_root = RingError::NoRootOfUnity {
            modulus: modulus.p(),
            log_2n: log_n + 1,
        };
        let psi = primitive_root(&modulus, log_n).ok_or(no_root)?;
        Ok(Self {
            modulus,
            log_n,
            psi,
            integers: OnceLock::new(),
            four: OnceLock::new(),
            eight: OnceLock::new(),
        })
    }

    pub fn modulus(&self) -> &Modulus {
        &self.modulus
    }

    pub fn n(&self) -> usize {
        1 << self.log_n
    }

    pub fn log_n(&self) -> u32 {
        self.log_n
    }

    /// The primitive 2n-th root of unity g^((p-1)/2n), g the least quadratic non-residue of p. Since g does
    /// not depend on n, the root of the ring of degree n/r is psi^r: the values of a(X^r) are those of a in
    /// the small ring, in runs of r.
    pub fn psi(&self) -> u64 {
        self.psi
    }

    /// psi^(n/2), a square root of -1: the value of X^(n/2) at indices i < n/2. At i >= n/2 it is p minus
    /// this.
    pub fn sqrt_minus_one(&self) -> u64 {
        self.modulus.pow(self.psi, self.n() as u64 / 2)
    }

    /// Coefficients to values, in place: canonical in, canonical and bit-reversed out. Panics unless x.len()
    /// == n.
    pub fn forward(&self, x: &mut [f64]) {
        self.forward_of([x]);
    }

    /// [`NttTable::forward`] of several limbs, two at a time: the roots of the last levels are made once for
    /// both, which saves a twenty-fifth of the time.
    pub fn forward_all(&self, xs: &mut [&mut [f64]]) {
        for pair in xs.chunks_mut(2) {
            match pair {
                [x, y] => self.forward_of([x, y]),
                pair => pair.iter_mut().for_each(|x| self.forward_of([x])),
            }
        }
    }

    fn forward_of<const K: usize>(&self, xs: [&mut [f64]; K]) {
        by_lanes!(self, forward_four | forward_eight as run, tables => {
            run(&self.modulus, tables, xs.map(|x| vector::Limb::new(x, self.n())), 0)
        }, {
            xs.into_iter().for_each(|x| self.reference_forward(x));
        })
    }

    /// [`NttTable::forward`] of the first `len` (a power of two) coefficients; what x holds after them counts
    /// as zero.
    ///
    /// A level that pairs a coefficient with a zero copies it, so the first log2(n / len) levels are copies:
    /// for len = n / 128 about half of the work. Ranges are those of the whole transform or smaller, since
    /// nothing was added up yet.
    pub fn forward_prefix(&self, x: &mut [f64], len: usize) {
        assert_eq!(
            x.len(),
            self.n(),
            "forward: the limb has another length than the table"
        );
        assert!(
            len.is_power_of_two() && len <= x.len(),
            "forward: {len} coefficients"
        );
        by_lanes!(self, forward_four | forward_eight as run, tables => {
            let done = tables.whole_passes(self.log_n - len.ilog2());
            parts::spread(x, len, self.n() >> done);
            run(&self.modulus, tables, [vector::Limb::new(x, self.n())], done);
        }, {
            x[len..].fill(0.0);
            self.reference_forward(x);
        })
    }

    /// Values to coefficients, in place: the exact inverse of [`NttTable::forward`].
    pub fn inverse(&self, x: &mut [f64]) {
        by_lanes!(self, inverse_four | inverse_eight as run, tables => {
            run(&self.modulus, tables, [vector::Limb::new(x, self.n())], tables.scale(&self.modulus, 1))
        }, self.reference_inverse(x))
    }

    /// Values to c times the coefficients, centred, in place: what a conversion to other primes takes.
    pub fn inverse_centred(&self, x: &mut [f64], c: u64) {
        self.centred(x, None, c);
    }

    /// The same from one limb into another, which saves a copy.
    pub fn inverse_centred_into(&self, out: &mut [f64], values: &[f64], c: u64) {
        self.centred(out, Some(values), c);
    }

    fn centred(&self, x: &mut [f64], from: Option<&[f64]>, c: u64) {
        self.blocks(x, 1)
            .iter_mut()
            .for_each(|x| self.inverse_blocks(x, from, c));
        self.columns(x, 1)
            .into_iter()
            .for_each(|x| self.inverse_columns(x, c));
    }

    fn reference_forward(&self, x: &mut [f64]) {
        assert_eq!(
            x.len(),
            self.n(),
            "forward: the limb has another length than the table"
        );
        reference::forward(&self.modulus, self.integers(), x);
    }

    fn reference_inverse(&self, x: &mut [f64]) {
        assert_eq!(
            x.len(),
            self.n(),
            "inverse: the limb has another length than the table"
        );
        reference::inverse(&self.modulus, self.integers(), x);
    }

    /// A path needs n > LANES^2: smaller transforms go to the next narrower one.
    fn path(&self) -> Path {
        match path() {
            Path::Ifma | Path::Avx512 if self.n() > 64 => Path::Avx512,
            Path::Ifma | Path::Avx512 | Path::Avx2 if self.n() > 16 => Path::Avx2,
            Path::Neon if self.n() > 16 => Path::Neon,
            _ => Path::Scalar,
        }
    }

    /// The tables of that path; the integers have none.
    fn tables(&self) -> Option<&plan::Tables> {
        match self.path() {
            Path::Scalar => None,
            Path::Avx2 | Path::Neon => Some(self.four_tables()),
            Path::Avx512 | Path::Ifma => Some(self.eight_tables()),
        }
    }

    fn integers(&self) -> &reference::Roots {
        self.integers
            .get_or_init(|| reference::Roots::new(&self.modulus, self.log_n, self.psi))
    }

    fn four_tables(&self) -> &plan::Tables {
        self.four
            .get_or_init(|| plan::Tables::new(&self.modulus, self.log_n, self.psi, 2))
    }

    fn eight_tables(&self) -> &plan::Tables {
        self.eight
            .get_or_init(|| plan::Tables::new(&self.modulus, self.log_n, self.psi, 3))
    }
}

fn primitive_root(m: &Modulus, log_n: u32) -> Option<u64> {
    let order = 2u64 << log_n;
    if !(m.p() - 1).is_multiple_of(order) {
        return None;
    }
    (2..m.p())
        .map(|g| m.pow(g, (m.p() - 1) / order))
        .find(|&psi| m.pow(psi, order / 2) == m.p() - 1)
}

/// The lowest `bits` bits of i, reversed.
pub(crate) fn bit_reverse(i: usize, bits: u32) -> usize {
    if bits == 0 {
        0
    } else {
        i.reverse_bits() >> (usize::BITS - bits)
    }
}

/// base^brv(i) for i < n.
pub(crate) fn powers_bit_reversed(m: &Modulus, base: u64, log_n: u32) -> Vec<u64> {
    let mut out = vec![0; 1 << log_n];
    let mut power = 1;
    for i in 0..1usize << log_n {
        out[bit_reverse(i, log_n)] = power;
        power = m.mul(power, base);
    }
    out
}

#[cfg(test)]
mod tests;
