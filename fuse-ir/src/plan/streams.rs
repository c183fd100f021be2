//! Contractions of normalised weights that are not streamed: what forbids it, as one decision about all of it.
//!
//! Their parts are merged or not one by one, and why two of them stay apart says little about the whole. So the whole is
//! tried: as if nothing between the scores and the products had to be in memory.

use crate::graph::facts::for_each_op;
use crate::graph::{Kernel, MapFn, Op, Reducer};
use crate::id::{AxisId, NodeId};
use crate::plan::cost::{Price, price_in_ranges, price_of_ranges};
use crate::plan::display::Micros;
use crate::plan::partition::{Partition, Problem};
use crate::plan::{Decision, Plan, Refusal, Rule};
use crate::scalar::ScalarOp;
use crate::schedule::build::{Root, label};
use crate::schedule::{ScheduleKind, ScheduledGroup};
use std::collections::BTreeSet;

/// A decision for each such contraction.
pub(super) fn explain_streams(problem: &Problem<'_>, partition: &Partition) -> Vec<Decision> {
    problem.kernel.node_ids().filter_map(|last| explain_stream(problem, partition, last)).collect()
}

fn explain_stream(problem: &Problem<'_>, partition: &Partition, last: NodeId) -> Option<Decision> {
    let kernel = problem.kernel;
    let Op::Reduce { reducer: Reducer::Dot, axes, .. } = &kernel.node(last).op else { return None };
    let (statistic, between) = find_between(problem, last, axes)?;
    let computes = |slot: &usize, nodes: &BTreeSet<NodeId>| {
        let group = partition.group(*slot);
        group.is_some_and(|g| {
            let loads = &g.lowered.loads;
            let computed = g.lowered.group.values.iter().filter_map(|v| v.node);
            computed.into_iter().any(|n| nodes.contains(&n) && !loads.contains(&n))
        })
    };
    let slots: Vec<usize> = partition.live().map(|(k, _)| k).collect();
    let of_last = BTreeSet::from([last]);
    let is_streamed =
        |k: &usize| partition.group(*k).is_some_and(|g| g.lowered.group.kind == ScheduleKind::Streamed);
    if slots.iter().any(|k| is_streamed(k) && computes(k, &of_last)) {
        return None;
    }
    let mut memory = partition.memory.clone();
    for id in &between {
        memory[id.index()] &= matches!(kernel.node(*id).op, Op::Materialize { .. });
    }
    let mut whole = between.clone();
    whole.insert(last);
    let apart = slots.iter().filter(|k| computes(k, &whole)).filter_map(|k| partition.group(*k));
    let apart = apart.fold(Price::default(), |sum, g| sum + g.lowered.price);
    let scan = between.iter().find(|id| matches!(kernel.node(**id).op, Op::CumSum { .. }));
    let whole_rows = |id: &NodeId| format!("`{}` needs whole rows, in order", label(kernel, *id));
    // Where it shows: the operation that would have to be another.
    let mut at = last;
    let (refusal, reason, remedy, fused) = match problem.lower(&[Root::Temp(last)], &memory, &[]) {
        Ok(lowered) if lowered.group.kind == ScheduleKind::Streamed => {
            let (refusal, reason) = match find_stored(problem, partition, &between, last) {
                Some((node, reason)) => {
                    at = node;
                    (Refusal::NotStreamed, reason)
                }
                None => {
                    let times = (Micros(lowered.price.seconds), Micros(apart.seconds));
                    (
                        Refusal::Slower,
                        format!("one launch is modelled slower: {} instead of {}", times.0, times.1),
                    )
                }
            };
            (refusal, reason, None, lowered.price)
        }
        // Statistics without exponentials are a norm's, before a product of another kind.
        Err(_) if !between.iter().any(|id| has_exponential(kernel, *id)) => {
            at = *scan?;
            (Refusal::NotStreamed, whole_rows(&at), None, apart)
        }
        Err(refused) if refused.refusal == Refusal::NotStreamed => {
            at = refused.node.unwrap_or(last);
            (refused.refusal, refused.because, refused.remedy, apart)
        }
        Ok(_) | Err(_) => {
            at = *scan?;
            (Refusal::NotStreamed, whole_rows(&at), None, apart)
        }
    };
    Some(Decision {
        rule: Rule::Streaming,
        producer: statistic,
        consumer: at,
        refusal: Some(refusal),
        reason,
        remedy,
        bytes: (fused.bytes, apart.bytes),
        seconds: (fused.seconds, apart.seconds),
    })
}

/// What it costs that a contract leaves no launch to put ranges of keys together, for each streamed group of a GPU's plan that
/// would have ranges.
pub(super) fn explain_ranges(problem: &Problem<'_>, plan: &Plan, wanted: u32) -> Vec<Decision> {
    let (kernel, target, sizes) = (problem.kernel, problem.target, problem.sizes);
    if plan.launch_count() < wanted {
        return Vec::new();
    }
    let explain = |group: &ScheduledGroup| {
        let (ranges, apart) = price_of_ranges(kernel, target, sizes, group)?;
        let last = group.stores.iter().find_map(|store| group.value(store.value).node)?;
        let whole = price_in_ranges(kernel, target, sizes, group, 1);
        let times = (Micros(whole.seconds), Micros(apart.seconds));
        Some(Decision {
            rule: Rule::Streaming,
            producer: last,
            consumer: last,
            refusal: None,
            reason: format!(
                "`launches = {wanted}` leaves none to put together {ranges} ranges of keys with blocks of their own: {} \
                 instead of {}",
                times.0, times.1
            ),
            remedy: None,
            bytes: (whole.bytes, apart.bytes),
            seconds: (whole.seconds, apart.seconds),
        })
    };
    plan.groups().filter(|g| g.kind == ScheduleKind::Streamed).filter_map(explain).collect()
}

/// Whether an operation exponentiates, itself or in a function of the user's.
fn has_exponential(kernel: &Kernel, id: NodeId) -> bool {
    let Op::Map { function, .. } = &kernel.node(id).op else { return false };
    let mut found = false;
    let mut look =
        |op| found |= matches!(op, ScalarOp::Exp | ScalarOp::Exp2 | ScalarOp::ExpM1 | ScalarOp::Sigmoid);
    match function {
        MapFn::Op(op) => look(*op),
        MapFn::Call { function, .. } => {
            if let Some(f) = kernel.functions.get(function.index()) {
                for_each_op(kernel, f, 1, &mut |op, _| look(op));
            }
        }
    }
    found
}

/// A statistic of the weights that a contraction over these axes contracts, and what would lie between its scores and it: all
/// that has the axes of weights.
fn find_between(problem: &Problem<'_>, last: NodeId, axes: &[AxisId]) -> Option<(NodeId, BTreeSet<NodeId>)> {
    let kernel = problem.kernel;
    let set = |axes: &[AxisId]| axes.iter().copied().collect::<BTreeSet<AxisId>>();
    let mut seen = BTreeSet::new();
    let mut statistic = None;
    let mut stack = kernel.node(last).op.operands();
    while let Some(id) = stack.pop() {
        if !seen.insert(id) {
            continue;
        }
        match &kernel.node(id).op {
            // What scores are made of is not looked at.
            Op::Reduce { reducer: Reducer::Dot, .. } => {}
            Op::Reduce { axes: of, .. } => {
                if set(of) == set(axes) {
                    statistic = Some(id);
                }
                stack.extend(kernel.node(id).op.operands());
            }
            Op::Map { .. } | Op::View { .. } | Op::CumSum { .. } | Op::Materialize { .. } => {
                stack.extend(kernel.node(id).op.operands());
            }
            Op::Tensor(_) | Op::Scalar(_) | Op::Constant(_) | Op::Index(_) | Op::Extent(_) => {}
        }
    }
    let statistic = statistic?;
    let weights = set(&[kernel.node(statistic).ty.axes.as_slice(), axes].concat());
    let on_rows = |id: &NodeId| {
        let own = set(&kernel.node(*id).ty.axes);
        own == weights || own == set(&kernel.node(statistic).ty.axes)
    };
    Some((statistic, seen.into_iter().filter(on_rows).collect()))
}

/// Why something between has to be in memory, if it has, and at which operation that shows.
fn find_stored(
    problem: &Problem<'_>,
    partition: &Partition,
    between: &BTreeSet<NodeId>,
    last: NodeId,
) -> Option<(NodeId, String)> {
    let kernel = problem.kernel;
    let whole = |id: &&NodeId| {
        let Op::Reduce { axes, .. } = &kernel.node(last).op else { return false };
        axes.iter().all(|a| kernel.node(**id).ty.axes.contains(a))
    };
    between.iter().filter(whole).find_map(|id| {
        let name = label(kernel, *id);
        let other = |u: &&NodeId| !between.contains(u) && **u != last;
        let (at, why) = if problem.is_result(*id) {
            (*id, "is a result as well".to_owned())
        } else {
            let user = problem.facts.users[id.index()].iter().find(other)?;
            if !partition.memory[id.index()] {
                return None;
            }
            (*user, format!("is read by `{}` as well", label(kernel, *user)))
        };
        Some((at, format!("`{name}` {why}, so that all of it has to be in memory")))
    })
}
