//! The CPU backend: what drives the loops that a user's crate compiles.
//!
//! Generated code is one flat loop over a row of slices for each [`Stage`](fuse_ir::stage::Stage), once for each
//! instruction set. All else is here, compiled once: where the slices come from (straight out of memory, or gathered,
//! widened and filled into scratch), the reduction tree above the lanes, where results go, and how the work is spread over
//! threads.
//!
//! A launch walks blocks of its domain. For each block the operands become rows of slices, the sweep stages run over them
//! and take what they can of the reductions along, stores take the results to memory, and the other reductions take
//! theirs into accumulators; when a row is complete, outer stages run over as many rows as the block has. Results depend on neither the blocks nor the threads: the reduction tree is
//! that of [`fuse_ir::schedule`], and everything else is elementwise.

pub mod combine;
pub mod integer;
pub mod order;
pub mod tile;

mod instruction_set;
mod vector;

mod bindings;
mod prepare;

mod affine;
mod geometry;
mod launch;

mod access;
mod gather;
mod general;

mod reduce;
mod scan;

mod prefetch;
mod scratch;
mod sweep;
mod worker;

mod contract;
mod depthwise;

mod parallel;

pub use bindings::{Bindings, Buffer, CpuFault};
pub use contract::count_tiles;
pub(crate) use instruction_set::InstructionSet;
pub use prepare::{CpuProgram, PrepareError};
pub use tile::{Element, GroupFns, RowFns, StageFn, StageFns, Tile};
