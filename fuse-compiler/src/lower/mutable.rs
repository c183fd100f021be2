//! `&mut` parameters (rule 17): assignments become values, stores become outputs.
//!
//! In the graph nothing is mutable. Each parameter has a present value, which reads see; an assignment replaces it. A
//! parameter that is written in part becomes an output with that region, so that only the region is stored; what reads
//! it later selects between the new elements and the old ones. Further assignments to the same region replace the value
//! that is stored there, and those to a region at another constant position are outputs of their own. After anything
//! else, which may write one element twice, all of the parameter is stored.

use super::axis::{lower_axis, require_axis, require_new_axis};
use super::branch::check_condition;
use super::constant::{adopt, expect_dtype};
use super::context::{Context, Variable};
use super::expr::{as_name, lower_expr};
use super::operator::{binary_op, lower_binary, map};
use super::position::lower_position;
use super::site::{Site, site_of};
use super::value::Value;
use super::view::{lower_bound, require_part};
use crate::diagnostic::{Place, Reported, messages};
use fuse_ir::dtype;
use fuse_ir::graph::{CheckKind, Op, OutputTarget, ParamKind};
use fuse_ir::id::{AxisId, NodeId, ParamId};
use fuse_ir::index_map::{Bound, IndexExpr, IndexMap};
use fuse_ir::scalar::ScalarOp;
use std::collections::BTreeSet;

/// A `&mut` parameter while its kernel is lowered.
#[derive(Clone)]
pub(super) struct State {
    /// What reads see.
    current: NodeId,
    /// Whether it was assigned.
    written: bool,
    /// What was assigned, if that is parts of which no two share an element; empty if all has to be stored.
    parts: Vec<Part>,
}

/// A value and, for each axis of the parameter, where its elements go.
type Part = (NodeId, Vec<IndexExpr>);

impl State {
    /// The state when the call starts.
    pub(super) fn new(node: NodeId) -> Self {
        State { current: node, written: false, parts: Vec::new() }
    }

    /// Whether it was assigned.
    pub(super) fn is_written(&self) -> bool {
        self.written
    }

    /// What is stored in the end, and where.
    pub(super) fn outputs(&self, param: ParamId, axes: &[AxisId]) -> Vec<(NodeId, OutputTarget)> {
        let mut parts = self.parts.clone();
        if parts.is_empty() {
            parts.push((self.current, axes.iter().map(|&a| IndexExpr::Index(a)).collect()));
        }
        parts.into_iter().map(|(value, region)| (value, OutputTarget::Param { param, region })).collect()
    }
}

/// What a read of the parameter sees.
pub(super) fn read_mutable(cx: &Context<'_>, param: ParamId) -> NodeId {
    cx.states[&param].current
}

/// What is assigned to: for each axis of the parameter where the value's elements go.
struct Target {
    param: ParamId,
    name: String,
    slots: Vec<Slot>,
}

/// Positions on one axis of the parameter: `start + index(along)`, or `start` alone.
struct Slot {
    axis: AxisId,
    along: Option<AxisId>,
    start: IndexExpr,
}

impl Slot {
    /// How many positions there are.
    fn length(&self) -> IndexExpr {
        self.along.map_or(IndexExpr::Const(1), IndexExpr::Extent)
    }
}

impl Target {
    fn axes(&self) -> Vec<AxisId> {
        self.slots.iter().filter_map(|s| s.along).collect()
    }

    fn is_whole(&self) -> bool {
        self.slots.iter().all(|s| s.along == Some(s.axis) && s.start == IndexExpr::Const(0))
    }
}

/// Lowers `*p = ..`, `*p -= ..`, `p.slice(L, pos, S) = ..`. `None` if the expression assigns nothing.
pub(super) fn lower_assignment(cx: &mut Context<'_>, expr: &syn::Expr) -> Option<Result<(), Reported>> {
    match expr {
        syn::Expr::Assign(assign) => Some(assign_value(cx, &assign.left, |cx| {
            let value = lower_expr(cx, &assign.right)?;
            Ok((value, site_of(cx, &assign.right)))
        })),
        syn::Expr::Binary(binary) if is_assigning(&binary.op) => {
            let op = binary_op(&binary.op)?;
            Some(assign_value(cx, &binary.left, |cx| {
                let (left, right) = (lower_expr(cx, &binary.left), lower_expr(cx, &binary.right));
                let site = site_of(cx, binary);
                let value = lower_binary(cx, op, &left?, &right?, Place::of(&binary.op), &site)?;
                Ok((value, site))
            }))
        }
        _ => None,
    }
}

fn is_assigning(op: &syn::BinOp) -> bool {
    use syn::BinOp::*;
    matches!(
        op,
        AddAssign(_)
            | SubAssign(_)
            | MulAssign(_)
            | DivAssign(_)
            | RemAssign(_)
            | BitAndAssign(_)
            | BitOrAssign(_)
            | BitXorAssign(_)
            | ShlAssign(_)
            | ShrAssign(_)
    )
}

fn assign_value(
    cx: &mut Context<'_>,
    left: &syn::Expr,
    value: impl FnOnce(&mut Context<'_>) -> Result<(Value, Site), Reported>,
) -> Result<(), Reported> {
    let target = lower_target(cx, left, false);
    let (value, site) = value(cx)?;
    store(cx, &target?, &value, &site)
}

/// What the left side of an assignment stands for.
fn lower_target(cx: &mut Context<'_>, left: &syn::Expr, inner: bool) -> Result<Target, Reported> {
    match left {
        syn::Expr::Paren(paren) => lower_target(cx, &paren.expr, inner),
        syn::Expr::Group(group) => lower_target(cx, &group.expr, inner),
        syn::Expr::Unary(syn::ExprUnary { op: syn::UnOp::Deref(_), expr, .. }) => {
            lower_target(cx, expr, true)
        }
        syn::Expr::MethodCall(call) => lower_part(cx, call),
        other => {
            let Some(name) = as_name(other) else {
                return Err(cx.report(messages::not_assignable(Place::of(left))));
            };
            let param = match cx.find_variable(&name.to_string()) {
                Some(Variable::Mutable(param)) => *param,
                Some(Variable::Poisoned(reported)) => return Err(*reported),
                Some(Variable::Value(_)) | None => {
                    return Err(cx.report(messages::not_a_mutable_parameter(name)));
                }
            };
            if !inner {
                return Err(cx.report(messages::assignment_without_star(name)));
            }
            let ParamKind::Tensor { axes, .. } = &cx.graph.kernel.param(param).kind else {
                return Err(cx.report(messages::not_a_mutable_parameter(name)));
            };
            let slot = |&axis| Slot { axis, along: Some(axis), start: IndexExpr::Const(0) };
            let slots = axes.iter().map(slot).collect();
            Ok(Target { param, name: name.to_string(), slots })
        }
    }
}

/// `p.slice(L, pos, S)` or `p.at(L, i)` on the left side.
fn lower_part(cx: &mut Context<'_>, call: &syn::ExprMethodCall) -> Result<Target, Reported> {
    let mut target = lower_target(cx, &call.receiver, true)?;
    let site = site_of(cx, call);
    let args: Vec<&syn::Expr> = call.args.iter().collect();
    let axes = target.axes();
    match (call.method.to_string().as_str(), args.as_slice()) {
        ("slice", [old, start, new]) => {
            let (from, to) = (lower_axis(cx, old)?, lower_axis(cx, new)?);
            let start = lower_position(cx, start)?;
            require_target_axis(cx, &target, from, Place::of(*old))?;
            let others: Vec<AxisId> = axes.into_iter().filter(|&a| a != from).collect();
            require_new_axis(cx, &others, to, Place::of(*new))?;
            let length = IndexExpr::Extent(to);
            require_part(cx, "slice", from, &start, &length, &site)?;
            let kind = CheckKind::InBounds { op: "slice".into(), axis: from, start: start.clone(), length };
            cx.graph.add_check(kind, check_condition(cx), &site);
            for slot in target.slots.iter_mut().filter(|s| s.along == Some(from)) {
                slot.along = Some(to);
                slot.start = slot.start.clone().plus(start.clone());
            }
        }
        ("at", [axis, position]) => {
            let from = lower_axis(cx, axis)?;
            let position = lower_position(cx, position)?;
            require_target_axis(cx, &target, from, Place::of(*axis))?;
            let length = IndexExpr::Const(1);
            require_part(cx, "at", from, &position, &length, &site)?;
            let kind = CheckKind::InBounds { op: "at".into(), axis: from, start: position.clone(), length };
            cx.graph.add_check(kind, check_condition(cx), &site);
            for slot in target.slots.iter_mut().filter(|s| s.along == Some(from)) {
                slot.along = None;
                slot.start = slot.start.clone().plus(position.clone());
            }
        }
        _ => return Err(cx.report(messages::not_assignable(Place::of(call)))),
    }
    Ok(target)
}

fn require_target_axis(
    cx: &mut Context<'_>,
    target: &Target,
    axis: AxisId,
    place: Place,
) -> Result<(), Reported> {
    let axes = target.axes();
    if axes.contains(&axis) {
        return Ok(());
    }
    let node = read_mutable(cx, target.param);
    if cx.graph.axes(node).contains(&axis) {
        // It was sliced away by an earlier part of the target.
        let (name, found) = (cx.graph.axis_name(axis).to_owned(), cx.graph.axes_text(&axes));
        return Err(cx.report(messages::axis_missing(place, &name, &found)));
    }
    require_axis(cx, node, axis, place)
}

fn store(cx: &mut Context<'_>, target: &Target, value: &Value, site: &Site) -> Result<(), Reported> {
    let current = read_mutable(cx, target.param);
    let dtype = cx.graph.dtype(current);
    let node = match value {
        Value::Untyped(untyped) => adopt(cx, untyped, dtype, site)?,
        Value::Node(node) if cx.graph.dtype(*node).is_float() && dtype.is_narrow_float() => {
            let found = cx.graph.dtype(*node);
            if found != dtype {
                return Err(cx.report(messages::narrowing_store(site.place, &target.name, dtype, found)));
            }
            *node
        }
        other => expect_dtype(cx, other, dtype, site.place, site)?,
    };
    let axes = target.axes();
    let found = cx.graph.axes(node).to_vec();
    if found.is_empty() {
        // One number for all elements.
    } else if axes.len() != found.len() || axes.iter().any(|a| !found.contains(a)) {
        let (expected, found) = (cx.graph.axes_text(&axes), cx.graph.axes_text(&found));
        return Err(cx.report(messages::stored_axes_differ(site.place, &target.name, &expected, &found)));
    }
    let node = cx.graph.broadcast(node, &axes, site);
    let region = target.slots.iter().map(|slot| match slot.along {
        Some(along) => IndexExpr::Index(along).plus(slot.start.clone()),
        None => slot.start.clone(),
    });
    let part = (node, region.collect());
    let (current, parts) = if target.is_whole() {
        (node, Vec::new())
    } else {
        let parts = if cx.conditions.is_empty() { add_part(cx, target.param, part) } else { Vec::new() };
        (overlay(cx, current, target, node, site)?, parts)
    };
    cx.states.insert(target.param, State { current, written: true, parts });
    Ok(())
}

/// The parts that are stored after an assignment to one more; none if all has to be.
fn add_part(cx: &Context<'_>, param: ParamId, part: Part) -> Vec<Part> {
    let state = &cx.states[&param];
    let mut parts = state.parts.clone();
    if state.written && parts.is_empty() {
        return parts;
    }
    match parts.iter().position(|(_, region)| *region == part.1) {
        Some(same) => parts[same] = part,
        None if parts.iter().all(|(_, region)| are_apart(region, &part.1)) => parts.push(part),
        None => return Vec::new(),
    }
    // Of two stores either may come first, so that neither may read what the other writes.
    let independent = parts.len() == 1 || parts.iter().all(|(value, _)| !reads_param(cx, *value, param));
    if independent { parts } else { Vec::new() }
}

/// Whether two regions lie at different constant positions of an axis.
fn are_apart(a: &[IndexExpr], b: &[IndexExpr]) -> bool {
    a.iter().zip(b).any(|pair| matches!(pair, (IndexExpr::Const(a), IndexExpr::Const(b)) if a != b))
}

/// Whether a value depends on what a parameter held before.
fn reads_param(cx: &Context<'_>, value: NodeId, param: ParamId) -> bool {
    let mut seen = BTreeSet::new();
    let mut stack = vec![value];
    while let Some(node) = stack.pop() {
        let op = &cx.graph.kernel.node(node).op;
        if *op == Op::Tensor(param) {
            return true;
        }
        if seen.insert(node) {
            stack.extend(op.operands());
        }
    }
    false
}

/// `select(in region, new, old)` over all elements of the parameter.
fn overlay(
    cx: &mut Context<'_>,
    old: NodeId,
    target: &Target,
    new: NodeId,
    site: &Site,
) -> Result<NodeId, Reported> {
    let mut view = IndexMap::default();
    let mut inside: Option<NodeId> = None;
    for &axis in cx.graph.axes(new) {
        let Some(slot) = target.slots.iter().find(|s| s.along == Some(axis)) else { continue };
        view.indices.push((axis, IndexExpr::Index(slot.axis).minus(slot.start.clone())));
    }
    let mut partial = Vec::new();
    for slot in &target.slots {
        if slot.along == Some(slot.axis) && slot.start == IndexExpr::Const(0) {
            continue;
        }
        partial.push(slot);
        let position = IndexExpr::Index(slot.axis).minus(slot.start.clone());
        view.bounds.push(Bound { expr: position, extent: slot.length() });
        let bound = lower_bound(cx, slot.axis, &slot.start, &slot.length(), site)?;
        inside = Some(match inside {
            Some(all) => map(cx, ScalarOp::And, &[all, bound], site.place, site)?,
            None => bound,
        });
    }
    let Some(inside) = inside else { return Ok(new) };
    let axes = cx.graph.axes(old).to_vec();
    let fill = (!view.bounds.is_empty()).then(|| dtype::Value::zero(cx.graph.dtype(new)));
    let new = cx.graph.view(new, view, &axes, fill, site);
    let old = match (&cx.graph.kernel.node(old).op, &partial[..]) {
        (Op::Tensor(_), [slot]) => read_around(cx, old, slot, site)?,
        _ => old,
    };
    map(cx, ScalarOp::Select, &[inside, new, old], site.place, site)
}

/// The elements before and behind the positions of a slot, each read where it is one: what is overwritten is not read, so
/// that the store need not wait for those that read the rest.
fn read_around(cx: &mut Context<'_>, old: NodeId, slot: &Slot, site: &Site) -> Result<NodeId, Reported> {
    let axes = cx.graph.axes(old).to_vec();
    let zero = dtype::Value::zero(cx.graph.dtype(old));
    let position = IndexExpr::Index(slot.axis);
    let end = slot.start.clone().plus(slot.length());
    let read = |cx: &mut Context<'_>, expr: IndexExpr, extent: IndexExpr| {
        let mut map = IndexMap::identity(&axes);
        map.bounds.push(Bound { expr, extent });
        cx.graph.view(old, map, &axes, Some(zero), site)
    };
    let rest = IndexExpr::Extent(slot.axis).minus(end.clone());
    let behind = read(cx, position.clone().minus(end), rest);
    if slot.start == IndexExpr::Const(0) {
        return Ok(behind);
    }
    let before = read(cx, position, slot.start.clone());
    let index = cx.graph.index(slot.axis, site);
    let start = cx.graph.extent(slot.start.clone(), site);
    let is_before = map(cx, ScalarOp::Lt, &[index, start], site.place, site)?;
    map(cx, ScalarOp::Select, &[is_before, before, behind], site.place, site)
}

/// After a uniform branch: what the taken side left. `then` is the state at the end of the first branch.
pub(super) fn merge_states(
    cx: &mut Context<'_>,
    condition: NodeId,
    then: std::collections::BTreeMap<ParamId, State>,
    site: &Site,
) -> Result<(), Reported> {
    for (param, then) in then {
        let otherwise = cx.states[&param].clone();
        if then.current == otherwise.current {
            continue;
        }
        let sides = [condition, then.current, otherwise.current];
        let current = map(cx, ScalarOp::Select, &sides, site.place, site)?;
        cx.states.insert(param, State { current, written: true, parts: Vec::new() });
    }
    Ok(())
}
