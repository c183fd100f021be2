//! The stages of a scheduled group: the loops that are compiled.
//!
//! A *stage* is one flat loop over slices of equal length: elementwise, without layout or tails, with the reductions that
//! the runtime has taken along, position by position. What lies between the stages (loading, converting, the reduction
//! tree, other reductions, storing) is the engine's, which is compiled once. So the text that is emitted for a group is
//! short, and one form of it serves rows, columns, chunks and plain domains.
//!
//! Rows of memory have a faster form where nothing but loops is needed: a [`RowFunction`] computes all passes of a row, so
//! that the row stays in the first cache and its outer values in registers.
//!
//! ```text
//! uniform stage      values that depend on no axis but are read from memory; once for a launch
//! prologue stages    outer values that need no reduction; over the positions of the outer axes
//! for each pass      sweep stages (inner values), reductions, then epilogue stages (outer values)
//! ```
//!
//! Both sides, the emitter and the engine, compute the stages from the group by [`cut_into_stages`], so that they agree
//! on the slots without a table in the binary. Several stages stand in a row where an indirect read needs the computed
//! value of an index: the stage that computes it ends there, the engine gathers, the next stage goes on.

use crate::dtype::DType;
use crate::graph::{Kernel, MapFn, Reducer};
use crate::id::{FnId, ParamId, ValueId};
use crate::index_map::Extent;
use crate::scalar::{Expr, ScalarFn, Stmt};
use crate::schedule::{BodyOp, Level, ScheduledGroup};

/// Where the positions of a stage lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Place {
    /// One position, once for a launch.
    #[default]
    Uniform,
    /// Positions of the outer axes.
    Outer,
    /// Positions of the whole domain.
    Inner,
}

/// A scalar that a stage is given.
#[derive(Clone, PartialEq, Debug)]
pub enum Scalar {
    /// A scalar parameter.
    Param(ParamId),
    /// An i64 that the shapes decide.
    Extent(Extent),
    /// A uniform value: the result of a uniform stage, or a load of an element that all positions share.
    Value(ValueId),
}

/// One flat loop.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Stage {
    /// Its name within the group: `uniform`, `prologue`, `sweep0`, `epilogue0`; later parts add `b`, `c`.
    pub name: String,
    /// Where its positions lie.
    pub place: Place,
    /// One input slice each: loads, reduced values, outer values (one element for each position of the stage), values of
    /// row buffers, results of earlier stages.
    pub inputs: Vec<ValueId>,
    /// Scalars, the same for all positions.
    pub scalars: Vec<(Scalar, DType)>,
    /// Values of parameters, constants and extents alone, computed before the loop, in order.
    pub prelude: Vec<ValueId>,
    /// Values computed for each position, in order.
    pub values: Vec<ValueId>,
    /// One output slice each.
    pub outputs: Vec<ValueId>,
    /// Reductions that the loop takes along, by position in [`StagedPass::reductions`]: each has a slice of lanes.
    pub reductions: Vec<usize>,
    /// Those of `values` that may fault, for each the stage reports the first position that did.
    pub faults: Vec<ValueId>,
}

/// A sweep with what follows it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct StagedPass {
    /// Sweep stages, by position in [`StagedGroup::stages`]. None if the pass only reduces what it loads.
    pub sweep: Vec<usize>,
    /// Stages over the outer positions after the sweep.
    pub epilogue: Vec<usize>,
    /// The distinct reductions of the pass: all values of one differ in `output` only.
    pub reductions: Vec<Vec<ValueId>>,
    /// Running sums that the pass computes.
    pub scans: Vec<ValueId>,
}

/// A group as stages.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct StagedGroup {
    /// Every stage; the emitted functions stand in this order.
    pub stages: Vec<Stage>,
    /// Uniform stages.
    pub uniform: Vec<usize>,
    /// Stages over the outer positions before the first sweep.
    pub prologue: Vec<usize>,
    /// The sweeps, as in [`ScheduledGroup::passes`].
    pub passes: Vec<StagedPass>,
    /// The user's combiners that the reductions use, with the dtypes of their components; the emitted combiner functions
    /// stand in this order.
    pub combiners: Vec<(FnId, Vec<DType>)>,
    /// Where each value of the body is computed, as the stages see it.
    pub places: Vec<ValuePlace>,
}

/// How the stages see a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValuePlace {
    /// Made of parameters, constants and extents: every stage that needs it computes it.
    Pure,
    /// Computed at [`Place`].
    At(Place),
}

/// Whether evaluating the function may fault, for the kernel's functions.
pub fn find_faulting_functions(functions: &[ScalarFn]) -> Vec<bool> {
    let mut faulting: Vec<bool> = Vec::with_capacity(functions.len());
    for function in functions {
        let faults = function.results.iter().any(|e| expr_may_fault(function, e, &faulting))
            || function.body.iter().any(|s| stmt_may_fault(function, s, &faulting));
        faulting.push(faults);
    }
    faulting
}

fn stmt_may_fault(function: &ScalarFn, stmt: &Stmt, earlier: &[bool]) -> bool {
    match stmt {
        Stmt::Assign { value, .. } => expr_may_fault(function, value, earlier),
        Stmt::If { condition, then, otherwise } => {
            expr_may_fault(function, condition, earlier)
                || then.iter().chain(otherwise).any(|s| stmt_may_fault(function, s, earlier))
        }
        Stmt::For { body, .. } => body.iter().any(|s| stmt_may_fault(function, s, earlier)),
    }
}

fn expr_may_fault(function: &ScalarFn, expr: &Expr, earlier: &[bool]) -> bool {
    match expr {
        Expr::Constant(_) | Expr::Variable(_) => false,
        Expr::Op(op, args) => {
            // Division is the only operation that faults, and only on integers: floats are told by any float leaf.
            let integer = args.first().and_then(|a| expr_dtype(function, a)).is_none_or(DType::is_int);
            (op.may_fault(DType::I32) && integer) || args.iter().any(|a| expr_may_fault(function, a, earlier))
        }
        Expr::Call { function: callee, args, .. } => {
            earlier.get(callee.index()).copied().unwrap_or(true)
                || args.iter().any(|a| expr_may_fault(function, a, earlier))
        }
    }
}

/// The dtype of an expression, as far as it follows without the functions it calls.
pub fn expr_dtype(function: &ScalarFn, expr: &Expr) -> Option<DType> {
    match expr {
        Expr::Constant(v) => Some(v.dtype()),
        Expr::Variable(v) => Some(function.variables[v.index()].dtype),
        Expr::Op(op, args) => {
            if let crate::scalar::ScalarOp::Cast(to) = op {
                return Some(to.compute());
            }
            let args: Option<Vec<DType>> = args.iter().map(|a| expr_dtype(function, a)).collect();
            op.result_dtype(&args?)
        }
        Expr::Call { .. } => None,
    }
}

/// Cuts a group into its stages. The order of values within a stage is the body's.
pub fn cut_into_stages(kernel: &Kernel, group: &ScheduledGroup) -> StagedGroup {
    let faulting = find_faulting_functions(&kernel.functions);
    let places = place_values(group);
    let mut cutter = Cutter { group, faulting, staged: StagedGroup { places, ..StagedGroup::default() } };
    cutter.cut();
    cutter.staged
}

fn place_values(group: &ScheduledGroup) -> Vec<ValuePlace> {
    let mut places: Vec<ValuePlace> = Vec::with_capacity(group.values.len());
    let mut reduced: Vec<bool> = Vec::with_capacity(group.values.len());
    for value in &group.values {
        let args: Vec<ValueId> = match &value.op {
            BodyOp::Map { args, .. } => args.clone(),
            BodyOp::Load(operand) => group.operands[operand.index()].reads(),
            _ => Vec::new(),
        };
        let pure = match &value.op {
            BodyOp::Param(_) | BodyOp::Constant(_) | BodyOp::Extent(_) => true,
            BodyOp::Map { args, .. } => args.iter().all(|a| places[a.index()] == ValuePlace::Pure),
            BodyOp::Load(_) | BodyOp::Reduce { .. } | BodyOp::CumSum { .. } => false,
        };
        let after_reduction =
            matches!(value.op, BodyOp::Reduce { .. }) || args.iter().any(|a| reduced[a.index()]);
        places.push(match value.level {
            _ if pure => ValuePlace::Pure,
            // Without outer axes what follows a reduction is computed once, but after the sweep.
            Level::Uniform if after_reduction => ValuePlace::At(Place::Outer),
            Level::Uniform => ValuePlace::At(Place::Uniform),
            Level::Outer => ValuePlace::At(Place::Outer),
            Level::Inner => ValuePlace::At(Place::Inner),
        });
        reduced.push(after_reduction);
    }
    places
}

struct Cutter<'a> {
    group: &'a ScheduledGroup,
    faulting: Vec<bool>,
    staged: StagedGroup,
}

impl Cutter<'_> {
    fn cut(&mut self) {
        let group = self.group;
        let uniform: Vec<ValueId> = (0..group.values.len())
            .map(ValueId::from_index)
            .filter(|v| self.staged.places[v.index()] == ValuePlace::At(Place::Uniform))
            .collect();
        self.staged.uniform = self.add_stages("uniform", Place::Uniform, &uniform);
        let prologue = self.outer_values(&group.prologue);
        self.staged.prologue = self.add_stages("prologue", Place::Outer, &prologue);
        for (k, pass) in group.passes.iter().enumerate() {
            let inner: Vec<ValueId> = pass
                .values
                .iter()
                .copied()
                .filter(|v| self.staged.places[v.index()] == ValuePlace::At(Place::Inner))
                .filter(|v| !matches!(group.value(*v).op, BodyOp::CumSum { .. }))
                .collect();
            let scans = pass
                .values
                .iter()
                .copied()
                .filter(|v| matches!(group.value(*v).op, BodyOp::CumSum { .. }))
                .collect();
            let sweep = self.add_stages(&format!("sweep{k}"), Place::Inner, &inner);
            let after = self.outer_values(&pass.epilogue);
            let epilogue = self.add_stages(&format!("epilogue{k}"), Place::Outer, &after);
            let reductions = self.collect_reductions(&pass.reductions);
            self.staged.passes.push(StagedPass { sweep, epilogue, reductions, scans });
            self.take_reductions_along(k);
        }
        self.find_outputs();
        self.drop_empty_stages();
        for k in 0..self.staged.stages.len() {
            self.find_inputs(k);
        }
    }

    fn outer_values(&self, values: &[ValueId]) -> Vec<ValueId> {
        let outer = |v: &ValueId| self.staged.places[v.index()] == ValuePlace::At(Place::Outer);
        let computed = |v: &ValueId| !matches!(self.group.value(*v).op, BodyOp::Reduce { .. });
        values.iter().copied().filter(outer).filter(computed).collect()
    }

    fn collect_reductions(&mut self, values: &[ValueId]) -> Vec<Vec<ValueId>> {
        let group = self.group;
        let mut reductions: Vec<Vec<ValueId>> = Vec::new();
        for &v in values {
            let BodyOp::Reduce { reducer, sources, .. } = &group.value(v).op else { continue };
            let same = reductions.iter_mut().find(|r| {
                matches!(&group.value(r[0]).op, BodyOp::Reduce { reducer: other, sources: others, .. }
                    if other.is_same(reducer) && others == sources)
            });
            match same {
                Some(reduction) => reduction.push(v),
                None => reductions.push(vec![v]),
            }
            if let Reducer::User { combine, .. } = reducer {
                let dtypes: Vec<DType> = sources.iter().map(|s| group.value(*s).dtype.compute()).collect();
                if !self.staged.combiners.iter().any(|(f, d)| f == combine && *d == dtypes) {
                    self.staged.combiners.push((*combine, dtypes));
                }
            }
        }
        reductions
    }

    /// Gives the reductions that the runtime has to the stages that compute what they reduce. What is loaded is reduced
    /// straight from memory if nothing else happens to it; two reductions of it read it together.
    fn take_reductions_along(&mut self, k: usize) {
        let group = self.group;
        let pass = &self.staged.passes[k];
        let mut places = Vec::new();
        for (r, values) in pass.reductions.iter().enumerate() {
            let Some(source) = reduced_along(group, values[0]) else { continue };
            if self.staged.places[source.index()] != ValuePlace::At(Place::Inner) {
                continue;
            }
            match group.value(source).op {
                BodyOp::Map { .. } => {
                    let computed = |&t: &usize| self.staged.stages[t].values.contains(&source);
                    places.extend(pass.sweep.iter().copied().find(computed).map(|t| (t, r)));
                }
                BodyOp::Load(_) => {
                    let busy = pass.reductions.len() > 1 || !group.passes[k].stores.is_empty();
                    places.extend(pass.sweep.last().filter(|_| busy).map(|&t| (t, r)));
                }
                BodyOp::Reduce { .. } | BodyOp::CumSum { .. } => {}
                BodyOp::Param(_) | BodyOp::Constant(_) | BodyOp::Extent(_) => {}
            }
        }
        for (t, r) in places {
            self.staged.stages[t].reductions.push(r);
        }
    }

    /// Adds the stages of these values: one, or more where an index that a load reads is computed on the way.
    fn add_stages(&mut self, name: &str, place: Place, values: &[ValueId]) -> Vec<usize> {
        let group = self.group;
        let mut depth = vec![0usize; group.values.len()];
        let mut parts: Vec<Vec<ValueId>> = Vec::new();
        for &v in values {
            let load = matches!(group.value(v).op, BodyOp::Load(_));
            let mut part = 0;
            for read in group.reads(v).into_iter().filter(|r| values.contains(r)) {
                let computed = !matches!(group.value(read).op, BodyOp::Load(_));
                part = part.max(depth[read.index()] + usize::from(load && computed));
            }
            depth[v.index()] = part;
            if !load {
                parts.resize_with(parts.len().max(part + 1), Vec::new);
                parts[part].push(v);
            }
        }
        // The stores of a sweep may copy loads or outer values, so a sweep has at least one part; empty ones go later.
        if parts.is_empty() {
            parts.push(Vec::new());
        }
        let mut added = Vec::new();
        for (k, values) in parts.into_iter().enumerate() {
            let suffix = if k == 0 { String::new() } else { ((b'a' + k.min(25) as u8) as char).to_string() };
            added.push(self.staged.stages.len());
            self.staged.stages.push(Stage {
                name: format!("{name}{suffix}"),
                place,
                values,
                ..Stage::default()
            });
        }
        added
    }

    /// What a stage computes and someone else reads, and what the engine needs although no stage computes it.
    fn find_outputs(&mut self) {
        let outer_stages: Vec<usize> =
            (0..self.staged.stages.len()).filter(|&t| self.staged.stages[t].place != Place::Inner).collect();
        for t in outer_stages {
            let values = self.staged.stages[t].values.clone();
            self.staged.stages[t].outputs =
                values.into_iter().filter(|&v| self.is_read_outside(t, v)).collect();
        }
        for k in 0..self.group.passes.len() {
            self.find_sweep_outputs(k);
            self.find_outer_copies(k);
        }
    }

    /// Whether an outer or uniform value is read by another stage than its own or by the engine.
    fn is_read_outside(&self, stage: usize, v: ValueId) -> bool {
        let group = self.group;
        let read_by_stage = self
            .staged
            .stages
            .iter()
            .enumerate()
            .any(|(t, other)| t != stage && other.values.iter().any(|&u| group.reads(u).contains(&v)));
        read_by_stage
            || group.stores.iter().any(|s| s.value == v)
            || group.operands.iter().any(|o| o.reads().contains(&v))
            || group
                .values
                .iter()
                .any(|u| matches!(&u.op, BodyOp::Reduce { sources, .. } if sources.contains(&v)))
    }

    fn find_sweep_outputs(&mut self, k: usize) {
        let group = self.group;
        let pass = &group.passes[k];
        let mut needed: Vec<ValueId> = pass.stores.iter().map(|&s| group.stores[s as usize].value).collect();
        needed.extend(&pass.buffered);
        let mut read: Vec<ValueId> = Vec::new();
        let along: Vec<ValueId> = self.reductions_along(k).collect();
        for &v in pass.reductions.iter().chain(&pass.values) {
            match &group.value(v).op {
                BodyOp::Reduce { .. } if along.contains(&v) => {}
                BodyOp::Reduce { sources, .. } => read.extend(sources),
                BodyOp::CumSum { source } => read.push(*source),
                BodyOp::Load(operand) => read.extend(group.operands[operand.index()].reads()),
                BodyOp::Map { .. } | BodyOp::Param(_) | BodyOp::Constant(_) | BodyOp::Extent(_) => {}
            }
        }
        // The engine has the tiles of inner loads and of row buffers at hand; it keeps no tile of what is constant
        // along the sweep.
        let sweep = self.staged.passes[k].sweep.clone();
        let computed = |staged: &StagedGroup, v: ValueId| {
            sweep.iter().copied().find(|&t| staged.stages[t].values.contains(&v))
        };
        read.retain(|&v| {
            computed(&self.staged, v).is_some()
                || self.staged.places[v.index()] != ValuePlace::At(Place::Inner)
        });
        // A row buffer that this pass fills from a load is a copy, a running sum is written by the engine.
        needed.retain(|&v| !matches!(group.value(v).op, BodyOp::CumSum { .. }) || !pass.values.contains(&v));
        needed.extend(read);
        for part in &sweep {
            for &u in &self.staged.stages[*part].values {
                let reads = group.reads(u);
                needed.extend(
                    reads.into_iter().filter(|&v| computed(&self.staged, v).is_some_and(|t| t != *part)),
                );
            }
        }
        needed.sort();
        needed.dedup();
        let Some(&last) = sweep.last() else { return };
        for v in needed {
            let stage = computed(&self.staged, v).unwrap_or(last);
            self.staged.stages[stage].outputs.push(v);
        }
    }

    /// The reduced values of a pass that its stages take along.
    fn reductions_along(&self, k: usize) -> impl Iterator<Item = ValueId> {
        let pass = &self.staged.passes[k];
        let taken = pass.sweep.iter().flat_map(|&t| &self.staged.stages[t].reductions);
        taken.flat_map(|&r| pass.reductions[r].iter().copied())
    }

    /// Outer stores of what the engine holds no array of: loads, uniform and pure values.
    fn find_outer_copies(&mut self, k: usize) {
        let group = self.group;
        let Some(&last) = self.staged.passes[k].epilogue.last() else { return };
        for &s in &group.passes[k].outer_stores {
            let v = group.stores[s as usize].value;
            let held = self.staged.places[v.index()] == ValuePlace::At(Place::Outer)
                && !matches!(group.value(v).op, BodyOp::Load(_));
            if !held && !self.staged.stages[last].outputs.contains(&v) {
                self.staged.stages[last].outputs.push(v);
            }
        }
    }

    fn drop_empty_stages(&mut self) {
        let mut renumbered = Vec::new();
        let mut kept = Vec::new();
        for stage in std::mem::take(&mut self.staged.stages) {
            let empty = stage.outputs.is_empty() && stage.values.is_empty() && stage.reductions.is_empty();
            renumbered.push(if empty { None } else { Some(kept.len()) });
            if !empty {
                kept.push(stage);
            }
        }
        self.staged.stages = kept;
        let renumber = |list: &mut Vec<usize>| *list = list.iter().filter_map(|&k| renumbered[k]).collect();
        renumber(&mut self.staged.uniform);
        renumber(&mut self.staged.prologue);
        for pass in &mut self.staged.passes {
            renumber(&mut pass.sweep);
            renumber(&mut pass.epilogue);
        }
    }

    fn find_inputs(&mut self, k: usize) {
        let group = self.group;
        let mut stage = self.staged.stages[k].clone();
        let mut needed: Vec<ValueId> = stage.outputs.clone();
        if let Some(pass) = self.staged.passes.iter().find(|p| p.sweep.contains(&k)) {
            let values = stage.reductions.iter().map(|&r| pass.reductions[r][0]);
            needed.extend(values.filter_map(|v| reduced_along(group, v)));
        }
        for &v in &stage.values {
            if let BodyOp::Map { args, .. } = &group.value(v).op {
                needed.extend(args);
            }
            if self.may_fault(v) {
                stage.faults.push(v);
            }
        }
        let mut seen = vec![false; group.values.len()];
        while let Some(v) = needed.pop() {
            if std::mem::replace(&mut seen[v.index()], true) || stage.values.contains(&v) {
                continue;
            }
            let value = group.value(v);
            match self.staged.places[v.index()] {
                ValuePlace::Pure => match &value.op {
                    BodyOp::Param(p) => stage.scalars.push((Scalar::Param(*p), value.dtype.compute())),
                    BodyOp::Extent(e) => stage.scalars.push((Scalar::Extent(e.clone()), DType::I64)),
                    BodyOp::Map { args, .. } => {
                        stage.prelude.push(v);
                        needed.extend(args);
                    }
                    BodyOp::Constant(_) => {}
                    BodyOp::Load(_) | BodyOp::Reduce { .. } | BodyOp::CumSum { .. } => {}
                },
                ValuePlace::At(Place::Uniform) if stage.place != Place::Uniform => {
                    stage.scalars.push((Scalar::Value(v), value.dtype.compute()));
                }
                ValuePlace::At(_) => stage.inputs.push(v),
            }
        }
        stage.inputs.sort();
        stage.prelude.sort();
        let mut scalars: Vec<(Scalar, DType)> = Vec::new();
        for s in stage.scalars.drain(..) {
            if !scalars.contains(&s) {
                scalars.push(s);
            }
        }
        stage.scalars = scalars;
        self.staged.stages[k] = stage;
    }

    fn may_fault(&self, v: ValueId) -> bool {
        match &self.group.value(v).op {
            BodyOp::Map { function: MapFn::Op(op), args } => {
                args.first().is_some_and(|a| op.may_fault(self.group.value(*a).dtype))
            }
            BodyOp::Map { function: MapFn::Call { function, .. }, .. } => self.faulting[function.index()],
            BodyOp::Load(_) | BodyOp::Param(_) | BodyOp::Constant(_) => false,
            BodyOp::Extent(_) | BodyOp::Reduce { .. } | BodyOp::CumSum { .. } => false,
        }
    }
}

/// What a reduced value reduces, if a stage can take that along: one source, and a reducer that the runtime has.
pub fn reduced_along(group: &ScheduledGroup, v: ValueId) -> Option<ValueId> {
    let BodyOp::Reduce { reducer, sources, .. } = &group.value(v).op else { return None };
    match (reducer, &sources[..]) {
        (
            Reducer::Sum | Reducer::Prod | Reducer::Max | Reducer::Min | Reducer::Any | Reducer::All,
            [source],
        ) => Some(*source),
        _ => None,
    }
}

/// All passes of a group over one row, as one function.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RowFunction {
    /// Inner loads, a slice each.
    pub inputs: Vec<ValueId>,
    /// Outer loads, an element each.
    pub outer_inputs: Vec<ValueId>,
    /// Scalars, the same for all rows.
    pub scalars: Vec<(Scalar, DType)>,
    /// Values of parameters, constants and extents alone, in order.
    pub prelude: Vec<ValueId>,
    /// Inner values that a later pass reads, a slice of scratch each. Loads are read again instead.
    pub buffers: Vec<ValueId>,
    /// Inner values that a later pass reads, and the output in whose slice they lie until the last pass that reads them
    /// puts the output in their place: what waits in the cache is half as much.
    pub replaced: Vec<(ValueId, ValueId)>,
    /// Inner values that are stored, a slice each.
    pub outputs: Vec<ValueId>,
    /// Outer values that are stored, an element each.
    pub outer_outputs: Vec<ValueId>,
}

/// The row function of a group, if it has one: its reductions are all of one source and the runtime's, and it adds
/// nothing up, reads nothing indirectly and cannot fault.
pub fn find_row_function(group: &ScheduledGroup, staged: &StagedGroup) -> Option<RowFunction> {
    let place = |v: ValueId| staged.places[v.index()];
    let inner = |v: ValueId| place(v) == ValuePlace::At(Place::Inner);
    let is_load = |v: ValueId| matches!(group.value(v).op, BodyOp::Load(_));
    let mut row = RowFunction::default();
    for pass in &staged.passes {
        let simple = |r: &Vec<ValueId>| reduced_along(group, r[0]).is_some_and(inner);
        if pass.sweep.len() > 1 || !pass.scans.is_empty() || !pass.reductions.iter().all(simple) {
            return None;
        }
        for r in &pass.reductions {
            row.inputs.extend(reduced_along(group, r[0]).filter(|&v| is_load(v)));
        }
    }
    let reduces = staged.passes.iter().any(|p| !p.reductions.is_empty());
    let plain = |o: &crate::schedule::Operand| {
        matches!(o, crate::schedule::Operand::Buffer { .. }) && o.reads().is_empty()
    };
    if !reduces || !group.operands.iter().all(plain) {
        return None;
    }
    for stage in &staged.stages {
        if !stage.faults.is_empty() {
            return None;
        }
        if stage.place == Place::Uniform {
            continue;
        }
        for &v in &stage.inputs {
            match place(v) {
                ValuePlace::At(Place::Inner) if is_load(v) => row.inputs.push(v),
                ValuePlace::At(Place::Outer) if is_load(v) => row.outer_inputs.push(v),
                ValuePlace::At(_) | ValuePlace::Pure => {}
            }
        }
        row.prelude.extend(&stage.prelude);
        for s in &stage.scalars {
            if !row.scalars.contains(s) {
                row.scalars.push(s.clone());
            }
        }
    }
    for pass in &group.passes {
        row.buffers.extend(pass.buffered.iter().copied().filter(|&v| !is_load(v)));
        let stored = |list: &[u32]| list.iter().map(|&s| group.stores[s as usize].value).collect::<Vec<_>>();
        row.outputs.extend(stored(&pass.stores));
        row.outer_outputs.extend(stored(&pass.outer_stores));
    }
    let in_row = |v: &ValueId| matches!(group.value(*v).op, BodyOp::Map { .. }) && inner(*v);
    let of_row = |v: &ValueId| {
        matches!(group.value(*v).op, BodyOp::Map { .. } | BodyOp::Reduce { .. })
            && place(*v) == ValuePlace::At(Place::Outer)
    };
    if !row.outputs.iter().all(in_row) || !row.outer_outputs.iter().all(of_row) {
        return None;
    }
    for list in [
        &mut row.inputs,
        &mut row.outer_inputs,
        &mut row.prelude,
        &mut row.buffers,
        &mut row.outputs,
        &mut row.outer_outputs,
    ] {
        list.sort();
        list.dedup();
    }
    find_replaced(group, staged, &mut row);
    Some(row)
}

/// Moves buffers to outputs. The pass that writes the output is the last to read the buffer, and has no transcendental
/// functions: it is one loop, which reads each element before it writes there.
fn find_replaced(group: &ScheduledGroup, staged: &StagedGroup, row: &mut RowFunction) {
    let stages = |k: usize| staged.passes[k].sweep.iter().map(|&t| &staged.stages[t]);
    let reads = |k: usize, v: ValueId| stages(k).any(|s| s.inputs.contains(&v));
    let is_one_loop = |k: usize| {
        stages(k).flat_map(|s| &s.values).all(|&v| match &group.value(v).op {
            BodyOp::Map { function: MapFn::Op(op), .. } => !op.is_transcendental(),
            _ => false,
        })
    };
    for &output in &row.outputs {
        let writes =
            |k: &usize| group.passes[*k].stores.iter().any(|&s| group.stores[s as usize].value == output);
        let Some(last) = (0..staged.passes.len()).find(writes).filter(|&k| is_one_loop(k)) else { continue };
        let fits = |&v: &ValueId| {
            v != output
                && group.value(v).dtype.compute() == group.value(output).dtype.compute()
                && reads(last, v)
                && (last + 1..staged.passes.len()).all(|k| !reads(k, v))
        };
        if !row.buffers.contains(&output)
            && let Some(at) = row.buffers.iter().position(fits)
        {
            row.replaced.push((row.buffers.remove(at), output));
        }
    }
}
