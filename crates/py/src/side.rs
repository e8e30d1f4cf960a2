//! Where an evaluator computes: the processor, or a device of OpenCL. No code of circuits is generated in
//! this crate: `tacita-sides` has the processor's, `tacita-device` a device's.
use crate::error::{self, TacitaError};
use pyo3::PyResult;
use std::sync::Arc;
use tacita_ckks::{CkksError, CkksParameters, EvaluationKeys, Processor};
use tacita_device::Device;
pub use tacita_sides::{Residues, Side};

/// Both sides: the processor's knows the parameters in any case, and has no keys where a device computes.
pub struct Sides {
    pub processor: Side<Processor>,
    pub device: Option<Device>,
}

impl Sides {
    /// On the processor, or on the device of this number, with as many slots for limbs as it has room for.
    pub fn open(params: &CkksParameters, device: Option<usize>) -> PyResult<Self> {
        let open = |number| Device::open(params, number).map_err(error::opencl);
        Ok(Self {
            processor: Side::<Processor>::open(params),
            device: device.map(open).transpose()?,
        })
    }

    /// The same with a client's keys, uploaded where a device computes.
    pub fn over(&self, keys: &Arc<EvaluationKeys>) -> Result<Self, CkksError> {
        let Some(device) = &self.device else {
            let processor = self.processor.with_keys(keys.clone());
            return Ok(Self {
                processor,
                device: None,
            });
        };
        Ok(Self {
            processor: self.processor.with_keys(Arc::default()),
            device: Some(device.with_keys(keys)?),
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
