//! A planned program on the simulator: its launches lowered and run, over buffers of a host.

use super::fault::Fault;
use super::memory::{GlobalMemory, take};
use super::{Argument, Report, SimulateError, SimulateOptions, address_arguments, simulate_kernel};
use crate::dtype::{DType, Value};
use crate::eval::{self, Array, EvalError, IndexContext, Input, Inputs, NodeFault, Outputs, bind_inputs};
use crate::graph::{OutputTarget, ParamKind as GraphParam};
use crate::id::{AxisId, ParamId, TempId};
use crate::index_map::IndexExpr;
use crate::kernel_ir::{DeviceNumbers, Kernel, Origin, ParamKind};
use crate::lower::{
    FaultKind, FaultSite, LowerError, LowerOptions, LoweredKernel, fits_narrow, lower_launch,
};
use crate::program::{Program, verify_ids};
use crate::scalar::ScalarOp;
use crate::schedule::BufferRef;
use std::collections::BTreeMap;
use std::fmt;

/// How the elements of arguments and results lie in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// Row-major without gaps.
    Contiguous,
    /// Row-major, as many elements from one to the next; what lies between must not be touched.
    Spread(usize),
    /// The first axis is the innermost.
    Transposed,
    /// Row-major from the last element to the first.
    Backwards,
}

/// Which of the variants that fit a call is launched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VariantChoice {
    /// The first, as a launcher does.
    First,
    /// The last, which fits every call.
    Last,
}

/// How a program is run.
#[derive(Clone, PartialEq, Debug)]
pub struct ProgramOptions {
    /// Bytes of shared memory of a block.
    pub shared_memory: u64,
    /// 64-bit indices even where 32 bits do.
    pub wide: bool,
    /// Which variant is launched.
    pub variant: VariantChoice,
    /// How arguments and results lie in memory.
    pub layout: Layout,
    /// Elements before the first one of each argument and result, so that its address is no multiple of 16 bytes.
    pub shift: usize,
    /// What is passed for numbers of the device.
    pub device: DeviceNumbers,
    /// Of each launch.
    pub simulate: SimulateOptions,
}

impl Default for ProgramOptions {
    fn default() -> Self {
        ProgramOptions {
            shared_memory: 96 << 10,
            wide: false,
            variant: VariantChoice::First,
            layout: Layout::Contiguous,
            shift: 0,
            device: DeviceNumbers::SIMULATED,
            simulate: SimulateOptions::default(),
        }
    }
}

/// A kernel that ran.
#[derive(Clone, PartialEq, Debug)]
pub struct RanKernel {
    /// The launch of the plan.
    pub launch: usize,
    /// Which kernel of that launch.
    pub step: usize,
    /// Which variant of that kernel.
    pub variant: usize,
    /// Its name.
    pub name: String,
    /// What it did.
    pub report: Report,
}

/// What a program did.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ProgramReport {
    /// What it gives. Of several faults of the user's arithmetic the outputs name the one of the least node; one in a
    /// function counts as a division.
    pub outputs: Outputs,
    /// The kernels in the order in which they ran.
    pub kernels: Vec<RanKernel>,
}

impl ProgramReport {
    /// What is wrong with the kernels. Empty for right ones.
    pub fn faults(&self) -> impl Iterator<Item = &Fault> {
        self.kernels.iter().flat_map(|k| &k.report.faults)
    }
}

/// Why a program could not be run, or what is wrong with what it left.
#[derive(Clone, PartialEq, Debug)]
pub enum ProgramError {
    /// The inputs do not fit the kernel.
    Inputs(EvalError),
    /// The plan names what does not exist, or what the launcher cannot give.
    InvalidPlan(String),
    /// A launch could not be lowered.
    Lower(LowerError),
    /// No variant of a kernel fits the call.
    NoVariant {
        /// The launch.
        launch: usize,
    },
    /// A launch could not be made.
    Launch {
        /// The kernel's name.
        kernel: String,
        /// Why.
        error: SimulateError,
    },
    /// An element of an output was never written.
    NotWritten {
        /// The output.
        buffer: BufferRef,
        /// Which element, row-major.
        element: usize,
    },
    /// A parameter was written that was only lent.
    NotMutable(ParamId),
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProgramError::Inputs(e) => write!(f, "{e}"),
            ProgramError::InvalidPlan(why) => write!(f, "invalid plan: {why}"),
            ProgramError::Lower(e) => write!(f, "{e}"),
            ProgramError::NoVariant { launch } => write!(f, "no variant of launch {launch} fits the call"),
            ProgramError::Launch { kernel, error } => write!(f, "`{kernel}`: {error}"),
            ProgramError::NotWritten { buffer, element } => {
                write!(f, "element {element} of {buffer:?} is never written")
            }
            ProgramError::NotMutable(param) => write!(f, "{param} is written and only lent"),
        }
    }
}

impl std::error::Error for ProgramError {}

/// What the program gives for these inputs when its launches are lowered and run one after the other.
///
/// # Errors
/// If the inputs do not fit, something cannot be lowered or launched, or outputs stay unwritten. Faults of the kernels
/// are in the report.
pub fn simulate_program(
    program: &Program,
    inputs: &Inputs,
    options: &ProgramOptions,
) -> Result<ProgramReport, ProgramError> {
    simulate_program_with(program, inputs, options, &mut |_| ())
}

/// [`simulate_program`] with each kernel changed before it runs: what a test plants faults with.
///
/// # Errors
/// As [`simulate_program`].
pub fn simulate_program_with(
    program: &Program,
    inputs: &Inputs,
    options: &ProgramOptions,
    edit: &mut dyn FnMut(&mut Kernel),
) -> Result<ProgramReport, ProgramError> {
    verify_ids(program).map_err(ProgramError::InvalidPlan)?;
    let bound = bind_inputs(&program.kernel, inputs).map_err(ProgramError::Inputs)?;
    let mut call = Call {
        program,
        inputs,
        options,
        extents: &bound.extents,
        params: &bound.params,
        memory: GlobalMemory::default(),
        places: BTreeMap::new(),
        fault: None,
        kernels: Vec::new(),
    };
    call.allocate()?;
    for launch in 0..program.plan.launches.len() {
        call.run_launch(launch, edit)?;
    }
    call.finish()
}

/// Where a buffer of the plan lies.
#[derive(Clone, Debug)]
struct Place {
    buffer: usize,
    /// The byte at which the element at position zero starts.
    start: usize,
    dtype: DType,
    shape: Vec<usize>,
    /// In elements.
    strides: Vec<i64>,
}

impl Place {
    /// The first bytes of the elements, row-major.
    fn elements(&self) -> Vec<usize> {
        let count = self.shape.iter().product();
        let element = |mut k: usize| {
            let mut at = 0;
            for (extent, stride) in self.shape.iter().zip(&self.strides).rev() {
                at += (k % extent) as i64 * stride;
                k /= extent;
            }
            (self.start as i64 + at * self.dtype.size() as i64) as usize
        };
        (0..count).map(element).collect()
    }
}

struct Call<'a> {
    program: &'a Program,
    inputs: &'a Inputs,
    options: &'a ProgramOptions,
    extents: &'a [i64],
    params: &'a [i64],
    memory: GlobalMemory,
    places: BTreeMap<BufferRef, Place>,
    fault: Option<NodeFault>,
    kernels: Vec<RanKernel>,
}

/// The strides of a contiguous buffer of that shape.
fn contiguous_strides(shape: &[usize]) -> Vec<i64> {
    let mut strides = vec![0; shape.len()];
    let mut step = 1;
    for (stride, extent) in strides.iter_mut().zip(shape).rev() {
        *stride = step;
        step *= (*extent).max(1) as i64;
    }
    strides
}

impl Call<'_> {
    /// Parameters with their contents, results and temporaries without any.
    fn allocate(&mut self) -> Result<(), ProgramError> {
        let kernel = &self.program.kernel;
        let (layout, shift) = (self.options.layout, self.options.shift);
        for (k, (param, input)) in kernel.params.iter().zip(&self.inputs.0).enumerate() {
            if let (GraphParam::Tensor { dtype, .. }, Input::Tensor(array)) = (&param.kind, input) {
                let id = BufferRef::Param(ParamId::from_index(k));
                self.place(id, *dtype, array.shape.clone(), layout, shift)?;
                self.fill(id, array);
            }
        }
        for output in &kernel.outputs {
            if let OutputTarget::Result { index, axes } = &output.target {
                let dtype = kernel.node(output.value).ty.dtype;
                self.place(BufferRef::Result(*index), dtype, self.shape(axes), layout, shift)?;
            }
        }
        for (k, temp) in self.program.plan.temps.iter().enumerate() {
            let id = BufferRef::Temp(TempId::from_index(k));
            self.place(id, temp.dtype, self.shape(&temp.axes), Layout::Contiguous, 0)?;
        }
        Ok(())
    }

    fn shape(&self, axes: &[AxisId]) -> Vec<usize> {
        axes.iter().map(|a| self.extents[a.index()].max(0) as usize).collect()
    }

    fn place(
        &mut self,
        id: BufferRef,
        dtype: DType,
        shape: Vec<usize>,
        layout: Layout,
        shift: usize,
    ) -> Result<(), ProgramError> {
        let step = if let Layout::Spread(n) = layout { n.max(1) } else { 1 };
        let size = dtype.size();
        let mut sizes = shape.iter().map(|n| (*n).max(1));
        let bytes = sizes.try_fold(step * size, |n, e| n.checked_mul(e)).filter(|n| *n <= 1 << 40);
        let bytes = bytes
            .ok_or_else(|| ProgramError::InvalidPlan(format!("{id:?} of shape {shape:?} is too large")))?;
        let mut strides = contiguous_strides(&shape);
        let mut first = 0;
        match layout {
            Layout::Contiguous => {}
            Layout::Spread(_) => strides.iter_mut().for_each(|s| *s *= step as i64),
            Layout::Transposed => {
                let reversed: Vec<usize> = shape.iter().rev().copied().collect();
                strides = contiguous_strides(&reversed);
                strides.reverse();
            }
            Layout::Backwards => {
                first = shape.iter().map(|n| (*n).max(1)).product::<usize>() - 1;
                strides.iter_mut().for_each(|s| *s = -*s);
            }
        }
        let buffer = self.memory.allocate_uninitialised(shift * size + bytes);
        let start = (shift + first) * size;
        self.places.insert(id, Place { buffer, start, dtype, shape, strides });
        Ok(())
    }

    /// Writes the elements of a parameter.
    fn fill(&mut self, id: BufferRef, array: &Array) {
        let Some(place) = self.places.get(&id) else { return };
        for (at, value) in place.elements().into_iter().zip(&array.data) {
            let bits = value.to_bits().to_le_bytes();
            self.memory.write(place.buffer, at, &bits[..place.dtype.size()]);
        }
        let buffer = &mut self.memory.buffers[place.buffer];
        if buffer.written.iter().flatten().all(|w| *w) {
            buffer.written = None;
        }
    }

    /// From now on `written` lives in the memory of `read`, if both lie alike.
    fn take_over(&mut self, written: BufferRef, read: BufferRef) -> Result<(), ProgramError> {
        let missing = |b| ProgramError::InvalidPlan(format!("{b:?} does not exist"));
        let from = self.places.get(&read).cloned().ok_or_else(|| missing(read))?;
        let to = self.places.get_mut(&written).ok_or_else(|| missing(written))?;
        if to.shape == from.shape && to.dtype.size() == from.dtype.size() {
            *to = Place { dtype: to.dtype, ..from };
        }
        Ok(())
    }

    fn run_launch(&mut self, launch: usize, edit: &mut dyn FnMut(&mut Kernel)) -> Result<(), ProgramError> {
        let program = self.program;
        for group in &program.plan.launches[launch].parts {
            for &(id, written, read) in &program.plan.in_place {
                if id == group.id && written != read {
                    self.take_over(written, read)?;
                }
            }
        }
        let stride = |buffer: BufferRef, axis: u32| self.stride(buffer, axis).unwrap_or(0);
        let narrow = fits_narrow(program, launch, self.extents, self.params, &stride);
        let options =
            LowerOptions { wide: self.options.wide || !narrow, shared_memory: self.options.shared_memory };
        let lowered = lower_launch(program, launch, &options).map_err(ProgramError::Lower)?;
        let mut scratch: Vec<usize> =
            lowered.scratch.iter().map(|_| self.memory.allocate(Vec::new())).collect();
        let nothing = scratch.clone();
        for (number, s) in lowered.scratch.iter().enumerate() {
            let read = match lowered.last_reader(number) {
                Some(step) => {
                    let (variant, args, _) = self.choose(launch, &lowered.steps[step], &nothing)?;
                    self.has_blocks(&lowered.steps[step][variant].kernel, &args)?
                }
                None => false,
            };
            if read {
                let count = self.number(&s.elements).max(0) as usize;
                scratch[number] = self.memory.allocate_uninitialised(count * s.dtype.size());
            }
        }
        for (step, variants) in lowered.steps.iter().enumerate() {
            let (variant, args, words) = self.choose(launch, variants, &scratch)?;
            if step > 0 && !self.has_blocks(&variants[variant].kernel, &args)? {
                continue;
            }
            let mut kernel = variants[variant].kernel.clone();
            edit(&mut kernel);
            let report = simulate_kernel(&kernel, &mut self.memory, &args, &self.options.simulate)
                .map_err(|error| ProgramError::Launch { kernel: kernel.name.clone(), error })?;
            let name = kernel.name;
            self.kernels.push(RanKernel { launch, step, variant, name, report });
            for (k, site) in variants[variant].faults.iter().enumerate() {
                let word = u64::from_le_bytes(take(&self.memory.buffers[words].bytes, 8 * k));
                self.note_fault(site, word);
            }
        }
        Ok(())
    }

    /// Whether a kernel has blocks with these arguments.
    fn has_blocks(&self, kernel: &Kernel, args: &[Argument]) -> Result<bool, ProgramError> {
        let wrong = |error| ProgramError::Launch { kernel: kernel.name.clone(), error };
        let args = address_arguments(kernel, &self.memory, args).map_err(wrong)?;
        let dims = kernel.evaluate_geometry(&args).map_err(|error| wrong(SimulateError::Geometry(error)))?;
        Ok(!dims.grid.contains(&0))
    }

    /// The variant to launch with its arguments, and the allocation where it notes faults.
    fn choose(
        &mut self,
        launch: usize,
        variants: &[LoweredKernel],
        scratch: &[usize],
    ) -> Result<(usize, Vec<Argument>, usize), ProgramError> {
        let most = variants.iter().map(|v| v.faults.len()).max().unwrap_or(0);
        let words = self.memory.allocate(vec![0xff; 8 * most]);
        let mut chosen = None;
        for (number, variant) in variants.iter().enumerate() {
            let args = self.arguments(&variant.kernel, scratch, words)?;
            let addresses = address_arguments(&variant.kernel, &self.memory, &args)
                .map_err(|error| ProgramError::Launch { kernel: variant.kernel.name.clone(), error })?;
            if variant.kernel.requires.iter().all(|c| c.holds(&addresses)) {
                chosen = Some((number, args, words));
                if self.options.variant == VariantChoice::First {
                    break;
                }
            }
        }
        chosen.ok_or(ProgramError::NoVariant { launch })
    }

    fn arguments(
        &self,
        kernel: &Kernel,
        scratch: &[usize],
        words: usize,
    ) -> Result<Vec<Argument>, ProgramError> {
        let wrong = |name: &str| ProgramError::InvalidPlan(format!("nothing to pass for `{name}`"));
        let whole = |buffer: usize| Argument::Pointer { buffer, offset: 0 };
        let argument = |param: &crate::kernel_ir::Param| {
            let number = |n: i64| match param.kind {
                ParamKind::Scalar { dtype, .. } => Value::from_i128(dtype, n.into()).map(Argument::Scalar),
                ParamKind::Pointer { .. } => None,
            };
            match &param.source {
                Origin::Buffer(id) => self
                    .places
                    .get(id)
                    .map(|p| Argument::Pointer { buffer: p.buffer, offset: p.start as u64 }),
                Origin::Scratch(n) => scratch.get(*n as usize).copied().map(whole),
                Origin::Faults => Some(whole(words)),
                Origin::Extent(e) => number(self.number(e)),
                Origin::Stride { buffer, axis } => self.stride(*buffer, *axis).and_then(number),
                Origin::Scalar(id) => match self.inputs.0.get(id.index()) {
                    Some(Input::Scalar(v)) => Some(Argument::Scalar(v.widened())),
                    Some(Input::Axis(n)) => number(*n as i64),
                    Some(Input::Tensor(_)) | None => None,
                },
                Origin::Device(which) => number(self.options.device.get(*which).into()),
                Origin::Given => None,
            }
        };
        kernel.params.iter().map(|p| argument(p).ok_or_else(|| wrong(&p.name))).collect()
    }

    /// The stride of a buffer in elements; along an axis of one element that of a contiguous buffer.
    fn stride(&self, buffer: BufferRef, axis: u32) -> Option<i64> {
        let place = self.places.get(&buffer)?;
        let axis = axis as usize;
        match place.shape.get(axis)? {
            0 | 1 => contiguous_strides(&place.shape).get(axis).copied(),
            _ => place.strides.get(axis).copied(),
        }
    }

    /// A number that the shapes decide.
    fn number(&self, e: &IndexExpr) -> i64 {
        let context =
            IndexContext { index: &[], extents: self.extents, params: self.params, indirect: &|_| 0 };
        e.eval(&context)
    }

    /// Keeps the fault of the least node.
    fn note_fault(&mut self, site: &FaultSite, word: u64) {
        if word == u64::MAX {
            return;
        }
        let fault = match site.kind {
            FaultKind::DivisionByZero(op) => eval::Fault::DivisionByZero(op.unwrap_or(ScalarOp::Div)),
            FaultKind::OutOfRange(axis) => eval::Fault::OutOfRange {
                axis,
                index: i64::from(word as u32 as i32),
                extent: self.extents.get(axis.index()).copied().unwrap_or(0),
            },
        };
        if self.fault.is_none_or(|f| site.node < f.node) {
            self.fault = Some(NodeFault { node: site.node, fault });
        }
    }

    fn read(&self, id: BufferRef) -> Result<Array, ProgramError> {
        let missing = || ProgramError::InvalidPlan(format!("{id:?} does not exist"));
        let place = self.places.get(&id).ok_or_else(missing)?;
        let buffer = &self.memory.buffers[place.buffer];
        let size = place.dtype.size();
        let mut data = Vec::new();
        for (element, at) in place.elements().into_iter().enumerate() {
            if buffer.written.as_ref().is_some_and(|w| w[at..at + size].contains(&false)) {
                return Err(ProgramError::NotWritten { buffer: id, element });
            }
            let mut bits = [0; 8];
            bits[..size].copy_from_slice(&buffer.bytes[at..at + size]);
            data.push(Value::from_bits(place.dtype, u64::from_le_bytes(bits)));
        }
        Ok(Array { dtype: place.dtype, shape: place.shape.clone(), data })
    }

    /// The results and the `&mut` parameters.
    fn finish(self) -> Result<ProgramReport, ProgramError> {
        let mut outputs = Outputs { fault: self.fault, ..Outputs::default() };
        for id in self.places.keys() {
            if let BufferRef::Result(_) = id {
                outputs.results.push(self.read(*id)?);
            }
        }
        for (k, (param, input)) in self.program.kernel.params.iter().zip(&self.inputs.0).enumerate() {
            let (GraphParam::Tensor { mutable, .. }, Input::Tensor(before)) = (&param.kind, input) else {
                continue;
            };
            let id = ParamId::from_index(k);
            let after = self.read(BufferRef::Param(id))?;
            if *mutable {
                outputs.params.push((id, after));
            } else if !after.same_bits(before) {
                return Err(ProgramError::NotMutable(id));
            }
        }
        Ok(ProgramReport { outputs, kernels: self.kernels })
    }
}
