//! Methods that read at other positions: slice, pad, split, merge, rename, at, reverse; concat and stack (rule 1).

use super::arguments::Arguments;
use super::axis::{
    known_difference, lower_axes, lower_axis, make_axis, require_axis, require_new_axis, unsourced_axes,
};
use super::branch::{check_condition, guard_read, unify_sides};
use super::context::Context;
use super::expr::lower_operand;
use super::graph::Graph;
use super::indirect::{Fill, lower_fill};
use super::operator::map;
use super::position::lower_position;
use super::site::Site;
use super::value::Value;
use crate::diagnostic::{Place, Reported, messages};
use fuse_ir::dtype;
use fuse_ir::graph::{AxisSource, CheckKind};
use fuse_ir::id::{AxisId, NodeId};
use fuse_ir::index_map::{Bound, IndexExpr, IndexMap};
use fuse_ir::scalar::ScalarOp;

/// The map that reads the axes of `source` at their own positions, but for those that `moved` lists.
pub(super) fn map_with(cx: &Context<'_>, source: NodeId, moved: &[(AxisId, IndexExpr)]) -> IndexMap {
    let mut map = IndexMap::identity(cx.graph.axes(source));
    for (axis, position) in &mut map.indices {
        if let Some((_, to)) = moved.iter().find(|(a, _)| a == axis) {
            *position = to.clone();
        }
    }
    map
}

/// The axes of `source` without some and with others.
pub(super) fn axes_with(
    cx: &Context<'_>,
    source: NodeId,
    without: &[AxisId],
    with: &[AxisId],
) -> Vec<AxisId> {
    let mut axes: Vec<AxisId> =
        cx.graph.axes(source).iter().copied().filter(|a| !without.contains(a)).collect();
    axes.extend(with);
    axes
}

/// `x.slice(N, start, P)`.
pub(super) fn lower_slice(
    cx: &mut Context<'_>,
    source: NodeId,
    args: &Arguments<'_>,
    site: &Site,
) -> Result<NodeId, Reported> {
    args.only_named(cx, &[])?;
    let [old, start, new] = args.exactly(cx, "x.slice(N, start, P)")?;
    let (from, to) = (lower_axis(cx, old)?, lower_axis(cx, new)?);
    let start_place = Place::of(start);
    let start = lower_position(cx, start)?;
    if matches!(start, IndexExpr::Const(n) if n < 0) {
        return Err(cx.report(messages::negative_position(start_place, cx.graph.axis_name(from))));
    }
    require_axis(cx, source, from, Place::of(old))?;
    let axes = axes_with(cx, source, &[from], &[]);
    require_new_axis(cx, &axes, to, Place::of(new))?;
    require_part(cx, "slice", from, &start, &IndexExpr::Extent(to), site)?;
    let kind = CheckKind::InBounds {
        op: "slice".into(),
        axis: from,
        start: start.clone(),
        length: IndexExpr::Extent(to),
    };
    cx.graph.add_check(kind, check_condition(cx), site);
    let position = IndexExpr::Index(to).plus(start);
    let axes = axes_with(cx, source, &[from], &[to]);
    Ok(read_part(cx, source, from, position, &axes, site))
}

/// `x.at(N, i)`.
pub(super) fn lower_at(
    cx: &mut Context<'_>,
    source: NodeId,
    args: &Arguments<'_>,
    site: &Site,
) -> Result<NodeId, Reported> {
    args.only_named(cx, &[])?;
    let [axis, position] = args.exactly(cx, "x.at(N, i)")?;
    let from = lower_axis(cx, axis)?;
    let place = Place::of(position);
    let position = lower_position(cx, position)?;
    if let IndexExpr::Const(n) = position
        && n < 0
    {
        return Err(cx.report(messages::negative_position(place, cx.graph.axis_name(from))));
    }
    require_axis(cx, source, from, Place::of(axis))?;
    let length = IndexExpr::Const(1);
    require_part(cx, "at", from, &position, &length, site)?;
    let kind = CheckKind::InBounds { op: "at".into(), axis: from, start: position.clone(), length };
    cx.graph.add_check(kind, check_condition(cx), site);
    let axes = axes_with(cx, source, &[from], &[]);
    Ok(read_part(cx, source, from, position, &axes, site))
}

/// Reports a part that at every call goes past the end of `axis`. Within a branch that may never be taken it is asked at
/// the call.
pub(super) fn require_part(
    cx: &mut Context<'_>,
    op: &str,
    axis: AxisId,
    start: &IndexExpr,
    length: &IndexExpr,
    site: &Site,
) -> Result<(), Reported> {
    if !cx.conditions.is_empty() {
        return Ok(());
    }
    let end = start.clone().plus(length.clone());
    match known_difference(cx, &end, &IndexExpr::Extent(axis)) {
        Some(excess) if excess > 0 => {
            let name = cx.graph.axis_name(axis).to_owned();
            Err(cx.report(messages::part_out_of_bounds(site.place, op, &name, excess)))
        }
        Some(_) | None => Ok(()),
    }
}

/// `source` with another position on one axis, which a check says is one of its own.
fn read_part(
    cx: &mut Context<'_>,
    source: NodeId,
    axis: AxisId,
    position: IndexExpr,
    axes: &[AxisId],
    site: &Site,
) -> NodeId {
    let bound = guard_read(cx, axis, &position);
    let fill = bound.as_ref().map(|_| dtype::Value::zero(cx.graph.dtype(source)));
    let mut map = map_with(cx, source, &[(axis, position)]);
    map.bounds.extend(bound);
    cx.graph.view(source, map, axes, fill, site)
}

/// `x.reverse(N)`.
pub(super) fn lower_reverse(
    cx: &mut Context<'_>,
    source: NodeId,
    args: &Arguments<'_>,
    site: &Site,
) -> Result<NodeId, Reported> {
    args.only_named(cx, &[])?;
    let [axis] = args.exactly(cx, "x.reverse(N)")?;
    let reversed = lower_axes(cx, axis)?;
    let mut moved = Vec::new();
    for &a in &reversed {
        require_axis(cx, source, a, Place::of(axis))?;
        moved.push((a, IndexExpr::Extent(a).minus(1).minus(IndexExpr::Index(a))));
    }
    let map = map_with(cx, source, &moved);
    let axes = cx.graph.axes(source).to_vec();
    Ok(cx.graph.view(source, map, &axes, None, site))
}

/// `x.rename(S, T)`.
pub(super) fn lower_rename(
    cx: &mut Context<'_>,
    source: NodeId,
    args: &Arguments<'_>,
    site: &Site,
) -> Result<NodeId, Reported> {
    args.only_named(cx, &[])?;
    let [old, new] = args.exactly(cx, "x.rename(S, T)")?;
    let (from, to) = (lower_axis(cx, old)?, lower_axis(cx, new)?);
    require_axis(cx, source, from, Place::of(old))?;
    let axes = axes_with(cx, source, &[from], &[]);
    require_new_axis(cx, &axes, to, Place::of(new))?;
    make_axis(cx, "rename", to, IndexExpr::Extent(from), site)?;
    let map = map_with(cx, source, &[(from, IndexExpr::Index(to))]);
    let axes = axes_with(cx, source, &[from], &[to]);
    Ok(cx.graph.view(source, map, &axes, None, site))
}

/// `x.split(F, (H, E))`, the outer axis first.
pub(super) fn lower_split(
    cx: &mut Context<'_>,
    source: NodeId,
    args: &Arguments<'_>,
    site: &Site,
) -> Result<NodeId, Reported> {
    args.only_named(cx, &[])?;
    let [old, new] = args.exactly(cx, "x.split(F, (H, E))")?;
    let (from, parts) = (lower_axis(cx, old)?, lower_axes(cx, new)?);
    require_axis(cx, source, from, Place::of(old))?;
    let others = axes_with(cx, source, &[from], &[]);
    for &part in &parts {
        require_new_axis(cx, &others, part, Place::of(new))?;
    }
    let product = Graph::count(&parts);
    let unknown = unsourced_axes(cx, &product);
    match unknown.as_slice() {
        [] => {}
        [one] => {
            let known: Vec<AxisId> = parts.iter().copied().filter(|p| p != one).collect();
            let extent = match known.as_slice() {
                [] => IndexExpr::Extent(from),
                _ => IndexExpr::Extent(from).floor_div(Graph::count(&known)),
            };
            cx.graph.set_source(*one, AxisSource::Derived(extent));
        }
        [a, b, ..] => {
            let (a, b) = (cx.graph.axis_name(*a).to_owned(), cx.graph.axis_name(*b).to_owned());
            return Err(cx.report(messages::split_into_unknown_extents(Place::of(new), &a, &b)));
        }
    }
    make_axis(cx, "split", from, product, site)?;
    let mut position = IndexExpr::Index(parts[0]);
    for &part in &parts[1..] {
        position = position.times(IndexExpr::Extent(part)).plus(IndexExpr::Index(part));
    }
    let map = map_with(cx, source, &[(from, position)]);
    let axes = axes_with(cx, source, &[from], &parts);
    Ok(cx.graph.view(source, map, &axes, None, site))
}

/// `x.merge((H, E), F)`, the outer axis first.
pub(super) fn lower_merge(
    cx: &mut Context<'_>,
    source: NodeId,
    args: &Arguments<'_>,
    site: &Site,
) -> Result<NodeId, Reported> {
    args.only_named(cx, &[])?;
    let [old, new] = args.exactly(cx, "x.merge((H, E), F)")?;
    let (parts, to) = (lower_axes(cx, old)?, lower_axis(cx, new)?);
    for &part in &parts {
        require_axis(cx, source, part, Place::of(old))?;
    }
    let others = axes_with(cx, source, &parts, &[]);
    require_new_axis(cx, &others, to, Place::of(new))?;
    make_axis(cx, "merge", to, Graph::count(&parts), site)?;
    let mut moved = Vec::new();
    let mut rest = IndexExpr::Index(to);
    for (k, &part) in parts.iter().enumerate().rev() {
        // The outermost part needs no remainder: the position is within the merged axis.
        let position = if k == 0 { rest.clone() } else { rest.clone().modulo(IndexExpr::Extent(part)) };
        moved.push((part, position));
        rest = rest.floor_div(IndexExpr::Extent(part));
    }
    let map = map_with(cx, source, &moved);
    let axes = axes_with(cx, source, &parts, &[to]);
    Ok(cx.graph.view(source, map, &axes, None, site))
}

/// `x.pad(N, lo, hi, P, fill = 0.0)`.
pub(super) fn lower_pad(
    cx: &mut Context<'_>,
    source: NodeId,
    args: &Arguments<'_>,
    site: &Site,
) -> Result<NodeId, Reported> {
    args.only_named(cx, &["fill"])?;
    let [old, lo, hi, new] = args.exactly(cx, "x.pad(N, lo, hi, P, fill = 0.0)")?;
    let (from, to) = (lower_axis(cx, old)?, lower_axis(cx, new)?);
    let mut widths = Vec::new();
    for width in [lo, hi] {
        let lowered = lower_position(cx, width)?;
        if matches!(lowered, IndexExpr::Const(n) if n < 0) {
            return Err(cx.report(messages::negative_padding(Place::of(width))));
        }
        widths.push(lowered);
    }
    require_axis(cx, source, from, Place::of(old))?;
    let others = axes_with(cx, source, &[from], &[]);
    require_new_axis(cx, &others, to, Place::of(new))?;
    let extent = IndexExpr::Extent(from).plus(widths[0].clone()).plus(widths[1].clone());
    make_axis(cx, "pad", to, extent, site)?;
    let position = IndexExpr::Index(to).minus(widths[0].clone());
    let mut map = map_with(cx, source, &[(from, position.clone())]);
    map.bounds.push(Bound { expr: position, extent: IndexExpr::Extent(from) });
    let axes = axes_with(cx, source, &[from], &[to]);

    let dtype = cx.graph.dtype(source);
    let fill = match lower_fill(cx, args, dtype, site)? {
        None => return Ok(cx.graph.view(source, map, &axes, Some(dtype::Value::zero(dtype)), site)),
        Some(Fill::Constant(value)) => return Ok(cx.graph.view(source, map, &axes, Some(value), site)),
        Some(Fill::Node(fill)) => fill,
    };
    // A fill that only the call knows: selected where the padding is.
    let bound = map.bounds[0].clone();
    let padded = cx.graph.view(source, map, &axes, Some(dtype::Value::zero(dtype)), site);
    let inside = lower_bound(cx, to, &widths[0], &bound.extent, site)?;
    map_select(cx, inside, padded, fill, site)
}

/// `start <= index(axis) < start + length` as a node.
pub(super) fn lower_bound(
    cx: &mut Context<'_>,
    axis: AxisId,
    start: &IndexExpr,
    length: &IndexExpr,
    site: &Site,
) -> Result<NodeId, Reported> {
    let index = cx.graph.index(axis, site);
    let first = cx.graph.extent(start.clone(), site);
    let end = cx.graph.extent(start.clone().plus(length.clone()), site);
    let from = map(cx, ScalarOp::Ge, &[index, first], site.place, site)?;
    let until = map(cx, ScalarOp::Lt, &[index, end], site.place, site)?;
    map(cx, ScalarOp::And, &[from, until], site.place, site)
}

pub(super) fn map_select(
    cx: &mut Context<'_>,
    condition: NodeId,
    a: NodeId,
    b: NodeId,
    site: &Site,
) -> Result<NodeId, Reported> {
    map(cx, ScalarOp::Select, &[condition, a, b], site.place, site)
}

/// `concat(P, (a, N), (b, Q))`.
pub(super) fn lower_concat(
    cx: &mut Context<'_>,
    args: &Arguments<'_>,
    site: &Site,
) -> Result<NodeId, Reported> {
    args.only_named(cx, &[])?;
    let Some((&new, parts)) = args.positional.split_first().filter(|(_, parts)| !parts.is_empty()) else {
        return Err(cx.report(messages::argument_count(
            site.place,
            "concat",
            3,
            args.positional.len(),
            "concat(P, (a, N), (b, Q))",
        )));
    };
    let to = lower_axis(cx, new)?;
    let mut sources = Vec::new();
    for part in parts {
        let elements: Vec<&syn::Expr> = match part {
            syn::Expr::Tuple(tuple) => tuple.elems.iter().collect(),
            _ => Vec::new(),
        };
        let [value, axis] = elements[..] else {
            return Err(cx.report(messages::concat_part(Place::of(part))));
        };
        let (node, _) = lower_operand(cx, value)?;
        let from = lower_axis(cx, axis)?;
        require_axis(cx, node, from, Place::of(axis))?;
        let others = axes_with(cx, node, &[from], &[]);
        require_new_axis(cx, &others, to, Place::of(new))?;
        sources.push((node, from));
    }
    let mut extent = IndexExpr::Const(0);
    let mut ends = Vec::new();
    let mut views = Vec::new();
    let nodes: Vec<NodeId> = unify_parts(cx, &sources.iter().map(|s| s.0).collect::<Vec<_>>(), site)?;
    for (node, &(_, from)) in nodes.into_iter().zip(&sources) {
        let position = IndexExpr::Index(to).minus(extent.clone());
        let mut map = map_with(cx, node, &[(from, position.clone())]);
        map.bounds.push(Bound { expr: position, extent: IndexExpr::Extent(from) });
        let axes = axes_with(cx, node, &[from], &[to]);
        let fill = dtype::Value::zero(cx.graph.dtype(node));
        views.push(cx.graph.view(node, map, &axes, Some(fill), site));
        extent = extent.plus(IndexExpr::Extent(from));
        ends.push(extent.clone());
    }
    make_axis(cx, "concat", to, extent, site)?;
    let index = cx.graph.index(to, site);
    select_parts(cx, &views, site, |cx, k| {
        let end = cx.graph.extent(ends[k].clone(), site);
        map(cx, ScalarOp::Lt, &[index, end], site.place, site)
    })
}

/// `stack(P, a, b)`.
pub(super) fn lower_stack(
    cx: &mut Context<'_>,
    args: &Arguments<'_>,
    site: &Site,
) -> Result<NodeId, Reported> {
    args.only_named(cx, &[])?;
    let Some((&new, parts)) = args.positional.split_first().filter(|(_, parts)| !parts.is_empty()) else {
        let found = args.positional.len();
        return Err(cx.report(messages::argument_count(site.place, "stack", 3, found, "stack(P, a, b)")));
    };
    let to = lower_axis(cx, new)?;
    let mut nodes = Vec::new();
    for part in parts {
        let (node, _) = lower_operand(cx, part)?;
        let axes = cx.graph.axes(node).to_vec();
        require_new_axis(cx, &axes, to, Place::of(new))?;
        nodes.push(node);
    }
    let nodes = unify_parts(cx, &nodes, site)?;
    make_axis(cx, "stack", to, IndexExpr::Const(nodes.len() as i64), site)?;
    let index = cx.graph.index(to, site);
    let stacked = select_parts(cx, &nodes, site, |cx, k| {
        let number = cx.graph.constant(dtype::Value::I64(k as i64), site);
        map(cx, ScalarOp::Eq, &[index, number], site.place, site)
    })?;
    // A stack of one has no selection that would bring the axis in.
    Ok(cx.graph.broadcast(stacked, &[to], site))
}

/// `select(condition(0), parts[0], select(condition(1), parts[1], ..))`.
fn select_parts(
    cx: &mut Context<'_>,
    parts: &[NodeId],
    site: &Site,
    mut condition: impl FnMut(&mut Context<'_>, usize) -> Result<NodeId, Reported>,
) -> Result<NodeId, Reported> {
    let mut selected = parts[parts.len() - 1];
    for k in (0..parts.len() - 1).rev() {
        let condition = condition(cx, k)?;
        selected = map_select(cx, condition, parts[k], selected, site)?;
    }
    Ok(selected)
}

/// The parts in one dtype: their own if it is the same, else widened.
fn unify_parts(cx: &mut Context<'_>, parts: &[NodeId], site: &Site) -> Result<Vec<NodeId>, Reported> {
    let mut nodes = parts.to_vec();
    for k in 1..nodes.len() {
        let pair = unify_sides(cx, &Value::Node(nodes[0]), &Value::Node(nodes[k]), site.place, site)?;
        nodes[0] = pair[0];
        nodes[k] = pair[1];
    }
    // A later part may have widened the first: then all are wide.
    let dtype = cx.graph.dtype(nodes[0]);
    Ok(nodes
        .into_iter()
        .map(|n| if cx.graph.dtype(n) == dtype { n } else { cx.graph.widen(n, site) })
        .collect())
}
