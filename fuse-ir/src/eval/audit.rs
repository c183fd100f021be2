//! The operations inside of scalar functions, each against f64 on its own operands.
//!
//! The value of a function has no bound of its own: it may cancel, and compare what the last bit decides. Each operation
//! that it executes has one.

use super::node::{NodeValue, for_each_position};
use super::reduce::Combiner;
use super::scalar_fn::audit_fn;
use super::{EvalError, Evaluation, Precision};
use crate::dtype::{DType, Value};
use crate::graph::{Kernel, MapFn, Op, Reducer};
use crate::id::NodeId;

impl Evaluation {
    /// The worst error in ulp of an operation that the function of this node executes; `None` if it has none.
    pub(super) fn audit_functions(&self, kernel: &Kernel, id: NodeId) -> Result<Option<f64>, EvalError> {
        let node = kernel.node(id);
        let mut worst = 0.0;
        match &node.op {
            Op::Map { function: MapFn::Call { function, .. }, args } => {
                let operands: Vec<&NodeValue> = args.iter().map(|n| &self.values[n.index()]).collect();
                for_each_position(&node.ty.axes, &self.extents, |index| {
                    let elements: Vec<Value> = operands.iter().map(|v| v.get(index)).collect();
                    audit_fn(&kernel.functions, *function, &elements, &mut worst);
                    Ok(())
                })?;
                Ok(Some(worst))
            }
            Op::Reduce { reducer: reducer @ Reducer::User { .. }, sources, axes, .. } => {
                let dtypes: Vec<DType> = sources.iter().map(|n| kernel.node(*n).ty.dtype).collect();
                let mut combiner = Combiner::new(reducer, &dtypes, &kernel.functions, Precision::Exact);
                combiner.worst = Some(worst);
                self.reduce(&mut combiner, &node.ty.axes, axes, sources, &self.values, |_| ())?;
                Ok(combiner.worst)
            }
            Op::Map { function: MapFn::Op(_), .. }
            | Op::Reduce { .. }
            | Op::Tensor(_)
            | Op::Scalar(_)
            | Op::Constant(_)
            | Op::Index(_)
            | Op::Extent(_)
            | Op::View { .. }
            | Op::CumSum { .. }
            | Op::Materialize { .. } => Ok(None),
        }
    }
}
