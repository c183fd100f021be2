//! Axes in calls, and where their extents come from (rules 1, 2).

use super::context::Context;
use super::contract::mention_batch;
use super::expr::as_name;
use super::site::Site;
use crate::diagnostic::{Place, Reported, messages};
use crate::syntax::{Dimension, DimensionOp};
use fuse_ir::graph::{AxisSource, CheckKind};
use fuse_ir::id::{AxisId, NodeId};
use fuse_ir::index_map::polynomial::ExtentFacts;
use fuse_ir::index_map::{Extent, IndexExpr};
use proc_macro2::Ident;

/// The axis that an argument names.
pub(super) fn lower_axis(cx: &mut Context<'_>, expr: &syn::Expr) -> Result<AxisId, Reported> {
    let Some(name) = as_name(expr) else {
        return Err(cx.report(messages::axis_expected(Place::of(expr))));
    };
    match cx.find_axis(name) {
        Some(axis) => Ok(axis),
        None if cx.find_variable(&name.to_string()).is_some() => {
            Err(cx.report(messages::axis_expected(Place::of(expr))))
        }
        None => Err(report_unknown_axis(cx, name)),
    }
}

/// Reports a name that no axis has.
pub(super) fn report_unknown_axis(cx: &mut Context<'_>, name: &Ident) -> Reported {
    let error = messages::axis_not_declared(name, cx.scope.axes.keys().map(String::as_str));
    cx.report(error)
}

/// The axes that an argument names: `N` or `(M, N)`.
pub(super) fn lower_axes(cx: &mut Context<'_>, expr: &syn::Expr) -> Result<Vec<AxisId>, Reported> {
    let syn::Expr::Tuple(tuple) = expr else {
        return Ok(vec![lower_axis(cx, expr)?]);
    };
    let mut axes = Vec::new();
    for element in &tuple.elems {
        let axis = lower_axis(cx, element)?;
        if axes.contains(&axis) {
            return Err(cx.report(messages::axis_listed_twice(Place::of(element), cx.graph.axis_name(axis))));
        }
        axes.push(axis);
    }
    if axes.is_empty() {
        return Err(cx.report(messages::axis_expected(Place::of(expr))));
    }
    Ok(axes)
}

/// Whether an argument is axes rather than a value: no name is both (rule 8).
pub(super) fn names_axes(cx: &Context<'_>, expr: &syn::Expr) -> bool {
    match expr {
        syn::Expr::Tuple(tuple) => !tuple.elems.is_empty() && tuple.elems.iter().all(|e| names_axes(cx, e)),
        other => as_name(other).is_some_and(|name| cx.find_axis(name).is_some()),
    }
}

/// An axis that `node` must have; `place` is where the call names it.
pub(super) fn require_axis(
    cx: &mut Context<'_>,
    node: NodeId,
    axis: AxisId,
    place: Place,
) -> Result<(), Reported> {
    if cx.graph.axes(node).contains(&axis) {
        return Ok(());
    }
    let name = cx.graph.axis_name(axis).to_owned();
    let axes = cx.graph.axes_text(cx.graph.axes(node));
    let error = mention_batch(cx, node, messages::axis_missing(place, &name, &axes));
    Err(cx.report(error))
}

/// Rule 1: an axis that an operation makes must not be there already.
pub(super) fn require_new_axis(
    cx: &mut Context<'_>,
    others: &[AxisId],
    axis: AxisId,
    place: Place,
) -> Result<(), Reported> {
    if !others.contains(&axis) {
        return Ok(());
    }
    let name = cx.graph.axis_name(axis).to_owned();
    Err(cx.report(messages::axis_there_already(place, &name)))
}

/// An operation gives `axis` this extent: its source, if it has none; else the two must be equal at the call. An error
/// where they never are.
pub(super) fn make_axis(
    cx: &mut Context<'_>,
    op: &str,
    axis: AxisId,
    extent: Extent,
    site: &Site,
) -> Result<(), Reported> {
    if extent == IndexExpr::Extent(axis) {
        return Ok(());
    }
    if !cx.graph.sourced[axis.index()] {
        cx.graph.set_source(axis, AxisSource::Derived(extent));
        return Ok(());
    }
    match &cx.graph.kernel.axis(axis).source {
        AxisSource::Derived(known) if *known == extent => return Ok(()),
        AxisSource::Static(known) if extent == IndexExpr::Const(*known as i64) => return Ok(()),
        AxisSource::Derived(_) | AxisSource::Static(_) | AxisSource::Shape | AxisSource::Host(_) => {}
    }
    if let Some(difference) = known_difference(cx, &extent, &IndexExpr::Extent(axis)).filter(|n| *n != 0) {
        let name = cx.graph.axis_name(axis).to_owned();
        return Err(cx.report(messages::extent_cannot_fit(site.place, op, &name, difference)));
    }
    cx.graph.add_check(CheckKind::Equal { op: op.to_owned(), axis, expected: extent }, None, site);
    Ok(())
}

/// By how much two extents differ, where that follows from the declarations: `N + 2` and `N` differ by 2 at every call.
pub(super) fn known_difference(cx: &Context<'_>, a: &Extent, b: &Extent) -> Option<i64> {
    let difference = IndexExpr::Sub(Box::new(a.clone()), Box::new(b.clone()));
    ExtentFacts::compute(&cx.graph.kernel).normalize(&difference).as_constant()
}

/// An extent as written in generics.
pub(super) fn lower_dimension(cx: &mut Context<'_>, dimension: &Dimension) -> Result<Extent, Reported> {
    match dimension {
        Dimension::Number(n, _) => Ok(IndexExpr::Const(*n as i64)),
        Dimension::Name(name) => match cx.find_axis(name) {
            Some(axis) => Ok(IndexExpr::Extent(axis)),
            None => constant_extent(cx, name),
        },
        Dimension::Binary { op, left, right, .. } => {
            let left = lower_dimension(cx, left)?;
            let right = lower_dimension(cx, right)?;
            Ok(match op {
                DimensionOp::Add => left.plus(right),
                DimensionOp::Sub => left.minus(right),
                DimensionOp::Mul => left.times(right),
                DimensionOp::Div => left.floor_div(right),
            })
        }
    }
}

fn constant_extent(cx: &mut Context<'_>, name: &Ident) -> Result<Extent, Reported> {
    let key = cx.key(&name.to_string());
    if cx.scalars.poisoned.contains(&key) {
        return Err(Reported::before());
    }
    let found = cx.scalars.consts.get(&key);
    match found.map(|c| c.value.as_i128().and_then(|n| i64::try_from(n).ok())) {
        Some(Some(n)) if n >= 0 => Ok(IndexExpr::Const(n)),
        Some(_) => Err(cx.report(messages::extent_not_a_size(name))),
        None => Err(report_unknown_axis(cx, name)),
    }
}

/// Solves `expr == target` for the one axis of `expr` that has no extent yet. `None` if it is not linear in it.
pub(super) fn solve_extent(expr: &Extent, axis: AxisId, target: Extent) -> Option<Extent> {
    let has = |e: &Extent| {
        let mut found = false;
        e.for_each_leaf(&mut |leaf| found |= *leaf == IndexExpr::Extent(axis));
        found
    };
    match expr {
        IndexExpr::Extent(a) if *a == axis => Some(target),
        IndexExpr::Add(a, b) => match (has(a), has(b)) {
            (true, false) => solve_extent(a, axis, target.minus((**b).clone())),
            (false, true) => solve_extent(b, axis, target.minus((**a).clone())),
            _ => None,
        },
        IndexExpr::Sub(a, b) => match (has(a), has(b)) {
            (true, false) => solve_extent(a, axis, target.plus((**b).clone())),
            (false, true) => solve_extent(b, axis, (**a).clone().minus(target)),
            _ => None,
        },
        IndexExpr::Mul(a, b) => match (has(a), has(b)) {
            (true, false) => solve_extent(a, axis, target.floor_div((**b).clone())),
            (false, true) => solve_extent(b, axis, target.floor_div((**a).clone())),
            _ => None,
        },
        IndexExpr::Const(_)
        | IndexExpr::Index(_)
        | IndexExpr::Extent(_)
        | IndexExpr::Param(_)
        | IndexExpr::Indirect(_)
        | IndexExpr::FloorDiv(..)
        | IndexExpr::Mod(..) => None,
    }
}

/// The axes in an extent that have no extent of their own yet.
pub(super) fn unsourced_axes(cx: &Context<'_>, extent: &Extent) -> Vec<AxisId> {
    let mut axes = Vec::new();
    extent.for_each_leaf(&mut |leaf| {
        if let IndexExpr::Extent(a) = leaf
            && !cx.graph.sourced[a.index()]
            && !axes.contains(a)
        {
            axes.push(*a);
        }
    });
    axes
}
