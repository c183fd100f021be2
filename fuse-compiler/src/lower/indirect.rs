//! `x.gather(V, ids)`: a read at positions that are data (rules 1, 5, 15).

use super::arguments::Arguments;
use super::axis::{lower_axis, require_axis};
use super::branch::path_condition;
use super::constant::{adopt, expect_dtype, expect_node};
use super::context::Context;
use super::expr::lower_expr;
use super::operator::map;
use super::site::Site;
use super::value::Value;
use super::view::map_select;
use crate::diagnostic::{Place, Reported, messages};
use fuse_ir::dtype::{self, DType};
use fuse_ir::graph::Op;
use fuse_ir::id::NodeId;
use fuse_ir::index_map::{Bound, IndexExpr, IndexMap};
use fuse_ir::scalar::ScalarOp;

/// What a read gives where its bounds fail.
pub(super) enum Fill {
    /// A number that the view holds.
    Constant(dtype::Value),
    /// A value that only the call knows; it is selected.
    Node(NodeId),
}

/// The argument `fill = ..` in the dtype of the source; `None` if it is not given.
pub(super) fn lower_fill(
    cx: &mut Context<'_>,
    args: &Arguments<'_>,
    dtype: DType,
    site: &Site,
) -> Result<Option<Fill>, Reported> {
    let Some(fill) = args.named("fill") else { return Ok(None) };
    let node = match &lower_expr(cx, fill)? {
        Value::Untyped(untyped) => adopt(cx, untyped, dtype, site)?,
        other => expect_dtype(cx, other, dtype, Place::of(fill), site)?,
    };
    Ok(Some(match cx.graph.kernel.node(node).op {
        Op::Constant(value) => Fill::Constant(value),
        _ => Fill::Node(node),
    }))
}

/// `x.gather(V, ids)`: the axes of `ids` take the place of `V`; axes that both have align.
pub(super) fn lower_gather(
    cx: &mut Context<'_>,
    source: NodeId,
    args: &Arguments<'_>,
    site: &Site,
) -> Result<NodeId, Reported> {
    args.only_named(cx, &["fill"])?;
    let [axis_expr, ids_expr] = args.exactly(cx, "x.gather(V, ids)")?;
    let axis = lower_axis(cx, axis_expr)?;
    require_axis(cx, source, axis, Place::of(axis_expr))?;
    let ids = match &lower_expr(cx, ids_expr)? {
        Value::Untyped(untyped) => adopt(cx, untyped, DType::I64, site)?,
        other => expect_node(cx, other, site)?,
    };
    let found = cx.graph.dtype(ids);
    if !found.is_int() {
        return Err(cx.report(messages::position_not_integer(Place::of(ids_expr), found)));
    }
    let mut axes: Vec<_> = cx.graph.axes(source).iter().copied().filter(|&a| a != axis).collect();
    axes.extend(cx.graph.axes(ids));
    let mut map = IndexMap::identity(cx.graph.axes(source));
    for (a, position) in &mut map.indices {
        if *a == axis {
            *position = IndexExpr::Indirect(ids);
        }
    }
    let dtype = cx.graph.dtype(source);
    let zero = dtype::Value::zero(dtype);
    let fill = lower_fill(cx, args, dtype, site)?;
    let Some(fill) = fill else {
        // Where a branch is not taken nothing is read, so nothing is out of range.
        let taken = path_condition(cx, site);
        if let Some(taken) = taken {
            let taken = cx.graph.cast(taken, DType::I64, site);
            let expr = IndexExpr::Indirect(taken).minus(1);
            map.bounds.push(Bound { expr, extent: IndexExpr::Const(1) });
        }
        let fill = taken.map(|_| zero);
        return Ok(cx.graph.view(source, map, &axes, fill, site));
    };
    map.bounds.push(Bound { expr: IndexExpr::Indirect(ids), extent: IndexExpr::Extent(axis) });
    match fill {
        Fill::Constant(value) => Ok(cx.graph.view(source, map, &axes, Some(value), site)),
        Fill::Node(fill) => {
            let read = cx.graph.view(source, map, &axes, Some(zero), site);
            let inside = lower_in_range(cx, ids, IndexExpr::Extent(axis), site)?;
            map_select(cx, inside, read, fill, site)
        }
    }
}

/// `0 <= ids < extent` as a node. An index past i64 is out of range, as a negative one is.
fn lower_in_range(
    cx: &mut Context<'_>,
    ids: NodeId,
    extent: IndexExpr,
    site: &Site,
) -> Result<NodeId, Reported> {
    let ids = cx.graph.cast(ids, DType::I64, site);
    let zero = cx.graph.constant(dtype::Value::I64(0), site);
    let extent = cx.graph.extent(extent, site);
    let from = map(cx, ScalarOp::Ge, &[ids, zero], site.place, site)?;
    let until = map(cx, ScalarOp::Lt, &[ids, extent], site.place, site)?;
    map(cx, ScalarOp::And, &[from, until], site.place, site)
}
