//! The raise of the modulus, together with the first factor of coefficients-to-slots.
//!
//! That factor is sum_d v_d rot(x, d) with 32 diagonals v_d at most. There is a key for each of them, which
//! encrypts m_d phi_d(s') under s: m_d is v_d times a special prime P', rounded, and s' is the sparse secret.
//! So the switch back to s multiplies by the diagonals, and its division by P' makes them fractions again; no
//! prime of the chain is used up ([`switch_products`](tacita_rlwe::keyswitch::switch_products)).
//!
//! **Error.** The errors of D keys times c1 < q0 / 2, divided by P': sigma q0 sqrt(D N / 12) / P'. For `n16`
//! that is 2^5.5 a coefficient beside a message of 2^36.5, whose slots the factor shrinks to 2^-2.4: an error
//! of 2^-28.6 of the message, where a bootstrap errs by 2^-22.8. Client and server both round v_d P'. Should
//! they round differently, by u, that is an error of u c0 / P', less than the keys' as long as u is below 3.
use super::dft::{self, FACTOR};
use crate::backend::{Backend, CiphertextOf as Of, Pair};
use crate::encoding::Encoder;
use crate::keys::{galois_of_rotation, KeyKind};
use crate::{Ciphertext, CkksError, CkksParameters, Evaluator};
use rayon::prelude::*;
use tacita_rlwe::keyswitch::PLAIN_LIMBS;

/// A diagonal of the first factor, ready to be multiplied by.
pub(crate) struct Diagonal {
    /// Element of its rotation.
    pub galois: u64,
    /// Coefficients, times P'.
    pub integers: Vec<i64>,
}

/// All diagonals, in the order of [`KeyKind::Raise`]. Cost at N = 2^16: half a second of one thread.
///
/// # Errors
/// Those of encoding; none without bootstrapping, where there are none.
pub(crate) fn diagonals(p: &CkksParameters, encoder: &Encoder) -> Result<Vec<Diagonal>, CkksError> {
    let scale = p.cts_step() * p.rlwe().p()[0] as f64;
    let vectors = dft::first_towards_slots(encoder, p.slots(), FACTOR);
    let encoded = vectors.into_par_iter().map(|(rotation, v)| {
        let whole: Vec<_> = v.iter().copied().cycle().take(p.slots()).collect();
        let (galois, integers) = (galois_of_rotation(p, rotation), encoder.integers(&whole, scale)?);
        Ok(Diagonal { galois, integers })
    });
    encoded.collect()
}

/// Plaintexts of the first factor.
pub(super) struct Raise<B: Backend> {
    diagonals: Vec<B::Diagonal>,
    bytes: usize,
}

impl<B: Backend> Raise<B> {
    /// # Errors
    /// Those of encoding, and of a device.
    pub fn new(e: &Evaluator<B>) -> Result<Self, CkksError> {
        let all = diagonals(e.params(), e.encoder())?.into_par_iter();
        let made = all.map(|d| e.backend().diagonal(d.galois, &d.integers));
        let diagonals: Vec<B::Diagonal> = made.collect::<Result<_, _>>()?;
        let bytes = diagonals.len() * (PLAIN_LIMBS + 1) * e.rlwe().n() * size_of::<f64>();
        Ok(Self { diagonals, bytes })
    }

    /// Bytes of the plaintexts.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Native level 0 -> `limbs` limbs, at [`CkksParameters::raised_scale`].
    ///
    /// # Errors
    /// Missing keys.
    pub fn apply(&self, e: &Evaluator<B>, c: &Of<B>, limbs: usize) -> Result<Of<B>, CkksError> {
        let low = e.truncated(c, 1)?;
        let to_sparse = e.keys().get(KeyKind::ToSparse, 1)?;
        let term = |(place, diagonal)| Ok((e.keys().get(KeyKind::Raise(place), limbs)?, diagonal));
        let terms = (0..).zip(&self.diagonals).map(term);
        let terms = terms.collect::<Result<Vec<_>, CkksError>>()?;
        let polys = [&low.polys[0], &low.polys[1]];
        let Pair(u0, u1) = e.backend().raise(polys, to_sparse, &terms, limbs)?;
        Ok(Ciphertext {
            polys: vec![u0, u1],
            scale: e.params().raised_scale(),
        })
    }
}
