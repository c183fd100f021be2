//! Integer scalars as index expressions: starts of slices, positions of `at`, widths of `pad`.

use super::constant::expect_node;
use super::context::Context;
use super::expr::lower_expr;
use super::site::site_of;
use super::value::Value;
use crate::diagnostic::{Place, Reported, messages};
use fuse_ir::dtype::DType;
use fuse_ir::graph::{MapFn, Op, ParamKind};
use fuse_ir::id::NodeId;
use fuse_ir::index_map::IndexExpr;
use fuse_ir::scalar::ScalarOp;

/// The number that an argument is, fixed at the call: made of integer parameters, extents and literals.
pub(super) fn lower_position(cx: &mut Context<'_>, expr: &syn::Expr) -> Result<IndexExpr, Reported> {
    let site = site_of(cx, expr);
    let value = lower_expr(cx, expr)?;
    if let Value::Untyped(untyped) = &value
        && untyped.is_float()
    {
        return Err(cx.report(messages::position_not_integer(site.place, DType::F32)));
    }
    let node = expect_node(cx, &value, &site)?;
    let dtype = cx.graph.dtype(node);
    if !dtype.is_int() {
        return Err(cx.report(messages::position_not_integer(site.place, dtype)));
    }
    match position_of(cx, node) {
        Some(position) => Ok(position),
        None => Err(cx.report(messages::position_not_uniform(Place::of(expr)))),
    }
}

fn position_of(cx: &Context<'_>, node: NodeId) -> Option<IndexExpr> {
    let node = cx.graph.kernel.node(node);
    match &node.op {
        Op::Constant(value) => Some(IndexExpr::Const(i64::try_from(value.as_i128()?).ok()?)),
        Op::Scalar(param) => Some(IndexExpr::Param(*param)),
        Op::Extent(extent) => Some(extent.clone()),
        Op::Map { function: MapFn::Op(op), args } => {
            let a = position_of(cx, *args.first()?)?;
            if let ScalarOp::Cast(to) = op {
                let from = cx.graph.dtype(args[0]);
                // Only a cast that keeps every value means the same number.
                return (to.is_int() && to.size() >= from.size()).then_some(a);
            }
            let b = position_of(cx, *args.get(1)?)?;
            let divisible = matches!(b, IndexExpr::Const(d) if d > 0);
            let natural = is_natural(cx, &a);
            match op {
                ScalarOp::Add => Some(a.plus(b)),
                ScalarOp::Sub => Some(a.minus(b)),
                ScalarOp::Mul => Some(a.times(b)),
                ScalarOp::DivEuclid if divisible => Some(a.floor_div(b)),
                ScalarOp::RemEuclid if divisible => Some(a.modulo(b)),
                // Rust rounds towards zero, an index expression down: the same for what is never negative.
                ScalarOp::Div if divisible && natural => Some(a.floor_div(b)),
                ScalarOp::Rem if divisible && natural => Some(a.modulo(b)),
                _ => None,
            }
        }
        Op::Map { .. }
        | Op::Tensor(_)
        | Op::Index(_)
        | Op::View { .. }
        | Op::Reduce { .. }
        | Op::CumSum { .. }
        | Op::Materialize { .. } => None,
    }
}

/// Whether an expression is never negative.
fn is_natural(cx: &Context<'_>, expr: &IndexExpr) -> bool {
    match expr {
        IndexExpr::Const(c) => *c >= 0,
        IndexExpr::Extent(_) | IndexExpr::Index(_) => true,
        IndexExpr::Param(p) => match cx.graph.kernel.param(*p).kind {
            ParamKind::Scalar { dtype } => dtype.is_unsigned_int(),
            ParamKind::Tensor { .. } | ParamKind::Axis { .. } => false,
        },
        IndexExpr::Indirect(_) | IndexExpr::Sub(..) => false,
        IndexExpr::Add(a, b) | IndexExpr::Mul(a, b) | IndexExpr::FloorDiv(a, b) => {
            is_natural(cx, a) && is_natural(cx, b)
        }
        IndexExpr::Mod(..) => true,
    }
}
