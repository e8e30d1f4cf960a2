//! Devices of OpenCL: which there are, and whether their kernels leave the processor's residues.
use crate::error;
use pyo3::prelude::*;
use tacita_opencl::{devices, verify, Device, OpenClError};

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

/// Runs every kernel on the device of this number and on the processor.
#[pyfunction]
pub fn opencl_verify(py: Python<'_>, device: usize) -> PyResult<Vec<Comparison>> {
    let checks = py.detach(|| {
        let all = devices()?;
        verify(all.get(device).ok_or(OpenClError::NoDevice)?)
    });
    let checks = checks.map_err(error::opencl)?;
    Ok(checks
        .into_iter()
        .map(|check| {
            let flavour = check.flavour.name();
            (check.kernel, flavour, check.log_n, check.residues, check.differ)
        })
        .collect())
}
