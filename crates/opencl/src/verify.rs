//! Every kernel against `tacita-ring`.

use crate::build::{Build, Flavour};
use crate::{Basis, Device, Limbs, OpenClError, Ring};
use std::sync::Arc;
use tacita_ring::sample::{uniform, Prng};
use tacita_ring::{ntt_primes, Modulus, NttTable};

/// How one operation compares: each residue of its output, and of what lies around it, which must not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub kernel: &'static str,
    pub flavour: Flavour,
    pub log_n: u32,
    pub residues: u64,
    pub differ: u64,
}

/// Degrees that are compared by default: the smallest, one of each kind between, the largest in use.
const LOG_NS: [u32; 4] = [10, 13, 15, 16];

/// Runs every kernel in every flavour of the device, and compares bit for bit.
///
/// # Errors
/// When the device fails; a difference is no error, it is counted.
pub fn verify(device: &Device) -> Result<Vec<Check>, OpenClError> {
    let mut checks = Vec::new();
    for &flavour in device.flavours() {
        checks.extend(verify_build(device, &Build::new(flavour), &LOG_NS)?);
    }
    Ok(checks)
}

/// The same for one build and these degrees.
///
/// # Errors
/// When the device fails.
pub fn verify_build(device: &Device, build: &Build, log_ns: &[u32]) -> Result<Vec<Check>, OpenClError> {
    let mut checks = Vec::new();
    for &log_n in log_ns {
        let bench = Bench::new(device, build, log_n)?;
        bench.transforms(&mut checks)?;
    }
    Ok(checks)
}

/// The largest primes of the engine's widest kind, one of its usual 44 bits, and a small one.
fn moduli(log_n: u32) -> Result<Vec<Modulus>, OpenClError> {
    let mut primes = ntt_primes(50.0, log_n + 1, 2, &[])?;
    primes.extend(ntt_primes(44.0, log_n + 1, 1, &[])?);
    primes.extend(ntt_primes(22.0, log_n + 1, 1, &[])?);
    Ok(primes.into_iter().map(Modulus::new).collect::<Result<_, _>>()?)
}

/// Limbs of the host, one for each prime of a basis.
type Host = Vec<Vec<f64>>;

/// A ring on the device, and what the host computes the same with.
struct Bench {
    ring: Ring,
    tables: Vec<NttTable>,
    log_n: u32,
    flavour: Flavour,
    /// All primes.
    basis: Arc<Basis>,
}

impl Bench {
    fn new(device: &Device, build: &Build, log_n: u32) -> Result<Self, OpenClError> {
        let moduli = moduli(log_n)?;
        let tables = moduli.iter().map(|m| NttTable::new(*m, log_n));
        let tables = tables.collect::<Result<Vec<_>, _>>()?;
        let ring = Ring::new(device, build.clone(), log_n, &moduli, 8 * moduli.len() as u32)?;
        let basis = ring.basis(&(0..moduli.len()).collect::<Vec<_>>())?;
        Ok(Self {
            ring,
            tables,
            log_n,
            flavour: build.flavour,
            basis,
        })
    }

    fn transforms(&self, checks: &mut Vec<Check>) -> Result<(), OpenClError> {
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
        checks.push(self.check("forward", &bases, forward, |host| each(host, NttTable::forward))?);
        checks.push(self.check("inverse", &bases, inverse, |host| each(host, NttTable::inverse))?);
        Ok(())
    }

    /// Runs an operation here and there, on limbs of these bases: what it gives, what its arguments become,
    /// and the limbs before and behind all these, which must stay what they are.
    fn check(
        &self,
        kernel: &'static str,
        bases: &[&Arc<Basis>],
        device: impl Fn(&mut [Limbs]) -> Result<Vec<Limbs>, OpenClError>,
        host: impl Fn(&mut [Host]) -> Vec<Host>,
    ) -> Result<Check, OpenClError> {
        let mut check = Check {
            kernel,
            flavour: self.flavour,
            log_n: self.log_n,
            residues: 0,
            differ: 0,
        };
        for kind in [Kind::Random, Kind::Edges, Kind::Largest] {
            let guard = self.host(&self.basis, kind, 100);
            let before = self.upload(&self.basis, &guard)?;
            let mut inputs: Vec<Host> = (0u8..)
                .zip(bases)
                .map(|(seed, basis)| self.host(basis, kind, seed))
                .collect();
            let pairs = bases.iter().zip(&inputs);
            let mut on_device = pairs
                .map(|(basis, host)| self.upload(basis, host))
                .collect::<Result<Vec<_>, _>>()?;
            // What the operation makes comes into this room, the first that is free.
            let room = self.ring.scratch(&self.basis)?;
            let behind = self.upload(&self.basis, &guard)?;
            drop(room);
            let made = device(&mut on_device)?;
            let expected = host(&mut inputs);
            let guards = [(&guard, &before), (&guard, &behind)];
            let all = expected
                .iter()
                .zip(&made)
                .chain(inputs.iter().zip(&on_device))
                .chain(guards);
            for (expected, limbs) in all {
                compare(expected, &self.ring.download(limbs)?, &mut check);
            }
        }
        Ok(check)
    }

    fn upload(&self, basis: &Arc<Basis>, host: &Host) -> Result<Limbs, OpenClError> {
        self.ring
            .upload(basis, &host.iter().map(|limb| &limb[..]).collect::<Vec<_>>())
    }

    fn host(&self, basis: &Basis, kind: Kind, seed: u8) -> Host {
        let n = 1usize << self.log_n;
        let limb = |(at, &prime): (usize, &usize)| {
            let (m, seed) = (
                self.tables[prime].modulus(),
                seed.wrapping_mul(31).wrapping_add(at as u8),
            );
            let edges = [0, 1, m.p() - 1, m.p() / 2, m.p() / 2 + 1, m.p() - 2, 2];
            match kind {
                Kind::Random => {
                    let mut limb = vec![0.0; n];
                    uniform(&mut Prng::from_seed([seed; 32]), m, &mut limb);
                    limb
                }
                Kind::Edges => (0..n)
                    .map(|i| edges[(i * i + i / 7 * usize::from(seed)) % 7] as f64)
                    .collect(),
                Kind::Largest => vec![(m.p() - 1) as f64; n],
            }
        };
        basis.indices().iter().enumerate().map(limb).collect()
    }
}

/// Residues to compute with.
#[derive(Clone, Copy)]
enum Kind {
    Random,
    /// 0, 1, p - 1 and the middle, in an order that meets all pairs.
    Edges,
    Largest,
}

/// Bit for bit: a negative zero differs from zero.
fn compare(expected: &Host, found: &Host, check: &mut Check) {
    for (expected, found) in expected.iter().flatten().zip(found.iter().flatten()) {
        check.residues += 1;
        check.differ += u64::from(expected.to_bits() != found.to_bits());
    }
}
