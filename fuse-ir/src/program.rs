//! A kernel with its plan, as it travels in the user's binary.

use crate::graph::Kernel;
use crate::plan::Plan;
use serde::{Deserialize, Serialize};

mod verify;

pub use verify::verify_plan;

pub(crate) use verify::verify_ids;

/// What an expansion embeds: enough to launch, to print the plan and to verify.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Program {
    /// Interface and graph.
    pub kernel: Kernel,
    /// How it is launched.
    pub plan: Plan,
}

impl Program {
    /// The program as bytes.
    ///
    /// # Errors
    /// If an id or length does not fit the encoding; programs of the planner always do.
    pub fn to_bytes(&self) -> Result<Vec<u8>, postcard::Error> {
        postcard::to_allocvec(self)
    }

    /// The program of these bytes.
    ///
    /// # Errors
    /// If the bytes are not what [`Program::to_bytes`] of this version gives.
    pub fn from_bytes(bytes: &[u8]) -> Result<Program, postcard::Error> {
        postcard::from_bytes(bytes)
    }
}
