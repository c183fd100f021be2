//! `x.window(H, (OH, KH), ..)`: an axis read through a sliding window (rules 1, 15).

use super::arguments::Arguments;
use super::axis::{lower_axes, lower_axis, make_axis, require_axis, require_new_axis};
use super::branch::check_condition;
use super::context::Context;
use super::indirect::{Fill, lower_fill};
use super::operator::map;
use super::position::lower_position;
use super::site::Site;
use super::view::{axes_with, map_select, map_with};
use crate::diagnostic::{Place, Reported, messages};
use fuse_ir::dtype;
use fuse_ir::graph::{CheckKind, Op};
use fuse_ir::id::{AxisId, NodeId};
use fuse_ir::index_map::{Bound, IndexExpr};
use fuse_ir::scalar::ScalarOp;

/// `x.window(H, (OH, KH), stride = 1, padding = 0, dilation = 1, fill = 0.0)`: at `OH`, `KH` the element of `x` at
/// `OH * stride + KH * dilation - padding` on `H`; where that is none, the fill.
pub(super) fn lower_window(
    cx: &mut Context<'_>,
    source: NodeId,
    args: &Arguments<'_>,
    site: &Site,
) -> Result<NodeId, Reported> {
    args.only_named(cx, &["stride", "padding", "dilation", "fill"])?;
    let usage = "x.window(H, (OH, KH), stride = 1, padding = 0, dilation = 1, fill = 0.0)";
    let [old, new] = args.exactly(cx, usage)?;
    let from = lower_axis(cx, old)?;
    require_axis(cx, source, from, Place::of(old))?;
    let made = lower_axes(cx, new)?;
    let [out, tap] = made[..] else {
        return Err(cx.report(messages::window_axes(Place::of(new))));
    };
    let others = axes_with(cx, source, &[from], &[]);
    for axis in [out, tap] {
        require_new_axis(cx, &others, axis, Place::of(new))?;
    }
    let stride = lower_step(cx, args, "stride", 1, 1, site)?;
    let padding = lower_step(cx, args, "padding", 0, 0, site)?;
    let dilation = lower_step(cx, args, "dilation", 1, 1, site)?;
    // The last position of the window that begins at the last place: the extent counts those places.
    let reach = IndexExpr::Extent(tap).minus(1).times(dilation.clone());
    let padded = IndexExpr::Extent(from).plus(IndexExpr::Const(2).times(padding.clone()));
    let extent = padded.minus(reach).minus(1).floor_div(stride.clone()).plus(1);
    make_axis(cx, "window", out, extent, site)?;
    let start = IndexExpr::Index(out).times(stride);
    let position = start.plus(IndexExpr::Index(tap).times(dilation)).minus(padding.clone());
    let mut map = map_with(cx, source, &[(from, position.clone())]);
    let axes = axes_with(cx, source, &[from], &[out, tap]);
    let dtype = cx.graph.dtype(source);
    let fill = lower_fill(cx, args, dtype, site)?;
    if padding == IndexExpr::Const(0) {
        return Ok(cx.graph.view(source, map, &axes, None, site));
    }
    let bound = Bound { expr: position, extent: IndexExpr::Extent(from) };
    map.bounds.push(bound.clone());
    let zero = dtype::Value::zero(dtype);
    match fill {
        None => {
            let node = cx.graph.view(source, map, &axes, Some(zero), site);
            cx.unfilled.push((node, tap));
            Ok(node)
        }
        Some(Fill::Constant(value)) => Ok(cx.graph.view(source, map, &axes, Some(value), site)),
        Some(Fill::Node(fill)) => {
            let read = cx.graph.view(source, map, &axes, Some(zero), site);
            let inside = lower_inside(cx, &bound, site)?;
            map_select(cx, inside, read, fill, site)
        }
    }
}

/// Whether a bound holds, as a node.
fn lower_inside(cx: &mut Context<'_>, bound: &Bound, site: &Site) -> Result<NodeId, Reported> {
    let position = lower_number(cx, &bound.expr, site)?;
    let zero = cx.graph.constant(dtype::Value::I64(0), site);
    let extent = cx.graph.extent(bound.extent.clone(), site);
    let from = map(cx, ScalarOp::Ge, &[position, zero], site.place, site)?;
    let until = map(cx, ScalarOp::Lt, &[position, extent], site.place, site)?;
    map(cx, ScalarOp::And, &[from, until], site.place, site)
}

/// A sum of products of positions and what the call fixes, as a node.
fn lower_number(cx: &mut Context<'_>, expr: &IndexExpr, site: &Site) -> Result<NodeId, Reported> {
    let binary = |cx: &mut Context<'_>, op, a: &IndexExpr, b: &IndexExpr| {
        let operands = [lower_number(cx, a, site)?, lower_number(cx, b, site)?];
        map(cx, op, &operands, site.place, site)
    };
    match expr {
        IndexExpr::Index(axis) => Ok(cx.graph.index(*axis, site)),
        IndexExpr::Add(a, b) => binary(cx, ScalarOp::Add, a, b),
        IndexExpr::Sub(a, b) => binary(cx, ScalarOp::Sub, a, b),
        IndexExpr::Mul(a, b) => binary(cx, ScalarOp::Mul, a, b),
        IndexExpr::Const(_) | IndexExpr::Extent(_) | IndexExpr::Param(_) | IndexExpr::Indirect(_) => {
            Ok(cx.graph.extent(expr.clone(), site))
        }
        IndexExpr::FloorDiv(..) | IndexExpr::Mod(..) => Ok(cx.graph.extent(expr.clone(), site)),
    }
}

/// A named whole number that the call fixes; one that is less than `least` is an error of the build or of the call.
fn lower_step(
    cx: &mut Context<'_>,
    args: &Arguments<'_>,
    name: &str,
    default: i64,
    least: i64,
    site: &Site,
) -> Result<IndexExpr, Reported> {
    let Some(expr) = args.named(name) else { return Ok(IndexExpr::Const(default)) };
    let lowered = lower_position(cx, expr)?;
    if matches!(lowered, IndexExpr::Const(n) if n < least) {
        return Err(cx.report(messages::window_step(Place::of(expr), name, least)));
    }
    if !matches!(lowered, IndexExpr::Const(_)) {
        let kind =
            CheckKind::AtLeast { op: "window".into(), name: name.to_owned(), value: lowered.clone(), least };
        cx.graph.add_check(kind, check_condition(cx), site);
    }
    Ok(lowered)
}

/// Rule 15: what the padding of a window counts as is written where it decides the result.
pub(super) fn require_fill(
    cx: &mut Context<'_>,
    source: NodeId,
    axes: &[AxisId],
    name: &str,
    place: Place,
) -> Result<(), Reported> {
    let mut seen = vec![false; cx.graph.kernel.nodes.len()];
    let mut stack = vec![source];
    while let Some(id) = stack.pop() {
        if std::mem::replace(&mut seen[id.index()], true) {
            continue;
        }
        if cx.unfilled.iter().any(|(node, tap)| *node == id && axes.contains(tap)) {
            return Err(cx.report(messages::padding_without_fill(place, name)));
        }
        match &cx.graph.kernel.node(id).op {
            // A reduction has settled what the padding before it counts as.
            Op::Reduce { .. } => {}
            op => stack.extend(op.operands()),
        }
    }
    Ok(())
}
