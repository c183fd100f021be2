//! What a GPU's size decides of the rows of a group: whether they are cut, and what stays in shared memory between sweeps.

use crate::graph::Op;
use crate::id::NodeId;
use crate::lower::count_kept_bytes;
use crate::plan::display::Bytes;
use crate::plan::partition::{Partition, Problem};
use crate::schedule::passes::can_split;
use crate::schedule::{CHUNK, ScheduleKind, ScheduledGroup};
use crate::target::Target;

/// What there is to say of an edge inside a group beyond that it is there; nothing on a CPU.
pub(super) fn explain_schedule(
    problem: &Problem<'_>,
    partition: &Partition,
    slot: usize,
    (producer, consumer): (NodeId, NodeId),
) -> Option<String> {
    let target = problem.target;
    let group = &partition.group(slot)?.lowered.group;
    if target.shared_memory == 0 {
        return None;
    }
    match &problem.kernel.node(consumer).op {
        Op::Reduce { .. } => {
            explain_cut(problem, group).or_else(|| explain_kept(problem, partition, slot, producer))
        }
        _ => explain_kept(problem, partition, slot, producer),
    }
}

/// Whether rows that could be cut are.
fn explain_cut(problem: &Problem<'_>, group: &ScheduledGroup) -> Option<String> {
    let (rows, units) = (problem.sizes.product(&group.outer), problem.target.units);
    let length = problem.sizes.product(&group.reduced);
    let is_known = group.outer.iter().chain(&group.reduced).all(|a| problem.sizes.is_stated(*a));
    if !is_known || !can_split(group) || length <= CHUNK as u64 || rows >= 2 * u64::from(units) {
        return None;
    }
    match group.kind {
        ScheduleKind::Split => {
            Some(format!("cut into chunks of {CHUNK}: {rows} rows do not keep {units} multiprocessors busy"))
        }
        ScheduleKind::Row | ScheduleKind::Column => {
            Some(format!("in one piece: {rows} rows keep {units} multiprocessors busy"))
        }
        ScheduleKind::Pointwise | ScheduleKind::Contraction => None,
        ScheduleKind::Depthwise | ScheduleKind::Streamed => None,
    }
}

/// Whether a value that several sweeps need stays in shared memory, and if not, whether it would if there were more.
fn explain_kept(problem: &Problem<'_>, partition: &Partition, slot: usize, node: NodeId) -> Option<String> {
    let target = problem.target;
    let group = partition.group(slot)?;
    let rows = &group.lowered.group;
    let is_kept = |g: &ScheduledGroup| {
        let mut kept = g.passes.iter().flat_map(|p| &p.buffered);
        kept.any(|v| g.value(*v).node == Some(node))
    };
    let what = if rows.kind == ScheduleKind::Column { "32 columns take" } else { "a row takes" };
    if is_kept(rows) {
        let (row, all) = (row_bytes(problem, rows), Bytes(target.shared_memory));
        return Some(format!("kept in shared memory between sweeps: {what} {row} of {all}"));
    }
    let sweeps = rows.passes.iter().filter(|p| p.values.iter().any(|v| rows.value(*v).node == Some(node)));
    if sweeps.count() < 2
        || problem.sizes.product(&rows.reduced) <= target.row_buffer.min(target.shared_memory / 8)
    {
        return None;
    }
    let roomy = Target { row_buffer: u64::MAX, shared_memory: u64::MAX, ..target.clone() };
    let with_room = Problem { target: &roomy, ..*problem };
    let found = with_room.lower(&group.roots, &partition.memory, &[]).ok()?;
    is_kept(&found.group).then(|| {
        let (row, all) = (row_bytes(problem, &found.group), Bytes(target.shared_memory));
        format!("computed again in each sweep: {what} {row} of shared memory, a block has {all}")
    })
}

/// Bytes of what is kept of the rows of a block: one, or as many columns as a warp has lanes.
fn row_bytes(problem: &Problem<'_>, group: &ScheduledGroup) -> Bytes {
    let rows = if group.kind == ScheduleKind::Column { 32 } else { 1 };
    Bytes(problem.sizes.product(&group.reduced).saturating_mul(rows * count_kept_bytes(group)))
}
