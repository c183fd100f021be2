//! One group: its positions, passes, row buffers and stores.

use super::accumulate::Accumulator;
use super::memory::{Stamp, UNIFORM};
use super::{Call, InterpretError};
use crate::dtype::{DType, Value};
use crate::eval::{Fault, IndexContext, Input, NodeFault, eval_fn, eval_op};
use crate::graph::MapFn;
use crate::id::{AxisId, NodeId, OperandId, ValueId};
use crate::index_map::{Bound, IndexExpr};
use crate::program::Program;
use crate::scalar::ScalarOp;
use crate::schedule::{BodyOp, CHUNK, Level, Operand, Pass, ScheduleKind, ScheduledGroup};
use std::cell::Cell;
use std::ops::Range;

/// Runs a group as its schedule says.
pub(super) fn run_group(call: &mut Call<'_>, group: &ScheduledGroup) -> Result<(), InterpretError> {
    let count = |axes: &[AxisId]| axes.iter().map(|a| call.extents[a.index()].max(0)).product::<i64>();
    let (outer, inner) = (count(&group.outer), count(&group.reduced));
    if outer == 0 {
        return Ok(());
    }
    let nothing = vec![None; group.values.len()];
    let mut run = Run {
        stamp: Stamp { launch: call.launch, group: group.id, outer: UNIFORM, phase: 0, inner: -1 },
        index: vec![0; call.extents.len()],
        uniform: nothing.clone(),
        sums: nothing.clone(),
        values: nothing,
        rows: vec![None; group.values.len()],
        group,
        call,
        inner,
    };
    match group.kind {
        ScheduleKind::Split => run.run_split(outer),
        ScheduleKind::Streamed => {
            Err(InterpretError::InvalidPlan(format!("{} is streamed inside another group", group.id)))
        }
        ScheduleKind::Pointwise
        | ScheduleKind::Row
        | ScheduleKind::Column
        | ScheduleKind::Contraction
        | ScheduleKind::Depthwise => {
            run.eval_uniform()?;
            (0..outer).try_for_each(|position| run.run_position(position))
        }
    }
}

struct Run<'a, 'c> {
    call: &'a mut Call<'c>,
    group: &'a ScheduledGroup,
    stamp: Stamp,
    /// The position, by axis.
    index: Vec<i64>,
    /// What is computed once for the launch.
    uniform: Vec<Option<Value>>,
    /// What is computed at the present position.
    values: Vec<Option<Value>>,
    /// The row buffers of the present outer position.
    rows: Vec<Option<Vec<Option<Value>>>>,
    /// The running sums so far.
    sums: Vec<Option<Value>>,
    /// How many reduced positions an outer one has.
    inner: i64,
}

impl<'a, 'c: 'a> Run<'a, 'c> {
    fn run_position(&mut self, position: i64) -> Result<(), InterpretError> {
        self.enter(position, position)?;
        let group = self.group;
        for (i, pass) in group.passes.iter().enumerate() {
            let mut reductions = self.start_reductions(pass);
            self.sweep(i, pass, 0..self.inner, &mut reductions)?;
            self.finish_pass(i, pass, reductions)?;
        }
        Ok(())
    }

    /// The chunks of each outer position in one launch, the rest in the next.
    fn run_split(&mut self, outer: i64) -> Result<(), InterpretError> {
        let group = self.group;
        let [pass] = group.passes.as_slice() else {
            return Err(InterpretError::InvalidPlan(format!("{} is split and has not one pass", group.id)));
        };
        let chunks = (self.inner as usize).div_ceil(CHUNK) as i64;
        let mut partials = vec![Vec::new(); outer as usize];
        self.eval_uniform()?;
        for position in 0..outer {
            for chunk in 0..chunks {
                self.enter(position, position * chunks + chunk)?;
                let mut reductions = self.start_reductions(pass);
                let start = chunk * CHUNK as i64;
                let end = self.inner.min(start + CHUNK as i64);
                self.sweep(0, pass, start..end, &mut reductions)?;
                let mut of_chunk = Vec::new();
                for Reduction { id, accumulator, .. } in reductions {
                    let (partial, combiner) = accumulator.into_partial();
                    self.note(id, combiner.fault);
                    of_chunk.push(partial);
                }
                partials[position as usize].push(of_chunk);
            }
        }
        self.stamp.launch += 1;
        self.eval_uniform()?;
        for (position, of_position) in partials.into_iter().enumerate() {
            self.enter(position as i64, position as i64)?;
            let mut reductions = self.start_reductions(pass);
            for of_chunk in of_position {
                for (reduction, partial) in reductions.iter_mut().zip(of_chunk) {
                    reduction.accumulator.count(partial);
                }
            }
            self.finish_pass(0, pass, reductions)?;
        }
        Ok(())
    }

    fn eval_uniform(&mut self) -> Result<(), InterpretError> {
        // With one outer position what is uniform simply comes first in it; the chunks of a split have no such order.
        let chunked = self.group.kind == ScheduleKind::Split && self.stamp.launch == self.call.launch;
        let outer = if self.group.outer.is_empty() && !chunked { 0 } else { UNIFORM };
        self.stamp = Stamp { outer, phase: 0, inner: -1, ..self.stamp };
        self.values.fill(None);
        self.eval_prologue(Level::Uniform)?;
        self.uniform.clone_from(&self.values);
        Ok(())
    }

    /// Goes to an outer position, where nothing is computed but what is uniform, and computes its prologue. `mark` is
    /// what the position is called in the marks on memory.
    fn enter(&mut self, position: i64, mark: i64) -> Result<(), InterpretError> {
        self.stamp = Stamp { outer: mark, phase: 0, inner: -1, ..self.stamp };
        self.set_index(&self.group.outer, position);
        self.rows.fill(None);
        self.values.clone_from(&self.uniform);
        self.eval_prologue(Level::Outer)
    }

    fn set_index(&mut self, axes: &[AxisId], position: i64) {
        let mut rest = position;
        for a in axes.iter().rev() {
            let extent = self.call.extents[a.index()].max(1);
            self.index[a.index()] = rest % extent;
            rest /= extent;
        }
    }

    fn eval_prologue(&mut self, level: Level) -> Result<(), InterpretError> {
        let group = self.group;
        group
            .prologue
            .iter()
            .filter(|&&id| group.value(id).level == level)
            .try_for_each(|&id| self.compute(id))
    }

    fn start_reductions(&self, pass: &Pass) -> Vec<Reduction<'a>> {
        let (group, program): (&'a ScheduledGroup, &'a Program) = (self.group, self.call.program);
        let start = |&id: &ValueId| match &group.value(id).op {
            BodyOp::Reduce { reducer, sources, output } => {
                let dtypes: Vec<DType> = sources.iter().map(|&s| group.value(s).dtype.compute()).collect();
                let accumulator = Accumulator::new(reducer, &dtypes, &program.kernel.functions);
                Some(Reduction { id, sources, output: *output, accumulator })
            }
            BodyOp::Load(_)
            | BodyOp::Param(_)
            | BodyOp::Constant(_)
            | BodyOp::Extent(_)
            | BodyOp::Map { .. }
            | BodyOp::CumSum { .. } => None,
        };
        pass.reductions.iter().filter_map(start).collect()
    }

    /// The reduced positions of `range`: values, reductions, row buffers, stores.
    fn sweep(
        &mut self,
        number: usize,
        pass: &Pass,
        range: Range<i64>,
        reductions: &mut [Reduction<'_>],
    ) -> Result<(), InterpretError> {
        let group = self.group;
        self.stamp.phase = 2 * number as u32 + 1;
        self.sums.fill(None);
        let mut element = Vec::new();
        for position in range {
            self.stamp.inner = position;
            self.set_index(&group.reduced, position);
            self.forget_inner();
            for &id in &pass.values {
                self.compute(id)?;
            }
            for reduction in reductions.iter_mut() {
                element.clear();
                for &source in reduction.sources {
                    element.push(self.value(source)?);
                }
                reduction.accumulator.push(&mut element, position as usize);
            }
            for &id in &pass.buffered {
                let value = self.value(id)?;
                let row = self.rows[id.index()].get_or_insert_with(|| vec![None; self.inner as usize]);
                row[position as usize] = Some(value);
            }
            self.make_stores(&pass.stores)?;
        }
        self.forget_inner();
        self.stamp.inner = -1;
        Ok(())
    }

    /// What follows a sweep: reduced values, the epilogue, outer stores.
    fn finish_pass(
        &mut self,
        number: usize,
        pass: &Pass,
        reductions: Vec<Reduction<'_>>,
    ) -> Result<(), InterpretError> {
        self.stamp.phase = 2 * number as u32 + 2;
        for Reduction { id, output, accumulator, .. } in reductions {
            let (tuple, combiner) = accumulator.finish();
            self.note(id, combiner.fault);
            let value =
                tuple.get(output as usize).copied().ok_or_else(|| self.wrong(id, "has no such component"))?;
            self.set(id, value)?;
        }
        for &id in &pass.epilogue {
            self.compute(id)?;
        }
        self.make_stores(&pass.outer_stores)
    }

    fn forget_inner(&mut self) {
        for (slot, value) in self.values.iter_mut().zip(&self.group.values) {
            if value.level == Level::Inner {
                *slot = None;
            }
        }
    }

    fn wrong(&self, value: ValueId, why: &str) -> InterpretError {
        InterpretError::WrongValue { group: self.group.id, value, why: why.to_owned() }
    }

    fn note(&mut self, id: ValueId, fault: Option<Fault>) {
        if let Some(fault) = fault {
            self.call.note_fault(NodeFault { node: self.group.value(id).node, fault });
        }
    }

    /// The value at the present position, from where it was computed or from its row buffer.
    fn value(&self, id: ValueId) -> Result<Value, InterpretError> {
        let buffered = || match &self.rows[id.index()] {
            Some(row) if self.stamp.inner >= 0 => row[self.stamp.inner as usize],
            Some(_) | None => None,
        };
        let missing = || InterpretError::NotComputed { group: self.group.id, value: id };
        self.values[id.index()].or_else(buffered).ok_or_else(missing)
    }

    /// Keeps a value after checking that it is what its dtype says: narrow floats are f32s that are rounded already.
    fn set(&mut self, id: ValueId, value: Value) -> Result<(), InterpretError> {
        let dtype = self.group.value(id).dtype;
        let value = if value.dtype().is_narrow_float() { value.cast(DType::F32) } else { value };
        if value.dtype() != dtype.compute() {
            return Err(self.wrong(id, &format!("is {} and should be {dtype}", value.dtype())));
        }
        if to_memory(value, dtype).is_none() {
            return Err(self.wrong(id, &format!("is {value}, which is not rounded to {dtype}")));
        }
        self.values[id.index()] = Some(value);
        Ok(())
    }

    fn compute(&mut self, id: ValueId) -> Result<(), InterpretError> {
        let group = self.group;
        let value = match &group.value(id).op {
            BodyOp::Load(operand) => self.load(id, *operand)?,
            BodyOp::Param(p) => match self.call.inputs.0.get(p.index()) {
                Some(Input::Scalar(v)) => *v,
                Some(Input::Tensor(_) | Input::Axis(_)) | None => {
                    return Err(self.wrong(id, "is a parameter that is no scalar"));
                }
            },
            BodyOp::Constant(v) => *v,
            BodyOp::Extent(e) => Value::I64(self.index_of(e)?),
            BodyOp::Map { function, args } => {
                let args = args.iter().map(|&a| self.value(a)).collect::<Result<Vec<Value>, _>>()?;
                let (value, fault) = match *function {
                    MapFn::Op(op) => eval_op(op, &args),
                    MapFn::Call { function, result } => {
                        let (results, fault) = eval_fn(&self.call.program.kernel.functions, function, &args);
                        (results[result as usize], fault)
                    }
                };
                self.note(id, fault);
                value
            }
            BodyOp::Reduce { .. } => return Err(InterpretError::NotComputed { group: group.id, value: id }),
            BodyOp::CumSum { source } => {
                let next = self.value(*source)?;
                let before = self.sums[id.index()].unwrap_or(Value::zero(next.dtype()));
                let total = eval_op(ScalarOp::Add, &[before, next]).0;
                self.sums[id.index()] = Some(total);
                total
            }
        };
        self.set(id, value)
    }

    fn load(&mut self, id: ValueId, operand: OperandId) -> Result<Value, InterpretError> {
        let group = self.group;
        match &group.operands[operand.index()] {
            Operand::Buffer { buffer, dtype, map } => {
                if self.find_failing(&map.bounds)?.is_some() {
                    return Ok(Value::zero(dtype.compute()));
                }
                let position = self.position(map.indices.iter().map(|(_, e)| e))?;
                self.call.memory.read(self.stamp, *buffer, &position)
            }
            Operand::Index(e) => Ok(Value::I64(self.index_of(e)?)),
            Operand::Mask(bounds) => Ok(Value::Bool(self.find_failing(bounds)?.is_none())),
            Operand::Check { when, bounds } => {
                let failing = self.find_failing(bounds)?;
                if let Some(bound) = failing
                    && self.find_failing(when)?.is_none()
                {
                    let axis = match bound.extent {
                        IndexExpr::Extent(axis) => axis,
                        _ => AxisId(0),
                    };
                    let (index, extent) = (self.index_of(&bound.expr)?, self.index_of(&bound.extent)?);
                    self.note(id, Some(Fault::OutOfRange { axis, index, extent }));
                }
                Ok(Value::Bool(failing.is_none()))
            }
        }
    }

    fn make_stores(&mut self, stores: &[u32]) -> Result<(), InterpretError> {
        let group = self.group;
        for &store in stores {
            let store = &group.stores[store as usize];
            let Some(value) = to_memory(self.value(store.value)?, store.dtype) else {
                return Err(self.wrong(store.value, &format!("is stored as {} and is not", store.dtype)));
            };
            let position = self.position(store.indices.iter().map(|(_, e)| e))?;
            self.call.memory.write(self.stamp, store.buffer, &position, value)?;
        }
        Ok(())
    }

    fn position<'e>(&self, exprs: impl Iterator<Item = &'e IndexExpr>) -> Result<Vec<i64>, InterpretError> {
        exprs.map(|e| self.index_of(e)).collect()
    }

    /// The number of an index expression at the present position.
    fn index_of(&self, e: &IndexExpr) -> Result<i64, InterpretError> {
        let missing = Cell::new(None);
        let indirect = |n: NodeId| match self.value(ValueId(n.0)) {
            Ok(v) => v.as_i128().map_or(0, |x| x.clamp(i64::MIN.into(), i64::MAX.into()) as i64),
            Err(_) => {
                missing.set(Some(ValueId(n.0)));
                0
            }
        };
        let call = &self.call;
        let context = IndexContext {
            index: &self.index,
            extents: call.extents,
            params: call.params,
            indirect: &indirect,
        };
        let number = e.eval(&context);
        match missing.get() {
            Some(value) => Err(InterpretError::NotComputed { group: self.group.id, value }),
            None => Ok(number),
        }
    }

    /// The first bound that does not hold.
    fn find_failing<'b>(&self, bounds: &'b [Bound]) -> Result<Option<&'b Bound>, InterpretError> {
        for bound in bounds {
            if !(0..self.index_of(&bound.extent)?).contains(&self.index_of(&bound.expr)?) {
                return Ok(Some(bound));
            }
        }
        Ok(None)
    }
}

/// A reduced value while its elements come in.
struct Reduction<'a> {
    id: ValueId,
    sources: &'a [ValueId],
    output: u32,
    accumulator: Accumulator<'a>,
}

/// A value as it stands in memory; `None` if it is of another dtype or not rounded to it.
fn to_memory(value: Value, dtype: DType) -> Option<Value> {
    if !dtype.is_narrow_float() {
        return (value.dtype() == dtype).then_some(value);
    }
    let Value::F32(x) = value else { return None };
    let narrow = value.cast(dtype);
    let kept = narrow.as_f64().is_some_and(|y| y == f64::from(x) || (y.is_nan() && x.is_nan()));
    kept.then_some(narrow)
}
