//! The rules of one scheduled group.

use super::ids::buffer_axes;
use crate::dtype::DType;
use crate::graph::{AxisSource, MapFn, OutputTarget, ParamKind, Reducer};
use crate::id::{AxisId, ValueId};
use crate::index_map::IndexExpr;
use crate::program::Program;
use crate::scalar::ScalarOp;
use crate::schedule::contraction::contraction_of;
use crate::schedule::depthwise::depthwise_of;
use crate::schedule::streamed::cut_streamed;
use crate::schedule::{BodyOp, BufferRef, Level, Operand, ScheduleKind, ScheduledGroup};
use std::collections::BTreeSet;

/// Checks kinds, dtypes, levels, that each value is computed before it is read, and stores.
pub(super) fn verify_group(program: &Program, group: &ScheduledGroup) -> Result<(), String> {
    if group.kind == ScheduleKind::Streamed {
        group.links.iter().try_for_each(|link| verify_group(program, link))?;
        return cut_streamed(group).map(|_| ()).map_err(|e| format!("it cannot be streamed: {e:?}"));
    }
    verify_kind(group)?;
    for i in 0..group.values.len() {
        let id = ValueId::from_index(i);
        verify_dtype(program, group, id).map_err(|e| format!("{id}: {e}"))?;
        verify_level(group, id).map_err(|e| format!("{id}: {e}"))?;
    }
    for (i, operand) in group.operands.iter().enumerate() {
        if let Operand::Buffer { buffer, dtype, map } = operand {
            verify_layout(program, *buffer, *dtype, map.indices.iter().map(|(a, _)| *a))
                .map_err(|e| format!("a{i}: {e}"))?;
        }
    }
    verify_passes(group)?;
    verify_stores(program, group)
}

fn verify_kind(group: &ScheduledGroup) -> Result<(), String> {
    let all: BTreeSet<AxisId> = group.outer.iter().chain(&group.reduced).copied().collect();
    if all.len() != group.outer.len() + group.reduced.len() {
        return Err("an axis stands twice in its domain".to_owned());
    }
    let scans = group.values.iter().any(|v| matches!(v.op, BodyOp::CumSum { .. }));
    let reduces = group.values.iter().any(|v| matches!(v.op, BodyOp::Reduce { .. }));
    let buffers = group.passes.iter().any(|p| !p.buffered.is_empty());
    match group.kind {
        ScheduleKind::Pointwise
            if !group.reduced.is_empty() || group.passes.len() != 1 || reduces || scans =>
        {
            Err("it is pointwise and reduces, or has not one pass".to_owned())
        }
        ScheduleKind::Row | ScheduleKind::Column | ScheduleKind::Split if group.reduced.is_empty() => {
            Err("it reduces no axis".to_owned())
        }
        ScheduleKind::Split if group.passes.len() != 1 || buffers || scans => {
            Err("it is split and has row buffers, a running sum or not one pass".to_owned())
        }
        ScheduleKind::Contraction if contraction_of(group).is_none() => {
            Err("it is a contraction and its reductions are none".to_owned())
        }
        ScheduleKind::Contraction
            if group.passes.len() != 1 || buffers || !group.passes[0].stores.is_empty() =>
        {
            Err("it is a contraction and stores in its sweep, or has not one pass".to_owned())
        }
        ScheduleKind::Depthwise
            if depthwise_of(group).is_none()
                || group.passes.len() != 1
                || buffers
                || !group.passes[0].stores.is_empty() =>
        {
            Err("it is depthwise and stores in its sweep, or has not one pass of one such sum".to_owned())
        }
        ScheduleKind::Row | ScheduleKind::Column if scans && group.reduced.len() != 1 => {
            Err("a running sum goes along more than one axis".to_owned())
        }
        ScheduleKind::Pointwise | ScheduleKind::Row | ScheduleKind::Column => Ok(()),
        ScheduleKind::Split | ScheduleKind::Contraction | ScheduleKind::Depthwise => Ok(()),
        ScheduleKind::Streamed => Err("a link is streamed itself".to_owned()),
    }
}

/// The dtype that a value's operation gives, as it travels.
fn verify_dtype(program: &Program, group: &ScheduledGroup, id: ValueId) -> Result<(), String> {
    let value = group.value(id);
    let travels =
        |ids: &[ValueId]| -> Vec<DType> { ids.iter().map(|&v| group.value(v).dtype.compute()).collect() };
    let functions = &program.kernel.functions;
    let dtype = match &value.op {
        BodyOp::Load(operand) => match &group.operands[operand.index()] {
            Operand::Buffer { dtype, .. } => Some(dtype.compute()),
            Operand::Index(_) => Some(DType::I64),
            Operand::Mask(_) | Operand::Check { .. } => Some(DType::Bool),
        },
        BodyOp::Param(p) => match program.kernel.param(*p).kind {
            ParamKind::Scalar { dtype } => Some(dtype.compute()),
            ParamKind::Tensor { .. } | ParamKind::Axis { .. } => None,
        },
        BodyOp::Constant(v) => Some(v.dtype().compute()),
        BodyOp::Extent(_) => Some(DType::I64),
        BodyOp::Map { function: MapFn::Op(op), args } => {
            if let ScalarOp::Cast(to) = op
                && *to != value.dtype
            {
                return Err(format!("it casts to {to} and is {}", value.dtype));
            }
            op.result_dtype(&travels(args)).map(DType::compute)
        }
        BodyOp::Map { function: MapFn::Call { function, result }, args } => {
            let f = &functions[function.index()];
            let fits = f.parameter_dtypes() == travels(args);
            f.expr_dtype(functions, &f.results[*result as usize]).filter(|_| fits)
        }
        BodyOp::Reduce { reducer, sources, output } => match reducer {
            Reducer::ArgMax | Reducer::ArgMin => Some(DType::I64),
            Reducer::Sum
            | Reducer::Prod
            | Reducer::Max
            | Reducer::Min
            | Reducer::Any
            | Reducer::All
            | Reducer::User { .. } => travels(sources).get(*output as usize).copied(),
            Reducer::Dot => travels(sources).first().copied().filter(|d| travels(sources) == [*d, *d]),
        },
        BodyOp::CumSum { source } => Some(group.value(*source).dtype.compute()),
    };
    match dtype {
        Some(d) if d == value.dtype.compute() => Ok(()),
        Some(d) => Err(format!("it is {} and its operation gives {d}", value.dtype)),
        None => Err("its operation does not take its operands".to_owned()),
    }
}

/// A value is computed at least as often as what it reads, and where the axes it reads have a position.
fn verify_level(group: &ScheduledGroup, id: ValueId) -> Result<(), String> {
    let value = group.value(id);
    let whole = if group.outer.is_empty() { Level::Uniform } else { Level::Outer };
    match &value.op {
        BodyOp::Reduce { .. } if value.level != whole => {
            return Err(format!("it is reduced and its level is {:?}", value.level));
        }
        BodyOp::CumSum { .. } if value.level != Level::Inner => {
            return Err(format!("it is a running sum and its level is {:?}", value.level));
        }
        BodyOp::Reduce { .. } | BodyOp::CumSum { .. } => return Ok(()),
        BodyOp::Load(operand) => {
            let mut axes = BTreeSet::new();
            group.operands[operand.index()].for_each_expr(|e| collect_axes(e, &mut axes));
            let outer = if group.kind == ScheduleKind::Pointwise { Level::Inner } else { Level::Outer };
            let need =
                axes.iter().map(|a| if group.reduced.contains(a) { Level::Inner } else { outer }).max();
            if need.is_some_and(|l| l > value.level) {
                return Err(format!("its level is {:?} and its operand needs {need:?}", value.level));
            }
        }
        BodyOp::Param(_) | BodyOp::Constant(_) | BodyOp::Extent(_) | BodyOp::Map { .. } => {}
    }
    match group.reads(id).into_iter().find(|r| group.value(*r).level > value.level) {
        Some(r) => {
            Err(format!("its level is {:?} and that of {r} is {:?}", value.level, group.value(r).level))
        }
        None => Ok(()),
    }
}

fn collect_axes(e: &IndexExpr, axes: &mut BTreeSet<AxisId>) {
    e.for_each_leaf(&mut |leaf| {
        if let IndexExpr::Index(a) = leaf {
            axes.insert(*a);
        }
    });
}

fn verify_layout(
    program: &Program,
    buffer: BufferRef,
    dtype: DType,
    axes: impl Iterator<Item = AxisId>,
) -> Result<(), String> {
    let kernel = &program.kernel;
    let held = match buffer {
        BufferRef::Param(p) => match kernel.param(p).kind {
            ParamKind::Tensor { dtype, .. } => Some(dtype),
            ParamKind::Scalar { .. } | ParamKind::Axis { .. } => None,
        },
        BufferRef::Result(r) => kernel.outputs.iter().find_map(|o| match o.target {
            OutputTarget::Result { index, .. } if index == r => Some(kernel.node(o.value).ty.dtype),
            OutputTarget::Result { .. } | OutputTarget::Param { .. } => None,
        }),
        BufferRef::Temp(t) => program.plan.temps.get(t.index()).map(|t| t.dtype),
    };
    if held != Some(dtype) {
        return Err(format!("{buffer:?} holds {held:?} and is accessed as {dtype}"));
    }
    if !buffer_axes(program, buffer).is_some_and(|b| axes.eq(b.iter().copied())) {
        return Err(format!("its map has not the axes of {buffer:?} in layout order"));
    }
    Ok(())
}

/// Each value stands where all that it reads is computed, or buffered by an earlier pass.
fn verify_passes(group: &ScheduledGroup) -> Result<(), String> {
    let level = |id: ValueId| group.value(id).level;
    let is_reduce = |id: ValueId| matches!(group.value(id).op, BodyOp::Reduce { .. });
    let is_scan = |id: ValueId| matches!(group.value(id).op, BodyOp::CumSum { .. });
    let mut outer: BTreeSet<ValueId> = BTreeSet::new();
    let compute_outer = |id: ValueId, outer: &mut BTreeSet<ValueId>, place: &str| {
        if level(id) == Level::Inner || is_reduce(id) {
            return Err(format!("{id} stands in {place} and is inner or reduced"));
        }
        if let Some(r) = group.reads(id).into_iter().find(|r| !outer.contains(r)) {
            return Err(format!("{id} stands in {place} and reads {r}, which is not computed there"));
        }
        outer.insert(id);
        Ok(())
    };
    for &id in &group.prologue {
        compute_outer(id, &mut outer, "the prologue")?;
    }
    let mut buffered: BTreeSet<ValueId> = BTreeSet::new();
    for (i, pass) in group.passes.iter().enumerate() {
        let mut inner: BTreeSet<ValueId> = BTreeSet::new();
        for &id in &pass.values {
            if level(id) != Level::Inner {
                return Err(format!("{id} stands in the sweep of pass {i} and is not inner"));
            }
            let readable = |r: &ValueId| {
                outer.contains(r) || buffered.contains(r) || (inner.contains(r) && !is_scan(*r))
            };
            if let Some(r) = group.reads(id).iter().find(|r| !readable(r)) {
                return Err(format!(
                    "{id} reads {r}, which pass {i} neither computes before nor finds buffered"
                ));
            }
            if is_scan(id) && !pass.buffered.contains(&id) {
                return Err(format!("{id} is a running sum and is not buffered"));
            }
            inner.insert(id);
        }
        let available = |r: &ValueId| outer.contains(r) || buffered.contains(r) || inner.contains(r);
        for &id in &pass.reductions {
            if !is_reduce(id) {
                return Err(format!("{id} stands among the reductions of pass {i} and is none"));
            }
            if let Some(r) =
                group.reads(id).iter().find(|r| !available(r) || (inner.contains(r) && is_scan(**r)))
            {
                return Err(format!("{id} reduces {r}, which pass {i} does not compute"));
            }
        }
        if let Some(id) = pass.buffered.iter().find(|id| !inner.contains(id)) {
            return Err(format!("{id} is buffered by pass {i}, which does not compute it"));
        }
        for &store in &pass.stores {
            let value = group.stores[store as usize].value;
            if !available(&value) {
                return Err(format!("pass {i} stores {value}, which it does not compute"));
            }
        }
        for &id in &pass.reductions {
            if !outer.insert(id) {
                return Err(format!("{id} is reduced by two passes"));
            }
        }
        for &id in &pass.epilogue {
            compute_outer(id, &mut outer, &format!("the epilogue of pass {i}"))?;
        }
        for &store in &pass.outer_stores {
            let value = group.stores[store as usize].value;
            if !outer.contains(&value) {
                return Err(format!("{value} is stored after pass {i} and not computed by then"));
            }
        }
        buffered.extend(&pass.buffered);
    }
    Ok(())
}

/// Each store is made once, over the axes of the positions where it is made, at the value's dtype.
fn verify_stores(program: &Program, group: &ScheduledGroup) -> Result<(), String> {
    for (i, store) in group.stores.iter().enumerate() {
        let place = |e: &str| format!("store {i}: {e}");
        let in_sweep = group.passes.iter().flat_map(|p| &p.stores).filter(|&&s| s as usize == i).count();
        let after = group.passes.iter().flat_map(|p| &p.outer_stores).filter(|&&s| s as usize == i).count();
        if in_sweep + after != 1 {
            return Err(place(&format!("it is made {} times", in_sweep + after)));
        }
        if group.value(store.value).dtype != store.dtype {
            return Err(place(&format!("{} is stored as {}", store.value, store.dtype)));
        }
        verify_layout(program, store.buffer, store.dtype, store.indices.iter().map(|(a, _)| *a))
            .map_err(|e| place(&e))?;
        if let BufferRef::Param(p) = store.buffer
            && !matches!(program.kernel.param(p).kind, ParamKind::Tensor { mutable: true, .. })
        {
            return Err(place("its parameter is not `&mut`"));
        }
        let mut used = BTreeSet::new();
        let mut indirect = false;
        for (_, e) in &store.indices {
            collect_axes(e, &mut used);
            e.for_each_leaf(&mut |leaf| indirect |= matches!(leaf, IndexExpr::Indirect(_)));
        }
        if indirect {
            return Err(place("it writes at a position that is read"));
        }
        if after == 1 && used.iter().any(|a| group.reduced.contains(a)) {
            return Err(place("it is made after the sweep at a position on a reduced axis"));
        }
        let reduced = if in_sweep == 1 { group.reduced.as_slice() } else { &[] };
        let single = |a: &AxisId| program.kernel.axis(*a).source == AxisSource::Static(1);
        if let Some(a) = group.outer.iter().chain(reduced).find(|a| !used.contains(a) && !single(a)) {
            return Err(place(&format!("its elements along {a} all go to one place")));
        }
    }
    Ok(())
}
