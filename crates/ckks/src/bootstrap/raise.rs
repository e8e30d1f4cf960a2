//! The raise of the modulus, together with the first factor of coefficients-to-slots.
//!
//! That factor is sum_d v_d rot(x, d) with 32 diagonals v_d at most. There is a key for each of them, which
//! encrypts m_d phi_d(s') under s: m_d is v_d times a special prime P', rounded, and s' is the sparse secret.
//! So the switch back to s multiplies by the diagonals, and its division by P' makes them fractions again; no
//! prime of the chain is used up ([`keyswitch::switch_products`]).
//!
//! **Error.** The errors of D keys times c1 < q0 / 2, divided by P': sigma q0 sqrt(D N / 12) / P'. For `n16`
//! that is 2^5.5 a coefficient beside a message of 2^36.5, whose slots the factor shrinks to 2^-2.4: an error
//! of 2^-28.6 of the message, where a bootstrap errs by 2^-22.8. Client and server both round v_d P'. Should
//! they round differently, by u, that is an error of u c0 / P', less than the keys' as long as u is below 3.
use super::dft::{self, FACTOR};
use crate::encoding::Encoder;
use crate::keys::{galois_of_rotation, KeyKind};
use crate::{Ciphertext, CkksError, CkksParameters, Evaluator};
use rayon::prelude::*;
use std::sync::Arc;
use tacita_ring::Permutation;
use tacita_rlwe::keyswitch::{self, Product, PLAIN_LIMBS};
use tacita_rlwe::RnsPoly;

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
pub(super) struct Raise(Vec<(Arc<Permutation>, RnsPoly)>);

impl Raise {
    /// # Errors
    /// Those of encoding.
    pub fn new(e: &Evaluator) -> Result<Self, CkksError> {
        let all = diagonals(e.params(), e.encoder())?.into_par_iter().map(|d| {
            let plain = RnsPoly::from_small(e.rlwe(), &d.integers, PLAIN_LIMBS, 1);
            (e.permutation(d.galois), plain)
        });
        Ok(Self(all.collect()))
    }

    /// Bytes of the plaintexts.
    pub fn bytes(&self) -> usize {
        let limbs = self.0.iter().flat_map(|(_, plain)| &plain.limbs);
        limbs.map(|limb| limb.len() * 8).sum()
    }

    /// Native level 0 -> `limbs` limbs, at [`CkksParameters::raised_scale`].
    ///
    /// # Errors
    /// Missing keys.
    pub fn apply(&self, e: &Evaluator, c: &Ciphertext, limbs: usize) -> Result<Ciphertext, CkksError> {
        let rlwe = e.rlwe();
        let centred = |x: &RnsPoly| -> Vec<i64> {
            let (m, x) = (rlwe.modulus(0), x.limb_coefficients(rlwe, 0));
            x.iter().map(|&v| m.center(v as u64)).collect()
        };
        let low = c.truncated(1);
        let to_sparse = e.keys().get(KeyKind::ToSparse, 1)?;
        let (mut c0, c1) = keyswitch::switch_small(rlwe, &centred(&low.polys[1]), to_sparse);
        c0.add_assign(rlwe, &low.polys[0]);
        let terms = (0..).zip(&self.0).map(|(place, (permutation, plain))| {
            let key = e.keys().get(KeyKind::Raise(place), limbs)?;
            Ok(Product {
                key,
                permutation,
                plain,
            })
        });
        let terms = terms.collect::<Result<Vec<_>, CkksError>>()?;
        let (u0, u1) = keyswitch::switch_products(rlwe, [&centred(&c0), &centred(&c1)], &terms, limbs);
        Ok(Ciphertext {
            polys: vec![u0, u1],
            scale: e.params().raised_scale(),
        })
    }
}
