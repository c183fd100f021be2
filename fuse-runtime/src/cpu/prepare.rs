//! What is computed once for a kernel: its stages, their functions, and everything that does not depend on sizes.

use super::affine::MAX_DIMS;
use super::bindings::{Bindings, CpuFault};
use super::contract::{ContractionExec, StreamExec};
use super::depthwise::DepthwiseExec;
use super::instruction_set::InstructionSet;
use super::parallel::run_parts;
use super::reduce::{BuiltinFns, ReduceExec, Step};
use super::tile::{GroupFns, StageFn};
use fuse_ir::dtype::DType;
use fuse_ir::graph::{Kernel, Reducer};
use fuse_ir::id::{AxisId, OperandId, ValueId};
use fuse_ir::index_map::IndexExpr;
use fuse_ir::program::Program;
use fuse_ir::schedule::{BodyOp, ScheduleKind, ScheduledGroup};
use fuse_ir::stage::{Place, Scalar, Stage, StagedGroup, ValuePlace, cut_into_stages, find_row_function};
use std::fmt;

/// Why a program cannot be prepared: its generated functions are not those of its plan.
#[derive(Clone, PartialEq, Debug)]
pub struct PrepareError {
    /// What does not fit.
    pub reason: String,
}

impl fmt::Display for PrepareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the program does not fit its generated code: {}", self.reason)
    }
}

impl std::error::Error for PrepareError {}

/// A kernel, ready to run on this CPU.
#[derive(Debug)]
pub struct CpuProgram {
    kernel: Kernel,
    launches: Vec<Vec<PartExec>>,
}

impl CpuProgram {
    /// Prepares a program; `groups` are the generated functions in the order of [`fuse_ir::plan::Plan::groups`].
    ///
    /// # Errors
    /// If the functions are not those that the program's plan needs.
    pub fn prepare(program: &Program, groups: &[GroupFns]) -> Result<CpuProgram, PrepareError> {
        let mut groups = groups.iter();
        let mut launches = Vec::new();
        for launch in &program.plan.launches {
            let mut parts = Vec::new();
            for part in &launch.parts {
                let Some(fns) = groups.next() else {
                    return Err(PrepareError { reason: format!("no functions for {}", part.id) });
                };
                parts.push(PartExec::new(&program.kernel, part, fns, InstructionSet::current())?);
            }
            launches.push(parts);
        }
        Ok(CpuProgram { kernel: program.kernel.clone(), launches })
    }

    /// How many launches there are.
    pub fn launches(&self) -> usize {
        self.launches.len()
    }

    /// Runs one launch of the plan; returns its first fault.
    ///
    /// # Safety
    /// Every buffer of the bindings is valid for the accesses that the plan makes with these extents, its elements are
    /// initialised, and nobody else writes what is read or touches what is written. Buffers may overlap one another
    /// only as the plan says (a result that takes over the memory of an input).
    pub unsafe fn run_launch(&self, launch: usize, bindings: &Bindings<'_>) -> Option<CpuFault> {
        // SAFETY: by the contract.
        unsafe { run_parts(self.launches.get(launch)?, bindings) }
    }

    /// Runs all launches in order; returns the first fault.
    ///
    /// # Safety
    /// As for [`CpuProgram::run_launch`].
    pub unsafe fn run(&self, bindings: &Bindings<'_>) -> Option<CpuFault> {
        let mut first = None;
        for launch in 0..self.launches.len() {
            // SAFETY: by the contract.
            let fault = unsafe { self.run_launch(launch, bindings) };
            first = first.or(fault);
        }
        first
    }

    /// Runs all launches on an instruction set of [`InstructionSet::available`], whatever the best is: how verification
    /// compares the versions.
    ///
    /// # Safety
    /// As for [`CpuProgram::run_launch`]; the processor has the instruction set.
    pub(crate) unsafe fn run_on(&self, set: InstructionSet, bindings: &Bindings<'_>) -> Option<CpuFault> {
        let mut first = None;
        for launch in &self.launches {
            let with_set = |part: &PartExec| {
                let (group, functions) = match part {
                    PartExec::Loops(exec) => (&exec.group, &exec.functions),
                    PartExec::Contraction(exec) => (&exec.group, &exec.functions),
                    PartExec::Depthwise(exec) => (&exec.group, &exec.functions),
                    PartExec::Stream(exec) => (&exec.group, &exec.functions),
                };
                PartExec::new(&self.kernel, group, functions, set).ok()
            };
            let parts: Vec<PartExec> = launch.iter().filter_map(with_set).collect();
            // SAFETY: by the contract.
            let fault = unsafe { run_parts(&parts, bindings) };
            first = first.or(fault);
        }
        first
    }
}

/// A part of a launch, ready to run.
#[derive(Debug)]
pub(crate) enum PartExec {
    /// Loops over blocks.
    Loops(Box<GroupExec>),
    /// Products by panels.
    Contraction(Box<ContractionExec>),
    /// Windows under filters that have no columns.
    Depthwise(Box<DepthwiseExec>),
    /// Contractions of which what lies between is streamed.
    Stream(Box<StreamExec>),
}

impl PartExec {
    fn new(
        kernel: &Kernel,
        group: &ScheduledGroup,
        fns: &GroupFns,
        set: InstructionSet,
    ) -> Result<PartExec, PrepareError> {
        if group.kind == ScheduleKind::Streamed {
            return Ok(PartExec::Stream(Box::new(StreamExec::new(kernel, group, fns, set)?)));
        }
        if let Some(exec) = DepthwiseExec::new(kernel, group, fns, set) {
            return Ok(PartExec::Depthwise(Box::new(exec?)));
        }
        match ContractionExec::new(kernel, group, fns, set) {
            Some(exec) => Ok(PartExec::Contraction(Box::new(exec?))),
            None => Ok(PartExec::Loops(Box::new(GroupExec::new(kernel, group, fns, set)?))),
        }
    }
}

/// A group, ready to run.
#[derive(Debug)]
pub(crate) struct GroupExec {
    pub(crate) group: ScheduledGroup,
    functions: GroupFns,
    pub(crate) stages: Vec<StageExec>,
    /// All passes over a row in one.
    pub(crate) row: Option<RowExec>,
    pub(crate) uniform: Vec<usize>,
    pub(crate) prologue: Vec<usize>,
    pub(crate) passes: Vec<PassExec>,
    /// The strides at which axes are divided.
    pub(crate) cuts: Vec<(AxisId, IndexExpr)>,
    /// Outer values that have an array of their own: reduced ones and those that outer stages give.
    pub(crate) outer_arrays: Vec<ValueId>,
    /// Outputs of outer and uniform stages that have no such array: copies to be stored, and uniform values.
    pub(crate) outer_copies: Vec<ValueId>,
    /// Outer values that inner stages read.
    pub(crate) expanded: Vec<ValueId>,
    /// Inner values with a row buffer.
    pub(crate) buffered: Vec<ValueId>,
    /// Outputs of inner stages.
    pub(crate) tiles: Vec<ValueId>,
    /// Uniform values that stages read.
    pub(crate) uniform_loads: Vec<ValueId>,
    /// A rough cost of one position in picoseconds, all stages together.
    pub(crate) cost: usize,
}

/// A stage with the chosen version of its function.
#[derive(Debug)]
pub(crate) struct StageExec {
    pub(crate) function: StageFn,
    pub(crate) place: Place,
    pub(crate) inputs: Vec<(ValueId, DType, Source)>,
    pub(crate) scalars: Vec<(Scalar, DType)>,
    pub(crate) outputs: Vec<Output>,
    /// The reductions that it takes along, by position in the pass's.
    pub(crate) reductions: Vec<usize>,
    pub(crate) faults: Vec<ValueId>,
}

/// A row function with the chosen version.
#[derive(Debug)]
pub(crate) struct RowExec {
    pub(crate) function: StageFn,
    pub(crate) inputs: Vec<(ValueId, DType, OperandId)>,
    pub(crate) outer_inputs: Vec<(ValueId, DType, OperandId)>,
    pub(crate) scalars: Vec<(Scalar, DType)>,
    pub(crate) buffers: Vec<(ValueId, DType)>,
    pub(crate) outputs: Vec<Output>,
    pub(crate) outer_outputs: Vec<Output>,
}

/// Where an input of a stage comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// An operand.
    Load(OperandId),
    /// The array of an outer value.
    Outer,
    /// A row buffer that an earlier pass filled.
    Buffer,
    /// The output of an earlier stage of the sweep.
    Tile,
}

/// An output of a stage.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) value: ValueId,
    pub(crate) dtype: DType,
    /// Whether it goes to a row buffer.
    pub(crate) buffered: bool,
    /// Whether the engine reads it, which wants its rows one after the other.
    pub(crate) flat: bool,
    /// The stores that take it to memory, by position in the group's.
    pub(crate) stores: Vec<usize>,
}

/// A pass, ready to run.
#[derive(Debug)]
pub(crate) struct PassExec {
    pub(crate) sweep: Vec<usize>,
    pub(crate) reductions: Vec<PassReduction>,
    pub(crate) scans: Vec<PassScan>,
    /// Inner stores of running sums.
    pub(crate) epilogue: Vec<usize>,
    /// Outer stores of what has an array.
    pub(crate) outer_stores: Vec<usize>,
}

impl PassExec {
    /// Whether positions of different lanes may be swept in any order.
    pub(crate) fn is_free_in_order(&self) -> bool {
        self.scans.is_empty() && self.reductions.iter().all(|r| !r.exec.ordered)
    }
}

/// A reduction in its pass.
#[derive(Debug)]
pub(crate) struct PassReduction {
    pub(crate) exec: ReduceExec,
    /// The compiled functions, if a stage takes the reduction along.
    pub(crate) along: Option<BuiltinFns>,
    /// The components that are read; `ArgMax` reads one and has two.
    pub(crate) sources: Vec<(ValueId, DType, Source)>,
    /// The values that are components of the result.
    pub(crate) results: Vec<(ValueId, usize)>,
}

/// A running sum in its pass.
#[derive(Debug)]
pub(crate) struct PassScan {
    pub(crate) value: ValueId,
    pub(crate) source: (ValueId, DType, Source),
    pub(crate) stores: Vec<usize>,
}

impl GroupExec {
    pub(crate) fn new(
        kernel: &Kernel,
        group: &ScheduledGroup,
        fns: &GroupFns,
        set: InstructionSet,
    ) -> Result<GroupExec, PrepareError> {
        let staged = cut_into_stages(kernel, group);
        let error = |reason: String| PrepareError { reason: format!("{}: {reason}", group.id) };
        if staged.stages.len() != fns.stages.len() || staged.combiners.len() != fns.combiners.len() {
            return Err(error(format!(
                "{} stages and {} combiners, but {} and {} functions",
                staged.stages.len(),
                staged.combiners.len(),
                fns.stages.len(),
                fns.combiners.len()
            )));
        }
        let builder = Builder { group, staged: &staged };
        let mut stages = Vec::new();
        for (k, stage) in staged.stages.iter().enumerate() {
            stages.push(builder.stage(stage, k, fns.stages[k].select(set)));
        }
        let mut passes = Vec::new();
        for (k, pass) in staged.passes.iter().enumerate() {
            let mut reductions = Vec::new();
            for (r, values) in pass.reductions.iter().enumerate() {
                let combiners: Vec<StageFn> = fns.combiners.iter().map(|c| c.select(set)).collect();
                let reduction = builder
                    .reduction(k, r, values, &combiners, set)
                    .ok_or_else(|| error(format!("no reduction for {}", values[0])))?;
                reductions.push(reduction);
            }
            let outer_stores = group.passes[k].outer_stores.iter().map(|&s| s as usize);
            let held = |s: &usize| builder.has_array(group.stores[*s].value);
            passes.push(PassExec {
                sweep: pass.sweep.clone(),
                reductions,
                scans: pass.scans.iter().filter_map(|&v| builder.scan(k, v)).collect(),
                epilogue: pass.epilogue.clone(),
                outer_stores: outer_stores.filter(held).collect(),
            });
        }
        let cuts = group.axis_cuts();
        // The planner keeps to it; a launch would have nowhere to report it.
        let dims = group.count_dimensions();
        if dims > MAX_DIMS {
            return Err(error(format!(
                "its axes and their parts are {dims}, at most {MAX_DIMS} are supported"
            )));
        }
        let all = || (0..group.values.len()).map(ValueId::from_index);
        let expanded = all().filter(|v| builder.is_expanded(*v, &stages, &passes)).collect();
        let inner_outputs = stages.iter().filter(|s| s.place == Place::Inner);
        let mut tiles: Vec<ValueId> = inner_outputs.flat_map(|s| s.outputs.iter().map(|o| o.value)).collect();
        tiles.sort();
        tiles.dedup();
        let scalar_loads = |v: &ValueId| {
            matches!(group.value(*v).op, BodyOp::Load(_))
                && stages.iter().any(|s| s.scalars.iter().any(|(x, _)| *x == Scalar::Value(*v)))
        };
        let outer_outputs = stages.iter().filter(|s| s.place != Place::Inner);
        let outer_copies: Vec<ValueId> = outer_outputs
            .flat_map(|s| s.outputs.iter().map(|o| o.value))
            .filter(|v| !builder.has_array(*v))
            .collect();
        Ok(GroupExec {
            outer_copies,
            cost: builder.cost(),
            outer_arrays: all().filter(|v| builder.has_array(*v)).collect(),
            buffered: group.passes.iter().flat_map(|p| p.buffered.iter().copied()).collect(),
            uniform_loads: all().filter(scalar_loads).collect(),
            group: group.clone(),
            functions: *fns,
            row: builder.row(fns, set),
            uniform: staged.uniform.clone(),
            prologue: staged.prologue.clone(),
            stages,
            passes,
            cuts,
            expanded,
            tiles,
        })
    }
}

struct Builder<'a> {
    group: &'a ScheduledGroup,
    staged: &'a StagedGroup,
}

impl Builder<'_> {
    /// Whether an outer value has an array: all that are computed do, loads do not.
    fn has_array(&self, v: ValueId) -> bool {
        let outer = self.staged.places[v.index()] == ValuePlace::At(Place::Outer);
        outer && !matches!(self.group.value(v).op, BodyOp::Load(_))
    }

    fn is_expanded(&self, v: ValueId, stages: &[StageExec], passes: &[PassExec]) -> bool {
        let inner = stages.iter().filter(|s| s.place == Place::Inner);
        let read = inner.flat_map(|s| &s.inputs).any(|(u, _, source)| *u == v && *source == Source::Outer);
        let reduced = passes.iter().flat_map(|p| &p.reductions).flat_map(|r| &r.sources);
        let indirect = self.group.operands.iter().any(|o| o.reads().contains(&v));
        read || reduced.into_iter().any(|(u, _, s)| *u == v && *s == Source::Outer)
            || (indirect && self.has_array(v))
    }

    /// The pass that a sweep stage belongs to.
    fn pass_of(&self, stage: usize) -> Option<usize> {
        self.staged.passes.iter().position(|p| p.sweep.contains(&stage))
    }

    /// Where a pass finds a value: of its stages those before `stage`, or all, may have left it in a tile. (A later one may
    /// do no more than store what the pass loads.)
    fn source(&self, v: ValueId, pass: Option<usize>, stage: Option<usize>) -> Source {
        let made_before = pass.is_some_and(|p| {
            let before = self.staged.passes[p].sweep.iter().take_while(|&&t| Some(t) != stage);
            before.into_iter().any(|&t| self.staged.stages[t].outputs.contains(&v))
        });
        if made_before {
            return Source::Tile;
        }
        // A load that was buffered is read from its buffer: a store may have replaced what it read since.
        let earlier = pass.unwrap_or(self.group.passes.len());
        if self.group.passes[..earlier].iter().any(|p| p.buffered.contains(&v)) {
            return Source::Buffer;
        }
        if let BodyOp::Load(operand) = self.group.value(v).op {
            return Source::Load(operand);
        }
        if self.has_array(v) { Source::Outer } else { Source::Tile }
    }

    fn stage(&self, stage: &Stage, k: usize, function: StageFn) -> StageExec {
        let pass = self.pass_of(k);
        let dtype = |v: ValueId| self.group.value(v).dtype.compute();
        let stores_of = |v: ValueId| -> Vec<usize> {
            let lists: Vec<&Vec<u32>> = match stage.place {
                Place::Inner => pass.iter().map(|&p| &self.group.passes[p].stores).collect(),
                // Outer stores of values with arrays are made after the pass; these are copies of what has none.
                Place::Outer if !self.has_array(v) => {
                    let after = self.staged.passes.iter().position(|p| p.epilogue.contains(&k));
                    after.iter().map(|&p| &self.group.passes[p].outer_stores).collect()
                }
                Place::Outer | Place::Uniform => Vec::new(),
            };
            let all = lists.into_iter().flatten().map(|&s| s as usize);
            all.filter(|&s| self.group.stores[s].value == v).collect()
        };
        StageExec {
            function,
            place: stage.place,
            inputs: stage.inputs.iter().map(|&v| (v, dtype(v), self.source_of_input(v, pass, k))).collect(),
            scalars: stage.scalars.clone(),
            outputs: stage
                .outputs
                .iter()
                .map(|&v| Output {
                    value: v,
                    dtype: dtype(v),
                    buffered: pass.is_some_and(|p| self.group.passes[p].buffered.contains(&v)),
                    flat: pass.is_some_and(|p| self.is_read_by_engine(p, v)),
                    stores: stores_of(v),
                })
                .collect(),
            reductions: stage.reductions.clone(),
            faults: stage.faults.clone(),
        }
    }

    fn row(&self, fns: &GroupFns, set: InstructionSet) -> Option<RowExec> {
        let (row, function) = (find_row_function(self.group, self.staged)?, fns.rows?.select(set)?);
        let typed = |v: ValueId| (v, self.group.value(v).dtype.compute());
        let load = |v: ValueId| match self.group.value(v).op {
            BodyOp::Load(operand) => Some((v, typed(v).1, operand)),
            BodyOp::Param(_) | BodyOp::Constant(_) | BodyOp::Extent(_) => None,
            BodyOp::Map { .. } | BodyOp::Reduce { .. } | BodyOp::CumSum { .. } => None,
        };
        let stored = |&v: &ValueId| {
            let stores = (0..self.group.stores.len()).filter(|&s| self.group.stores[s].value == v);
            Output { value: v, dtype: typed(v).1, buffered: false, flat: false, stores: stores.collect() }
        };
        Some(RowExec {
            function,
            inputs: row.inputs.iter().map(|&v| load(v)).collect::<Option<_>>()?,
            outer_inputs: row.outer_inputs.iter().map(|&v| load(v)).collect::<Option<_>>()?,
            scalars: row.scalars,
            buffers: row.buffers.iter().map(|&v| typed(v)).collect(),
            outputs: row.outputs.iter().map(stored).collect(),
            outer_outputs: row.outer_outputs.iter().map(stored).collect(),
        })
    }

    /// Whether the engine itself reads an inner value of a pass: to reduce it, to add it up, or as an index.
    fn is_read_by_engine(&self, pass: usize, v: ValueId) -> bool {
        let staged = &self.staged.passes[pass];
        let reduced = staged
            .reductions
            .iter()
            .enumerate()
            .any(|(r, values)| !self.is_taken_along(pass, r) && self.group.reads(values[0]).contains(&v));
        reduced
            || staged.scans.iter().any(|&scan| self.group.reads(scan).contains(&v))
            || self.group.operands.iter().any(|o| o.reads().contains(&v))
    }

    fn is_taken_along(&self, pass: usize, reduction: usize) -> bool {
        let mut stages = self.staged.passes[pass].sweep.iter().map(|&t| &self.staged.stages[t]);
        stages.any(|stage| stage.reductions.contains(&reduction))
    }

    /// As [`Self::source`], but a stage that copies a value to an output reads it from where it was before.
    fn source_of_input(&self, v: ValueId, pass: Option<usize>, stage: usize) -> Source {
        let copies =
            self.staged.stages[stage].outputs.contains(&v) && !self.staged.stages[stage].values.contains(&v);
        if !copies {
            return self.source(v, pass, Some(stage));
        }
        match self.group.value(v).op {
            _ if pass.is_some_and(|p| self.group.passes[..p].iter().any(|p| p.buffered.contains(&v))) => {
                Source::Buffer
            }
            BodyOp::Load(operand) => Source::Load(operand),
            // A product, which the engine gives.
            BodyOp::Reduce { .. } if !self.has_array(v) => Source::Tile,
            _ => Source::Outer,
        }
    }

    fn reduction(
        &self,
        pass: usize,
        r: usize,
        values: &[ValueId],
        combiners: &[StageFn],
        set: InstructionSet,
    ) -> Option<PassReduction> {
        let BodyOp::Reduce { reducer, sources, .. } = &self.group.value(values[0]).op else { return None };
        let dtypes: Vec<DType> = sources.iter().map(|s| self.group.value(*s).dtype.compute()).collect();
        let combiner = match reducer {
            Reducer::User { combine, .. } => {
                let k = self.staged.combiners.iter().position(|(f, d)| f == combine && *d == dtypes)?;
                Some(*combiners.get(k)?)
            }
            Reducer::Sum | Reducer::Prod | Reducer::Max | Reducer::Min | Reducer::Dot => None,
            Reducer::Any | Reducer::All | Reducer::ArgMax | Reducer::ArgMin => None,
        };
        let exec = ReduceExec::new(reducer, &dtypes, combiner, set)?;
        let argument = matches!(reducer, Reducer::ArgMax | Reducer::ArgMin);
        let results = values.iter().map(|&v| {
            let BodyOp::Reduce { output, .. } = self.group.value(v).op else { return (v, 0) };
            // The position is the second component of the accumulator and the only one of the result.
            (v, if argument { 1 } else { output as usize })
        });
        let sources = sources.iter().zip(&dtypes).map(|(&v, &d)| (v, d, self.source(v, Some(pass), None)));
        let (sources, results) = (sources.collect(), results.collect());
        let along = match exec.step {
            Step::Builtin(fns) if self.is_taken_along(pass, r) => Some(fns),
            Step::Builtin(_) | Step::Argument(_) | Step::User(_) => None,
        };
        Some(PassReduction { exec, along, sources, results })
    }

    fn scan(&self, pass: usize, v: ValueId) -> Option<PassScan> {
        let BodyOp::CumSum { source } = self.group.value(v).op else { return None };
        let dtype = self.group.value(source).dtype.compute();
        let stores = self.group.passes[pass].stores.iter().map(|&s| s as usize);
        Some(PassScan {
            value: v,
            source: (source, dtype, self.source(source, Some(pass), None)),
            stores: stores.filter(|&s| self.group.stores[s].value == v).collect(),
        })
    }

    fn cost(&self) -> usize {
        use fuse_ir::graph::MapFn;
        let mut cost = 100;
        for stage in self.staged.stages.iter().filter(|s| s.place == Place::Inner) {
            cost += 60 * (stage.inputs.len() + stage.outputs.len());
            for &v in &stage.values {
                cost += match &self.group.value(v).op {
                    BodyOp::Map { function: MapFn::Op(op), .. } if op.is_transcendental() => 300,
                    BodyOp::Map { function: MapFn::Call { .. }, .. } => 400,
                    _ => 20,
                };
            }
        }
        cost + 60 * self.group.values.iter().filter(|v| matches!(v.op, BodyOp::Reduce { .. })).count()
    }
}
