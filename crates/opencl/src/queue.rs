//! One device's context, queue of commands in order, program and kernels.

use crate::build::Build;
use crate::room::check_buffer;
use crate::{Device, OpenClError};
use opencl3::command_queue::CommandQueue;
use opencl3::context::Context;
use opencl3::error_codes::CL_BUILD_PROGRAM_FAILURE;
use opencl3::kernel::Kernel;
use opencl3::memory::{Buffer, ClMem, CL_MEM_COPY_HOST_PTR, CL_MEM_READ_ONLY, CL_MEM_READ_WRITE};
use opencl3::program::Program;
use opencl3::types::{cl_mem, cl_uint, CL_BLOCKING};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// What a buffer may hold: any bytes are a value of it.
pub(crate) trait Word: Copy {}
impl Word for u32 {}
impl Word for u64 {}

/// An argument of a kernel.
#[derive(Clone, Copy)]
pub(crate) enum Argument<'a> {
    Words(&'a Buffer<u64>),
    Indices(&'a Buffer<u32>),
    Number(u32),
}

pub(crate) struct Queue {
    // Kernels go before the program, that before the queue, and the context last.
    kernels: Mutex<HashMap<&'static str, Kernel>>,
    program: Program,
    commands: CommandQueue,
    context: Context,
    /// Bytes of the largest buffer.
    largest: u64,
}

impl Queue {
    /// Opens the device and builds the kernels with these options.
    pub(crate) fn open(device: &Device, build: &Build, options: &str) -> Result<Self, OpenClError> {
        let context =
            Context::from_device(device.handle()).map_err(OpenClError::of_call("clCreateContext"))?;
        // SAFETY: the device is the one of the context.
        let commands = unsafe { CommandQueue::create(&context, device.handle().id(), 0) }
            .map_err(OpenClError::of_call("clCreateCommandQueue"))?;
        let mut program = Program::create_from_source(&context, &build.source)
            .map_err(OpenClError::of_call("clCreateProgramWithSource"))?;
        program.build(context.devices(), options).map_err(|error| {
            if error.0 != CL_BUILD_PROGRAM_FAILURE {
                return OpenClError::of_call("clBuildProgram")(error);
            }
            let log = program.get_build_log(device.handle().id());
            OpenClError::Build {
                device: device.name.clone(),
                log: log.unwrap_or_default(),
            }
        })?;
        Ok(Self {
            kernels: Mutex::default(),
            program,
            commands,
            context,
            largest: device.buffer,
        })
    }

    /// A buffer of so many values, which are not set.
    ///
    /// # Errors
    /// When the device makes none so large, or has no memory left.
    pub(crate) fn buffer<W: Word>(&self, len: usize) -> Result<Buffer<W>, OpenClError> {
        check_buffer("a buffer", (len * size_of::<W>()) as u64, self.largest)?;
        // SAFETY: without a host pointer the call only takes memory of the device. Its values are integers,
        // and whoever reads them has written them.
        unsafe { Buffer::create(&self.context, CL_MEM_READ_WRITE, len.max(1), std::ptr::null_mut()) }
            .map_err(OpenClError::of_call("clCreateBuffer"))
    }

    pub(crate) fn buffer_of<W: Word>(&self, values: &[W]) -> Result<Buffer<W>, OpenClError> {
        let mut buffer = self.buffer(values.len())?;
        self.write(&mut buffer, 0, values)?;
        Ok(buffer)
    }

    /// A buffer that has these values from the start, so that no command waits for them: OpenCL frees it when
    /// the commands that read it are done.
    pub(crate) fn constants_of<W: Word>(&self, values: &[W]) -> Result<Buffer<W>, OpenClError> {
        if values.is_empty() {
            return self.buffer(1);
        }
        check_buffer("a buffer", size_of_val(values) as u64, self.largest)?;
        let (flags, first) = (CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, values.as_ptr());
        // SAFETY: the pointer is to as many values as are asked for, and the call copies them.
        unsafe { Buffer::create(&self.context, flags, values.len(), first.cast_mut().cast()) }
            .map_err(OpenClError::of_call("clCreateBuffer"))
    }

    /// Writes values from index `at` on, and waits.
    pub(crate) fn write<W: Word>(
        &self,
        buffer: &mut Buffer<W>,
        at: usize,
        values: &[W],
    ) -> Result<(), OpenClError> {
        if values.is_empty() {
            return Ok(());
        }
        let offset = at * size_of::<W>();
        // SAFETY: the call is blocking, so the slice outlives it; OpenCL refuses a range outside the buffer.
        unsafe {
            self.commands
                .enqueue_write_buffer(buffer, CL_BLOCKING, offset, values, &[])
        }
        .map_err(OpenClError::of_call("clEnqueueWriteBuffer"))?;
        Ok(())
    }

    /// Reads `values.len()` values from index `at` on, after every command before.
    pub(crate) fn read<W: Word>(
        &self,
        buffer: &Buffer<W>,
        at: usize,
        values: &mut [W],
    ) -> Result<(), OpenClError> {
        if values.is_empty() {
            return Ok(());
        }
        let offset = at * size_of::<W>();
        // SAFETY: as in `write`; any bytes are values of a word.
        unsafe {
            self.commands
                .enqueue_read_buffer(buffer, CL_BLOCKING, offset, values, &[])
        }
        .map_err(OpenClError::of_call("clEnqueueReadBuffer"))?;
        Ok(())
    }

    /// Runs `name` on a grid of groups of `items` work-items. The arguments are those of its text, in order.
    pub(crate) fn launch(
        &self,
        name: &'static str,
        [groups, limbs]: [usize; 2],
        items: usize,
        arguments: &[Argument<'_>],
    ) -> Result<(), OpenClError> {
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        if !kernels.contains_key(name) {
            let kernel =
                Kernel::create(&self.program, name).map_err(OpenClError::of_call("clCreateKernel"))?;
            kernels.insert(name, kernel);
        }
        let kernel = &kernels[name];
        for (at, argument) in (0..).zip(arguments) {
            set_argument(kernel, at, *argument)?;
        }
        let (global, local) = ([groups * items, limbs], [items, 1]);
        // SAFETY: sizes point to two numbers each. OpenCL refuses a kernel whose arguments are not all set or
        // have other sizes; that a kernel stays within its buffers is on `Ring`, which has checked the slots.
        unsafe {
            self.commands.enqueue_nd_range_kernel(
                kernel.get(),
                2,
                std::ptr::null(),
                global.as_ptr(),
                local.as_ptr(),
                &[],
            )
        }
        .map_err(OpenClError::of_call("clEnqueueNDRangeKernel"))?;
        Ok(())
    }
}

fn set_argument(kernel: &Kernel, at: cl_uint, argument: Argument<'_>) -> Result<(), OpenClError> {
    let set = |memory: cl_mem| {
        // SAFETY: a handle of a live buffer; OpenCL refuses an index or a size that the kernel does not have.
        unsafe { kernel.set_arg(at, &memory) }
    };
    match argument {
        Argument::Words(buffer) => set(buffer.get()),
        Argument::Indices(buffer) => set(buffer.get()),
        // SAFETY: as above, of a number of 32 bits.
        Argument::Number(number) => unsafe { kernel.set_arg(at, &number) },
    }
    .map_err(OpenClError::of_call("clSetKernelArg"))
}
