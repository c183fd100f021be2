//! Verification: a kernel as it was compiled, against an evaluation of its graph that shares nothing with it.
//!
//! For each set of sizes, each kind of values and each layout the kernel runs on every instruction set that this
//! processor has and, where that is not too much, on the simulator. Its results must be those of the reference, which evaluates the graph node by node: equal bit for bit,
//! but where transcendental functions reach, within what 2 ulp of each can do (`perturb`). Then each node of the
//! reference is compared with f64 on that node's own inputs, and the laws of the user's reducers are tried on the values
//! that its reductions take.

mod backend;
mod buffer;
mod cases;
mod compare;
mod laws;
mod perturb;
mod report;

pub use report::{Failure, Report, Value};

use crate::call::{CompiledKernel, Loaded};
use crate::device::Device;
use crate::error::Error;
use backend::Backend;
use buffer::StridedBuffer;
use cases::{Layout, Sizes, Values};
use compare::Reference;
use fuse_ir::eval::{Array, Input, Inputs};
use fuse_ir::graph::{Kernel, OutputTarget, ParamKind};
use fuse_ir::id::ParamId;
use fuse_ir::program::Program;
use fuse_ir::schedule::BufferRef;
use laws::Laws;
use std::sync::Arc;

/// How many positions the longest of the default sizes may have: enough for a reduction of three chunks, and little
/// enough for the reference, which a debug build of the user's crate compiles without optimisation.
const POSITIONS: usize = 20_000;

/// A verification of a kernel, before it runs. See [`Verify::run`].
#[must_use = "a verification does nothing before `run`"]
#[derive(Clone, Debug)]
pub struct Verify {
    kernel: &'static CompiledKernel,
    sizes: Vec<Sizes>,
    seeds: Vec<u64>,
}

impl Verify {
    /// A verification with small sizes: one, primes, zero, and axes longer than the parts of a reduction.
    pub fn new(kernel: &'static CompiledKernel) -> Verify {
        Verify { kernel, sizes: Vec::new(), seeds: Vec::new() }
    }

    /// Runs at these extents, by the names of axes, instead of the default ones; may be called several times. Axes that
    /// are not named have extent 2; those that equations give follow.
    pub fn sizes(mut self, extents: &[(&str, usize)]) -> Verify {
        self.sizes.push(Sizes(extents.iter().map(|&(axis, n)| (axis.to_owned(), n)).collect()));
        self
    }

    /// Draws the inputs from this seed instead of the default ones; may be called several times.
    pub fn seed(mut self, seed: u64) -> Verify {
        self.seeds.push(seed);
        self
    }

    /// Runs it.
    ///
    /// # Errors
    /// At the first difference, with the operation, the place, the position and both values.
    pub fn run(self) -> Result<Report, Error> {
        let loaded = self.kernel.load()?;
        let kernel = loaded.kernel();
        let sizes =
            if self.sizes.is_empty() { cases::default_sizes(kernel, POSITIONS) } else { self.sizes.clone() };
        let seeds = if self.seeds.is_empty() { vec![1] } else { self.seeds.clone() };
        let mut report = Report::new(kernel);
        let mut laws = Laws::default();
        let backends = Backend::available();
        report.versions = backends.iter().map(ToString::to_string).collect();
        for size in &sizes {
            for &seed in &seeds {
                for (values, layout) in [
                    (Values::Ordinary, Layout::Contiguous),
                    (Values::Special, Layout::Transposed),
                    (Values::Special, Layout::Padded),
                ] {
                    let seed = seed.wrapping_mul(3).wrapping_add(report.cases as u64);
                    let Some(inputs) = cases::make_inputs(kernel, size, values, seed) else {
                        report.refused += 1;
                        continue;
                    };
                    laws.collect(kernel, &inputs)?;
                    let reference = Reference::evaluate(kernel, &inputs)?;
                    for backend in backends.iter().filter(|b| b.takes(&inputs, layout)) {
                        let got = match backend.run(loaded, &inputs, layout) {
                            Err(error @ Error::NotLowered { .. }) => {
                                report.note_not_run(backend, &error);
                                continue;
                            }
                            other => other?,
                        };
                        let place = || report::Place::new(kernel, &inputs, backend, layout, seed);
                        reference.compare(kernel, (&got, backend.is_cpu()), &place, &mut report)?;
                    }
                    if values == Values::Ordinary {
                        compare::check_nodes(kernel, &inputs, &mut report)?;
                    }
                    report.cases += 1;
                }
            }
        }
        if report.cases == 0 {
            return Err(Error::Verification(Box::new(Failure::no_sizes(kernel))));
        }
        let verdict = laws.check(kernel)?;
        (report.laws, report.law_notes) = (verdict.kept, verdict.notes);
        Ok(report)
    }
}

/// Runs a program that was planned at run time on devices other than the CPU, and compares what it gives with the
/// reference: in every layout, where that is not too much. How many runs were compared; none if the reference faults, since
/// what nothing reads may or may not.
///
/// # Errors
/// At the first difference, or what goes wrong on a device.
#[doc(hidden)]
pub fn verify_program(program: Program, inputs: &Inputs, devices: &[Device]) -> Result<usize, Error> {
    let loaded = Arc::new(Loaded::new(program, None, &[])?);
    let kernel = loaded.kernel();
    let reference = Reference::evaluate(kernel, inputs)?;
    let (mut report, mut runs) = (Report::new(kernel), 0);
    if reference.faults() {
        return Ok(0);
    }
    for device in devices {
        let backend = Backend::Device(device.clone());
        for layout in [Layout::Contiguous, Layout::Transposed, Layout::Padded] {
            if backend.takes(inputs, layout) {
                let got = backend.run(&loaded, inputs, layout)?;
                let place = || report::Place::new(kernel, inputs, &backend, layout, 0);
                reference.compare(kernel, (&got, backend.is_cpu()), &place, &mut report)?;
                runs += 1;
            }
        }
    }
    Ok(runs)
}

/// What a run gives.
struct Got {
    results: Vec<Array>,
    params: Vec<(ParamId, Array)>,
    faulted: bool,
}

/// The tensors of the parameters; `None` for scalars.
fn param_buffers(inputs: &Inputs, layout: Layout) -> Vec<Option<StridedBuffer>> {
    let buffer = |input: &Input| match input {
        Input::Tensor(array) => Some(StridedBuffer::from_array(array, layout)),
        Input::Scalar(_) | Input::Axis(_) => None,
    };
    inputs.0.iter().map(buffer).collect()
}

/// Tensors for the results.
fn output_buffers(kernel: &Kernel, extents: &[i64], layout: Layout) -> Vec<StridedBuffer> {
    let buffer = |output: &fuse_ir::graph::Output| match &output.target {
        OutputTarget::Result { axes, .. } => {
            let shape: Vec<usize> = axes.iter().map(|a| extents[a.index()] as usize).collect();
            Some(StridedBuffer::zeros(kernel.node(output.value).ty.dtype, &shape, layout))
        }
        OutputTarget::Param { .. } => None,
    };
    kernel.outputs.iter().filter_map(buffer).collect()
}

/// What the `&mut` parameters hold.
fn mutable_params(kernel: &Kernel, params: &[Option<StridedBuffer>]) -> Vec<(ParamId, Array)> {
    let mutable = |(k, buffer): (usize, &Option<StridedBuffer>)| match &kernel.params[k].kind {
        ParamKind::Tensor { mutable: true, .. } => {
            buffer.as_ref().map(|b| (ParamId::from_index(k), b.to_array()))
        }
        ParamKind::Tensor { .. } | ParamKind::Scalar { .. } | ParamKind::Axis { .. } => None,
    };
    params.iter().enumerate().filter_map(mutable).collect()
}

/// The name of an output, for messages.
fn output_name(kernel: &Kernel, buffer: BufferRef) -> String {
    match buffer {
        BufferRef::Param(param) => format!("`{}`", kernel.param(param).name),
        BufferRef::Result(k) => {
            let results =
                kernel.outputs.iter().filter(|o| matches!(o.target, OutputTarget::Result { .. })).count();
            if results == 1 { "the result".to_owned() } else { format!("result {k}") }
        }
        BufferRef::Temp(temp) => temp.to_string(),
    }
}
