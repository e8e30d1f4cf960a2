//! An evaluator of one backend, and ciphertexts where they lie. What is written over a backend of
//! `tacita-ckks` is written once; a ciphertext in Python's hands stays where it was computed.
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tacita_ckks::backend::{Backend, CiphertextOf as Of};
use tacita_ckks::bootstrap::refresh::shallow::{ShallowMatrices, ShallowRefresh};
use tacita_ckks::bootstrap::Bootstrapper;
use tacita_ckks::{CkksError, EvaluationKeys, Evaluator, Processor};
use tacita_coefficients::ToCoefficients;
use tacita_opencl::{Engine, Poly};
use tacita_rlwe::{Ciphertext, Parameters};

/// An evaluator of one backend with matrices, which are made when they are first needed and which the
/// evaluators of several clients share.
pub struct Side<B: Backend> {
    matrices: Arc<Matrices<B>>,
    /// What shallow refreshes have of this client's keys.
    shallow: Cache<ShallowRefresh<B>>,
    pub evaluator: Evaluator<B>,
}

/// Of bootstrapping, and around products of coefficients.
struct Matrices<B: Backend> {
    bootstrapper: OnceLock<Bootstrapper<B>>,
    to_coefficients: OnceLock<ToCoefficients<B>>,
    shallow: Cache<ShallowMatrices<B>>,
}

impl<B: Backend> Default for Matrices<B> {
    fn default() -> Self {
        Self {
            bootstrapper: OnceLock::new(),
            to_coefficients: OnceLock::new(),
            shallow: Cache::default(),
        }
    }
}

/// By depth of the function and native level of the result.
type Cache<T> = Mutex<HashMap<(usize, usize), Arc<T>>>;

impl<B: Backend> Side<B> {
    /// Without matrices yet.
    pub fn new(evaluator: Evaluator<B>) -> Self {
        Self {
            matrices: Arc::default(),
            shallow: Cache::default(),
            evaluator,
        }
    }

    /// The same with other keys.
    pub fn over(&self, keys: Arc<EvaluationKeys<B::Key>>) -> Self {
        let (backend, params) = (self.evaluator.backend().clone(), self.evaluator.params().clone());
        Self {
            matrices: self.matrices.clone(),
            shallow: Cache::default(),
            evaluator: Evaluator::on(backend, params, keys),
        }
    }

    /// Made when it is first needed, or by `prepare`.
    pub fn bootstrapper(&self) -> Result<&Bootstrapper<B>, CkksError> {
        once(&self.matrices.bootstrapper, || Bootstrapper::new(&self.evaluator))
    }

    /// The same of what leads from slots to coefficients.
    pub(crate) fn to_coefficients(&self) -> Result<&ToCoefficients<B>, CkksError> {
        once(&self.matrices.to_coefficients, || {
            ToCoefficients::new(&self.evaluator)
        })
    }

    /// The same of a refresh through functions of so many levels that ends at this native level. Its
    /// matrices are all clients', its keys are this one's.
    pub(crate) fn shallow(&self, depth: usize, level: usize) -> Result<Arc<ShallowRefresh<B>>, CkksError> {
        let (e, at) = (&self.evaluator, (depth, level));
        let matrices = cached(&self.matrices.shallow, at, || {
            ShallowMatrices::new(e, depth, level)
        })?;
        cached(&self.shallow, at, || ShallowRefresh::new(e, matrices))
    }
}

/// What is there, or is made outside of any lock: parallel work may wait for threads that want it too.
fn once<T>(place: &OnceLock<T>, make: impl FnOnce() -> Result<T, CkksError>) -> Result<&T, CkksError> {
    if let Some(made) = place.get() {
        return Ok(made);
    }
    let made = make()?;
    Ok(place.get_or_init(|| made))
}

fn cached<T>(
    cache: &Cache<T>,
    at: (usize, usize),
    make: impl FnOnce() -> Result<T, CkksError>,
) -> Result<Arc<T>, CkksError> {
    let lock = || cache.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(made) = lock().get(&at) {
        return Ok(made.clone());
    }
    let made = Arc::new(make()?);
    Ok(lock().entry(at).or_insert(made).clone())
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
