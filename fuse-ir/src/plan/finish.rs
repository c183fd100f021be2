//! From a partition to a plan: order, names of groups and temps, and traffic as a function of the extents.

use crate::graph::Kernel;
use crate::id::{AxisId, GroupId, TempId};
use crate::index_map::polynomial::{ExtentFacts, Polynomial};
use crate::index_map::{Extent, IndexExpr, IndexMap};
use crate::plan::cost::map_operations;
use crate::plan::partition::{Partition, Problem};
use crate::plan::{Launch, Plan, Temp};
use crate::schedule::{BodyOp, BufferRef, Level, Operand, ScheduledGroup};
use std::collections::BTreeMap;

/// The groups of a partition in an order in which they can be launched, with final names.
pub(super) fn name_groups(
    problem: &Problem<'_>,
    partition: &Partition,
) -> Option<(Vec<ScheduledGroup>, Vec<usize>, Vec<Temp>)> {
    let order = partition.launch_order(problem)?;
    let mut temps: Vec<Temp> = Vec::new();
    let mut names: BTreeMap<TempId, TempId> = BTreeMap::new();
    let mut groups = Vec::with_capacity(order.len());
    for (k, slot) in order.iter().enumerate() {
        let mut group = partition.group(*slot)?.lowered.group.clone();
        group.id = GroupId::from_index(k);
        for store in &mut group.stores {
            if let BufferRef::Temp(node) = store.buffer {
                let axes = store.indices.iter().map(|(a, _)| *a).collect();
                let temp = TempId::from_index(temps.len());
                temps.push(Temp { dtype: store.dtype, axes, node: crate::id::NodeId(node.0) });
                names.insert(node, temp);
                store.buffer = BufferRef::Temp(temp);
            }
        }
        for operand in &mut group.operands {
            if let Operand::Buffer { buffer: BufferRef::Temp(temp), .. } = operand
                && let Some(name) = names.get(temp)
            {
                *temp = *name;
            }
        }
        groups.push(group);
    }
    Some((groups, order, temps))
}

/// Bytes that groups read and write over memory.
pub(super) fn sum_bytes(problem: &Problem<'_>, groups: &[ScheduledGroup]) -> Extent {
    let extents = &problem.facts.extents;
    let mut sum = Polynomial::default();
    for group in groups {
        let mut buffers: BTreeMap<BufferRef, Vec<Polynomial>> = BTreeMap::new();
        for operand in &group.operands {
            let Operand::Buffer { buffer, dtype, map } = operand else { continue };
            let size = Polynomial::constant(dtype.size() as i64);
            let whole = product(extents, map.indices.iter().map(|(a, _)| *a)).times(&size);
            let part = read_axes(map).map(|axes| product(extents, axes).times(&size));
            let part = part.unwrap_or_else(|| whole.clone());
            let parts = buffers.entry(*buffer).or_default();
            // The whole of a buffer is read once, however many loads there are.
            if part == whole {
                *parts = vec![whole];
            } else if *parts != [whole] && !parts.contains(&part) {
                parts.push(part);
            }
        }
        for part in buffers.values().flatten() {
            sum = sum.plus(part, 1);
        }
        for store in &group.stores {
            let count = positions(extents, group, group.value(store.value).level);
            sum = sum.plus(&count, store.dtype.size() as i64);
        }
    }
    sum.to_expr()
}

/// Scalar operations of groups; casts are none, each step of a reduction is one.
pub(super) fn sum_operations(problem: &Problem<'_>, groups: &[ScheduledGroup]) -> Extent {
    let kernel = problem.kernel;
    let mut sum = Polynomial::default();
    for group in groups {
        let at = |level| positions(&problem.facts.extents, group, level);
        let mut counts: BTreeMap<Level, i64> = BTreeMap::new();
        let sweeps = group.passes.iter().flat_map(|p| p.values.iter().chain(&p.epilogue));
        for v in group.prologue.iter().chain(sweeps) {
            let value = group.value(*v);
            let operations = match &value.op {
                BodyOp::Map { function, .. } => map_operations(kernel, *function) as i64,
                BodyOp::CumSum { .. } => 1,
                BodyOp::Load(_) | BodyOp::Param(_) | BodyOp::Constant(_) => 0,
                BodyOp::Extent(_) | BodyOp::Reduce { .. } => 0,
            };
            *counts.entry(value.level).or_default() += operations;
        }
        let steps: usize = group.passes.iter().map(|p| p.reductions.len()).sum();
        *counts.entry(Level::Inner).or_default() += steps as i64;
        for (level, count) in counts {
            sum = sum.plus(&at(level), count);
        }
    }
    sum.to_expr()
}

fn product(extents: &ExtentFacts, axes: impl IntoIterator<Item = AxisId>) -> Polynomial {
    axes.into_iter().fold(Polynomial::constant(1), |p, a| p.times(&extents.extent(a)))
}

fn positions(extents: &ExtentFacts, group: &ScheduledGroup, level: Level) -> Polynomial {
    match level {
        Level::Uniform => Polynomial::constant(1),
        Level::Outer => product(extents, group.outer.iter().copied()),
        Level::Inner => product(extents, group.outer.iter().chain(&group.reduced).copied()),
    }
}

/// The domain axes whose positions a load distinguishes, if each index reads one of its own; `None` if loads of several
/// positions may coincide (windows) or cannot be known (gathers).
fn read_axes(map: &IndexMap) -> Option<Vec<AxisId>> {
    let mut axes: Vec<AxisId> = Vec::new();
    for (_, expr) in &map.indices {
        let mut own: Vec<AxisId> = Vec::new();
        let mut known = true;
        expr.for_each_leaf(&mut |leaf| match leaf {
            IndexExpr::Index(a) => own.push(*a),
            IndexExpr::Indirect(_) => known = false,
            _ => {}
        });
        if !known || own.len() > 1 || own.iter().any(|a| axes.contains(a)) {
            return None;
        }
        axes.extend(own);
    }
    Some(axes)
}

/// A plan without decisions.
pub(super) fn finish_plan(problem: &Problem<'_>, partition: &Partition, unfused: &Partition) -> Option<Plan> {
    let kernel: &Kernel = problem.kernel;
    let (groups, _, temps) = name_groups(problem, partition)?;
    let (separate, _, _) = name_groups(problem, unfused)?;
    let launches_unfused = separate.iter().map(ScheduledGroup::launches).sum();
    Some(Plan {
        kernel: kernel.name.clone(),
        target: problem.target.name.clone(),
        assumed: problem.sizes.all(),
        bytes: sum_bytes(problem, &groups),
        bytes_unfused: sum_bytes(problem, &separate),
        launches_unfused,
        flops: sum_operations(problem, &groups),
        in_place: list_in_place(&groups),
        launches: groups.into_iter().map(|g| Launch { parts: vec![g] }).collect(),
        temps,
        decisions: Vec::new(),
        over_best: None,
    })
}

/// Parameters that a group overwrites at the positions at which it reads them.
fn list_in_place(groups: &[ScheduledGroup]) -> Vec<(GroupId, BufferRef, BufferRef)> {
    let mut list = Vec::new();
    for group in groups {
        for store in &group.stores {
            let reads = group.operands.iter().any(|o| match o {
                Operand::Buffer { buffer, .. } => *buffer == store.buffer,
                Operand::Index(_) | Operand::Mask(_) | Operand::Check { .. } => false,
            });
            if reads && matches!(store.buffer, BufferRef::Param(_)) {
                list.push((group.id, store.buffer, store.buffer));
            }
        }
    }
    list
}
