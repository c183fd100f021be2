//! From a body to a schedule: which sweep computes what, what is kept between sweeps, and how the domain is walked.
//!
//! A reduction is complete after the sweep that computes its sources; what reads it belongs to the next. So layer norm
//! takes three sweeps: the sum, the sum of squares of what is centred, the result. A value that two sweeps need is
//! computed again if that is cheap and kept in a row buffer if it is not.

use crate::graph::Kernel;
use crate::id::{AxisId, GroupId, ValueId};
use crate::index_map::IndexExpr;
use crate::lower::count_kept_bytes;
use crate::plan::cost::{Sizes, operand_elements, price_group, value_weight};
use crate::schedule::build::Body;
use crate::schedule::contraction::find_contraction;
use crate::schedule::edges::ValueEdges;
use crate::schedule::{BodyOp, BufferRef, CHUNK, Level, Operand, Pass, ScheduleKind, ScheduledGroup};
use crate::target::Target;

/// Simple operations that computing a value again may cost before it is kept instead: about what a store to and a load
/// from a buffer in the first-level cache take.
const RECOMPUTE_WEIGHT: u64 = 8;
/// Buffers that computing a value again may read before it is kept instead.
const RECOMPUTE_LOADS: u64 = 2;

/// The schedule of a body. Walks it by row, by column or split, by layout and by the assumed sizes.
///
/// `may_split` says whether a reduction may take two launches.
pub fn schedule_body(
    kernel: &Kernel,
    target: &Target,
    sizes: &Sizes,
    body: Body,
    may_split: bool,
) -> ScheduledGroup {
    let votes = count_votes(kernel, sizes, &body);
    let (contraction, depthwise) = (body.contraction, body.depthwise);
    let mut group = ScheduledGroup {
        reduced: body.reduced,
        operands: body.operands,
        values: body.values,
        stores: body.stores,
        ..ScheduledGroup::empty(GroupId(0))
    };
    assign_passes(kernel, target, sizes, &mut group);
    let keeps = target.shared_memory > 0 && group.passes.iter().any(|p| !p.buffered.is_empty());
    // A block has one row, or a warp's lanes of columns.
    let column = votes.column > votes.row && !body.outer.is_empty();
    let elements = sizes.product(&group.reduced).saturating_mul(if column { 32 } else { 1 });
    if keeps && elements.saturating_mul(count_kept_bytes(&group)) > target.shared_memory {
        // What a kernel would not keep is not to be counted on.
        assign_passes(kernel, &Target { row_buffer: 0, ..target.clone() }, sizes, &mut group);
    }
    if contraction {
        group.kind = ScheduleKind::Contraction;
        group.outer = order_contraction(&body.outer, &group);
        return group;
    }
    if depthwise {
        group.kind = ScheduleKind::Depthwise;
        group.outer = order_outer(&body.outer, &votes, group.kind);
        return group;
    }
    if !group.reduced.is_empty() {
        let rows = sizes.product(&body.outer);
        let length = sizes.product(&group.reduced);
        group.kind = if column { ScheduleKind::Column } else { ScheduleKind::Row };
        // A full reduction of unknown length is split: a single row would serialise it, and splitting costs little.
        let unknown = body.outer.is_empty() && group.reduced.iter().any(|a| !sizes.is_stated(*a));
        let few = rows < 2 * u64::from(target.units) && length > CHUNK as u64;
        if may_split && can_split(&group) && (unknown || few) {
            group.outer = order_outer(&body.outer, &votes, group.kind);
            let whole = price_group(kernel, target, sizes, &group).seconds;
            let split = ScheduledGroup { kind: ScheduleKind::Split, ..group.clone() };
            if unknown || price_group(kernel, target, sizes, &split).seconds < whole {
                group.kind = ScheduleKind::Split;
            }
        }
    }
    group.outer = order_outer(&body.outer, &votes, group.kind);
    group
}

/// Whether the reduction can be cut into parallel chunks: one sweep, and nothing kept.
pub fn can_split(group: &ScheduledGroup) -> bool {
    group.passes.len() == 1
        && group.passes[0].buffered.is_empty()
        && group.passes[0].stores.is_empty()
        && !group.passes[0].reductions.is_empty()
}

/// What the layouts of buffers ask for, weighed by bytes.
struct Votes {
    row: u64,
    column: u64,
    /// The axes along which buffers are contiguous, with the bytes that ask for them.
    innermost: Vec<(AxisId, u64)>,
    /// All axes in the order of the layouts, the heaviest buffer's first.
    order: Vec<AxisId>,
}

fn count_votes(kernel: &Kernel, sizes: &Sizes, body: &Body) -> Votes {
    let mut votes = Votes { row: 0, column: 0, innermost: Vec::new(), order: Vec::new() };
    let mut layouts: Vec<(u64, &[(AxisId, IndexExpr)])> = Vec::new();
    for operand in &body.operands {
        if let Operand::Buffer { dtype, map, .. } = operand {
            let bytes = operand_elements(kernel, sizes, map) * dtype.size() as u64;
            layouts.push((bytes, &map.indices));
        }
    }
    for store in &body.stores {
        let elements: u64 = sizes.product_of(store.indices.iter().map(|(a, _)| *a));
        // A store that is not contiguous costs more than such a load; and of equals the store decides.
        let bytes = 2 * elements * store.dtype.size() as u64 + 1;
        layouts.push((bytes, &store.indices));
    }
    layouts.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    for (bytes, indices) in &layouts {
        let contiguous = indices.iter().rev().find_map(|(_, e)| last_axis(e));
        if let Some(axis) = contiguous {
            if body.reduced.contains(&axis) {
                votes.row += bytes;
            } else {
                votes.column += bytes;
            }
            match votes.innermost.iter_mut().find(|(a, _)| *a == axis) {
                Some((_, sum)) => *sum += bytes,
                None => votes.innermost.push((axis, *bytes)),
            }
        }
        for (_, expr) in *indices {
            expr.for_each_leaf(&mut |leaf| {
                if let IndexExpr::Index(a) = leaf
                    && !votes.order.contains(a)
                {
                    votes.order.push(*a);
                }
            });
        }
    }
    votes
}

/// The axis along which an index expression moves by one, if there is one.
fn last_axis(expr: &IndexExpr) -> Option<AxisId> {
    match expr {
        IndexExpr::Index(a) => Some(*a),
        IndexExpr::Add(a, b) => last_axis(b).or_else(|| last_axis(a)),
        IndexExpr::Sub(a, b) => last_axis(a).or_else(|| last_axis(b)),
        IndexExpr::Mod(a, _) => last_axis(a),
        IndexExpr::Const(_) | IndexExpr::Extent(_) | IndexExpr::Param(_) | IndexExpr::Indirect(_) => None,
        IndexExpr::Mul(..) | IndexExpr::FloorDiv(..) => None,
    }
}

/// Outer axes by the layout of the heaviest buffer; lanes need the contiguous one last.
fn order_outer(outer: &[AxisId], votes: &Votes, kind: ScheduleKind) -> Vec<AxisId> {
    let mut order: Vec<AxisId> = votes.order.iter().copied().filter(|a| outer.contains(a)).collect();
    order.splice(0..0, outer.iter().copied().filter(|a| !votes.order.contains(a)));
    let lanes = match kind {
        ScheduleKind::Pointwise | ScheduleKind::Column | ScheduleKind::Depthwise => {
            let candidates = votes.innermost.iter().filter(|(a, _)| outer.contains(a));
            // `max_by_key` takes the last of equals; the heaviest buffer stands first.
            candidates.rev().max_by_key(|(_, bytes)| *bytes).map(|(a, _)| *a)
        }
        ScheduleKind::Row | ScheduleKind::Split => None,
        ScheduleKind::Contraction | ScheduleKind::Streamed => None,
    };
    if let Some(lanes) = lanes {
        order.retain(|a| *a != lanes);
        order.push(lanes);
    }
    order
}

/// The outer axes of a contraction: batch, rows, columns, each in the order in which results lie in memory.
fn order_contraction(outer: &[AxisId], group: &ScheduledGroup) -> Vec<AxisId> {
    let mut order: Vec<AxisId> = Vec::with_capacity(outer.len());
    for (_, expr) in group.stores.iter().flat_map(|s| &s.indices) {
        expr.for_each_leaf(&mut |leaf| {
            if let IndexExpr::Index(a) = leaf
                && outer.contains(a)
                && !order.contains(a)
            {
                order.push(*a);
            }
        });
    }
    order.splice(0..0, outer.iter().copied().filter(|a| !order.contains(a)).collect::<Vec<_>>());
    match find_contraction(&order, &group.reduced, &group.operands, &group.values) {
        Ok(Some((sides, _))) => [sides.batch, sides.rows, sides.columns].concat(),
        Ok(None) | Err(_) => order,
    }
}

/// Fills prologue and passes.
fn assign_passes(kernel: &Kernel, target: &Target, sizes: &Sizes, group: &mut ScheduledGroup) {
    let count = group.values.len();
    // The first sweep that can read each value: for an inner value the one that computes it.
    let mut stage = vec![0u32; count];
    let mut computed = vec![0u32; count];
    let edges = ValueEdges::compute(group);
    for k in 0..count {
        let reads = edges.reads(ValueId::from_index(k));
        let ready = reads.iter().map(|v| stage[v.index()]).max().unwrap_or(0);
        computed[k] = ready;
        stage[k] = match &group.values[k].op {
            BodyOp::Reduce { .. } | BodyOp::CumSum { .. } => ready + 1,
            BodyOp::Load(_) | BodyOp::Param(_) | BodyOp::Constant(_) => ready,
            BodyOp::Extent(_) | BodyOp::Map { .. } => ready,
        };
    }
    let is_inner = |v: usize| group.values[v].level == Level::Inner;
    let mut store_pass: Vec<u32> = group
        .stores
        .iter()
        .map(|s| {
            let k = s.value.index();
            if is_inner(k) { stage[k] } else { stage[k].saturating_sub(1) }
        })
        .collect();
    let reduced_in = (0..count).filter(|&k| matches!(group.values[k].op, BodyOp::Reduce { .. }));
    let last = reduced_in.map(|k| computed[k]).chain(store_pass.iter().copied()).max().unwrap_or(0);
    let passes = last as usize + 1;
    let (group_ref, buffered) = (&*group, vec![false; count]);
    let mut row =
        RowPlan { group: group_ref, kernel, edges: &edges, stage: &stage, computed: &computed, buffered };
    // A store over a parameter waits for the last sweep that loads it.
    let mut needed = row.demand(passes, &store_pass);
    loop {
        let mut moved = false;
        for (store, pass) in group.stores.iter().zip(&mut store_pass) {
            let BufferRef::Param(_) = store.buffer else { continue };
            let loads =
                |p: &u32| list_values(&needed[*p as usize]).any(|v| loads_buffer(group, v, store.buffer));
            let last_load = (0..passes as u32).rev().find(loads);
            if let Some(last_load) = last_load
                && last_load > *pass
            {
                *pass = last_load;
                moved = true;
            }
        }
        if !moved {
            break;
        }
        needed = row.demand(passes, &store_pass);
    }
    if passes > 1 && sizes.product(&group.reduced) <= target.row_buffer {
        row.choose_buffers(&needed);
        needed = row.demand(passes, &store_pass);
    }
    let buffered = row.buffered;
    let mut result: Vec<Pass> = needed
        .into_iter()
        .enumerate()
        .map(|(p, needed)| {
            let kept = |v: &ValueId| {
                let scan = matches!(group.value(*v).op, BodyOp::CumSum { .. });
                scan || buffered[v.index()] && stage[v.index()] == p as u32
            };
            let values: Vec<ValueId> = list_values(&needed).collect();
            Pass { buffered: values.iter().copied().filter(kept).collect(), values, ..Pass::default() }
        })
        .collect();
    let mut prologue = Vec::new();
    for k in 0..count {
        let id = ValueId::from_index(k);
        if matches!(group.values[k].op, BodyOp::Reduce { .. }) {
            result[computed[k] as usize].reductions.push(id);
        } else if group.values[k].level < Level::Inner {
            match stage[k] {
                0 => prologue.push(id),
                s => result[s as usize - 1].epilogue.push(id),
            }
        }
    }
    for (k, store) in group.stores.iter().enumerate() {
        let pass = &mut result[store_pass[k] as usize];
        let inner = group.value(store.value).level == Level::Inner;
        if inner { pass.stores.push(k as u32) } else { pass.outer_stores.push(k as u32) }
    }
    group.prologue = prologue;
    group.passes = result;
}

fn loads_buffer(group: &ScheduledGroup, value: ValueId, wanted: BufferRef) -> bool {
    let BodyOp::Load(operand) = &group.value(value).op else { return false };
    matches!(&group.operands[operand.index()], Operand::Buffer { buffer, .. } if *buffer == wanted)
}

/// The values that are marked, in order.
fn list_values(marked: &[bool]) -> impl Iterator<Item = ValueId> {
    let is_marked = |(k, marked): (usize, &bool)| marked.then(|| ValueId::from_index(k));
    marked.iter().enumerate().filter_map(is_marked)
}

struct RowPlan<'a> {
    group: &'a ScheduledGroup,
    kernel: &'a Kernel,
    edges: &'a ValueEdges,
    stage: &'a [u32],
    computed: &'a [u32],
    buffered: Vec<bool>,
}

impl RowPlan<'_> {
    /// Marks for each sweep the inner values that it computes.
    fn demand(&self, passes: usize, store_pass: &[u32]) -> Vec<Vec<bool>> {
        let group = self.group;
        let mut wanted = vec![vec![false; group.values.len()]; passes];
        let mut stack: Vec<(ValueId, u32)> = Vec::new();
        for (k, value) in group.values.iter().enumerate() {
            if let BodyOp::Reduce { sources, .. } = &value.op {
                stack.extend(sources.iter().map(|s| (*s, self.computed[k])));
            }
        }
        stack.extend(group.stores.iter().zip(store_pass).map(|(s, p)| (s.value, *p)));
        while let Some((v, pass)) = stack.pop() {
            let k = v.index();
            if group.values[k].level != Level::Inner {
                continue;
            }
            // What is kept is computed once, by the sweep that can.
            let scan = matches!(group.values[k].op, BodyOp::CumSum { .. });
            let at = if scan || self.buffered[k] { self.computed[k] } else { pass };
            if !std::mem::replace(&mut wanted[at as usize][k], true) {
                stack.extend(self.edges.reads(v).iter().map(|r| (*r, at)));
            }
        }
        wanted
    }

    /// Marks what several sweeps need and what is dear to compute again, the last in the chain of operands only.
    fn choose_buffers(&mut self, needed: &[Vec<bool>]) {
        for k in (0..self.group.values.len()).rev() {
            let scan = matches!(self.group.values[k].op, BodyOp::CumSum { .. });
            if self.buffered[k] || scan || needed.iter().filter(|pass| pass[k]).count() < 2 {
                continue;
            }
            let id = ValueId::from_index(k);
            let early = needed[self.stage[k] as usize][k];
            if early && self.is_dear(id) && self.is_frontier(id, needed) {
                self.buffered[k] = true;
            }
        }
    }

    /// Whether some sweep needs the value for something that it does not itself read from a row buffer.
    fn is_frontier(&self, id: ValueId, needed: &[Vec<bool>]) -> bool {
        let own = self.stage[id.index()];
        (own + 1..needed.len() as u32).any(|p| {
            let used = self.edges.users(id).iter().any(|u| {
                let u = u.index();
                let inside = needed[p as usize][u] && !(self.buffered[u] && self.stage[u] < p);
                let reduces = matches!(self.group.values[u].op, BodyOp::Reduce { .. });
                inside || reduces && self.computed[u] == p
            });
            let last = p + 1 == needed.len() as u32;
            used || last && self.group.stores.iter().any(|s| s.value == id)
        })
    }

    /// Whether computing it again costs more than keeping it.
    fn is_dear(&self, id: ValueId) -> bool {
        let (mut weight, mut loads) = (0u64, 0u64);
        // Each inner value has some weight, so that what is cheap is soon found to be.
        let mut seen = Vec::new();
        let mut stack = vec![id];
        while let Some(v) = stack.pop() {
            let value = self.group.value(v);
            if value.level != Level::Inner || seen.contains(&v) {
                continue;
            }
            seen.push(v);
            weight += value_weight(self.kernel, value);
            if weight > RECOMPUTE_WEIGHT {
                return true;
            }
            if matches!(value.op, BodyOp::CumSum { .. }) || (v != id && self.buffered[v.index()]) {
                continue;
            }
            if let BodyOp::Load(operand) = &value.op
                && let Operand::Buffer { .. } = &self.group.operands[operand.index()]
            {
                loads += 1 + 4 * self.edges.reads(v).len() as u64;
            }
            stack.extend(self.edges.reads(v));
        }
        loads > RECOMPUTE_LOADS
    }
}
