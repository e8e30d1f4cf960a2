//! Where an evaluator computes: the processor, or a device of OpenCL. What is written over a backend of
//! `tacita-ckks` is written once; a ciphertext in Python's hands stays where it was computed.
use crate::error::{self, TacitaError};
use pyo3::PyResult;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use tacita_ckks::backend::{Backend, CiphertextOf as Of};
use tacita_ckks::bootstrap::Bootstrapper;
use tacita_ckks::{CkksError, CkksParameters, EvaluationKeys, Evaluator, Processor};
use tacita_opencl::{devices, Build, Engine, OpenClError, Poly, Room};
use tacita_rlwe::{Ciphertext, Parameters};

/// An evaluator of one backend with the matrices of bootstrapping, which are made when they are first needed
/// and which the evaluators of several clients share.
pub struct Side<B: Backend> {
    bootstrapper: Arc<OnceLock<Bootstrapper<B>>>,
    pub evaluator: Evaluator<B>,
}

impl<B: Backend> Side<B> {
    fn new(evaluator: Evaluator<B>) -> Self {
        let bootstrapper = Arc::default();
        Self {
            bootstrapper,
            evaluator,
        }
    }

    /// The same with other keys.
    fn over(&self, keys: Arc<EvaluationKeys<B::Key>>) -> Self {
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

/// Both sides: the processor's knows the parameters in any case, and has no keys where a device computes.
pub struct Sides {
    pub processor: Side<Processor>,
    pub device: Option<Side<Engine>>,
}

impl Sides {
    /// On the processor, or on the device of this number, with as many slots for limbs as it has room for.
    pub fn open(params: &CkksParameters, device: Option<usize>) -> PyResult<Self> {
        let open = |number| engine(params.rlwe(), number).map_err(error::opencl);
        let on = |engine| Side::new(Evaluator::on(Arc::new(engine), params.clone(), Arc::default()));
        Ok(Self {
            processor: Side::new(Evaluator::new(params.clone(), Arc::default())),
            device: device.map(open).transpose()?.map(on),
        })
    }

    /// The same with a client's keys, uploaded where a device computes.
    pub fn over(&self, keys: &Arc<EvaluationKeys>) -> Result<Self, CkksError> {
        let Some(device) = &self.device else {
            let processor = self.processor.over(keys.clone());
            return Ok(Self {
                processor,
                device: None,
            });
        };
        let engine = device.evaluator.backend();
        let uploaded = keys.copied(|key| engine.upload_key(key))?;
        Ok(Self {
            processor: self.processor.over(Arc::default()),
            device: Some(device.over(Arc::new(uploaded))),
        })
    }

    /// Fails where a device computes, which lacks this operation.
    pub fn on_processor(&self, op: &str) -> PyResult<&Side<Processor>> {
        match &self.device {
            None => Ok(&self.processor),
            Some(_) => Err(TacitaError::new_err(format!(
                "{op}: devices of OpenCL do not compute it yet; hint: --device cpu, or a plan of packing rows"
            ))),
        }
    }
}

fn engine(rlwe: &Parameters, number: usize) -> Result<Engine, OpenClError> {
    let all = devices()?;
    let device = all.get(number).ok_or(OpenClError::NoDevice)?;
    let build = Build::new(device.flavours()[0]);
    let slots = Room::slots(device, rlwe.log_n());
    Engine::new(device, build, rlwe, slots)
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
