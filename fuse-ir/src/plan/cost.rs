//! What a group costs on a target: bytes, operations and modelled seconds under assumed extents.
//!
//! A launch takes the longer of its traffic and its arithmetic, at the bandwidth and rate that its independent tasks can
//! draw, plus what starting it costs. Extents that nothing states are assumed to be [`DEFAULT_EXTENT`].

use crate::graph::facts::for_each_op;
use crate::graph::{AxisSource, Kernel, MapFn};
use crate::id::{AxisId, NodeId, ParamId, ValueId};
use crate::index_map::{IndexEnv, IndexExpr, IndexMap};
use crate::lower::count_ranges;
use crate::scalar::ScalarOp;
use crate::schedule::contraction::{Sides, collect_axes, contraction_of};
use crate::schedule::edges::ValueEdges;
use crate::schedule::streamed::cut_streamed;
use crate::schedule::{BodyOp, BodyValue, BufferRef, CHUNK, Level, Operand, ScheduleKind, ScheduledGroup};
use crate::target::Target;
use std::collections::{BTreeMap, BTreeSet};

/// What an extent is assumed to be if neither the user nor the program says.
pub const DEFAULT_EXTENT: u64 = 1024;

/// Positions of a pointwise loop that are worth a task of their own.
const POINTWISE_TASK: u64 = 4096;

/// How much slower memory gives elements that are not contiguous along the lanes.
const STRIDED_PENALTY: f64 = 3.0;

/// Assumed extents of the axes of a kernel.
#[derive(Clone, Debug)]
pub struct Sizes {
    extents: Vec<u64>,
    stated: Vec<bool>,
}

impl Sizes {
    /// The extents to plan with: what the user assumes, what is static, what follows from those, else
    /// [`DEFAULT_EXTENT`].
    pub fn compute(kernel: &Kernel) -> Self {
        let count = kernel.axes.len();
        let mut sizes = Sizes { extents: vec![DEFAULT_EXTENT; count], stated: vec![false; count] };
        for (k, axis) in kernel.axes.iter().enumerate() {
            let known = match (axis.assumed, &axis.source) {
                (Some(n), _) => Some(n.min(1 << 40)),
                (None, AxisSource::Static(n)) => Some((*n).min(1 << 40)),
                (None, AxisSource::Derived(_) | AxisSource::Shape | AxisSource::Host(_)) => None,
            };
            if let Some(n) = known {
                (sizes.extents[k], sizes.stated[k]) = (n, true);
            }
        }
        // Derived extents may follow from later axes; two rounds settle what is not circular in practice.
        for _ in 0..2 {
            for (k, axis) in kernel.axes.iter().enumerate() {
                if let (None, AxisSource::Derived(expr)) = (axis.assumed, &axis.source) {
                    let n = expr.eval(&sizes);
                    let mut stated = true;
                    expr.for_each_leaf(&mut |leaf| {
                        stated &= match leaf {
                            IndexExpr::Extent(a) => sizes.stated[a.index()],
                            IndexExpr::Const(_) => true,
                            _ => false,
                        };
                    });
                    sizes.extents[k] = if n > 0 { n as u64 } else { DEFAULT_EXTENT };
                    sizes.stated[k] = stated;
                }
            }
        }
        sizes
    }

    /// The assumed extent of an axis.
    pub fn get(&self, axis: AxisId) -> u64 {
        self.extents[axis.index()]
    }

    /// Whether the user or the program says the extent.
    pub fn is_stated(&self, axis: AxisId) -> bool {
        self.stated[axis.index()]
    }

    /// The number of positions on some axes.
    pub fn product(&self, axes: &[AxisId]) -> u64 {
        self.product_of(axes.iter().copied())
    }

    /// The number of positions on some axes. Beyond what memory holds it stays there, so that sums of bytes over many
    /// buffers do not overflow.
    pub fn product_of(&self, axes: impl IntoIterator<Item = AxisId>) -> u64 {
        axes.into_iter().fold(1, |n: u64, a| n.saturating_mul(self.get(a))).min(1 << 48)
    }

    /// All axes with their assumed extents.
    pub fn all(&self) -> Vec<(AxisId, u64)> {
        self.extents.iter().enumerate().map(|(k, n)| (AxisId::from_index(k), *n)).collect()
    }
}

impl IndexEnv for Sizes {
    fn index(&self, _: AxisId) -> i64 {
        0
    }

    fn extent(&self, axis: AxisId) -> i64 {
        self.get(axis) as i64
    }

    fn param(&self, _: ParamId) -> i64 {
        0
    }

    fn indirect(&self, _: NodeId) -> i64 {
        0
    }
}

/// What a group costs.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Price {
    /// Bytes read and written over memory.
    pub bytes: u64,
    /// Scalar operations, each counted as one.
    pub operations: u64,
    /// Modelled seconds of its launches, starting them included.
    pub seconds: f64,
}

impl std::ops::Add for Price {
    type Output = Price;

    fn add(self, other: Price) -> Price {
        Price {
            bytes: self.bytes.saturating_add(other.bytes),
            operations: self.operations.saturating_add(other.operations),
            seconds: self.seconds + other.seconds,
        }
    }
}

/// Rows and columns of the tiles of a contraction, and of the smaller ones that are taken where those are few.
const TILE: (u64, u64) = (256, 512);
const SMALL_TILE: (u64, u64) = (64, 128);
/// Bytes that stay in the cache of a unit from one use to the next.
const CACHE: u64 = 1 << 20;
/// Elements of the products of a block of rows of a streamed group, about.
const STREAMED_PRODUCTS: u64 = 1 << 17;

/// What the sides of a contraction say of its cost.
struct Contraction {
    sides: Sides,
    products: u64,
    /// The axes on which each value depends.
    axes: Vec<BTreeSet<AxisId>>,
    /// Whether it is a link of a streamed group, of which all columns share a tile of rows.
    streamed: bool,
}

impl Contraction {
    fn find(group: &ScheduledGroup, streamed: bool) -> Option<Self> {
        if group.kind != ScheduleKind::Contraction {
            return None;
        }
        let (sides, products) = contraction_of(group)?;
        let axes = collect_axes(&group.operands, &group.values, &group.reduced);
        Some(Contraction { sides, products: products.len() as u64, axes, streamed })
    }

    /// How often an inner value is computed: for its own axes, again for each tile of the side that it does not have.
    fn positions(&self, sizes: &Sizes, v: ValueId) -> u64 {
        let axes = &self.axes[v.index()];
        let own = sizes.product_of(axes.iter().copied());
        let again = |side: &[AxisId], tile: u64| {
            let has = side.iter().any(|a| axes.contains(a));
            if has { 1 } else { sizes.product(side).div_ceil(tile).max(1) }
        };
        let columns = if self.streamed { u64::MAX } else { TILE.1 };
        own.saturating_mul(again(&self.sides.rows, TILE.0))
            .saturating_mul(again(&self.sides.columns, columns))
    }

    /// Each block of rows of a streamed group reads again what has no rows; the products of a block fit the cache.
    fn read_again(
        &self,
        target: &Target,
        sizes: &Sizes,
        group: &ScheduledGroup,
        reads: &mut BTreeMap<BufferRef, BufferRead>,
    ) {
        let batch = sizes.product(&self.sides.batch).max(1);
        let rows = sizes.product(&self.sides.rows);
        let block = (STREAMED_PRODUCTS / sizes.product(&self.sides.columns).max(1)).clamp(8, TILE.0);
        let again = rows.div_ceil(block).saturating_sub(1);
        for (k, value) in group.values.iter().enumerate() {
            let BodyOp::Load(operand) = &value.op else { continue };
            let has_rows = self.sides.rows.iter().any(|a| self.axes[k].contains(a));
            if let (Operand::Buffer { buffer, .. }, false) = (&group.operands[operand.index()], has_rows)
                && let Some(read) = reads.get_mut(buffer)
            {
                let cached = read.bytes / batch <= CACHE;
                let gain = if cached { target.cache_gain } else { 1.0 };
                read.effective += read.bytes as f64 * again as f64 / gain;
            }
        }
    }

    fn tasks(&self, sizes: &Sizes) -> u64 {
        let tiles = |side: &[AxisId], tile: u64| sizes.product(side).div_ceil(tile);
        sizes
            .product(&self.sides.batch)
            .saturating_mul(tiles(&self.sides.rows, SMALL_TILE.0))
            .saturating_mul(tiles(&self.sides.columns, SMALL_TILE.1))
    }
}

/// The buffers that lie between the links of a group.
pub fn buffers_between(group: &ScheduledGroup) -> BTreeSet<BufferRef> {
    let stays = |b: &BufferRef| group.stores.iter().any(|s| s.buffer == *b);
    group.links.iter().flat_map(|l| &l.stores).map(|s| s.buffer).filter(|b| !stays(b)).collect()
}

/// The cost of a group.
pub fn price_group(kernel: &Kernel, target: &Target, sizes: &Sizes, group: &ScheduledGroup) -> Price {
    let whole = price_in_ranges(kernel, target, sizes, group, 1);
    // A contract of one launch leaves none to put ranges together.
    if group.kind != ScheduleKind::Streamed || kernel.launches == Some(1) {
        return whole;
    }
    match price_of_ranges(kernel, target, sizes, group) {
        Some((_, apart)) if apart.seconds < whole.seconds => apart,
        Some(_) | None => whole,
    }
}

/// How many ranges of the keys of a streamed group have blocks of their own on a GPU, if there are several, and the cost with
/// what puts them together. CPUs put ranges together without a launch.
pub(super) fn price_of_ranges(
    kernel: &Kernel,
    target: &Target,
    sizes: &Sizes,
    group: &ScheduledGroup,
) -> Option<(u64, Price)> {
    if target.registers == 0 {
        return None;
    }
    let parts = cut_streamed(group).ok()?;
    let [batch, rows, columns, keys] =
        [&parts.batch, &parts.rows, &parts.columns, &parts.streamed].map(|axes| sizes.product(axes));
    let ranges = count_ranges(target.units.into(), [batch, rows, columns, keys]);
    if ranges < 2 {
        return None;
    }
    let mut price = price_in_ranges(kernel, target, sizes, group, ranges);
    // Products and statistics of each row are left in memory by each range, and read once.
    let lines = batch.saturating_mul(rows).saturating_mul(ranges);
    let left = columns + parts.sums.len() as u64 + parts.maxima.len().max(1) as u64;
    let bytes = lines.saturating_mul(left).saturating_mul(8);
    price.bytes = price.bytes.saturating_add(bytes);
    price.seconds += bytes as f64 / target.bandwidth + target.launch;
    Some((ranges, price))
}

/// The cost of a group of which so many ranges of the reduced positions have blocks of their own, without what puts them
/// together.
pub(super) fn price_in_ranges(
    kernel: &Kernel,
    target: &Target,
    sizes: &Sizes,
    group: &ScheduledGroup,
    ranges: u64,
) -> Price {
    let between = buffers_between(group);
    // What several links need is computed once.
    let mut charged: BTreeSet<NodeId> = BTreeSet::new();
    let works = group.loops().iter().map(|each| {
        let work = price_loop(kernel, target, sizes, each, (&between, &charged));
        charged.extend(each.values.iter().filter(|_| !group.links.is_empty()).filter_map(|v| v.node));
        work
    });
    let work = works.fold(Work::default(), |sum, work| Work {
        bytes: sum.bytes.saturating_add(work.bytes),
        operations: sum.operations.saturating_add(work.operations),
        effective: sum.effective + work.effective,
        weight: sum.weight.saturating_add(work.weight),
        // Of a streamed group the last link says how many tasks there are.
        tasks: work.tasks,
    });
    let parallel = work.tasks.saturating_mul(ranges).clamp(1, u64::from(target.units)) as f64;
    let bandwidth = target.bandwidth.min(parallel * target.unit_bandwidth);
    let seconds = (work.effective / bandwidth).max(work.weight as f64 / (parallel * target.unit_rate));
    let seconds = seconds + f64::from(group.launches()) * target.launch;
    Price { bytes: work.bytes, operations: work.operations, seconds }
}

/// What a loop has to do.
#[derive(Clone, Copy, Default)]
struct Work {
    bytes: u64,
    operations: u64,
    /// Bytes weighed by how they lie.
    effective: f64,
    /// Simple operations.
    weight: u64,
    tasks: u64,
}

/// The work of one loop, traffic of some buffers and some values aside.
fn price_loop(
    kernel: &Kernel,
    target: &Target,
    sizes: &Sizes,
    group: &ScheduledGroup,
    (between, charged): (&BTreeSet<BufferRef>, &BTreeSet<NodeId>),
) -> Work {
    let contraction = Contraction::find(group, !between.is_empty());
    let rows = sizes.product(&group.outer);
    let length = sizes.product(&group.reduced);
    let positions = |level| match level {
        Level::Uniform => 1,
        Level::Outer => rows,
        Level::Inner => rows.saturating_mul(length),
    };
    let tasks = match group.kind {
        ScheduleKind::Pointwise => rows.div_ceil(POINTWISE_TASK),
        ScheduleKind::Row => rows,
        ScheduleKind::Contraction => contraction.as_ref().map_or(rows, |c| c.tasks(sizes)),
        ScheduleKind::Streamed => rows,
        ScheduleKind::Column | ScheduleKind::Depthwise => rows.div_ceil(u64::from(target.lanes).min(64)),
        ScheduleKind::Split => rows.saturating_mul(length.div_ceil(CHUNK as u64)),
    };
    let (mut weight, mut operations) = (0u64, 0u64);
    let mut charge = |id: ValueId| {
        let value = group.value(id);
        if value.node.is_some_and(|node| charged.contains(&node)) {
            return;
        }
        let times = match &contraction {
            Some(c) if value.level == Level::Inner || c.streamed => c.positions(sizes, id),
            Some(_) | None => positions(value.level),
        };
        weight = weight.saturating_add(times.saturating_mul(value_weight(kernel, value)));
        operations = operations.saturating_add(times.saturating_mul(value_operations(kernel, value)));
    };
    group.prologue.iter().for_each(|v| charge(*v));
    for pass in &group.passes {
        pass.values.iter().chain(&pass.epilogue).for_each(|v| charge(*v));
    }
    for pass in &group.passes {
        let inner = positions(Level::Inner);
        if let Some(c) = &contraction {
            let products = inner.saturating_mul(c.products);
            weight =
                weight.saturating_add((products as f64 * target.unit_rate / target.multiply_adds) as u64);
            operations = operations.saturating_add(products.saturating_mul(2));
            continue;
        }
        if group.kind == ScheduleKind::Depthwise {
            weight = weight.saturating_add((inner as f64 * target.unit_rate / target.multiply_adds) as u64);
            operations = operations.saturating_add(inner.saturating_mul(2));
            continue;
        }
        // A reduction step for each element; a row buffer is a store and about one load.
        let steps = pass.reductions.len() + 2 * pass.buffered.len();
        weight = weight.saturating_add(inner.saturating_mul(steps as u64));
        operations = operations.saturating_add(inner.saturating_mul(pass.reductions.len() as u64));
    }
    let mut reads = buffer_reads(kernel, sizes, group);
    if let Some(c) = contraction.as_ref().filter(|c| c.streamed) {
        c.read_again(target, sizes, group, &mut reads);
    }
    let mut bytes = 0u64;
    let mut effective = 0.0;
    for (_, read) in reads.iter().filter(|(buffer, _)| !between.contains(buffer)) {
        bytes = bytes.saturating_add(read.bytes);
        effective += read.effective;
        // Reading a row again costs little while it is in the cache.
        let again = read.again as f64;
        let cached = length.saturating_mul(8) <= CACHE;
        effective += if cached { again / target.cache_gain } else { again };
    }
    let lane = lane_axes(group);
    for store in group.stores.iter().filter(|s| !between.contains(&s.buffer)) {
        let level = group.value(store.value).level;
        let stored = positions(level).saturating_mul(store.dtype.size() as u64);
        bytes = bytes.saturating_add(stored);
        let exprs = store.indices.iter().map(|(_, e)| e);
        let strided = level == Level::Inner && is_strided(exprs, &lane);
        effective += stored as f64 * if strided { STRIDED_PENALTY } else { 1.0 };
    }
    Work { bytes, operations, effective, weight, tasks }
}

/// What a group reads of one buffer.
#[derive(Clone, Copy, Default)]
struct BufferRead {
    /// Bytes over memory.
    bytes: u64,
    /// The same, weighed by how they lie.
    effective: f64,
    /// Bytes that later sweeps read again.
    again: u64,
}

fn buffer_reads(kernel: &Kernel, sizes: &Sizes, group: &ScheduledGroup) -> BTreeMap<BufferRef, BufferRead> {
    let mut sweeps = vec![0u64; group.operands.len()];
    for pass in &group.passes {
        for v in pass.values.iter() {
            if let BodyOp::Load(operand) = &group.value(*v).op {
                sweeps[operand.index()] += 1;
            }
        }
    }
    let lane = lane_axes(group);
    let mut reads: BTreeMap<BufferRef, BufferRead> = BTreeMap::new();
    for (operand, sweeps) in group.operands.iter().zip(sweeps) {
        let Operand::Buffer { buffer, dtype, map } = operand else { continue };
        let size = dtype.size() as u64;
        let whole = sizes.product_of(map.indices.iter().map(|(a, _)| *a)).saturating_mul(size);
        let footprint = operand_elements(kernel, sizes, map).saturating_mul(size);
        let strided = sweeps > 0 && is_strided(map.indices.iter().map(|(_, e)| e), &lane);
        let read = reads.entry(*buffer).or_default();
        let fresh = footprint.min(whole.saturating_sub(read.bytes));
        read.bytes += fresh;
        read.effective += fresh as f64 * if strided { STRIDED_PENALTY } else { 1.0 };
        read.again += (footprint - fresh) + footprint.saturating_mul(sweeps.saturating_sub(1));
    }
    reads
}

/// The axes along which lanes run: the last outer one, or the reduced ones from the last.
fn lane_axes(group: &ScheduledGroup) -> Option<AxisId> {
    match group.kind {
        ScheduleKind::Pointwise | ScheduleKind::Column | ScheduleKind::Depthwise => {
            group.outer.last().copied()
        }
        ScheduleKind::Row | ScheduleKind::Split => group.reduced.last().copied(),
        // Panels are read along memory, whichever way it lies.
        ScheduleKind::Contraction | ScheduleKind::Streamed => None,
    }
}

/// Whether lanes touch elements that do not lie side by side.
fn is_strided<'a>(exprs: impl DoubleEndedIterator<Item = &'a IndexExpr>, lane: &Option<AxisId>) -> bool {
    let Some(lane) = lane else { return false };
    let mut exprs = exprs.rev();
    let last = exprs.next().is_some_and(|e| e.uses_index(*lane));
    !last && exprs.any(|e| e.uses_index(*lane))
}

/// How many different elements a load touches over the whole domain, at most the buffer's.
pub fn operand_elements(kernel: &Kernel, sizes: &Sizes, map: &IndexMap) -> u64 {
    let whole = sizes.product_of(map.indices.iter().map(|(a, _)| *a));
    let mut axes: Vec<AxisId> = Vec::new();
    let mut indirect = false;
    for (_, e) in &map.indices {
        e.for_each_leaf(&mut |leaf| match leaf {
            IndexExpr::Index(a) if !axes.contains(a) => axes.push(*a),
            IndexExpr::Indirect(_) => indirect = true,
            _ => {}
        });
    }
    debug_assert!(axes.iter().all(|a| a.index() < kernel.axes.len()));
    if indirect { whole } else { whole.min(sizes.product_of(axes)) }
}

/// The cost of one value in simple operations.
pub fn value_weight(kernel: &Kernel, value: &BodyValue) -> u64 {
    match &value.op {
        BodyOp::Load(_) => 1,
        BodyOp::Param(_) | BodyOp::Constant(_) | BodyOp::Extent(_) => 0,
        BodyOp::Map { function, .. } => map_weight(kernel, *function),
        BodyOp::Reduce { .. } => 0,
        // Each element waits for the one before.
        BodyOp::CumSum { .. } => 4,
    }
}

/// The cost of a map in simple operations.
pub fn map_weight(kernel: &Kernel, function: MapFn) -> u64 {
    match function {
        MapFn::Op(op) => op_weight(op),
        MapFn::Call { function, .. } => {
            let mut sum = 0u64;
            if let Some(f) = kernel.functions.get(function.index()) {
                for_each_op(kernel, f, 1, &mut |op, times| {
                    sum = sum.saturating_add(times.saturating_mul(op_weight(op)));
                });
            }
            sum.max(1)
        }
    }
}

fn value_operations(kernel: &Kernel, value: &BodyValue) -> u64 {
    match &value.op {
        BodyOp::Load(_) | BodyOp::Param(_) | BodyOp::Constant(_) | BodyOp::Extent(_) => 0,
        BodyOp::Reduce { .. } => 0,
        BodyOp::CumSum { .. } => 1,
        BodyOp::Map { function, .. } => map_operations(kernel, *function),
    }
}

/// The operations of a map, each counted as one; casts are none.
pub fn map_operations(kernel: &Kernel, function: MapFn) -> u64 {
    match function {
        MapFn::Op(ScalarOp::Cast(_)) => 0,
        MapFn::Op(_) => 1,
        MapFn::Call { function, .. } => {
            let mut sum = 0u64;
            if let Some(f) = kernel.functions.get(function.index()) {
                for_each_op(kernel, f, 1, &mut |op, times| {
                    sum = sum.saturating_add(if matches!(op, ScalarOp::Cast(_)) { 0 } else { times });
                });
            }
            sum
        }
    }
}

/// The cost of an operation in additions, when vectorised: rounded from measured times of branch-free versions.
fn op_weight(op: ScalarOp) -> u64 {
    use ScalarOp::*;
    match op {
        Add | Sub | Mul | Neg | Not | And | Or | Xor | Shl | Shr | Min | Max | MulAdd | Eq | Ne | Lt | Le
        | Gt | Ge | Select | Abs | Copysign | ToBits | FromBits | IsNan | IsInfinite | IsFinite
        | IsSignNegative | AbsDiff => 1,
        Minimum | Maximum | Clamp | Cast(_) | Signum | Floor | Ceil | Trunc | Round | RoundTiesEven
        | Fract | SaturatingAdd | SaturatingSub => 2,
        Div | Sqrt | Recip => 4,
        Rsqrt | CountOnes | LeadingZeros | TrailingZeros => 6,
        Exp | Exp2 | ExpM1 | Ln | Log2 | Log10 | Ln1p | Cbrt | Hypot => 12,
        Tanh | Sigmoid | Erf | Sin | Cos | Atan => 20,
        Erfc | Tan | Asin | Acos | Atan2 | Sinh | Cosh | Asinh | Acosh | Atanh => 30,
        Rem | DivEuclid | RemEuclid | Powi | Pow => 30,
        Powf | Philox => 50,
    }
}

/// The greatest number of inner values that live at once in a sweep.
pub fn count_live_values(target: &Target, group: &ScheduledGroup) -> u32 {
    let wide = target.registers > 0;
    let mut greatest = 0;
    let edges = ValueEdges::compute(group);
    for pass in &group.passes {
        let end = pass.values.len();
        let mut last_use: Vec<Option<usize>> = vec![None; group.values.len()];
        for (k, v) in pass.values.iter().enumerate() {
            for read in edges.reads(*v) {
                last_use[read.index()] = Some(k);
            }
        }
        // A value that only a store or a reduction reads is consumed where it is made.
        let mut ends = vec![0u32; end];
        let mut live = 0u32;
        for (k, v) in pass.values.iter().enumerate() {
            let size = if wide && group.value(*v).dtype.compute().size() == 8 { 2 } else { 1 };
            live += size;
            greatest = greatest.max(live);
            ends[last_use[v.index()].unwrap_or(k)] += size;
            live -= ends[k];
        }
    }
    greatest
}

/// Operations that a call of a scalar function counts as, at most: it is code once, however often it is called.
pub const MOST_OP_CODE: u64 = 64;

/// Values of all sweeps with the operations of the functions they call: about the length of the code.
pub fn count_code(kernel: &Kernel, group: &ScheduledGroup) -> u32 {
    let size = |group: &ScheduledGroup, v: &ValueId| match &group.value(*v).op {
        BodyOp::Map { function, .. } => map_operations(kernel, *function).clamp(1, MOST_OP_CODE) as u32,
        BodyOp::Load(_) | BodyOp::Reduce { .. } | BodyOp::CumSum { .. } => 1,
        BodyOp::Param(_) | BodyOp::Constant(_) | BodyOp::Extent(_) => 0,
    };
    let of_loop = |group: &ScheduledGroup| -> u32 {
        let sweeps = group.passes.iter().flat_map(|p| p.values.iter().chain(&p.epilogue));
        group.prologue.iter().chain(sweeps).map(|v| size(group, v)).sum()
    };
    group.loops().iter().map(of_loop).sum()
}

/// Buffers and scalars that the launch is given.
pub fn count_parameters(group: &ScheduledGroup) -> u32 {
    let mut buffers = BTreeSet::new();
    let mut scalars = BTreeSet::new();
    for operand in &group.operands {
        if let Operand::Buffer { buffer, .. } = operand {
            buffers.insert(*buffer);
        }
        operand.for_each_expr(|e| {
            e.for_each_leaf(&mut |leaf| {
                if let IndexExpr::Param(p) = leaf {
                    scalars.insert(*p);
                }
            });
        });
    }
    buffers.extend(group.stores.iter().map(|s| s.buffer));
    scalars.extend(group.values.iter().filter_map(|v| match &v.op {
        BodyOp::Param(p) => Some(*p),
        _ => None,
    }));
    (buffers.len() + scalars.len()) as u32
}
