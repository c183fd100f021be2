//! What a verification runs a kernel on: each instruction set of this processor, and devices.

use super::buffer::StridedBuffer;
use super::cases::{self, Layout};
use super::{Got, mutable_params, output_buffers, param_buffers};
use crate::call::{self, Arg, Loaded};
use crate::cpu::{Bindings, Buffer, InstructionSet};
use crate::device::{Device, Kind};
use crate::error::Error;
use crate::tensor::Storage;
use fuse_ir::eval::{Input, Inputs};
use fuse_ir::graph::ParamKind;
use std::fmt;
use std::sync::Arc;

/// How many elements the arguments may have for a run on the simulator; and, in a contiguous layout, the most ever.
const SIMULATED: usize = 1_000;
const SIMULATED_CONTIGUOUS: usize = 40_000;

/// What a kernel runs on.
#[derive(Clone, Debug)]
pub(super) enum Backend {
    /// This CPU, with the loops of one instruction set.
    Cpu(InstructionSet),
    /// Anything else.
    Device(Device),
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Backend::Cpu(set) => set.fmt(f),
            Backend::Device(device) => device.fmt(f),
        }
    }
}

impl Backend {
    /// All that there are here.
    pub(super) fn available() -> Vec<Backend> {
        let sets = InstructionSet::available().into_iter().map(Backend::Cpu);
        // A stream of its own: faults of other threads' kernels are none of this verification.
        let gpu = Device::cuda(0).and_then(|device| device.new_stream());
        sets.chain([Device::simulator()].into_iter().chain(gpu).map(Backend::Device)).collect()
    }

    /// Whether it is this CPU.
    pub(super) fn is_cpu(&self) -> bool {
        matches!(self, Backend::Cpu(_))
    }

    /// Whether a run with these inputs ends in reasonable time.
    pub(super) fn takes(&self, inputs: &Inputs, layout: Layout) -> bool {
        let elements = |input: &Input| match input {
            Input::Tensor(array) => array.data.len(),
            Input::Scalar(_) | Input::Axis(_) => 1,
        };
        let most = match self {
            Backend::Device(Device { kind: Kind::Simulator }) if layout == Layout::Contiguous => {
                SIMULATED_CONTIGUOUS
            }
            Backend::Device(Device { kind: Kind::Simulator }) => SIMULATED,
            Backend::Cpu(_) | Backend::Device(_) => usize::MAX,
        };
        inputs.0.iter().map(elements).sum::<usize>() <= most
    }

    /// What the kernel gives.
    ///
    /// # Errors
    /// What goes wrong on a device; faults of the user's arithmetic are no errors.
    pub(super) fn run(&self, loaded: &Arc<Loaded>, inputs: &Inputs, layout: Layout) -> Result<Got, Error> {
        match self {
            Backend::Cpu(set) => run_on_cpu(loaded, inputs, layout, *set),
            Backend::Device(device) => run_on_device(loaded, inputs, layout, device),
        }
    }
}

fn run_on_cpu(loaded: &Loaded, inputs: &Inputs, layout: Layout, set: InstructionSet) -> Result<Got, Error> {
    let kernel = loaded.kernel();
    let Some(cpu) = &loaded.cpu else { return Err(Error::Version { kernel: kernel.name.clone() }) };
    // The reference took these inputs, so that they bind.
    let extents = cases::bind(kernel, inputs).unwrap_or_default();
    let mut params = param_buffers(inputs, layout);
    let mut results = output_buffers(kernel, &extents, layout);
    let mut temps: Vec<StridedBuffer> = loaded
        .plan
        .temps
        .iter()
        .map(|temp| {
            let shape: Vec<usize> = temp.axes.iter().map(|a| extents[a.index()] as usize).collect();
            StridedBuffer::zeros(temp.dtype, &shape, Layout::Contiguous)
        })
        .collect();
    let scalars = cases::scalars_of(inputs);
    let nothing = Buffer { data: std::ptr::null_mut(), strides: &[] };
    let fault = {
        let params: Vec<Buffer<'_>> =
            params.iter_mut().map(|p| p.as_mut().map_or(nothing, StridedBuffer::as_buffer)).collect();
        let results: Vec<Buffer<'_>> = results.iter_mut().map(StridedBuffer::as_buffer).collect();
        let temps: Vec<Buffer<'_>> = temps.iter_mut().map(StridedBuffer::as_buffer).collect();
        let bindings = Bindings {
            extents: &extents,
            scalars: &scalars,
            params: &params,
            results: &results,
            temps: &temps,
        };
        // SAFETY: the extents are bound and the checks hold; every buffer is owned by this run, has an element for
        // each position of its axes, and overlaps no other.
        unsafe { cpu.run_on(set, &bindings) }
    };
    Ok(Got {
        results: results.iter().map(StridedBuffer::to_array).collect(),
        params: mutable_params(kernel, &params),
        faulted: fault.is_some(),
    })
}

fn is_mutable(kind: &ParamKind) -> bool {
    matches!(kind, ParamKind::Tensor { mutable: true, .. })
}

/// Runs the kernel as a user's call does, with tensors on the device.
fn run_on_device(
    loaded: &Arc<Loaded>,
    inputs: &Inputs,
    layout: Layout,
    device: &Device,
) -> Result<Got, Error> {
    let kernel = loaded.kernel();
    let extents = cases::bind(kernel, inputs).unwrap_or_default();
    let mut params = param_buffers(inputs, layout);
    let mut results = output_buffers(kernel, &extents, layout);
    let move_there = |buffer: &StridedBuffer| {
        let bytes = buffer.as_bytes();
        let storage = Storage::allocate(bytes.len(), device)?;
        storage.copy_from_host(0, bytes)?;
        Ok::<_, Error>(Arc::new(storage))
    };
    let param_storages: Vec<Option<Arc<Storage>>> =
        params.iter().map(|p| p.as_ref().map(move_there).transpose()).collect::<Result<_, Error>>()?;
    let result_storages: Vec<Arc<Storage>> = results.iter().map(move_there).collect::<Result<_, Error>>()?;
    let args: Vec<Arg<'_>> = cases::scalars_of(inputs)
        .into_iter()
        .zip(params.iter().zip(&param_storages))
        .zip(&kernel.params)
        .map(|((scalar, (buffer, storage)), param)| match (scalar, buffer, storage) {
            (None, Some(buffer), Some(storage)) => buffer.as_arg(storage, is_mutable(&param.kind)),
            (Some(value), _, _) => Arg::value(value),
            (None, _, _) => Arg::NOTHING,
        })
        .collect();
    let result_args: Vec<Arg<'_>> =
        results.iter().zip(&result_storages).map(|(buffer, storage)| buffer.as_arg(storage, true)).collect();
    let called = call::run(loaded, device, &extents, &args, &result_args, false);
    let mut outcome = called.and_then(|()| device.synchronize());
    drop((args, result_args));
    let everything =
        params.iter_mut().zip(&param_storages).filter_map(|(b, s)| Some((b.as_mut()?, s.as_ref()?)));
    for (buffer, storage) in everything.chain(results.iter_mut().zip(&result_storages)) {
        let copied = storage.copy_to_host(0, buffer.as_bytes_mut());
        outcome = outcome.and(copied);
    }
    let faulted = match outcome {
        Ok(()) => false,
        Err(Error::Fault(_)) => true,
        Err(error) => return Err(error),
    };
    Ok(Got {
        results: results.iter().map(StridedBuffer::to_array).collect(),
        params: mutable_params(kernel, &params),
        faulted,
    })
}
