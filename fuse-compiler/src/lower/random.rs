//! `dropout` (rule 16).

use super::arguments::Arguments;
use super::constant::{adopt, expect_node};
use super::context::Context;
use super::expr::lower_expr;
use super::operator::map;
use super::site::Site;
use super::value::Value;
use crate::diagnostic::{Place, Reported, messages};
use fuse_ir::dtype::{self, DType};
use fuse_ir::graph::Op;
use fuse_ir::id::NodeId;
use fuse_ir::index_map::IndexExpr;
use fuse_ir::scalar::ScalarOp;

/// `x.dropout(p, seed, stream = 1)`: keeps an element where the random number at its logical index is at least `p`.
pub(super) fn lower_dropout(
    cx: &mut Context<'_>,
    source: NodeId,
    args: &Arguments<'_>,
    site: &Site,
) -> Result<NodeId, Reported> {
    args.only_named(cx, &["stream"])?;
    let [probability, seed] = args.exactly(cx, "x.dropout(p, seed, stream = 1)")?;
    let found = cx.graph.dtype(source);
    if !found.is_float() {
        return Err(cx.report(messages::reduction_not_defined(args.place, "dropout", found, "a float")));
    }
    let probability_place = Place::of(probability);
    let p = scalar_argument(cx, probability, DType::F32)?;
    if cx.graph.dtype(p) != DType::F32 {
        let found = cx.graph.dtype(p);
        return Err(cx.report(messages::other_dtype_expected(probability_place, DType::F32, found)));
    }
    if let Op::Constant(dtype::Value::F32(p)) = cx.graph.kernel.node(p).op
        && !(0.0..=1.0).contains(&p)
    {
        return Err(cx.report(messages::probability_out_of_range(probability_place, p)));
    }
    let seed = integer_argument(cx, seed, site)?;
    let stream = match args.named("stream") {
        Some(stream) => integer_argument(cx, stream, site)?,
        None => cx.graph.constant(dtype::Value::U64(0), site),
    };

    let x = cx.graph.widen(source, site);
    let index = flat_index(cx, x, site)?;
    let word = apply(cx, ScalarOp::Philox, &[seed, stream, index], site)?;
    let shift = cx.graph.constant(dtype::Value::U32(8), site);
    let word = apply(cx, ScalarOp::Shr, &[word, shift], site)?;
    let uniform = cx.graph.cast(word, DType::F32, site);
    let scale = cx.graph.constant(dtype::Value::F32(2f32.powi(-24)), site);
    let uniform = apply(cx, ScalarOp::Mul, &[uniform, scale], site)?;
    let keep = apply(cx, ScalarOp::Ge, &[uniform, p], site)?;

    let one = cx.graph.constant(dtype::Value::F32(1.0), site);
    let kept = apply(cx, ScalarOp::Sub, &[one, p], site)?;
    let dtype = cx.graph.dtype(x);
    let kept = cx.graph.cast(kept, dtype, site);
    let scaled = apply(cx, ScalarOp::Div, &[x, kept], site)?;
    let zero = cx.graph.constant(dtype::Value::zero(dtype), site);
    apply(cx, ScalarOp::Select, &[keep, scaled, zero], site)
}

fn apply(cx: &mut Context<'_>, op: ScalarOp, args: &[NodeId], site: &Site) -> Result<NodeId, Reported> {
    map(cx, op, args, site.place, site)
}

/// The position of an element among all, by the order of the kernel's generics over the axes the value has: axes are
/// numbered in that order.
fn flat_index(cx: &mut Context<'_>, node: NodeId, site: &Site) -> Result<NodeId, Reported> {
    let axes = cx.graph.axes(node).to_vec();
    let Some((&first, rest)) = axes.split_first() else {
        return Ok(cx.graph.constant(dtype::Value::I64(0), site));
    };
    let mut flat = cx.graph.index(first, site);
    for &axis in rest {
        let extent = cx.graph.extent(IndexExpr::Extent(axis), site);
        let index = cx.graph.index(axis, site);
        flat = apply(cx, ScalarOp::Mul, &[flat, extent], site)?;
        flat = apply(cx, ScalarOp::Add, &[flat, index], site)?;
    }
    Ok(flat)
}

fn scalar_argument(cx: &mut Context<'_>, expr: &syn::Expr, adopted: DType) -> Result<NodeId, Reported> {
    let value = lower_expr(cx, expr)?;
    let site = super::site::site_of(cx, expr);
    let node = match &value {
        Value::Untyped(untyped) => adopt(cx, untyped, adopted, &site)?,
        other => expect_node(cx, other, &site)?,
    };
    if !cx.graph.axes(node).is_empty() {
        let axes = cx.graph.axes_text(cx.graph.axes(node));
        return Err(cx.report(messages::scalar_expected(site.place, &axes)));
    }
    Ok(cx.graph.widen(node, &site))
}

/// A seed or stream: any integer scalar, as u64.
fn integer_argument(cx: &mut Context<'_>, expr: &syn::Expr, site: &Site) -> Result<NodeId, Reported> {
    let node = scalar_argument(cx, expr, DType::U64)?;
    let found = cx.graph.dtype(node);
    if !found.is_int() {
        return Err(cx.report(messages::other_dtype_expected(Place::of(expr), DType::U64, found)));
    }
    Ok(cx.graph.cast(node, DType::U64, site))
}
