//! Streamed contractions: products of weights that are made, normalised and used up tile by tile.
//!
//! A task is a block of rows at one batch position. It goes through the streamed positions in blocks; of each it makes a
//! tile of scores, takes along the greatest values and sums of the rows, and adds the products of the tile to those before,
//! scaled if the reference of a row has changed. See [`StreamParts`] for what the parts compute.
//!
//! ```text
//!                      256 streamed positions at a time
//!  256 rows   scores ──▶ exp(x - c) ──▶ weights ──▶ += weights · values products, 256 × columns
//!                │            │                           ▲
//!                ▼            ▼                           │
//!             greatest      sums     when the greatest of a row grows, its sums and products are scaled
//! ```
//!
//! The sizes of blocks follow from the group and from the extents of what is not streamed alone, so that results depend
//! neither on the threads nor on the number of rows.

use super::super::bindings::{Bindings, CpuFault};
use super::super::geometry::Block;
use super::super::instruction_set::InstructionSet;
use super::super::launch::{Launch, LaunchBuffers, Steps};
use super::super::parallel::{WORTH_WAKING, run_uniform};
use super::super::prepare::{GroupExec, PrepareError};
use super::super::tile::GroupFns;
use super::super::worker::Worker;
use super::known::{Known, find_known};
use super::multiply::{self, Multiply, Operand};
use super::online::{self, Advance, Rows};
use super::panel::{PanelExec, PanelPlace};
use super::{BLOCK, MEMORY, RATE, Sizes, first_fault, prepare_part};
use fuse_ir::dtype::{DType, Value};
use fuse_ir::graph::{Kernel, MapFn};
use fuse_ir::id::{AxisId, ValueId};
use fuse_ir::schedule::streamed::{Source, StreamParts, cut_streamed};
use fuse_ir::schedule::{BodyOp, Operand as GroupOperand, ScheduledGroup};
use rayon::prelude::*;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Rows of a task: enough that packing keys and values for the multiplication costs little.
const ROWS: usize = 256;
const LEAST_ROWS: usize = 8;
/// Streamed positions of a tile.
const KEYS: usize = 256;
const LEAST_KEYS: usize = 64;
/// Elements of the products of a task, about.
const PRODUCTS: usize = 1 << 17;
/// Products of weights that are to be multiplied by more than this are not kept: what is lost below the least normal number
/// would be seen.
const GREATEST_FACTOR: f32 = (1u64 << 32) as f32;
/// Bytes of the panels and tiles of a thread: with what the multiplication packs and blocks of loops need they stay below
/// 2 MiB.
const SCRATCH: usize = 5 << 18;

/// A streamed contraction, ready to run.
#[derive(Debug)]
pub(crate) struct StreamExec {
    /// The whole group, to prepare it again for another instruction set.
    pub(crate) group: ScheduledGroup,
    pub(crate) functions: GroupFns,
    parts: StreamParts,
    panels: Vec<PanelExec>,
    scores: GroupExec,
    admitted: Option<GroupExec>,
    weights: Option<GroupExec>,
    values: PanelExec,
    of_rows: GroupExec,
    epilogue: GroupExec,
    /// Whether tiles may be passed over: nothing that is computed for them alone may fault, scores aside.
    may_exclude: bool,
    set: InstructionSet,
}

/// Whether something of a group may fault.
fn may_fault(exec: &GroupExec, but_divisions: bool) -> bool {
    let checks = |o: &GroupOperand| matches!(o, GroupOperand::Check { .. });
    exec.group.operands.iter().any(checks)
        || !but_divisions && exec.stages.iter().any(|stage| !stage.faults.is_empty())
}

impl StreamExec {
    /// Prepares a streamed group. The functions are those of its panels and scores, of admitted scores, of its weights, of the values, of rows
    /// and of the epilogue.
    pub(crate) fn new(
        kernel: &Kernel,
        group: &ScheduledGroup,
        fns: &GroupFns,
        set: InstructionSet,
    ) -> Result<StreamExec, PrepareError> {
        let parts = cut_streamed(group)
            .map_err(|e| PrepareError { reason: format!("{}: a value {}", group.id, e.because) })?;
        let mut left = fns.stages;
        let mut prepare = |part: &ScheduledGroup| prepare_part(kernel, part, &mut left, set);
        let mut panels = Vec::new();
        for panel in &parts.scores.panels {
            panels.push(PanelExec::new(prepare(&panel.group)?, panel.value, panel.is_left));
        }
        let scores = prepare(&parts.scores.epilogue)?;
        let admitted = parts.admitted.as_ref().map(|a| prepare(&a.group)).transpose()?;
        let weights = parts.weights.as_ref().map(|w| prepare(&w.group)).transpose()?;
        let values = PanelExec::new(prepare(&parts.values.group)?, parts.values.value, false);
        let of_rows = prepare(&parts.of_rows)?;
        let epilogue = prepare(&parts.epilogue)?;
        let (group, functions) = (group.clone(), *fns);
        let others = panels.iter().map(|p: &PanelExec| &p.exec).chain(&weights);
        let may_exclude = !may_fault(&scores, true) && !others.into_iter().any(|exec| may_fault(exec, false));
        Ok(StreamExec {
            may_exclude,
            group,
            functions,
            parts,
            panels,
            scores,
            admitted,
            weights,
            values,
            of_rows,
            epilogue,
            set,
        })
    }

    fn dtype_of_score(&self, v: ValueId) -> DType {
        self.scores.group.value(v).dtype.compute()
    }
}

/// The sizes of a launch.
#[derive(Clone, Copy, Debug)]
struct Extents {
    batch: usize,
    rows: usize,
    keys: usize,
    columns: usize,
    /// Reduced positions of the scores.
    depth: usize,
    tile_rows: usize,
    tile_keys: usize,
    tile_depth: usize,
}

impl Extents {
    fn new(exec: &StreamExec, bindings: &Bindings<'_>) -> Extents {
        let count = |axes: &[AxisId]| {
            axes.iter().map(|a| bindings.extents[a.index()].max(0) as usize).product::<usize>()
        };
        let (parts, scores) = (&exec.parts, &exec.group.links[0]);
        let mut e = Extents {
            batch: count(&parts.batch),
            rows: count(&parts.rows),
            keys: count(&parts.streamed),
            columns: count(&parts.columns),
            depth: count(&scores.reduced),
            tile_rows: ROWS,
            tile_keys: KEYS,
            tile_depth: super::DEPTH,
        };
        while e.tile_rows > LEAST_ROWS && e.tile_rows * e.columns > PRODUCTS {
            e.tile_rows /= 2;
        }
        e.tile_rows = e.tile_rows.min(e.rows.max(1));
        e.tile_depth = e.tile_depth.min(e.depth.max(1));
        while e.tile_keys > LEAST_KEYS && TaskLayout::new(exec, &e).bytes > SCRATCH {
            e.tile_keys /= 2;
        }
        e.tile_keys = e.tile_keys.min(e.keys.max(1));
        e
    }

    fn of_scores(&self) -> Sizes {
        Sizes {
            batch: self.batch,
            rows: self.rows,
            columns: self.keys,
            depth: self.depth,
            tile_rows: self.tile_rows,
            tile_columns: self.tile_keys,
            tile_depth: self.tile_depth,
        }
    }

    fn of_values(&self) -> Sizes {
        Sizes {
            batch: self.batch,
            rows: self.rows,
            columns: self.columns,
            depth: self.keys,
            tile_rows: self.tile_rows,
            tile_columns: self.columns.max(1),
            tile_depth: self.tile_keys,
        }
    }
}

/// Where the scratch of a task lies, in bytes.
#[derive(Clone, Debug, Default)]
struct TaskLayout {
    panels: Vec<usize>,
    values: usize,
    /// By product of the scores.
    products: Vec<usize>,
    /// By tile; one that is a product lies there.
    tiles: Vec<usize>,
    /// By kept value of the weights.
    weights: Vec<(ValueId, usize)>,
    exponentials: usize,
    sum: usize,
    greatest: usize,
    factors: usize,
    of_tile: usize,
    references: usize,
    maxima: Vec<usize>,
    sums: Vec<usize>,
    /// By value that rows give to the epilogue, over the rows.
    of_rows: Vec<(ValueId, usize)>,
    /// The same spread over a block of the epilogue, and before them the factor of the products.
    broadcast: Vec<usize>,
    factor: usize,
    /// The factor, or 1 where the weights were multiplied by it, over the rows.
    of_products: usize,
    bytes: usize,
}

impl TaskLayout {
    fn new(exec: &StreamExec, e: &Extents) -> TaskLayout {
        let parts = &exec.parts;
        let mut layout = TaskLayout::default();
        let mut bytes = 0;
        let mut take = |size: usize| {
            let at = bytes;
            bytes += size.next_multiple_of(64);
            at
        };
        let (rows, tile) = (e.tile_rows, e.tile_rows * e.tile_keys);
        for panel in &exec.panels {
            let own = if panel.is_left { rows } else { e.tile_keys };
            layout.panels.push(take(own * e.tile_depth * panel.dtype().size()));
        }
        layout.values = take(e.columns * e.tile_keys * exec.values.dtype().size());
        layout.products = parts.scores.products.iter().map(|p| take(tile * p.dtype.size())).collect();
        for (k, v) in parts.tiles.iter().enumerate() {
            let product = parts.scores.products.iter().position(|p| p.value == *v);
            let same = parts.tiles[..k].iter().position(|u| u == v);
            let at = match (product, same) {
                (Some(p), _) => layout.products[p],
                (None, Some(same)) => layout.tiles[same],
                (None, None) => take(tile * exec.dtype_of_score(*v).size()),
            };
            layout.tiles.push(at);
        }
        if let Some(weights) = &exec.weights {
            for &v in &weights.group.passes[0].buffered {
                layout.weights.push((v, take(tile * weights.group.value(v).dtype.compute().size())));
            }
        }
        layout.exponentials = match parts.exponent {
            Some(k) if !exec.reads_exponents() => layout.tiles[k],
            Some(_) => take(tile * 4),
            None => 0,
        };
        layout.sum = take(rows * e.columns * 4);
        let mut of_row = || take(rows * 4);
        (layout.greatest, layout.factors) = (of_row(), of_row());
        (layout.of_tile, layout.references) = (of_row(), of_row());
        layout.maxima = parts.maxima.iter().map(|_| of_row()).collect();
        layout.sums = parts.sums.iter().map(|_| of_row()).collect();
        for &v in &exec.of_rows.group.passes[0].buffered {
            layout.of_rows.push((v, take(rows * 8)));
        }
        let block = BLOCK.max(e.columns);
        layout.broadcast = parts.broadcast.iter().map(|_| take(block * 8)).collect();
        layout.factor = take(block * 4);
        layout.of_products = take(rows * 4);
        layout.bytes = bytes;
        layout
    }
}

impl StreamExec {
    /// Whether the exponents are read after they were exponentiated, or are a value that is read twice.
    fn reads_exponents(&self) -> bool {
        let parts = &self.parts;
        let Some(k) = parts.exponent else { return false };
        let is = |t: usize| parts.tiles[t] == parts.tiles[k];
        let reads = |source: &Source| matches!(source, Source::Tile(t) if is(*t));
        parts.weights.iter().any(|w| w.tiles.iter().any(|(_, t)| is(*t)))
            || parts.sums.iter().any(|s| reads(&s.source))
            || reads(&parts.left.0)
    }
}

/// Runs a streamed contraction; returns its first fault.
pub(crate) fn run_stream(exec: &StreamExec, bindings: &Bindings<'_>) -> Option<CpuFault> {
    let e = Extents::new(exec, bindings);
    let parts = &exec.parts;
    if e.batch == 0 || e.rows == 0 {
        return None;
    }
    let (batch, rows, keys) = (parts.batch.as_slice(), parts.rows.as_slice(), parts.streamed.as_slice());
    let buffers = Box::<LaunchBuffers>::default;
    let steps = |b: usize| Steps { outer: 1, rows: 1, a: (BLOCK / b.max(1)).max(1), b: b.max(1) };
    let launch = |exec, order: [&[AxisId]; 3], steps| -> Option<Launch<'_>> {
        let mut launch = Launch::with_sides(exec, bindings, &mut buffers(), order, steps)?;
        run_uniform(&mut launch);
        Some(launch)
    };
    let mut panels = Vec::new();
    if e.depth > 0 && e.keys > 0 {
        for panel in &exec.panels {
            let side = if panel.is_left { rows } else { keys };
            let place = PanelPlace::new(panel, bindings, &mut buffers(), (batch, side), &e.of_scores())?;
            panels.push(place);
        }
    }
    let sizes = e.of_values();
    let run = Run {
        exec,
        e,
        layout: TaskLayout::new(exec, &e),
        panels,
        scores: launch(&exec.scores, [batch, rows, keys], steps(e.tile_keys)),
        admitted: exec.admitted.as_ref().and_then(|a| launch(a, [batch, rows, keys], steps(e.tile_keys))),
        weights: exec.weights.as_ref().and_then(|w| launch(w, [batch, rows, keys], steps(e.tile_keys))),
        values: PanelPlace::new(&exec.values, bindings, &mut buffers(), (batch, &parts.columns), &sizes),
        finite: (0..e.batch * e.keys.div_ceil(e.tile_keys)).map(|_| AtomicU8::new(UNKNOWN)).collect(),
        of_rows: launch(&exec.of_rows, [batch, &[], rows], Steps { outer: 1, rows: 1, a: 1, b: e.tile_rows }),
        epilogue: launch(&exec.epilogue, [batch, rows, &parts.columns], steps(e.columns)),
    };
    run.run_tasks();
    let Run { panels, scores, admitted, weights, values, of_rows, epilogue, .. } = run;
    let of_panels = panels.into_iter().chain(values).map(|p| p.launch);
    first_fault(of_panels.chain([scores, admitted, weights, of_rows, epilogue].into_iter().flatten()))
}

/// What masks say of a tile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Seen {
    /// It is excluded as a whole: all its weights are 0 and its scores change no greatest value. Then it adds nothing, unless
    /// a value is infinite or NaN, of which the product with 0 is NaN.
    Nothing,
    /// Neither is known.
    Some,
    /// It is admitted as a whole.
    All,
}

/// Whether the values of a block are finite, as far as someone has looked.
const UNKNOWN: u8 = 0;
const FINITE: u8 = 1;
const NOT_FINITE: u8 = 2;

static TILES: AtomicU64 = AtomicU64::new(0);

/// How many tiles streamed contractions have computed in this process.
#[doc(hidden)]
pub fn count_tiles() -> u64 {
    TILES.load(Ordering::Relaxed)
}

/// One launch. What there is nothing of, because an axis is empty, is `None`.
struct Run<'a> {
    exec: &'a StreamExec,
    e: Extents,
    layout: TaskLayout,
    panels: Vec<PanelPlace<'a>>,
    scores: Option<Launch<'a>>,
    admitted: Option<Launch<'a>>,
    weights: Option<Launch<'a>>,
    values: Option<PanelPlace<'a>>,
    /// By batch position and block of streamed positions.
    finite: Vec<AtomicU8>,
    of_rows: Option<Launch<'a>>,
    epilogue: Option<Launch<'a>>,
}

/// What a thread works with.
struct Thread<'r> {
    memory: *mut u8,
    panels: Vec<Worker<'r>>,
    scores: Option<Worker<'r>>,
    admitted: Option<Worker<'r>>,
    weights: Option<Worker<'r>>,
    values: Option<Worker<'r>>,
    of_rows: Option<Worker<'r>>,
    epilogue: Option<Worker<'r>>,
    /// What the panel of each source holds.
    held: Vec<Option<[usize; 3]>>,
}

impl Thread<'_> {
    fn at<T>(&self, offset: usize) -> *mut T {
        // SAFETY: offsets of the layout lie in the thread's scratch.
        unsafe { self.memory.add(offset).cast() }
    }

    /// The array over the rows of a task at that offset.
    ///
    /// # Safety
    /// Nothing else refers to it meanwhile, and it holds numbers: scratch is initialised.
    unsafe fn row_array<'x>(&self, offset: usize, rows: usize) -> &'x mut [f32] {
        // SAFETY: by the contract.
        unsafe { std::slice::from_raw_parts_mut(self.at(offset), rows) }
    }
}

/// The rows of a task, or of those a block of streamed positions.
#[derive(Clone, Copy, Debug)]
struct Place {
    c: usize,
    row: usize,
    rows: usize,
    key: usize,
    keys: usize,
}

fn worker<'r>(launch: &'r Option<Launch<'_>>) -> Option<Worker<'r>> {
    launch.as_ref().map(|l| Worker::new(l, false))
}

impl Run<'_> {
    fn run_tasks(&self) {
        let e = &self.e;
        let down = e.rows.div_ceil(e.tile_rows);
        let tasks = e.batch * down;
        let work = e.batch * e.rows * e.keys.max(1) * (e.depth + e.columns).max(16);
        let threads = if work / RATE < WORTH_WAKING { 1 } else { rayon::current_num_threads() };
        if threads < 2 || tasks < 2 {
            return self.run_range(0..tasks);
        }
        // Tasks may differ in work where positions are excluded: many small ranges.
        let parts = tasks.min(threads * 16);
        (0..parts).into_par_iter().with_max_len(1).for_each(|part| {
            self.run_range(tasks * part / parts..tasks * (part + 1) / parts);
        });
    }

    fn run_range(&self, tasks: std::ops::Range<usize>) {
        let mut scratch = MEMORY.with_borrow_mut(Vec::pop).unwrap_or_default();
        let mut thread = Thread {
            memory: scratch.reserve(self.layout.bytes),
            panels: self.panels.iter().map(|p| Worker::new(&p.launch, false)).collect(),
            scores: worker(&self.scores),
            admitted: worker(&self.admitted),
            weights: worker(&self.weights),
            values: self.values.as_ref().map(|p| Worker::new(&p.launch, false)),
            of_rows: worker(&self.of_rows),
            epilogue: worker(&self.epilogue),
            held: vec![None; self.panels.len() + 1],
        };
        let e = &self.e;
        let down = e.rows.div_ceil(e.tile_rows);
        for task in tasks {
            let row = task % down * e.tile_rows;
            let rows = e.tile_rows.min(e.rows - row);
            self.run_task(&mut thread, Place { c: task / down, row, rows, key: 0, keys: 0 });
        }
        let Thread { panels, scores, admitted, weights, values, of_rows, epilogue, .. } = thread;
        let others = [scores, admitted, weights, values, of_rows, epilogue];
        panels.into_iter().chain(others.into_iter().flatten()).for_each(Worker::finish);
        MEMORY.with_borrow_mut(|all| all.push(scratch));
    }

    /// All products of a block of rows.
    fn run_task(&self, thread: &mut Thread<'_>, task: Place) {
        let layout = &self.layout;
        // SAFETY: the arrays are the task's own.
        unsafe {
            let lowest = layout.maxima.iter().chain([&layout.greatest]);
            lowest.for_each(|at| thread.row_array(*at, task.rows).fill(f32::NEG_INFINITY));
            layout.sums.iter().for_each(|at| thread.row_array(*at, task.rows).fill(0.0));
        }
        self.run_tiles(thread, task, false);
        self.finish_rows(thread, task);
        if self.has_lost_products(thread, task) {
            self.run_tiles(thread, task, true);
            // SAFETY: the array is the task's own.
            unsafe { thread.row_array(layout.of_products, task.rows).fill(1.0) };
        }
        self.finish_products(thread, task);
    }

    /// Goes through the streamed positions. `whole` says that the statistics of the rows are complete, and that the weights are
    /// to be multiplied by the factor of their row.
    fn run_tiles(&self, thread: &mut Thread<'_>, task: Place, whole: bool) {
        let (e, layout) = (&self.e, &self.layout);
        // No weight is 0 times a factor that is infinite or NaN.
        // SAFETY: the array is the task's own.
        let factors = unsafe { thread.row_array(layout.of_products, task.rows) };
        let may_pass = !whole || factors.iter().all(|f| f.is_finite());
        let mut first = true;
        for key in (0..e.keys).step_by(e.tile_keys) {
            let place = Place { key, keys: e.tile_keys.min(e.keys - key), ..task };
            let seen = self.find_seen(place);
            if seen == Seen::Nothing && may_pass && self.has_finite_values(thread, place) {
                continue;
            }
            TILES.fetch_add(1, Ordering::Relaxed);
            self.make_scores(thread, place, seen == Seen::All);
            self.exponentiate(thread, place);
            self.make_weights(thread, place);
            if whole {
                let tile = self.rows_at(thread, self.source(self.exec.parts.left.0), place);
                // SAFETY: tile and array are the task's own.
                unsafe { online::scale_rows(self.exec.set, tile, factors) };
            } else {
                self.take_along(thread, place, first);
            }
            self.add_products(thread, place, first);
            first = false;
        }
        if first {
            // SAFETY: the products are the task's own.
            unsafe { thread.row_array(layout.sum, task.rows * e.columns).fill(0.0) };
        }
    }

    /// Whether the products have to be made again of weights that are multiplied by the factor of their row: those of weights
    /// without it may have overflowed, or lost what the factor would have brought back.
    fn has_lost_products(&self, thread: &mut Thread<'_>, task: Place) -> bool {
        if self.exec.parts.factor.is_none() || self.of_rows.is_none() {
            return false;
        }
        let columns = self.e.columns;
        let sum = Rows { data: thread.at(self.layout.sum), stride: columns, rows: task.rows, len: columns };
        // SAFETY: the products and the array are the task's own.
        unsafe {
            let factors = thread.row_array(self.layout.of_products, task.rows);
            let usual = factors.iter().all(|f| f.abs() < GREATEST_FACTOR);
            !usual || !online::is_finite(self.exec.set, sum)
        }
    }

    /// What masks say of a tile as a whole.
    fn find_seen(&self, place: Place) -> Seen {
        let parts = &self.exec.parts;
        let Some(scores) = self.scores.as_ref().filter(|_| self.exec.may_exclude) else { return Seen::Some };
        let block = Block { c: place.c, a: place.row, a_len: place.rows, b: place.key, b_len: place.keys };
        let known = find_known(scores, &block, &[]);
        // A fault of an element is reported, whether or not it is seen.
        let faults = self.exec.scores.stages.iter().flat_map(|s| &s.faults);
        let is_safe = |v: &ValueId| match &self.exec.scores.group.value(*v).op {
            BodyOp::Map { function: MapFn::Op(_), args } => {
                args.get(1).is_some_and(|d| known[d.index()].is_nonzero_integer())
            }
            _ => false,
        };
        if !faults.into_iter().all(is_safe) {
            return Seen::Some;
        }
        let decided = |(c, wanted): &(ValueId, bool)| known[c.index()].is_truth(*wanted);
        if parts.admitted.as_ref().is_some_and(|a| a.when.iter().all(decided)) {
            return Seen::All;
        }
        let tile = |k: usize| known[parts.tiles[k].index()];
        let lowest = |k: usize| tile(k).is(f64::NEG_INFINITY);
        if !parts.exponent.is_none_or(lowest) || !parts.maxima.iter().all(|m| lowest(m.tile)) {
            return Seen::Some;
        }
        let mut of_weights = Vec::new();
        if let (Some(launch), Some(weights)) = (&self.weights, &parts.weights) {
            let zero = Known::Exactly(Value::F32(0.0));
            let mut given: Vec<(ValueId, Known)> = weights.exponential.iter().map(|v| (*v, zero)).collect();
            given.extend(weights.tiles.iter().map(|(v, k)| (*v, tile(*k))));
            of_weights = find_known(launch, &block, &given);
        }
        let nothing = |source: &Source| match source {
            Source::Exponential => true,
            Source::Tile(k) => tile(*k).is(0.0),
            Source::Weight(v) => of_weights.get(v.index()).is_some_and(|known| known.is(0.0)),
        };
        let excluded = nothing(&parts.left.0) && parts.sums.iter().all(|s| nothing(&s.source));
        if excluded { Seen::Nothing } else { Seen::Some }
    }

    /// Whether the values at the streamed positions of a tile are finite. Who asks first looks.
    fn has_finite_values(&self, thread: &mut Thread<'_>, place: Place) -> bool {
        let e = &self.e;
        let Some(values) = &self.values else { return true };
        let known = &self.finite[place.c * e.keys.div_ceil(e.tile_keys) + place.key / e.tile_keys];
        match known.load(Ordering::Relaxed) {
            FINITE => return true,
            NOT_FINITE => return false,
            _ => {}
        }
        let operand =
            self.panel(thread, self.panels.len(), values, place.c, (0, e.columns), (place.key, place.keys));
        let (side, depth) = (operand.side.unsigned_abs(), operand.depth.unsigned_abs());
        let (stride, rows, len, step) = if depth < side {
            (side, e.columns, place.keys, depth)
        } else {
            (depth, place.keys, e.columns, side)
        };
        // What lies further apart is taken as it comes.
        let finite = step <= 1 && {
            let len = if step == 0 { 1 } else { len };
            let tile = Rows { data: operand.data.cast_mut().cast(), stride, rows, len };
            // SAFETY: the operand has that many f32 elements, which nobody writes.
            unsafe { online::is_finite(self.exec.set, tile) }
        };
        known.store(if finite { FINITE } else { NOT_FINITE }, Ordering::Relaxed);
        finite
    }

    /// The tiles of a block, which masks may admit as a whole.
    fn make_scores(&self, thread: &mut Thread<'_>, place: Place, admitted: bool) {
        let (e, layout) = (&self.e, &self.layout);
        let products = &self.exec.parts.scores.products;
        for k in (0..e.depth.max(1)).step_by(e.tile_depth) {
            let depth = e.tile_depth.min(e.depth - k.min(e.depth));
            let mut operands = Vec::with_capacity(self.panels.len());
            for (i, panel) in self.panels.iter().enumerate() {
                let side = if panel.exec.is_left { (place.row, place.rows) } else { (place.key, place.keys) };
                operands.push(self.panel(thread, i, panel, place.c, side, (k, depth)));
            }
            for (p, at) in products.iter().zip(&layout.products) {
                let shape =
                    Multiply { rows: place.rows, columns: place.keys, depth, add: k > 0, set: self.exec.set };
                let operand = |k: usize| operands.get(k).copied().unwrap_or(Operand::NOTHING);
                // SAFETY: the operands have that many rows, columns and reduced positions; the tile is the task's own.
                unsafe {
                    multiply::multiply(p.dtype, shape, operand(p.left), operand(p.right), thread.at(*at));
                }
            }
        }
        let parts = &self.exec.parts;
        let admitted = parts.admitted.as_ref().zip(self.exec.admitted.as_ref()).filter(|_| admitted);
        let place_of = match admitted {
            Some(_) => &mut thread.admitted,
            None => &mut thread.scores,
        };
        let Some(mut worker) = place_of.take() else { return };
        let exec = admitted.map_or(&self.exec.scores, |(_, exec)| exec);
        // The products and the tiles, by their values in the group.
        let own = |v: ValueId| match admitted {
            Some((a, _)) => a.products.iter().find(|(_, p)| *p == v).map(|(own, _)| *own),
            None => Some(v),
        };
        let tiles: Vec<(ValueId, usize)> = match admitted {
            Some((a, _)) => a.tiles.clone(),
            None => parts.tiles.iter().copied().enumerate().map(|(k, v)| (v, k)).collect(),
        };
        let step = (BLOCK / place.keys).max(1).min(worker.launch.steps.a);
        for row in (0..place.rows).step_by(step) {
            let rows = step.min(place.rows - row);
            let block =
                Block { c: place.c, a: place.row + row, a_len: rows, b: place.key, b_len: place.keys };
            let at = |offset: usize, size: usize| thread.at::<u8>(offset + row * place.keys * size);
            for (p, offset) in products.iter().zip(&layout.products) {
                if let Some(v) = own(p.value) {
                    worker.give_tile(v, at(*offset, p.dtype.size()), place.keys);
                }
            }
            for &(v, k) in &tiles {
                let size = self.exec.dtype_of_score(parts.tiles[k]).size();
                worker.give_row_buffer(v, at(layout.tiles[k], size));
            }
            run_stages(&mut worker, exec, &block);
        }
        match admitted {
            Some(_) => thread.admitted = Some(worker),
            None => thread.scores = Some(worker),
        }
    }

    /// A source of products at these positions: where it lies, or its panel.
    fn panel(
        &self,
        thread: &mut Thread<'_>,
        index: usize,
        panel: &PanelPlace<'_>,
        c: usize,
        side: (usize, usize),
        depth: (usize, usize),
    ) -> Operand {
        if let Some(operand) = panel.direct(c, side.0, depth.0) {
            return operand;
        }
        let of_values = index == self.panels.len();
        let memory = thread.at(if of_values { self.layout.values } else { self.layout.panels[index] });
        let wanted = [c, side.0, depth.0];
        if thread.held[index] != Some(wanted) {
            let worker = if of_values { thread.values.as_mut() } else { thread.panels.get_mut(index) };
            if let Some(worker) = worker {
                panel.fill(worker, memory, c, side, depth);
            }
            thread.held[index] = Some(wanted);
        }
        panel.operand(memory, side.1, depth.1)
    }

    fn rows_at(&self, thread: &Thread<'_>, offset: usize, place: Place) -> Rows {
        Rows { data: thread.at(offset), stride: place.keys, rows: place.rows, len: place.keys }
    }

    fn source(&self, source: Source) -> usize {
        let layout = &self.layout;
        match source {
            Source::Tile(k) => layout.tiles[k],
            Source::Exponential => layout.exponentials,
            Source::Weight(v) => layout.weights.iter().find(|(u, _)| *u == v).map_or(0, |(_, at)| *at),
        }
    }

    /// The greatest values of a block, and its exponentials.
    fn exponentiate(&self, thread: &mut Thread<'_>, place: Place) {
        let (layout, parts, set) = (&self.layout, &self.exec.parts, self.exec.set);
        let n = place.rows;
        for (m, at) in parts.maxima.iter().zip(&layout.maxima) {
            if Some(m.tile) != parts.exponent {
                let tile = self.rows_at(thread, layout.tiles[m.tile], place);
                // SAFETY: tile and array are the task's own.
                unsafe { online::take_greatest(set, tile, thread.row_array(*at, n)) };
            }
        }
        if let Some(k) = parts.exponent {
            let (from, to) = (layout.tiles[k], layout.exponentials);
            // SAFETY: the arrays are the task's own and differ from one another; the tiles have that many elements.
            unsafe {
                if from != to {
                    let (from, to) = (thread.at::<f32>(from), thread.at::<f32>(to));
                    std::ptr::copy_nonoverlapping(from, to, n * place.keys);
                }
                let mut advance = Advance {
                    tile: self.rows_at(thread, to, place),
                    greatest: thread.row_array(layout.greatest, n),
                    factors: thread.row_array(layout.factors, n),
                    sums: thread.row_array(layout.of_tile, n),
                };
                online::advance(set, &mut advance);
            }
        }
    }

    /// The weights of a block, where they are more than exponentials.
    fn make_weights(&self, thread: &mut Thread<'_>, place: Place) {
        let (layout, parts, n) = (&self.layout, &self.exec.parts, place.rows);
        if let (Some(exec), Some(weights), Some(mut worker)) =
            (&self.exec.weights, &parts.weights, thread.weights.take())
        {
            let step = (BLOCK / place.keys).max(1).min(worker.launch.steps.a);
            for row in (0..n).step_by(step) {
                let rows = step.min(n - row);
                let block =
                    Block { c: place.c, a: place.row + row, a_len: rows, b: place.key, b_len: place.keys };
                let at = |offset: usize, size: usize| thread.at::<u8>(offset + row * place.keys * size);
                if let Some(v) = weights.exponential {
                    worker.give_tile(v, at(layout.exponentials, 4), place.keys);
                }
                for &(v, k) in &weights.tiles {
                    let size = self.exec.dtype_of_score(parts.tiles[k]).size();
                    worker.give_tile(v, at(layout.tiles[k], size), place.keys);
                }
                for &(v, offset) in &layout.weights {
                    worker.give_row_buffer(v, at(offset, exec.group.value(v).dtype.compute().size()));
                }
                run_stages(&mut worker, exec, &block);
            }
            thread.weights = Some(worker);
        }
    }

    /// Adds the sums of a block to those before, which are scaled.
    fn take_along(&self, thread: &mut Thread<'_>, place: Place, first: bool) {
        let (layout, parts, set) = (&self.layout, &self.exec.parts, self.exec.set);
        let n = place.rows;
        // SAFETY: the arrays are the task's own and differ from one another.
        unsafe {
            let (factors, of_tile) =
                (thread.row_array(layout.factors, n), thread.row_array(layout.of_tile, n));
            // The sums of exponentials stand there already.
            let mut order: Vec<usize> = (0..parts.sums.len()).collect();
            order.sort_by_key(|&s| parts.sums[s].source != Source::Exponential);
            for s in order {
                let sum = &parts.sums[s];
                if sum.source != Source::Exponential {
                    online::sum_rows(set, self.rows_at(thread, self.source(sum.source), place), of_tile);
                }
                let total = thread.row_array(layout.sums[s], n);
                for ((total, more), factor) in total.iter_mut().zip(&*of_tile).zip(&*factors) {
                    *total = if sum.scaled { *total * factor } else { *total } + more;
                }
            }
            if parts.left.1 && !first && factors.iter().any(|f| *f != 1.0) {
                let columns = self.e.columns;
                let sum = Rows { data: thread.at(layout.sum), stride: columns, rows: n, len: columns };
                online::scale_rows(set, sum, factors);
            }
        }
    }

    /// Adds the products of a block.
    fn add_products(&self, thread: &mut Thread<'_>, place: Place, first: bool) {
        let Some(values) = &self.values else { return };
        let depth = (place.key, place.keys);
        let right = self.panel(thread, self.panels.len(), values, place.c, (0, self.e.columns), depth);
        let left = Operand {
            data: thread.at::<u8>(self.source(self.exec.parts.left.0)),
            side: place.keys as isize,
            depth: 1,
        };
        let shape = Multiply {
            rows: place.rows,
            columns: self.e.columns,
            depth: place.keys,
            add: !first,
            set: self.exec.set,
        };
        // SAFETY: the weights are a tile of that many rows, the values have that many columns and positions, and the products
        // are the task's own.
        unsafe { multiply::multiply(DType::F32, shape, left, right, thread.at(self.layout.sum)) };
    }

    /// What is made of statistics, and stored.
    fn finish_rows(&self, thread: &mut Thread<'_>, task: Place) {
        let (layout, parts, n) = (&self.layout, &self.exec.parts, task.rows);
        if let Some(mut worker) = thread.of_rows.take() {
            // SAFETY: the arrays are the task's own and differ from one another.
            unsafe {
                let greatest = thread.row_array(layout.greatest, n);
                let references = thread.row_array(layout.references, n);
                for (c, m) in references.iter_mut().zip(&*greatest) {
                    *c = online::reference(*m);
                }
            }
            if let Some(v) = parts.reference {
                worker.give_tile(v, thread.at(layout.references), n);
            }
            for (m, at) in parts.maxima.iter().zip(&layout.maxima) {
                let at = if Some(m.tile) == parts.exponent { layout.greatest } else { *at };
                worker.give_tile(m.given, thread.at(at), n);
            }
            for (s, at) in parts.sums.iter().zip(&layout.sums) {
                worker.give_tile(s.given, thread.at(*at), n);
            }
            for &(v, at) in &layout.of_rows {
                worker.give_row_buffer(v, thread.at(at));
            }
            let block = Block { c: task.c, a: 0, a_len: 1, b: task.row, b_len: n };
            run_stages(&mut worker, &self.exec.of_rows, &block);
            thread.of_rows = Some(worker);
        }
        if let Some((_, factor)) = parts.factor {
            let from = self.of_row(factor);
            // SAFETY: both arrays have an element for each row, and differ.
            unsafe {
                std::ptr::copy_nonoverlapping::<f32>(thread.at(from), thread.at(layout.of_products), n)
            };
        }
    }

    /// Where a value of rows lies.
    fn of_row(&self, v: ValueId) -> usize {
        self.layout.of_rows.iter().find(|(u, _)| *u == v).map_or(0, |(_, at)| *at)
    }

    /// What is made of products, and stored.
    fn finish_products(&self, thread: &mut Thread<'_>, task: Place) {
        let (layout, parts, n) = (&self.layout, &self.exec.parts, task.rows);
        let Some(mut worker) = thread.epilogue.take() else { return };
        let columns = self.e.columns;
        let step = (BLOCK / columns).max(1).min(worker.launch.steps.a);
        for row in (0..n).step_by(step) {
            let rows = step.min(n - row);
            let block = Block { c: task.c, a: task.row + row, a_len: rows, b: 0, b_len: columns };
            worker.give_tile(parts.product, thread.at(layout.sum + row * columns * 4), columns);
            let factor = parts.factor.map(|(v, _)| (v, 4, layout.of_products, layout.factor));
            let others = parts.broadcast.iter().zip(&layout.broadcast).map(|(&(v, of_row), &to)| {
                let size = self.exec.of_rows.group.value(of_row).dtype.compute().size();
                (v, size, self.of_row(of_row), to)
            });
            for (v, size, from, to) in factor.into_iter().chain(others) {
                // SAFETY: the array has an element for each row, the tile room for the block.
                unsafe {
                    super::super::access::expand(
                        size,
                        thread.at(from + row * size),
                        thread.at(to),
                        &block,
                        true,
                    );
                }
                worker.give_tile(v, thread.at(to), columns);
            }
            run_stages(&mut worker, &self.exec.epilogue, &block);
        }
        thread.epilogue = Some(worker);
    }
}

fn run_stages(worker: &mut Worker<'_>, exec: &GroupExec, block: &Block) {
    for pass in &exec.passes {
        for &k in &pass.sweep {
            worker.run_stage(k, block);
        }
    }
}
