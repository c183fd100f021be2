//! Whether everything that a plan names exists, so that its readers may index.

use crate::graph::{MapFn, OutputTarget, ParamKind, Reducer, verify_graph};
use crate::id::{AxisId, ValueId};
use crate::index_map::IndexExpr;
use crate::program::Program;
use crate::schedule::{BodyOp, BufferRef, Operand, ScheduledGroup};

/// Checks the graph, and the range of every id in the plan.
pub(crate) fn verify_ids(program: &Program) -> Result<(), String> {
    verify_graph(&program.kernel)?;
    let axes_exist = |axes: &[AxisId]| axes.iter().all(|a| a.index() < program.kernel.axes.len());
    for (i, temp) in program.plan.temps.iter().enumerate() {
        if !axes_exist(&temp.axes) || temp.node.index() >= program.kernel.nodes.len() {
            return Err(format!("t{i} has an axis or a node that does not exist"));
        }
    }
    for &(group, written, read) in &program.plan.in_place {
        for buffer in [written, read] {
            buffer_axes(program, buffer).ok_or_else(|| format!("{group}: {buffer:?} does not exist"))?;
        }
    }
    for group in program.plan.groups() {
        let stored = group.stores.iter().all(|s| buffer_axes(program, s.buffer).is_some());
        for each in group.loops() {
            let verified = if stored && axes_exist(&each.outer) && axes_exist(&each.reduced) {
                verify_group_ids(program, each)
            } else {
                Err("an axis or a buffer does not exist".to_owned())
            };
            verified.map_err(|e| format!("{}: {e}", group.id))?;
        }
    }
    Ok(())
}

/// The axes of a buffer, in layout order; `None` if there is no such buffer.
pub(super) fn buffer_axes(program: &Program, buffer: BufferRef) -> Option<&[AxisId]> {
    match buffer {
        BufferRef::Param(p) => match &program.kernel.params.get(p.index())?.kind {
            ParamKind::Tensor { axes, .. } => Some(axes),
            ParamKind::Scalar { .. } | ParamKind::Axis { .. } => None,
        },
        BufferRef::Result(r) => program.kernel.outputs.iter().find_map(|o| match &o.target {
            OutputTarget::Result { index, axes } if *index == r => Some(axes.as_slice()),
            OutputTarget::Result { .. } | OutputTarget::Param { .. } => None,
        }),
        BufferRef::Temp(t) => program.plan.temps.get(t.index()).map(|t| t.axes.as_slice()),
    }
}

fn verify_group_ids(program: &Program, group: &ScheduledGroup) -> Result<(), String> {
    for (i, operand) in group.operands.iter().enumerate() {
        verify_operand_ids(program, group, operand).map_err(|e| format!("a{i}: {e}"))?;
    }
    for (i, value) in group.values.iter().enumerate() {
        let id = ValueId::from_index(i);
        let known = match &value.op {
            BodyOp::Load(operand) => operand.index() < group.operands.len(),
            BodyOp::Param(p) => {
                matches!(
                    program.kernel.params.get(p.index()).map(|p| &p.kind),
                    Some(ParamKind::Scalar { .. })
                )
            }
            BodyOp::Constant(_) | BodyOp::CumSum { .. } => true,
            BodyOp::Extent(e) => leaves_exist(program, group, e),
            BodyOp::Map { function: MapFn::Op(op), args } => args.len() == op.arity(),
            BodyOp::Map { function: MapFn::Call { function, result }, args } => {
                program.kernel.functions.get(function.index()).is_some_and(|f| {
                    args.len() == f.parameters as usize && (*result as usize) < f.results.len()
                })
            }
            BodyOp::Reduce { reducer, sources, output } => {
                let exists = match reducer {
                    Reducer::User { combine, .. } => combine.index() < program.kernel.functions.len(),
                    Reducer::Sum
                    | Reducer::Prod
                    | Reducer::Max
                    | Reducer::Min
                    | Reducer::Any
                    | Reducer::All
                    | Reducer::ArgMax
                    | Reducer::ArgMin => sources.len() == 1,
                    Reducer::Dot => sources.len() == 2 && *output == 0,
                };
                exists && (*output as usize) < sources.len()
            }
        };
        if !known {
            return Err(format!("{id} names what does not exist"));
        }
        if let Some(read) = group.reads(id).iter().find(|r| **r >= id) {
            return Err(format!("{id} reads {read}, which does not come before it"));
        }
        if value.node.is_some_and(|n| n.index() >= program.kernel.nodes.len()) {
            return Err(format!("the node of {id} does not exist"));
        }
    }
    let listed = group.passes.iter().flat_map(|p| [&p.values, &p.reductions, &p.buffered, &p.epilogue]);
    let mut listed = listed.flatten().chain(&group.prologue).chain(group.stores.iter().map(|s| &s.value));
    if let Some(id) = listed.find(|id| id.index() >= group.values.len()) {
        return Err(format!("{id} does not exist"));
    }
    let mut stores = group.passes.iter().flat_map(|p| p.stores.iter().chain(&p.outer_stores));
    if let Some(store) = stores.find(|&&s| s as usize >= group.stores.len()) {
        return Err(format!("store {store} does not exist"));
    }
    for (i, store) in group.stores.iter().enumerate() {
        let exprs_exist = store.indices.iter().all(|(_, e)| leaves_exist(program, group, e));
        if buffer_axes(program, store.buffer).is_none() || !exprs_exist {
            return Err(format!("store {i} names what does not exist"));
        }
    }
    Ok(())
}

fn verify_operand_ids(program: &Program, group: &ScheduledGroup, operand: &Operand) -> Result<(), String> {
    let mut known = true;
    operand.for_each_expr(|e| known &= leaves_exist(program, group, e));
    let extents = match operand {
        Operand::Buffer { map, .. } => map.bounds.iter().map(|b| &b.extent).collect(),
        Operand::Index(_) => Vec::new(),
        Operand::Mask(bounds) => bounds.iter().map(|b| &b.extent).collect(),
        Operand::Check { when, bounds } => when.iter().chain(bounds).map(|b| &b.extent).collect(),
    };
    known &= extents.iter().all(|e| leaves_exist(program, group, e));
    if let Operand::Buffer { buffer, .. } = operand {
        known &= buffer_axes(program, *buffer).is_some();
    }
    if known { Ok(()) } else { Err("it names what does not exist".to_owned()) }
}

fn leaves_exist(program: &Program, group: &ScheduledGroup, e: &IndexExpr) -> bool {
    let mut known = true;
    e.for_each_leaf(&mut |leaf| {
        known &= match leaf {
            IndexExpr::Index(a) => group.outer.contains(a) || group.reduced.contains(a),
            IndexExpr::Extent(a) => a.index() < program.kernel.axes.len(),
            IndexExpr::Param(p) => p.index() < program.kernel.params.len(),
            IndexExpr::Indirect(n) => n.index() < group.values.len(),
            IndexExpr::Const(_)
            | IndexExpr::Add(..)
            | IndexExpr::Sub(..)
            | IndexExpr::Mul(..)
            | IndexExpr::FloorDiv(..)
            | IndexExpr::Mod(..) => true,
        }
    });
    known
}
