//! The devices of this machine.

use crate::build::Flavour;
use crate::OpenClError;
use opencl3::device::{CL_DEVICE_TYPE_ALL, CL_DEVICE_TYPE_GPU, CL_FP_FMA, CL_FP_ROUND_TO_NEAREST};
use opencl3::error_codes::{ClError, CL_DEVICE_NOT_FOUND};
use opencl3::platform::{get_platforms, Platform};
use opencl3::types::cl_device_id;
use std::sync::{Mutex, PoisonError};

/// One device, as its driver describes it.
#[derive(Clone, Debug)]
pub struct Device {
    pub name: String,
    pub maker: String,
    /// The platform and its version.
    pub driver: String,
    /// Bytes of its memory.
    pub memory: u64,
    /// Bytes of the largest buffer.
    pub buffer: u64,
    /// Bytes of the local memory of a work-group.
    pub local: u64,
    /// Doubles with fused multiply-add, rounded to nearest.
    pub fp64: bool,
    /// A graphics card; not the processor by another name, or an accelerator.
    pub gpu: bool,
    handle: opencl3::device::Device,
}

/// Loaders and drivers set themselves up at the first call, and not all of them expect two at once.
static FIRST_CALL: Mutex<()> = Mutex::new(());

/// Every device of every platform, in the order of the drivers.
///
/// # Errors
/// When there is no library, or no device.
pub fn devices() -> Result<Vec<Device>, OpenClError> {
    let _alone = FIRST_CALL.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut found, mut failure) = (Vec::new(), OpenClError::NoDevice);
    for platform in get_platforms().map_err(OpenClError::of_call("clGetPlatformIDs"))? {
        match platform.get_devices(CL_DEVICE_TYPE_ALL) {
            Ok(ids) => {
                for id in ids {
                    let device = Device::describe(&platform, id);
                    found.extend(device.map_err(OpenClError::of_call("clGetDeviceInfo"))?);
                }
            }
            // The driver is here and its hardware is not.
            Err(ClError(CL_DEVICE_NOT_FOUND)) => {}
            Err(error) => failure = OpenClError::of_call("clGetDeviceIDs")(error),
        }
    }
    if found.is_empty() {
        return Err(failure);
    }
    Ok(found)
}

impl Device {
    /// None where the device is not available now, or stores words of another byte order.
    fn describe(platform: &Platform, id: cl_device_id) -> Result<Option<Self>, ClError> {
        let handle = opencl3::device::Device::new(id);
        if !handle.available()? || !handle.endian_little()? {
            return Ok(None);
        }
        let exact = CL_FP_FMA | CL_FP_ROUND_TO_NEAREST;
        Ok(Some(Self {
            name: handle.name()?,
            maker: handle.vendor()?,
            driver: format!("{} {}", platform.name()?, handle.driver_version()?),
            memory: handle.global_mem_size()?,
            buffer: handle.max_mem_alloc_size()?,
            local: handle.local_mem_size()?,
            fp64: handle.double_fp_config().unwrap_or(0) & exact == exact,
            gpu: handle.dev_type()? & CL_DEVICE_TYPE_GPU != 0,
            handle,
        }))
    }

    /// The flavours that it can run, the faster one first.
    pub fn flavours(&self) -> &'static [Flavour] {
        if self.fp64 {
            &[Flavour::F64, Flavour::U64]
        } else {
            &[Flavour::U64]
        }
    }

    pub(crate) fn handle(&self) -> &opencl3::device::Device {
        &self.handle
    }
}
