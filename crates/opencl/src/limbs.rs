//! Limbs that live on a device, and what belongs to them.

use crate::slots::Lease;
use opencl3::memory::Buffer;
use std::sync::Arc;

/// The primes of some limbs, in order, by their index in the ring; a prime may come twice.
pub struct Basis {
    pub(crate) indices: Vec<usize>,
    pub(crate) words: Buffer<u32>,
    /// The factors of the last level of the inverse transform.
    pub(crate) scales: Buffer<u64>,
}

impl Basis {
    pub fn indices(&self) -> &[usize] {
        &self.indices
    }

    #[allow(clippy::len_without_is_empty)] // a ring makes none that is
    pub fn len(&self) -> usize {
        self.indices.len()
    }
}

/// Canonical residues modulo the primes of a basis, in slots of a ring.
pub struct Limbs {
    pub(crate) lease: Lease,
    pub(crate) basis: Arc<Basis>,
}

impl Limbs {
    pub fn basis(&self) -> &Arc<Basis> {
        &self.basis
    }

    /// The limbs from `start` on, as many as the basis has, in the same slots.
    pub(crate) fn part(&self, start: usize, basis: &Arc<Basis>) -> Self {
        let indices = self.basis.indices.get(start..start + basis.len());
        assert_eq!(
            indices,
            Some(basis.indices()),
            "a part has the primes of its whole"
        );
        Self {
            lease: self.lease.part(start as u32),
            basis: Arc::clone(basis),
        }
    }
}

/// A factor for each limb of a basis.
pub struct Factors {
    pub(crate) words: Buffer<u64>,
    pub(crate) basis: Arc<Basis>,
}

/// The same for the end of an inverse transform.
pub struct Scales {
    pub(crate) words: Buffer<u64>,
    pub(crate) basis: Arc<Basis>,
}
