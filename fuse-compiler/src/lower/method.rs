//! Method calls: axis operations by name, then the methods of the primitive types, elementwise.

use super::arguments::{Arguments, read_arguments};
use super::axis::names_axes;
use super::call::is_similar;
use super::constant::{adopt, expect_dtype};
use super::context::Context;
use super::contract::lower_dot;
use super::expr::lower_expr;
use super::indirect::lower_gather;
use super::operator::{map, unify};
use super::random::lower_dropout;
use super::reduce::{Reduction, expect_receiver, lower_reduction, lower_user_reduction};
use super::site::{Site, site_of};
use super::value::Value;
use super::view;
use super::window::lower_window;
use crate::diagnostic::{Diagnostic, Place, Reported, messages};
use crate::scalar::method::{Argument, Method, find_method, similar_method};
use fuse_ir::dtype::DType;
use fuse_ir::id::NodeId;
use fuse_ir::scalar::Expr;
use fuse_ir::scalar::ScalarOp;

/// `receiver.method(..)`.
pub(super) fn lower_method(cx: &mut Context<'_>, call: &syn::ExprMethodCall) -> Result<Value, Reported> {
    let name = call.method.to_string();
    let place = Place::of(&call.method);
    if let Some(diagnostic) = method_error(&name, place) {
        return Err(cx.report(diagnostic));
    }
    let receiver = lower_expr(cx, &call.receiver);
    let args = read_arguments(cx, &name, place, &call.args)?;
    if let Some(turbofish) = &call.turbofish {
        return Err(cx.report(messages::turbofish_not_expected(Place::of(turbofish), &name)));
    }
    let receiver = receiver?;
    let site = site_of(cx, call);
    lower_method_of(cx, &receiver, Place::of(&call.receiver), &args, &site)
}

/// A method of a value that is lowered already.
fn lower_method_of(
    cx: &mut Context<'_>,
    receiver: &Value,
    receiver_place: Place,
    args: &Arguments<'_>,
    site: &Site,
) -> Result<Value, Reported> {
    let name = args.name.as_str();
    if name == "reduce" {
        return lower_user_reduction(cx, receiver, receiver_place, args, site);
    }
    if let Some(reduction) = Reduction::from_name(name) {
        let elementwise = reduction.is_elementwise_too()
            && args.positional.len() == 1
            && !names_axes(cx, args.positional[0]);
        if args.positional.is_empty() {
            return Err(cx.report(messages::reduction_without_axes(args.place, name)));
        }
        if !elementwise {
            let source = expect_receiver(cx, receiver, name, receiver_place, site)?;
            return lower_reduction(cx, reduction, source, args, site).map(Value::Node);
        }
    }
    let lower_view: fn(&mut Context<'_>, NodeId, &Arguments<'_>, &Site) -> Result<NodeId, Reported> =
        match name {
            "slice" => view::lower_slice,
            "at" => view::lower_at,
            "reverse" => view::lower_reverse,
            "rename" => view::lower_rename,
            "split" => view::lower_split,
            "merge" => view::lower_merge,
            "pad" => view::lower_pad,
            "gather" => lower_gather,
            "dot" => lower_dot,
            "window" => lower_window,
            "dropout" => lower_dropout,
            "materialize" => lower_materialize,
            _ => return lower_elementwise(cx, receiver, receiver_place, args, site),
        };
    let source = expect_receiver(cx, receiver, name, receiver_place, site)?;
    lower_view(cx, source, args, site).map(Value::Node)
}

fn lower_materialize(
    cx: &mut Context<'_>,
    source: NodeId,
    args: &Arguments<'_>,
    site: &Site,
) -> Result<NodeId, Reported> {
    args.only_named(cx, &[])?;
    let [] = args.exactly(cx, "x.materialize()")?;
    Ok(cx.graph.materialize(source, site))
}

/// A method of the primitive types, or one of those that std lacks.
fn lower_elementwise(
    cx: &mut Context<'_>,
    receiver: &Value,
    receiver_place: Place,
    args: &Arguments<'_>,
    site: &Site,
) -> Result<Value, Reported> {
    let name = args.name.as_str();
    if name == "square" {
        args.only_named(cx, &[])?;
        let [] = args.exactly(cx, "x.square()")?;
        let node = expect_receiver(cx, receiver, name, receiver_place, site)?;
        let node = cx.graph.widen(node, site);
        return map(cx, ScalarOp::Mul, &[node, node], args.place, site).map(Value::Node);
    }
    let Some(method) = find_method(name) else {
        return Err(cx.report(unknown_tensor_method(cx, name, args.place)));
    };
    args.only_named(cx, &[])?;
    let mut operands = vec![receiver.clone()];
    for arg in &args.positional {
        operands.push(lower_expr(cx, arg)?);
    }
    apply_method(cx, method, &operands, receiver_place, args, site)
}

/// Applies a method to its operands, the receiver first; also for calls such as `maximum(a, b)`.
pub(super) fn apply_method(
    cx: &mut Context<'_>,
    method: &Method,
    operands: &[Value],
    receiver_place: Place,
    args: &Arguments<'_>,
    site: &Site,
) -> Result<Value, Reported> {
    let place = args.place;
    if operands.len() != method.arguments.len() + 1 {
        let usage = method_usage(method);
        let found = operands.len().saturating_sub(1);
        return Err(cx.report(messages::argument_count(
            place,
            method.name,
            method.arguments.len(),
            found,
            &usage,
        )));
    }
    let mut nodes = vec![None; operands.len()];
    let same: Vec<usize> =
        (0..operands.len()).filter(|&k| k == 0 || method.arguments[k - 1] == Argument::Receiver).collect();
    let first = &operands[0];
    if same.len() > 1 {
        if matches!(first, Value::Tuple(_) | Value::Unit) {
            return Err(cx.report(messages::method_of_tuple(receiver_place, method.name)));
        }
        let values: Vec<&Value> = same.iter().map(|&k| &operands[k]).collect();
        for (&k, node) in same.iter().zip(unify(cx, &values, place, site)?) {
            nodes[k] = Some(node);
        }
    } else {
        let node = expect_receiver(cx, first, method.name, receiver_place, site)?;
        nodes[0] = Some(cx.graph.widen(node, site));
    }
    let receiver = nodes[0].map_or(DType::F32, |n| cx.graph.dtype(n));
    if !method.receiver.contains(receiver) {
        let expected = method.receiver.name();
        return Err(cx.report(messages::method_not_defined(place, method.name, receiver, expected)));
    }
    for k in 1..operands.len() {
        if nodes[k].is_none() {
            let dtype = method.argument_dtype(k - 1, receiver).unwrap_or(receiver);
            let arg_place = args.positional.get(k - 1).map_or(place, |e| Place::of(*e));
            nodes[k] = Some(match &operands[k] {
                Value::Untyped(untyped) => adopt(cx, untyped, dtype, site)?,
                other => expect_dtype(cx, other, dtype, arg_place, site)?,
            });
        }
    }
    let nodes: Vec<NodeId> = nodes.into_iter().flatten().collect();
    let variables = (0..nodes.len()).map(|k| Expr::Variable(fuse_ir::id::VarId::from_index(k))).collect();
    let mut results = Vec::new();
    for result in method.expand(receiver, variables) {
        results.push(Value::Node(lower_scalar_expr(cx, &result, &nodes, place, site)?));
    }
    match results.pop() {
        Some(result) if results.is_empty() => Ok(result),
        Some(result) => {
            results.push(result);
            Ok(Value::Tuple(results))
        }
        None => Ok(Value::Unit),
    }
}

/// An expression of the method table over nodes.
fn lower_scalar_expr(
    cx: &mut Context<'_>,
    expr: &Expr,
    operands: &[NodeId],
    place: Place,
    site: &Site,
) -> Result<NodeId, Reported> {
    match expr {
        Expr::Constant(value) => Ok(cx.graph.constant(*value, site)),
        Expr::Variable(variable) => Ok(operands[variable.index()]),
        Expr::Op(op, args) => {
            let args: Vec<NodeId> = args
                .iter()
                .map(|a| lower_scalar_expr(cx, a, operands, place, site))
                .collect::<Result<_, _>>()?;
            map(cx, *op, &args, place, site)
        }
        // The table calls no functions.
        Expr::Call { .. } => Err(cx.report(messages::expression_not_supported(place))),
    }
}

fn method_usage(method: &Method) -> String {
    let args = ["a", "b", "c"];
    format!("x.{}({})", method.name, args[..method.arguments.len().min(3)].join(", "))
}

/// Names that are known not to be there, with what to write instead (rules 3, 5, 7, 21).
pub(super) fn method_error(name: &str, place: Place) -> Option<Diagnostic> {
    let diagnostic = match name {
        "matmul" | "mm" | "bmm" | "einsum" | "tensordot" => messages::use_instead(
            place,
            name,
            "write `x.dot(w, K)`, with the axes that are summed; common axes that are not are batch",
        ),
        "conv1d" | "conv3d" | "unfold" | "im2col" => messages::use_instead(
            place,
            name,
            "write `x.window(H, (OH, KH), stride = 1, padding = 1).dot(w, (C, KH))`, a window for each axis",
        ),
        "take" | "index_select" | "take_along_axis" => {
            messages::use_instead(place, name, "write `x.gather(V, ids)`, with the axis that is read")
        }
        "scatter" | "scatter_add" | "scatter_" | "index_add" | "index_put" | "bincount" | "histogram" => {
            messages::not_expressible(
                place,
                name,
                "the sum over a one-hot mask is the histogram: `select(ids == index(V), x, 0.0).sum(N)`",
            )
        }
        "sort" | "argsort" | "sort_by" | "topk" | "top_k" | "median" | "quantile" => {
            messages::not_expressible(
                place,
                name,
                "the greatest alone is `x.max(N)`, its position `x.argmax(N)`",
            )
        }
        "unique" | "nonzero" | "argwhere" | "masked_select" | "compress" | "filter" => {
            messages::not_expressible(
                place,
                name,
                "extents do not depend on data; keep the shape and mask: `select(mask, x, 0.0)`",
            )
        }
        "scan" | "cumprod" | "cummax" | "cummin" | "fold" => {
            messages::not_expressible(place, name, "the only scan is the running sum, `x.cumsum(N)`")
        }
        "transpose" | "permute" | "swapaxes" | "moveaxis" | "t" => {
            messages::order_not_observable(place, name)
        }
        "reshape" | "view" | "flatten" | "unflatten" | "ravel" => messages::use_instead(
            place,
            name,
            "axes are split and joined by name: `x.split(F, (H, E))`, `x.merge((H, E), F)`",
        ),
        "unsqueeze" | "expand" | "broadcast_to" | "repeat" | "expand_as" => messages::use_instead(
            place,
            name,
            "nothing needs to be broadcast: operands align by the names of their axes",
        ),
        "squeeze" => {
            messages::use_instead(place, name, "an axis is dropped by a position on it: `x.at(N, 0)`")
        }
        "cat" => messages::use_instead(place, name, "write `concat(P, (a, N), (b, Q))`"),
        "to" | "cast" | "astype" | "to_dtype" | "half" | "float" => {
            messages::use_instead(place, name, "write `x as f16`")
        }
        "select" | "where_" => messages::use_instead(place, name, "write `select(condition, a, b)`"),
        "map" | "apply" | "for_each" | "iter" | "zip" | "zip_with" | "par_iter" => messages::use_instead(
            place,
            name,
            "what is written for one element applies to each: `x * 2.0`, or a function with `#[op]`, `f(x)`",
        ),
        "shape" | "size" | "len" | "dim" | "rank" | "ndim" | "numel" => {
            messages::use_instead(place, name, "the size of an axis is `extent(N)`")
        }
        "avg" | "average" => messages::use_instead(place, name, "write `x.mean(N)`"),
        "std" | "stddev" | "norm" => messages::use_instead(
            place,
            name,
            "write it with what there is: `x.var(N).sqrt()`, `x.square().sum(N).sqrt()`",
        ),
        "clone" | "contiguous" | "detach" => messages::use_instead(place, name, "a value needs no copy"),
        _ => return None,
    };
    Some(diagnostic)
}

fn unknown_tensor_method(cx: &Context<'_>, name: &str, place: Place) -> Diagnostic {
    let is_function = cx.scalars.by_name.contains_key(name)
        || cx.library.composites.contains_key(name)
        || crate::prelude::find_item(name).is_some()
        || matches!(name, "concat" | "stack" | "index" | "extent");
    if is_function {
        return messages::function_called_as_method(place, name);
    }
    let similar = similar_method(name);
    let axis_method = AXIS_METHODS.iter().copied().find(|method| is_similar(method, name));
    messages::unknown_tensor_method(place, name, axis_method.or(similar))
}

/// The methods over axes.
const AXIS_METHODS: &[&str] = &[
    "all",
    "any",
    "argmax",
    "argmin",
    "at",
    "cumsum",
    "dot",
    "gather",
    "log_softmax",
    "logsumexp",
    "materialize",
    "max",
    "mean",
    "merge",
    "min",
    "pad",
    "prod",
    "reduce",
    "rename",
    "reverse",
    "slice",
    "softmax",
    "split",
    "square",
    "sum",
    "var",
    "window",
];

/// Whether a name is a method over axes, which cannot be called as a function.
pub(super) fn is_axis_method(name: &str) -> bool {
    AXIS_METHODS.contains(&name)
}
