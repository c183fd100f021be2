//! The priced search: the move that saves most time is made, its neighbours are priced again, until none saves any.
//!
//! Moves are of three kinds: two groups of which one reads the other become one; two groups that read one buffer over
//! the same domain become one; a value leaves memory and its readers compute it again. A move that is not legal or
//! closes a cycle through a third group is passed over. With `c` candidates of bodies of `n` values a round takes
//! `O(n)` for each candidate whose groups changed, and `O(c)` for the rest.

use crate::id::NodeId;
use crate::plan::cost::value_weight;
use crate::plan::moves::Step;
use crate::plan::partition::{Group, Partition, Problem};
use crate::schedule::build::{Refused, Root};
use crate::schedule::{BufferRef, Operand};
use std::collections::{BTreeMap, BTreeSet, HashMap};

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

/// Groups above which a round makes every move that still pays when its turn comes, not only the best.
const SMALL: usize = 16;

/// Simple operations above which a value of a large graph is not computed again.
const DEAR_WEIGHT: u64 = 12;

/// What is remembered of a candidate: the state of its groups when it was priced, the seconds it saves and how it is
/// done. A move that breaks a limit of a launch is not priced again: groups only grow.
struct Priced {
    stamp: u64,
    gain: f64,
    over_limit: bool,
    step: Option<Step>,
}

/// Improves a partition until no move saves time.
pub(super) fn improve(problem: &Problem<'_>, partition: Partition) -> Partition {
    let mut partition = partition;
    let mut versions = vec![0u32; partition.groups.len()];
    let mut prices: HashMap<Move, Priced> = HashMap::new();
    loop {
        let mut ranked: Vec<(f64, Move)> = Vec::new();
        let concerned = list_concerned(problem, &partition);
        for candidate in list_moves(problem, &partition) {
            let stamp = stamp_of(&concerned, &versions, candidate);
            let known = prices.get(&candidate).filter(|p| p.stamp == stamp || p.over_limit);
            let gain = match known {
                Some(priced) => priced.gain,
                None => {
                    let priced = price_move(problem, &partition, candidate, stamp);
                    let gain = priced.gain;
                    prices.insert(candidate, priced);
                    gain
                }
            };
            if gain > LEAST_GAIN {
                ranked.push((gain, candidate));
            }
        }
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let one_only = partition.live().count() <= SMALL;
        let mut home: Vec<usize> = (0..partition.groups.len()).collect();
        let mut changed = vec![false; partition.groups.len()];
        let mut moved = false;
        for (_, candidate) in ranked {
            let Some(now) = resolve(candidate, &home) else { continue };
            if let (false, Move::Recompute(id)) = (one_only, now)
                && has_become_dear(problem, &partition, id)
            {
                continue;
            }
            // Where an earlier move of this round has changed a group the gain is checked again.
            let known = prices.get(&candidate).and_then(|p| p.step.clone());
            let known =
                known.filter(|step| now == candidate && is_current(problem, &partition, now, step, &changed));
            let step = match known.map_or_else(|| try_move(problem, &partition, now), Ok) {
                Ok(step) if partition.gain(&step) > LEAST_GAIN => step,
                Ok(_) | Err(_) => continue,
            };
            let Ok(next) = check_move(problem, &partition, now, &step) else { continue };
            for (slot, _) in &step.groups {
                versions[*slot] += 1;
                changed[*slot] = true;
            }
            partition = next;
            moved = true;
            if let Move::Merge(a, b) = now {
                home.iter_mut().filter(|h| **h == a).for_each(|h| *h = b);
            }
            if one_only {
                break;
            }
        }
        if !moved {
            return partition;
        }
    }
}

/// A move in terms of the groups that there are after others; `None` if it is made already.
fn resolve(change: Move, home: &[usize]) -> Option<Move> {
    match change {
        Move::Merge(a, b) => {
            let (a, b) = (home[a], home[b]);
            (a != b).then_some(Move::Merge(a.min(b), a.max(b)))
        }
        Move::Recompute(_) => Some(change),
    }
}

/// Whether a value has become dear to compute again because of what its group computes by now.
fn has_become_dear(problem: &Problem<'_>, partition: &Partition, id: NodeId) -> bool {
    let holds = |g: &Group| g.roots.iter().any(|r| problem.holds(*r, id));
    partition.live().any(|(_, g)| holds(g) && is_dear(problem, g))
}

/// Whether a step that was worked out at the start of a round is still what the move does.
fn is_current(
    problem: &Problem<'_>,
    partition: &Partition,
    change: Move,
    step: &Step,
    changed: &[bool],
) -> bool {
    if step.groups.iter().any(|(slot, _)| changed[*slot]) {
        return false;
    }
    match change {
        // Another group may have ceased to load what one of the two stores.
        Move::Merge(a, b) => partition.union(problem, a, b).1 == step.leaving,
        // Another group may have begun to load the value.
        Move::Recompute(id) => {
            let concerned = partition
                .live()
                .filter(|(_, g)| g.roots.contains(&Root::Temp(id)) || g.lowered.loads.contains(&id));
            concerned.map(|(k, _)| k).eq(step.groups.iter().map(|(k, _)| *k))
        }
    }
}

/// For each value in memory the slots that hold or load it, in order.
fn list_concerned(problem: &Problem<'_>, partition: &Partition) -> BTreeMap<NodeId, Vec<usize>> {
    let mut concerned: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
    for (k, group) in partition.live() {
        let roots = group.roots.iter().map(|r| (*r, r.node(problem.kernel)));
        let held = roots.filter(|(r, node)| problem.holds(*r, *node)).map(|(_, node)| node);
        for node in held.chain(group.lowered.loads.iter().copied()) {
            let slots = concerned.entry(node).or_default();
            if slots.last() != Some(&k) {
                slots.push(k);
            }
        }
    }
    concerned
}

/// A move worked out, whether or not it closes a circle.
fn try_move(problem: &Problem<'_>, partition: &Partition, change: Move) -> Result<Step, Refused> {
    match change {
        Move::Merge(a, b) => partition.try_merge(problem, a, b),
        Move::Recompute(id) => partition.try_recompute(problem, id),
    }
}

/// The partition after a move, if that closes no circle.
fn check_move(
    problem: &Problem<'_>,
    partition: &Partition,
    change: Move,
    step: &Step,
) -> Result<Partition, Refused> {
    match change {
        Move::Merge(a, b) => partition.check_order(problem, (a, b), step),
        Move::Recompute(id) => partition.check_recomputed(problem, id, step),
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
        // All pairs of few readers, neighbours of many: the number of candidates stays linear.
        if list.len() <= 6 {
            for (k, a) in list.iter().enumerate() {
                moves.extend(list[k + 1..].iter().map(|b| Move::Merge(*a.min(b), *a.max(b))));
            }
        }
        moves.extend(list.windows(2).map(|w| Move::Merge(w[0].min(w[1]), w[0].max(w[1]))));
    }
    let groups = partition.live().count();
    for (k, group) in partition.live() {
        for root in &group.roots {
            let node = root.node(problem.kernel);
            let pinned = partition.pinned.contains(&node);
            if !problem.holds(*root, node) || !partition.memory[node.index()] {
                continue;
            }
            let consumers = readers.get(&problem.buffer_of(node).0);
            for &other in consumers.into_iter().flatten().filter(|o| **o != k) {
                moves.insert(Move::Merge(k.min(other), k.max(other)));
            }
            // In large graphs what is dear to compute is not tried: it is stored.
            if !pinned && (groups <= SMALL || !is_dear(problem, group)) {
                moves.insert(Move::Recompute(node));
            }
        }
        // A copy into a parameter of a leaf has no edge to those that read the parameter; merging is never needed.
    }
    moves.into_iter().collect()
}

/// Whether a group computes too much for the values it stores to be computed again in a large graph.
fn is_dear(problem: &Problem<'_>, group: &Group) -> bool {
    let weight = group.lowered.group.values.iter().map(|v| value_weight(problem.kernel, v));
    weight.sum::<u64>() > DEAR_WEIGHT
}

/// The buffers that a group loads.
pub(super) fn buffers_read(group: &Group) -> impl Iterator<Item = BufferRef> {
    group.lowered.group.operands.iter().filter_map(|operand| match operand {
        Operand::Buffer { buffer, .. } => Some(*buffer),
        Operand::Index(_) | Operand::Mask(_) | Operand::Check { .. } => None,
    })
}

fn stamp_of(concerned: &BTreeMap<NodeId, Vec<usize>>, versions: &[u32], change: Move) -> u64 {
    match change {
        Move::Merge(a, b) => u64::from(versions[a]) << 32 | u64::from(versions[b]),
        Move::Recompute(id) => {
            concerned.get(&id).into_iter().flatten().fold(0u64, |h, k| {
                h.wrapping_mul(31).wrapping_add((*k as u64) << 16 | u64::from(versions[*k]))
            })
        }
    }
}

/// What a move saves; cycles are not looked for.
fn price_move(problem: &Problem<'_>, partition: &Partition, change: Move, stamp: u64) -> Priced {
    let fits = match change {
        Move::Merge(..) => Ok(()),
        Move::Recompute(id) => check_sizes(problem, partition, id),
    };
    match fits.and_then(|()| try_move(problem, partition, change)) {
        Ok(step) => Priced { stamp, gain: partition.gain(&step), over_limit: false, step: Some(step) },
        Err(refused) => {
            let over_limit = refused.refusal.is_limit();
            Priced { stamp, gain: f64::NEG_INFINITY, over_limit, step: None }
        }
    }
}

/// Refuses to compute a value in readers that would certainly become too large.
fn check_sizes(problem: &Problem<'_>, partition: &Partition, id: NodeId) -> Result<(), Refused> {
    let holds = |g: &Group| g.roots.iter().any(|r| problem.holds(*r, id));
    let Some((holder, _)) = partition.live().find(|(_, g)| holds(g)) else { return Ok(()) };
    let mut readers = partition.live().filter(|(_, g)| g.lowered.loads.contains(&id));
    readers.try_for_each(|(k, _)| partition.check_size(problem, holder, k))
}
