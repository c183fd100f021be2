//! Whether neighbouring threads meet neighbouring memory: what the reads and writes of a program's kernels for GPUs move,
//! in sectors of 32 bytes, against the fewest sectors that hold what they ask for.
//!
//! It is found from how a group is spread over threads and from the index maps, under the extents that the plan assumes and
//! for contiguous tensors: the addresses of a few warps are computed and their different sectors counted. What the loads of
//! one sweep read of a buffer is one request here, since later ones find in the cache what an earlier one has fetched: the
//! halves of interleaved pairs, say, or the positions of a thread that takes several. Operands that come through tiles of
//! shared memory are read along memory. Products are left out, whose operands are packed whichever way they lie, and so are
//! positions that depend on data.

use super::vector::run_length;
use super::{Structure, choose_structures, list_steps, rows, tile};
use crate::id::{AxisId, NodeId, ParamId, ValueId};
use crate::index_map::{Bound, IndexEnv, IndexExpr};
use crate::plan::cost::{Sizes, buffers_between};
use crate::program::Program;
use crate::schedule::contraction::collect_axes;
use crate::schedule::{BodyOp, BufferRef, CHUNK, LANES, Level, Operand, ScheduleKind, ScheduledGroup};
use std::collections::BTreeSet;

/// Bytes that memory gives at once.
const SECTOR: u64 = 32;
/// Threads that ask for memory together.
const WARP: u64 = 32;
/// Warps whose addresses are computed.
const SAMPLES: u64 = 4;

/// A read or write by which neighbouring threads touch at least twice the sectors that would do.
#[derive(Clone, PartialEq, Debug)]
pub struct Uncoalesced {
    /// The operation that reads, or whose value is written.
    pub node: Option<NodeId>,
    /// What is read or written.
    pub buffer: BufferRef,
    /// Whether it is written.
    pub written: bool,
    /// The axis along which neighbouring threads lie.
    pub along: AxisId,
    /// The axis of the buffer along which they step.
    pub steps: AxisId,
    /// Whether that is the buffer's last axis: then what lies between is skipped, and another order of axes is no help.
    pub skips: bool,
    /// Elements of the buffer from one thread's to its neighbour's.
    pub distance: u64,
    /// Bytes that are moved, in whole sectors.
    pub moved: u64,
    /// The bytes of the fewest sectors.
    pub least: u64,
}

/// What the kernels of a program read and write across the grain of memory, in the order of its launches.
pub fn find_uncoalesced(program: &Program) -> Vec<Uncoalesced> {
    let sizes = Sizes::compute(&program.kernel);
    let mut found = Vec::new();
    for launch in &program.plan.launches {
        let between: BTreeSet<BufferRef> = launch.parts.iter().flat_map(buffers_between).collect();
        for (running, step) in list_steps(program, &launch.parts) {
            let choices = choose_structures(program, &running, step);
            let fits = |choice: &&Vec<Structure>| {
                running.iter().zip(choice.iter()).all(|(group, structure)| fits(group, *structure, &sizes))
            };
            let Some(chosen) = choices.iter().find(fits) else { continue };
            for (group, structure) in running.iter().zip(chosen) {
                if let Some(walk) = Walk::of(group, *structure, &sizes) {
                    let accesses = walk.list_accesses().into_iter().filter(|a| !between.contains(&a.buffer));
                    found.extend(accesses.filter_map(|access| walk.judge(&access)));
                }
            }
        }
    }
    found
}

/// Whether a structure takes calls of these sizes, whose tensors are contiguous.
fn fits(group: &ScheduledGroup, structure: Structure, sizes: &Sizes) -> bool {
    match structure {
        Structure::Tiles => {
            let across = tile::find_crossing(group).map(|(across, _)| across);
            [across, group.outer.last().copied()].iter().flatten().all(|axis| sizes.get(*axis) >= tile::LEAST)
        }
        Structure::ShortRows { .. } => sizes.product(&group.reduced) <= CHUNK as u64,
        Structure::Flat
        | Structure::Runs
        | Structure::Scalar
        | Structure::BlockRows { .. }
        | Structure::Columns { .. }
        | Structure::Chunks { .. }
        | Structure::Fold
        | Structure::Tiled(_)
        | Structure::Skinny(_)
        | Structure::Pieces
        | Structure::Streamed(_)
        | Structure::FoldStreamed => true,
    }
}

/// How the threads of a group lie: lanes of a warp are neighbouring positions along some axes, the last the fastest.
struct Walk<'a> {
    group: &'a ScheduledGroup,
    sizes: &'a Sizes,
    lanes: &'a [AxisId],
    /// Consecutive positions of them that neighbouring threads take: a run for each.
    region: u64,
    /// Whether the lanes are positions of a row, so that what is read once for each row is read by one thread.
    in_rows: bool,
    /// Neighbouring rows of a warp.
    rows: u64,
    /// Whether what several sweeps read stays in shared memory.
    keeps: bool,
    /// Loads that come through tiles of shared memory.
    tiled: Vec<ValueId>,
}

/// The position on each axis of a buffer in layout order, and where it is touched at all.
type Map<'a> = (&'a [(AxisId, IndexExpr)], &'a [Bound]);

/// Reads of one buffer that share their sectors, or a write.
struct Access<'a> {
    node: Option<NodeId>,
    buffer: BufferRef,
    written: bool,
    size: u64,
    /// For each its map.
    maps: Vec<Map<'a>>,
    level: Level,
    /// Sweeps that make it.
    times: u64,
}

impl<'a> Walk<'a> {
    fn of(group: &'a ScheduledGroup, structure: Structure, sizes: &'a Sizes) -> Option<Self> {
        match group.kind {
            ScheduleKind::Contraction | ScheduleKind::Depthwise | ScheduleKind::Streamed => return None,
            ScheduleKind::Pointwise | ScheduleKind::Row | ScheduleKind::Column | ScheduleKind::Split => {}
        }
        let run_of_row = |vectors: bool| if vectors { rows::row_run(group) } else { None };
        let walk = |lanes: &'a [AxisId], region: u64| {
            Some(Walk {
                group,
                sizes,
                lanes,
                region,
                in_rows: false,
                rows: 1,
                keeps: false,
                tiled: Vec::new(),
            })
        };
        // A team shares the accumulators of a chunk.
        let in_rows = |vectors: bool, several: bool, keeps: bool| {
            let run = run_of_row(vectors).map(u64::from);
            let members = run.map_or(WARP, |run| LANES as u64 / run);
            let rows = if several { (WARP / members).max(1) } else { 1 };
            let walk = walk(&group.reduced, members * run.unwrap_or(1))?;
            Some(Walk { in_rows: true, rows, keeps, ..walk })
        };
        match structure {
            Structure::Flat | Structure::Runs => {
                let run = group.outer.last().and_then(|axis| run_length(group, *axis));
                walk(&group.outer, WARP * u64::from(run.unwrap_or(1)))
            }
            Structure::Tiles => {
                let tiled = tile::find_crossing(group).map(|(_, loads)| loads).unwrap_or_default();
                Some(Walk { tiled, ..walk(&group.outer, WARP)? })
            }
            Structure::Scalar => walk(&group.outer, WARP),
            Structure::Columns { keep } => Some(Walk { keeps: keep, ..walk(&group.outer, WARP)? }),
            Structure::ShortRows { vectors, keep } => in_rows(vectors, true, keep),
            Structure::BlockRows { vectors, keep } => in_rows(vectors, false, keep),
            Structure::Chunks { columns: true, .. } => walk(&group.outer, WARP),
            Structure::Chunks { columns: false, vectors } => in_rows(vectors, true, false),
            // Partial results lie side by side, and sources of products come through tiles of shared memory.
            Structure::Fold | Structure::Tiled(_) | Structure::Streamed(_) | Structure::FoldStreamed => None,
            // Contractions are no walks.
            Structure::Skinny(_) | Structure::Pieces => None,
        }
    }

    /// What the group reads and writes by all lanes of a warp.
    fn list_accesses(&self) -> Vec<Access<'a>> {
        let group = self.group;
        let reached = |level: Level| level == Level::Inner || (level == Level::Outer && !self.in_rows);
        let axes = collect_axes(&group.operands, &group.values, &group.reduced);
        let mut accesses: Vec<Access<'a>> = Vec::new();
        for id in (0..group.values.len()).map(ValueId::from_index) {
            let value = group.value(id);
            let BodyOp::Load(operand) = &value.op else { continue };
            let operand = &group.operands[operand.index()];
            let Operand::Buffer { buffer, dtype, map } = operand else { continue };
            // Where a table says which element it is, nothing is known of neighbours.
            let by_table =
                operand.reads().iter().any(|read| axes[read.index()].iter().any(|a| self.lanes.contains(a)));
            if !reached(value.level) || by_table || self.tiled.contains(&id) {
                continue;
            }
            let sweeps = group.passes.iter().filter(|pass| pass.values.contains(&id)).count();
            let times = if self.keeps { 1 } else { sweeps.max(1) as u64 };
            let (times, maps) = (times, (map.indices.as_slice(), map.bounds.as_slice()));
            let known = accesses.iter_mut().find(|a| a.buffer == *buffer && a.level == value.level);
            if let Some(known) = known {
                known.times = known.times.max(times);
                known.maps.push(maps);
                continue;
            }
            let reader = group.values.iter().find(|v| match &v.op {
                BodyOp::Map { args, .. } => args.contains(&id),
                BodyOp::Reduce { sources, .. } => sources.contains(&id),
                BodyOp::CumSum { source } => *source == id,
                BodyOp::Load(_) | BodyOp::Param(_) | BodyOp::Constant(_) | BodyOp::Extent(_) => false,
            });
            let node = reader.and_then(|reader| reader.node).or(value.node);
            let (level, size) = (value.level, dtype.size() as u64);
            accesses.push(Access {
                node,
                buffer: *buffer,
                written: false,
                size,
                maps: vec![maps],
                level,
                times,
            });
        }
        for store in &group.stores {
            let value = group.value(store.value);
            if reached(value.level) {
                accesses.push(Access {
                    node: value.node,
                    buffer: store.buffer,
                    written: true,
                    size: store.dtype.size() as u64,
                    maps: vec![(&store.indices, &[])],
                    level: value.level,
                    times: 1,
                });
            }
        }
        accesses
    }

    /// Counts the sectors of a few warps, and tells of an access that takes at least twice as many as would do. A row that
    /// does not start at a sector takes one more, which is no matter of order.
    fn judge(&self, access: &Access<'_>) -> Option<Uncoalesced> {
        let positions = self.sizes.product(self.lanes);
        let warps = positions.div_ceil(self.region);
        let starts: BTreeSet<u64> = (0..SAMPLES).map(|k| k * warps / SAMPLES * self.region).collect();
        let (mut moved, mut least, mut asked) = (0, 0, 0);
        let outer = if self.in_rows { self.sizes.product(&self.group.outer) } else { 1 };
        let middle = outer / 2 / self.rows * self.rows;
        let rows = middle..outer.min(middle + self.rows);
        for start in starts {
            let region = start..positions.min(start + self.region);
            let places = rows.clone().flat_map(|row| region.clone().map(move |k| self.place(row, k)));
            let addresses: BTreeSet<i64> = places
                .flat_map(|place| access.maps.iter().filter_map(move |map| self.address(map, &place)))
                .collect();
            let sectors: BTreeSet<u64> =
                addresses.iter().map(|address| address.unsigned_abs() * access.size / SECTOR).collect();
            moved += sectors.len() as u64;
            least += (addresses.len() as u64 * access.size).div_ceil(SECTOR);
            asked += u64::from(!addresses.is_empty());
        }
        if asked == 0 || moved < 2 * least || moved <= least + asked {
            return None;
        }
        let (along, steps, skips, distance) = self.describe(access)?;
        let others = match access.level {
            Level::Inner => self.sizes.product_of(
                self.group
                    .outer
                    .iter()
                    .chain(&self.group.reduced)
                    .filter(|a| !self.lanes.contains(a))
                    .copied(),
            ),
            Level::Outer | Level::Uniform => 1,
        };
        let requests = warps.saturating_mul(others.div_ceil(self.rows)).saturating_mul(access.times);
        let bytes = |sectors: u64| (sectors * SECTOR).saturating_mul(requests) / asked;
        Some(Uncoalesced {
            node: access.node,
            buffer: access.buffer,
            written: access.written,
            along,
            steps,
            skips,
            distance,
            moved: bytes(moved),
            least: bytes(least),
        })
    }

    /// Along which axis neighbours lie, along which axis of the buffer they step, whether that is the last, and how far.
    fn describe(&self, access: &Access<'_>) -> Option<(AxisId, AxisId, bool, u64)> {
        let along = self.lanes.iter().rev().copied().find(|axis| self.sizes.get(*axis) > 1)?;
        let moves = |(_, e): &&(AxisId, IndexExpr)| e.uses_index(along);
        for map in &access.maps {
            let Some((steps, _)) = map.0.iter().rev().find(moves) else { continue };
            let middle = self.sizes.get(along) / 2;
            let [one, next] = [middle - 1, middle].map(|k| self.offset(map.0, &self.place(0, k)));
            let distance = next.wrapping_sub(one);
            let skips = map.0.last().is_some_and(|(last, _)| last == steps);
            return Some((along, *steps, skips, distance.unsigned_abs()));
        }
        None
    }

    /// The element that is touched at a place, if one is.
    fn address(
        &self,
        (indices, bounds): &(&[(AxisId, IndexExpr)], &[Bound]),
        place: &Place<'_>,
    ) -> Option<i64> {
        let holds = |bound: &Bound| (0..bound.extent.eval(place)).contains(&bound.expr.eval(place));
        let inside = |(axis, e): &(AxisId, IndexExpr)| (0..place.extent(*axis)).contains(&e.eval(place));
        (bounds.iter().all(holds) && indices.iter().all(inside)).then(|| self.offset(indices, place))
    }

    /// The element of a contiguous buffer at a place.
    fn offset(&self, indices: &[(AxisId, IndexExpr)], place: &Place<'_>) -> i64 {
        let step = |sum: i64, (axis, e): &(AxisId, IndexExpr)| {
            sum.wrapping_mul(place.extent(*axis)).wrapping_add(e.eval(place))
        };
        indices.iter().fold(0, step)
    }

    /// The place of a position of the lanes, and of a row if they lie in one.
    fn place(&self, row: u64, position: u64) -> Place<'a> {
        let outer = if self.in_rows { self.group.outer.as_slice() } else { &[] };
        Place { sizes: self.sizes, known: [(self.lanes, position), (outer, row)] }
    }
}

/// A position of the domain: linear ones on some axes, and the middle of others, where no padding is.
struct Place<'a> {
    sizes: &'a Sizes,
    known: [(&'a [AxisId], u64); 2],
}

impl IndexEnv for Place<'_> {
    fn index(&self, axis: AxisId) -> i64 {
        let extent = self.sizes.get(axis).max(1);
        for (axes, position) in self.known {
            if let Some(k) = axes.iter().position(|known| *known == axis) {
                return (position / self.sizes.product(&axes[k + 1..]).max(1) % extent) as i64;
            }
        }
        (extent / 2) as i64
    }

    fn extent(&self, axis: AxisId) -> i64 {
        self.sizes.get(axis) as i64
    }

    fn param(&self, _: ParamId) -> i64 {
        0
    }

    fn indirect(&self, _: NodeId) -> i64 {
        0
    }
}
