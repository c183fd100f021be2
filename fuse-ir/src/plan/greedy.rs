//! The priced search: the move that saves most time is made, its neighbours are priced again, until none saves any.
//!
//! Moves are of three kinds: two groups of which one reads the other become one; two groups that read one buffer over
//! the same domain become one; a value leaves memory and its readers compute it again. A move that is not legal or
//! closes a cycle through a third group is passed over. With `c` candidates of bodies of `n` values a round takes
//! `O(n)` for each candidate whose groups changed, and `O(c)` for the rest.

use crate::id::NodeId;
use crate::plan::partition::{Group, Partition, Problem};
use crate::schedule::build::{Refused, Root};
use crate::schedule::{BufferRef, Operand};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

/// A change of a partition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Move {
    /// The groups of two slots become one.
    Merge(usize, usize),
    /// A value is computed by each of its readers.
    Recompute(NodeId),
}

/// What counts as saved: less is noise of the arithmetic.
const LEAST_GAIN: f64 = 1e-12;

/// Improves a partition until no move saves time.
pub(super) fn improve(problem: &Problem<'_>, partition: Partition) -> Partition {
    let mut partition = partition;
    let mut versions = vec![0u32; partition.groups.len()];
    let mut gains: HashMap<Move, (u64, f64)> = HashMap::new();
    loop {
        let mut ranked: Vec<(f64, Move)> = Vec::new();
        for candidate in list_moves(problem, &partition) {
            let stamp = stamp_of(problem, &partition, &versions, candidate);
            let gain = match gains.get(&candidate) {
                Some((at, gain)) if *at == stamp => *gain,
                _ => {
                    let gain = gain_of(problem, &partition, candidate).unwrap_or(f64::NEG_INFINITY);
                    gains.insert(candidate, (stamp, gain));
                    gain
                }
            };
            if gain > LEAST_GAIN {
                ranked.push((gain, candidate));
            }
        }
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let next = ranked.iter().find_map(|(_, m)| apply(problem, &partition, *m).ok());
        let Some(next) = next else { return partition };
        for (k, version) in versions.iter_mut().enumerate() {
            let same = match (&partition.groups[k], &next.groups[k]) {
                (Some(a), Some(b)) => Rc::ptr_eq(&a.lowered, &b.lowered),
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            };
            *version += u32::from(!same);
        }
        partition = next;
    }
}

/// The partition after a move.
pub(super) fn apply(
    problem: &Problem<'_>,
    partition: &Partition,
    change: Move,
) -> Result<Partition, Refused> {
    match change {
        Move::Merge(a, b) => partition.merged(problem, a, b),
        Move::Recompute(id) => partition.recomputed(problem, id),
    }
}

/// The moves that are worth pricing: every edge between groups, neighbours in the list of readers of a buffer, and
/// every value in memory.
pub(super) fn list_moves(problem: &Problem<'_>, partition: &Partition) -> Vec<Move> {
    let mut moves = BTreeSet::new();
    let mut readers: BTreeMap<BufferRef, Vec<usize>> = BTreeMap::new();
    for (k, group) in partition.live() {
        let buffers: BTreeSet<BufferRef> = buffers_read(group).collect();
        for buffer in buffers {
            readers.entry(buffer).or_default().push(k);
        }
    }
    for list in readers.values() {
        moves.extend(list.windows(2).map(|w| Move::Merge(w[0].min(w[1]), w[0].max(w[1]))));
    }
    for (k, group) in partition.live() {
        for root in &group.roots {
            let node = root.node(problem.kernel);
            if !problem.holds(*root, node) || !partition.memory[node.index()] {
                continue;
            }
            let consumers = readers.get(&problem.buffer_of(node).0);
            for &other in consumers.into_iter().flatten().filter(|o| **o != k) {
                moves.insert(Move::Merge(k.min(other), k.max(other)));
            }
            moves.insert(Move::Recompute(node));
        }
        // A copy into a parameter of a leaf has no edge to those that read the parameter; merging is never needed.
    }
    moves.into_iter().collect()
}

/// The buffers that a group loads.
pub(super) fn buffers_read(group: &Group) -> impl Iterator<Item = BufferRef> {
    group.lowered.group.operands.iter().filter_map(|operand| match operand {
        Operand::Buffer { buffer, .. } => Some(*buffer),
        Operand::Index(_) | Operand::Mask(_) | Operand::Check { .. } => None,
    })
}

fn stamp_of(problem: &Problem<'_>, partition: &Partition, versions: &[u32], change: Move) -> u64 {
    match change {
        Move::Merge(a, b) => u64::from(versions[a]) << 32 | u64::from(versions[b]),
        Move::Recompute(id) => {
            let concerned = partition.live().filter(|(_, g)| {
                g.lowered.loads.contains(&id) || g.roots.iter().any(|r| problem.holds(*r, id))
            });
            concerned.fold(0u64, |h, (k, _)| {
                h.wrapping_mul(31).wrapping_add((k as u64) << 16 | u64::from(versions[k]))
            })
        }
    }
}

/// The seconds that a move saves; cycles are not looked for.
pub(super) fn gain_of(problem: &Problem<'_>, partition: &Partition, change: Move) -> Result<f64, Refused> {
    let seconds = |k: usize| partition.group(k).map_or(0.0, |g| g.lowered.price.seconds);
    match change {
        Move::Merge(a, b) => {
            let (roots, memory) = partition.union(problem, a, b);
            let lowered = problem.lower(&roots, &memory)?;
            Ok(seconds(a) + seconds(b) - lowered.price.seconds)
        }
        Move::Recompute(id) => {
            let mut memory = partition.memory.clone();
            memory[id.index()] = false;
            let mut saved = 0.0;
            for (k, group) in partition.live() {
                let stores = group.roots.contains(&Root::Temp(id));
                if !stores && !group.lowered.loads.contains(&id) {
                    continue;
                }
                saved += seconds(k);
                let roots: Vec<Root> = group.roots.iter().copied().filter(|r| *r != Root::Temp(id)).collect();
                if !roots.is_empty() {
                    saved -= problem.lower(&roots, &memory)?.price.seconds;
                }
            }
            Ok(saved)
        }
    }
}
