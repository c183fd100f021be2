//! Verification: a kernel as it was compiled, against an evaluation of its graph that shares nothing with it.
//!
//! For each set of sizes, each kind of values and each layout the kernel runs on every instruction set that this
//! processor has. Its results must be those of the reference, which evaluates the graph node by node: equal bit for bit,
//! but where transcendental functions reach, within what 2 ulp of each can do (`perturb`). Then each node of the
//! reference is compared with f64 on that node's own inputs, and the laws of the user's reducers are tried on the values
//! that its reductions take.

mod buffer;
mod cases;
mod compare;
mod laws;
mod perturb;
mod report;

pub use report::{Failure, Report, Value};

use crate::call::{CompiledKernel, Loaded};
use crate::cpu::{Bindings, Buffer, InstructionSet};
use crate::error::Error;
use buffer::StridedBuffer;
use cases::{Layout, Sizes, Values};
use compare::Reference;
use fuse_ir::eval::{Array, Input, Inputs};
use fuse_ir::graph::{Kernel, OutputTarget, ParamKind};
use fuse_ir::id::ParamId;
use fuse_ir::schedule::BufferRef;
use laws::Laws;

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
        let versions = InstructionSet::available();
        report.versions = versions.iter().map(ToString::to_string).collect();
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
                    for &version in &versions {
                        let case = Case { loaded, inputs: &inputs, layout, version };
                        let got = case.run();
                        let place = || report::Place::new(kernel, &inputs, version, layout, seed);
                        reference.compare(kernel, &got, &place, &mut report)?;
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

/// One run of the compiled kernel.
struct Case<'a> {
    loaded: &'a Loaded,
    inputs: &'a Inputs,
    layout: Layout,
    version: InstructionSet,
}

/// What a run gives.
struct Got {
    results: Vec<Array>,
    params: Vec<(ParamId, Array)>,
    faulted: bool,
}

impl Case<'_> {
    fn run(&self) -> Got {
        let kernel = self.loaded.kernel();
        // The reference took these inputs, so that they bind.
        let extents = cases::bind(kernel, self.inputs).unwrap_or_default();
        let shape = |axes: &[fuse_ir::id::AxisId]| -> Vec<usize> {
            axes.iter().map(|a| extents[a.index()] as usize).collect()
        };
        let mut params: Vec<Option<StridedBuffer>> = self
            .inputs
            .0
            .iter()
            .map(|input| match input {
                Input::Tensor(array) => Some(StridedBuffer::from_array(array, self.layout)),
                Input::Scalar(_) | Input::Axis(_) => None,
            })
            .collect();
        let mut results: Vec<StridedBuffer> = kernel
            .outputs
            .iter()
            .filter_map(|output| match &output.target {
                OutputTarget::Result { axes, .. } => {
                    Some(StridedBuffer::zeros(kernel.node(output.value).ty.dtype, &shape(axes), self.layout))
                }
                OutputTarget::Param { .. } => None,
            })
            .collect();
        let plan = &self.loaded.plan;
        let mut temps: Vec<StridedBuffer> = plan
            .temps
            .iter()
            .map(|temp| StridedBuffer::zeros(temp.dtype, &shape(&temp.axes), Layout::Contiguous))
            .collect();
        let scalars = cases::scalars_of(self.inputs);
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
            unsafe { self.loaded.cpu.run_on(self.version, &bindings) }
        };
        let mutable = |(k, buffer): (usize, &Option<StridedBuffer>)| match &kernel.params[k].kind {
            ParamKind::Tensor { mutable: true, .. } => {
                buffer.as_ref().map(|b| (ParamId::from_index(k), b.to_array()))
            }
            ParamKind::Tensor { .. } | ParamKind::Scalar { .. } | ParamKind::Axis { .. } => None,
        };
        Got {
            results: results.iter().map(StridedBuffer::to_array).collect(),
            params: params.iter().enumerate().filter_map(mutable).collect(),
            faulted: fault.is_some(),
        }
    }
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
