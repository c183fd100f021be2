//! Launches over threads: which blocks are a task, and when threads are worth waking.

use super::bindings::{Bindings, CpuFault};
use super::contract::{run_contraction, run_stream};
use super::depthwise::run_depthwise;
use super::geometry::{Block, Orientation};
use super::launch::{Launch, LaunchBuffers, prev_power_of_two};
use super::prepare::{GroupExec, PartExec, PassExec};
use super::reduce::{Components, MAX_COMPONENTS};
use super::worker::{OuterBlock, Shared, Worker};
use fuse_ir::dtype::{DType, Value};
use fuse_ir::schedule::CHUNK;
use rayon::prelude::*;
use std::cell::RefCell;

thread_local! {
    #[allow(clippy::vec_box, reason = "buffers are large and move often; a box is a pointer to move")]
    static BUFFERS: RefCell<Vec<Box<LaunchBuffers>>> = const { RefCell::new(Vec::new()) };
}

/// Below this many nanoseconds of work a launch stays on its thread: waking others takes 20 to 40 microseconds.
pub(crate) const WORTH_WAKING: usize = 100_000;
/// A task is at least this many nanoseconds of work.
const TASK: usize = 20_000;
/// Runs of chunks are short enough for so many tasks of each thread.
const TASKS_OF_A_THREAD: usize = 16;

/// Runs the groups of a launch.
///
/// # Safety
/// As for [`super::CpuProgram::run_launch`].
pub(crate) unsafe fn run_parts(parts: &[PartExec], bindings: &Bindings<'_>) -> Option<CpuFault> {
    let run_part = |part: &PartExec| match part {
        PartExec::Loops(exec) => run_loops(exec, bindings),
        PartExec::Contraction(exec) => run_contraction(exec, bindings),
        PartExec::Depthwise(exec) => run_depthwise(exec, bindings),
        PartExec::Stream(exec) => run_stream(exec, bindings),
    };
    if let [part] = parts {
        return run_part(part);
    }
    // Small unrelated groups: each inline, or each with its own tasks.
    let mut faults: Vec<Option<CpuFault>> = Vec::with_capacity(parts.len());
    for part in parts {
        faults.push(run_part(part));
    }
    faults.into_iter().flatten().next()
}

/// Blocks of columns are as wide as the caches allow; where that leaves threads without work they become narrower, but
/// not below what still reads memory in long runs.
fn narrow_columns(launch: &mut Launch<'_>) {
    const NARROWEST: usize = 256;
    let g = &launch.geometry;
    let positions = g.outer().saturating_mul(g.reduced().max(1));
    if g.orientation != Orientation::Columns || work(launch, positions) < WORTH_WAKING {
        return;
    }
    let threads = rayon::current_num_threads();
    let chunks =
        if launch.exec.passes.iter().any(|p| !p.scans.is_empty()) { 1 } else { g.reduced().div_ceil(CHUNK) };
    let blocks = |columns: usize| g.c * g.b.div_ceil(columns) * chunks;
    let mut columns = launch.steps.outer;
    // One for each thread is even, and reads longer runs than two would.
    let is_enough = |blocks: usize| blocks == threads || blocks >= 2 * threads;
    while !is_enough(blocks(columns)) && columns > NARROWEST {
        columns = (columns / 2).next_multiple_of(64).max(NARROWEST);
    }
    if columns != launch.steps.outer {
        launch.steps.outer = columns;
        launch.steps.a = 1;
    }
}

fn run_loops(exec: &GroupExec, bindings: &Bindings<'_>) -> Option<CpuFault> {
    let mut buffers = BUFFERS.with_borrow_mut(Vec::pop).unwrap_or_default();
    let mut fault = None;
    if let Some(mut launch) = Launch::new(exec, bindings, &mut buffers) {
        run_uniform(&mut launch);
        narrow_columns(&mut launch);
        match launch.geometry.orientation {
            Orientation::Plain => run_plain(&launch),
            Orientation::Rows | Orientation::Columns => run_reduction(&launch),
        }
        let first = launch.fault.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        fault = first.map(|(_, fault)| fault);
        buffers = launch.into_buffers();
    }
    BUFFERS.with_borrow_mut(|all| all.push(buffers));
    fault
}

/// Values that all positions share.
pub(crate) fn run_uniform(launch: &mut Launch<'_>) {
    let exec = launch.exec;
    if exec.uniform.is_empty() && exec.uniform_loads.is_empty() {
        return;
    }
    let mut values = Vec::new();
    let one = Block { c: 0, a: 0, a_len: 1, b: 0, b_len: 1 };
    let mut worker = Worker::new(launch, false);
    for &k in &exec.uniform {
        worker.run_stage(k, &one);
        for output in &exec.stages[k].outputs {
            // SAFETY: the stage has written one element of the dtype there.
            values.push((output.value, unsafe { read_value(output.dtype, worker.array(output.value)) }));
        }
    }
    for &v in &exec.uniform_loads {
        if let Some(operand) = worker.launch.operand_of(v) {
            let tile = worker.load(operand, v, fuse_ir::stage::Place::Outer, &one);
            let dtype = exec.group.value(v).dtype.compute();
            // SAFETY: the tile has one element of the dtype.
            values.push((v, unsafe { read_value(dtype, tile) }));
        }
    }
    worker.finish();
    for (v, value) in values {
        launch.set_uniform(v, value);
    }
}

/// # Safety
/// `from` points to an element of the compute type.
pub(crate) unsafe fn read_value(dtype: DType, from: *const u8) -> Value {
    // SAFETY: by the contract.
    unsafe {
        match dtype.compute() {
            DType::F64 => Value::F64(*from.cast()),
            DType::I8 => Value::I8(*from.cast()),
            DType::I16 => Value::I16(*from.cast()),
            DType::I32 => Value::I32(*from.cast()),
            DType::I64 => Value::I64(*from.cast()),
            DType::U8 => Value::U8(*from.cast()),
            DType::U16 => Value::U16(*from.cast()),
            DType::U32 => Value::U32(*from.cast()),
            DType::U64 => Value::U64(*from.cast()),
            DType::Bool => Value::Bool(*from.cast()),
            DType::F32 | DType::F16 | DType::Bf16 | DType::F8E4M3 | DType::F8E5M2 => Value::F32(*from.cast()),
        }
    }
}

/// Runs `tasks` tasks, on several threads if their work of about `nanoseconds` is worth it.
fn run_tasks(
    launch: &Launch<'_>,
    shared: bool,
    nanoseconds: usize,
    tasks: usize,
    run: impl Fn(&mut Worker<'_>, usize) + Sync,
) {
    let threads = if tasks < 2 || nanoseconds < WORTH_WAKING { 1 } else { rayon::current_num_threads() };
    if threads < 2 {
        let mut worker = Worker::new(launch, shared);
        for task in 0..tasks {
            run(&mut worker, task);
        }
        return worker.finish();
    }
    let parts = tasks.min(threads * 8).min(nanoseconds / TASK).max(1);
    (0..parts).into_par_iter().with_max_len(1).for_each(|part| {
        let mut worker = Worker::new(launch, shared);
        for task in tasks * part / parts..tasks * (part + 1) / parts {
            run(&mut worker, task);
        }
        worker.finish();
    });
}

/// About how many nanoseconds these positions are work for.
pub(crate) fn work(launch: &Launch<'_>, positions: usize) -> usize {
    (positions.saturating_mul(launch.exec.cost) / 1000).max(1)
}

fn run_plain(launch: &Launch<'_>) {
    let (g, steps) = (&launch.geometry, launch.steps);
    let (tiles_a, tiles_b) = (g.a.div_ceil(steps.a), g.b.div_ceil(steps.b));
    let tasks = g.c * tiles_a * tiles_b;
    run_once(launch);
    run_tasks(launch, false, work(launch, g.c * g.a * g.b), tasks, |worker, task| {
        let (rest, b) = (task / tiles_b, task % tiles_b * steps.b);
        let (c, a) = (rest / tiles_a, rest % tiles_a * steps.a);
        let block = Block { c, a, a_len: steps.a.min(g.a - a), b, b_len: steps.b.min(g.b - b) };
        worker.run_sweeps(&block);
    });
}

/// What a plain group computes and stores once: values that all positions share.
fn run_once(launch: &Launch<'_>) {
    let exec = launch.exec;
    let once = |p: &PassExec| !p.epilogue.is_empty() || !p.outer_stores.is_empty();
    if exec.prologue.is_empty() && !exec.passes.iter().any(once) {
        return;
    }
    let mut worker = Worker::new(launch, false);
    worker.enter(OuterBlock { c: 0, start: 0, len: 1 }, None);
    worker.run_prologue();
    for p in 0..exec.passes.len() {
        worker.run_epilogue(p);
    }
    worker.finish();
}

fn run_reduction(launch: &Launch<'_>) {
    let g = &launch.geometry;
    let side = if g.orientation == Orientation::Columns { g.b } else { g.a };
    let chunks = g.reduced().div_ceil(CHUNK);
    let nanoseconds = work(launch, g.outer().saturating_mul(g.reduced().max(1)));
    let has_scans = launch.exec.passes.iter().any(|p| !p.scans.is_empty());
    let blocks = g.c * side.div_ceil(launch.steps.outer);
    let few = blocks < 2 * rayon::current_num_threads();
    if nanoseconds >= WORTH_WAKING && chunks > 1 && !has_scans && few && !launch.by_row {
        return run_by_passes(launch, nanoseconds);
    }
    if launch.by_row {
        return run_tasks(launch, false, nanoseconds, blocks, |worker, task| {
            worker.run_rows(outer_block(launch, side, task));
        });
    }
    run_tasks(launch, false, nanoseconds, blocks, |worker, task| {
        worker.enter(outer_block(launch, side, task), None);
        worker.run_prologue();
        for p in 0..launch.exec.passes.len() {
            worker.run_pass(p);
        }
    });
}

fn outer_block(launch: &Launch<'_>, side: usize, task: usize) -> OuterBlock {
    let step = launch.steps.outer;
    let blocks = side.div_ceil(step);
    let start = task % blocks * step;
    OuterBlock { c: task / blocks, start, len: step.min(side - start) }
}

/// Few outer positions with many chunks each: one pass after the other, runs of its chunks as tasks, whose partial results
/// a second step combines. A run is a power of two of chunks, so that it is a branch of the tree, or its last leaves.
fn run_by_passes(launch: &Launch<'_>, nanoseconds: usize) {
    let (g, exec) = (&launch.geometry, launch.exec);
    let side = if g.orientation == Orientation::Columns { g.b } else { g.a };
    let (outer, chunks) = (g.outer(), g.reduced().div_ceil(CHUNK));
    let blocks = g.c * side.div_ceil(launch.steps.outer);
    let enough = chunks * blocks / (TASKS_OF_A_THREAD * rayon::current_num_threads());
    let run = prev_power_of_two(enough.max(1));
    let runs = chunks.div_ceil(run);
    let size = |v: fuse_ir::id::ValueId| exec.group.value(v).dtype.compute().size();
    let values = exec.group.values.len();
    let mut memory: Vec<Vec<u64>> = Vec::new();
    let mut allocate = |bytes: usize| {
        let mut words = vec![0u64; bytes.div_ceil(8).max(1)];
        let start: *mut u8 = words.as_mut_ptr().cast();
        memory.push(words);
        start
    };
    let mut arrays = vec![std::ptr::null_mut(); values];
    let mut row_buffers = vec![std::ptr::null_mut(); values];
    for &v in &exec.outer_arrays {
        arrays[v.index()] = allocate(outer * size(v));
    }
    for &v in &exec.buffered {
        row_buffers[v.index()] = allocate(outer * g.reduced() * size(v));
    }
    let mut partials: Vec<Vec<Components>> = Vec::new();
    for pass in &exec.passes {
        let of_pass = pass.reductions.iter().map(|reduction| {
            let mut components = [std::ptr::null_mut(); MAX_COMPONENTS];
            for (k, dtype) in reduction.exec.dtypes.iter().enumerate() {
                components[k] = allocate(runs * outer * dtype.size());
            }
            components
        });
        partials.push(of_pass.collect());
    }
    let places = Places { arrays, row_buffers, partials };
    let enter = |worker: &mut Worker<'_>, block: usize| {
        let at = outer_block(launch, side, block);
        worker.enter(at, Some(places.shared()));
        if g.orientation == Orientation::Columns { at.c * g.b + at.start } else { at.start }
    };
    if !exec.prologue.is_empty() {
        run_tasks(launch, true, work(launch, outer), blocks, |worker, block| {
            enter(worker, block);
            worker.run_prologue();
        });
    }
    let each = nanoseconds / exec.passes.len().max(1);
    for p in 0..exec.passes.len() {
        run_tasks(launch, true, each, blocks * runs, |worker, task| {
            let (block, at) = (task / runs, task % runs);
            let first = enter(worker, block);
            worker.sweep_chunks(p, at * run..chunks.min((at + 1) * run));
            for r in 0..exec.passes[p].reductions.len() {
                // SAFETY: each task has elements of its own among the partial results.
                unsafe { places.keep(exec, worker, p, r, at * outer + first, true) };
            }
        });
        run_tasks(launch, true, work(launch, outer * runs), blocks, |worker, block| {
            let first = enter(worker, block);
            for at in 0..runs {
                for r in 0..exec.passes[p].reductions.len() {
                    // SAFETY: the partial results are complete, and only read here.
                    unsafe { places.keep(exec, worker, p, r, at * outer + first, false) };
                }
                if runs > 1 {
                    worker.push_chunk(p, at);
                }
            }
            worker.combine_chunks(p, runs);
            worker.give_results(p);
            worker.run_epilogue(p);
        });
    }
}

/// Memory that the passes of a launch share.
struct Places {
    arrays: Vec<*mut u8>,
    row_buffers: Vec<*mut u8>,
    partials: Vec<Vec<Components>>,
}

// SAFETY: tasks of one step write disjoint elements, and steps follow one another.
unsafe impl Sync for Places {}

impl Places {
    fn shared(&self) -> Shared<'_> {
        Shared { arrays: &self.arrays, row_buffers: &self.row_buffers }
    }

    /// Moves a worker's tops to the partial results at element `at` (`out`), or back.
    ///
    /// # Safety
    /// No other thread touches these partial results.
    unsafe fn keep(&self, exec: &GroupExec, worker: &Worker<'_>, p: usize, r: usize, at: usize, out: bool) {
        let tops = worker.tops(p, r);
        for (k, dtype) in exec.passes[p].reductions[r].exec.dtypes.iter().enumerate() {
            // SAFETY: by the contract; a partial result has an element for each run and outer position.
            unsafe {
                let kept = self.partials[p][r][k].add(at * dtype.size());
                let bytes = worker.outer.len * dtype.size();
                let (from, to) = if out { (tops[k], kept) } else { (kept, tops[k]) };
                std::ptr::copy_nonoverlapping(from, to, bytes);
            }
        }
    }
}
