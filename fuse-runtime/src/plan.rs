//! The plan of a compiled kernel, with the names of its kernel.

use fuse_ir::program::Program;
use std::fmt;
use std::ops::Deref;

/// The plan of a kernel: launches, intermediate buffers, traffic, and every decision. Its parts are those of
/// [`fuse_ir::plan::Plan`]; it prints with the kernel's own names.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    program: Program,
}

impl Plan {
    pub(crate) fn new(program: Program) -> Plan {
        Plan { program }
    }

    /// The kernel that is planned, and the plan.
    pub fn program(&self) -> &Program {
        &self.program
    }
}

impl Deref for Plan {
    type Target = fuse_ir::plan::Plan;

    fn deref(&self) -> &fuse_ir::plan::Plan {
        &self.program.plan
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.program.plan.display(&self.program.kernel).fmt(f)
    }
}
