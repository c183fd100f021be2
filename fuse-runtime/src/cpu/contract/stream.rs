//! Streamed contractions: products of weights that are made, normalised and used up tile by tile.
//!
//! A task is a block of rows at one batch position. It goes through the streamed positions in blocks; of each it makes a
//! tile of scores, takes along the greatest values and sums of the rows, and adds the products of the tile to those before,
//! scaled if the reference of a row has changed. See [`StreamParts`] for what the parts compute.
//!
//! ```text
//!                      256 streamed positions at a time
//!    rows     scores ──▶ exp(x - c) ──▶ weights ──▶ += weights · values products, rows × columns
//!                │            │                           ▲
//!                ▼            ▼                           │
//!             greatest      sums     when the greatest of a row grows, its sums and products are scaled
//! ```
//!
//! Where the multiplication is fast for a few rows, strips of rows go through all steps of a tile one after the other, so that
//! what one step leaves for the next lies in the first cache.
//!
//! Many streamed positions are cut into ranges. Each has greatest values, sums and products of its own, which are put
//! together in order; where there are fewer tasks than threads, the ranges of a task run side by side.
//!
//! The sizes of blocks and ranges follow from the group and from the extents of what is streamed and of the columns alone, so
//! that results depend neither on the threads nor on the number of rows.

mod layout;
mod masks;
mod ranges;
mod tiles;

use super::super::bindings::{Bindings, CpuFault};
use super::super::geometry::Block;
use super::super::instruction_set::InstructionSet;
use super::super::launch::{Launch, LaunchBuffers, Steps};
use super::super::parallel::{WORTH_WAKING, run_uniform};
use super::super::prepare::{GroupExec, PrepareError};
use super::super::scratch::Scratch;
use super::super::tile::GroupFns;
use super::super::worker::Worker;
use super::online::{self, Rows};
use super::panel::{PanelExec, PanelPlace};
use super::{BLOCK, RATE, first_fault, prepare_part};
use fuse_ir::dtype::DType;
use fuse_ir::graph::Kernel;
use fuse_ir::id::{AxisId, ValueId};
use fuse_ir::schedule::streamed::{StreamParts, cut_streamed};
use fuse_ir::schedule::{Operand as GroupOperand, ScheduledGroup};
use layout::{Extents, TaskLayout};
use masks::{Seen, UNKNOWN};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Products of weights that are to be multiplied by more than this are not kept: what is lost below the least normal number
/// would be seen.
const GREATEST_FACTOR: f32 = (1u64 << 32) as f32;

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
    /// Prepares a streamed group. The functions are those of its panels and scores, of admitted scores, of its weights, of
    /// the values, of rows and of the epilogue.
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

/// The positions that the scratch of a source holds, by their first ones: batch, side and depth.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    panel: Option<[usize; 3]>,
    packed: Option<[usize; 3]>,
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
    /// By source of products.
    held: Vec<Held>,
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

/// Rows of a task, and of those a block of streamed positions.
#[derive(Clone, Copy, Debug)]
struct Place {
    c: usize,
    /// The first row of the task, and how many it has.
    task: usize,
    of_task: usize,
    /// The first of these rows in the task, and how many they are.
    first: usize,
    rows: usize,
    /// The first streamed position, how many its block has, and how many of those these rows go through.
    key: usize,
    of_block: usize,
    keys: usize,
}

impl Place {
    /// The first of these rows.
    fn row(&self) -> usize {
        self.task + self.first
    }
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
        if self.splits(tasks, threads) {
            return self.run_ranges(tasks);
        }
        if threads < 2 || tasks < 2 {
            return self.run_range(0..tasks);
        }
        // Tasks may differ in work where positions are excluded: many small ranges.
        let parts = tasks.min(threads * 16);
        (0..parts).into_par_iter().with_max_len(1).for_each(|part| {
            self.run_range(tasks * part / parts..tasks * (part + 1) / parts);
        });
    }

    fn run_range(&self, tasks: Range<usize>) {
        self.with_thread(|thread| {
            for task in tasks {
                self.run_task(thread, self.place_of(task));
            }
        });
    }

    /// Gives what a thread works with.
    fn with_thread(&self, work: impl FnOnce(&mut Thread<'_>)) {
        let mut scratch = Scratch::take();
        let mut thread = Thread {
            memory: scratch.reserve(self.layout.bytes),
            panels: self.panels.iter().map(|p| Worker::new(&p.launch, false)).collect(),
            scores: worker(&self.scores),
            admitted: worker(&self.admitted),
            weights: worker(&self.weights),
            values: self.values.as_ref().map(|p| Worker::new(&p.launch, false)),
            of_rows: worker(&self.of_rows),
            epilogue: worker(&self.epilogue),
            held: vec![Held::default(); self.layout.sources.len()],
        };
        work(&mut thread);
        let Thread { panels, scores, admitted, weights, values, of_rows, epilogue, .. } = thread;
        let others = [scores, admitted, weights, values, of_rows, epilogue];
        panels.into_iter().chain(others.into_iter().flatten()).for_each(Worker::finish);
        scratch.keep();
    }

    /// The rows of the task of that number.
    fn place_of(&self, task: usize) -> Place {
        let e = &self.e;
        let down = e.rows.div_ceil(e.tile_rows);
        let row = task % down * e.tile_rows;
        let rows = e.tile_rows.min(e.rows - row);
        Place { c: task / down, task: row, of_task: rows, first: 0, rows, key: 0, of_block: 0, keys: 0 }
    }

    /// All products of a block of rows.
    fn run_task(&self, thread: &mut Thread<'_>, task: Place) {
        self.run_keys(thread, task, 0);
        for range in 1..self.e.ranges {
            self.put_aside(thread);
            self.run_keys(thread, task, range);
            self.add_earlier(thread, task.rows);
        }
        self.finish_task(thread, task);
    }

    /// The greatest values, sums and products of a block of rows over a range of streamed positions.
    fn run_keys(&self, thread: &mut Thread<'_>, task: Place, range: usize) {
        let layout = &self.layout;
        // SAFETY: the arrays are the task's own.
        unsafe {
            let lowest = layout.maxima.iter().chain([&layout.greatest]);
            lowest.for_each(|at| thread.row_array(*at, task.rows).fill(f32::NEG_INFINITY));
            layout.sums.iter().for_each(|at| thread.row_array(*at, task.rows).fill(0.0));
        }
        self.run_tiles(thread, task, self.e.keys_of(range), false);
    }

    /// What becomes of the greatest values, sums and products of all streamed positions.
    fn finish_task(&self, thread: &mut Thread<'_>, task: Place) {
        self.finish_rows(thread, task);
        if self.has_lost_products(thread, task) {
            self.run_tiles(thread, task, 0..self.e.keys, true);
            // SAFETY: the array is the task's own.
            unsafe { thread.row_array(self.layout.of_products, task.rows).fill(1.0) };
        }
        self.finish_products(thread, task);
    }

    /// Goes through streamed positions, from the first of a tile on. `whole` says that the statistics of the rows are complete, and that the weights are
    /// to be multiplied by the factor of their row.
    fn run_tiles(&self, thread: &mut Thread<'_>, task: Place, all: Range<usize>, whole: bool) {
        let (e, layout) = (&self.e, &self.layout);
        // No weight is 0 times a factor that is infinite or NaN.
        // SAFETY: the array is the task's own.
        let factors = unsafe { thread.row_array(layout.of_products, task.rows) };
        let may_pass = !whole || factors.iter().all(|f| f.is_finite());
        // Sums start at 0: products that are −0 do not make them so.
        // SAFETY: the products are the task's own.
        unsafe { thread.row_array(layout.sum, task.rows * e.columns).fill(0.0) };
        for key in all.clone().step_by(e.tile_keys) {
            let keys = e.tile_keys.min(all.end - key);
            let place = Place { key, of_block: keys, keys, ..task };
            let seen = self.find_seen(place);
            if seen == Seen::Nothing && may_pass && self.has_finite_values(thread, place) {
                continue;
            }
            TILES.fetch_add(1, Ordering::Relaxed);
            for first in (0..task.rows).step_by(e.strip()) {
                let mut strip = Place { first, rows: e.strip().min(task.rows - first), ..place };
                if seen == Seen::Some && e.in_strips && may_pass {
                    strip.keys = self.find_seen_keys(thread, strip);
                }
                if strip.keys == 0 {
                    continue;
                }
                self.make_scores(thread, strip, seen == Seen::All);
                self.exponentiate(thread, strip);
                self.make_weights(thread, strip);
                if whole {
                    let tile = self.rows_at(thread, self.source(self.exec.parts.left.0), strip);
                    // SAFETY: tile and array are the task's own.
                    unsafe { online::scale_rows(self.exec.set, tile, &factors[first..]) };
                } else {
                    self.take_along(thread, strip);
                }
                self.add_products(thread, strip);
            }
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
            let block = Block { c: task.c, a: 0, a_len: 1, b: task.task, b_len: n };
            worker.run_sweeps(&block);
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
            let block = Block { c: task.c, a: task.task + row, a_len: rows, b: 0, b_len: columns };
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
            worker.run_sweeps(&block);
        }
        thread.epilogue = Some(worker);
    }
}
