//! Elementwise operations: widening, dtypes, alignment (rules 5, 6, 9, 10).

use super::branch::guard_divisor;
use super::constant::{adopt, default_dtype, expect_node};
use super::context::Context;
use super::site::Site;
use super::value::{Untyped, Value};
use crate::diagnostic::{Place, Reported, messages};
use fuse_ir::dtype::DType;
use fuse_ir::id::{AxisId, NodeId};
use fuse_ir::scalar::ScalarOp;
use std::collections::BTreeSet;
use std::rc::Rc;

/// The operation of a binary operator; of an assigning one (`-=`) that before the `=`.
pub(super) fn binary_op(op: &syn::BinOp) -> Option<ScalarOp> {
    use syn::BinOp::*;
    Some(match op {
        Add(_) | AddAssign(_) => ScalarOp::Add,
        Sub(_) | SubAssign(_) => ScalarOp::Sub,
        Mul(_) | MulAssign(_) => ScalarOp::Mul,
        Div(_) | DivAssign(_) => ScalarOp::Div,
        Rem(_) | RemAssign(_) => ScalarOp::Rem,
        // Both sides of `&&` and `||` over tensors are evaluated.
        BitAnd(_) | BitAndAssign(_) | And(_) => ScalarOp::And,
        BitOr(_) | BitOrAssign(_) | Or(_) => ScalarOp::Or,
        BitXor(_) | BitXorAssign(_) => ScalarOp::Xor,
        Shl(_) | ShlAssign(_) => ScalarOp::Shl,
        Shr(_) | ShrAssign(_) => ScalarOp::Shr,
        Eq(_) => ScalarOp::Eq,
        Ne(_) => ScalarOp::Ne,
        Lt(_) => ScalarOp::Lt,
        Le(_) => ScalarOp::Le,
        Gt(_) => ScalarOp::Gt,
        Ge(_) => ScalarOp::Ge,
        _ => return None,
    })
}

/// `a op b`; `op_place` is the operator, at which dtype errors point.
pub(super) fn lower_binary(
    cx: &mut Context<'_>,
    op: ScalarOp,
    left: &Value,
    right: &Value,
    op_place: Place,
    site: &Site,
) -> Result<Value, Reported> {
    if let (Value::Untyped(a), Value::Untyped(b)) = (left, right) {
        if a.is_float() != b.is_float() {
            return Err(cx.report(messages::literals_of_two_kinds(op_place)));
        }
        let arithmetic = op.result_dtype(&[default_dtype(a); 2]) == Some(default_dtype(a));
        if arithmetic {
            let args = vec![a.clone(), b.clone()];
            return Ok(Value::Untyped(Rc::new(Untyped::Op { op, args, place: op_place })));
        }
    }
    let args = if matches!(op, ScalarOp::Shl | ScalarOp::Shr) {
        let left = expect_node(cx, left, site)?;
        let right = match right {
            Value::Untyped(count) => adopt(cx, count, DType::U32, site)?,
            other => {
                let count = expect_node(cx, other, site)?;
                // Masked, so that the low bits decide, which are the same in every integer dtype.
                let is_int = cx.graph.dtype(count).is_int();
                if is_int { cx.graph.cast(count, DType::U32, site) } else { count }
            }
        };
        vec![left, right]
    } else {
        unify(cx, &[left, right], op_place, site)?
    };
    map(cx, op, &args, op_place, site).map(Value::Node)
}

/// `-a` and `!a`.
pub(super) fn lower_unary(
    cx: &mut Context<'_>,
    op: ScalarOp,
    value: &Value,
    op_place: Place,
    site: &Site,
) -> Result<Value, Reported> {
    if let Value::Untyped(untyped) = value {
        return Ok(Value::Untyped(Rc::new(match (&**untyped, op) {
            (Untyped::Literal { literal, negated, .. }, ScalarOp::Neg) => {
                Untyped::Literal { literal: literal.clone(), negated: !negated, place: site.place }
            }
            _ => Untyped::Op { op, args: vec![untyped.clone()], place: op_place },
        })));
    }
    let node = expect_node(cx, value, site)?;
    let node = cx.graph.widen(node, site);
    map(cx, op, &[node], op_place, site).map(Value::Node)
}

/// The operands widened to one dtype: narrow floats to f32, literals to what the others have.
pub(super) fn unify(
    cx: &mut Context<'_>,
    values: &[&Value],
    op_place: Place,
    site: &Site,
) -> Result<Vec<NodeId>, Reported> {
    let mut dtype: Option<DType> = None;
    for value in values {
        if matches!(value, Value::Untyped(_)) {
            continue;
        }
        let node = expect_node(cx, value, site)?;
        let found = cx.graph.dtype(node).compute();
        match dtype {
            Some(first) if first != found => {
                return Err(cx.report(messages::operands_differ(op_place, first, found)));
            }
            _ => dtype = Some(found),
        }
    }
    let dtype = dtype.or_else(|| match values.first() {
        Some(Value::Untyped(untyped)) => Some(default_dtype(untyped)),
        _ => None,
    });
    let dtype = dtype.unwrap_or(DType::F32);
    let mut nodes = Vec::new();
    for value in values {
        nodes.push(match value {
            Value::Untyped(untyped) => adopt(cx, untyped, dtype, site)?,
            other => {
                let node = expect_node(cx, other, site)?;
                cx.graph.widen(node, site)
            }
        });
    }
    Ok(nodes)
}

/// One operation on nodes that are widened already: checks dtypes and alignment, guards divisors under a branch.
pub(super) fn map(
    cx: &mut Context<'_>,
    op: ScalarOp,
    args: &[NodeId],
    op_place: Place,
    site: &Site,
) -> Result<NodeId, Reported> {
    check_alignment(cx, args, op_place)?;
    let mut args = args.to_vec();
    if op.may_fault(cx.graph.dtype(args[0])) {
        args[1] = guard_divisor(cx, args[1], site);
    }
    match cx.graph.map(op, &args, site) {
        Some(node) => Ok(node),
        None => {
            let dtypes: Vec<DType> = args.iter().map(|&n| cx.graph.dtype(n)).collect();
            Err(cx.report(messages::operation_not_defined(op_place, op, &dtypes)))
        }
    }
}

/// Rule 6: of stored operands one has all the axes, or the result is a typed `let`.
pub(super) fn check_alignment(
    cx: &mut Context<'_>,
    args: &[NodeId],
    op_place: Place,
) -> Result<(), Reported> {
    let stored: Vec<NodeId> = args.iter().copied().filter(|&n| cx.graph.is_stored(n)).collect();
    let all = cx.graph.join_axes(&stored);
    if stored.len() < 2 || stored.iter().any(|&n| cx.graph.axes(n).len() == all.len()) {
        return Ok(());
    }
    let meant = cx.scope.outer.as_ref().is_some_and(|outer| all.iter().all(|a| outer.contains(a)));
    if meant {
        return Ok(());
    }
    let contains = |a: NodeId, b: NodeId| cx.graph.axes(b).iter().all(|x| cx.graph.axes(a).contains(x));
    let mut pair = (stored[0], stored[1]);
    for (k, &a) in stored.iter().enumerate() {
        for &b in &stored[k + 1..] {
            if !contains(a, b) && !contains(b, a) {
                pair = (a, b);
            }
        }
    }
    let text = |n: NodeId| cx.graph.axes_text(cx.graph.axes(n));
    let names: Vec<&str> = all.iter().map(|&a| cx.graph.axis_name(a)).collect();
    let diagnostic = messages::outer_product(op_place, &text(pair.0), &text(pair.1), &names.join(", "));
    Err(cx.report(diagnostic))
}

/// The axes of a type, for [`super::context::Scope::outer`].
pub(super) fn axis_set(axes: &[AxisId]) -> BTreeSet<AxisId> {
    axes.iter().copied().collect()
}
