//! A call's launches: which variants, with which arguments, over how many blocks.
//!
//! Nothing is allocated on the way once every list has grown to what the kernel needs: lists of arguments are the thread's.

use super::fault::CapturedFaults;
use super::handle::{LaunchShape, StreamHandle};
use super::memory::DeviceBlock;
use super::module::{FunctionKey, GpuKernel, LoadedFunction};
use super::stream::Stream;
use crate::call::{Loaded, describe_fault};
use crate::error::Error;
use crate::lowered::{BoundCall, LoweredProgram};
use crate::simulator::site_fault;
use fuse_ir::kernel_ir::{DeviceNumbers, Dims, Kernel, LaunchArg};
use fuse_ir::lower::LoweredKernel;
use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::Arc;

/// Where a launch may have faulted, with what its words mean.
pub(crate) struct FaultPlaces {
    loaded: Arc<Loaded>,
    lowered: Arc<LoweredProgram>,
    key: FunctionKey,
}

impl FaultPlaces {
    fn kernel(&self) -> Option<&LoweredKernel> {
        let program = self.loaded.plan.program();
        let lowered = self.lowered.launch(program, self.key.launch as usize, self.key.wide).ok()?;
        lowered.steps.get(self.key.step as usize)?.get(self.key.variant as usize)
    }

    /// How many words there are.
    pub(super) fn count(&self) -> usize {
        self.kernel().map_or(0, |kernel| kernel.faults.len())
    }

    /// The fault of the least node that noted one, of a launch with these extents.
    pub(super) fn first_fault(&self, words: &[u64], extents: &[i64]) -> Option<Error> {
        let noted = self.kernel()?.faults.iter().zip(words).filter(|(_, word)| **word != u64::MAX);
        let (site, word) = noted.min_by_key(|(site, _)| site.node)?;
        let fault = site_fault(site, *word, extents);
        Some(Error::Fault(Box::new(describe_fault(self.loaded.kernel(), &fault))))
    }
}

/// Lists that the launches of a thread use.
#[derive(Default)]
struct Lists {
    arguments: Vec<LaunchArg>,
    /// The arguments' bits, from the least byte on.
    bits: Vec<u64>,
    pointers: Vec<*mut c_void>,
    scratch: Vec<u64>,
}

thread_local! {
    static LISTS: RefCell<Lists> = RefCell::default();
}

/// Where launches go, and where their words of faults are.
pub(super) enum Target<'a> {
    /// They run.
    Stream,
    /// They are captured; what they need in memory goes to the list.
    Capture {
        handle: StreamHandle,
        memory: &'a mut Vec<DeviceBlock>,
        faults: &'a mut Vec<Arc<CapturedFaults>>,
    },
}

/// Queues the launches of a call.
///
/// # Errors
/// If a kernel does not compile, or the driver refuses a launch.
///
/// # Safety
/// The places of the call are within the stream's memory and as large as the program's interface says.
pub(crate) unsafe fn run(
    loaded: &Arc<Loaded>,
    stream: &Arc<Stream>,
    call: &BoundCall<'_>,
) -> Result<(), Error> {
    // SAFETY: by the caller.
    unsafe { launch_all(loaded, stream, call, &mut Target::Stream) }
}

/// # Safety
/// As [`run`]; what is captured outlives neither that memory nor the lists of the target.
pub(super) unsafe fn launch_all(
    loaded: &Arc<Loaded>,
    stream: &Arc<Stream>,
    call: &BoundCall<'_>,
    target: &mut Target<'_>,
) -> Result<(), Error> {
    let kernel = loaded.cuda.on(loaded, &stream.gpu);
    stream.gpu.enter().map_err(|e| stream.error(e, Some(&loaded.kernel().name)))?;
    LISTS.with(|lists| match lists.try_borrow_mut() {
        // SAFETY: by the caller.
        Ok(mut lists) => unsafe { launch_with(loaded, stream, call, target, &kernel, &mut lists) },
        // Nothing of a user runs while the lists are taken, so that this is not expected.
        // SAFETY: by the caller.
        Err(_) => unsafe { launch_with(loaded, stream, call, target, &kernel, &mut Lists::default()) },
    })
}

unsafe fn launch_with(
    loaded: &Arc<Loaded>,
    stream: &Arc<Stream>,
    call: &BoundCall<'_>,
    target: &mut Target<'_>,
    kernel: &GpuKernel,
    lists: &mut Lists,
) -> Result<(), Error> {
    for launch in 0..call.program.plan.launches.len() {
        let wide = call.is_wide(launch);
        let lowered = kernel.lowered.launch(call.program, launch, wide)?;
        // Freed when the launch is queued: what is queued later may have it.
        let mut scratch_blocks = Vec::new();
        lists.scratch.clear();
        for (number, scratch) in lowered.scratch.iter().enumerate() {
            let (numbers, list) = (stream.gpu.numbers(), &mut lists.arguments);
            let Some(elements) = call.scratch_elements(lowered, number, numbers, list) else {
                lists.scratch.push(0);
                continue;
            };
            let bytes = elements.max(1) * scratch.dtype.size();
            let block = DeviceBlock::allocate(stream, bytes)?;
            lists.scratch.push(block.start());
            scratch_blocks.push(block);
        }
        for (step, variants) in lowered.steps.iter().enumerate() {
            // What is not launched need not be compiled.
            if step > 0 && !call.has_blocks(variants, stream.gpu.numbers(), &mut lists.arguments) {
                continue;
            }
            let key = FunctionKey { launch: launch as u32, wide, step: step as u32, variant: 0, facts: 0 };
            // SAFETY: by the caller.
            unsafe { launch_step(loaded, stream, call, target, kernel, variants, key, lists)? };
        }
        if let Target::Capture { memory, .. } = target {
            memory.append(&mut scratch_blocks);
        }
    }
    Ok(())
}

/// A variant that may be launched, with its arguments in the lists.
struct Prepared {
    dims: Dims,
    key: FunctionKey,
    function: LoadedFunction,
}

/// Queues the first variant whose requirements hold, or, of those the first with the least local memory: a variant whose
/// registers the compiler had to put there gives way to one with which it need not.
#[allow(clippy::too_many_arguments, reason = "they are what a launch is made of, and none belong together")]
unsafe fn launch_step(
    loaded: &Arc<Loaded>,
    stream: &Arc<Stream>,
    call: &BoundCall<'_>,
    target: &mut Target<'_>,
    kernel: &GpuKernel,
    variants: &[LoweredKernel],
    key: FunctionKey,
    lists: &mut Lists,
) -> Result<(), Error> {
    let prepare = |number: usize, lists: &mut Lists| {
        let key = FunctionKey { variant: number as u32, ..key };
        prepare_variant(loaded, stream, call, kernel, &variants[number], key, lists)
    };
    let mut chosen: Option<(usize, Prepared)> = None;
    let mut last = None;
    for number in 0..variants.len() {
        let Some(prepared) = prepare(number, lists)? else { continue };
        last = Some(number);
        let bytes = prepared.function.local_bytes;
        if chosen.as_ref().is_none_or(|(_, best)| bytes < best.function.local_bytes) {
            chosen = Some((number, prepared));
        }
        if bytes == 0 {
            break;
        }
    }
    let Some((number, mut prepared)) = chosen else {
        return Err(invalid(loaded, "no variant of a launch fits"));
    };
    if last != Some(number) {
        // The lists have another variant's arguments.
        if let Some(again) = prepare(number, lists)? {
            prepared = again;
        }
    }
    if prepared.dims.grid.contains(&0) {
        return Ok(());
    }
    let variant = &variants[number];
    let (handle, words) = reserve_words(loaded, stream, call, target, kernel, variant, prepared.key)?;
    fill_pointers(variant, words, lists);
    let Dims { grid, block, shared_bytes, .. } = prepared.dims;
    let (shape, function) = (LaunchShape { grid, block, shared_bytes }, prepared.function.function);
    // SAFETY: the arguments are those of the function's parameters, in order; what it does with them is within the
    // buffers, by the call's checks and the caller.
    let launched = unsafe { stream.driver().launch(function, &shape, handle, &mut lists.pointers) };
    launched.map_err(|error| stream.error(error, Some(&loaded.kernel().name)))
}

/// The arguments of a variant, how many blocks it has, and its function; `None` if its requirements do not hold.
fn prepare_variant(
    loaded: &Arc<Loaded>,
    stream: &Arc<Stream>,
    call: &BoundCall<'_>,
    kernel: &GpuKernel,
    variant: &LoweredKernel,
    key: FunctionKey,
    lists: &mut Lists,
) -> Result<Option<Prepared>, Error> {
    if !fill_arguments(call, &variant.kernel, stream.gpu.numbers(), lists) {
        return Err(invalid(loaded, "a kernel has a parameter that a call cannot give"));
    }
    if !variant.kernel.requires.iter().all(|condition| condition.holds(&lists.arguments)) {
        return Ok(None);
    }
    let dims = variant.kernel.evaluate_geometry(&lists.arguments);
    let dims = dims.map_err(|error| invalid(loaded, &error.to_string()))?;
    let key = FunctionKey { facts: dims.facts, ..key };
    let function = kernel.function(loaded, stream, variant, key)?;
    Ok(Some(Prepared { dims, key, function }))
}

fn invalid(loaded: &Loaded, what: &str) -> Error {
    Error::NotLowered { kernel: loaded.kernel().name.clone(), launch: 0, what: what.to_owned() }
}

/// The arguments of a kernel; whether a call has them all. Words of faults get theirs later.
fn fill_arguments(call: &BoundCall<'_>, kernel: &Kernel, device: DeviceNumbers, lists: &mut Lists) -> bool {
    lists.arguments.clear();
    for param in &kernel.params {
        let Some(argument) = call.argument(param, &lists.scratch, 0, device) else { return false };
        lists.arguments.push(argument);
    }
    true
}

/// The stream to launch on, and where the kernel notes its faults, if it has any.
fn reserve_words(
    loaded: &Arc<Loaded>,
    stream: &Arc<Stream>,
    call: &BoundCall<'_>,
    target: &mut Target<'_>,
    kernel: &GpuKernel,
    variant: &LoweredKernel,
    key: FunctionKey,
) -> Result<(StreamHandle, u64), Error> {
    if variant.faults.is_empty() {
        return Ok(match target {
            Target::Stream => (stream.handle, 0),
            Target::Capture { handle, .. } => (*handle, 0),
        });
    }
    let places = FaultPlaces { loaded: Arc::clone(loaded), lowered: Arc::clone(&kernel.lowered), key };
    match target {
        Target::Stream => {
            let (words, found) = stream.with_faults(|faults| faults.reserve(stream, places, call.extents))?;
            found.map_or(Ok((stream.handle, words)), Err)
        }
        Target::Capture { handle, faults, .. } => {
            let captured = CapturedFaults::allocate(stream, places, call.extents)?;
            let start = captured.start();
            faults.push(Arc::new(captured));
            Ok((*handle, start))
        }
    }
}

/// What the driver takes: for each argument a pointer to its bytes.
fn fill_pointers(variant: &LoweredKernel, words: u64, lists: &mut Lists) {
    lists.bits.clear();
    for (param, argument) in variant.kernel.params.iter().zip(&lists.arguments) {
        lists.bits.push(match argument {
            LaunchArg::Pointer(_) if param.source == fuse_ir::kernel_ir::Origin::Faults => words,
            LaunchArg::Pointer(address) => *address,
            // Hosts of GPUs are little-endian, so that the first bytes are those of a narrower number.
            LaunchArg::Scalar(value) => value.to_bits(),
        });
    }
    lists.pointers.clear();
    lists.pointers.extend(lists.bits.iter_mut().map(|bits| std::ptr::from_mut(bits).cast::<c_void>()));
}
