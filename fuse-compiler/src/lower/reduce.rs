//! Reductions by axis name (rules 11 to 13).
//!
//! Narrow floats widen first, so sums and products accumulate in f32 and give it; integers accumulate in 64 bits.
//! `mean`, `var`, `softmax` and their like are elementwise operations and plain reductions; no later stage knows them.

use super::arguments::Arguments;
use super::axis::{lower_axes, require_axis};
use super::branch::check_condition;
use super::constant::{expect_dtype, expect_node};
use super::context::Context;
use super::graph::Graph;
use super::operator::{check_alignment, map};
use super::site::Site;
use super::value::Value;
use super::window::require_fill;
use crate::diagnostic::{Place, Reported, messages};
use crate::scalar::ScalarType;
use fuse_ir::dtype::{self, DType};
use fuse_ir::graph::{CheckKind, Reducer};
use fuse_ir::id::{AxisId, NodeId};
use fuse_ir::scalar::ScalarOp;

/// The reductions that are methods with axes as their only argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reduction {
    Sum,
    Prod,
    Mean,
    Var,
    Max,
    Min,
    Any,
    All,
    ArgMax,
    ArgMin,
    Softmax,
    LogSoftmax,
    LogSumExp,
    CumSum,
}

impl Reduction {
    /// The reduction of that name.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "sum" => Reduction::Sum,
            "prod" => Reduction::Prod,
            "mean" => Reduction::Mean,
            "var" => Reduction::Var,
            "max" => Reduction::Max,
            "min" => Reduction::Min,
            "any" => Reduction::Any,
            "all" => Reduction::All,
            "argmax" => Reduction::ArgMax,
            "argmin" => Reduction::ArgMin,
            "softmax" => Reduction::Softmax,
            "log_softmax" => Reduction::LogSoftmax,
            "logsumexp" => Reduction::LogSumExp,
            "cumsum" => Reduction::CumSum,
            _ => return None,
        })
    }

    /// Whether the method also exists elementwise: `x.max(y)` (rule 8).
    pub(super) fn is_elementwise_too(self) -> bool {
        matches!(self, Reduction::Max | Reduction::Min)
    }

    /// What the elements must be.
    fn accepts(self, dtype: DType) -> Result<(), &'static str> {
        let number = dtype.is_float() || dtype.is_int();
        let (ok, what) = match self {
            Reduction::Sum => (true, ""),
            Reduction::Prod | Reduction::CumSum | Reduction::Max | Reduction::Min => (number, "a number"),
            Reduction::ArgMax | Reduction::ArgMin => (number, "a number"),
            Reduction::Any | Reduction::All => (dtype == DType::Bool, "bool"),
            Reduction::Mean | Reduction::Var | Reduction::Softmax | Reduction::LogSoftmax => {
                (dtype.is_float(), "a float")
            }
            Reduction::LogSumExp => (dtype.is_float(), "a float"),
        };
        if ok { Ok(()) } else { Err(what) }
    }
}

/// `x.sum(N)` and its like.
pub(super) fn lower_reduction(
    cx: &mut Context<'_>,
    reduction: Reduction,
    source: NodeId,
    args: &Arguments<'_>,
    site: &Site,
) -> Result<NodeId, Reported> {
    args.only_named(cx, &[])?;
    let usage = if args.positional.len() > 1 { "(M, N)" } else { "N" };
    let [axes_expr] = args.exactly(cx, &format!("x.{}({usage})", args.name))?;
    let axes = lower_axes(cx, axes_expr)?;
    for (k, &axis) in axes.iter().enumerate() {
        let place = match axes_expr {
            syn::Expr::Tuple(tuple) => Place::of(&tuple.elems[k]),
            other => Place::of(other),
        };
        require_axis(cx, source, axis, place)?;
    }
    let found = cx.graph.dtype(source);
    if let Err(expected) = reduction.accepts(found) {
        let place = args.place;
        return Err(cx.report(messages::reduction_not_defined(place, &args.name, found, expected)));
    }
    if reduction == Reduction::CumSum && axes.len() != 1 {
        return Err(cx.report(messages::cumsum_over_several_axes(Place::of(axes_expr))));
    }
    if matches!(
        reduction,
        Reduction::Max | Reduction::Min | Reduction::Prod | Reduction::ArgMax | Reduction::ArgMin
    ) {
        require_fill(cx, source, &axes, &args.name, args.place)?;
    }
    let x = cx.graph.widen(source, site);
    match reduction {
        Reduction::Sum | Reduction::Prod => {
            let x = accumulate(cx, x, site);
            let reducer = if reduction == Reduction::Sum { Reducer::Sum } else { Reducer::Prod };
            Ok(reduce(cx, reducer, x, &axes, site))
        }
        Reduction::Mean => mean(cx, x, &axes, site),
        Reduction::Var => {
            let mean_of_x = mean(cx, x, &axes, &site.step("mean"))?;
            let centred = op(cx, ScalarOp::Sub, &[x, mean_of_x], &site.step("difference"))?;
            let squared = op(cx, ScalarOp::Mul, &[centred, centred], &site.step("square"))?;
            mean(cx, squared, &axes, site)
        }
        Reduction::Max => Ok(extremum(cx, Reducer::Max, "max", x, &axes, site)),
        Reduction::Min => Ok(extremum(cx, Reducer::Min, "min", x, &axes, site)),
        Reduction::ArgMax => Ok(extremum(cx, Reducer::ArgMax, "argmax", x, &axes, site)),
        Reduction::ArgMin => Ok(extremum(cx, Reducer::ArgMin, "argmin", x, &axes, site)),
        Reduction::Any => Ok(reduce(cx, Reducer::Any, x, &axes, site)),
        Reduction::All => Ok(reduce(cx, Reducer::All, x, &axes, site)),
        Reduction::Softmax => softmax(cx, x, &axes, site),
        Reduction::LogSoftmax => log_softmax(cx, x, &axes, site),
        Reduction::LogSumExp => logsumexp(cx, x, &axes, site),
        Reduction::CumSum => {
            let x = accumulate(cx, x, site);
            Ok(cx.graph.cumsum(x, axes[0], site))
        }
    }
}

/// `x` in the dtype in which it is summed.
fn accumulate(cx: &mut Context<'_>, x: NodeId, site: &Site) -> NodeId {
    let dtype = cx.graph.dtype(x).accumulator();
    cx.graph.cast(x, dtype, site)
}

fn reduce(cx: &mut Context<'_>, reducer: Reducer, x: NodeId, axes: &[AxisId], site: &Site) -> NodeId {
    let dtype = match reducer {
        Reducer::ArgMax | Reducer::ArgMin => DType::I64,
        Reducer::Sum | Reducer::Prod | Reducer::Max | Reducer::Min | Reducer::Any | Reducer::All => {
            cx.graph.dtype(x)
        }
        Reducer::Dot | Reducer::User { .. } => cx.graph.dtype(x),
    };
    cx.graph.reduce(reducer, &[x], axes, (0, dtype), site)
}

/// A reduction that has no value over an empty axis: the call checks.
fn extremum(
    cx: &mut Context<'_>,
    reducer: Reducer,
    name: &str,
    x: NodeId,
    axes: &[AxisId],
    site: &Site,
) -> NodeId {
    let when = check_condition(cx);
    for &axis in axes {
        cx.graph.add_check(CheckKind::NotEmpty { op: name.to_owned(), axis }, when.clone(), site);
    }
    reduce(cx, reducer, x, axes, site)
}

/// An operation whose operands always fit.
fn op(cx: &mut Context<'_>, op: ScalarOp, args: &[NodeId], site: &Site) -> Result<NodeId, Reported> {
    map(cx, op, args, site.place, site)
}

fn float(cx: &mut Context<'_>, like: NodeId, value: f64, site: &Site) -> NodeId {
    let dtype = cx.graph.dtype(like);
    let value = dtype::Value::from_f64(dtype, value).unwrap_or(dtype::Value::zero(dtype));
    cx.graph.constant(value, site)
}

fn mean(cx: &mut Context<'_>, x: NodeId, axes: &[AxisId], site: &Site) -> Result<NodeId, Reported> {
    let sum = reduce(cx, Reducer::Sum, x, axes, &site.step("sum"));
    let count = cx.graph.extent(Graph::count(axes), site);
    let dtype = cx.graph.dtype(x);
    let count = cx.graph.cast(count, dtype, site);
    op(cx, ScalarOp::Div, &[sum, count], site)
}

/// `exp(x - m)`, its sum, and what both need: `m` is the maximum, `shift` the same but 0 where no element is finite or
/// NaN, so that no `inf - inf` arises.
struct Exponentials {
    all_infinite: NodeId,
    shifted: NodeId,
    exponentials: NodeId,
    sum: NodeId,
}

fn exponentials(
    cx: &mut Context<'_>,
    x: NodeId,
    axes: &[AxisId],
    site: &Site,
) -> Result<Exponentials, Reported> {
    let maximum = reduce(cx, Reducer::Max, x, axes, &site.step("max"));
    let negative_infinity = float(cx, x, f64::NEG_INFINITY, site);
    let zero = float(cx, x, 0.0, site);
    let all_infinite = op(cx, ScalarOp::Eq, &[maximum, negative_infinity], &site.step("test"))?;
    let shift = op(cx, ScalarOp::Select, &[all_infinite, zero, maximum], &site.step("shift"))?;
    let shifted = op(cx, ScalarOp::Sub, &[x, shift], &site.step("difference"))?;
    let exponentials = op(cx, ScalarOp::Exp, &[shifted], &site.step("exp"))?;
    let sum = reduce(cx, Reducer::Sum, exponentials, axes, &site.step("sum"));
    Ok(Exponentials { all_infinite, shifted, exponentials, sum })
}

/// Rows whose maximum is −∞ give zeros, rows with a NaN give NaN. One division for a row: its elements are multiplied by
/// the reciprocal of the sum, which is at least 1.
fn softmax(cx: &mut Context<'_>, x: NodeId, axes: &[AxisId], site: &Site) -> Result<NodeId, Reported> {
    let e = exponentials(cx, x, axes, site)?;
    let (zero, one) = (float(cx, x, 0.0, site), float(cx, x, 1.0, site));
    let nothing = op(cx, ScalarOp::Eq, &[e.sum, zero], &site.step("test"))?;
    let divisor = op(cx, ScalarOp::Select, &[nothing, one, e.sum], &site.step("divisor"))?;
    let scale = op(cx, ScalarOp::Div, &[one, divisor], &site.step("reciprocal"))?;
    op(cx, ScalarOp::Mul, &[e.exponentials, scale], site)
}

/// Rows whose maximum is −∞ give −∞.
fn log_softmax(cx: &mut Context<'_>, x: NodeId, axes: &[AxisId], site: &Site) -> Result<NodeId, Reported> {
    let e = exponentials(cx, x, axes, site)?;
    let zero = float(cx, x, 0.0, site);
    let log = op(cx, ScalarOp::Ln, &[e.sum], &site.step("ln"))?;
    let log = op(cx, ScalarOp::Select, &[e.all_infinite, zero, log], &site.step("ln"))?;
    op(cx, ScalarOp::Sub, &[e.shifted, log], site)
}

/// An infinite maximum is the result, as is a NaN.
fn logsumexp(cx: &mut Context<'_>, x: NodeId, axes: &[AxisId], site: &Site) -> Result<NodeId, Reported> {
    let maximum = reduce(cx, Reducer::Max, x, axes, &site.step("max"));
    let zero = float(cx, x, 0.0, site);
    let infinite = op(cx, ScalarOp::IsInfinite, &[maximum], &site.step("test"))?;
    let shift = op(cx, ScalarOp::Select, &[infinite, zero, maximum], &site.step("shift"))?;
    let shifted = op(cx, ScalarOp::Sub, &[x, shift], &site.step("difference"))?;
    let exponentials = op(cx, ScalarOp::Exp, &[shifted], &site.step("exp"))?;
    let sum = reduce(cx, Reducer::Sum, exponentials, axes, &site.step("sum"));
    let log = op(cx, ScalarOp::Ln, &[sum], &site.step("ln"))?;
    op(cx, ScalarOp::Add, &[shift, log], site)
}

/// `(x, index(N)).reduce(N, best)`.
pub(super) fn lower_user_reduction(
    cx: &mut Context<'_>,
    receiver: &Value,
    receiver_place: Place,
    args: &Arguments<'_>,
    site: &Site,
) -> Result<Value, Reported> {
    args.only_named(cx, &[])?;
    let [axes_expr, combiner] = args.exactly(cx, "(x, y).reduce(N, combiner)")?;
    let axes = lower_axes(cx, axes_expr)?;
    let name = match super::call::ungroup(combiner) {
        syn::Expr::Path(path) => super::call::path_text(&path.path),
        _ => return Err(cx.report(messages::combiner_expected(Place::of(combiner)))),
    };
    let key = cx.key(&name);
    if cx.scalars.poisoned.contains(&key) || cx.library.broken.borrow().contains_key(&key) {
        // Its declaration has errors, which were reported.
        return Err(Reported::before());
    }
    let scalars = cx.scalars;
    let Some(reducer) = scalars.reducers.get(&key) else {
        let place = Place::of(combiner);
        let is_op = scalars.by_name.contains_key(&key);
        return Err(cx.report(if is_op {
            messages::op_in_place_of_combiner(place, &name)
        } else {
            messages::unknown_combiner(place, &name)
        }));
    };
    let expected = reducer.element.flatten();
    let values = flatten(receiver);
    if values.len() != expected.len() {
        let element = reducer.element.to_string();
        return Err(cx.report(messages::combiner_arity(receiver_place, &name, &element, values.len())));
    }
    let mut sources = Vec::new();
    for (value, &dtype) in values.iter().zip(&expected) {
        sources.push(expect_dtype(cx, value, dtype, receiver_place, site)?);
    }
    check_alignment(cx, &sources, receiver_place)?;
    let all = cx.graph.join_axes(&sources);
    for &axis in &axes {
        if !all.contains(&axis) {
            let (axis, found) = (cx.graph.axis_name(axis).to_owned(), cx.graph.axes_text(&all));
            return Err(cx.report(messages::axis_missing(Place::of(axes_expr), &axis, &found)));
        }
    }
    let combine = cx.graph.use_function(&scalars.functions, reducer.combine);
    let user = Reducer::User { combine, identity: reducer.identity.clone(), ordered: reducer.ordered };
    let mut components = Vec::new();
    for (k, &dtype) in expected.iter().enumerate() {
        let node = cx.graph.reduce(user.clone(), &sources, &axes, (k as u32, dtype), site);
        components.push(node);
    }
    let mut components = components.into_iter();
    Ok(nest(&reducer.element, &mut components))
}

/// The values of nested tuples in order.
pub(super) fn flatten(value: &Value) -> Vec<Value> {
    match value {
        Value::Tuple(values) => values.iter().flat_map(flatten).collect(),
        Value::Node(_) | Value::Untyped(_) => vec![value.clone()],
        Value::Unit => Vec::new(),
    }
}

/// Flattened results in the shape of their type.
pub(super) fn nest(ty: &ScalarType, nodes: &mut impl Iterator<Item = NodeId>) -> Value {
    match ty {
        ScalarType::Scalar(_) => nodes.next().map_or(Value::Unit, Value::Node),
        ScalarType::Tuple(elements) if elements.is_empty() => Value::Unit,
        ScalarType::Tuple(elements) => Value::Tuple(elements.iter().map(|e| nest(e, nodes)).collect()),
    }
}

/// The receiver of a method as a tensor.
pub(super) fn expect_receiver(
    cx: &mut Context<'_>,
    value: &Value,
    method: &str,
    place: Place,
    site: &Site,
) -> Result<NodeId, Reported> {
    match value {
        Value::Tuple(_) => Err(cx.report(messages::method_of_tuple(place, method))),
        other => expect_node(cx, other, site),
    }
}
