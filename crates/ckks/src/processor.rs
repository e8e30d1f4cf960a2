//! The processor as a backend: its polynomials are those of `tacita-rlwe`. See `host.rs` for what it does.
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tacita_ring::{Modulus, Permutation};
use tacita_rlwe::Parameters;

/// Computes on [`RnsPoly`](tacita_rlwe::RnsPoly), on all threads.
pub struct Processor {
    rlwe: Parameters,
    permutations: Mutex<HashMap<u64, Arc<Permutation>>>,
}

impl Processor {
    pub(crate) fn new(rlwe: Parameters) -> Self {
        let permutations = Mutex::default();
        Self { rlwe, permutations }
    }

    pub(crate) fn rlwe(&self) -> &Parameters {
        &self.rlwe
    }

    pub(crate) fn permutation(&self, galois: u64) -> Arc<Permutation> {
        let mut cache = lock(&self.permutations);
        cache
            .entry(galois)
            .or_insert_with(|| Arc::new(Permutation::new(self.rlwe.log_n(), galois)))
            .clone()
    }
}

pub(crate) fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn add_scalar(m: &Modulus, limb: &mut [f64], c: u64) {
    let (c, p) = (c as f64, m.p() as f64);
    for x in limb {
        let y = *x + c;
        *x = if y >= p { y - p } else { y };
    }
}

pub(crate) fn add_runs(m: &Modulus, limb: &mut [f64], w: &[f64]) {
    let run = limb.len() / w.len();
    for (chunk, &c) in limb.chunks_exact_mut(run).zip(w) {
        add_scalar(m, chunk, c as u64);
    }
}
