//! Large graphs, region by region, so that the search takes time linear in the graph.
//!
//! A region is a run of groups in an order in which they can be launched. What lies between two groups on a path lies
//! between them in that order too, so a merge that closes no circle in its region closes none at all, and the search
//! needs to know of the rest of the graph only which values it loads: those stay in memory. When all regions are
//! improved the order is cut elsewhere, so that no edge lies between regions for good.

use crate::id::NodeId;
use crate::plan::greedy::improve;
use crate::plan::partition::{Group, Partition, Problem};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Groups of a region at most: kernels of up to some hundred operations are one.
const REGION: usize = 64;

/// How often the order is cut anew at most.
const MOST_ROUNDS: usize = 6;

/// Improves a partition until no move saves time, or none within regions.
pub(super) fn improve_by_regions(problem: &Problem<'_>, partition: Partition) -> Partition {
    let mut partition = partition;
    let mut idle = 0;
    for round in 0..MOST_ROUNDS {
        let count = partition.live().count();
        if count <= REGION {
            return improve(problem, partition);
        }
        if idle == 2 {
            break;
        }
        let Some(order) = partition.launch_order(problem) else { break };
        let first = if round % 2 == 0 { REGION } else { REGION / 2 };
        partition = improve_each(problem, partition, &order, first);
        idle = if partition.live().count() == count { idle + 1 } else { 0 };
    }
    partition
}

/// Improves the regions into which an order of slots is cut; the first has `first` groups.
fn improve_each(problem: &Problem<'_>, partition: Partition, order: &[usize], first: usize) -> Partition {
    let Partition { mut memory, mut groups, pinned } = partition;
    let mut ordered: Vec<Option<Group>> = order.iter().map(|slot| groups[*slot].take()).collect();
    // Where in the order each value is loaded last. Earlier regions change that of later values never.
    let mut last_load: BTreeMap<NodeId, usize> = BTreeMap::new();
    for (k, group) in ordered.iter().enumerate() {
        let loads = group.iter().flat_map(|g| &g.lowered.loads);
        last_load.extend(loads.map(|node| (*node, k)));
    }
    let mut improved = Vec::with_capacity(ordered.len());
    let mut start = 0;
    while start < ordered.len() {
        let end = (start + if start == 0 { first } else { REGION }).min(ordered.len());
        let groups: Vec<Option<Group>> = ordered[start..end].iter_mut().map(Option::take).collect();
        let nodes = groups.iter().flatten().flat_map(|g| g.roots.iter().map(|r| r.node(problem.kernel)));
        let outside: BTreeSet<NodeId> =
            nodes.filter(|n| last_load.get(n).is_some_and(|last| *last >= end)).collect();
        let region = Partition { memory, groups, pinned: Rc::new(outside) };
        let region = improve(problem, region);
        memory = region.memory;
        improved.extend(region.groups.into_iter().filter(Option::is_some));
        start = end;
    }
    Partition { memory, groups: improved, pinned }
}
