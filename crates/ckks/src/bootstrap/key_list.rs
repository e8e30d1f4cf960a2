//! Which evaluation keys a client makes: those of bootstrapping, and those of a plan.
use super::dft;
use crate::keys::{add, galois_of_conjugation, galois_of_rotation, KeyKind, KeySpec};
use crate::params::CTS_LEVELS;
use crate::{sparse, CkksError, CkksParameters};
use std::collections::{BTreeMap, BTreeSet};

/// The keys that every client makes, each at the lowest number of limbs that serves it: those of
/// bootstrapping, which include relinearisation and conjugation; without bootstrapping these two, at every
/// level.
pub fn required_keys(p: &CkksParameters) -> Vec<KeySpec> {
    let all = p.rlwe().q_len();
    if !p.can_bootstrap() {
        let conjugation = KeyKind::Galois(galois_of_conjugation(p));
        return [KeyKind::Relinearise, conjugation]
            .map(|kind| KeySpec { kind, limbs: all })
            .into();
    }
    let mut limbs: BTreeMap<KeyKind, usize> = BTreeMap::new();
    let mut need = |kind: KeyKind, l: usize| {
        let e = limbs.entry(kind).or_insert(l);
        *e = (*e).max(l);
    };
    let mut steps = |rotations: BTreeSet<i64>, kind: fn(u64) -> KeyKind, limbs: usize| {
        for step in rotations {
            need(kind(galois_of_rotation(p, step)), limbs);
        }
    };
    for (i, rotations) in dft::rotations_to_coefficients(p.slots()).into_iter().enumerate() {
        steps(rotations, KeyKind::LowGalois, p.bottom_level() + 1 - i);
    }
    for (i, rotations) in dft::rotations_to_slots(p.slots()).into_iter().enumerate() {
        steps(rotations, KeyKind::Galois, all - i);
    }
    need(KeyKind::Galois(galois_of_conjugation(p)), all - CTS_LEVELS);
    need(KeyKind::Relinearise, all - CTS_LEVELS);
    need(KeyKind::ToSparse, sparse::LIMBS);
    (0..p.raise_diagonals()).for_each(|place| need(KeyKind::Raise(place), all));
    limbs
        .into_iter()
        .map(|(kind, limbs)| KeySpec { kind, limbs })
        .collect()
}

/// The keys of a plan: those that every client makes ([`required_keys`]) and a rotation by each of
/// the steps, up to a user level.
///
/// # Errors
/// [`CkksError::Shape`] for a level above the top.
pub fn of_plan(params: &CkksParameters, rotations: &[(i64, usize)]) -> Result<Vec<KeySpec>, CkksError> {
    let mut all = required_keys(params);
    for &(steps, level) in rotations {
        let limbs = params.native_level("rotation keys", level)? + 1;
        let kind = KeyKind::Galois(galois_of_rotation(params, steps));
        add(&mut all, KeySpec { kind, limbs });
    }
    Ok(all)
}
