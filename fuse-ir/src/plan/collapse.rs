//! The first partition: maps join the loop of their only reader, in time linear in the graph.
//!
//! Nodes are visited from the last to the first. A map whose users all lie in one cluster, over the same axes, joins it:
//! that is always legal, computes nothing twice and saves a store and a load. What stops a cluster is a second reader,
//! a change of axes, a reduction (which may have producers, but is a root itself), `materialize()`, and the limits of a
//! launch.

use crate::graph::{MapFn, Op};
use crate::id::NodeId;
use crate::plan::cost::map_operations;
use crate::plan::partition::{Group, Partition, Problem};
use crate::schedule::build::{Refused, Root};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// How the first partition is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Start {
    /// Maps join the loops of their only readers.
    Collapsed,
    /// Every operation is a group of its own. Views, widening casts and scalars are not operations.
    Unfused,
}

/// What a cluster has used of the limits of a launch.
#[derive(Default)]
struct Cluster {
    code: u32,
    /// Values that the nodes so far read and that are not yet computed.
    live: BTreeSet<NodeId>,
    tensors: BTreeSet<NodeId>,
}

/// The first partition of a kernel.
///
/// # Errors
/// If a single operation is no group, which no verified graph gives.
pub(super) fn start_partition(problem: &Problem<'_>, start: Start) -> Result<Partition, Refused> {
    let kernel = problem.kernel;
    let anchors = find_anchors(problem, start);
    let mut memory = vec![false; kernel.nodes.len()];
    for id in kernel.node_ids() {
        memory[id.index()] = anchors[id.index()] && !problem.facts.users[id.index()].is_empty();
    }
    let mut roots: Vec<Vec<Root>> = Vec::new();
    let mut outputs: BTreeMap<NodeId, Vec<Root>> = BTreeMap::new();
    for root in (0..kernel.outputs.len() as u32).map(Root::Output) {
        outputs.entry(root.node(kernel)).or_default().push(root);
    }
    for id in kernel.node_ids() {
        let mut own = outputs.remove(&id).unwrap_or_default();
        if memory[id.index()] && !problem.is_result(id) {
            own.push(Root::Temp(id));
        }
        if !own.is_empty() {
            roots.push(own);
        }
    }
    let mut partition = Partition { memory, groups: Vec::new(), pinned: Rc::default() };
    for own in roots {
        match problem.lower(&own, &partition.memory, &[]) {
            Ok(lowered) => {
                partition.groups.push(Some(Group { roots: own, lowered: Rc::new(lowered) }));
            }
            Err(refused) if own.len() == 1 && !matches!(own[0], Root::Output(_)) => return Err(refused),
            Err(_) => split_stores(problem, &mut partition, &own)?,
        }
    }
    // A store over a parameter that others still read after the value is known waits in a launch of its own.
    for _ in 0..kernel.outputs.len() {
        if partition.launch_order(problem).is_some() {
            break;
        }
        let is_copy = |group: &Group| {
            let node = group.roots[0].node(kernel);
            group.roots.len() == 1 && group.lowered.loads == [node]
        };
        let writers = partition.live().filter(|(_, g)| !g.lowered.writes.is_empty() && !is_copy(g));
        // Where the value is in memory anyway only the copy is new.
        let stuck = writers.max_by_key(|(k, g)| (g.roots.len() > 1, std::cmp::Reverse(*k)));
        let Some((slot, group)) = stuck.map(|(k, g)| (k, g.roots.clone())) else { break };
        partition.groups[slot] = None;
        split_stores(problem, &mut partition, &group)?;
    }
    Ok(partition)
}

/// Makes one group of what holds a value and one for each store over a parameter, which copies.
fn split_stores(problem: &Problem<'_>, partition: &mut Partition, roots: &[Root]) -> Result<(), Refused> {
    let node = roots[0].node(problem.kernel);
    let (mut holders, stores): (Vec<Root>, Vec<Root>) =
        roots.iter().copied().partition(|r| problem.holds(*r, node));
    if holders.is_empty() {
        holders.push(Root::Temp(node));
        partition.memory[node.index()] = true;
    }
    let stores = stores.into_iter().map(|r| vec![r]);
    // The copies load it also where a result holds it.
    partition.memory[node.index()] |= !holders.is_empty();
    for roots in std::iter::once(holders).chain(stores).filter(|r| !r.is_empty()) {
        let lowered = Rc::new(problem.lower(&roots, &partition.memory, &[])?);
        partition.groups.push(Some(Group { roots, lowered }));
    }
    Ok(())
}

/// The nodes that reach memory at first.
pub(super) fn find_anchors(problem: &Problem<'_>, start: Start) -> Vec<bool> {
    let kernel = problem.kernel;
    let count = kernel.nodes.len();
    let mut is_output = vec![false; count];
    kernel.outputs.iter().for_each(|o| is_output[o.value.index()] = true);
    let mut anchors = vec![false; count];
    // The root of the cluster that a node is computed in; `None` for leaves and what several clusters inline.
    let mut cluster: Vec<Option<NodeId>> = vec![None; count];
    let mut clusters: Vec<Cluster> = std::iter::repeat_with(Cluster::default).take(count).collect();
    let free = find_free(problem);
    for id in kernel.node_ids().rev() {
        let users = &problem.facts.users[id.index()];
        if problem.is_leaf(id) || (users.is_empty() && !is_output[id.index()]) {
            continue;
        }
        let node = kernel.node(id);
        let own = match &node.op {
            Op::Map { function, .. } => map_operations(kernel, *function).max(1) as u32,
            _ => 1,
        };
        let mut home = None;
        let inlined = free[id.index()] && !is_output[id.index()];
        if inlined {
            let first = users.first().and_then(|u| cluster[u.index()]);
            let agreed = users.iter().all(|u| cluster[u.index()] == first);
            home = first.filter(|_| agreed);
        } else if start == Start::Collapsed && matches!(node.op, Op::Map { .. }) && !is_output[id.index()] {
            let first = users.first().and_then(|u| cluster[u.index()]);
            let joins = first.is_some()
                && users.iter().all(|u| {
                    let reader = kernel.node(*u);
                    let aligned = match &reader.op {
                        Op::Map { .. } => reader.ty.axes == node.ty.axes,
                        Op::Reduce { axes, .. } => reader.ty.axes.len() + axes.len() == node.ty.axes.len(),
                        Op::CumSum { .. } => true,
                        Op::View { .. } | Op::Materialize { .. } => false,
                        Op::Tensor(_) | Op::Scalar(_) | Op::Constant(_) => false,
                        Op::Index(_) | Op::Extent(_) => false,
                    };
                    aligned && cluster[u.index()] == first
                });
            home = first.filter(|root| joins && fits(problem, &clusters[root.index()], id, own));
        }
        for root in users.iter().filter_map(|u| cluster[u.index()]) {
            if home.is_none() {
                clusters[root.index()].live.remove(&id);
            }
        }
        if home.is_none() && !inlined {
            anchors[id.index()] = true;
            home = Some(id);
        }
        cluster[id.index()] = home;
        if let Some(root) = home {
            add_to_cluster(problem, &mut clusters[root.index()], id, own);
        }
    }
    anchors
}

fn fits(problem: &Problem<'_>, cluster: &Cluster, id: NodeId, own: u32) -> bool {
    let operands = problem.kernel.node(id).op.operands();
    let added = operands.iter().filter(|o| !cluster.live.contains(o)).count();
    let tensors = operands.iter().filter(|o| !cluster.tensors.contains(o)).count();
    // Some room is left for what the priced search adds.
    cluster.code + own <= problem.target.code_size * 3 / 4
        && cluster.live.len() + added < problem.target.live_values as usize
        && cluster.tensors.len() + tensors + 4 <= problem.target.parameters as usize
}

fn add_to_cluster(problem: &Problem<'_>, cluster: &mut Cluster, id: NodeId, own: u32) {
    cluster.code += own;
    cluster.live.remove(&id);
    for operand in problem.kernel.node(id).op.operands() {
        match &problem.kernel.node(operand).op {
            // Loads and positions live from their first use on.
            Op::Tensor(_) | Op::Index(_) => {
                let first = problem.facts.users[operand.index()].first() == Some(&id);
                if first {
                    cluster.live.remove(&operand);
                } else {
                    cluster.live.insert(operand);
                }
                cluster.tensors.insert(operand);
            }
            Op::Scalar(_) => {
                cluster.tensors.insert(operand);
            }
            Op::Constant(_) | Op::Extent(_) => {}
            Op::Map { .. } | Op::View { .. } | Op::Reduce { .. } => {
                cluster.live.insert(operand);
            }
            Op::CumSum { .. } | Op::Materialize { .. } => {
                cluster.live.insert(operand);
            }
        }
    }
}

/// Nodes that are never worth a launch: views, and maps of scalars alone, and casts that widen for arithmetic.
fn find_free(problem: &Problem<'_>) -> Vec<bool> {
    let kernel = problem.kernel;
    let mut free = vec![false; kernel.nodes.len()];
    for id in kernel.node_ids() {
        let node = kernel.node(id);
        free[id.index()] = match &node.op {
            Op::View { map, .. } => {
                let mut indirect = false;
                for (_, e) in &map.indices {
                    e.for_each_leaf(&mut |leaf| {
                        indirect |= matches!(leaf, crate::index_map::IndexExpr::Indirect(_));
                    });
                }
                !indirect
            }
            Op::Map { function, args } => {
                let widens = matches!(function, MapFn::Op(crate::scalar::ScalarOp::Cast(to))
                    if kernel.node(args[0]).ty.dtype.is_narrow_float() && *to == crate::dtype::DType::F32);
                let scalar =
                    node.ty.axes.is_empty() && args.iter().all(|a| free[a.index()] || problem.is_leaf(*a));
                scalar || widens && problem.is_leaf(args[0])
            }
            Op::Tensor(_) | Op::Scalar(_) | Op::Constant(_) | Op::Index(_) | Op::Extent(_) => false,
            Op::Reduce { .. } | Op::CumSum { .. } | Op::Materialize { .. } => false,
        };
    }
    free
}
