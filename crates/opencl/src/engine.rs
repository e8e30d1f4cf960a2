//! The ring of an RLWE instance on a device, its polynomials, and what is made once for many operations.

use crate::convert::{Converter, Rescaler};
use crate::limbs::{Basis, Factors, Limbs};
use crate::{Build, Device, OpenClError, Ring};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use tacita_ckks::Ciphertext;
use tacita_ring::Modulus;
use tacita_rlwe::ciphertext::Polynomial;
use tacita_rlwe::{Parameters, RnsPoly};

pub(crate) type Made<T> = Result<T, OpenClError>;
type Cache<K, V> = Mutex<HashMap<K, Arc<V>>>;
type Indices = Vec<usize>;

/// Ciphertexts on a device: the backend of `tacita-ckks` over a [`Ring`]. [`Engine::upload`] and
/// [`Engine::download`] alone move residues of ciphertexts.
pub struct Engine {
    pub(crate) rlwe: Parameters,
    bases: Cache<Indices, Basis>,
    converters: Cache<(Indices, Indices), Converter>,
    rescalers: Cache<Indices, Rescaler>,
    factors: Cache<(Indices, Vec<u64>), Factors>,
    // Buffers go before the queue that they come from.
    pub(crate) ring: Ring,
}

/// A polynomial on a device. Its copies share its slots, since operations write to new ones.
pub struct Poly {
    pub(crate) limbs: Limbs,
    pub(crate) q_len: usize,
}

impl Clone for Poly {
    fn clone(&self) -> Self {
        let limbs = self.limbs.part(0, &self.limbs.basis);
        Self { limbs, ..*self }
    }
}

impl Polynomial for Poly {
    fn q_len(&self) -> usize {
        self.q_len
    }
    fn p_len(&self) -> usize {
        self.limbs.basis.len() - self.q_len
    }
}

impl Engine {
    /// Builds the kernels and makes room for `slots` limbs.
    ///
    /// # Errors
    /// As [`Ring::new`].
    pub fn new(device: &Device, build: Build, rlwe: &Parameters, slots: u32) -> Made<Self> {
        let ring = Ring::new(device, build, rlwe.log_n(), &moduli(rlwe), slots)?;
        Ok(Self::within(ring, rlwe))
    }

    /// Other parameters in the same slots: see [`tacita_ckks::Backend::over`].
    pub(crate) fn beside(&self, rlwe: &Parameters) -> Made<Self> {
        Ok(Self::within(self.ring.over(&moduli(rlwe))?, rlwe))
    }

    fn within(ring: Ring, rlwe: &Parameters) -> Self {
        Self {
            ring,
            rlwe: rlwe.clone(),
            bases: Mutex::default(),
            converters: Mutex::default(),
            rescalers: Mutex::default(),
            factors: Mutex::default(),
        }
    }

    /// A ciphertext to the device.
    ///
    /// # Errors
    /// When memory is short, or the transfer fails.
    pub fn upload(&self, x: &Ciphertext) -> Made<Ciphertext<Poly>> {
        let polys = x.polys.iter().map(|x| self.upload_poly(x)).collect::<Made<_>>()?;
        let scale = x.scale;
        Ok(Ciphertext { polys, scale })
    }

    /// A ciphertext from the device, after every operation before.
    ///
    /// # Errors
    /// When a kernel or the transfer failed.
    pub fn download(&self, x: &Ciphertext<Poly>) -> Made<Ciphertext> {
        let poly = |x: &Poly| -> Made<RnsPoly> {
            let mut out = RnsPoly::zero(&self.rlwe, x.q_len(), x.p_len());
            let limbs = self.ring.download(&x.limbs)?;
            let pairs = out.limbs.iter_mut().zip(&limbs);
            pairs.for_each(|(out, limb)| out.copy_from_slice(limb));
            Ok(out)
        };
        let (polys, scale) = (x.polys.iter().map(poly).collect::<Made<_>>()?, x.scale);
        Ok(Ciphertext { polys, scale })
    }

    pub(crate) fn upload_poly(&self, x: &RnsPoly) -> Made<Poly> {
        let limbs: Vec<&[f64]> = x.limbs.iter().map(|limb| &limb[..]).collect();
        let limbs = self
            .ring
            .upload(&self.basis(&self.chain(x.q_len, x.p_len()))?, &limbs)?;
        Ok(Poly {
            limbs,
            q_len: x.q_len,
        })
    }

    /// The primes of a polynomial, by their index.
    pub(crate) fn chain(&self, q_len: usize, p_len: usize) -> Indices {
        let special = (0..p_len).map(|k| self.rlwe.p_index(k));
        (0..q_len).chain(special).collect()
    }

    pub(crate) fn basis(&self, indices: &[usize]) -> Made<Arc<Basis>> {
        cached(&self.bases, indices.to_vec(), || self.ring.basis(indices))
    }

    pub(crate) fn converter(&self, source: &[usize], target: &[usize]) -> Made<Arc<Converter>> {
        cached(&self.converters, (source.to_vec(), target.to_vec()), || {
            let made = self.ring.converter(&self.basis(source)?, &self.basis(target)?);
            made.map(Arc::new)
        })
    }

    pub(crate) fn rescaler(&self, basis: &Arc<Basis>) -> Made<Arc<Rescaler>> {
        cached(&self.rescalers, basis.indices.clone(), || {
            self.ring.rescaler(basis).map(Arc::new)
        })
    }

    /// A factor for each limb, which f gives by the prime's index.
    pub(crate) fn factors(&self, basis: &Arc<Basis>, f: impl Fn(usize) -> u64) -> Made<Arc<Factors>> {
        let values: Vec<u64> = basis.indices.iter().map(|&i| f(i)).collect();
        cached(&self.factors, (basis.indices.clone(), values.clone()), || {
            self.ring.factors(basis, &values).map(Arc::new)
        })
    }

    /// Product of the first `special` special primes modulo prime i.
    pub(crate) fn special_product(&self, special: usize, i: usize) -> u64 {
        let m = self.rlwe.modulus(i);
        let primes = self.rlwe.p()[..special].iter();
        primes.fold(1, |product, p| m.mul(product, p % m.p()))
    }

    /// Limbs `start` to `start + indices.len()`, which have these primes, in their slots.
    pub(crate) fn part(&self, x: &Limbs, start: usize, indices: &[usize]) -> Made<Limbs> {
        Ok(x.part(start, &self.basis(indices)?))
    }

    /// Copies limbs to slots.
    pub(crate) fn copy_to(&self, out: &Limbs, x: &Limbs) -> Made<()> {
        self.ring.run_values("copy", out, out.basis.len(), &[x], &[])
    }
}

fn moduli(rlwe: &Parameters) -> Vec<Modulus> {
    let primes = 0..rlwe.q_len() + rlwe.p_len();
    primes.map(|i| *rlwe.modulus(i)).collect()
}

/// What is made outside the lock is made twice at worst.
fn cached<K: Hash + Eq, V>(cache: &Cache<K, V>, key: K, make: impl FnOnce() -> Made<Arc<V>>) -> Made<Arc<V>> {
    let lock = || cache.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(value) = lock().get(&key) {
        return Ok(Arc::clone(value));
    }
    let value = make()?;
    Ok(Arc::clone(lock().entry(key).or_insert(value)))
}
