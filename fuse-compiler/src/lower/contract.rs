//! `x.dot(w, K)`: the one contraction (rules 7, 11).

use super::arguments::Arguments;
use super::axis::lower_axes;
use super::context::{Context, Contraction};
use super::expr::lower_expr;
use super::operator::unify;
use super::site::Site;
use super::value::Value;
use crate::diagnostic::{Diagnostic, Place, Reported, messages};
use fuse_ir::dtype::DType;
use fuse_ir::graph::Reducer;
use fuse_ir::id::{AxisId, NodeId};

/// `x.dot(w, K)` or `x.dot(w, (C, KH, KW))`: contracted axes are in both operands, other common axes are batch, the rest
/// join. Narrow floats widen first; 8-bit integers accumulate in i32, other integers as sums do.
pub(super) fn lower_dot(
    cx: &mut Context<'_>,
    left: NodeId,
    args: &Arguments<'_>,
    site: &Site,
) -> Result<NodeId, Reported> {
    args.only_named(cx, &[])?;
    let [other, axes_expr] = args.exactly(cx, "x.dot(w, K)")?;
    let right = lower_expr(cx, other)?;
    let axes = lower_axes(cx, axes_expr)?;
    let operands = unify(cx, &[&Value::Node(left), &right], args.place, site)?;
    let (left, right) = (operands[0], operands[1]);
    for (k, &axis) in axes.iter().enumerate() {
        let place = match axes_expr {
            syn::Expr::Tuple(tuple) => Place::of(&tuple.elems[k]),
            expr => Place::of(expr),
        };
        for (operand, which) in [(left, "left"), (right, "right")] {
            if !cx.graph.axes(operand).contains(&axis) {
                let name = cx.graph.axis_name(axis).to_owned();
                let found = cx.graph.axes_text(cx.graph.axes(operand));
                return Err(cx.report(messages::contracted_axis_missing(place, &name, which, &found)));
            }
        }
    }
    let dtype = cx.graph.dtype(left);
    if !(dtype.is_float() || dtype.is_int()) {
        return Err(cx.report(messages::reduction_not_defined(args.place, "dot", dtype, "a number")));
    }
    let accumulator = match dtype {
        DType::I8 | DType::U8 => DType::I32,
        dtype => dtype.accumulator(),
    };
    let sources = [cx.graph.cast(left, accumulator, site), cx.graph.cast(right, accumulator, site)];
    let node = cx.graph.reduce(Reducer::Dot, &sources, &axes, (0, accumulator), site);
    let common = |a: &&AxisId| cx.graph.axes(right).contains(a) && !axes.contains(a);
    let batch: Vec<AxisId> = cx.graph.axes(left).iter().filter(common).copied().collect();
    if !batch.is_empty() {
        let call = site.origin.label.clone();
        cx.contractions.push(Contraction { node, batch, place: site.place, call });
    }
    Ok(node)
}

/// Adds to an error about the axes of a value that one of the contractions in it has a batch axis, if it does: where an
/// axis is missing, the operands were often meant to have it under two names.
pub(super) fn mention_batch(cx: &Context<'_>, node: NodeId, error: Diagnostic) -> Diagnostic {
    let mut seen = vec![false; cx.graph.kernel.nodes.len()];
    let mut stack = vec![node];
    while let Some(id) = stack.pop() {
        if std::mem::replace(&mut seen[id.index()], true) {
            continue;
        }
        if let Some(found) = cx.contractions.iter().find(|c| c.node == id) {
            let batch = cx.graph.axis_name(found.batch[0]).to_owned();
            return messages::with_batch_axis(error, found.place, &found.call, &batch);
        }
        stack.extend(cx.graph.kernel.node(id).op.operands());
    }
    error
}
