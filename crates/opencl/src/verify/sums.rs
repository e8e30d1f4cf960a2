//! Sums: the exact conversion, products with plaintexts, of ciphertexts and with a matrix.

use super::cases::OnDevice;
use super::{Bench, Check, Host, Kind};
use crate::limbs::Limbs;
use crate::OpenClError;
use tacita_ring::gemm::{self, Input, Weights};
use tacita_ring::{kernels, BaseConverter, Modulus};

/// More terms than a sum of doubles takes before it is reduced, and no multiple of that.
const TERMS: usize = 19;
/// Rows of a matrix: more than a work-item makes values of, and no multiple of that.
const ROWS: usize = 6;

impl Bench {
    pub(super) fn sums(&self) -> Result<[Check; 4], OpenClError> {
        Ok([
            self.converts_exactly()?,
            self.adds_products()?,
            self.adds_tensors()?,
            self.multiplies_a_matrix()?,
        ])
    }

    /// The input are the scaled coefficients themselves; others make sums of quotients that each rounding may
    /// move over the middle between two integers.
    fn converts_exactly(&self) -> Result<Check, OpenClError> {
        let converter = self.ring.converter(&self.sources, &self.basis)?;
        let [from, to] = [&self.sources, &self.basis].map(|basis| self.moduli_of(basis.indices()));
        let host_converter = BaseConverter::new(&from, &to);
        let unscale = |(i, m): (usize, &Modulus)| m.inv(host_converter.input_scale(i));
        let unscales: Vec<u64> = from.iter().enumerate().map(unscale).collect();
        let unscales = self.ring.factors(&self.sources, &unscales)?;
        let convert = |y: &Limbs| -> OnDevice {
            let mut x = self.ring.mul_scalar(y, &unscales)?;
            self.ring.forward(&mut x)?;
            Ok(vec![self.ring.convert_exact(&mut x, &converter)?, x])
        };
        let expected = |ys: &Host| {
            let centre = |(m, limb): (&Modulus, &Vec<f64>)| -> Vec<f64> {
                limb.iter().map(|&y| m.center(y as u64) as f64).collect()
            };
            let centred: Host = from.iter().zip(ys).map(centre).collect();
            let slices: Vec<&[f64]> = centred.iter().map(|limb| &limb[..]).collect();
            let (mut overflow, mut outs) = (vec![0.0; self.ring.n()], self.zeros(to.len()));
            host_converter.overflow(&slices, &mut overflow);
            let all: Vec<usize> = (0..to.len()).collect();
            host_converter.convert_exact(&slices, &overflow, &all, &mut outs);
            [outs, ys.clone()]
        };
        let ties = self.ties(&from);
        let device = |device: &mut [Limbs]| -> OnDevice {
            let near = convert(&self.upload(&self.sources, &ties)?)?;
            Ok(convert(&device[0])?.into_iter().chain(near).collect())
        };
        self.check("convert_exact", &[&self.sources], device, |host| {
            expected(&host[0]).into_iter().chain(expected(&ties)).collect()
        })
    }

    /// Nine quotients just below 1/2, and one small enough that their sum passes 9/2 in halves of its last
    /// place; then the same of the other sign. The primes of 50 bits alone make steps so small.
    fn ties(&self, from: &[Modulus]) -> Host {
        let mut limbs = self.zeros(from.len());
        let large = from.iter().zip(&mut limbs).filter(|(m, _)| m.p() >> 49 == 1);
        for (k, (m, limb)) in large.enumerate() {
            for (i, y) in limb.iter_mut().enumerate() {
                let step = i as u64 / 2;
                let magnitude = match k {
                    0..9 => m.p() / 2 - (step * 31 + k as u64 * 17) % 3,
                    9 => step % 24,
                    _ => 0,
                };
                *y = if i % 2 == 0 { magnitude } else { m.neg(magnitude) } as f64;
            }
        }
        limbs
    }

    /// A sum and one that is added, of both halves of ciphertexts, with plaintexts in runs of every length.
    fn adds_products(&self) -> Result<Check, OpenClError> {
        let (limbs, kinds) = (self.basis.len(), [Kind::Random, Kind::Edges, Kind::Largest]);
        let plaintexts: Vec<Host> = (0..=self.log_n as usize)
            .map(|run| {
                let mut limbs = self.host(&self.basis, kinds[run % 3], 200 + run as u8);
                limbs
                    .iter_mut()
                    .for_each(|limb| limb.truncate(self.ring.n() >> run));
                limbs
            })
            .collect();
        let slices: Vec<Vec<&[f64]>> = plaintexts
            .iter()
            .map(|limbs| limbs.iter().map(|limb| &limb[..]).collect())
            .collect();
        let on_device = self.ring.plaintexts(&self.basis, &slices)?;
        let terms: Vec<(usize, usize)> = (0..TERMS).map(|t| (1 + t % 2, t % plaintexts.len())).collect();
        let both = self.ring.basis(&self.basis.indices().repeat(2))?;
        let device = |device: &mut [Limbs]| -> OnDevice {
            let (x, rest) = device.split_at_mut(1);
            let terms: Vec<(&Limbs, usize)> = terms.iter().map(|&(a, w)| (&rest[a - 1], w)).collect();
            self.ring.add_products_assign(&mut x[0], &terms, &on_device)?;
            Ok(vec![self.ring.sum_products(&both, &terms, &on_device)?])
        };
        self.check("sum_products", &[&both; 3], device, |host| {
            let mut sum = self.zeros(2 * limbs);
            for (at, sum) in sum.iter_mut().enumerate() {
                let m = self.tables[at % limbs].modulus();
                let terms: Vec<(&[f64], &[f64])> = terms
                    .iter()
                    .map(|&(a, w)| (&host[a][at][..], &plaintexts[w][at % limbs][..]))
                    .collect();
                kernels::sum_runs(m, sum, &terms);
                let mut x = host[0][at].clone();
                kernels::mac_runs(m, &mut x, &terms);
                host[0][at] = x;
            }
            vec![sum]
        })
    }

    /// A sum and one that is added. Each of four polynomials comes in each place of a term.
    fn adds_tensors(&self) -> Result<Check, OpenClError> {
        let terms: Vec<[usize; 4]> = (0..TERMS)
            .map(|t| [t % 4, t / 2 % 4, t / 3 % 4, t / 5 % 4])
            .collect();
        let device = |device: &mut [Limbs]| -> OnDevice {
            let terms: Vec<[&Limbs; 4]> = terms.iter().map(|term| term.map(|a| &device[a])).collect();
            let once = self.ring.sum_tensors(&self.basis, &terms)?;
            let mut twice = self.ring.sum_tensors(&self.basis, &terms[1..])?;
            self.ring.add_tensors_assign(&mut twice, &terms)?;
            Ok(Vec::from_iter(once.into_iter().chain(twice)))
        };
        self.check("sum_tensors", &[&self.basis; 4], device, |host| {
            let mut sums = vec![self.zeros(self.basis.len()); 6];
            let all = [(&terms[..], 0), (&terms[1..], 3), (&terms[..], 3)];
            for (terms, first) in all {
                let [d0, d1, d2, ..] = &mut sums[first..] else {
                    unreachable!("six sums")
                };
                for (at, table) in self.tables[..self.basis.len()].iter().enumerate() {
                    for term in terms {
                        let [a0, a1, b0, b1] = term.map(|a| &host[a][at][..]);
                        let (m, d0, d1, d2) = (table.modulus(), &mut d0[at], &mut d1[at], &mut d2[at]);
                        kernels::tensor_accumulate(m, d0, d1, d2, a0, a1, b0, b1);
                    }
                }
            }
            sums
        })
    }

    /// Entries of both signs, a row that needs a multiplier, one of a single sign and one of zeros.
    fn multiplies_a_matrix(&self) -> Result<Check, OpenClError> {
        let entry = |row: usize, k: usize| match row {
            0 => 1.0,
            1 => (k as f64 - 8.3) * 1e4,
            2 => 0.0,
            _ => ((row * 31 + k * 17) % 23) as f64 / 7.0 - 1.5,
        };
        let entries = (0..ROWS).flat_map(|row| (0..TERMS).map(move |k| entry(row, k)));
        let entries: Vec<f64> = entries.collect();
        let weights = Weights::round(&entries, TERMS, 48f64.exp2()).expect("a small matrix");
        let matrix = self.ring.matrix(&self.basis, &weights, 0..weights.depth())?;
        let device = |device: &mut [Limbs]| -> OnDevice {
            let inputs: Vec<&Limbs> = (0..TERMS).map(|k| &device[k % 3]).collect();
            self.ring.multiply_matrix(&matrix, &inputs)
        };
        self.check("multiply_matrix", &[&self.basis; 3], device, |host| {
            let mut outs = vec![self.zeros(self.basis.len()); ROWS];
            for (at, table) in self.tables[..self.basis.len()].iter().enumerate() {
                let input = |k: usize| Input {
                    limb: &host[k % 3][at],
                    runs: &[],
                };
                let inputs: Vec<Input<'_>> = (0..TERMS).map(input).collect();
                let mut rows: Vec<&mut [f64]> = outs.iter_mut().map(|out| &mut out[at][..]).collect();
                gemm::product(table.modulus(), &weights, &inputs, 0, &mut rows);
            }
            outs
        })
    }
}
