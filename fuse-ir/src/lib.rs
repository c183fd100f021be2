//! Graph, planner, schedules and evaluators: the stages between syntax and emission, without `syn`.
//!
//! The modules stand in reading order. A kernel is first a [`graph`]: typed dataflow over named axes, without order.
//! The [`plan`] cuts it into launches; each group of nodes becomes a scalar body under a [`schedule`]. Rust is emitted
//! from the schedule; the reference evaluator reads the graph and shares nothing with it but the scalar operations.

pub mod id;

pub mod dtype;
pub mod index_map;
pub mod scalar;

pub mod graph;

pub mod bind;

pub mod eval;

pub mod schedule;

pub mod stage;

pub mod target;

pub mod plan;

pub mod program;

pub mod interpret;

pub mod kernel_ir;

pub mod lower;

pub mod print_cuda;

pub mod simulate;

#[doc(hidden)]
pub mod random;
