//! Plans on plain values: every launch, pass by pass, exactly as its schedules say.
//!
//! [`interpret`] shares the scalar operations with [`crate::eval`] and nothing else, so a program whose plan is right
//! gives the same bits as [`crate::eval::evaluate`] at [`crate::eval::Precision::Exact`]. Positions that a backend may
//! run in any order run in order here, but every element of memory remembers who wrote and who read it in the launch:
//! what would depend on the order is an error, and so are reads of elements that nobody wrote, second writes, elements
//! of a result that stay unwritten, accesses out of bounds and values that are not rounded to their dtype.

mod memory;

mod accumulate;

mod group;

use crate::eval::{EvalError, Inputs, NodeFault, Outputs, bind_inputs};
use crate::id::{GroupId, ValueId};
use crate::program::{Program, verify_ids};
use crate::schedule::BufferRef;
use group::run_group;
use memory::Memory;
use std::fmt;

/// Why a plan could not be interpreted, or what is wrong with it.
#[derive(Clone, PartialEq, Debug)]
pub enum InterpretError {
    /// The inputs do not fit the kernel.
    Inputs(EvalError),
    /// The plan names what does not exist.
    InvalidPlan(String),
    /// A value is read that was not computed and not buffered.
    NotComputed {
        /// In which group.
        group: GroupId,
        /// Which value.
        value: ValueId,
    },
    /// A value is of another dtype than it says, or not rounded to it.
    WrongValue {
        /// In which group.
        group: GroupId,
        /// Which value.
        value: ValueId,
        /// What is wrong.
        why: String,
    },
    /// Something is wrong with an access to memory.
    Access {
        /// Of which group.
        group: GroupId,
        /// To which buffer.
        buffer: BufferRef,
        /// At which position, in layout order.
        position: Vec<i64>,
        /// What is wrong.
        kind: AccessError,
    },
    /// An element of a result was never written.
    NotWritten {
        /// Which result.
        result: u32,
        /// Which element, row-major.
        element: usize,
    },
}

/// What is wrong with an access to memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AccessError {
    /// The position is outside the buffer.
    OutOfBounds,
    /// Nobody wrote the element that is read.
    Uninitialised,
    /// The element that is read was overwritten by a buffer that took over the memory.
    Overwritten,
    /// The element was already written by this launch, or already written at all if it is no parameter's.
    WrittenTwice,
    /// The result would depend on the order in which the positions of a launch run.
    Race,
    /// A buffer is written that the caller only lent.
    NotMutable,
}

impl fmt::Display for InterpretError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InterpretError::Inputs(e) => write!(f, "{e}"),
            InterpretError::InvalidPlan(why) => write!(f, "invalid plan: {why}"),
            InterpretError::NotComputed { group, value } => {
                write!(f, "{group}: {value} is read where it is neither computed nor buffered")
            }
            InterpretError::WrongValue { group, value, why } => write!(f, "{group}: {value} {why}"),
            InterpretError::Access { group, buffer, position, kind } => {
                let what = match kind {
                    AccessError::OutOfBounds => "is out of bounds",
                    AccessError::Uninitialised => "is read and nobody wrote it",
                    AccessError::Overwritten => "is read after its memory was taken over",
                    AccessError::WrittenTwice => "is written twice",
                    AccessError::Race => "is read and written by positions of one launch that have no order",
                    AccessError::NotMutable => "is written and only lent",
                };
                write!(f, "{group}: {buffer:?} at {position:?} {what}")
            }
            InterpretError::NotWritten { result, element } => {
                write!(f, "element {element} of result {result} is never written")
            }
        }
    }
}

impl std::error::Error for InterpretError {}

/// What the program gives for these inputs when it is launched as its plan says.
///
/// Of several faults the outputs name the one of the least node.
///
/// # Errors
/// If the inputs do not fit, or the plan does something that [`InterpretError`] describes.
pub fn interpret(program: &Program, inputs: &Inputs) -> Result<Outputs, InterpretError> {
    verify_ids(program).map_err(InterpretError::InvalidPlan)?;
    let bound = bind_inputs(&program.kernel, inputs).map_err(InterpretError::Inputs)?;
    let mut memory =
        Memory::allocate(program, inputs, &bound.extents).map_err(InterpretError::InvalidPlan)?;
    let mut call = Call {
        program,
        inputs,
        extents: &bound.extents,
        params: &bound.params,
        memory: &mut memory,
        fault: None,
        launch: 0,
    };
    for launch in &program.plan.launches {
        for group in &launch.parts {
            for &(id, written, read) in &program.plan.in_place {
                if id == group.id && written != read {
                    call.memory.take_over(written, read).map_err(InterpretError::InvalidPlan)?;
                }
            }
        }
        let longest = launch.parts.iter().map(|p| p.launches()).max().unwrap_or(0);
        for group in &launch.parts {
            for each in group.loops() {
                run_group(&mut call, each)?;
                // What a link reads is complete, and what shares the launch of a streamed group touches other elements.
                call.launch += if group.links.is_empty() { 0 } else { each.launches() };
            }
        }
        call.launch += longest;
    }
    let fault = call.fault;
    Ok(Outputs { fault, ..memory.into_outputs()? })
}

/// One call while it runs.
struct Call<'a> {
    program: &'a Program,
    inputs: &'a Inputs,
    extents: &'a [i64],
    params: &'a [i64],
    memory: &'a mut Memory,
    fault: Option<NodeFault>,
    /// Which launch runs, for the marks on memory.
    launch: u32,
}

impl Call<'_> {
    /// Keeps the fault of the least node.
    fn note_fault(&mut self, fault: NodeFault) {
        if self.fault.is_none_or(|f| fault.node < f.node) {
            self.fault = Some(fault);
        }
    }
}
