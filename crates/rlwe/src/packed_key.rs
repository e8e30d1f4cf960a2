//! Both halves of a key as packed residues, as the wire has them: at most 50 bits where a double takes 64.
//!
//! A server's keys take 3.8 GB in place of 4.9, and so does the memory that is touched for the first time
//! when they are loaded. Products unpack them in registers: no key of doubles is ever written.
use crate::Parameters;
use rayon::prelude::*;
use std::ops::Range;
use tacita_ring::packed::{self, Row};
use tacita_ring::{AlignedVec, Region};

/// Bytes that one thread has the system provide at a time.
const PREFAULT: usize = 1 << 24;

/// A limb of packed b halves, counted over all digits, holds a residue that is not below its prime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotCanonical {
    /// Which limb.
    pub limb: usize,
    /// Its prime.
    pub prime: u64,
}

/// b_0 .. b_D, then a_0 .. a_D, limb after limb.
pub(crate) struct PackedHalves {
    bytes: Region,
    /// Primes of a polynomial's limbs.
    primes: Vec<u64>,
    /// Where they begin, and where the polynomial ends.
    starts: Vec<usize>,
    digits: usize,
}

impl PackedHalves {
    /// b: packed, `digits` polynomials of `limbs` + `special` limbs. fill: (digit, global prime index, limb)
    /// makes the limbs of the other half.
    pub fn new(
        params: &Parameters,
        (digits, limbs, special): (usize, usize, usize),
        b: &[u8],
        fill: impl Fn(usize, usize, &mut [f64]) + Sync,
    ) -> Result<Self, NotCanonical> {
        let indices: Vec<usize> = (0..limbs)
            .chain((0..special).map(|k| params.p_index(k)))
            .collect();
        let primes: Vec<u64> = indices.iter().map(|&i| params.modulus(i).p()).collect();
        let starts = starts(params.n(), &primes);
        let half = digits * starts[primes.len()];
        assert_eq!(b.len(), half, "packed halves of another shape");
        let mut bytes = Region::zeroed(2 * half + packed::SLACK);
        prefault(&bytes);
        let (own, rest) = bytes.split_at_mut(half);
        let made = &mut rest[..half];
        let job = |k: usize| (k, primes[k % primes.len()]);
        let copies = limb_slices(own, digits, &starts).into_par_iter().enumerate();
        copies.try_for_each(|(k, out)| {
            let (limb, prime) = job(k);
            let at = k / primes.len() * starts[primes.len()] + starts[k % primes.len()];
            out.copy_from_slice(&b[at..at + out.len()]);
            let mut doubles = AlignedVec::scratch(params.n());
            let canonical = packed::unpack(out, prime, &mut doubles);
            canonical.then_some(()).ok_or(NotCanonical { limb, prime })
        })?;
        let others = limb_slices(made, digits, &starts).into_par_iter().enumerate();
        others.for_each(|(k, out)| {
            let mut doubles = AlignedVec::scratch(params.n());
            fill(k / primes.len(), indices[k % primes.len()], &mut doubles);
            assert!(
                packed::pack(&doubles, job(k).1, out),
                "uniform residues are canonical"
            );
        });
        Ok(Self {
            bytes,
            primes,
            starts,
            digits,
        })
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        self.bytes.len() - packed::SLACK
    }

    /// Digits of each half.
    pub fn digits(&self) -> usize {
        self.digits
    }

    /// Values `part` (whole groups of eight) of a limb of a digit of a half.
    pub fn row(&self, limb: (usize, usize, usize), part: &Range<usize>) -> Row<'_> {
        let start = self.place(limb, part).start;
        Row::new(&self.bytes[start..], part.len(), self.primes[limb.2])
    }

    /// The same as doubles.
    pub fn unpacked(&self, limb: (usize, usize, usize), part: &Range<usize>) -> Vec<f64> {
        self.row(limb, part).unpacked(self.primes[limb.2])
    }

    /// The bytes of these.
    pub fn part(&self, limb: (usize, usize, usize), part: &Range<usize>) -> &[u8] {
        &self.bytes[self.place(limb, part)]
    }

    fn place(&self, (half, digit, at): (usize, usize, usize), part: &Range<usize>) -> Range<usize> {
        let limb = (half * self.digits + digit) * self.starts[self.primes.len()] + self.starts[at];
        let from = limb + packed::packed_len(part.start, self.primes[at]);
        from..from + packed::packed_len(part.len(), self.primes[at])
    }
}

fn starts(n: usize, primes: &[u64]) -> Vec<usize> {
    let mut starts = vec![0];
    for &p in primes {
        starts.push(starts[starts.len() - 1] + packed::packed_len(n, p));
    }
    starts
}

/// The limbs of a half, in order.
fn limb_slices<'a>(half: &'a mut [u8], digits: usize, starts: &[usize]) -> Vec<&'a mut [u8]> {
    let (mut rest, mut slices) = (half, Vec::with_capacity(digits * starts.len()));
    for pair in (0..digits).flat_map(|_| starts.windows(2)) {
        let (limb, tail) = rest.split_at_mut(pair[1] - pair[0]);
        slices.push(limb);
        rest = tail;
    }
    slices
}

fn prefault(region: &Region) {
    let parts = (0..region.len().div_ceil(PREFAULT)).into_par_iter();
    parts.for_each(|i| region.prefault(i * PREFAULT..(i + 1) * PREFAULT));
}
