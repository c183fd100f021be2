//! The priced search: the move that saves most time is made, its neighbours are priced again, until none saves any.
//!
//! Moves are of three kinds: two groups of which one reads the other become one; two groups that read one buffer over
//! the same domain become one; a value leaves memory and its readers compute it again. A move that is not legal or
//! closes a cycle through a third group is passed over. With `c` candidates of bodies of `n` values a round takes
//! `O(n)` for each candidate whose groups changed, and `O(c)` for the rest.

use crate::id::NodeId;
use crate::plan::cost::value_weight;
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

/// Groups above which a round makes every move that still pays when its turn comes, not only the best.
const SMALL: usize = 16;

/// Simple operations above which a value of a large graph is not computed again.
const DEAR_WEIGHT: u64 = 12;

/// What is remembered of a candidate: the state of its groups when it was priced, and the seconds it saves. A move that
/// breaks a limit of a launch is not priced again: groups only grow.
struct Priced {
    stamp: u64,
    gain: f64,
    over_limit: bool,
}

/// Improves a partition until no move saves time.
pub(super) fn improve(problem: &Problem<'_>, partition: Partition) -> Partition {
    let mut partition = partition;
    let mut versions = vec![0u32; partition.groups.len()];
    let mut prices: HashMap<Move, Priced> = HashMap::new();
    loop {
        let mut ranked: Vec<(f64, Move)> = Vec::new();
        for candidate in list_moves(problem, &partition) {
            let stamp = stamp_of(problem, &partition, &versions, candidate);
            let known = prices.get(&candidate).filter(|p| p.stamp == stamp || p.over_limit);
            let gain = match known {
                Some(priced) => priced.gain,
                None => {
                    let (gain, over_limit) = match gain_of(problem, &partition, candidate) {
                        Ok(gain) => (gain, false),
                        Err(refused) => (f64::NEG_INFINITY, refused.refusal.is_limit()),
                    };
                    prices.insert(candidate, Priced { stamp, gain, over_limit });
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
        let mut moved = false;
        for (_, candidate) in ranked {
            // Where an earlier move of this round has changed a group the gain is checked again.
            let Some(candidate) = resolve(candidate, &home) else { continue };
            let next = match apply(problem, &partition, candidate) {
                Ok(next) if partition.price().seconds - next.price().seconds > LEAST_GAIN => next,
                Ok(_) | Err(_) => continue,
            };
            for (k, version) in versions.iter_mut().enumerate() {
                let same = match (&partition.groups[k], &next.groups[k]) {
                    (Some(a), Some(b)) => Rc::ptr_eq(&a.lowered, &b.lowered),
                    (None, None) => true,
                    (Some(_), None) | (None, Some(_)) => false,
                };
                *version += u32::from(!same);
            }
            partition = next;
            moved = true;
            if let Move::Merge(a, b) = candidate {
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

/// The slots that a move reads or changes.
fn list_concerned(problem: &Problem<'_>, partition: &Partition, change: Move) -> Vec<usize> {
    match change {
        Move::Merge(a, b) => vec![a, b],
        Move::Recompute(id) => {
            let concerned = partition.live().filter(|(_, g)| {
                g.lowered.loads.contains(&id) || g.roots.iter().any(|r| problem.holds(*r, id))
            });
            concerned.map(|(k, _)| k).collect()
        }
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
            if !problem.holds(*root, node) || !partition.memory[node.index()] {
                continue;
            }
            let consumers = readers.get(&problem.buffer_of(node).0);
            for &other in consumers.into_iter().flatten().filter(|o| **o != k) {
                moves.insert(Move::Merge(k.min(other), k.max(other)));
            }
            // In large graphs what is dear to compute is not tried: it is stored.
            let weight = || group.lowered.group.values.iter().map(|v| value_weight(problem.kernel, v));
            if groups <= SMALL || weight().sum::<u64>() <= DEAR_WEIGHT {
                moves.insert(Move::Recompute(node));
            }
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
        Move::Recompute(_) => {
            let concerned = list_concerned(problem, partition, change);
            concerned
                .into_iter()
                .fold(0u64, |h, k| h.wrapping_mul(31).wrapping_add((k as u64) << 16 | u64::from(versions[k])))
        }
    }
}

/// The seconds that a move saves; cycles are not looked for.
pub(super) fn gain_of(problem: &Problem<'_>, partition: &Partition, change: Move) -> Result<f64, Refused> {
    let seconds = |k: usize| partition.group(k).map_or(0.0, |g| g.lowered.price.seconds);
    match change {
        Move::Merge(a, b) => {
            partition.check_size(problem, a, b)?;
            let (roots, memory) = partition.union(problem, a, b);
            let lowered = problem.lower(&roots, &memory)?;
            Ok(seconds(a) + seconds(b) - lowered.price.seconds)
        }
        Move::Recompute(id) => {
            let holds = |g: &Group| g.roots.iter().any(|r| problem.holds(*r, id));
            let holder = partition.live().find(|(_, g)| holds(g)).map(|(k, _)| k);
            if let Some(holder) = holder {
                for (k, _) in partition.live().filter(|(_, g)| g.lowered.loads.contains(&id)) {
                    partition.check_size(problem, holder, k)?;
                }
            }
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
