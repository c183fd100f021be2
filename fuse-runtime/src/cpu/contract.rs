//! Contractions: tiles of products by a matrix multiplication, each with its epilogue while it is in the cache.
//!
//! A task is a rectangle of rows and columns at one batch position. Its sources are read where they lie if they are plain
//! memory of what is multiplied, f32, f64 or bytes, with one stride on each side; else they become *panels* in scratch, converted and computed by the
//! loops of their own part of the group, in blocks of the reduced positions that keep a thread's scratch small. So a
//! convolution never has its windows in memory as a whole. The products of a tile lie in scratch too; the epilogue reads
//! them as it reads anything, and takes its results to memory.
//!
//! ```text
//!              panel of the right source         tile of products ──▶ epilogue ──▶ results
//!              reduced × 512 columns      ──┐      512 × 512
//! panel of the left source                ──┴──▶  += left · right
//! 512 rows × reduced
//! ```
//!
//! How the reduced positions are cut depends on their number and on the group alone, and each product adds them up in
//! order: results depend neither on the threads nor on the other extents, but for what the multiplication does with a
//! single row or column.

mod bytes;
mod known;
mod multiply;
mod online;
mod panel;
mod sliding;
mod stream;
mod strip;

use super::affine::Domain;
use super::bindings::{Bindings, CpuFault};
use super::geometry::Block;
use super::instruction_set::InstructionSet;
use super::launch::{Launch, LaunchBuffers, Steps};
use super::parallel::{WORTH_WAKING, run_uniform};
use super::prepare::{GroupExec, PrepareError};
use super::scratch::Scratch;
use super::tile::{GroupFns, StageFns};
use super::worker::{OuterBlock, Worker};
use fuse_ir::dtype::DType;
use fuse_ir::graph::Kernel;
use fuse_ir::id::AxisId;
use fuse_ir::schedule::ScheduledGroup;
use fuse_ir::schedule::contraction::{PartProduct, Sides, cut_contraction_by_rows};
use fuse_ir::stage::cut_into_stages;
use multiply::{Multiply, Operand};
use panel::{PanelExec, PanelPlace};
use rayon::prelude::*;
use sliding::Sliding;

pub use stream::count_tiles;
pub(crate) use stream::{StreamExec, run_stream};

/// Rows and columns of a tile: enough that packing the sources for the multiplication costs little.
const ROWS: usize = 512;
const COLUMNS: usize = 512;
/// Narrower tiles cost speed; they are taken where threads would else have no work.
const LEAST_ROWS: usize = 64;
const LEAST_COLUMNS: usize = 128;
/// Reduced positions of a panel.
const DEPTH: usize = 1024;
/// Bytes of the panels and tiles of a thread, about.
const SCRATCH: usize = 6 << 20;
/// Elements of the blocks in which panels are filled and epilogues run: some tiles of them stay in the L1 cache.
const BLOCK: usize = 4096;
/// A task is at least this many multiply-adds.
const TASK: usize = 1 << 20;
/// Multiply-adds in a nanosecond on one thread, to decide whether to wake others.
const RATE: usize = 50;

/// A contraction, ready to run.
#[derive(Debug)]
pub(crate) struct ContractionExec {
    /// The whole group, to prepare it again for another instruction set.
    pub(crate) group: ScheduledGroup,
    pub(crate) functions: GroupFns,
    sides: Sides,
    panels: Vec<PanelExec>,
    epilogue: GroupExec,
    products: Vec<PartProduct>,
    set: InstructionSet,
}

impl ContractionExec {
    /// Prepares a contraction; `None` if the group is none. The functions are those of the panels, then the epilogue's.
    pub(crate) fn new(
        kernel: &Kernel,
        group: &ScheduledGroup,
        fns: &GroupFns,
        set: InstructionSet,
    ) -> Option<Result<ContractionExec, PrepareError>> {
        let parts = cut_contraction_by_rows(group)?;
        let mut left = fns.stages;
        let mut prepare = |part: &ScheduledGroup| prepare_part(kernel, part, &mut left, set);
        let mut panels = Vec::new();
        for panel in &parts.panels {
            match prepare(&panel.group) {
                Ok(exec) => panels.push(PanelExec::new(exec, panel.value, panel.is_left)),
                Err(error) => return Some(Err(error)),
            }
        }
        let epilogue = match prepare(&parts.epilogue) {
            Ok(exec) => exec,
            Err(error) => return Some(Err(error)),
        };
        Some(Ok(ContractionExec {
            group: group.clone(),
            functions: *fns,
            sides: parts.sides,
            panels,
            epilogue,
            products: parts.products,
            set,
        }))
    }
}

/// Prepares a part of a contraction, which takes its functions from the front of the list.
fn prepare_part(
    kernel: &Kernel,
    part: &ScheduledGroup,
    left: &mut &'static [StageFns],
    set: InstructionSet,
) -> Result<GroupExec, PrepareError> {
    let count = cut_into_stages(kernel, part).stages.len();
    let Some((own, rest)) = left.split_at_checked(count) else {
        let reason = format!("{}: a contraction with too few functions", part.id);
        return Err(PrepareError { reason });
    };
    *left = rest;
    GroupExec::new(kernel, part, &GroupFns { stages: own, combiners: &[], rows: None }, set)
}

/// The sizes of a launch.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    batch: usize,
    rows: usize,
    columns: usize,
    depth: usize,
    /// Of a tile.
    tile_rows: usize,
    tile_columns: usize,
    /// Of a panel.
    tile_depth: usize,
}

impl Sizes {
    fn tiles(&self) -> (usize, usize) {
        (self.rows.div_ceil(self.tile_rows.max(1)), self.columns.div_ceil(self.tile_columns.max(1)))
    }
}

/// Runs a contraction; returns its first fault.
pub(crate) fn run_contraction(exec: &ContractionExec, bindings: &Bindings<'_>) -> Option<CpuFault> {
    let count =
        |axes: &[AxisId]| axes.iter().map(|a| bindings.extents[a.index()].max(0) as usize).product::<usize>();
    let mut sizes = Sizes {
        batch: count(&exec.sides.batch),
        rows: count(&exec.sides.rows),
        columns: count(&exec.sides.columns),
        depth: count(&exec.group.reduced),
        tile_rows: ROWS,
        tile_columns: COLUMNS,
        tile_depth: DEPTH,
    };
    if sizes.batch == 0 || sizes.rows == 0 || sizes.columns == 0 {
        return None;
    }
    choose_tiles(exec, &mut sizes);
    let sides = &exec.sides;
    let mut panels = Vec::new();
    if sizes.depth > 0 {
        for panel in &exec.panels {
            let side = if panel.is_left { &sides.rows } else { &sides.columns };
            let mut buffers = Box::<LaunchBuffers>::default();
            let place = PanelPlace::new(panel, bindings, &mut buffers, (&sides.batch, side), &sizes)?;
            panels.push(place);
        }
    }
    let sliding = find_sliding(exec, &panels, &mut sizes);
    let mut buffers = Box::<LaunchBuffers>::default();
    let step = (BLOCK / sizes.tile_columns).max(1);
    let outer = if exec.epilogue.prologue.is_empty() { 1 } else { sizes.tile_rows };
    let steps = Steps { outer, rows: 1, a: step, b: sizes.tile_columns };
    let order = [sides.batch.as_slice(), &sides.rows, &sides.columns];
    let mut epilogue = Launch::with_sides(&exec.epilogue, bindings, &mut buffers, order, steps)?;
    run_uniform(&mut epilogue);
    let run = Run { exec, sizes, panels, epilogue, sliding };
    run.run_tasks();
    let of_panels = run.panels.into_iter().map(|p| p.launch);
    first_fault(of_panels.chain([run.epilogue]))
}

/// The first fault of the first launch that has one.
fn first_fault<'a>(launches: impl Iterator<Item = Launch<'a>>) -> Option<CpuFault> {
    let faults = launches.map(|launch| {
        let first = launch.fault.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        first.map(|(_, fault)| fault)
    });
    faults.flatten().next()
}

/// The one product of the group, if its right source slides; then tiles are rows of pictures.
fn find_sliding(exec: &ContractionExec, panels: &[PanelPlace<'_>], sizes: &mut Sizes) -> Option<Sliding> {
    let [product] = exec.products[..] else { return None };
    let (left, right) = (panels.get(product.left)?, panels.get(product.right)?);
    if !left.is_direct() || product.dtype != DType::F32 {
        return None;
    }
    let sliding = Sliding::find(right, sizes, exec.set)?;
    sizes.tile_columns = sliding.columns();
    sizes.tile_rows = ROWS.min(sizes.rows).min(sliding.most_rows());
    Some(sliding)
}

/// Tiles small enough that every thread has some, and panels that fit the scratch.
fn choose_tiles(exec: &ContractionExec, sizes: &mut Sizes) {
    let work = sizes.batch.saturating_mul(sizes.rows).saturating_mul(sizes.columns);
    let work = work.saturating_mul(sizes.depth.max(1));
    sizes.tile_rows = ROWS.min(sizes.rows);
    sizes.tile_columns = COLUMNS.min(sizes.columns);
    if sizes.rows < LEAST_COLUMNS {
        // Few rows: wider tiles, so that packing them pays.
        sizes.tile_columns = (2 * COLUMNS).min(sizes.columns);
    }
    let wanted = (2 * rayon::current_num_threads()).min(work / TASK);
    let tasks = |s: &Sizes| s.batch * s.tiles().0 * s.tiles().1;
    while tasks(sizes) < wanted {
        if sizes.tile_columns > LEAST_COLUMNS && sizes.tile_columns >= sizes.tile_rows {
            sizes.tile_columns = (sizes.tile_columns / 2).next_multiple_of(64).max(LEAST_COLUMNS);
        } else if sizes.tile_rows > LEAST_ROWS {
            sizes.tile_rows = (sizes.tile_rows / 2).next_multiple_of(16).max(LEAST_ROWS);
        } else if sizes.tile_columns > LEAST_COLUMNS {
            sizes.tile_columns = LEAST_COLUMNS;
        } else {
            break;
        }
    }
    // The depth follows from the group and the reduced extent alone: it decides how sums are cut.
    let bytes = |p: &PanelExec| p.dtype().size() * if p.is_left { ROWS } else { 2 * COLUMNS };
    let of_position: usize = exec.panels.iter().map(bytes).sum();
    let tiles: usize = exec.products.iter().map(|p| p.dtype.size() * ROWS * COLUMNS).sum();
    let room = SCRATCH.saturating_sub(tiles).max(1 << 20);
    while sizes.tile_depth > 128 && sizes.tile_depth * of_position > room {
        sizes.tile_depth /= 2;
    }
    // Blocks of equal depth.
    let blocks = sizes.depth.div_ceil(sizes.tile_depth).max(1);
    sizes.tile_depth = sizes.depth.div_ceil(blocks).max(1);
}

/// One launch.
struct Run<'a> {
    exec: &'a ContractionExec,
    sizes: Sizes,
    panels: Vec<PanelPlace<'a>>,
    epilogue: Launch<'a>,
    sliding: Option<Sliding>,
}

/// What a thread works with.
struct Thread<'r> {
    panels: Vec<Worker<'r>>,
    epilogue: Worker<'r>,
    memory: *mut u8,
    /// Where the panel of each source lies, in bytes, and what it holds.
    places: Vec<(usize, Option<[usize; 3]>)>,
    /// Where the products of each tile lie.
    tiles: Vec<usize>,
    /// Where a sliding source has its scratch, and which rows of the left source are packed there.
    sliding: sliding::Scratch,
    packed: Option<[usize; 2]>,
    /// The rows whose own values the epilogue has.
    rows: Option<OuterBlock>,
}

impl Run<'_> {
    fn run_tasks(&self) {
        let s = &self.sizes;
        let (down, across) = s.tiles();
        let tasks = s.batch * down * across;
        let work = s.batch * s.rows * s.columns * s.depth.max(16);
        let threads = if work / RATE < WORTH_WAKING { 1 } else { rayon::current_num_threads() };
        if threads < 2 || tasks < 2 {
            return self.run_range(0..tasks);
        }
        let parts = tasks.min(threads * 8);
        (0..parts).into_par_iter().with_max_len(1).for_each(|part| {
            self.run_range(tasks * part / parts..tasks * (part + 1) / parts);
        });
    }

    /// Tasks one after the other: tiles that share the panel that is dearer to fill follow one another.
    fn run_range(&self, tasks: std::ops::Range<usize>) {
        let mut scratch = Scratch::take();
        let mut bytes = 0;
        let mut take = |size: usize| {
            let at = bytes;
            bytes += size.next_multiple_of(64);
            at
        };
        let s = &self.sizes;
        let slides = self.sliding.is_some();
        let of_panel = |p: &PanelPlace<'_>| if slides { 0 } else { p.bytes(s) };
        let places = self.panels.iter().map(|p| (take(of_panel(p)), None)).collect();
        let products = self.exec.products.iter();
        let tiles = products.map(|p| take(s.tile_rows * s.tile_columns * p.dtype.size())).collect::<Vec<_>>();
        let sliding = self.sliding.as_ref().map(|sliding| sliding.lay_out(s, &mut take));
        let mut thread = Thread {
            sliding: sliding.unwrap_or_default(),
            packed: None,
            rows: None,
            panels: self.panels.iter().map(|p| Worker::new(&p.launch, false)).collect(),
            epilogue: Worker::new(&self.epilogue, false),
            memory: scratch.reserve(bytes),
            places,
            tiles,
        };
        let (down, across) = s.tiles();
        let is_dear = |left: bool| self.panels.iter().any(|p| p.exec.is_left == left && !p.is_direct());
        let rows_inside = is_dear(false) && !is_dear(true);
        for task in tasks {
            let (c, rest) = (task / (down * across), task % (down * across));
            let (row, column) =
                if rows_inside { (rest % down, rest / down) } else { (rest / across, rest % across) };
            let (a, b) = (row * s.tile_rows, column * s.tile_columns);
            let tile = Block {
                c,
                a,
                a_len: s.tile_rows.min(s.rows - a),
                b,
                b_len: s.tile_columns.min(s.columns - b),
            };
            self.multiply_tile(&mut thread, &tile);
            self.finish_tile(&mut thread, &tile);
        }
        thread.panels.into_iter().for_each(Worker::finish);
        thread.epilogue.finish();
        scratch.keep();
    }

    /// The products of a tile.
    fn multiply_tile(&self, thread: &mut Thread<'_>, tile: &Block) {
        let s = &self.sizes;
        if let Some(sliding) = &self.sliding {
            return self.slide_tile(sliding, thread, tile);
        }
        let multiply = |thread: &Thread<'_>, operands: &[Operand], depth: usize, first: bool| {
            for (p, at) in self.exec.products.iter().zip(&thread.tiles) {
                // SAFETY: the tile lies in the thread's scratch.
                let result = unsafe { thread.memory.add(*at) };
                let (left, right) = if first && depth == 0 {
                    (Operand::NOTHING, Operand::NOTHING)
                } else {
                    (operands[p.left], operands[p.right])
                };
                let shape = Multiply {
                    rows: tile.a_len,
                    columns: tile.b_len,
                    depth,
                    add: !first,
                    set: self.exec.set,
                };
                let dtypes = (p.dtype, self.exec.panels[p.left].dtype());
                // SAFETY: the operands are panels of that many rows, columns and reduced positions, or memory that the
                // bindings vouch for; nothing else touches the tile.
                unsafe { multiply::multiply(dtypes, shape, left, right, result) };
            }
        };
        if s.depth == 0 {
            return multiply(thread, &[], 0, true);
        }
        let all_direct = self.panels.iter().all(PanelPlace::is_direct);
        let step = if all_direct { s.depth } else { s.tile_depth };
        let mut operands = Vec::with_capacity(self.panels.len());
        for k in (0..s.depth).step_by(step) {
            let depth = step.min(s.depth - k);
            operands.clear();
            for (i, place) in self.panels.iter().enumerate() {
                let (start, len) =
                    if place.exec.is_left { (tile.a, tile.a_len) } else { (tile.b, tile.b_len) };
                if let Some(operand) = place.direct(tile.c, start, k) {
                    operands.push(operand);
                    continue;
                }
                let (at, held) = &mut thread.places[i];
                // SAFETY: the panel lies in the thread's scratch.
                let memory = unsafe { thread.memory.add(*at) };
                let wanted = [tile.c, start, k];
                if *held != Some(wanted) {
                    place.fill(&mut thread.panels[i], memory, tile.c, (start, len), (k, depth));
                    *held = Some(wanted);
                }
                operands.push(place.operand(memory, len, depth));
            }
            multiply(thread, &operands, depth, k == 0);
        }
    }

    /// The products of a tile with a sliding source.
    fn slide_tile(&self, sliding: &Sliding, thread: &mut Thread<'_>, tile: &Block) {
        let [product] = self.exec.products[..] else { return };
        let Some(left) = self.panels[product.left].direct(tile.c, tile.a, 0) else { return };
        // SAFETY: the left source has the rows of the tile, the scratch is laid out, and the processor has what
        // `Sliding::find` asked for.
        unsafe {
            if thread.packed != Some([tile.c, tile.a]) {
                sliding.pack(left, tile.a_len, thread.memory, thread.sliding);
                thread.packed = Some([tile.c, tile.a]);
            }
            let result = thread.memory.add(thread.tiles[0]).cast();
            sliding.multiply(&self.panels[product.right], tile, thread.memory, thread.sliding, result);
        }
    }

    /// What is made of the products, and stored.
    fn finish_tile(&self, thread: &mut Thread<'_>, tile: &Block) {
        let step = (BLOCK / tile.b_len.max(1)).max(1).min(self.epilogue.steps.a);
        let rows = OuterBlock { c: tile.c, start: tile.a, len: tile.a_len };
        if !self.exec.epilogue.prologue.is_empty() && thread.rows != Some(rows) {
            thread.epilogue.enter(rows, None);
            thread.epilogue.run_prologue();
            thread.rows = Some(rows);
        }
        for row in (0..tile.a_len).step_by(step) {
            let block = Block { a: tile.a + row, a_len: step.min(tile.a_len - row), ..*tile };
            for (p, at) in self.exec.products.iter().zip(&thread.tiles) {
                // SAFETY: the rows lie in the tile.
                let data = unsafe { thread.memory.add(at + row * tile.b_len * p.dtype.size()) };
                thread.epilogue.give_tile(p.value, data, tile.b_len);
            }
            thread.epilogue.run_sweeps(&block);
        }
    }
}

/// The dimensions of these axes in a domain.
fn count_dims(domain: &Domain, axes: &[AxisId]) -> usize {
    domain.parts[..domain.len].iter().filter(|(a, _)| axes.contains(a)).count()
}

impl<'a> Launch<'a> {
    /// A launch over a plain domain of which the sides are given: `c`, `a` and `b`, in the order of the group's axes.
    pub(crate) fn with_sides(
        exec: &'a GroupExec,
        bindings: &'a Bindings<'a>,
        buffers: &mut Box<LaunchBuffers>,
        sides: [&[AxisId]; 3],
        steps: Steps,
    ) -> Option<Launch<'a>> {
        let mut launch = Launch::unplaced(exec, bindings, buffers)?;
        let dims = sides.map(|axes| count_dims(&launch.domain, axes));
        launch.place_sides(dims, false);
        launch.settle(steps);
        Some(launch)
    }
}

/// The dtype in which a source is multiplied.
fn multiplied(dtype: DType) -> DType {
    dtype.compute()
}
