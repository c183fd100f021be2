//! What a verification found, in words.

use super::backend::Backend;
use super::cases::Layout;
use crate::error::Error;
use fuse_ir::eval::{EvalError, Input, Inputs, NodeError};
use fuse_ir::graph::{Kernel, ParamKind};
use fuse_ir::id::NodeId;
use std::fmt;

pub use fuse_ir::dtype::Value;

/// A kernel that agrees with its reference, and how far that was tried.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// The kernel.
    pub kernel: String,
    /// What it ran on: instruction sets and devices.
    pub versions: Vec<String>,
    /// How many inputs were tried on each.
    pub cases: usize,
    /// How many sets of sizes the kernel does not take.
    pub refused: usize,
    /// How many elements were compared, over all of them.
    pub elements: usize,
    /// How many of them differ in their last bits, by no more than the transcendental functions may.
    pub within_ulp: usize,
    /// How many depend so much on the last bits of a transcendental function that nothing can be said.
    pub undecided: usize,
    /// The worst error of a single operation against f64, in ulp; of sums in ε·Σ|x|.
    pub worst_node_ulp: f64,
    /// How many reducers were found to keep their laws.
    pub laws: usize,
    /// What the kernel does not run on, and why.
    pub not_run: Vec<String>,
    /// Where their laws break on NaN, infinities or overflow: the result then depends on the tree of the reduction,
    /// which is fixed.
    pub law_notes: Vec<String>,
}

impl Report {
    pub(super) fn new(kernel: &Kernel) -> Report {
        Report {
            kernel: kernel.name.clone(),
            versions: Vec::new(),
            cases: 0,
            refused: 0,
            elements: 0,
            within_ulp: 0,
            undecided: 0,
            worst_node_ulp: 0.0,
            laws: 0,
            not_run: Vec::new(),
            law_notes: Vec::new(),
        }
    }

    pub(super) fn note_not_run(&mut self, backend: &Backend, error: &Error) {
        let note = format!("not on {backend}: {error}");
        if !self.not_run.contains(&note) {
            self.versions.retain(|version| *version != backend.to_string());
            self.not_run.push(note);
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel `{}` agrees with its reference: ", self.kernel)?;
        write!(f, "{} inputs on {}, {} elements", self.cases, self.versions.join(", "), self.elements)?;
        if self.within_ulp > 0 {
            write!(f, ", {} of them within the ulp of transcendental functions", self.within_ulp)?;
        }
        if self.undecided > 0 {
            write!(f, ", {} undecided", self.undecided)?;
        }
        if self.laws > 0 {
            write!(f, ", laws of {} reducers", self.laws)?;
        }
        for note in self.not_run.iter().chain(&self.law_notes) {
            write!(f, "\n  note: {note}")?;
        }
        Ok(())
    }
}

/// Where and how a kernel disagrees with its reference.
#[derive(Clone, PartialEq, Debug)]
pub struct Failure {
    /// The kernel.
    pub kernel: String,
    /// What is wrong.
    pub message: String,
    /// The operation that gives the value, and where it is written.
    pub operation: Option<String>,
    /// The run that shows it.
    pub run: Option<String>,
}

/// A run, for messages.
pub(super) struct Place(String);

impl Place {
    pub(super) fn new(
        kernel: &Kernel,
        inputs: &Inputs,
        backend: &Backend,
        layout: Layout,
        seed: u64,
    ) -> Place {
        let mut shapes = Vec::new();
        for (param, input) in kernel.params.iter().zip(&inputs.0) {
            shapes.push(match (input, &param.kind) {
                (Input::Tensor(array), ParamKind::Tensor { .. }) => {
                    format!("`{}` {:?}", param.name, array.shape)
                }
                (Input::Scalar(value), _) => format!("`{}` {value}", param.name),
                (Input::Axis(n), _) => format!("`{}` {n}", param.name),
                (Input::Tensor(_), _) => continue,
            });
        }
        let layout = match layout {
            Layout::Contiguous => "contiguous",
            Layout::Transposed => "transposed",
            Layout::Padded => "padded",
        };
        Place(format!("{}, {layout}, {backend}, seed {seed}", shapes.join(", ")))
    }
}

impl Failure {
    fn new(kernel: &Kernel, message: String) -> Failure {
        Failure { kernel: kernel.name.clone(), message, operation: None, run: None }
    }

    pub(super) fn no_sizes(kernel: &Kernel) -> Failure {
        Failure::new(kernel, "none of the sizes fits; `sizes` gives others".to_owned())
    }

    pub(super) fn reference(kernel: &Kernel, error: &EvalError) -> Failure {
        Failure::new(kernel, format!("the reference cannot be evaluated: {error}"))
    }

    pub(super) fn fault(kernel: &Kernel, faulted: bool, place: Place) -> Failure {
        let message = if faulted {
            "the kernel reports a fault, and the reference does not"
        } else {
            "the reference faults, and the kernel does not report it"
        };
        Failure { run: Some(place.0), ..Failure::new(kernel, message.to_owned()) }
    }

    pub(super) fn difference(
        kernel: &Kernel,
        node: Option<NodeId>,
        output: String,
        position: Vec<usize>,
        (got, want): (Value, Value),
        place: Place,
    ) -> Failure {
        let message = format!("{output} at {position:?} is {got}, but the reference gives {want}");
        Failure {
            operation: node.map(|node| describe_node(kernel, node)),
            run: Some(place.0),
            ..Failure::new(kernel, message)
        }
    }

    pub(super) fn node(kernel: &Kernel, error: &NodeError, bound: f64) -> Failure {
        let message = format!("an operation is {} ulp from f64, more than {bound}", error.relative_to_terms);
        Failure { operation: Some(describe_node(kernel, error.node)), ..Failure::new(kernel, message) }
    }

    pub(super) fn law(
        kernel: &Kernel,
        reducer: &str,
        law: &str,
        values: &[&[Value]],
        left: &[Value],
        right: &[Value],
    ) -> Failure {
        let tuple = |values: &[Value]| {
            let texts: Vec<String> = values.iter().map(ToString::to_string).collect();
            if let [one] = texts.as_slice() { one.clone() } else { format!("({})", texts.join(", ")) }
        };
        let values: Vec<String> = values.iter().map(|v| tuple(v)).collect();
        let message = format!(
            "reducer `{reducer}` {law}: for {} it gives {} and {}",
            values.join(", "),
            tuple(left),
            tuple(right)
        );
        Failure::new(kernel, message)
    }
}

fn describe_node(kernel: &Kernel, node: NodeId) -> String {
    let origin = kernel.origins.get(node.index()).cloned().unwrap_or_default();
    let label = if origin.label.is_empty() { node.to_string() } else { format!("`{}`", origin.label) };
    if origin.line == 0 { label } else { format!("{label} ({}:{})", origin.file, origin.line) }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel `{}`: {}", self.kernel, self.message)?;
        if let Some(operation) = &self.operation {
            write!(f, "\n  operation: {operation}")?;
        }
        if let Some(run) = &self.run {
            write!(f, "\n  run: {run}")?;
        }
        Ok(())
    }
}
