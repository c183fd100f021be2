//! From a partition to a plan: order, names of groups and temps, and traffic as a function of the extents.

use crate::graph::Kernel;
use crate::id::{AxisId, GroupId, TempId};
use crate::index_map::polynomial::{ExtentFacts, Polynomial};
use crate::index_map::{Extent, IndexExpr, IndexMap};
use crate::plan::cost::{buffers_between, map_operations, price_group};
use crate::plan::decide::explain_partition;
use crate::plan::horizontal::join_launches;
use crate::plan::partition::{Partition, Problem};
use crate::plan::trial::Launches;
use crate::plan::{Launch, Plan, Refusal, Temp};
use crate::schedule::contraction::collect_axes;
use crate::schedule::streamed::node_of_temp;
use crate::schedule::{BodyOp, BufferRef, Level, Operand, ScheduleKind, ScheduledGroup};
use std::collections::{BTreeMap, BTreeSet};

/// The groups of a partition in the given order of slots, with final names, and the temps between them.
fn name_groups(partition: &Partition, order: &[usize]) -> Option<(Vec<ScheduledGroup>, Vec<Temp>)> {
    let mut temps: Vec<Temp> = Vec::new();
    let mut names: BTreeMap<TempId, TempId> = BTreeMap::new();
    let mut groups = Vec::with_capacity(order.len());
    for (k, slot) in order.iter().enumerate() {
        let mut group = partition.group(*slot)?.lowered.group.clone();
        let own: BTreeSet<BufferRef> = group.stores.iter().map(|s| s.buffer).collect();
        group.id = GroupId::from_index(k);
        let id = group.id;
        for each in group.loops_mut() {
            each.id = id;
            for operand in &mut each.operands {
                rename_temp(operand, &names);
            }
            for store in &mut each.stores {
                if let BufferRef::Temp(node) = store.buffer {
                    let axes = store.indices.iter().map(|(a, _)| *a).collect();
                    let temp = TempId::from_index(temps.len());
                    let streamed = !own.contains(&store.buffer);
                    temps.push(Temp { dtype: store.dtype, axes, node: node_of_temp(node), streamed });
                    names.insert(node, temp);
                    store.buffer = BufferRef::Temp(temp);
                }
            }
        }
        if group.kind == ScheduleKind::Streamed {
            group.operands.iter_mut().for_each(|operand| rename_temp(operand, &names));
            for store in &mut group.stores {
                if let BufferRef::Temp(node) = &mut store.buffer
                    && let Some(name) = names.get(node)
                {
                    *node = *name;
                }
            }
        }
        groups.push(group);
    }
    Some((groups, temps))
}

/// Gives a buffer that an earlier loop stores its final name.
fn rename_temp(operand: &mut Operand, names: &BTreeMap<TempId, TempId>) {
    if let Operand::Buffer { buffer: BufferRef::Temp(temp), .. } = operand
        && let Some(name) = names.get(temp)
    {
        *temp = *name;
    }
}

/// Counts of something at every position of some axes: sums of products of extents, before they are an expression.
#[derive(Default)]
struct Counts {
    by_axes: BTreeMap<Vec<AxisId>, i64>,
}

impl Counts {
    fn add(&mut self, axes: impl IntoIterator<Item = AxisId>, count: i64) {
        let mut axes: Vec<AxisId> = axes.into_iter().collect();
        axes.sort();
        *self.by_axes.entry(axes).or_default() += count;
    }

    fn to_extent(&self, extents: &ExtentFacts) -> Extent {
        let mut sum = Polynomial::default();
        for (axes, count) in &self.by_axes {
            let positions = axes.iter().fold(Polynomial::constant(1), |p, a| p.times(&extents.extent(*a)));
            sum = sum.plus(&positions, *count);
        }
        sum.to_expr()
    }
}

/// The axes over which a value of that level is computed.
fn level_axes(group: &ScheduledGroup, level: Level) -> Vec<AxisId> {
    match level {
        Level::Uniform => Vec::new(),
        Level::Outer => group.outer.clone(),
        Level::Inner => group.outer.iter().chain(&group.reduced).copied().collect(),
    }
}

/// A part of a buffer that a load reads: over which axes, and at which positions of the others. Parts at different
/// positions (the planes of a picture) are different bytes.
#[derive(Clone, PartialEq)]
struct Part {
    axes: Vec<AxisId>,
    fixed: Vec<(AxisId, IndexExpr)>,
}

/// Whether an index is the same at every position.
fn is_fixed(index: &IndexExpr) -> bool {
    let mut fixed = true;
    index.for_each_leaf(&mut |leaf| fixed &= !matches!(leaf, IndexExpr::Index(_) | IndexExpr::Indirect(_)));
    fixed
}

/// Bytes that groups read and write over memory.
fn sum_bytes(problem: &Problem<'_>, groups: &[ScheduledGroup]) -> Extent {
    let mut sum = Counts::default();
    for group in groups {
        let mut buffers: BTreeMap<BufferRef, (i64, Vec<Part>)> = BTreeMap::new();
        let between = buffers_between(group);
        for operand in group.loops().iter().flat_map(|l| &l.operands) {
            let Operand::Buffer { buffer, dtype, map } = operand else { continue };
            if between.contains(buffer) {
                continue;
            }
            let mut whole: Vec<AxisId> = map.indices.iter().map(|(a, _)| *a).collect();
            whole.sort();
            let mut axes = read_axes(map).unwrap_or_else(|| whole.clone());
            axes.sort();
            let fixed = map.indices.iter().filter(|(_, e)| is_fixed(e)).cloned().collect();
            let part = Part { axes, fixed };
            let (_, parts) = buffers.entry(*buffer).or_insert((dtype.size() as i64, Vec::new()));
            // The whole of a buffer is read once, however many loads there are.
            if part.axes == whole {
                *parts = vec![part];
            } else if !parts.iter().any(|p| *p == part || p.axes == whole) {
                parts.push(part);
            }
        }
        for (size, parts) in buffers.into_values() {
            parts.into_iter().for_each(|part| sum.add(part.axes, size));
        }
        for each in group.loops() {
            for store in each.stores.iter().filter(|s| !between.contains(&s.buffer)) {
                sum.add(level_axes(each, each.value(store.value).level), store.dtype.size() as i64);
            }
        }
    }
    sum.to_extent(&problem.facts.extents)
}

/// Scalar operations of groups; casts are none, each step of a reduction is one.
fn sum_operations(problem: &Problem<'_>, groups: &[ScheduledGroup]) -> Extent {
    let kernel = problem.kernel;
    let mut sum = Counts::default();
    for group in groups.iter().flat_map(ScheduledGroup::loops) {
        let mut counts: BTreeMap<Level, i64> = BTreeMap::new();
        let contraction = matches!(group.kind, ScheduleKind::Contraction | ScheduleKind::Depthwise);
        let depends = collect_axes(&group.operands, &group.values, &group.reduced);
        let sweeps = group.passes.iter().flat_map(|p| p.values.iter().chain(&p.epilogue));
        for v in group.prologue.iter().chain(sweeps) {
            let value = group.value(*v);
            let operations = match &value.op {
                BodyOp::Map { function, .. } => map_operations(kernel, *function) as i64,
                BodyOp::CumSum { .. } => 1,
                BodyOp::Load(_) | BodyOp::Param(_) | BodyOp::Constant(_) => 0,
                BodyOp::Extent(_) | BodyOp::Reduce { .. } => 0,
            };
            // What a contraction reads is computed for its own axes, not for each product.
            if contraction && value.level == Level::Inner {
                sum.add(depends[v.index()].iter().copied(), operations);
            } else {
                *counts.entry(value.level).or_default() += operations;
            }
        }
        let steps: usize = group.passes.iter().map(|p| p.reductions.len()).sum();
        // A multiplication and an addition for each product.
        *counts.entry(Level::Inner).or_default() += if contraction { 2 * steps } else { steps } as i64;
        for (level, count) in counts {
            sum.add(level_axes(group, level), count);
        }
    }
    sum.to_extent(&problem.facts.extents)
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

/// What is done beyond naming groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Detail {
    /// Every group is a launch, nothing is explained.
    Bare,
    /// Small independent groups share a launch where it pays; every decision is explained.
    Joined,
    /// The same, but groups share a launch wherever it is legal.
    Forced,
}

/// The plan of a partition; `None` if its groups depend on one another in a circle.
pub(super) fn finish_plan(
    problem: &Problem<'_>,
    partition: &Partition,
    unfused: &Partition,
    detail: Detail,
) -> Option<Plan> {
    let kernel: &Kernel = problem.kernel;
    let (mut launches, mut decisions) = (Vec::new(), Vec::new());
    if detail != Detail::Bare {
        let order = partition.launch_order(problem)?;
        let forced = detail == Detail::Forced;
        let joined = join_launches(problem, partition, &order, forced);
        launches = joined.0;
        let each = |parts: &Vec<usize>| {
            let groups = parts.iter().filter_map(|slot| partition.group(*slot));
            groups.map(|g| g.lowered.group.launches()).max().unwrap_or(0)
        };
        let count = launches.iter().map(each).sum();
        let offer = Launches { slots: &launches, count, bound: forced };
        decisions = explain_partition(problem, partition, offer);
        for (slot, mut decision) in joined.1 {
            if decision.refusal == Some(Refusal::Slower) {
                decision.remedy = offer.do_without(slot);
            }
            decisions.push(decision);
        }
    }
    let order = match launches.is_empty() {
        true => partition.launch_order(problem)?,
        false => launches.concat(),
    };
    let (groups, temps) = name_groups(partition, &order)?;
    let (separate, _) = name_groups(unfused, &unfused.launch_order(problem)?)?;
    let launches_unfused = separate.iter().map(ScheduledGroup::launches).sum();
    let (bytes, flops, in_place) =
        (sum_bytes(problem, &groups), sum_operations(problem, &groups), list_in_place(&groups));
    let mut left = groups.into_iter();
    let launches: Vec<Launch> = match launches.is_empty() {
        true => left.map(|g| Launch { parts: vec![g] }).collect(),
        false => launches.iter().map(|l| Launch { parts: left.by_ref().take(l.len()).collect() }).collect(),
    };
    Some(Plan {
        kernel: kernel.name.clone(),
        target: problem.target.name.clone(),
        assumed: problem.sizes.all(),
        bytes,
        bytes_unfused: sum_bytes(problem, &separate),
        launches_unfused,
        flops,
        in_place,
        launches,
        temps,
        decisions,
        over_best: None,
    })
}

/// Modelled seconds of a plan: the work of all groups and the start of every launch.
pub(super) fn plan_seconds(problem: &Problem<'_>, plan: &Plan) -> f64 {
    let start = problem.target.launch;
    let work = plan.groups().map(|g| {
        let price = price_group(problem.kernel, problem.target, problem.sizes, g);
        price.seconds - f64::from(g.launches()) * start
    });
    work.sum::<f64>() + f64::from(plan.launch_count()) * start
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
