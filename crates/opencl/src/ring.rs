//! The ring on a device: its primes, the slots for limbs, and the operations on them.

use crate::build::{Build, Flavour, Shape};
use crate::limbs::{Basis, Factors, Limbs, Scales};
use crate::queue::{Argument, Queue, Word};
use crate::room::Room;
use crate::slots::Slots;
use crate::{Device, OpenClError};
use opencl3::memory::Buffer;
use std::sync::{Arc, Mutex, PoisonError};
use tacita_ring::{Modulus, NttTable};

/// Limbs of one degree on one device. Commands run in the order in which they are given; errors of a kernel
/// show at the next [`Ring::download`].
pub struct Ring {
    build: Build,
    shape: Shape,
    tables: Vec<NttTable>,
    // Buffers go before the queue that they come from.
    moduli: Buffer<u64>,
    forward_roots: Buffer<u64>,
    inverse_roots: Buffer<u64>,
    arena: Arc<Arena>,
}

/// What rings of one degree share: kernels, and slots for limbs.
struct Arena {
    log_n: u32,
    slots: Arc<Slots>,
    memory: Mutex<Buffer<u64>>,
    queue: Queue,
}

impl Ring {
    /// Builds the kernels and makes room for `slots` limbs modulo any of these primes.
    ///
    /// # Errors
    /// When a prime does not fit the degree, the device is too small for the [`Room`] that this takes, or the
    /// compiler refuses the kernels.
    pub fn new(
        device: &Device,
        build: Build,
        log_n: u32,
        moduli: &[Modulus],
        slots: u32,
    ) -> Result<Self, OpenClError> {
        let flavour = build.flavour;
        if !device.flavours().contains(&flavour) {
            return Err(OpenClError::Unsupported {
                device: device.name.clone(),
                lacks: "doubles with fused multiply-add",
            });
        }
        let shape = build.shape(log_n, device.local)?;
        Room::of(log_n, moduli.len(), slots).check(device)?;
        let tables = tables(moduli, log_n)?;
        let queue = Queue::open(device, &build, &build.options(log_n, shape))?;
        let arena = Arena {
            log_n,
            slots: Slots::new(slots, 8 << log_n),
            memory: Mutex::new(queue.buffer((slots as usize) << log_n)?),
            queue,
        };
        Self::within(Arc::new(arena), (build, shape), tables)
    }

    /// The same slots modulo these primes. Limbs whose primes have the same indices in both are limbs of
    /// both.
    ///
    /// # Errors
    /// When a prime does not fit the degree, or memory is short.
    pub fn over(&self, moduli: &[Modulus]) -> Result<Self, OpenClError> {
        let tables = tables(moduli, self.arena.log_n)?;
        Self::within(self.arena.clone(), (self.build.clone(), self.shape), tables)
    }

    fn within(
        arena: Arc<Arena>,
        (build, shape): (Build, Shape),
        tables: Vec<NttTable>,
    ) -> Result<Self, OpenClError> {
        let (flavour, queue) = (build.flavour, &arena.queue);
        let roots = |inverse: bool| {
            let of = |table: &NttTable| {
                let psi = table.psi();
                flavour.roots(table, if inverse { table.modulus().inv(psi) } else { psi })
            };
            queue.buffer_of(&tables.iter().flat_map(of).collect::<Vec<u64>>())
        };
        let constants = tables.iter().flat_map(|table| flavour.modulus(table.modulus()));
        Ok(Self {
            shape,
            moduli: queue.buffer_of(&constants.collect::<Vec<u64>>())?,
            forward_roots: roots(false)?,
            inverse_roots: roots(true)?,
            tables,
            build,
            arena,
        })
    }

    /// Values of a limb.
    pub fn n(&self) -> usize {
        1 << self.arena.log_n
    }

    /// Prime `index`.
    pub fn modulus(&self, index: usize) -> &Modulus {
        self.tables[index].modulus()
    }

    /// The primes of limbs to come, by their index in what the ring was made of.
    ///
    /// # Errors
    /// When there are none, or an index is too large.
    pub fn basis(&self, indices: &[usize]) -> Result<Arc<Basis>, OpenClError> {
        if indices.is_empty() || indices.iter().any(|&i| i >= self.tables.len()) {
            let reason = format!("{indices:?} of {} primes", self.tables.len());
            return Err(OpenClError::mismatch("Ring::basis", reason));
        }
        let words: Vec<u32> = indices.iter().map(|&i| i as u32).collect();
        let scales = |&i: &usize| self.build.flavour.scale(&self.tables[i], 1);
        let scales: Vec<u64> = indices.iter().flat_map(scales).collect();
        Ok(Arc::new(Basis {
            indices: indices.to_vec(),
            words: self.arena.queue.buffer_of(&words)?,
            scales: self.arena.queue.buffer_of(&scales)?,
        }))
    }

    /// Factors for the limbs of a basis, any integers.
    ///
    /// # Errors
    /// When there are more or fewer than limbs, or memory is short.
    pub fn factors(&self, basis: &Arc<Basis>, factors: &[u64]) -> Result<Factors, OpenClError> {
        let words = self.words(basis, factors, |table, c| {
            self.build.flavour.factor(table.modulus(), c)
        })?;
        Ok(Factors {
            words,
            basis: Arc::clone(basis),
        })
    }

    /// The same for [`Ring::inverse_scaled`].
    ///
    /// # Errors
    /// As [`Ring::factors`].
    pub fn scales(&self, basis: &Arc<Basis>, factors: &[u64]) -> Result<Scales, OpenClError> {
        let words = self.words(basis, factors, |table, c| self.build.flavour.scale(table, c))?;
        Ok(Scales {
            words,
            basis: Arc::clone(basis),
        })
    }

    fn words<const W: usize>(
        &self,
        basis: &Basis,
        factors: &[u64],
        of: impl Fn(&NttTable, u64) -> [u64; W],
    ) -> Result<Buffer<u64>, OpenClError> {
        if factors.len() != basis.len() {
            let reason = format!("{} factors for {} limbs", factors.len(), basis.len());
            return Err(OpenClError::mismatch("Ring::factors", reason));
        }
        let pairs = basis.indices.iter().zip(factors);
        let words: Vec<u64> = pairs.flat_map(|(&i, &c)| of(&self.tables[i], c)).collect();
        self.buffer_of(&words)
    }

    /// A buffer of constants.
    pub(crate) fn buffer_of<W: Word>(&self, values: &[W]) -> Result<Buffer<W>, OpenClError> {
        self.arena.queue.buffer_of(values)
    }

    /// What one command reads: it waits for none before, and may be dropped behind it.
    pub(crate) fn constants_of<W: Word>(&self, values: &[W]) -> Result<Buffer<W>, OpenClError> {
        self.arena.queue.constants_of(values)
    }

    /// The first values of a buffer, after every command before.
    pub(crate) fn read<W: Word>(&self, buffer: &Buffer<W>, values: &mut [W]) -> Result<(), OpenClError> {
        self.arena.queue.read(buffer, 0, values)
    }

    pub(crate) fn flavour(&self) -> Flavour {
        self.build.flavour
    }

    /// Limbs whose values are not set.
    ///
    /// # Errors
    /// When no slots in a row are free.
    pub(crate) fn scratch(&self, basis: &Arc<Basis>) -> Result<Limbs, OpenClError> {
        Ok(Limbs {
            lease: self.arena.slots.lease(basis.len() as u32)?,
            basis: Arc::clone(basis),
        })
    }

    /// Canonical limbs, one for each prime of the basis, to the device.
    ///
    /// # Errors
    /// When there are more or fewer, one has another length, or memory is short.
    pub fn upload(&self, basis: &Arc<Basis>, limbs: &[&[f64]]) -> Result<Limbs, OpenClError> {
        if limbs.len() != basis.len() || limbs.iter().any(|limb| limb.len() != self.n()) {
            return Err(OpenClError::mismatch(
                "Ring::upload",
                "one limb of n values a prime",
            ));
        }
        let out = self.scratch(basis)?;
        let words: Vec<u64> = limbs
            .iter()
            .flat_map(|limb| limb.iter())
            .map(|&x| self.build.flavour.word(x))
            .collect();
        let mut memory = self.arena.memory.lock().unwrap_or_else(PoisonError::into_inner);
        self.arena.queue.write(&mut memory, self.at(&out), &words)?;
        drop(memory);
        Ok(out)
    }

    /// Limbs from the device, after every operation before.
    ///
    /// # Errors
    /// When a kernel or the transfer failed.
    pub fn download(&self, limbs: &Limbs) -> Result<Vec<Vec<f64>>, OpenClError> {
        self.owns("Ring::download", &[limbs])?;
        let mut words = vec![0u64; limbs.basis.len() << self.arena.log_n];
        let memory = self.arena.memory.lock().unwrap_or_else(PoisonError::into_inner);
        self.arena.queue.read(&memory, self.at(limbs), &mut words)?;
        drop(memory);
        let limb = |words: &[u64]| {
            words
                .iter()
                .map(|&word| self.build.flavour.residue(word))
                .collect()
        };
        Ok(words.chunks_exact(self.n()).map(limb).collect())
    }

    /// Coefficients to values, in place, bit-reversed: [`NttTable::forward`] of every limb.
    ///
    /// # Errors
    /// When a kernel cannot be run.
    pub fn forward(&self, x: &mut Limbs) -> Result<(), OpenClError> {
        let (limbs, roots) = (x.basis.len(), [Argument::Words(&self.forward_roots)]);
        self.run("forward_columns", self.shape.columns(limbs), x, &[], &roots)?;
        self.run("forward_rows", self.shape.rows(limbs), x, &[], &roots)
    }

    /// Values to coefficients, in place: [`NttTable::inverse`] of every limb.
    ///
    /// # Errors
    /// When a kernel cannot be run.
    pub fn inverse(&self, x: &mut Limbs) -> Result<(), OpenClError> {
        let basis = Arc::clone(&x.basis);
        self.inverse_by(x, &basis.scales)
    }

    /// Values to coefficients, each limb times its factor.
    ///
    /// # Errors
    /// When the factors are of another basis, or a kernel cannot be run.
    pub fn inverse_scaled(&self, x: &mut Limbs, scales: &Scales) -> Result<(), OpenClError> {
        Self::same_basis("Ring::inverse_scaled", &x.basis, &scales.basis)?;
        self.inverse_by(x, &scales.words)
    }

    fn inverse_by(&self, x: &Limbs, scales: &Buffer<u64>) -> Result<(), OpenClError> {
        let [roots, scales] = [&self.inverse_roots, scales].map(Argument::Words);
        let limbs = x.basis.len();
        self.run("inverse_rows", self.shape.rows(limbs), x, &[], &[roots])?;
        self.run(
            "inverse_columns",
            self.shape.columns(limbs),
            x,
            &[],
            &[roots, scales],
        )
    }

    /// Runs a kernel on limbs of `out`: groups of a limb, limbs, and work-items of a group. After `out` and
    /// the moduli it takes the first slots of `inputs`, then `more`; all of them are limbs of this ring.
    pub(crate) fn run(
        &self,
        kernel: &'static str,
        (grid, items): ([usize; 2], usize),
        out: &Limbs,
        inputs: &[&Limbs],
        more: &[Argument<'_>],
    ) -> Result<(), OpenClError> {
        self.owns(kernel, &[out])?;
        self.owns(kernel, inputs)?;
        let memory = self.arena.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let mut arguments = vec![
            Argument::Words(&memory),
            Argument::Number(out.lease.first()),
            Argument::Indices(&out.basis.words),
            Argument::Words(&self.moduli),
        ];
        arguments.extend(inputs.iter().map(|limbs| Argument::Number(limbs.lease.first())));
        arguments.extend(more);
        self.arena.queue.launch(kernel, grid, items, &arguments)
    }

    /// The word at which limbs begin.
    fn at(&self, limbs: &Limbs) -> usize {
        (limbs.lease.first() as usize) << self.arena.log_n
    }

    pub(crate) fn owns(&self, operation: &'static str, all: &[&Limbs]) -> Result<(), OpenClError> {
        if all.iter().all(|limbs| limbs.lease.is_of(&self.arena.slots)) {
            return Ok(());
        }
        Err(OpenClError::mismatch(operation, "limbs of another ring"))
    }

    pub(crate) fn same_basis(operation: &'static str, a: &Basis, b: &Basis) -> Result<(), OpenClError> {
        if a.indices == b.indices {
            return Ok(());
        }
        let reason = format!("primes {:?} and {:?}", a.indices, b.indices);
        Err(OpenClError::mismatch(operation, reason))
    }
}

fn tables(moduli: &[Modulus], log_n: u32) -> Result<Vec<NttTable>, OpenClError> {
    let tables = moduli.iter().map(|m| NttTable::new(*m, log_n));
    Ok(tables.collect::<Result<Vec<_>, _>>()?)
}
