//! An evaluator of one backend, and ciphertexts where they lie. What is written over a backend of
//! `tacita-ckks` is written once; a ciphertext in Python's hands stays where it was computed.
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use tacita_ckks::backend::{Backend, CiphertextOf as Of};
use tacita_ckks::bootstrap::Bootstrapper;
use tacita_ckks::{CkksError, EvaluationKeys, Evaluator, Processor};
use tacita_opencl::{Engine, Poly};
use tacita_rlwe::{Ciphertext, Parameters};

/// An evaluator of one backend with the matrices of bootstrapping, which are made when they are first needed
/// and which the evaluators of several clients share.
pub struct Side<B: Backend> {
    bootstrapper: Arc<OnceLock<Bootstrapper<B>>>,
    pub evaluator: Evaluator<B>,
}

impl<B: Backend> Side<B> {
    /// Without matrices yet.
    pub fn new(evaluator: Evaluator<B>) -> Self {
        let bootstrapper = Arc::default();
        Self {
            bootstrapper,
            evaluator,
        }
    }

    /// The same with other keys.
    pub fn over(&self, keys: Arc<EvaluationKeys<B::Key>>) -> Self {
        let (backend, params) = (self.evaluator.backend().clone(), self.evaluator.params().clone());
        Self {
            bootstrapper: self.bootstrapper.clone(),
            evaluator: Evaluator::on(backend, params, keys),
        }
    }

    /// Made when it is first needed, or by `prepare`.
    pub fn bootstrapper(&self) -> Result<&Bootstrapper<B>, CkksError> {
        if let Some(made) = self.bootstrapper.get() {
            return Ok(made);
        }
        let made = Bootstrapper::new(&self.evaluator)?;
        Ok(self.bootstrapper.get_or_init(|| made))
    }
}

/// The residues of a ciphertext where they lie.
pub enum Residues {
    Processor(Ciphertext),
    Device(Ciphertext<Poly>, Arc<Engine>),
}

impl Residues {
    pub fn level(&self) -> usize {
        match self {
            Self::Processor(x) => x.level(),
            Self::Device(x, _) => x.level(),
        }
    }
    pub fn scale(&self) -> f64 {
        match self {
            Self::Processor(x) => x.scale,
            Self::Device(x, _) => x.scale,
        }
    }
    /// Bytes, wherever they are.
    pub fn bytes(&self, rlwe: &Parameters) -> usize {
        match self {
            Self::Processor(x) => x.bytes(rlwe),
            Self::Device(x, _) => x.bytes(rlwe),
        }
    }
    /// On the processor: as it is, or copied from its device.
    pub fn here(&self) -> Result<Cow<'_, Ciphertext>, CkksError> {
        match self {
            Self::Processor(x) => Ok(Cow::Borrowed(x)),
            Self::Device(x, engine) => Ok(Cow::Owned(engine.download(x)?)),
        }
    }
}

/// A backend whose ciphertexts Python may hold.
pub trait Home: Backend {
    /// A ciphertext here: copied where it lies elsewhere.
    fn operand<'a>(this: &Arc<Self>, x: &'a Residues) -> Result<Cow<'a, Of<Self>>, CkksError>;
    /// A result.
    fn residues(this: &Arc<Self>, x: Of<Self>) -> Residues;
}

impl Home for Processor {
    fn operand<'a>(_: &Arc<Self>, x: &'a Residues) -> Result<Cow<'a, Ciphertext>, CkksError> {
        x.here()
    }
    fn residues(_: &Arc<Self>, x: Ciphertext) -> Residues {
        Residues::Processor(x)
    }
}

impl Home for Engine {
    fn operand<'a>(this: &Arc<Self>, x: &'a Residues) -> Result<Cow<'a, Ciphertext<Poly>>, CkksError> {
        match x {
            Residues::Device(x, engine) if Arc::ptr_eq(this, engine) => Ok(Cow::Borrowed(x)),
            other => Ok(Cow::Owned(this.upload(&*other.here()?)?)),
        }
    }
    fn residues(this: &Arc<Self>, x: Ciphertext<Poly>) -> Residues {
        Residues::Device(x, this.clone())
    }
}
