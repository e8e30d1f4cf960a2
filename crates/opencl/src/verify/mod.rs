//! Every kernel against `tacita-ring`.

mod bootstrap;
mod cases;
mod sums;

pub use bootstrap::ReferenceBootstrap;

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

/// Primes beside the first four.
const MORE_PRIMES: usize = 10;

/// Limbs on the device at once: the digits of a key, and what lies around.
const SLOTS: u32 = 80;

/// Degrees that are compared by default: the smallest, one of each kind between, the largest in use.
const LOG_NS: [u32; 4] = [10, 13, 15, 16];

/// Runs every kernel in every flavour of the device, and a toy bootstrap, and compares bit for bit.
///
/// # Errors
/// When the device fails; a difference is no error, it is counted.
pub fn verify(device: &Device) -> Result<Vec<Check>, OpenClError> {
    let (mut checks, toy) = (Vec::new(), bootstrap::toy()?);
    for &flavour in device.flavours() {
        checks.extend(verify_build(device, &Build::new(flavour), &LOG_NS)?);
        checks.push(toy.compare(device, Build::new(flavour))?);
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
        checks.extend(bench.cases()?);
    }
    Ok(checks)
}

/// Two of the largest primes below 2^50, one of 44 bits, one of 22; then more of the largest.
fn moduli(log_n: u32) -> Result<Vec<Modulus>, OpenClError> {
    let mut primes = ntt_primes(50.0, log_n + 1, 2 + MORE_PRIMES, &[])?;
    let more = primes.split_off(2);
    primes.extend(ntt_primes(44.0, log_n + 1, 1, &[])?);
    primes.extend(ntt_primes(22.0, log_n + 1, 1, &[])?);
    primes.extend(more);
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
    /// The first four primes.
    basis: Arc<Basis>,
    /// Primes of two kinds, more than a sum takes before it is reduced.
    sources: Arc<Basis>,
}

impl Bench {
    fn new(device: &Device, build: &Build, log_n: u32) -> Result<Self, OpenClError> {
        let moduli = moduli(log_n)?;
        let tables = moduli.iter().map(|m| NttTable::new(*m, log_n));
        let tables = tables.collect::<Result<Vec<_>, _>>()?;
        let ring = Ring::new(device, build.clone(), log_n, &moduli, SLOTS)?;
        let sources: Vec<usize> = (0..moduli.len()).filter(|i| ![1, 3].contains(i)).collect();
        Ok(Self {
            basis: ring.basis(&[0, 1, 2, 3])?,
            sources: ring.basis(&sources)?,
            ring,
            tables,
            log_n,
            flavour: build.flavour,
        })
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
            let outputs = device(&mut on_device)?;
            let expected = host(&mut inputs);
            let guards = [(&guard, &before), (&guard, &behind)];
            assert_eq!(expected.len(), outputs.len(), "{kernel}: results");
            let all = expected.iter().zip(&outputs).chain(inputs.iter().zip(&on_device));
            for (expected, limbs) in all.chain(guards) {
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
                Kind::Random => self.random(m, seed),
                Kind::Edges => (0..n)
                    .map(|i| edges[(i * i + i / 7 * usize::from(seed)) % 7] as f64)
                    .collect(),
                Kind::Largest => vec![(m.p() - 1) as f64; n],
            }
        };
        basis.indices().iter().enumerate().map(limb).collect()
    }

    fn random(&self, m: &Modulus, seed: u8) -> Vec<f64> {
        let mut limb = vec![0.0; 1 << self.log_n];
        uniform(&mut Prng::from_seed([seed; 32]), m, &mut limb);
        limb
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
    let lengths = |limbs: &Host| limbs.iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(lengths(expected), lengths(found), "{}: lengths", check.kernel);
    for (expected, found) in expected.iter().flatten().zip(found.iter().flatten()) {
        check.residues += 1;
        check.differ += u64::from(expected.to_bits() != found.to_bits());
    }
}
