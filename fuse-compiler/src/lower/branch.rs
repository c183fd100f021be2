//! `if` on a scalar: a uniform branch (rule 19).
//!
//! Both branches are lowered and their values selected, so the graph has no control flow. What must not happen in the
//! branch that is not taken is a fault: an integer divisor under a branch is 1 where the branch is not taken. Nor may the
//! call be refused for it: what `slice`, `at`, `max` and the like ask of the sizes is asked where the branch is taken, and
//! a read that may be out of bounds elsewhere reads nothing there. What makes an axis (`split`, `merge`, ..) holds for the
//! whole kernel, as the axis does.

use super::constant::{expect_dtype, expect_node};
use super::context::Context;
use super::expr::lower_expr;
use super::mutable::merge_states;
use super::operator::{map, unify};
use super::site::{Site, site_of};
use super::statement::lower_block;
use super::value::Value;
use crate::diagnostic::{Place, Reported, messages};
use fuse_ir::dtype::{self, DType};
use fuse_ir::graph::Condition;
use fuse_ir::id::{AxisId, FnId, NodeId, VarId};
use fuse_ir::index_map::{Bound, IndexExpr};
use fuse_ir::scalar::{Expr, ScalarFn, ScalarOp, Stmt, Variable};

/// `if cond { .. } else { .. }`.
pub(super) fn lower_if(cx: &mut Context<'_>, expr: &syn::ExprIf) -> Result<Value, Reported> {
    let site = site_of(cx, expr);
    if let syn::Expr::Let(found) = &*expr.cond {
        return Err(cx.report(messages::keyword_not_supported(Place::of(&found.let_token), "`if let`")));
    }
    let condition = lower_expr(cx, &expr.cond)?;
    let condition_place = Place::of(&expr.cond);
    let condition = expect_dtype(cx, &condition, DType::Bool, condition_place, &site)?;
    if !cx.graph.axes(condition).is_empty() {
        let axes = cx.graph.axes_text(cx.graph.axes(condition));
        return Err(cx.report(messages::condition_has_axes(condition_place, &axes)));
    }
    let negated = map(cx, ScalarOp::Not, &[condition], condition_place, &site)?;

    let before = cx.states.clone();
    cx.conditions.push(condition);
    let then = lower_block(cx, &expr.then_branch);
    cx.conditions.pop();
    let after_then = std::mem::replace(&mut cx.states, before);
    cx.conditions.push(negated);
    let otherwise = match &expr.else_branch {
        Some((_, otherwise)) => lower_expr(cx, otherwise),
        None => Ok(Value::Unit),
    };
    cx.conditions.pop();
    let (then, otherwise) = (then?, otherwise?);
    merge_states(cx, condition, after_then, &site)?;
    select_values(cx, condition, &then, &otherwise, Place::of(&expr.if_token), &site)
}

/// `select` for each component.
fn select_values(
    cx: &mut Context<'_>,
    condition: NodeId,
    then: &Value,
    otherwise: &Value,
    place: Place,
    site: &Site,
) -> Result<Value, Reported> {
    match (then, otherwise) {
        (Value::Unit, Value::Unit) => Ok(Value::Unit),
        (Value::Tuple(a), Value::Tuple(b)) if a.len() == b.len() => {
            let mut both = Vec::new();
            for (a, b) in a.iter().zip(b) {
                both.push(select_values(cx, condition, a, b, place, site)?);
            }
            Ok(Value::Tuple(both))
        }
        (Value::Unit | Value::Tuple(_), _) | (_, Value::Unit | Value::Tuple(_)) => {
            Err(cx.report(messages::branches_differ(place)))
        }
        (a, b) => {
            let nodes = unify_sides(cx, a, b, place, site)?;
            let (a_axes, b_axes) = (cx.graph.axes(nodes[0]).to_vec(), cx.graph.axes(nodes[1]).to_vec());
            if a_axes != b_axes && !a_axes.is_empty() && !b_axes.is_empty() {
                let (a, b) = (cx.graph.axes_text(&a_axes), cx.graph.axes_text(&b_axes));
                return Err(cx.report(messages::branches_have_other_axes(place, &a, &b)));
            }
            map(cx, ScalarOp::Select, &[condition, nodes[0], nodes[1]], place, site).map(Value::Node)
        }
    }
}

/// Two values to choose from: of one dtype they keep it, narrow floats too; else they are widened.
pub(super) fn unify_sides(
    cx: &mut Context<'_>,
    a: &Value,
    b: &Value,
    place: Place,
    site: &Site,
) -> Result<Vec<NodeId>, Reported> {
    if let (Value::Node(x), Value::Node(y)) = (a, b)
        && cx.graph.dtype(*x) == cx.graph.dtype(*y)
    {
        return Ok(vec![*x, *y]);
    }
    if let (Value::Node(n), Value::Untyped(_)) | (Value::Untyped(_), Value::Node(n)) = (a, b)
        && cx.graph.dtype(*n) == DType::Bool
    {
        let nodes = [expect_node(cx, a, site)?, expect_node(cx, b, site)?];
        let (x, y) = (cx.graph.dtype(nodes[0]), cx.graph.dtype(nodes[1]));
        return Err(cx.report(messages::operands_differ(place, x, y)));
    }
    unify(cx, &[a, b], place, site)
}

/// Whether the branches around are all taken; `None` outside branches.
pub(super) fn path_condition(cx: &mut Context<'_>, site: &Site) -> Option<NodeId> {
    let conditions = cx.conditions.clone();
    let (&first, rest) = conditions.split_first()?;
    rest.iter().try_fold(first, |all, &c| cx.graph.map(ScalarOp::And, &[all, c], site))
}

/// The largest condition that is evaluated at the call.
const CONDITION_SIZE: usize = 64;

/// When a check must hold: where the branches around are taken, as far as scalars and extents decide that. `None` if
/// always: outside branches, and where elements decide.
pub(super) fn check_condition(cx: &Context<'_>) -> Option<Condition> {
    let conditions = cx.conditions.iter().filter_map(|&c| cx.graph.as_condition(c, &mut { CONDITION_SIZE }));
    conditions.reduce(|all, c| Condition::Op(ScalarOp::And, vec![all, c]))
}

/// The bound to put on a read whose check may be left out: it reads nothing where the branch is not taken.
pub(super) fn guard_read(cx: &Context<'_>, axis: AxisId, position: &IndexExpr) -> Option<Bound> {
    check_condition(cx).map(|_| Bound { expr: position.clone(), extent: IndexExpr::Extent(axis) })
}

/// An integer divisor: 1 where the branch that divides is not taken.
pub(super) fn guard_divisor(cx: &mut Context<'_>, divisor: NodeId, site: &Site) -> NodeId {
    let Some(taken) = path_condition(cx, site) else { return divisor };
    let Some(one) = dtype::Value::from_i128(cx.graph.dtype(divisor), 1) else { return divisor };
    let one = cx.graph.constant(one, site);
    cx.graph.map(ScalarOp::Select, &[taken, divisor, one], site).unwrap_or(divisor)
}

/// A call of a function that may fault, under a branch: the function is called only where the branch is taken. Gives the
/// function to call instead and its arguments.
pub(super) fn guard_call(
    cx: &mut Context<'_>,
    function: FnId,
    args: Vec<NodeId>,
    results: &[DType],
    site: &Site,
) -> (FnId, Vec<NodeId>) {
    if cx.conditions.is_empty() || !may_fault(cx, function) {
        return (function, args);
    }
    let Some(taken) = path_condition(cx, site) else { return (function, args) };
    let called = &cx.graph.kernel.functions[function.index()];
    let mut variables = vec![Variable { name: "taken".into(), dtype: DType::Bool }];
    variables.extend(called.variables[..called.parameters as usize].iter().cloned());
    let parameters = variables.len() as u32;
    let inner: Vec<Expr> = (1..parameters).map(|v| Expr::Variable(VarId(v))).collect();
    let mut then = Vec::new();
    let mut otherwise = Vec::new();
    let mut outcomes = Vec::new();
    for (k, &dtype) in results.iter().enumerate() {
        let variable = VarId::from_index(variables.len());
        variables.push(Variable { name: format!("result{k}"), dtype });
        let call = Expr::Call { function, args: inner.clone(), result: k as u32 };
        then.push(Stmt::Assign { variable, value: call });
        otherwise.push(Stmt::Assign { variable, value: Expr::Constant(dtype::Value::zero(dtype)) });
        outcomes.push(Expr::Variable(variable));
    }
    let name = format!("{}_if_taken", called.name);
    let body = vec![Stmt::If { condition: Expr::Variable(VarId(0)), then, otherwise }];
    let guarded = cx.graph.add_function(ScalarFn { name, parameters, variables, body, results: outcomes });
    let mut all = vec![taken];
    all.extend(args);
    (guarded, all)
}

/// Whether a function of the kernel divides integers, itself or in a call.
fn may_fault(cx: &Context<'_>, function: FnId) -> bool {
    let function = &cx.graph.kernel.functions[function.index()];
    function.results.iter().any(|e| expr_may_fault(cx, function, e))
        || body_may_fault(cx, function, &function.body)
}

fn body_may_fault(cx: &Context<'_>, function: &ScalarFn, body: &[Stmt]) -> bool {
    body.iter().any(|statement| match statement {
        Stmt::Assign { value, .. } => expr_may_fault(cx, function, value),
        Stmt::If { condition, then, otherwise } => {
            expr_may_fault(cx, function, condition)
                || body_may_fault(cx, function, then)
                || body_may_fault(cx, function, otherwise)
        }
        Stmt::For { body, .. } => body_may_fault(cx, function, body),
    })
}

fn expr_may_fault(cx: &Context<'_>, function: &ScalarFn, expr: &Expr) -> bool {
    match expr {
        Expr::Constant(_) | Expr::Variable(_) => false,
        Expr::Op(op, args) => {
            // The dtype of the operands is not asked for: an operation that faults for integers counts always.
            op.may_fault(DType::I32) && may_be_integer(&args[0], function)
                || args.iter().any(|e| expr_may_fault(cx, function, e))
        }
        Expr::Call { function: called, args, .. } => {
            may_fault(cx, *called) || args.iter().any(|e| expr_may_fault(cx, function, e))
        }
    }
}

/// Whether an operand may be an integer, as far as its outermost form tells.
fn may_be_integer(expr: &Expr, function: &ScalarFn) -> bool {
    match expr {
        Expr::Constant(value) => value.dtype().is_int(),
        Expr::Variable(variable) => function.variables[variable.index()].dtype.is_int(),
        Expr::Op(..) | Expr::Call { .. } => true,
    }
}
