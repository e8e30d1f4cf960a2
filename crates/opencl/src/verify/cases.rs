//! What is compared: each operation of a ring, beside what it is defined by.

use super::{Bench, Check, Host};
use crate::limbs::Limbs;
use crate::OpenClError;
use tacita_ring::packed::{pack, packed_len, Row, SLACK};
use tacita_ring::{kernels, BaseConverter, Modulus, NttTable, Permutation};

pub(super) type OnDevice = Result<Vec<Limbs>, OpenClError>;

/// The digits of a key: more than a sum takes before it is reduced.
const DIGITS: usize = 10;

/// Residues come in groups of so many, in packed rows.
const LOG_GROUP: u32 = 3;

impl Bench {
    /// Every operation.
    pub(super) fn cases(&self) -> Result<Vec<Check>, OpenClError> {
        let mut checks = Vec::from(self.transforms()?);
        checks.extend(self.elementwise()?);
        checks.extend(self.scalars()?);
        checks.extend([
            self.permutes()?,
            self.copies()?,
            self.converts()?,
            self.rescales()?,
        ]);
        checks.extend(self.sums()?);
        if self.log_n >= LOG_GROUP {
            checks.push(self.switches()?);
        }
        Ok(checks)
    }

    fn transforms(&self) -> Result<[Check; 2], OpenClError> {
        let forward = |device: &mut [Limbs]| self.ring.forward(&mut device[0]).map(|()| Vec::new());
        let inverse = |device: &mut [Limbs]| self.ring.inverse(&mut device[0]).map(|()| Vec::new());
        let each = |host: &mut [Host], f: fn(&NttTable, &mut [f64])| {
            self.tables
                .iter()
                .zip(&mut host[0])
                .for_each(|(table, limb)| f(table, limb));
            Vec::new()
        };
        let bases = [&self.basis];
        Ok([
            self.check("forward", &bases, forward, |host| each(host, NttTable::forward))?,
            self.check("inverse", &bases, inverse, |host| each(host, NttTable::inverse))?,
        ])
    }

    fn elementwise(&self) -> Result<[Check; 5], OpenClError> {
        let (ring, bases) = (&self.ring, [&self.basis; 3]);
        let one = |limbs: Result<Limbs, OpenClError>| limbs.map(|limbs| vec![limbs]);
        let two = |host: &mut [Host], f: fn(&Modulus, &mut [f64], &[f64], &[f64])| {
            vec![self.each(&host[0], |m, at, out| f(m, out, &host[0][at], &host[1][at]))]
        };
        let negate = |host: &mut [Host]| vec![self.each(&host[0], |m, _, out| kernels::neg_assign(m, out))];
        let add_product = |device: &mut [Limbs]| {
            let (x, rest) = device.split_at_mut(1);
            ring.mul_add_assign(&mut x[0], &rest[0], &rest[1])
                .map(|()| Vec::new())
        };
        let added_product = |host: &mut [Host]| {
            let x = self.each(&host[0], |m, at, x| {
                kernels::mul_add_assign(m, x, &host[1][at], &host[2][at])
            });
            host[0] = x;
            Vec::new()
        };
        Ok([
            self.check(
                "add",
                &bases[..2],
                |x| one(ring.add(&x[0], &x[1])),
                |x| two(x, kernels::add),
            )?,
            self.check(
                "subtract",
                &bases[..2],
                |x| one(ring.sub(&x[0], &x[1])),
                |x| two(x, kernels::sub),
            )?,
            self.check("negate", &bases[..1], |x| one(ring.negate(&x[0])), negate)?,
            self.check(
                "multiply",
                &bases[..2],
                |x| one(ring.mul(&x[0], &x[1])),
                |x| two(x, kernels::mul),
            )?,
            self.check("multiply_add", &bases, add_product, added_product)?,
        ])
    }

    fn scalars(&self) -> Result<[Check; 3], OpenClError> {
        let (ring, bases) = (&self.ring, [&self.basis; 2]);
        // One beside p, so that centred factors of both signs come.
        let of_prime = |at: usize, p: u64| [p - 1, 1, p / 2, p / 3][at % 4];
        let c: Vec<u64> = (0..)
            .zip(&self.tables[..self.basis.len()])
            .map(|(at, table)| of_prime(at, table.modulus().p()))
            .collect();
        let factors = ring.factors(&self.basis, &c)?;
        let multiple =
            |device: &mut [Limbs]| -> OnDevice { Ok(vec![ring.mul_scalar(&device[0], &factors)?]) };
        let add_multiple = |device: &mut [Limbs]| {
            let (x, rest) = device.split_at_mut(1);
            ring.mul_scalar_add_assign(&mut x[0], &rest[0], &factors)
                .map(|()| Vec::new())
        };
        let difference = |device: &mut [Limbs]| -> OnDevice {
            Ok(vec![ring.sub_mul_scalar(&device[0], &device[1], &factors)?])
        };
        Ok([
            self.check("multiply_scalar", &bases[..1], multiple, |host| {
                vec![self.each(&host[0], |m, at, out| {
                    kernels::mul_scalar(m, out, &host[0][at], c[at])
                })]
            })?,
            self.check("multiply_scalar_add", &bases, add_multiple, |host| {
                let of = |m: &Modulus, at: usize, x: &mut [f64]| {
                    kernels::mul_scalar_add_assign(m, x, &host[1][at], c[at]);
                };
                let x = self.each(&host[0], of);
                host[0] = x;
                Vec::new()
            })?,
            self.check("subtract_multiply_scalar", &bases, difference, |host| {
                let of = |m: &Modulus, at: usize, out: &mut [f64]| {
                    kernels::sub_mul_scalar(m, out, &host[0][at], &host[1][at], c[at]);
                };
                vec![self.each(&host[0], of)]
            })?,
        ])
    }

    /// By a rotation, by one with a large exponent, and by the conjugation.
    fn permutes(&self) -> Result<Check, OpenClError> {
        let n = self.ring.n() as u64;
        let elements = [5, n + 3, 2 * n - 1];
        let device = |device: &mut [Limbs]| -> OnDevice {
            elements
                .iter()
                .map(|&galois| self.ring.permute(&device[0], galois))
                .collect()
        };
        self.check("permute", &[&self.basis], device, |host| {
            let permuted = |&galois: &u64| {
                let permutation = Permutation::new(self.log_n, galois);
                self.each(&host[0], |_, at, out| permutation.apply(out, &host[0][at]))
            };
            elements.iter().map(permuted).collect()
        })
    }

    fn copies(&self) -> Result<Check, OpenClError> {
        let part = self.ring.basis(&self.basis.indices()[1..3])?;
        let device = |device: &mut [Limbs]| -> OnDevice { Ok(vec![self.ring.copy(&device[0], 1, &part)?]) };
        self.check(
            "copy",
            &[&self.basis],
            device,
            |host| vec![host[0][1..3].to_vec()],
        )
    }

    /// What the input becomes are its scaled coefficients, canonical where the host has them centred.
    fn converts(&self) -> Result<Check, OpenClError> {
        let converter = self.ring.converter(&self.sources, &self.basis)?;
        let device =
            |device: &mut [Limbs]| -> OnDevice { Ok(vec![self.ring.convert(&mut device[0], &converter)?]) };
        let [from, to] = [&self.sources, &self.basis].map(|basis| self.moduli_of(basis.indices()));
        let host_converter = BaseConverter::new(&from, &to);
        self.check("convert", &[&self.sources], device, |host| {
            let mut centred = host[0].clone();
            for (i, limb) in centred.iter_mut().enumerate() {
                let table = &self.tables[self.sources.indices()[i]];
                table.inverse_centred(limb, host_converter.input_scale(i));
                let canonical = limb.iter().map(|&x| table.modulus().from_i64(x as i64) as f64);
                host[0][i] = canonical.collect();
            }
            let mut outs = self.zeros(to.len());
            let js: Vec<usize> = (0..to.len()).collect();
            let ys: Vec<&[f64]> = centred.iter().map(|limb| &limb[..]).collect();
            host_converter.convert(&ys, &js, &mut outs);
            vec![outs]
        })
    }

    fn rescales(&self) -> Result<Check, OpenClError> {
        let rescaler = self.ring.rescaler(&self.basis)?;
        let device =
            |device: &mut [Limbs]| -> OnDevice { Ok(vec![self.ring.rescale(&device[0], &rescaler)?]) };
        self.check("rescale", &[&self.basis], device, |host| {
            let (coefficients, rest) = host[0].split_last().expect("four limbs");
            let (mut coefficients, last) = (coefficients.clone(), rest.len());
            self.tables[last].inverse_centred(&mut coefficients, 1);
            let q = self.tables[last].modulus();
            let divide = |m: &Modulus, at: usize, out: &mut [f64]| {
                let mut lift = coefficients.clone();
                kernels::switch_modulus(q, m, &mut lift, &coefficients);
                self.tables[at].forward(&mut lift);
                kernels::sub_mul_scalar(m, out, &rest[at], &lift, m.inv(q.p() % m.p()));
            };
            vec![self.each(&rest.to_vec(), divide)]
        })
    }

    /// The inner product with a key whose residues are random, and the largest.
    fn switches(&self) -> Result<Check, OpenClError> {
        let digits = self.ring.basis(&self.basis.indices().repeat(DIGITS))?;
        let limbs = self.basis.len();
        let packed: Vec<Vec<u8>> = (0..2 * DIGITS * limbs)
            .map(|row| {
                let m = self.tables[row % limbs].modulus();
                let mut values = self.random(m, row as u8);
                values[..8].fill((m.p() - 1) as f64);
                let mut bytes = vec![0; packed_len(values.len(), m.p())];
                assert!(pack(&values, m.p(), &mut bytes), "residues are canonical");
                bytes
            })
            .collect();
        let key = self.ring.key(
            &self.basis,
            DIGITS,
            &packed.iter().map(|row| &row[..]).collect::<Vec<_>>(),
        )?;
        let device =
            |device: &mut [Limbs]| -> OnDevice { Ok(vec![self.ring.inner_product(&device[0], &key)?]) };
        let padded: Vec<Vec<u8>> = packed
            .iter()
            .map(|row| [&row[..], &[0; SLACK]].concat())
            .collect();
        self.check("inner_product", &[&digits], device, |host| {
            let mut halves = [self.zeros(limbs), self.zeros(limbs)];
            let [outs0, outs1] = &mut halves;
            for (at, (out0, out1)) in outs0.iter_mut().zip(outs1).enumerate() {
                let m = self.tables[at].modulus();
                let ds: Vec<&[f64]> = (0..DIGITS).map(|t| &host[0][t * limbs + at][..]).collect();
                let rows = |half: usize| -> Vec<Row<'_>> {
                    let row = |t: usize| &padded[(half * DIGITS + t) * limbs + at];
                    (0..DIGITS)
                        .map(|t| Row::new(row(t), self.ring.n(), m.p()))
                        .collect()
                };
                kernels::inner_product2_packed(m, out0, out1, &ds, &rows(0), &rows(1));
            }
            vec![halves.concat()]
        })
    }

    /// Limbs that f makes of copies of these, which are the first primes'.
    fn each(&self, limbs: &Host, f: impl Fn(&Modulus, usize, &mut [f64])) -> Host {
        let of = |(at, limb): (usize, &Vec<f64>)| {
            let mut out = limb.clone();
            f(self.tables[at].modulus(), at, &mut out);
            out
        };
        limbs.iter().enumerate().map(of).collect()
    }

    pub(super) fn zeros(&self, limbs: usize) -> Host {
        vec![vec![0.0; self.ring.n()]; limbs]
    }

    pub(super) fn moduli_of(&self, indices: &[usize]) -> Vec<Modulus> {
        indices.iter().map(|&i| *self.tables[i].modulus()).collect()
    }
}
