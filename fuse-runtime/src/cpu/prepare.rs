//! What is computed once for a kernel: its stages, their functions, and everything that does not depend on sizes.

use super::bindings::{Bindings, CpuFault};
use super::instruction_set::InstructionSet;
use super::tile::GroupFns;
use fuse_ir::program::Program;
use std::fmt;

/// Why a program cannot be prepared: its generated functions are not those of its plan.
#[derive(Clone, PartialEq, Debug)]
pub struct PrepareError {
    /// What does not fit.
    pub reason: String,
}

impl fmt::Display for PrepareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the program does not fit its generated code: {}", self.reason)
    }
}

impl std::error::Error for PrepareError {}

/// A kernel, ready to run on this CPU.
#[derive(Debug)]
pub struct CpuProgram {}

impl CpuProgram {
    /// Prepares a program; `groups` are the generated functions in the order of [`fuse_ir::plan::Plan::groups`].
    ///
    /// # Errors
    /// If the functions are not those that the program's plan needs.
    pub fn prepare(program: &Program, groups: &[GroupFns]) -> Result<CpuProgram, PrepareError> {
        let _ = (program, groups);
        Err(PrepareError { reason: "the engine is not there yet".into() })
    }

    /// Runs one launch of the plan; returns its first fault.
    ///
    /// # Safety
    /// Every buffer of the bindings is valid for the accesses that the plan makes with these extents, its elements are
    /// initialised, and nobody else writes what is read or touches what is written. Buffers may overlap one another
    /// only as the plan says (a result that takes over the memory of an input).
    pub unsafe fn run_launch(&self, launch: usize, bindings: &Bindings<'_>) -> Option<CpuFault> {
        let _ = (launch, bindings);
        None
    }

    /// Runs all launches in order; returns the first fault.
    ///
    /// # Safety
    /// As for [`CpuProgram::run_launch`].
    pub unsafe fn run(&self, bindings: &Bindings<'_>) -> Option<CpuFault> {
        let _ = bindings;
        None
    }

    /// Runs all launches on an instruction set of [`InstructionSet::available`], whatever the best is: how verification
    /// compares the versions.
    ///
    /// # Safety
    /// As for [`CpuProgram::run_launch`]; the processor has the instruction set.
    pub(crate) unsafe fn run_on(&self, set: InstructionSet, bindings: &Bindings<'_>) -> Option<CpuFault> {
        let _ = set;
        // SAFETY: by the caller.
        unsafe { self.run(bindings) }
    }
}
