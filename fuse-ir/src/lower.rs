//! From a planned launch to kernels: the scalar body of each group under threads, shared memory and barriers.
//!
//! ```text
//! launch of the plan          groups side by side, dispatched by block range
//!   ├── first kernel          several variants of one group, the launcher takes the first whose requirements hold
//!   └── second kernel         what folds the partial results of split reductions
//! ```
//!
//! What is computed comes from the body, in which order reductions combine from the tree of [`crate::schedule`]; so a
//! kernel gives the bits that every other backend gives. How it is spread over threads:
//!
//! - pointwise: each thread takes runs of consecutive positions, loaded as vectors where layout and alignment allow;
//!   operands that lie across the grain come through padded tiles of shared memory;
//! - rows: a *team* of threads owns an outer position. The 64 accumulators of a chunk are spread over the team; chunks
//!   are spread over the teams of a block. Short rows: several teams in a warp. Otherwise: a block for each row;
//! - columns: the lanes of a warp own 32 neighbouring outer positions, the warps share the accumulators of each;
//! - split: a team for each chunk, partial results in scratch memory, folded by the second kernel;
//! - contractions: a block owns a tile of rows and columns, whose sources come through shared memory; where the result is
//!   small, several blocks share a tile's reduced positions, and a second kernel adds what they leave in scratch memory;
//!   where one side is narrow, the other is read once, straight into registers;
//! - streamed: a block owns rows, and makes, normalises and uses up their weights tile by tile.
//!
//! What several sweeps need is kept in shared memory by the thread that will read it again. What cannot be lowered is an
//! error that says what, never a kernel that is wrong.

mod interface;

mod index;

mod body;

mod vector;

mod pointwise;

mod tile;

mod team;

mod combine;

mod sweep;

mod rows;

mod contraction;

mod split;

mod streamed;

mod narrow;

pub mod coalescing;

use crate::dtype::DType;
use crate::id::{AxisId, GroupId, NodeId};
use crate::index_map::Extent;
use crate::kernel_ir::{Condition, Kernel, KernelError, Origin, Size};
use crate::program::Program;
use crate::scalar::ScalarOp;
use crate::schedule::depthwise::as_column;
use crate::schedule::{ScheduleKind, ScheduledGroup};
use crate::target::Target;
use body::Emitter;
use serde::{Deserialize, Serialize};
use std::fmt;

pub use narrow::fits_narrow;
pub(crate) use streamed::count_ranges;
pub use streamed::is_streamed;
pub(crate) use sweep::count_kept_bytes;

/// Threads of a block.
pub(crate) const THREADS: u32 = 256;

/// What the caller chooses.
#[derive(Clone, PartialEq, Debug)]
pub struct LowerOptions {
    /// Indices have 64 bits; else 32, for launches that [`fits_narrow`].
    pub wide: bool,
    /// Bytes of shared memory that a block may use.
    pub shared_memory: u64,
}

impl LowerOptions {
    /// Those for a target.
    pub fn for_target(target: &Target, wide: bool) -> Self {
        LowerOptions { wide, shared_memory: target.shared_memory }
    }
}

/// What a fault in one place of a kernel is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum FaultKind {
    /// An integer was divided by zero, by this operation or in a function.
    DivisionByZero(Option<ScalarOp>),
    /// A gather without a fill read out of range of the axis.
    OutOfRange(AxisId),
}

/// A place that may fault. Its word, a u64 that starts with all bits set, is lowered to `position << 32 | index`: the
/// least position of the domain that faulted (saturated to 32 bits) and the index that it asked for (saturated to i32).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FaultSite {
    /// The node of the graph.
    pub node: Option<NodeId>,
    /// What happened.
    pub kind: FaultKind,
}

/// A kernel with what its launcher must know.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LoweredKernel {
    /// What runs.
    pub kernel: Kernel,
    /// The words behind [`crate::kernel_ir::Origin::Faults`], in order.
    pub faults: Vec<FaultSite>,
}

/// Scratch memory of a launch: uninitialised, aligned to 16 bytes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Scratch {
    /// How many elements.
    pub elements: Extent,
    /// Of which dtype.
    pub dtype: DType,
}

/// A launch of the plan as kernels.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct LoweredLaunch {
    /// The kernels in order. Of each the first variant whose [`Kernel::requires`] hold is launched; the last requires
    /// nothing. One without blocks is not launched.
    pub steps: Vec<Vec<LoweredKernel>>,
    /// Scratch memory by number, shared by all steps and variants. What the last step that names it does not read, because it
    /// has no blocks, is not allocated.
    pub scratch: Vec<Scratch>,
}

impl LoweredLaunch {
    /// The last step that names scratch memory of that number: where it has no blocks, nobody reads what is there.
    pub fn last_reader(&self, scratch: usize) -> Option<usize> {
        let names =
            |v: &LoweredKernel| v.kernel.params.iter().any(|p| p.source == Origin::Scratch(scratch as u32));
        self.steps.iter().rposition(|variants| variants.iter().any(names))
    }
}

/// What could not be lowered.
#[derive(Clone, PartialEq, Debug)]
pub enum LowerError {
    /// There is no such launch.
    NoLaunch(usize),
    /// The group has something that no kernel is known for.
    Unsupported {
        /// Which group.
        group: GroupId,
        /// What, without a final full stop.
        what: String,
    },
    /// The kernel that came out is wrong: a defect of the lowering.
    Invalid(KernelError),
}

impl fmt::Display for LowerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LowerError::NoLaunch(n) => write!(f, "the plan has no launch {n}"),
            LowerError::Unsupported { group, what } => write!(f, "{group}: {what}"),
            LowerError::Invalid(e) => write!(f, "{e}"),
        }
    }
}

impl std::error::Error for LowerError {}

impl From<KernelError> for LowerError {
    fn from(e: KernelError) -> Self {
        LowerError::Invalid(e)
    }
}

/// One way to run a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Structure {
    /// Pointwise over a dense domain, as one run of memory.
    Flat,
    /// Pointwise in tiles, operands read across the grain through shared memory.
    Tiles,
    /// Pointwise in runs along the last axis.
    Runs,
    /// Pointwise, one position after the other.
    Scalar,
    /// Rows of one chunk at most, several teams in a warp.
    ShortRows {
        /// Loads are vectors.
        vectors: bool,
        /// What several sweeps read stays in shared memory.
        keep: bool,
    },
    /// A block for each row.
    BlockRows {
        /// Loads are vectors.
        vectors: bool,
        /// What several sweeps read stays in shared memory.
        keep: bool,
    },
    /// A block for 32 columns.
    Columns {
        /// What several sweeps read stays in shared memory.
        keep: bool,
    },
    /// The chunks of a split reduction.
    Chunks {
        /// Loads are vectors.
        vectors: bool,
        /// The lanes of a warp are neighbouring outer positions.
        columns: bool,
    },
    /// The fold of its partial results.
    Fold,
    /// A contraction in tiles of both sources.
    Tiled(contraction::TileShape),
    /// A contraction of which one side is narrow.
    Skinny(contraction::SkinnyShape),
    /// What adds the pieces of a contraction.
    Pieces,
    /// Weights made, normalised and used up tile by tile.
    Streamed(streamed::Spread),
    /// Ranges of keys of the same put together, where each had blocks of its own.
    FoldStreamed,
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, vectors, keep) = match *self {
            Structure::Tiled(shape) => return shape.fmt(f),
            Structure::Skinny(shape) => return shape.fmt(f),
            Structure::Pieces => ("a thread adds the pieces of each position", false, false),
            Structure::Flat => ("one dense run", true, false),
            Structure::Tiles => ("tiles, what lies across the grain through shared memory", false, false),
            Structure::Runs => ("runs along the last axis", true, false),
            Structure::Scalar => ("a thread for each position", false, false),
            Structure::ShortRows { vectors, keep } => ("short rows, several in a warp", vectors, keep),
            Structure::BlockRows { vectors, keep } => ("a block for each row", vectors, keep),
            Structure::Columns { keep } => ("a block for 32 columns", false, keep),
            Structure::Chunks { vectors, columns: false } => ("a team for each chunk", vectors, false),
            Structure::Chunks { vectors, columns: true } => {
                ("a block for a chunk of 32 columns", vectors, false)
            }
            Structure::Fold => ("a block folds the chunks of each position", false, false),
            Structure::Streamed(spread) => return spread.fmt(f),
            Structure::FoldStreamed => ("ranges of keys are put together", false, false),
        };
        f.write_str(what)?;
        f.write_str(if vectors { ", vectors" } else { "" })?;
        f.write_str(if keep { ", what several sweeps read is kept in shared memory" } else { "" })
    }
}

/// The kernels of the launch of that number.
///
/// # Errors
/// What could not be lowered.
pub fn lower_launch(
    program: &Program,
    launch: usize,
    options: &LowerOptions,
) -> Result<LoweredLaunch, LowerError> {
    let parts = &program.plan.launches.get(launch).ok_or(LowerError::NoLaunch(launch))?.parts;
    if parts.iter().any(|g| g.kind == ScheduleKind::Depthwise) {
        return lower_launch(&sum_by_column(program), launch, options);
    }
    let mut lowered = LoweredLaunch::default();
    let mut scratch_keys = Vec::new();
    for (step, (running, part)) in list_steps(program, parts).into_iter().enumerate() {
        let mut variants = Vec::new();
        for structures in choose_structures(program, &running, part) {
            let mut emitter = Emitter::new(program, options, launch, (step, part > 0));
            let texts: Vec<String> =
                running.iter().zip(&structures).map(|(g, s)| format!("{}: {s}", g.id)).collect();
            emitter.builder.kernel_mut().comment = texts.join("; ");
            emitter.scratch = std::mem::take(&mut lowered.scratch);
            emitter.scratch_keys = std::mem::take(&mut scratch_keys);
            let mut first = Size::Const(0);
            for (group, structure) in running.iter().zip(&structures) {
                emitter.lower_part(group, *structure, &mut first, running.len() > 1)?;
            }
            emitter.builder.kernel_mut().geometry.grid[0] = first;
            lowered.scratch = std::mem::take(&mut emitter.scratch);
            scratch_keys = std::mem::take(&mut emitter.scratch_keys);
            let kernel = emitter.finish()?;
            if kernel.kernel.requires.is_empty() {
                check_shared(running[0].id, &kernel.kernel, options)?;
            }
            variants.push(kernel);
        }
        // A variant that requires nothing makes those after it unreachable.
        if let Some(last) = variants.iter().position(|v: &LoweredKernel| v.kernel.requires.is_empty()) {
            variants.truncate(last + 1);
        }
        lowered.steps.push(variants);
    }
    Ok(lowered)
}

/// The groups that run in each kernel of a launch, with whether it is their first kernel or the second. Where no kernel
/// streams a group, which is alone in its launch, its links run one after the other, and what lies between them is in memory.
fn list_steps<'p>(program: &Program, parts: &'p [ScheduledGroup]) -> Vec<(Vec<&'p ScheduledGroup>, u32)> {
    if let [group] = parts
        && group.kind == ScheduleKind::Streamed
        && !is_streamed(program, group)
    {
        let of_link = |link| (0..count_steps(program, link)).map(move |step| (vec![link], step));
        return group.links.iter().flat_map(of_link).collect();
    }
    if let [group] = parts {
        return (0..count_steps(program, group)).map(|step| (vec![group], step)).collect();
    }
    let steps_of = |part: &ScheduledGroup| match part.kind {
        ScheduleKind::Streamed => count_steps(program, part),
        _ => part.launches(),
    };
    // A streamed group has the last blocks: it asks how many there are.
    let is_streamed = |group: &&ScheduledGroup| group.kind == ScheduleKind::Streamed;
    let running = |step| {
        let running = || parts.iter().filter(move |p| steps_of(p) > step);
        running().filter(|p| !is_streamed(p)).chain(running().filter(is_streamed)).collect()
    };
    (0..parts.iter().map(steps_of).max().unwrap_or(0)).map(|step| (running(step), step)).collect()
}

/// The kernels of a group that is alone in its launch. The second of a contraction has blocks only where the first is split.
fn count_steps(program: &Program, group: &ScheduledGroup) -> u32 {
    let splits = contraction::may_split(program, group) || streamed::splits(program, group);
    if splits { 2 } else { group.launches() }
}

/// The structures to embed for these groups, the best first; one for each group. Groups side by side take the one that
/// fits every call; but of a streamed group all that have as many threads as the others.
fn choose_structures(program: &Program, groups: &[&ScheduledGroup], step: u32) -> Vec<Vec<Structure>> {
    let of_group = |group: &ScheduledGroup| match group.kind {
        ScheduleKind::Pointwise => pointwise::structures(program, group),
        ScheduleKind::Row => rows::structures(group),
        ScheduleKind::Contraction if step > 0 => vec![Structure::Pieces],
        ScheduleKind::Contraction => contraction::structures(group, program.kernel.fast),
        ScheduleKind::Column | ScheduleKind::Depthwise => rows::column_structures(group),
        ScheduleKind::Split if step == 0 => split::structures(group),
        ScheduleKind::Split => vec![Structure::Fold],
        ScheduleKind::Streamed if step == 0 => streamed::structures(group),
        ScheduleKind::Streamed => vec![Structure::FoldStreamed],
    };
    match groups {
        [group] => of_group(group).into_iter().map(|s| vec![s]).collect(),
        _ => {
            let beside = |group: &&ScheduledGroup| match of_group(group) {
                all if group.kind == ScheduleKind::Streamed && step == 0 => streamed::beside_others(all),
                all => all.last().copied().into_iter().collect(),
            };
            let each: Vec<Vec<Structure>> = groups.iter().map(beside).collect();
            let most = each.iter().map(Vec::len).max().unwrap_or(0);
            let variant = |k: usize| each.iter().filter_map(|s| s.get(k).or(s.last()).copied()).collect();
            (0..most).map(variant).collect()
        }
    }
}

/// A program without depthwise convolutions, which are for processors that hold sums of neighbours in registers.
fn sum_by_column(program: &Program) -> Program {
    let mut program = program.clone();
    for group in program.plan.launches.iter_mut().flat_map(|l| &mut l.parts) {
        if group.kind == ScheduleKind::Depthwise {
            *group = as_column(group);
        }
    }
    program
}

/// Whether what a kernel always needs fits the shared memory of a block; what depends on sizes is a requirement.
fn check_shared(group: GroupId, kernel: &Kernel, options: &LowerOptions) -> Result<(), LowerError> {
    match kernel.geometry.shared_bytes.as_const() {
        Some(bytes) if bytes > options.shared_memory => {
            let what =
                format!("its reductions take {bytes} bytes of shared memory of {}", options.shared_memory);
            Err(LowerError::Unsupported { group, what })
        }
        Some(_) | None => Ok(()),
    }
}

/// A requirement that something fits the shared memory of a block.
fn fits_shared(bytes: Size, options: &LowerOptions) -> Condition {
    Condition::AtMost(bytes, options.shared_memory.into())
}
