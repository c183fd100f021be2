//! Random kernels and inputs for property tests, a way to shrink what fails, and the builder that they are made with.
//!
//! A [`Case`] is made from a `u64` and from nothing else, so a failure is reported by its seed.

mod prng;

mod builder;

mod inputs;

mod functions;

mod views;

mod generate;

mod shrink;

pub use builder::KernelBuilder;
pub use generate::random_case;
pub use prng::Prng;
pub use shrink::shrink;

use crate::eval::{Input, Inputs};
use crate::graph::Kernel;
use std::fmt;

/// A kernel and inputs that fit it.
#[derive(Clone, PartialEq, Debug)]
pub struct Case {
    /// What it was made from.
    pub seed: u64,
    /// The kernel; it verifies.
    pub kernel: Kernel,
    /// What it is called with; it binds.
    pub inputs: Inputs,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}", self.seed)?;
        write!(f, "{}", self.kernel)?;
        for (param, input) in self.kernel.params.iter().zip(&self.inputs.0) {
            match input {
                Input::Tensor(array) => {
                    let shown: Vec<String> = array.data.iter().take(16).map(|v| v.to_string()).collect();
                    let more = if array.data.len() > 16 { ", .." } else { "" };
                    writeln!(f, "{} {:?} = [{}{more}]", param.name, array.shape, shown.join(", "))?;
                }
                Input::Scalar(v) => writeln!(f, "{} = {v}", param.name)?,
                Input::Axis(n) => writeln!(f, "{} = {n}", param.name)?,
            }
        }
        Ok(())
    }
}
