//! Streamed contractions: products of weights that are made, normalised and used up tile by tile.
//!
//! A task is a block of rows at one batch position. It goes through the streamed positions in blocks; of each it makes a
//! tile of scores, takes along the greatest values and sums of the rows, and adds the products of the tile to those before,
//! scaled if the reference of a row has changed. See [`StreamParts`] for what the parts compute.
//!
//! ```text
//!                      512 streamed positions at a time
//!  128 rows   scores ──▶ exp(x - c) ──▶ weights ──▶ += weights · values     products, 128 × columns
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
use super::multiply::{self, Multiply, Operand};
use super::online::{self, Advance, Rows};
use super::panel::{PanelExec, PanelPlace};
use super::{BLOCK, MEMORY, RATE, Sizes, first_fault, prepare_part};
use fuse_ir::dtype::DType;
use fuse_ir::graph::Kernel;
use fuse_ir::id::{AxisId, ValueId};
use fuse_ir::schedule::ScheduledGroup;
use fuse_ir::schedule::streamed::{Source, StreamParts, cut_streamed};
use rayon::prelude::*;

/// Rows of a task: enough that packing keys and values for the multiplication costs little.
const ROWS: usize = 128;
const LEAST_ROWS: usize = 8;
/// Streamed positions of a tile.
const KEYS: usize = 512;
const LEAST_KEYS: usize = 64;
/// Elements of the products of a task, about.
const PRODUCTS: usize = 1 << 17;
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
    weights: Option<GroupExec>,
    values: PanelExec,
    of_rows: GroupExec,
    epilogue: GroupExec,
    set: InstructionSet,
}

impl StreamExec {
    /// Prepares a streamed group. The functions are those of its panels and scores, of its weights, of the values, of rows
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
        let weights = parts.weights.as_ref().map(|w| prepare(&w.group)).transpose()?;
        let values = PanelExec::new(prepare(&parts.values.group)?, parts.values.value, false);
        let of_rows = prepare(&parts.of_rows)?;
        let epilogue = prepare(&parts.epilogue)?;
        let (group, functions) = (group.clone(), *fns);
        Ok(StreamExec { group, functions, parts, panels, scores, weights, values, of_rows, epilogue, set })
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
    /// The same spread over a block of the epilogue.
    broadcast: Vec<usize>,
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
        weights: exec.weights.as_ref().and_then(|w| launch(w, [batch, rows, keys], steps(e.tile_keys))),
        values: PanelPlace::new(&exec.values, bindings, &mut buffers(), (batch, &parts.columns), &sizes),
        of_rows: launch(&exec.of_rows, [batch, &[], rows], Steps { outer: 1, rows: 1, a: 1, b: e.tile_rows }),
        epilogue: launch(&exec.epilogue, [batch, rows, &parts.columns], steps(e.columns)),
    };
    run.run_tasks();
    let Run { panels, scores, weights, values, of_rows, epilogue, .. } = run;
    let of_panels = panels.into_iter().chain(values).map(|p| p.launch);
    first_fault(of_panels.chain([scores, weights, of_rows, epilogue].into_iter().flatten()))
}

/// One launch. What there is nothing of, because an axis is empty, is `None`.
struct Run<'a> {
    exec: &'a StreamExec,
    e: Extents,
    layout: TaskLayout,
    panels: Vec<PanelPlace<'a>>,
    scores: Option<Launch<'a>>,
    weights: Option<Launch<'a>>,
    values: Option<PanelPlace<'a>>,
    of_rows: Option<Launch<'a>>,
    epilogue: Option<Launch<'a>>,
}

/// What a thread works with.
struct Thread<'r> {
    memory: *mut u8,
    panels: Vec<Worker<'r>>,
    scores: Option<Worker<'r>>,
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
        let Thread { panels, scores, weights, values, of_rows, epilogue, .. } = thread;
        let others = [scores, weights, values, of_rows, epilogue];
        panels.into_iter().chain(others.into_iter().flatten()).for_each(Worker::finish);
        MEMORY.with_borrow_mut(|all| all.push(scratch));
    }

    /// All products of a block of rows.
    fn run_task(&self, thread: &mut Thread<'_>, task: Place) {
        let (e, layout) = (&self.e, &self.layout);
        // SAFETY: the arrays are the task's own.
        unsafe {
            let lowest = layout.maxima.iter().chain([&layout.greatest]);
            lowest.for_each(|at| thread.row_array(*at, task.rows).fill(f32::NEG_INFINITY));
            layout.sums.iter().for_each(|at| thread.row_array(*at, task.rows).fill(0.0));
        }
        let mut first = true;
        for key in (0..e.keys).step_by(e.tile_keys) {
            let place = Place { key, keys: e.tile_keys.min(e.keys - key), ..task };
            self.make_scores(thread, place);
            self.take_along(thread, place, first);
            self.add_products(thread, place, first);
            first = false;
        }
        if first {
            // SAFETY: the products are the task's own.
            unsafe { thread.row_array(layout.sum, task.rows * e.columns).fill(0.0) };
        }
        self.finish_task(thread, task);
    }

    /// The tiles of a block.
    fn make_scores(&self, thread: &mut Thread<'_>, place: Place) {
        let (e, layout) = (&self.e, &self.layout);
        let products = &self.exec.parts.scores.products;
        for k in (0..e.depth.max(1)).step_by(e.tile_depth) {
            let depth = e.tile_depth.min(e.depth - k.min(e.depth));
            let mut operands = Vec::with_capacity(self.panels.len());
            for (i, panel) in self.panels.iter().enumerate() {
                let side =
                    if panel.exec.is_left { (place.row, place.rows) } else { (place.key, place.keys) };
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
        let Some(mut worker) = thread.scores.take() else { return };
        let step = (BLOCK / place.keys).max(1).min(worker.launch.steps.a);
        for row in (0..place.rows).step_by(step) {
            let rows = step.min(place.rows - row);
            let block = Block { c: place.c, a: place.row + row, a_len: rows, b: place.key, b_len: place.keys };
            let at = |offset: usize, size: usize| thread.at::<u8>(offset + row * place.keys * size);
            for (p, offset) in products.iter().zip(&layout.products) {
                worker.give_tile(p.value, at(*offset, p.dtype.size()), place.keys);
            }
            for (v, offset) in self.exec.parts.tiles.iter().zip(&layout.tiles) {
                worker.give_row_buffer(*v, at(*offset, self.exec.dtype_of_score(*v).size()));
            }
            run_stages(&mut worker, &self.exec.scores, &block);
        }
        thread.scores = Some(worker);
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

    /// Greatest values and sums of a block, and its weights.
    fn take_along(&self, thread: &mut Thread<'_>, place: Place, first: bool) {
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

    /// What is made of statistics and products, and stored.
    fn finish_task(&self, thread: &mut Thread<'_>, task: Place) {
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
        let Some(mut worker) = thread.epilogue.take() else { return };
        let columns = self.e.columns;
        let step = (BLOCK / columns).max(1).min(worker.launch.steps.a);
        for row in (0..n).step_by(step) {
            let rows = step.min(n - row);
            let block = Block { c: task.c, a: task.row + row, a_len: rows, b: 0, b_len: columns };
            worker.give_tile(parts.product, thread.at(layout.sum + row * columns * 4), columns);
            for (&(v, of_row), &to) in parts.broadcast.iter().zip(&layout.broadcast) {
                let size = self.exec.of_rows.group.value(of_row).dtype.compute().size();
                let from = layout.of_rows.iter().find(|(u, _)| *u == of_row).map_or(0, |(_, at)| *at);
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
