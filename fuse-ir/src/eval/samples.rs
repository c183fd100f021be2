//! Some of the tuples that the reductions of a kernel take.

use super::node::{NodeValue, for_each_position};
use super::{EvalError, Evaluation, Inputs, Precision};
use crate::dtype::Value;
use crate::graph::{Kernel, Op, Reducer};
use crate::id::NodeId;

/// Reductions, each with tuples that it takes.
pub type ReductionSamples = Vec<(NodeId, Vec<Vec<Value>>)>;

/// For each reduction by a user's combiner up to `count` of the tuples that it takes, evenly spread over its domain.
///
/// # Errors
/// As [`super::evaluate`].
pub fn sample_reductions(
    kernel: &Kernel,
    inputs: &Inputs,
    count: usize,
) -> Result<ReductionSamples, EvalError> {
    let run = Evaluation::run(kernel, inputs, Precision::Exact)?;
    let mut samples = Vec::new();
    for id in kernel.node_ids() {
        let node = kernel.node(id);
        let Op::Reduce { reducer: Reducer::User { .. }, sources, axes, .. } = &node.op else { continue };
        let sources: Vec<&NodeValue> = sources.iter().map(|s| &run.values[s.index()]).collect();
        let domain = [node.ty.axes.as_slice(), axes].concat();
        let positions: i64 = domain.iter().map(|a| run.extents[a.index()]).product();
        let step = (positions / count.max(1) as i64).max(1);
        let (mut tuples, mut at) = (Vec::new(), 0);
        for_each_position(&domain, &run.extents, |index| {
            if at % step == 0 && tuples.len() < count {
                tuples.push(sources.iter().map(|s| s.get(index)).collect());
            }
            at += 1;
            Ok(())
        })?;
        samples.push((id, tuples));
    }
    Ok(samples)
}
