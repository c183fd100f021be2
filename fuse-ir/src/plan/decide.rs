//! Why the plan is as it is: one decision for every dataflow edge, sibling pair and store over a parameter.
//!
//! Decisions are made of the final partition: an edge inside a group is a merge that was taken, an edge between groups
//! one that is refused, and the reason is found by trying it. So the text is about the plan that is launched, not about
//! the path on which the search found it.

use crate::graph::{Op, OutputTarget, Reducer};
use crate::id::NodeId;
use crate::plan::cost::Price;
use crate::plan::display::{Bytes, Micros};
use crate::plan::greedy::buffers_read;
use crate::plan::partition::{Partition, Problem, RETURN_A_TENSOR};
use crate::plan::rows::explain_schedule;
use crate::plan::streams::explain_streams;
use crate::plan::trial::{Launches, Trial, cut_trial, try_merge, try_recompute};
use crate::plan::windows::explain_windows;
use crate::plan::{Decision, Refusal, Rule};
use crate::schedule::build::Root;
use crate::schedule::{BufferRef, ScheduledGroup};
use std::collections::{BTreeMap, BTreeSet};

/// Every decision about edges, siblings and stores over parameters.
pub(super) fn explain_partition(
    problem: &Problem<'_>,
    partition: &Partition,
    launches: Launches<'_>,
) -> Vec<Decision> {
    let kernel = problem.kernel;
    // The groups that compute each node, and the one that leaves it in memory.
    let mut computed: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); kernel.nodes.len()];
    let mut holders: BTreeMap<NodeId, usize> = BTreeMap::new();
    for (k, group) in partition.live() {
        let loads: BTreeSet<NodeId> = group.lowered.loads.iter().copied().collect();
        for value in &group.lowered.group.values {
            if let Some(node) = value.node
                && !loads.contains(&node)
            {
                computed[node.index()].insert(k);
            }
        }
        for root in &group.roots {
            let node = root.node(kernel);
            // The value of a cut is that of its source; no value of the body names it.
            computed[node.index()].insert(k);
            if problem.holds(*root, node) {
                holders.insert(node, k);
            }
        }
    }
    let stored: BTreeSet<NodeId> =
        partition.live().flat_map(|(_, g)| g.roots.iter().map(|r| r.node(kernel))).collect();
    let dependent = find_dependent(problem);
    let mut decisions = explain_streams(problem, partition);
    decisions.extend(explain_windows(problem, partition));
    let mut trials: BTreeMap<(usize, usize), Trial> = BTreeMap::new();
    let mut again: BTreeMap<NodeId, Option<Trial>> = BTreeMap::new();
    for consumer in kernel.node_ids() {
        // A view is part of its readers, unless it is what is stored.
        let inlined = matches!(kernel.node(consumer).op, Op::View { .. }) && !stored.contains(&consumer);
        if problem.is_leaf(consumer) || inlined {
            continue;
        }
        for producer in list_producers(problem, consumer, &stored, &dependent) {
            let groups = &computed[consumer.index()];
            let inside = !groups.is_empty() && groups.is_subset(&computed[producer.index()]);
            let cut = matches!(kernel.node(producer).op, Op::Materialize { .. });
            if inside && !cut {
                decisions.push(explain_taken(problem, partition, producer, consumer, &computed));
                continue;
            }
            let apart = groups.iter().find(|g| cut || !computed[producer.index()].contains(g));
            let (Some(&reader), Some(&holder)) = (apart, holders.get(&producer)) else { continue };
            if reader == holder && !cut {
                continue;
            }
            let rule = rule_of(problem, producer, consumer);
            let trial = match cut {
                true => cut_trial(partition, holder, reader),
                false => trials
                    .entry((holder, reader))
                    .or_insert_with(|| try_merge(problem, partition, (holder, reader), launches))
                    .clone(),
            };
            let trial = match trial.refusal {
                // Where the loops do not agree the value may still be computed again by its readers.
                Refusal::DifferentAxes | Refusal::Cycle => again
                    .entry(producer)
                    .or_insert_with(|| {
                        try_recompute(problem, partition, (producer, holder), &trial, launches)
                    })
                    .clone()
                    .unwrap_or(trial),
                _ => trial,
            };
            decisions.push(refused(rule, producer, consumer, &trial));
        }
    }
    explain_siblings(problem, partition, launches, &mut decisions);
    explain_stores(problem, partition, launches, &mut decisions);
    decisions
}

fn refused(rule: Rule, producer: NodeId, consumer: NodeId, trial: &Trial) -> Decision {
    Decision {
        rule,
        producer,
        consumer,
        refusal: Some(trial.refusal),
        reason: trial.reason.clone(),
        remedy: trial.remedy.clone(),
        bytes: (trial.fused.bytes, trial.apart.bytes),
        seconds: (trial.fused.seconds, trial.apart.seconds),
    }
}

/// The operations that a node reads, through views that are not stored themselves; leaves and functions of scalars alone are none.
fn list_producers(
    problem: &Problem<'_>,
    consumer: NodeId,
    stored: &BTreeSet<NodeId>,
    dependent: &[bool],
) -> Vec<NodeId> {
    let kernel = problem.kernel;
    let mut found = Vec::new();
    let mut stack: Vec<NodeId> = kernel.node(consumer).op.operands();
    stack.reverse();
    while let Some(id) = stack.pop() {
        let node = kernel.node(id);
        match &node.op {
            Op::View { .. } if stored.contains(&id) => {
                if !found.contains(&id) {
                    found.push(id);
                }
            }
            Op::View { .. } => stack.extend(node.op.operands()),
            Op::Map { .. } if node.ty.axes.is_empty() && !dependent[id.index()] => {}
            Op::Map { .. } | Op::Reduce { .. } | Op::CumSum { .. } | Op::Materialize { .. } => {
                if !found.contains(&id) {
                    found.push(id);
                }
            }
            Op::Tensor(_) | Op::Scalar(_) | Op::Constant(_) | Op::Index(_) | Op::Extent(_) => {}
        }
    }
    found
}

/// For each node whether it depends on an element of a tensor, not on scalars and positions alone.
fn find_dependent(problem: &Problem<'_>) -> Vec<bool> {
    let mut dependent: Vec<bool> = Vec::with_capacity(problem.kernel.nodes.len());
    for node in &problem.kernel.nodes {
        dependent.push(match &node.op {
            Op::Tensor(_) | Op::Reduce { .. } | Op::CumSum { .. } => true,
            Op::Scalar(_) | Op::Constant(_) | Op::Index(_) | Op::Extent(_) => false,
            Op::Map { .. } | Op::View { .. } | Op::Materialize { .. } => {
                node.op.operands().iter().any(|o| dependent[o.index()])
            }
        });
    }
    dependent
}

fn rule_of(problem: &Problem<'_>, producer: NodeId, consumer: NodeId) -> Rule {
    let reduces = |id: NodeId| match &problem.kernel.node(id).op {
        Op::Reduce { .. } | Op::CumSum { .. } => true,
        Op::Map { .. } | Op::View { .. } | Op::Materialize { .. } => false,
        Op::Tensor(_) | Op::Scalar(_) | Op::Constant(_) | Op::Index(_) | Op::Extent(_) => false,
    };
    let contracts =
        |id: NodeId| matches!(&problem.kernel.node(id).op, Op::Reduce { reducer: Reducer::Dot, .. });
    match (reduces(producer), reduces(consumer)) {
        _ if contracts(producer) => Rule::ContractionEpilogue,
        _ if contracts(consumer) => Rule::ContractionPrologue,
        (true, _) => Rule::ReductionEpilogue,
        (false, true) => Rule::ReductionPrologue,
        (false, false) => Rule::Vertical,
    }
}

/// Bytes of a value in memory, under the assumed extents.
fn value_bytes(problem: &Problem<'_>, id: NodeId) -> u64 {
    let ty = &problem.kernel.node(id).ty;
    problem.sizes.product(&ty.axes).saturating_mul(ty.dtype.size() as u64)
}

fn explain_taken(
    problem: &Problem<'_>,
    partition: &Partition,
    producer: NodeId,
    consumer: NodeId,
    computed: &[BTreeSet<usize>],
) -> Decision {
    let groups = &computed[producer.index()];
    let price = |k: &usize| partition.group(*k).map_or(Price::default(), |g| g.lowered.price);
    let fused = groups.iter().map(price).fold(Price::default(), |a, b| a + b);
    let bytes = value_bytes(problem, producer);
    let stays = partition.memory[producer.index()] || is_output(problem, producer);
    // Apart, the value would be stored once and loaded by each group that now computes it.
    let writes = if stays { 0 } else { bytes };
    let moved = writes.saturating_add(bytes.saturating_mul(groups.len() as u64));
    let seconds = moved as f64 / problem.target.bandwidth + problem.target.launch;
    let again = groups.len() > 1 && !stays;
    let (rule, reason) = match again {
        true => {
            let reason = format!(
                "computed again in {} loops: cheaper than {} over memory",
                groups.len(),
                Bytes(moved)
            );
            (Rule::Recomputation, reason)
        }
        false => {
            let saves = format!("saves {} over memory and a launch, {}", Bytes(moved), Micros(seconds));
            let streams =
                |k: &usize| partition.group(*k).is_some_and(|g| lies_between(&g.lowered.group, producer));
            match groups.iter().any(streams) {
                true => (Rule::Streaming, format!("used up tile by tile: {saves}")),
                false => (rule_of(problem, producer, consumer), saves),
            }
        }
    };
    let place = groups.iter().find_map(|k| explain_schedule(problem, partition, *k, (producer, consumer)));
    let reason = match place {
        Some(place) => format!("{reason}; {place}"),
        None => reason,
    };
    Decision {
        rule,
        producer,
        consumer,
        refusal: None,
        reason,
        remedy: None,
        bytes: (fused.bytes, fused.bytes.saturating_add(moved)),
        seconds: (fused.seconds, fused.seconds + seconds),
    }
}

/// Whether one link of a group makes a value that another reads.
fn lies_between(group: &ScheduledGroup, node: NodeId) -> bool {
    group.links.iter().any(|l| l.stores.iter().any(|s| l.value(s.value).node == Some(node)))
        && !group.stores.iter().any(|s| group.value(s.value).node == Some(node))
}

fn is_output(problem: &Problem<'_>, id: NodeId) -> bool {
    problem.kernel.outputs.iter().any(|o| o.value == id)
}

/// Roots of one group that do not depend on one another, and groups that read one buffer but stay apart.
fn explain_siblings(
    problem: &Problem<'_>,
    partition: &Partition,
    launches: Launches<'_>,
    decisions: &mut Vec<Decision>,
) {
    let kernel = problem.kernel;
    let mut readers: BTreeMap<BufferRef, Vec<usize>> = BTreeMap::new();
    for (k, group) in partition.live() {
        let buffers: BTreeSet<BufferRef> = buffers_read(group).collect();
        let roots: Vec<NodeId> = group.roots.iter().map(|r| r.node(kernel)).collect();
        for pair in roots.windows(2) {
            if pair[0] == pair[1] || depends(problem, pair[0], pair[1]) || depends(problem, pair[1], pair[0])
            {
                continue;
            }
            let price = group.lowered.price;
            let shared: u64 = buffers.iter().map(|b| buffer_bytes(problem, *b)).max().unwrap_or(0);
            let seconds = shared as f64 / problem.target.bandwidth + problem.target.launch;
            decisions.push(Decision {
                rule: Rule::Siblings,
                producer: pair[0],
                consumer: pair[1],
                refusal: None,
                reason: format!("read one input in one loop: saves up to {} and a launch", Bytes(shared)),
                remedy: None,
                bytes: (price.bytes, price.bytes.saturating_add(shared)),
                seconds: (price.seconds, price.seconds + seconds),
            });
        }
        for buffer in buffers {
            readers.entry(buffer).or_default().push(k);
        }
    }
    let before = partition.dependencies(problem);
    let mut seen = BTreeSet::new();
    for list in readers.values() {
        for pair in list.windows(2) {
            let (a, b) = (pair[0], pair[1]);
            if !seen.insert((a, b)) || before[a].contains(&b) || before[b].contains(&a) {
                continue;
            }
            let node = |k: usize| {
                let first = partition.group(k).and_then(|g| g.roots.first());
                first.map(|r| r.node(kernel))
            };
            if let (Some(first), Some(second)) = (node(a), node(b)) {
                let trial = try_merge(problem, partition, (a, b), launches);
                decisions.push(refused(Rule::Siblings, first, second, &trial));
            }
        }
    }
}

fn buffer_bytes(problem: &Problem<'_>, buffer: BufferRef) -> u64 {
    let kernel = problem.kernel;
    let (axes, dtype) = match buffer {
        BufferRef::Param(p) => match &kernel.param(p).kind {
            crate::graph::ParamKind::Tensor { axes, dtype, .. } => (axes.clone(), *dtype),
            crate::graph::ParamKind::Scalar { .. } | crate::graph::ParamKind::Axis { .. } => return 0,
        },
        BufferRef::Temp(t) => {
            let ty = &kernel.node(NodeId(t.0)).ty;
            (ty.axes.clone(), ty.dtype)
        }
        BufferRef::Result(k) => {
            let value = kernel.outputs.iter().find_map(|o| match o.target {
                OutputTarget::Result { index, .. } if index == k => Some(o.value),
                OutputTarget::Result { .. } | OutputTarget::Param { .. } => None,
            });
            let Some(value) = value else { return 0 };
            let ty = &kernel.node(value).ty;
            (ty.axes.clone(), ty.dtype)
        }
    };
    problem.sizes.product(&axes).saturating_mul(dtype.size() as u64)
}

/// Whether `node` depends on `on`; takes time linear in the nodes between them.
fn depends(problem: &Problem<'_>, on: NodeId, node: NodeId) -> bool {
    if node <= on {
        return node == on;
    }
    let mut seen = vec![false; node.index() - on.index()];
    let mut stack = vec![node];
    while let Some(id) = stack.pop() {
        if id == on {
            return true;
        }
        if id > on && !std::mem::replace(&mut seen[id.index() - on.index() - 1], true) {
            stack.extend(problem.kernel.node(id).op.operands());
        }
    }
    false
}

/// Stores over parameters: in place, or by a copy because something reads the old value elsewhere.
fn explain_stores(
    problem: &Problem<'_>,
    partition: &Partition,
    launches: Launches<'_>,
    decisions: &mut Vec<Decision>,
) {
    let kernel = problem.kernel;
    for (k, output) in kernel.outputs.iter().enumerate() {
        let OutputTarget::Param { param, .. } = output.target else { continue };
        let name = &kernel.param(param).name;
        let root = Root::Output(k as u32);
        let Some((slot, group)) = partition.live().find(|(_, g)| g.roots.contains(&root)) else { continue };
        let price = group.lowered.price;
        let copies = group.roots.len() == 1 && group.lowered.loads == [output.value];
        for (k, reader) in
            partition.live().filter(|(k, g)| !copies && *k != slot && g.lowered.reads.contains(&param))
        {
            if partition.are_apart(problem, k, slot, param) {
                continue;
            }
            let Some(first) = reader.roots.first() else { continue };
            let trial = try_merge(problem, partition, (k, slot), launches);
            decisions.push(Decision {
                reason: format!("`{name}` is overwritten by a later launch: {}", trial.reason),
                ..refused(Rule::Siblings, first.node(kernel), output.value, &trial)
            });
        }
        let bytes = value_bytes(problem, output.value);
        let mut decision = Decision {
            rule: Rule::InPlace,
            producer: output.value,
            consumer: output.value,
            refusal: None,
            reason: format!("`{name}` is read where it is written, if at all: no copy"),
            remedy: None,
            bytes: (price.bytes, price.bytes.saturating_add(bytes.saturating_mul(2))),
            seconds: (price.seconds, price.seconds + 2.0 * bytes as f64 / problem.target.bandwidth),
        };
        if copies {
            let holder = partition
                .live()
                .find(|(_, g)| g.roots.iter().any(|r| problem.holds(*r, output.value)))
                .map(|(k, _)| k);
            let trial = holder.map(|h| try_merge(problem, partition, (h, slot), launches));
            let because = trial.as_ref().map(|t| t.reason.clone()).unwrap_or_default();
            decision.refusal = Some(match trial.map(|t| t.refusal) {
                Some(Refusal::Slower) => Refusal::Slower,
                _ => Refusal::InPlaceHazard,
            });
            decision.reason = format!("the new `{name}` is copied: {because}");
            decision.remedy = Some(RETURN_A_TENSOR.to_owned());
        }
        decisions.push(decision);
    }
}
