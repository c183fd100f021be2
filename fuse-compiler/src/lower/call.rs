//! Calls by name: functions of the language, ops, composites, and methods spelled as functions.

use super::arguments::{Arguments, read_arguments};
use super::axis::{lower_axis, names_axes};
use super::branch::{guard_call, unify_sides};
use super::composite::{find_composite, inline_composite};
use super::constant::{expect_dtype, expect_node};
use super::context::{Context, Variable};
use super::expr::lower_expr;
use super::graph::Graph;
use super::method::apply_method;
use super::operator::{check_alignment, map};
use super::random::lower_dropout;
use super::reduce::{flatten, nest};
use super::site::{Site, site_of};
use super::value::Value;
use super::view::{lower_concat, lower_stack};
use crate::diagnostic::{Place, Reported, messages};
use crate::prelude::name_in_f64;
use crate::scalar::ScalarType;
use crate::scalar::method::find_method;
use fuse_ir::dtype::DType;
use fuse_ir::id::NodeId;
use fuse_ir::scalar::ScalarOp;

/// A path as text, without generic arguments: the name by which items are found.
pub(crate) fn path_text(path: &syn::Path) -> String {
    let names: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
    let text = names.join("::");
    if path.leading_colon.is_some() { format!("::{text}") } else { text }
}

/// Whether a function of that name is the language's in every body, if only to say what to write instead.
pub(crate) fn is_language_function(name: &str) -> bool {
    matches!(name, "select" | "index" | "extent" | "concat" | "stack" | "dropout")
        || find_method(name).is_some()
        || super::method::is_axis_method(name)
        || super::method::method_error(name, Place::from(proc_macro2::Span::call_site())).is_some()
}

/// An expression out of the groups that a `macro_rules!` variable (`$op:path`) puts it into.
pub(crate) fn ungroup(mut expr: &syn::Expr) -> &syn::Expr {
    while let syn::Expr::Group(group) = expr {
        expr = &group.expr;
    }
    expr
}

/// `f(..)`.
pub(super) fn lower_call(cx: &mut Context<'_>, call: &syn::ExprCall) -> Result<Value, Reported> {
    let syn::Expr::Path(callee) = ungroup(&call.func) else {
        return Err(cx.report(messages::callee_not_a_name(Place::of(&call.func))));
    };
    let name = path_text(&callee.path);
    let place = Place::of(&callee.path);
    let args = read_arguments(cx, &name, place, &call.args)?;
    let site = site_of(cx, call);
    let turbofish = callee.path.segments.last().and_then(|segment| match &segment.arguments {
        syn::PathArguments::AngleBracketed(generics) => Some(generics),
        syn::PathArguments::None | syn::PathArguments::Parenthesized(_) => None,
    });
    // What the block defines goes before what the language brings.
    if let Some(composite) = find_composite(cx, &name)? {
        return inline_composite(cx, &composite, &args, turbofish, &site);
    }
    let key = cx.key(&name);
    if cx.scalars.by_name.contains_key(&key) || cx.scalars.poisoned.contains(&key) {
        if let Some(generics) = turbofish {
            return Err(cx.report(messages::turbofish_not_expected(Place::of(generics), &name)));
        }
        return lower_op_call(cx, &name, &key, &args, &site);
    }
    if let Some(generics) = turbofish {
        return Err(cx.report(messages::turbofish_not_expected(Place::of(generics), &name)));
    }
    match name.as_str() {
        "select" => lower_select(cx, &args, &site),
        "index" => {
            args.only_named(cx, &[])?;
            let [axis] = args.exactly(cx, "index(N)")?;
            let axis = lower_axis(cx, axis)?;
            Ok(Value::Node(cx.graph.index(axis, &site)))
        }
        "extent" => {
            args.only_named(cx, &[])?;
            let [axis] = args.exactly(cx, "extent(N)")?;
            let axes = super::axis::lower_axes(cx, axis)?;
            Ok(Value::Node(cx.graph.extent(Graph::count(&axes), &site)))
        }
        "concat" => lower_concat(cx, &args, &site).map(Value::Node),
        "stack" => lower_stack(cx, &args, &site).map(Value::Node),
        "dropout" => {
            let Some((&first, rest)) = args.positional.split_first() else {
                return Err(cx.report(messages::argument_count(
                    place,
                    "dropout",
                    3,
                    0,
                    "x.dropout(p, seed)",
                )));
            };
            let value = lower_expr(cx, first)?;
            let source = expect_node(cx, &value, &site)?;
            let args = Arguments { positional: rest.to_vec(), ..args };
            lower_dropout(cx, source, &args, &site).map(Value::Node)
        }
        _ => lower_method_as_function(cx, &name, &args, &site),
    }
}

/// `select(cond, a, b)`.
fn lower_select(cx: &mut Context<'_>, args: &Arguments<'_>, site: &Site) -> Result<Value, Reported> {
    args.only_named(cx, &[])?;
    let [condition, a, b] = args.exactly(cx, "select(condition, a, b)")?;
    let (c, a, b) = (lower_expr(cx, condition), lower_expr(cx, a), lower_expr(cx, b));
    let (c, a, b) = (c?, a?, b?);
    let c = expect_dtype(cx, &c, DType::Bool, Place::of(condition), site)?;
    let sides = unify_sides(cx, &a, &b, args.place, site)?;
    map(cx, ScalarOp::Select, &[c, sides[0], sides[1]], args.place, site).map(Value::Node)
}

/// A call of a scalar op, lifted over the axes of its arguments.
fn lower_op_call(
    cx: &mut Context<'_>,
    name: &str,
    key: &str,
    args: &Arguments<'_>,
    site: &Site,
) -> Result<Value, Reported> {
    args.only_named(cx, &[])?;
    let scalars = cx.scalars;
    let mut values = Vec::new();
    for arg in &args.positional {
        values.push(lower_expr(cx, arg));
    }
    let values: Vec<Value> = values.into_iter().collect::<Result<_, _>>()?;
    let is_wide = |value: &Value| matches!(value, Value::Node(n) if cx.graph.dtype(*n) == DType::F64);
    let in_f64 = scalars.by_name.get(&name_in_f64(key)).filter(|_| values.iter().any(is_wide));
    let Some(signature) = in_f64.or_else(|| scalars.by_name.get(key)) else {
        // Its declaration has errors, which were reported.
        return Err(Reported::before());
    };
    if args.positional.len() != signature.parameters.len() {
        let usage = format!(
            "{name}({})",
            signature.parameters.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        );
        let place = args.place;
        let (expected, found) = (signature.parameters.len(), args.positional.len());
        return Err(cx.report(messages::argument_count(place, name, expected, found, &usage)));
    }
    let mut nodes = Vec::new();
    let mut failed = None;
    for ((arg, value), ty) in args.positional.iter().zip(&values).zip(&signature.parameters) {
        match expect_op_argument(cx, Place::of(*arg), value, ty, site) {
            Ok(more) => nodes.extend(more),
            Err(reported) => failed = Some(reported),
        }
    }
    if let Some(reported) = failed {
        return Err(reported);
    }
    let place = args.place;
    check_alignment(cx, &nodes, place)?;
    let function = cx.graph.use_function(&scalars.functions, signature.id);
    let (function, nodes) = guard_call(cx, function, nodes, &signature.results, site);
    let mut results = Vec::new();
    for (k, &dtype) in signature.results.iter().enumerate() {
        results.push(cx.graph.call(function, k as u32, dtype, &nodes, site));
    }
    Ok(nest(&signature.result, &mut results.into_iter()))
}

/// An argument in the dtypes of its parameter; a tuple is flattened.
fn expect_op_argument(
    cx: &mut Context<'_>,
    place: Place,
    value: &Value,
    ty: &ScalarType,
    site: &Site,
) -> Result<Vec<NodeId>, Reported> {
    let (values, dtypes) = (flatten(value), ty.flatten());
    if values.len() != dtypes.len() {
        return Err(cx.report(messages::argument_shape(place, &ty.to_string())));
    }
    let mut nodes = Vec::new();
    for (value, dtype) in values.iter().zip(dtypes) {
        nodes.push(expect_dtype(cx, value, dtype, place, site)?);
    }
    Ok(nodes)
}

/// `exp(x)`, `maximum(a, b)`, `f32::max(a, b)`: a method with its receiver as the first argument.
fn lower_method_as_function(
    cx: &mut Context<'_>,
    name: &str,
    args: &Arguments<'_>,
    site: &Site,
) -> Result<Value, Reported> {
    let place = args.place;
    let method_name = match name.rsplit_once("::") {
        Some((ty, method)) if DType::from_name(ty).is_some() => method,
        Some(_) => return Err(cx.report(messages::path_outside_block(place, name))),
        None => name,
    };
    let Some(method) = find_method(method_name) else {
        match cx.find_variable(name) {
            Some(Variable::Poisoned(reported)) => return Err(*reported),
            Some(Variable::Value(_) | Variable::Mutable(_)) => {
                return Err(cx.report(messages::value_called(place, name)));
            }
            None => {}
        }
        return Err(cx.report(unknown_tensor_function(cx, method_name, place)));
    };
    args.only_named(cx, &[])?;
    if let Some(axes) = args.positional.iter().skip(1).find(|a| names_axes(cx, a)) {
        return Err(cx.report(messages::axis_in_function_call(
            Place::of(*axes),
            method_name,
            super::reduce::Reduction::from_name(method_name).is_some(),
        )));
    }
    let mut operands = Vec::new();
    for arg in &args.positional {
        operands.push(lower_expr(cx, arg)?);
    }
    let Some(first) = args.positional.first() else {
        let usage = format!("{method_name}(x)");
        return Err(cx.report(messages::argument_count(place, name, method.arguments.len() + 1, 0, &usage)));
    };
    let receiver_place = Place::of(*first);
    let rest = Arguments {
        name: name.to_owned(),
        place: args.place,
        positional: args.positional[1..].to_vec(),
        named: Vec::new(),
    };
    apply_method(cx, method, &operands, receiver_place, &rest, site)
}

fn unknown_tensor_function(cx: &Context<'_>, name: &str, place: Place) -> crate::diagnostic::Diagnostic {
    if let Some(kernel) = cx.library.kernels.get(name) {
        return messages::kernel_called(place, name, *kernel);
    }
    if super::method::is_axis_method(name) {
        return messages::method_called_as_function(place, name);
    }
    if let Some(diagnostic) = super::method::method_error(name, place) {
        return diagnostic;
    }
    let known = cx.scalars.by_name.keys().chain(cx.library.composites.keys()).map(String::as_str);
    let known = known.chain(crate::prelude::items().map(|i| i.name));
    let similar = known.filter(|k| is_similar(k, name)).min_by_key(|k| k.len().abs_diff(name.len()));
    messages::unknown_tensor_function(place, name, similar)
}

/// Whether two names differ by at most one letter, or by case and underscores.
pub(crate) fn is_similar(a: &str, b: &str) -> bool {
    let plain = |s: &str| s.replace('_', "").to_lowercase();
    let (a, b) = (plain(a), plain(b));
    if a == b {
        return true;
    }
    let (short, long) = if a.len() <= b.len() { (&a, &b) } else { (&b, &a) };
    let prefix = short.bytes().zip(long.bytes()).take_while(|(x, y)| x == y).count();
    let suffix = short.bytes().rev().zip(long.bytes().rev()).take_while(|(x, y)| x == y).count();
    short.len() > 2 && long.len() - short.len() <= 1 && prefix + suffix + 1 >= long.len()
}
