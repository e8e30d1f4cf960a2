//! Devices of OpenCL: which there are, and whether their kernels leave the processor's residues.
use crate::error;
use crate::parameters::Parameters;
use pyo3::prelude::*;
use tacita_opencl::{devices, verify, Build, Check, Device, OpenClError, ReferenceBootstrap, Room};

/// Name, maker, driver with its version, bytes of memory and of the largest buffer, whether it computes with
/// doubles, and whether it is a GPU.
type Description = (String, String, String, u64, u64, bool, bool);

/// Kernel, flavour, log2 of the degree, residues that were compared, and how many of them differ.
type Comparison = (&'static str, &'static str, u32, u64, u64);

/// The devices in the order of their drivers, and why there is none where there is none.
#[pyfunction]
pub fn opencl_devices(py: Python<'_>) -> PyResult<(Vec<Description>, String)> {
    match py.detach(devices) {
        Ok(all) => Ok((all.into_iter().map(describe).collect(), String::new())),
        Err(reason @ (OpenClError::NoLibrary | OpenClError::NoDevice)) => {
            Ok((Vec::new(), reason.to_string()))
        }
        Err(other) => Err(error::opencl(other)),
    }
}

fn describe(device: Device) -> Description {
    (
        device.name,
        device.maker,
        device.driver,
        device.memory,
        device.buffer,
        device.fp64,
        device.gpu,
    )
}

/// Bytes of a device's slots for ciphertexts, and those that are left for keys, matrices and plaintexts.
#[pyfunction]
pub fn opencl_room(py: Python<'_>, device: usize) -> PyResult<(u64, u64)> {
    let device = py.detach(|| numbered(device)).map_err(error::opencl)?;
    let slots = Room::for_slots(&device);
    Ok((slots, device.memory - slots))
}

/// Runs every kernel on the device of this number and on the processor.
#[pyfunction]
pub fn opencl_verify(py: Python<'_>, device: usize) -> PyResult<Vec<Comparison>> {
    let checks = py.detach(|| verify(&numbered(device)?));
    let checks = checks.map_err(error::opencl)?;
    Ok(checks.into_iter().map(comparison).collect())
}

/// A bootstrap on the processor under keys of its own, to compare devices with.
#[pyclass(frozen, module = "tacita._native")]
pub struct OpenclBootstrap(ReferenceBootstrap);

#[pymethods]
impl OpenclBootstrap {
    /// Makes the keys and bootstraps on the processor.
    #[new]
    fn new(py: Python<'_>, params: &Parameters) -> PyResult<Self> {
        let reference = py.detach(|| ReferenceBootstrap::new(params.0.clone()));
        reference.map(Self).map_err(error::ckks)
    }

    /// Bytes that a comparison takes at most, of the processor and of the device.
    #[staticmethod]
    fn memory(params: &Parameters) -> (u64, u64) {
        ReferenceBootstrap::memory(&params.0).into()
    }

    /// Bootstraps on the device of this number in its `flavour`-th flavour, the faster one first; none where
    /// it has fewer.
    fn compare(&self, py: Python<'_>, device: usize, flavour: usize) -> PyResult<Option<Comparison>> {
        let check = py.detach(|| {
            let device = numbered(device)?;
            let flavour = device.flavours().get(flavour);
            flavour
                .map(|&flavour| self.0.compare(&device, Build::new(flavour)))
                .transpose()
        });
        Ok(check.map_err(error::opencl)?.map(comparison))
    }
}

fn numbered(device: usize) -> Result<Device, OpenClError> {
    devices()?.into_iter().nth(device).ok_or(OpenClError::NoDevice)
}

fn comparison(check: Check) -> Comparison {
    let flavour = check.flavour.name();
    (check.kernel, flavour, check.log_n, check.residues, check.differ)
}
