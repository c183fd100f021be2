//! The reference: scalar operations, scalar functions and whole graphs on plain values.
//!
//! [`evaluate`] walks the graph node by node, in the order of the arena, and keeps every node's elements. It knows no
//! plan, no schedule and no layout but the declared one, so it is what fused kernels are compared with: bit for bit at
//! [`Precision::Exact`], numerically at [`Precision::F64`].

mod array;

mod transcendental;

mod scalar_op;

mod wide;

mod scalar_fn;

pub(crate) mod reduce;

mod node;

mod compare;

mod audit;

mod samples;

pub use array::{Array, EvalError, Fault, Input, Inputs, NodeFault, Outputs};
pub use compare::{NodeError, compare_nodes};
pub use samples::{ReductionSamples, sample_reductions};
pub use scalar_fn::eval_fn;
pub use scalar_op::eval_op;

pub(crate) use array::bind_inputs;
pub(crate) use node::IndexContext;

use crate::dtype::Value;
use crate::graph::{Kernel, OutputTarget, ParamKind, verify_graph};
use node::{NodeValue, for_each_position};

/// At which precision a graph is evaluated.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Precision {
    /// Every node at its own dtype, reductions by the tree of [`crate::schedule`].
    Exact,
    /// Floats as f64, reductions one element after the other. Casts to narrow floats round still, and so does one from
    /// f64 to f32: they are part of the meaning. Float results come as arrays of f64.
    F64,
}

impl Precision {
    /// The value as this precision holds it.
    pub(crate) fn admit(self, value: Value) -> Value {
        match self {
            Precision::Exact => value,
            Precision::F64 => wide::widen(value),
        }
    }
}

/// What the kernel gives for these inputs, unfused, one node after the other.
///
/// A fault gives the element 0 and the evaluation goes on; the outputs name the first, by node and then by element.
///
/// # Errors
/// If the graph does not verify, the inputs do not fit it, or an index map leads out of its source.
pub fn evaluate(kernel: &Kernel, inputs: &Inputs, precision: Precision) -> Result<Outputs, EvalError> {
    let evaluation = Evaluation::run(kernel, inputs, precision)?;
    evaluation.collect_outputs(kernel, inputs, precision)
}

/// Every node's elements for one call.
struct Evaluation {
    extents: Vec<i64>,
    params: Vec<i64>,
    values: Vec<NodeValue>,
    fault: Option<NodeFault>,
}

impl Evaluation {
    fn run(kernel: &Kernel, inputs: &Inputs, precision: Precision) -> Result<Self, EvalError> {
        verify_graph(kernel).map_err(EvalError::InvalidGraph)?;
        let bound = bind_inputs(kernel, inputs)?;
        let mut run = Evaluation {
            extents: bound.extents,
            params: bound.params,
            values: Vec::with_capacity(kernel.nodes.len()),
            fault: None,
        };
        for id in kernel.node_ids() {
            let (value, fault) = run.eval_node(kernel, inputs, precision, id, &run.values)?;
            run.fault = run.fault.or(fault.map(|fault| NodeFault { node: Some(id), fault }));
            run.values.push(value);
        }
        Ok(run)
    }

    fn collect_outputs(
        &self,
        kernel: &Kernel,
        inputs: &Inputs,
        precision: Precision,
    ) -> Result<Outputs, EvalError> {
        let mut outputs = Outputs { results: Vec::new(), params: Vec::new(), fault: self.fault };
        for (i, param) in kernel.params.iter().enumerate() {
            if let (ParamKind::Tensor { mutable: true, .. }, Input::Tensor(array)) =
                (&param.kind, &inputs.0[i])
            {
                let id = crate::id::ParamId::from_index(i);
                outputs.params.push((id, array.admit(precision)));
            }
        }
        for output in &kernel.outputs {
            let value = &self.values[output.value.index()];
            match &output.target {
                OutputTarget::Result { index: _, axes } => {
                    outputs.results.push(value.to_array(axes, &self.extents)?);
                }
                OutputTarget::Param { param, region } => {
                    let Some((_, array)) = outputs.params.iter_mut().find(|(p, _)| p == param) else {
                        continue;
                    };
                    for_each_position(&value.axes, &self.extents, |index| {
                        let context = self.context(index, &|_| 0);
                        let position: Vec<i64> = region.iter().map(|e| e.eval(&context)).collect();
                        let Some(at) = array.offset(&position) else {
                            return Err(EvalError::OutOfRange {
                                what: format!("the region of {param}"),
                                position,
                                shape: array.shape.clone(),
                            });
                        };
                        array.data[at] = value.get(index);
                        Ok(())
                    })?;
                }
            }
        }
        Ok(outputs)
    }

    fn context<'a>(
        &'a self,
        index: &'a [i64],
        indirect: &'a dyn Fn(crate::id::NodeId) -> i64,
    ) -> IndexContext<'a> {
        IndexContext { index, extents: &self.extents, params: &self.params, indirect }
    }
}
