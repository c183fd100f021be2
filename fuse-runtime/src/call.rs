//! Calling a kernel: what the host functions that `fuse!` generates are made of.
//!
//! A kernel is one `static`: the bytes of its program and its compiled loops, decoded at the first call. A call binds
//! the extents, allocates results and intermediate buffers, takes the memory of all tensors for reading or writing,
//! and runs the launches. Nothing is decoded, formatted or looked up by name on the way, and the lists of a call are on
//! the stack, so that a call costs little next to the least launch.
//!
//! Everything is checked against the program here, although the macro that writes the call cannot be wrong about it:
//! these functions are reachable, if hidden, from safe code.

mod argument;
mod borrow;
mod memory;
mod outputs;
pub(crate) mod place;

pub use argument::Arg;
pub use outputs::Outputs;

pub(crate) use borrow::TakenStorages;

use crate::cpu::{Bindings, Buffer, CpuFault, CpuProgram, GroupFns};
use crate::cuda::{self, CudaKernels};
use crate::device::{Device, Kind};
use crate::error::{Error, Fault, FaultKind};
use crate::graph;
use crate::lowered::{BoundCall, LoweredPrograms, Place};
use crate::plan::Plan;
use crate::simulator;
use crate::tensor::{Storage, element_count};
use argument::ArgKind;
use borrow::Borrows;
use fuse_ir::bind::bind_extents_into;
use fuse_ir::dtype::{DType, Value};
use fuse_ir::graph::{Kernel, Op, OutputTarget, ParamKind};
use fuse_ir::id::AxisId;
use fuse_ir::index_map::IndexExpr;
use fuse_ir::program::Program;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// A kernel as it stands in the user's binary.
pub struct CompiledKernel {
    program: &'static [u8],
    groups: &'static [GroupFns],
    sources: &'static [CudaSource],
    loaded: OnceLock<Result<Arc<Loaded>, Error>>,
}

/// A launch of a plan, or a part of one, as CUDA C++. See `cuda_source` of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CudaSource {
    /// Which launch of the plan.
    pub launch: usize,
    /// Which of the kernels that run one after the other for that launch; most launches are one kernel.
    pub step: usize,
    /// Which of the variants of that kernel: of those whose requirements hold for a call, the first is launched.
    pub variant: usize,
    /// The text, which needs no header.
    pub text: &'static str,
}

/// A kernel that was decoded.
pub(crate) struct Loaded {
    pub(crate) plan: Plan,
    /// `None` for a program that was planned at run time, of which there are no loops.
    pub(crate) cpu: Option<CpuProgram>,
    /// For devices other than the CPU, made when one is first used.
    pub(crate) lowered: LoweredPrograms,
    /// For GPUs, likewise.
    pub(crate) cuda: CudaKernels,
    /// The texts that the binary carries.
    pub(crate) sources: &'static [CudaSource],
    /// The components of the result, in order.
    results: Vec<ResultInfo>,
}

/// A component of the result.
struct ResultInfo {
    dtype: DType,
    axes: Vec<AxisId>,
}

/// The most tensors and scalars of each kind for which a call keeps its lists on the stack.
const INLINE: usize = 12;

impl CompiledKernel {
    /// A kernel of these bytes, which [`Program::to_bytes`] gave, the loops of its groups, in order, and its texts for CUDA.
    pub const fn new(
        program: &'static [u8],
        groups: &'static [GroupFns],
        sources: &'static [CudaSource],
    ) -> Self {
        CompiledKernel { program, groups, sources, loaded: OnceLock::new() }
    }

    /// The launches as CUDA C++.
    pub fn cuda_source(&self) -> &'static [CudaSource] {
        self.sources
    }

    /// The kernel, decoded.
    pub(crate) fn load(&self) -> Result<&Arc<Loaded>, Error> {
        let decode = || decode(self.program, self.groups, self.sources).map(Arc::new);
        self.loaded.get_or_init(decode).as_ref().map_err(Error::clone)
    }

    /// The program: interface, graph and plan.
    ///
    /// # Panics
    /// If the macro that expanded the kernel is of another version than this crate, which cargo does not allow.
    #[track_caller]
    pub fn program(&self) -> &Program {
        self.plan().program()
    }

    /// The plan.
    ///
    /// # Panics
    /// As [`Self::program`].
    #[track_caller]
    pub fn plan(&self) -> &Plan {
        match self.load() {
            Ok(loaded) => &loaded.plan,
            Err(error) => panic!("{error}"),
        }
    }

    /// Calls the kernel and gives the results; `args` has one argument for each parameter.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn call<O: Outputs>(&self, args: &[Arg<'_>]) -> Result<O, Error> {
        let loaded = self.load()?;
        with_extents(loaded, args, |extents| {
            let device = place::find_device(loaded, args, &[])?;
            let mut shapes = outputs::ResultShapes::new(loaded, extents, &device);
            let outputs = O::allocate(&mut shapes)?;
            shapes.finish()?;
            with_list(loaded.results.len(), Arg::NOTHING, |results| {
                outputs.fill_arguments(results);
                run(loaded, &device, extents, args, results, true)
            })?;
            Ok(outputs)
        })
    }

    /// Calls the kernel and writes the results to `results`.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn call_into(&self, args: &[Arg<'_>], results: &[Arg<'_>]) -> Result<(), Error> {
        let loaded = self.load()?;
        with_extents(loaded, args, |extents| {
            check_result_shapes(loaded, extents, results)?;
            let device = place::find_device(loaded, args, results)?;
            run(loaded, &device, extents, args, results, false)
        })
    }
}

impl fmt::Debug for CompiledKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.load() {
            Ok(loaded) => write!(f, "CompiledKernel({})", loaded.kernel().name),
            Err(_) => f.write_str("CompiledKernel(?)"),
        }
    }
}

impl Loaded {
    pub(crate) fn kernel(&self) -> &Kernel {
        &self.plan.program().kernel
    }

    /// The macro and this crate disagree on the interface.
    fn version_error(&self) -> Error {
        Error::Version { kernel: self.kernel().name.clone() }
    }

    /// What the user calls an argument: by its parameter, or a tensor for results, which come after them, by its number.
    pub(crate) fn argument_name(&self, k: usize) -> String {
        let params = &self.kernel().params;
        params.get(k).map_or_else(|| self.result_name(k - params.len()), |param| param.name.clone())
    }

    /// What the user calls the component of the result of that number.
    fn result_name(&self, index: usize) -> String {
        if self.results.len() == 1 { "result".to_owned() } else { format!("result{index}") }
    }
}

fn decode(bytes: &[u8], groups: &[GroupFns], sources: &'static [CudaSource]) -> Result<Loaded, Error> {
    let program = Program::from_bytes(bytes).map_err(|_| Error::Version { kernel: String::new() })?;
    let kernel = &program.kernel;
    let version = || Error::Version { kernel: kernel.name.clone() };
    let cpu = CpuProgram::prepare(&program, groups).map_err(|_| version())?;
    Loaded::new(program, Some(cpu), sources)
}

impl Loaded {
    /// A kernel with the components of its result found.
    ///
    /// # Errors
    /// If they are not numbered in order.
    pub(crate) fn new(
        program: Program,
        cpu: Option<CpuProgram>,
        sources: &'static [CudaSource],
    ) -> Result<Loaded, Error> {
        let kernel = &program.kernel;
        let mut results = Vec::new();
        for output in &kernel.outputs {
            if let OutputTarget::Result { index, axes } = &output.target {
                if *index as usize != results.len() {
                    return Err(Error::Version { kernel: kernel.name.clone() });
                }
                results.push(ResultInfo { dtype: kernel.node(output.value).ty.dtype, axes: axes.clone() });
            }
        }
        let (lowered, cuda) = (LoweredPrograms::default(), CudaKernels::default());
        Ok(Loaded { plan: Plan::new(program), cpu, lowered, cuda, sources, results })
    }
}

/// Gives `f` a list of `n` times `fill`: on the stack, unless it is long.
fn with_list<T: Copy, R>(n: usize, fill: T, f: impl FnOnce(&mut [T]) -> R) -> R {
    if n <= INLINE { f(&mut [fill; INLINE][..n]) } else { f(&mut vec![fill; n]) }
}

/// Checks the arguments against the interface, and gives `f` the extents.
fn with_extents<R>(
    loaded: &Loaded,
    args: &[Arg<'_>],
    f: impl FnOnce(&[i64]) -> Result<R, Error>,
) -> Result<R, Error> {
    let params = &loaded.kernel().params;
    let fits = args.len() == params.len()
        && params.iter().zip(args).all(|(param, arg)| match (&param.kind, &arg.kind) {
            (ParamKind::Tensor { dtype, axes, mutable }, ArgKind::Tensor(t)) => {
                *dtype == t.dtype && axes.len() == t.shape.len() && (!mutable || t.written)
            }
            (ParamKind::Scalar { dtype }, ArgKind::Scalar(value)) => value.dtype() == *dtype,
            (ParamKind::Axis { .. }, ArgKind::Scalar(value)) => value.dtype() == DType::U64,
            _ => false,
        });
    if !fits {
        return Err(loaded.version_error());
    }
    with_list(loaded.kernel().axes.len(), 0, |extents| {
        with_list(args.len(), None, |shapes| {
            for (shape, arg) in shapes.iter_mut().zip(args) {
                *shape = arg.shape();
            }
            with_scalars(args, |scalars| bind_extents_into(loaded.kernel(), shapes, scalars, extents))
        })?;
        f(extents)
    })
}

fn with_scalars<R>(args: &[Arg<'_>], f: impl FnOnce(&[Option<Value>]) -> R) -> R {
    with_list(args.len(), None, |scalars| {
        for (scalar, arg) in scalars.iter_mut().zip(args) {
            *scalar = arg.scalar_value();
        }
        f(scalars)
    })
}

/// Checks the tensors that a call writes its results to.
fn check_result_shapes(loaded: &Loaded, extents: &[i64], results: &[Arg<'_>]) -> Result<(), Error> {
    if results.len() != loaded.results.len() {
        return Err(loaded.version_error());
    }
    for (k, (info, arg)) in loaded.results.iter().zip(results).enumerate() {
        let ArgKind::Tensor(tensor) = &arg.kind else { return Err(loaded.version_error()) };
        if tensor.dtype != info.dtype || tensor.shape.len() != info.axes.len() || !tensor.written {
            return Err(loaded.version_error());
        }
        for (&axis, &n) in info.axes.iter().zip(tensor.shape) {
            let expected = extents[axis.index()];
            if n as i64 != expected {
                return Err(Error::ResultShape {
                    kernel: loaded.kernel().name.clone(),
                    argument: loaded.result_name(k),
                    axis: loaded.kernel().axis(axis).name.clone(),
                    extent: n,
                    expected: expected as usize,
                });
            }
        }
    }
    Ok(())
}

/// Runs the launches. `fresh` results are not visible to anyone else, and contiguous.
pub(crate) fn run(
    loaded: &Arc<Loaded>,
    device: &Device,
    extents: &[i64],
    args: &[Arg<'_>],
    results: &[Arg<'_>],
    fresh: bool,
) -> Result<(), Error> {
    let _borrows = Borrows::take(loaded, args, if fresh { &[] } else { results })?;
    let of_call = |error: Error| error.of_call(&loaded.kernel().name, None);
    let temps = memory::Temps::allocate(loaded, extents, results, device).map_err(of_call)?;
    match &device.kind {
        Kind::Cpu => run_on_cpu(loaded, extents, args, results, &temps),
        Kind::Simulator => with_bound_call(loaded, extents, args, results, &temps, |call| {
            simulator::run(loaded, call, &place::regions(args, results, &temps, fresh))
        }),
        Kind::Cuda(stream) => with_bound_call(loaded, extents, args, results, &temps, |call| {
            // SAFETY: shapes fit the program's interface and its checks hold, so that all accesses are within the views,
            // which are of this stream. Their states are taken while the launches are queued; what touches them later is
            // queued after. Results are new or do not overlap any argument.
            unsafe { cuda::run(loaded, &stream.0, call) }.map_err(of_call)
        }),
    }?;
    graph::record(loaded, device, extents, args, results, fresh);
    Ok(())
}

/// Gives `f` the call as lowered kernels see it, with intermediate buffers of its own, which come back.
pub(crate) fn with_temps(
    loaded: &Loaded,
    device: &Device,
    extents: &[i64],
    args: &[Arg<'_>],
    results: &[Arg<'_>],
    f: impl FnOnce(&BoundCall<'_>) -> Result<(), Error>,
) -> Result<Vec<Storage>, Error> {
    let of_call = |error: Error| error.of_call(&loaded.kernel().name, None);
    let temps = memory::Temps::allocate(loaded, extents, results, device).map_err(of_call)?;
    with_bound_call(loaded, extents, args, results, &temps, f).map_err(of_call)?;
    Ok(temps.into_storages())
}

fn run_on_cpu(
    loaded: &Loaded,
    extents: &[i64],
    args: &[Arg<'_>],
    results: &[Arg<'_>],
    temps: &memory::Temps,
) -> Result<(), Error> {
    let Some(cpu) = &loaded.cpu else { return Err(loaded.version_error()) };
    let nothing = Buffer { data: std::ptr::null_mut(), strides: &[] };
    let fault = with_list(args.len(), nothing, |params| {
        with_list(results.len(), nothing, |result_buffers| {
            for (buffer, arg) in params.iter_mut().zip(args) {
                *buffer = arg.buffer().unwrap_or(nothing);
            }
            for (buffer, arg) in result_buffers.iter_mut().zip(results) {
                *buffer = arg.buffer().unwrap_or(nothing);
            }
            with_scalars(args, |scalars| {
                let bindings =
                    Bindings { extents, scalars, params, results: result_buffers, temps: &temps.buffers() };
                // SAFETY: shapes fit the program's interface and its checks hold, so that all accesses are within the
                // views. The states of all storages are taken for as long as the launches run; results are new or do
                // not overlap any argument. Elements of arguments are initialised, as those of all tensors are.
                unsafe { cpu.run(&bindings) }
            })
        })
    });
    match fault {
        None => Ok(()),
        Some(fault) => Err(Error::Fault(Box::new(describe_fault(loaded.kernel(), &fault)))),
    }
}

/// Gives `f` the call as lowered kernels see it.
fn with_bound_call<R>(
    loaded: &Loaded,
    extents: &[i64],
    args: &[Arg<'_>],
    results: &[Arg<'_>],
    temps: &memory::Temps,
    f: impl FnOnce(&BoundCall<'_>) -> R,
) -> R {
    with_list(args.len(), Place::NOWHERE, |params| {
        with_list(results.len(), Place::NOWHERE, |result_places| {
            for (place, arg) in params.iter_mut().zip(args) {
                *place = arg.place().unwrap_or(Place::NOWHERE);
            }
            for (place, arg) in result_places.iter_mut().zip(results) {
                *place = arg.place().unwrap_or(Place::NOWHERE);
            }
            with_scalars(args, |scalars| {
                with_list(scalars.len(), 0, |integers| {
                    for (integer, scalar) in integers.iter_mut().zip(scalars) {
                        *integer = scalar.and_then(Value::as_i128).unwrap_or(0) as i64;
                    }
                    let (program, results) = (loaded.plan.program(), &*result_places);
                    let temps = &temps.places();
                    f(&BoundCall { program, extents, scalars, integers, params, results, temps })
                })
            })
        })
    })
}

/// A fault in the user's words.
pub(crate) fn describe_fault(kernel: &Kernel, fault: &CpuFault) -> Fault {
    let origin = fault.node.and_then(|node| kernel.origins.get(node.index())).cloned().unwrap_or_default();
    let kind = match fault.index {
        None => FaultKind::DivisionByZero,
        Some((index, extent)) => {
            let axis = fault.node.and_then(|node| find_gathered_axis(kernel, &kernel.node(node).op));
            let axis = axis.map_or_else(|| "?".to_owned(), |axis| kernel.axis(axis).name.clone());
            FaultKind::OutOfRange { axis, index, extent }
        }
    };
    Fault { kernel: kernel.name.clone(), operation: origin.label, file: origin.file, line: origin.line, kind }
}

/// The axis of the source that a view reads indirectly.
fn find_gathered_axis(kernel: &Kernel, op: &Op) -> Option<AxisId> {
    let Op::View { source, map, .. } = op else { return None };
    debug_assert!(map.indices.len() == kernel.node(*source).ty.axes.len());
    map.indices.iter().find_map(|(axis, index)| {
        let mut indirect = false;
        index.for_each_leaf(&mut |leaf| indirect |= matches!(leaf, IndexExpr::Indirect(_)));
        indirect.then_some(*axis)
    })
}

/// The bytes of a buffer with these axes.
fn buffer_bytes(extents: &[i64], axes: &[AxisId], dtype: DType) -> Result<usize, Error> {
    with_list(axes.len(), 0usize, |shape| {
        for (n, axis) in shape.iter_mut().zip(axes) {
            *n = extents[axis.index()] as usize;
        }
        match element_count(shape, dtype.size()) {
            Some(count) => Ok(count * dtype.size()),
            None => Err(Error::TooLarge { shape: shape.to_vec() }),
        }
    })
}
