//! The memory that a thread works in: tiles, arrays of outer values, row buffers and accumulators.

use super::geometry::Orientation;
use super::launch::Launch;
use super::prepare::PassReduction;
use super::reduce::{Components, MAX_COMPONENTS};
use fuse_ir::id::ValueId;
use fuse_ir::schedule::CHUNK;
use std::cell::RefCell;

/// A cache line, the alignment of everything in scratch.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Memory in cache lines; grows and is never given back.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    lines: Vec<Line>,
}

thread_local! {
    /// What this thread does not use at the moment.
    static SPARE: RefCell<Vec<Scratch>> = const { RefCell::new(Vec::new()) };
}

impl Scratch {
    /// What this thread has kept of earlier launches, if it has any.
    pub(crate) fn take() -> Scratch {
        SPARE.with_borrow_mut(Vec::pop).unwrap_or_default()
    }

    /// Keeps it for the next launch of this thread.
    pub(crate) fn keep(self) {
        SPARE.with_borrow_mut(|spare| spare.push(self));
    }

    /// The start of at least `bytes` initialised bytes; what was there before may be lost.
    pub(crate) fn reserve(&mut self, bytes: usize) -> *mut u8 {
        let lines = bytes.div_ceil(size_of::<Line>());
        if self.lines.len() < lines {
            // Given back first, and no more than asked for: a thread never has two.
            self.lines = Vec::new();
            self.lines = vec![Line([0; 64]); lines];
        }
        self.lines.as_mut_ptr().cast()
    }
}

/// Where the parts of a thread's scratch lie, as offsets in bytes.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    /// For each operand, a tile for the blocks of sweeps.
    pub(crate) loads: Vec<usize>,
    /// For each operand, a tile for the outer positions of a block.
    pub(crate) outer_loads: Vec<usize>,
    /// For each value, a tile: outputs of stages, and outer values spread over a block.
    pub(crate) tiles: Vec<usize>,
    /// For each value, the array over the outer positions of a block.
    pub(crate) arrays: Vec<usize>,
    /// For each value, the row buffer.
    pub(crate) row_buffers: Vec<usize>,
    /// Narrow elements on their way.
    pub(crate) raw: usize,
    /// For each pass and reduction, in order.
    pub(crate) reductions: Vec<ReductionLayout>,
    /// For each pass and running sum, in order: the sums so far.
    pub(crate) scans: Vec<usize>,
    /// All of it.
    pub(crate) bytes: usize,
}

/// Where a reduction keeps its accumulators.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReductionLayout {
    /// Lanes of each outer position.
    pub(crate) lanes: [usize; MAX_COMPONENTS],
    /// The chunk that is complete, for each outer position.
    pub(crate) top: [usize; MAX_COMPONENTS],
    /// Chunks waiting for their neighbours, by level.
    pub(crate) stack: [usize; MAX_COMPONENTS],
}

impl Layout {
    /// Lays out the scratch of a launch. `shared` says that arrays and row buffers lie elsewhere.
    pub(crate) fn compute(&mut self, launch: &Launch<'_>, shared: bool) {
        let (g, steps, exec) = (&launch.geometry, launch.steps, launch.exec);
        let values = exec.group.values.len();
        let outer = steps.outer;
        let tile = match g.orientation {
            Orientation::Plain => steps.a * steps.b,
            Orientation::Rows => steps.rows * steps.b,
            Orientation::Columns => steps.a * steps.outer,
        };
        self.bytes = 0;
        self.raw = take(&mut self.bytes, tile.max(outer) * 8);
        for list in [&mut self.loads, &mut self.outer_loads] {
            list.clear();
        }
        for k in 0..exec.group.operands.len() {
            let size = launch.access(k).dtype.compute().size();
            self.loads.push(take(&mut self.bytes, tile * size));
            self.outer_loads.push(take(&mut self.bytes, outer.max(1) * size));
        }
        let size = |v: ValueId| exec.group.value(v).dtype.compute().size();
        for list in [&mut self.tiles, &mut self.arrays, &mut self.row_buffers] {
            list.clear();
            list.resize(values, 0);
        }
        for &v in exec.tiles.iter().chain(&exec.expanded) {
            self.tiles[v.index()] = take(&mut self.bytes, tile * size(v));
        }
        for &v in &exec.outer_copies {
            self.arrays[v.index()] = take(&mut self.bytes, outer.max(1) * size(v));
        }
        if !shared {
            for &v in &exec.outer_arrays {
                self.arrays[v.index()] = take(&mut self.bytes, outer.max(1) * size(v));
            }
            for &v in &exec.buffered {
                self.row_buffers[v.index()] = take(&mut self.bytes, outer * g.reduced() * size(v));
            }
        }
        self.reductions.clear();
        self.scans.clear();
        let chunks = g.reduced().div_ceil(CHUNK);
        let levels = if chunks > 1 { chunks.ilog2() as usize + 2 } else { 1 };
        for pass in &exec.passes {
            for reduction in &pass.reductions {
                let layout = lay_out_reduction(&mut self.bytes, launch, reduction, outer, levels);
                self.reductions.push(layout);
            }
            for _ in &pass.scans {
                self.scans.push(take(&mut self.bytes, outer * 8));
            }
        }
    }
}

fn lay_out_reduction(
    bytes: &mut usize,
    launch: &Launch<'_>,
    reduction: &PassReduction,
    outer: usize,
    levels: usize,
) -> ReductionLayout {
    let (exec, lanes) = (&reduction.exec, launch.lanes(reduction));
    let mut layout =
        ReductionLayout { lanes: [0; MAX_COMPONENTS], top: [0; MAX_COMPONENTS], stack: [0; MAX_COMPONENTS] };
    for (k, dtype) in exec.dtypes.iter().enumerate() {
        let size = dtype.size();
        layout.lanes[k] = take(bytes, lanes * outer * size);
        layout.top[k] = take(bytes, outer * size);
        layout.stack[k] = take(bytes, levels * outer * size);
    }
    layout
}

/// The arrays of a reduction at these offsets.
///
/// # Safety
/// The offsets lie in the memory at `base`.
pub(crate) unsafe fn components(base: *mut u8, offsets: &[usize; MAX_COMPONENTS]) -> Components {
    // SAFETY: by the contract.
    offsets.map(|at| unsafe { base.add(at) })
}

fn take(bytes: &mut usize, size: usize) -> usize {
    let at = *bytes;
    *bytes += size.next_multiple_of(size_of::<Line>());
    at
}
