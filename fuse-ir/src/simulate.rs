//! Kernel IR executed, in block lockstep over masked lanes, with detectors for what has no meaning.
//!
//! ```text
//! kernel, arguments ──compile──▶ steps over registers of 32 lanes ──▶ for each block, for each step, for each warp
//!                                                                       memory, its shadow, counters, faults
//! ```
//!
//! A kernel without a race means the same in every order of its lanes, so each statement runs for all active lanes of a
//! block before the next, and blocks run one after the other. What depends on the order is not seen in that order but in
//! the shadow of memory (`shadow.rs`): every byte remembers who touched it, in which epoch of block and warp. So a run
//! without a fault proves, for these arguments, that no schedule has one, as long as addresses and branches do not depend
//! on what a race would change. Scalar operations are those of [`crate::eval`].
//!
//! Nothing here panics on a faulty kernel: the access is left out, a load gets its fill or zero, and the run goes on.

mod code;

mod compile;

mod memory;

mod shadow;

mod fault;

mod counters;

mod needs;

mod machine;

mod control;

mod step;

mod access;

mod copies;

mod warp;

mod program;

pub use counters::{Counters, GlobalTraffic, SharedTraffic};
pub use fault::{Fault, FaultKind, Other};
pub use memory::{Buffer, GlobalMemory};
pub use program::{
    Layout, ProgramError, ProgramOptions, ProgramReport, RanKernel, VariantChoice, simulate_program,
    simulate_program_with,
};
pub use shadow::AccessKind;

use crate::dtype::Value;
use crate::id::ArgId;
use crate::kernel_ir::{Dims, GeometryError, Kernel, KernelError, LaunchArg, ParamKind, Usage, verify_types};
use memory::Pointer;
use std::fmt;

/// What is passed for a parameter of a kernel.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Argument {
    /// The address of a byte of an allocation.
    Pointer {
        /// The number of the allocation.
        buffer: usize,
        /// The byte.
        offset: u64,
    },
    /// A number of the parameter's dtype.
    Scalar(Value),
}

/// What a caller may set.
#[derive(Clone, PartialEq, Debug)]
pub struct SimulateOptions {
    /// Instructions of a launch, at most, counted as in [`Counters::instructions`].
    pub max_instructions: u64,
}

impl Default for SimulateOptions {
    fn default() -> Self {
        SimulateOptions { max_instructions: 1 << 36 }
    }
}

/// What a launch did.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Report {
    /// What is wrong, in the order in which it was found. Empty for a right kernel.
    pub faults: Vec<Fault>,
    /// What a profiler would count.
    pub counters: Counters,
}

/// Why a launch was not made.
#[derive(Clone, PartialEq, Debug)]
pub enum SimulateError {
    /// The kernel is not well typed.
    Invalid(KernelError),
    /// The arguments give no geometry.
    Geometry(GeometryError),
    /// An argument breaks what its parameter promises.
    Argument {
        /// The parameter.
        parameter: String,
        /// What is wrong.
        why: &'static str,
    },
    /// What the kernel requires of its arguments does not hold.
    Requirement {
        /// The first that does not, by number in [`Kernel::requires`].
        number: usize,
    },
    /// A view leaves the shared memory of the block.
    View(String),
    /// The kernel with its loops unrolled, or its shared memory, is beyond what is simulated.
    TooLarge,
}

impl fmt::Display for SimulateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SimulateError::Invalid(e) => write!(f, "{e}"),
            SimulateError::Geometry(e) => write!(f, "{e}"),
            SimulateError::Argument { parameter, why } => {
                write!(f, "what is passed for `{parameter}` {why}")
            }
            SimulateError::Requirement { number } => {
                write!(f, "requirement {number} of the kernel does not hold")
            }
            SimulateError::View(name) => write!(f, "`{name}` leaves the shared memory of the block"),
            SimulateError::TooLarge => write!(f, "the kernel is too large to be simulated"),
        }
    }
}

impl std::error::Error for SimulateError {}

/// Runs one launch of a kernel.
///
/// A launch with an empty grid does nothing.
///
/// # Errors
/// If the launch cannot be made. What goes wrong in it is in the report.
pub fn simulate_kernel(
    kernel: &Kernel,
    memory: &mut GlobalMemory,
    args: &[Argument],
    options: &SimulateOptions,
) -> Result<Report, SimulateError> {
    verify_types(kernel).map_err(SimulateError::Invalid)?;
    let launch_args = address_arguments(kernel, memory, args)?;
    let dims = kernel.evaluate_geometry(&launch_args).map_err(SimulateError::Geometry)?;
    let pointers = check_arguments(kernel, memory, args, &launch_args)?;
    if let Some(number) = kernel.requires.iter().position(|c| !c.holds(&launch_args)) {
        return Err(SimulateError::Requirement { number });
    }
    let views = place_views(kernel, &dims, &launch_args)?;
    if dims.grid.contains(&0) {
        return Ok(Report::default());
    }
    let code = compile::compile_kernel(kernel, &dims, &launch_args)?;
    Ok(machine::Machine::new(kernel, &code, &dims, memory, pointers, views, options).run_grid())
}

/// The arguments as the kernel gets them.
fn address_arguments(
    kernel: &Kernel,
    memory: &GlobalMemory,
    args: &[Argument],
) -> Result<Vec<LaunchArg>, SimulateError> {
    let name = |k: usize| kernel.params.get(k).map_or_else(String::new, |p| p.name.clone());
    let address = |(k, arg): (usize, &Argument)| match *arg {
        Argument::Scalar(value) => Ok(LaunchArg::Scalar(value)),
        Argument::Pointer { buffer, offset } => match memory.buffers.get(buffer) {
            Some(b) => Ok(LaunchArg::Pointer(b.address.wrapping_add(offset))),
            None => Err(SimulateError::Argument { parameter: name(k), why: "is no allocation" }),
        },
    };
    args.iter().enumerate().map(address).collect()
}

/// Checks what parameters promise, and gives what each pointer reaches.
fn check_arguments(
    kernel: &Kernel,
    memory: &GlobalMemory,
    args: &[Argument],
    addresses: &[LaunchArg],
) -> Result<Vec<Option<Pointer>>, SimulateError> {
    let wrong = |k: usize, why| SimulateError::Argument { parameter: kernel.params[k].name.clone(), why };
    let mut pointers: Vec<Option<Pointer>> = Vec::new();
    for (k, param) in kernel.params.iter().enumerate() {
        let pointer = match (&param.kind, &args[k], &addresses[k]) {
            (ParamKind::Scalar { multiple_of, .. }, Argument::Scalar(value), _) => {
                if value.as_i128().is_some_and(|n| n % i128::from(*multiple_of) != 0) {
                    return Err(wrong(k, "is not the multiple that it must be"));
                }
                None
            }
            (
                ParamKind::Pointer { align, .. },
                Argument::Pointer { buffer, .. },
                LaunchArg::Pointer(address),
            ) => {
                if !address.is_multiple_of(u64::from(*align)) {
                    return Err(wrong(k, "is not aligned as it must be"));
                }
                let b = &memory.buffers[*buffer];
                let bounds = (b.address, b.address + b.bytes.len() as u64);
                let param = ArgId::from_index(k);
                Some(Pointer { param, buffer: *buffer, address: *address, bounds })
            }
            (ParamKind::Scalar { .. } | ParamKind::Pointer { .. }, _, _) => None,
        };
        pointers.push(pointer);
    }
    for (k, pointer) in pointers.iter().enumerate() {
        let Some(pointer) = pointer else { continue };
        let twins =
            pointers.iter().flatten().filter(|p| p.buffer == pointer.buffer && p.param != pointer.param);
        for twin in twins {
            let kinds = (kernel.params[k].kind, kernel.param(twin.param).kind);
            let (ParamKind::Pointer { usage, unaliased: true, .. }, ParamKind::Pointer { usage: other, .. }) =
                kinds
            else {
                continue;
            };
            if usage != Usage::Read || other != Usage::Read {
                return Err(wrong(k, "is passed for another parameter too, and one of the two is written"));
            }
        }
    }
    Ok(pointers)
}

/// Where each view begins and ends in shared memory, in bytes.
fn place_views(kernel: &Kernel, dims: &Dims, args: &[LaunchArg]) -> Result<Vec<(u64, u64)>, SimulateError> {
    if dims.shared_bytes > 1 << 24 {
        return Err(SimulateError::TooLarge);
    }
    let place = |view: &crate::kernel_ir::View| {
        let start = view.offset.eval(args)?;
        let end = view.len.eval(args)?.checked_mul(view.dtype.size() as u64)?.checked_add(start)?;
        (end <= u64::from(dims.shared_bytes)).then_some((start, end))
    };
    kernel.views.iter().map(|v| place(v).ok_or_else(|| SimulateError::View(v.name.clone()))).collect()
}
