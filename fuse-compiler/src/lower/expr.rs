//! Expressions of tensor bodies.

use super::branch::lower_if;
use super::call::lower_call;
use super::constant::{adopt, expect_node, lower_constant_path, lower_literal};
use super::context::{Context, Variable};
use super::graph::MOST_OPERATIONS;
use super::method::lower_method;
use super::mutable::read_mutable;
use super::operator::{binary_op, lower_binary, lower_unary};
use super::site::{Site, site_of};
use super::statement::lower_block;
use super::value::Value;
use crate::diagnostic::{Place, Reported, messages};
use fuse_ir::dtype::DType;
use fuse_ir::scalar::ScalarOp;
use proc_macro2::Ident;

/// Lowers one expression.
pub(super) fn lower_expr(cx: &mut Context<'_>, expr: &syn::Expr) -> Result<Value, Reported> {
    if cx.graph.is_too_large() {
        let reported = match cx.library.too_large.get() {
            Some(reported) => reported,
            None => cx.report(messages::too_many_operations(Place::of(expr), MOST_OPERATIONS)),
        };
        cx.library.too_large.set(Some(reported));
        return Err(reported);
    }
    match expr {
        syn::Expr::Lit(literal) => {
            let site = site_of(cx, literal);
            lower_literal(cx, &literal.lit, &site)
        }
        syn::Expr::Path(path) => lower_path(cx, path),
        syn::Expr::Paren(paren) => lower_expr(cx, &paren.expr),
        syn::Expr::Group(group) => lower_expr(cx, &group.expr),
        syn::Expr::Reference(reference) if reference.mutability.is_none() => lower_expr(cx, &reference.expr),
        syn::Expr::Block(block) if block.label.is_none() => lower_block(cx, &block.block),
        syn::Expr::Tuple(tuple) => {
            let values: Vec<_> = tuple.elems.iter().map(|e| lower_expr(cx, e)).collect();
            let values: Vec<Value> = values.into_iter().collect::<Result<_, _>>()?;
            Ok(if values.is_empty() { Value::Unit } else { Value::Tuple(values) })
        }
        syn::Expr::Field(field) => lower_field(cx, field),
        syn::Expr::Unary(unary) => lower_prefix(cx, unary),
        syn::Expr::Binary(binary) => {
            let op_place = Place::of(&binary.op);
            let Some(op) = binary_op(&binary.op) else {
                return Err(cx.report(messages::assignment_in_expression(op_place)));
            };
            let (left, right) = (lower_expr(cx, &binary.left), lower_expr(cx, &binary.right));
            let (left, right) = (left?, right?);
            for (value, operand) in [(&left, &binary.left), (&right, &binary.right)] {
                expect_one(cx, value, Place::of(operand))?;
            }
            let site = site_of(cx, binary);
            lower_binary(cx, op, &left, &right, op_place, &site)
        }
        syn::Expr::Cast(cast) => lower_cast(cx, cast),
        syn::Expr::Call(call) => lower_call(cx, call),
        syn::Expr::MethodCall(call) => lower_method(cx, call),
        syn::Expr::If(expr) => lower_if(cx, expr),
        other => Err(report_unsupported(cx, other)),
    }
}

/// Reports a tuple, or nothing, where one tensor is expected.
fn expect_one(cx: &mut Context<'_>, value: &Value, place: Place) -> Result<(), Reported> {
    match value {
        Value::Node(_) | Value::Untyped(_) => Ok(()),
        Value::Tuple(_) => Err(cx.report(messages::tuple_in_place_of_tensor(place))),
        Value::Unit => Err(cx.report(messages::no_value(place))),
    }
}

/// The operand of an operation as a tensor, with its site.
pub(super) fn lower_operand(
    cx: &mut Context<'_>,
    expr: &syn::Expr,
) -> Result<(fuse_ir::id::NodeId, Site), Reported> {
    let value = lower_expr(cx, expr)?;
    let site = site_of(cx, expr);
    Ok((expect_node(cx, &value, &site)?, site))
}

/// The name that an expression is, if it is one.
pub(super) fn as_name(expr: &syn::Expr) -> Option<&Ident> {
    match expr {
        syn::Expr::Path(path) if path.qself.is_none() => path.path.get_ident(),
        syn::Expr::Paren(paren) => as_name(&paren.expr),
        syn::Expr::Group(group) => as_name(&group.expr),
        _ => None,
    }
}

fn lower_path(cx: &mut Context<'_>, path: &syn::ExprPath) -> Result<Value, Reported> {
    let site = site_of(cx, path);
    if let Some(name) = path.path.get_ident() {
        match cx.find_variable(&name.to_string()) {
            Some(Variable::Value(value)) => return Ok(value.clone()),
            Some(Variable::Mutable(param)) => return Ok(Value::Node(read_mutable(cx, *param))),
            Some(Variable::Poisoned(reported)) => return Err(*reported),
            None => {}
        }
        if cx.find_axis(name).is_some() {
            return Err(cx.report(messages::axis_in_place_of_value(name)));
        }
    }
    lower_constant_path(cx, &path.path, &site)
}

fn lower_field(cx: &mut Context<'_>, field: &syn::ExprField) -> Result<Value, Reported> {
    let value = lower_expr(cx, &field.base)?;
    match (&field.member, value) {
        (syn::Member::Unnamed(index), Value::Tuple(values)) => match values.get(index.index as usize) {
            Some(value) => Ok(value.clone()),
            None => Err(cx.report(messages::no_such_component(Place::of(&field.member), values.len()))),
        },
        _ => Err(cx.report(messages::no_fields(Place::of(&field.member)))),
    }
}

fn lower_prefix(cx: &mut Context<'_>, unary: &syn::ExprUnary) -> Result<Value, Reported> {
    let op_place = Place::of(&unary.op);
    let op = match unary.op {
        syn::UnOp::Neg(_) => ScalarOp::Neg,
        syn::UnOp::Not(_) => ScalarOp::Not,
        // `*p` reads a `&mut` parameter as `p` does.
        syn::UnOp::Deref(_) if is_mutable_parameter(cx, &unary.expr) => return lower_expr(cx, &unary.expr),
        _ => return Err(cx.report(messages::expression_not_supported(op_place))),
    };
    let value = lower_expr(cx, &unary.expr)?;
    let site = site_of(cx, unary);
    lower_unary(cx, op, &value, op_place, &site)
}

/// Whether an expression names a `&mut` parameter, or what has errors.
fn is_mutable_parameter(cx: &Context<'_>, expr: &syn::Expr) -> bool {
    let variable = as_name(expr).and_then(|name| cx.find_variable(&name.to_string()));
    matches!(variable, Some(Variable::Mutable(_) | Variable::Poisoned(_)))
}

fn lower_cast(cx: &mut Context<'_>, cast: &syn::ExprCast) -> Result<Value, Reported> {
    let value = lower_expr(cx, &cast.expr);
    let name = match &*cast.ty {
        syn::Type::Paren(paren) => type_name(&paren.elem),
        other => type_name(other),
    };
    let dtype = name.and_then(|n| cx.find_dtype(&n.to_string()));
    let Some(dtype) = dtype else {
        return Err(cx.report(match name {
            Some(name) => messages::unknown_dtype(name),
            None => messages::cast_to_other_type(Place::of(&cast.ty)),
        }));
    };
    let site = site_of(cx, cast);
    let node = match value? {
        // Literals of the kind adopt the dtype at once; others are converted as Rust does.
        Value::Untyped(untyped) if untyped.is_float() == dtype.is_float() && dtype != DType::Bool => {
            adopt(cx, &untyped, dtype, &site)?
        }
        value => expect_node(cx, &value, &site)?,
    };
    if dtype == DType::Bool && cx.graph.dtype(node) != DType::Bool {
        return Err(cx.report(messages::cast_to_bool(Place::of(&cast.as_token))));
    }
    Ok(Value::Node(cx.graph.cast(node, dtype, &site)))
}

fn type_name(ty: &syn::Type) -> Option<&Ident> {
    match ty {
        syn::Type::Path(path) => path.path.get_ident(),
        _ => None,
    }
}

/// Rule 19: what a body cannot contain, at its keyword.
fn report_unsupported(cx: &mut Context<'_>, expr: &syn::Expr) -> Reported {
    let (place, what) = match expr {
        syn::Expr::ForLoop(e) => (Place::of(&e.for_token), "`for`"),
        syn::Expr::While(e) => (Place::of(&e.while_token), "`while`"),
        syn::Expr::Loop(e) => (Place::of(&e.loop_token), "`loop`"),
        syn::Expr::Match(e) => (Place::of(&e.match_token), "`match`"),
        syn::Expr::Return(e) => (Place::of(&e.return_token), "`return`"),
        syn::Expr::Break(e) => (Place::of(&e.break_token), "`break`"),
        syn::Expr::Continue(e) => (Place::of(&e.continue_token), "`continue`"),
        syn::Expr::Closure(e) => (Place::from(Place::of(e).start), "a closure"),
        syn::Expr::Macro(e) => (Place::of(&e.mac.path), "a macro"),
        syn::Expr::Unsafe(e) => (Place::of(&e.unsafe_token), "`unsafe`"),
        syn::Expr::Async(e) => (Place::of(&e.async_token), "`async`"),
        syn::Expr::Await(e) => (Place::of(&e.await_token), "`await`"),
        syn::Expr::Try(e) => (Place::of(&e.question_token), "`?`"),
        syn::Expr::Let(e) => (Place::of(&e.let_token), "`let` in an expression"),
        syn::Expr::Index(e) => return cx.report(messages::index_expression(Place::of(e))),
        syn::Expr::Assign(e) => return cx.report(messages::assignment_in_expression(Place::of(&e.eq_token))),
        syn::Expr::Block(e) => return cx.report(messages::expression_not_supported(Place::of(&e.label))),
        syn::Expr::Reference(e) => {
            return cx.report(messages::expression_not_supported(Place::of(&e.and_token)));
        }
        other => return cx.report(messages::expression_not_supported(Place::of(other))),
    };
    cx.report(messages::keyword_not_supported(place, what))
}
