//! One launch of a group with its sizes: forms, geometry, accesses, block sizes and scratch, all without touching data.

use super::access::{Access, AccessKind, Forms};
use super::affine::{CallEnv, Domain, Form};
use super::bindings::{Bindings, Buffer, CpuFault};
use super::geometry::{Block, Geometry, Orientation};
use super::parallel::{WORTH_WAKING, work};
use super::prepare::{GroupExec, PassExec, PassReduction};
use super::reduce::Step;
use fuse_ir::dtype::{DType, Value};
use fuse_ir::id::{AxisId, ValueId};
use fuse_ir::index_map::{Bound, IndexExpr};
use fuse_ir::schedule::{BodyOp, BufferRef, CHUNK, LANES, Operand};
use fuse_ir::stage::Scalar;
use std::sync::Mutex;

/// The vectors of a launch, kept between launches so that a small one allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct LaunchBuffers {
    forms: Vec<Form>,
    limits: Vec<i64>,
    accesses: Vec<Access>,
    stores: Vec<Access>,
    direct: Vec<bool>,
    loads: Vec<usize>,
    axis_forms: Vec<(AxisId, usize)>,
    /// Of general operands the indices that are not affine: operand and layout axis. The form has the others.
    general: Vec<(usize, usize)>,
    /// Whether a general operand is one run of memory, or none, along side `b`.
    along: Vec<bool>,
    scalars: Vec<Value>,
    scalar_starts: Vec<usize>,
    uniform: Vec<(ValueId, Value)>,
}

/// One launch of a group.
pub(crate) struct Launch<'a> {
    pub(crate) exec: &'a GroupExec,
    pub(crate) bindings: &'a Bindings<'a>,
    pub(crate) env: CallEnv<'a>,
    pub(crate) domain: Domain,
    pub(crate) geometry: Geometry,
    pub(crate) buffers: Box<LaunchBuffers>,
    /// Positions along `a` and `b` of a block.
    pub(crate) steps: Steps,
    /// Whether the group's row function does the work.
    pub(crate) by_row: bool,
    /// The first fault so far, with the stage that found it and the position in the domain.
    pub(crate) fault: Mutex<Option<(Vec<i64>, CpuFault)>>,
}

// SAFETY: the pointers in a launch are those of the bindings; blocks of one launch write disjoint elements, and the
// caller of the launch vouches that nobody else touches them.
unsafe impl Sync for Launch<'_> {}

/// The sizes of blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps {
    /// Outer positions that are worked on together (plain: unused).
    pub(crate) outer: usize,
    /// Rows of a block: all that are worked on together if they are short, else one.
    pub(crate) rows: usize,
    /// Along `a`: of a plain block, or of reduced positions in columns.
    pub(crate) a: usize,
    /// Along `b`: of a plain block, or of reduced positions in rows.
    pub(crate) b: usize,
}

/// Elements of a tile. Small enough that a handful of tiles stay in the L1 cache, large enough that a call costs little.
const TILE: usize = 2048;
/// Elements of the rows that one call of a row function is given: enough that the call costs little.
const ROWS: usize = 1 << 13;
/// Rows longer than this are not for row functions: what is not read where it lies would need a copy of the row.
const LONGEST_ROW: usize = 1 << 16;
/// Elements of the rows that are worked on together: they stay in the L2 cache between the passes, and memory is read and
/// written in runs that are long enough for the processor to follow.
const LONG_ROWS: usize = 1 << 14;
/// Bytes of the accumulators of a block of columns, 64 lanes each: they stay in the L2 cache. Wide blocks read long runs
/// of memory, which is what matters.
const COLUMN_BYTES: usize = 1 << 19;
/// Runs of memory at least this long are read and written where they lie; shorter ones are copied into flat tiles, so that
/// loops are long.
pub(crate) const SHORT_RUN: usize = 64;
/// Side of the blocks of what is read across memory: long enough that few pages are touched for many elements.
const SQUARE: usize = 64;
/// Rows that running sums go along at once, so that one addition need not wait for the last.
const SCANNED_ROWS: usize = 8;

impl<'a> Launch<'a> {
    /// Resolves a launch, which takes the buffers. `None` if there is nothing to do, because there are no outer positions.
    pub(crate) fn new(
        exec: &'a GroupExec,
        bindings: &'a Bindings<'a>,
        buffers: &mut Box<LaunchBuffers>,
    ) -> Option<Launch<'a>> {
        let mut launch = Launch::unplaced(exec, bindings, buffers)?;
        launch.choose_geometry();
        launch.by_row = launch.is_work_for_rows();
        launch.choose_steps();
        launch.find_direct_stores();
        launch.collect_scalars();
        Some(launch)
    }

    /// A launch with its forms, before it is known how its domain is walked.
    pub(crate) fn unplaced(
        exec: &'a GroupExec,
        bindings: &'a Bindings<'a>,
        buffers: &mut Box<LaunchBuffers>,
    ) -> Option<Launch<'a>> {
        let env = CallEnv { extents: bindings.extents, scalars: bindings.scalars };
        let group = &exec.group;
        let domain = Domain::new(&group.outer, &group.reduced, &exec.cuts, env)?;
        if domain.extents[..domain.outer].contains(&0) {
            return None;
        }
        let mut launch = Launch {
            exec,
            bindings,
            env,
            domain,
            geometry: Geometry::new(&Domain { len: 0, outer: 0, ..domain }, false, &mut [], 0, &[]),
            buffers: std::mem::take(buffers),
            steps: Steps { outer: 1, rows: 1, a: 1, b: 1 },
            by_row: false,
            fault: Mutex::new(None),
        };
        launch.collect_forms();
        Some(launch)
    }

    /// Adds the forms of the positions on the axes of an operand's buffer; none if one is not affine, or if the operand lies
    /// in memory as one run anyway.
    pub(crate) fn add_positions(&mut self, operand: usize) -> Vec<usize> {
        let Operand::Buffer { map, .. } = &self.exec.group.operands[operand] else { return Vec::new() };
        if map.bounds.is_empty() && map.indices.iter().all(|(_, e)| matches!(e, IndexExpr::Index(_))) {
            return Vec::new();
        }
        let forms: Option<Vec<Form>> =
            map.indices.iter().map(|(_, e)| self.domain.affine(e, self.env)).collect();
        let mut positions = Vec::new();
        for form in forms.unwrap_or_default() {
            positions.push(push_form(&mut self.buffers, form, 0));
        }
        positions
    }

    /// Walks the domain by given sides, see [`Geometry::of_sides`].
    pub(crate) fn place_sides(&mut self, dims: [usize; 3], swap: bool) {
        self.geometry = Geometry::of_sides(&self.domain, &mut self.buffers.forms, dims, swap);
        self.resolve_accesses();
    }

    /// Fixes the sizes of blocks, and what depends on them.
    pub(crate) fn settle(&mut self, steps: Steps) {
        self.steps = steps;
        self.find_direct_stores();
        self.collect_scalars();
    }

    /// Of sides given as numbers of dimensions, whether the second and not the third lies along memory: for the first
    /// load that moves on either. Where both have neighbours in memory, as in a window, the longer run counts.
    pub(crate) fn runs_along(&self, [c, a, _]: [usize; 3]) -> bool {
        let b = &self.buffers;
        let nearest = |form: &Form, dims: std::ops::Range<usize>| {
            let moving = dims.filter(|&d| form.strides[d] != 0);
            let key = |d: usize| (form.strides[d].unsigned_abs(), std::cmp::Reverse(self.domain.extents[d]));
            moving.map(key).min()
        };
        for &k in &b.loads {
            let form = &b.forms[k];
            match (nearest(form, c..c + a), nearest(form, c + a..self.domain.len)) {
                (None, None) => {}
                (own, other) => {
                    return own.is_some_and(|own| other.is_none_or(|other| own < other));
                }
            }
        }
        false
    }

    /// The forms as accesses read them.
    #[inline]
    pub(crate) fn forms(&self) -> Forms<'_> {
        Forms { geometry: &self.geometry, forms: &self.buffers.forms, limits: &self.buffers.limits }
    }

    /// The access of an operand.
    #[inline]
    pub(crate) fn access(&self, operand: usize) -> &Access {
        &self.buffers.accesses[operand]
    }

    /// The access of a store.
    #[inline]
    pub(crate) fn store(&self, store: usize) -> &Access {
        &self.buffers.stores[store]
    }

    /// Whether a stage may write a store's memory itself.
    #[inline]
    pub(crate) fn is_direct(&self, store: usize) -> bool {
        self.buffers.direct[store]
    }

    /// The scalars of a stage.
    #[inline]
    pub(crate) fn scalars(&self, stage: usize) -> &[Value] {
        let start = self.buffers.scalar_starts[stage];
        &self.buffers.scalars[start..][..self.exec.stages[stage].scalars.len()]
    }

    /// The scalars of the row function.
    pub(crate) fn row_scalars(&self) -> &[Value] {
        let start = self.buffers.scalar_starts.last().copied().unwrap_or(0);
        &self.buffers.scalars[start..]
    }

    /// The position along an axis, if a general expression uses it.
    pub(crate) fn axis_form(&self, axis: AxisId) -> Option<&Form> {
        let k = self.buffers.axis_forms.iter().find(|(a, _)| *a == axis)?.1;
        self.buffers.forms.get(k)
    }

    /// A value that a uniform stage computed.
    pub(crate) fn uniform(&self, v: ValueId) -> Option<Value> {
        self.buffers.uniform.iter().find(|(u, _)| *u == v).map(|(_, value)| *value)
    }

    /// Sets uniform values and gives them to the stages that read them.
    pub(crate) fn set_uniform(&mut self, v: ValueId, value: Value) {
        self.buffers.uniform.push((v, value));
        self.collect_scalars();
    }

    pub(crate) fn into_buffers(self) -> Box<LaunchBuffers> {
        self.buffers
    }

    pub(crate) fn buffer(&self, buffer: BufferRef) -> Buffer<'a> {
        find_buffer(self.bindings, buffer)
    }

    fn collect_forms(&mut self) {
        let mut b = std::mem::take(&mut self.buffers);
        b.forms.clear();
        b.limits.clear();
        b.accesses.clear();
        b.stores.clear();
        b.loads.clear();
        b.axis_forms.clear();
        b.general.clear();
        b.uniform.clear();
        for (k, operand) in self.exec.group.operands.iter().enumerate() {
            let access = self.operand_access(k, operand, &mut b);
            if access.kind == AccessKind::Memory {
                b.loads.push(access.form);
            }
            b.accesses.push(access);
        }
        for store in &self.exec.group.stores {
            let buffer = self.buffer(store.buffer);
            let form = self.address(&store.indices, buffer.strides);
            let kind = if form.is_some() { AccessKind::Memory } else { AccessKind::General };
            if form.is_none() {
                self.add_axis_forms(store.indices.iter().map(|(_, e)| e), &mut b);
            }
            let k = push_form(&mut b, form.unwrap_or_default(), 0);
            b.stores.push(Access::new(kind, buffer.data, store.dtype, k, 0..0));
        }
        self.buffers = b;
    }

    fn operand_access(&self, index: usize, operand: &Operand, b: &mut LaunchBuffers) -> Access {
        let general = |b: &mut LaunchBuffers, data, dtype| {
            let mut exprs = Vec::new();
            operand.for_each_expr(|e| exprs.push(e.clone()));
            self.add_axis_forms(exprs.iter(), b);
            let k = push_form(b, Form::default(), 0);
            Access::new(AccessKind::General, data, dtype, k, 0..0)
        };
        match operand {
            Operand::Buffer { buffer, dtype, map } => {
                let buffer = self.buffer(*buffer);
                let bounds = self.bounds(&map.bounds, b);
                match (self.address(&map.indices, buffer.strides), bounds) {
                    (Some(form), Some(bounds)) => {
                        let k = push_form(b, form, 0);
                        Access::new(AccessKind::Memory, buffer.data, *dtype, k, bounds)
                    }
                    _ => {
                        let access = general(b, buffer.data, *dtype);
                        for (k, ((_, expr), &stride)) in map.indices.iter().zip(buffer.strides).enumerate() {
                            match self.domain.affine(expr, self.env) {
                                Some(form) => b.forms[access.form].add_scaled(&form, stride as i64),
                                None => b.general.push((index, k)),
                            }
                        }
                        access
                    }
                }
            }
            Operand::Index(expr) => match self.domain.affine(expr, self.env) {
                Some(form) => {
                    let k = push_form(b, form, 0);
                    Access::new(AccessKind::Index, std::ptr::null_mut(), DType::I64, k, 0..0)
                }
                None => general(b, std::ptr::null_mut(), DType::I64),
            },
            Operand::Mask(bounds) => match self.bounds(bounds, b) {
                Some(bounds) => {
                    let k = push_form(b, Form::default(), 0);
                    Access::new(AccessKind::Mask, std::ptr::null_mut(), DType::Bool, k, bounds)
                }
                None => general(b, std::ptr::null_mut(), DType::Bool),
            },
            Operand::Check { .. } => general(b, std::ptr::null_mut(), DType::Bool),
        }
    }

    /// The address in elements, if every index is affine.
    fn address(&self, indices: &[(AxisId, IndexExpr)], strides: &[isize]) -> Option<Form> {
        let mut form = Form::default();
        for ((_, expr), &stride) in indices.iter().zip(strides) {
            form.add_scaled(&self.domain.affine(expr, self.env)?, stride as i64);
        }
        Some(form)
    }

    /// The forms of those bounds that may fail, if all are affine.
    fn bounds(&self, bounds: &[Bound], b: &mut LaunchBuffers) -> Option<std::ops::Range<usize>> {
        let start = b.forms.len();
        for bound in bounds {
            let Some(form) = self.domain.affine(&bound.expr, self.env) else {
                b.forms.truncate(start);
                b.limits.truncate(start);
                return None;
            };
            let limit = self.env.constant(&bound.extent);
            let (low, high) = form.range(&self.domain);
            if low < 0 || high >= limit {
                push_form(b, form, limit);
            }
        }
        Some(start..b.forms.len())
    }

    fn add_axis_forms<'e>(&self, exprs: impl Iterator<Item = &'e IndexExpr>, b: &mut LaunchBuffers) {
        for expr in exprs {
            expr.for_each_leaf(&mut |leaf| {
                if let IndexExpr::Index(axis) = leaf
                    && !b.axis_forms.iter().any(|(a, _)| a == axis)
                {
                    let k = push_form(b, self.domain.index(*axis), 0);
                    b.axis_forms.push((*axis, k));
                }
            });
        }
    }

    fn choose_geometry(&mut self) {
        let b = &mut self.buffers;
        let moves = |form: &Form| form.strides[self.domain.outer..self.domain.len].iter().any(|&s| s != 0);
        // Rows or columns by what is reduced from memory; a plain domain by what is written.
        let reduced = b.loads.iter().copied().find(|&k| moves(&b.forms[k]));
        let written = b.stores.iter().find(|s| s.kind == AccessKind::Memory).map(|s| s.form);
        let primary = reduced.or(written).unwrap_or(usize::MAX);
        let mut loads = std::mem::take(&mut b.loads);
        let reads = loads.len();
        loads.extend(b.stores.iter().filter(|s| s.kind == AccessKind::Memory).map(|s| s.form));
        let reduces = !self.exec.group.reduced.is_empty();
        self.geometry = Geometry::new(&self.domain, reduces, &mut b.forms, primary, &loads);
        loads.truncate(reads);
        b.loads = loads;
        self.resolve_accesses();
    }

    /// Looks at the accesses once the geometry is known.
    fn resolve_accesses(&mut self) {
        let b = &mut self.buffers;
        let f = Forms { geometry: &self.geometry, forms: &b.forms, limits: &b.limits };
        for access in b.accesses.iter_mut().chain(&mut b.stores) {
            access.resolve(f);
        }
        self.buffers.along.clear();
        if !self.buffers.general.is_empty() {
            let along: Vec<bool> =
                (0..self.exec.group.operands.len()).map(|k| self.lies_along_memory(k)).collect();
            self.buffers.along = along;
        }
    }

    /// Whether a general operand has, for each row of a block, one place in memory from which the row is a run: its
    /// indices that are not affine, and its bounds, are the same along `b`.
    fn lies_along_memory(&self, k: usize) -> bool {
        let access = self.access(k);
        if access.kind != AccessKind::General || access.row_run().is_none() {
            return false;
        }
        let Operand::Buffer { map, .. } = &self.exec.group.operands[k] else { return false };
        let moves = |axis: AxisId| {
            let form = self.axis_form(axis);
            form.is_none_or(|f| f.strides[self.geometry.b_dims()].iter().any(|&s| s != 0))
        };
        let still = |expr: &IndexExpr| {
            let mut still = true;
            expr.for_each_leaf(&mut |leaf| {
                still &= match leaf {
                    IndexExpr::Index(axis) => !moves(*axis),
                    IndexExpr::Indirect(node) => self.operand_of(ValueId(node.0)).is_some_and(|index| {
                        let access = self.access(index);
                        access.kind == AccessKind::Memory && !access.moves_along()
                    }),
                    IndexExpr::Const(_) | IndexExpr::Extent(_) | IndexExpr::Param(_) => true,
                    IndexExpr::Add(..) | IndexExpr::Sub(..) | IndexExpr::Mul(..) => true,
                    IndexExpr::FloorDiv(..) | IndexExpr::Mod(..) => true,
                };
            });
            still
        };
        self.general_indices(k).all(|axis| still(&map.indices[axis].1))
            && map.bounds.iter().all(|bound| still(&bound.expr))
    }

    /// The layout axes of a general operand whose index is not affine.
    pub(crate) fn general_indices(&self, operand: usize) -> impl Iterator<Item = usize> {
        self.buffers.general.iter().filter(move |(k, _)| *k == operand).map(|(_, axis)| *axis)
    }

    /// Whether the rows of a general operand are runs of memory.
    pub(crate) fn is_along_memory(&self, operand: usize) -> bool {
        self.buffers.along.get(operand).copied().unwrap_or(false)
    }

    fn choose_steps(&mut self) {
        let g = &self.geometry;
        let least_one = |x: usize| x.max(1);
        self.steps = match g.orientation {
            Orientation::Plain if g.square => {
                Steps { outer: 0, rows: 0, a: g.a.min(SQUARE), b: g.b.min(SQUARE) }
            }
            Orientation::Plain => {
                let b = g.b.min(2 * TILE);
                let a = if b == g.b { least_one(2 * TILE / least_one(b)).min(least_one(g.a)) } else { 1 };
                Steps { outer: 0, rows: 0, a, b }
            }
            Orientation::Rows if self.by_row => {
                let rows = least_one(ROWS / least_one(g.b));
                let rows = if self.is_read_across() { rows.max(SQUARE) } else { rows };
                let rows = rows.min(g.a);
                Steps { outer: rows, rows, a: 1, b: g.b }
            }
            Orientation::Rows => {
                let rows = least_one(TILE / least_one(g.b)).min(g.a);
                let across = !self.is_read_across();
                let rows = if across { rows } else { rows.max(g.a.min(SQUARE)) };
                let scans = self.exec.passes.iter().any(|p| !p.scans.is_empty());
                let rows = if scans { rows.max(g.a.min(SCANNED_ROWS)) } else { rows };
                // What is reduced where it lies needs no tiles.
                let stages = &self.exec.stages;
                let keeps_nothing = |p: &PassExec| p.sweep.iter().all(|&k| stages[k].outputs.is_empty());
                let tile = if self.exec.passes.iter().all(keeps_nothing) && !scans { CHUNK } else { TILE };
                let b = if g.b <= tile && rows * g.b <= tile { g.b } else { tile / rows };
                // Steps divide the chunks of the reduction tree.
                let b = if b == g.b { b } else { prev_power_of_two(b).clamp(64, CHUNK) };
                let outer = rows.max((LONG_ROWS / least_one(g.b)).min(g.a));
                Steps { outer, rows, a: 1, b: least_one(b) }
            }
            Orientation::Columns => {
                let reductions = self.exec.passes.iter().flat_map(|p| &p.reductions);
                let bytes: usize = reductions
                    .map(|r| self.lanes(r) * r.exec.dtypes.iter().map(|d| d.size()).sum::<usize>())
                    .sum();
                let columns = g.b.min((COLUMN_BYTES / bytes.max(1)).clamp(64, TILE));
                // Flat blocks of short runs lie within the lanes.
                let most = if columns < SHORT_RUN { LANES } else { CHUNK };
                let a = prev_power_of_two(least_one(TILE / columns)).min(most);
                let flat = columns == g.b;
                Steps { outer: columns, rows: 0, a: if flat { a } else { 1 }, b: 1 }
            }
        };
    }

    /// Whether the row function is to be used: rows of memory, and as many as there are threads or little work.
    fn is_work_for_rows(&self) -> bool {
        let g = &self.geometry;
        let enough = g.a >= 2 * rayon::current_num_threads() || work(self, g.a * g.b) < WORTH_WAKING;
        let long = g.b > CHUNK && !enough;
        self.exec.row.is_some()
            && g.orientation == Orientation::Rows
            && (1..=LONGEST_ROW).contains(&g.b)
            && !long
    }

    /// The lanes of a reduction for each outer position. Those of short rows that hold only a neutral identity need not
    /// be there; a user's identity takes part in the result from every lane. The functions for whole rows take what there
    /// is.
    pub(crate) fn lanes(&self, reduction: &PassReduction) -> usize {
        let rows = self.geometry.orientation == Orientation::Rows;
        let shortens = match reduction.exec.step {
            Step::Builtin(_) => !rows || reduction.along.is_some(),
            Step::Argument(_) | Step::User(_) => false,
        };
        if !shortens {
            return reduction.exec.lanes();
        }
        self.geometry.reduced().clamp(1, LANES).next_power_of_two()
    }

    /// Whether the rows of a block are too short for a loop each.
    pub(crate) fn is_flat(&self, block: &Block) -> bool {
        block.b_len < SHORT_RUN
    }

    /// Whether an inner load's elements lie across the rows, so that several rows should be read at once.
    fn is_read_across(&self) -> bool {
        let b = &self.buffers;
        b.loads.iter().any(|&k| {
            let form = &b.forms[k];
            let least = |dims: std::ops::Range<usize>| {
                dims.map(|d| form.strides[d].unsigned_abs()).filter(|&s| s > 0).min().unwrap_or(u64::MAX)
            };
            let (down, along) = (least(self.geometry.a_dims()), least(self.geometry.b_dims()));
            down < along && along != u64::MAX
        })
    }

    /// A store is direct if its memory is none that an operand reads: a stage's outputs must not overlap its inputs.
    fn find_direct_stores(&mut self) {
        let walked =
            Domain { len: self.geometry.dims(), outer: 0, extents: self.geometry.extents, ..self.domain };
        let bytes = |access: &Access, (low, high): (i64, i64)| {
            let (size, data) = (access.dtype.size() as i64, access.data as i64);
            (data.wrapping_add(low.wrapping_mul(size)), data.wrapping_add((high + 1).wrapping_mul(size)))
        };
        let reach = |access: &Access, forms: &[Form]| bytes(access, forms[access.form].range(&walked));
        let (exec, env, bindings) = (self.exec, self.env, self.bindings);
        let whole = |operand: &Operand, strides: &[isize], access: &Access| {
            let Operand::Buffer { map, .. } = operand else { return (0, 0) };
            let (mut low, mut high) = (0i64, 0i64);
            for ((axis, _), &stride) in map.indices.iter().zip(strides) {
                let reach = (env.extent(*axis) - 1).max(0).saturating_mul(stride as i64);
                if reach < 0 { low = low.saturating_add(reach) } else { high = high.saturating_add(reach) }
            }
            bytes(access, (low, high))
        };
        let b = &mut self.buffers;
        b.direct.clear();
        for store in &b.stores {
            let mut direct = store.kind == AccessKind::Memory && store.dtype.compute() == store.dtype;
            if direct {
                let (start, end) = reach(store, &b.forms);
                for (access, operand) in b.accesses.iter().zip(&exec.group.operands) {
                    let (low, high) = match (access.kind, operand) {
                        (AccessKind::Memory, _) => reach(access, &b.forms),
                        (AccessKind::General, Operand::Buffer { buffer, .. }) => {
                            whole(operand, find_buffer(bindings, *buffer).strides, access)
                        }
                        (AccessKind::General | AccessKind::Index | AccessKind::Mask, _) => (0, 0),
                    };
                    direct &= high <= start || end <= low;
                }
            }
            b.direct.push(direct);
        }
    }

    fn collect_scalars(&mut self) {
        let mut b = std::mem::take(&mut self.buffers);
        b.scalars.clear();
        b.scalar_starts.clear();
        let of_rows = self.exec.row.iter().map(|row| &row.scalars);
        for scalars in self.exec.stages.iter().map(|stage| &stage.scalars).chain(of_rows) {
            b.scalar_starts.push(b.scalars.len());
            for (scalar, dtype) in scalars {
                let value = match scalar {
                    Scalar::Param(p) => {
                        let given = self.env.scalars.get(p.index()).copied().flatten();
                        given.unwrap_or(Value::I64(0)).cast(*dtype)
                    }
                    Scalar::Extent(extent) => Value::I64(self.env.constant(extent)),
                    Scalar::Value(v) => {
                        let known = b.uniform.iter().find(|(u, _)| u == v);
                        known.map_or(Value::zero(*dtype), |(_, value)| *value)
                    }
                };
                b.scalars.push(value);
            }
        }
        self.buffers = b;
    }

    /// The operand that a value loads.
    pub(crate) fn operand_of(&self, v: ValueId) -> Option<usize> {
        match self.exec.group.value(v).op {
            BodyOp::Load(operand) => Some(operand.index()),
            BodyOp::Param(_) | BodyOp::Constant(_) | BodyOp::Extent(_) => None,
            BodyOp::Map { .. } | BodyOp::Reduce { .. } | BodyOp::CumSum { .. } => None,
        }
    }
}

pub(crate) fn find_buffer<'a>(bindings: &Bindings<'a>, buffer: BufferRef) -> Buffer<'a> {
    let found = match buffer {
        BufferRef::Param(p) => bindings.params.get(p.index()),
        BufferRef::Result(k) => bindings.results.get(k as usize),
        BufferRef::Temp(t) => bindings.temps.get(t.index()),
    };
    found.copied().unwrap_or(Buffer { data: std::ptr::null_mut(), strides: &[] })
}

fn push_form(b: &mut LaunchBuffers, form: Form, limit: i64) -> usize {
    b.forms.push(form);
    b.limits.push(limit);
    b.forms.len() - 1
}

pub(crate) fn prev_power_of_two(x: usize) -> usize {
    if x == 0 { 1 } else { 1 << x.ilog2() }
}
