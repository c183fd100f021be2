//! Sequences of calls, recorded once and replayed with new contents.

use crate::call::{self, Arg, Loaded, TakenStorages, with_temps};
use crate::cuda::{Capture, CapturedGraph};
use crate::device::{Device, Kind};
use crate::error::Error;
use crate::tensor::{InUse, Storage};
use fuse_ir::dtype::{DType, Value};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

/// A sequence of calls that is replayed as one: on a GPU a single launch, whatever the number of kernels.
///
/// The graph owns what its calls gave, results and intermediate buffers. Of the tensors that they took it knows where they
/// are: a replay reads what they hold then, and is an error if one of them is gone.
///
/// ```
/// use fuse_runtime::{Device, Graph, Tensor};
///
/// # fn main() -> Result<(), fuse_runtime::Error> {
/// let device = Device::best_or_cpu();
/// let x = Tensor::full(1.0f32, [4], &device)?;
/// let (graph, y) = Graph::capture(&device, || x.to_device(&device))?;
/// graph.replay()?;
/// assert_eq!(y.to_vec()?, [1.0; 4]);
/// # Ok(())
/// # }
/// ```
pub struct Graph {
    device: Device,
    calls: Vec<RecordedCall>,
    captured: Option<(CapturedGraph, Vec<CapturedMemory>)>,
}

/// A call with its arguments.
struct RecordedCall {
    loaded: Arc<Loaded>,
    extents: Vec<i64>,
    args: Vec<RecordedArg>,
    results: Vec<RecordedArg>,
}

/// An argument of a recorded call.
enum RecordedArg {
    Scalar(Value),
    Tensor {
        memory: RecordedMemory,
        offset: usize,
        shape: Vec<usize>,
        strides: Vec<isize>,
        dtype: DType,
        written: bool,
    },
}

/// Memory that captured calls use.
struct CapturedMemory {
    memory: RecordedMemory,
    /// Whether any of them writes it.
    written: bool,
    /// The first call with it, and the number of its argument.
    call: usize,
    argument: usize,
}

#[derive(Clone)]
enum RecordedMemory {
    /// Of a tensor that a recorded call gave.
    Own(Arc<Storage>),
    /// Of a tensor that a recorded call took.
    Taken(Weak<Storage>),
}

/// What a thread records.
struct Recorder {
    device: Device,
    calls: Vec<RecordedCall>,
    /// The memory of what the calls gave.
    own: Vec<Arc<Storage>>,
}

thread_local! {
    static RECORDER: RefCell<Option<Recorder>> = const { RefCell::new(None) };
}

/// Ends the recording of a thread, also where the recorded work panics.
struct Recording;

impl Drop for Recording {
    fn drop(&mut self) {
        RECORDER.with_borrow_mut(Option::take);
    }
}

/// Notes a call that was made, if this thread records. `fresh` results are the call's own.
pub(crate) fn record(
    loaded: &Arc<Loaded>,
    device: &Device,
    extents: &[i64],
    args: &[Arg<'_>],
    results: &[Arg<'_>],
    fresh: bool,
) {
    RECORDER.with_borrow_mut(|recorder| {
        let Some(recorder) = recorder.as_mut().filter(|recorder| recorder.device == *device) else { return };
        if fresh {
            recorder.own.extend(results.iter().filter_map(Arg::storage).map(Arc::clone));
        }
        let note = |arg: &Arg<'_>| RecordedArg::new(arg, &recorder.own);
        let (args, results) = (args.iter().map(note).collect(), results.iter().map(note).collect());
        let (loaded, extents) = (Arc::clone(loaded), extents.to_vec());
        recorder.calls.push(RecordedCall { loaded, extents, args, results });
    });
}

impl RecordedMemory {
    /// The memory; `None` if its last tensor is gone.
    fn get(&self) -> Option<Arc<Storage>> {
        match self {
            RecordedMemory::Own(storage) => Some(Arc::clone(storage)),
            RecordedMemory::Taken(storage) => storage.upgrade(),
        }
    }

    /// Tells memory from other memory, also when its last tensor is gone.
    fn address(&self) -> *const Storage {
        match self {
            RecordedMemory::Own(storage) => Arc::as_ptr(storage),
            RecordedMemory::Taken(storage) => storage.as_ptr(),
        }
    }
}

/// The memory of all calls, each once.
fn list_memory(calls: &[RecordedCall]) -> Vec<CapturedMemory> {
    let mut list: Vec<CapturedMemory> = Vec::new();
    let mut known = HashMap::new();
    for (call, recorded) in calls.iter().enumerate() {
        for (argument, arg) in recorded.args.iter().chain(&recorded.results).enumerate() {
            let RecordedArg::Tensor { memory, written, .. } = arg else { continue };
            let number = *known.entry(memory.address()).or_insert_with(|| {
                list.push(CapturedMemory { memory: memory.clone(), written: false, call, argument });
                list.len() - 1
            });
            list[number].written |= written;
        }
    }
    list
}

impl RecordedArg {
    fn new(arg: &Arg<'_>, own: &[Arc<Storage>]) -> RecordedArg {
        let Some((storage, offset, shape, strides, dtype, written)) = arg.parts() else {
            return RecordedArg::Scalar(arg.scalar_value().unwrap_or(Value::U64(0)));
        };
        let memory = match own.iter().any(|o| Arc::ptr_eq(o, storage)) {
            true => RecordedMemory::Own(Arc::clone(storage)),
            false => RecordedMemory::Taken(Arc::downgrade(storage)),
        };
        RecordedArg::Tensor {
            memory,
            offset,
            shape: shape.to_vec(),
            strides: strides.to_vec(),
            dtype,
            written,
        }
    }

    /// The memory; `None` if its last tensor is gone, or there is none.
    fn storage(&self) -> Option<Arc<Storage>> {
        match self {
            RecordedArg::Scalar(_) => None,
            RecordedArg::Tensor { memory, .. } => memory.get(),
        }
    }

    fn is_tensor(&self) -> bool {
        matches!(self, RecordedArg::Tensor { .. })
    }

    fn as_arg<'a>(&'a self, storage: &'a Option<Arc<Storage>>) -> Arg<'a> {
        match (self, storage) {
            (RecordedArg::Tensor { offset, shape, strides, dtype, written, .. }, Some(storage)) => {
                Arg::view(storage, *offset, shape, strides, *dtype, *written)
            }
            (RecordedArg::Scalar(value), _) => Arg::value(*value),
            (RecordedArg::Tensor { .. }, None) => Arg::NOTHING,
        }
    }
}

/// The memory of a recorded call, kept while it is used.
struct HeldMemory {
    args: Vec<Option<Arc<Storage>>>,
    results: Vec<Option<Arc<Storage>>>,
}

impl RecordedCall {
    /// Keeps the memory of all tensors.
    ///
    /// # Errors
    /// If the last tensor with the memory of an argument is gone.
    fn hold(&self) -> Result<HeldMemory, Error> {
        let hold = |args: &[RecordedArg], first: usize| {
            args.iter()
                .enumerate()
                .map(|(k, arg)| match arg.storage() {
                    None if arg.is_tensor() => Err(Error::Dropped {
                        kernel: self.loaded.kernel().name.clone(),
                        argument: self.loaded.argument_name(first + k),
                    }),
                    held => Ok(held),
                })
                .collect::<Result<Vec<_>, Error>>()
        };
        Ok(HeldMemory { args: hold(&self.args, 0)?, results: hold(&self.results, self.args.len())? })
    }

    fn arguments<'a>(&'a self, held: &'a HeldMemory) -> (Vec<Arg<'a>>, Vec<Arg<'a>>) {
        let args = self.args.iter().zip(&held.args).map(|(arg, storage)| arg.as_arg(storage)).collect();
        let results =
            self.results.iter().zip(&held.results).map(|(arg, storage)| arg.as_arg(storage)).collect();
        (args, results)
    }
}

impl Graph {
    /// Runs `work`, and records the calls that it makes on this thread with tensors of the device. What else it does, such as
    /// copies from and to the host, is not part of the graph.
    ///
    /// # Errors
    /// What `work` gives, or if the device cannot capture.
    pub fn capture<T>(device: &Device, work: impl FnOnce() -> Result<T, Error>) -> Result<(Graph, T), Error> {
        let outer =
            RECORDER.replace(Some(Recorder { device: device.clone(), calls: Vec::new(), own: Vec::new() }));
        let recording = Recording;
        let outcome = work();
        let recorder = RECORDER.replace(None);
        drop(recording);
        RECORDER.set(outer);
        let value = outcome?;
        let calls = recorder.map_or_else(Vec::new, |recorder| recorder.calls);
        let captured = match &device.kind {
            Kind::Cuda(stream) if !calls.is_empty() => {
                let mut capture = Capture::begin(stream)?;
                // A tensor that was made and dropped in `work` is missed at the first replay, which says which one.
                for call in &calls {
                    let Ok(held) = call.hold() else { continue };
                    let (args, results) = call.arguments(&held);
                    let temps = with_temps(&call.loaded, device, &call.extents, &args, &results, |bound| {
                        // SAFETY: the call was made with these arguments, and passed its checks. A replay holds the memory
                        // of every argument, and the capture that of the intermediate buffers.
                        unsafe { capture.add(&call.loaded, bound) }
                    })?;
                    capture.keep(temps);
                }
                Some((capture.finish()?, list_memory(&calls)))
            }
            _ => None,
        };
        Ok((Graph { device: device.clone(), calls, captured }, value))
    }

    /// Makes the calls again, with what their arguments hold now.
    ///
    /// # Errors
    /// If the last tensor with the memory of an argument is gone, memory is in use by a call on another thread, or what the
    /// calls themselves give.
    pub fn replay(&self) -> Result<(), Error> {
        match &self.captured {
            None => self.call_again(),
            Some((captured, memory)) => {
                let mut taken = TakenStorages::with_capacity(memory.len());
                for CapturedMemory { memory, written, call, argument } in memory {
                    let loaded = &self.calls[*call].loaded;
                    let name = || (loaded.kernel().name.clone(), loaded.argument_name(*argument));
                    let storage = memory.get().ok_or_else(|| {
                        let (kernel, argument) = name();
                        Error::Dropped { kernel, argument }
                    })?;
                    let outcome = taken.take(storage, *written);
                    outcome.map_err(|InUse { written }| Error::InUse { argument: Some(name()), written })?;
                }
                // SAFETY: the memory of all arguments is held and taken; it is freed in the stream's order.
                unsafe { captured.launch() }
            }
        }
    }

    /// Makes the calls one by one.
    fn call_again(&self) -> Result<(), Error> {
        let held = self.calls.iter().map(RecordedCall::hold).collect::<Result<Vec<HeldMemory>, Error>>()?;
        for (call, held) in self.calls.iter().zip(&held) {
            let (args, results) = call.arguments(held);
            call::run(&call.loaded, &self.device, &call.extents, &args, &results, false)?;
        }
        Ok(())
    }

    /// How many calls are replayed.
    pub fn call_count(&self) -> usize {
        self.calls.len()
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({} calls on {})", self.calls.len(), self.device)
    }
}
