//! Tensors, devices, kernel launching, and what generated CPU code calls.

pub mod device;
pub mod element;
pub mod error;
pub mod tensor;

pub mod call;
pub mod plan;

pub mod convert;
pub mod math;
pub mod random;
pub mod scalar_ops;

pub mod cpu;

mod lowered;

mod simulator;

mod cuda;

mod graph;

pub mod verify;

pub mod survey;

pub use call::CudaSource;
pub use cuda::{CudaUnavailable, add_machine_code};
pub use cuda::{MachineCode, Precompile, PrecompileError, Precompiled, Precompiler};
pub use device::Device;
pub use element::Element;
pub use error::Error;
pub use graph::Graph;
pub use plan::Plan;
pub use tensor::Tensor;
pub use verify::Verify;

pub use fuse_ir::program::Program;
pub use half::{bf16, f16};

/// What generated code names; not for users.
#[doc(hidden)]
pub mod __private {
    pub use crate::call::{Arg, CompiledKernel, CudaSource, Outputs};
    pub use crate::cpu::order::clamp;
    pub use crate::cpu::tile::{GroupFns, RowFns, StageFns, Tile};
    pub use crate::cpu::{combine as reduce, count_tiles, integer, order};
    pub use crate::scalar_ops as scalar;
    pub use crate::{convert, math, random};
}
