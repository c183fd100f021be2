//! CUDA: GPUs as devices, through NVIDIA's driver and run-time compiler, both found at run time.
//!
//! ```text
//! handle.rs               what the driver calls things
//! driver.rs, compiler.rs  every call of libcuda and of NVRTC, none elsewhere (absent.rs without the feature `cuda`)
//! unavailable.rs          why a GPU cannot be used, and what would help
//! gpu.rs                  a GPU: context, architecture, limits
//! stream.rs               what orders work on it; memory.rs its blocks, fault.rs what kernels note,
//!                         staging.rs copies that nobody waits for
//! cubin.rs                from text to machine code; disk_cache.rs keeps it, embedded.rs has what the program carries
//! module.rs               loaded functions of a kernel's variants
//! launch.rs               a call's launches: arguments, variant, geometry
//! graph.rs                calls that were captured, launched as one
//! survey.rs               what there is
//! ahead.rs                texts compiled for a GPU that need not be there
//! ```
//!
//! A [`Stream`](stream::Stream) orders everything that touches the memory of its tensors: kernels, copies, frees. So a call returns when
//! its launches are queued, a tensor may be dropped while kernels that read it are still to run, and its block may be used
//! again at once. What a kernel notes of faults is looked at by the next call that waits.

mod handle;

#[cfg(not(feature = "cuda"))]
mod absent;
#[cfg(feature = "cuda")]
mod compiler;
#[cfg(feature = "cuda")]
mod driver;

mod unavailable;

mod gpu;

mod memory;

mod fault;

mod staging;

mod stream;

mod disk_cache;

mod embedded;

mod cubin;

mod module;

mod launch;

mod graph;

mod survey;

mod ahead;

#[cfg(not(feature = "cuda"))]
use absent::{Compiler, Driver};
#[cfg(feature = "cuda")]
use compiler::Compiler;
#[cfg(feature = "cuda")]
use driver::Driver;

pub use ahead::{Precompile, PrecompileError, Precompiled, Precompiler};
pub use embedded::{MachineCode, add_machine_code};
pub(crate) use graph::{Capture, CapturedGraph};
pub(crate) use launch::run;
pub(crate) use memory::DeviceBlock;
pub(crate) use module::CudaKernels;
pub(crate) use stream::{StreamRef, count_devices, open_device};
pub(crate) use survey::{find_cache, find_compiler, find_driver, find_gpus};
pub use unavailable::CudaUnavailable;
