//! A refresh through a function that ends low: the limbs between its levels and its result are never made.
//!
//! What a product of coefficients takes is one level above the bottom. A refresh that returns 13 levels for
//! it throws twelve of them away, and they cost the most: a key switch at L limbs takes D (L + 9) + 2 L + 18
//! transforms. Through GELU by 10 harmonics (four levels) to user level 1 the limbs are
//!
//! | step | as ever | here |
//! |---|---|---|
//! | mod-raise, coefficients-to-slots | 30 to 28 | 18 to 16 |
//! | series, three squarings | 28 to 20 | 16 to 8 |
//! | polynomial in z | 20 to 16 | 8 to 4 |
//!
//! The primes are those of the whole refresh, so its scales and errors are. Limbs of the result are the
//! lowest ones either way, and keys of the whole chain serve: see [`Parameters::without`]. The gap leaves 4,
//! 5 and 9 limbs of three digits, where two of 9 would do. So the two keys of the series and the polynomial,
//! which switch most, are made of two digits here, from the client's ([`SwitchingKey::joined`]): a switch
//! takes L + 9 transforms less.
//!
//! [`Parameters::without`]: tacita_rlwe::Parameters::without
//! [`SwitchingKey::joined`]: tacita_rlwe::SwitchingKey::joined
use super::Harmonics;
use crate::backend::{Backend, CiphertextOf as Of};
use crate::bootstrap::{Bootstrapper, Content};
use crate::keys::galois_of_conjugation;
use crate::processor::Processor;
use crate::{CkksError, CkksParameters, EvaluationKeys, Evaluator, KeyKind};
use std::sync::Arc;

/// Encoded matrices of a refresh through functions of one depth to one level, for all clients.
pub struct ShallowMatrices<B: Backend = Processor> {
    /// The chain without the limbs between.
    chain: Chain<B>,
    /// The same with joined digits, for what follows coefficients-to-slots.
    joined: Chain<B>,
    bootstrapper: Bootstrapper<B>,
    depth: usize,
}

struct Chain<B: Backend> {
    params: CkksParameters,
    backend: Arc<B>,
}

impl<B: Backend> Chain<B> {
    fn new(e: &Evaluator<B>, params: CkksParameters) -> Result<Self, CkksError> {
        let backend = Arc::new(e.backend().over(params.rlwe())?);
        Ok(Self { params, backend })
    }
}

impl<B: Backend> ShallowMatrices<B> {
    /// For functions of `depth` levels ([`Harmonics::depth`]) whose results end at native level `out`.
    /// Encodes coefficients-to-slots: about 0.2 GB at N = 2^16. No key of `e` is kept.
    ///
    /// # Errors
    /// [`CkksError::Shape`] where that takes more limbs than there are.
    pub fn new(e: &Evaluator<B>, depth: usize, out: usize) -> Result<Self, CkksError> {
        let p = e.params();
        let highest = (p.top_level() + 1).checked_sub(depth);
        if !p.can_bootstrap() || highest.is_none_or(|highest| highest < out) {
            let (name, limbs) = (p.rlwe().name(), p.rlwe().q_len());
            let detail = format!(
                "{depth} levels that end at native level {out} are not in the {limbs} limbs of preset \
                 {name}; hint: end lower"
            );
            return Err(CkksError::Shape {
                op: "refresh",
                detail,
            });
        }
        let params = p.ending_at(out, depth)?;
        let joined = Chain::new(e, params.with_joined_digits()?)?;
        let chain = Chain::new(e, params)?;
        let evaluator = e.over(chain.backend.clone(), chain.params.clone());
        Ok(Self {
            bootstrapper: Bootstrapper::of_coefficients(&evaluator)?,
            chain,
            joined,
            depth,
        })
    }
}

/// A refresh through functions of one depth to one level, under the keys of a client.
pub struct ShallowRefresh<B: Backend = Processor> {
    matrices: Arc<ShallowMatrices<B>>,
    evaluator: Evaluator<B>,
    joined: Evaluator<B>,
}

impl<B: Backend> ShallowRefresh<B> {
    /// By the keys of `e`, of which two are joined: about 0.1 GB at N = 2^16.
    ///
    /// # Errors
    /// Missing keys.
    pub fn new(e: &Evaluator<B>, matrices: Arc<ShallowMatrices<B>>) -> Result<Self, CkksError> {
        let (p, chain, joined) = (e.params(), &matrices.chain, &matrices.joined);
        let mut keys = EvaluationKeys::default();
        for kind in [KeyKind::Relinearise, KeyKind::Galois(galois_of_conjugation(p))] {
            let key = e.keys().get(kind, 1)?;
            let key = e
                .backend()
                .joined(key, chain.params.rlwe(), joined.params.rlwe())?;
            keys.insert(kind, key);
        }
        Ok(Self {
            evaluator: e.over(chain.backend.clone(), chain.params.clone()),
            joined: Evaluator::on(joined.backend.clone(), joined.params.clone(), Arc::new(keys)),
            matrices,
        })
    }

    /// Coefficients at native level 0, already times [`super::MULTIPLE`] -> f of the slots.
    ///
    /// # Errors
    /// [`CkksError::Shape`] for a function of another depth; missing keys.
    pub fn refresh(&self, low: &Of<B>, content: Content, f: &Harmonics) -> Result<Vec<Of<B>>, CkksError> {
        if f.depth() != self.matrices.depth {
            let detail = format!(
                "a function of {} levels in a refresh made for {}",
                f.depth(),
                self.matrices.depth
            );
            return Err(CkksError::Shape {
                op: "refresh",
                detail,
            });
        }
        let (e, b) = (&self.evaluator, &self.matrices.bootstrapper);
        let slots = b.coefficients_to_slots(e, b.mod_raise(e, low)?)?;
        b.apply_to_phase(&self.joined, &slots, content, f)
    }
}
