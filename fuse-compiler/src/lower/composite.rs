//! Calls of composites: axes bind, the body is inlined (rule 4).

use super::arguments::Arguments;
use super::axis::{lower_axis, lower_dimension, report_unknown_axis, solve_extent, unsourced_axes};
use super::constant::{adopt, default_dtype, expect_dtype, expect_node};
use super::context::{Composite, CompositeOrigin, Context, Inlined, Scope, Variable};
use super::expr::lower_expr;
use super::site::{Site, site_of};
use super::statement::{check_axes, lower_block, resolve_element, resolve_type};
use super::value::Value;
use crate::diagnostic::{Place, Reported, messages};
use crate::prelude::{Precision, parse_composite};
use crate::syntax::{ElementType, GenericKind, ParamKind, Results, TensorFn};
use fuse_ir::dtype::DType;
use fuse_ir::graph::{AxisSource, CheckKind};
use fuse_ir::id::{AxisId, NodeId};
use fuse_ir::index_map::IndexExpr;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The composite of that name: the block's own or an import, else one of the prelude unless there is an op of that name.
pub(super) fn find_composite(cx: &mut Context<'_>, name: &str) -> Result<Option<Composite>, Reported> {
    let key = cx.key(name);
    if let Some(reported) = cx.library.broken.borrow().get(&key) {
        return Err(*reported);
    }
    if let Some(own) = cx.library.composites.get(&key) {
        return Ok(Some(own.clone()));
    }
    if cx.scalars.by_name.contains_key(&key) || cx.scalars.poisoned.contains(&key) {
        return Ok(None);
    }
    let function = find_in_prelude(cx, name, Precision::F32);
    // Ops of the prelude that it calls are found where those are that its caller calls.
    let scope = cx.scope.items.clone();
    let origin = CompositeOrigin::Prelude;
    Ok(function.map(|function| Composite { function, key: name.to_owned(), scope, origin }))
}

fn find_in_prelude(cx: &Context<'_>, name: &str, precision: Precision) -> Option<Rc<TensorFn>> {
    let mut prelude = cx.library.prelude.borrow_mut();
    let entry = prelude.entry((name.to_owned(), precision));
    entry.or_insert_with(|| parse_composite(name, precision).map(Rc::new)).clone()
}

/// An argument before its parameter's dtype and axes are known.
enum Argument {
    Tensor(Value),
    Axis(AxisId),
}

/// Inlines a call.
pub(super) fn inline_composite(
    cx: &mut Context<'_>,
    composite: &Composite,
    args: &Arguments<'_>,
    turbofish: Option<&syn::AngleBracketedGenericArguments>,
    site: &Site,
) -> Result<Value, Reported> {
    let Composite { function, key, scope: items, origin } = composite;
    if cx.calls.contains(key) {
        return Err(cx.report(messages::recursive_call(args.place, &function.name.to_string())));
    }
    let exprs = match_arguments(cx, function, args)?;
    let mut values = Vec::new();
    let mut failed = None;
    for (param, expr) in function.params.iter().zip(&exprs) {
        let value = match param.kind {
            ParamKind::Axis(_) => lower_axis(cx, expr).map(Argument::Axis),
            ParamKind::Tensor { .. } | ParamKind::Scalar(_) => lower_expr(cx, expr).map(Argument::Tensor),
        };
        match value {
            Ok(value) => values.push(value),
            Err(reported) => failed = Some(reported),
        }
    }
    if let Some(reported) = failed {
        return Err(reported);
    }
    let is_wide = |value: &Argument| matches!(value, Argument::Tensor(Value::Node(n)) if cx.graph.dtype(*n) == DType::F64);
    let wide = *origin == CompositeOrigin::Prelude && values.iter().any(is_wide);
    let wide = wide.then(|| find_in_prelude(cx, key, Precision::F64)).flatten();
    let function = wide.as_ref().unwrap_or(function);
    let mut bound = Bound::default();
    if let Some(turbofish) = turbofish {
        bind_turbofish(cx, function, turbofish, &mut bound)?;
    }
    bind_dtypes(cx, function, &values, &exprs, &mut bound)?;
    bind_axes(cx, function, &values, args.place, &mut bound)?;
    let scope = make_scope(cx, function, items, &bound, site)?;
    let saved_call = cx.inlined.clone();
    let saved = enter(cx, scope, key);
    let result = bind_parameters(cx, function, &values, &exprs, site).and_then(|()| {
        enter_outside(cx, *origin, args);
        lower_body(cx, function)
    });
    cx.scope = saved;
    cx.calls.pop();
    cx.inlined = saved_call;
    result
}

/// Remembers the call of a composite from outside the block.
fn enter_outside(cx: &mut Context<'_>, origin: CompositeOrigin, args: &Arguments<'_>) {
    match (origin, &mut cx.inlined) {
        (CompositeOrigin::Import | CompositeOrigin::Prelude, call @ None) => {
            let imported = origin == CompositeOrigin::Import;
            *call = Some(Inlined { name: args.name.clone(), place: args.place, imported, inner: None });
        }
        (CompositeOrigin::Prelude, Some(call)) if call.imported && call.inner.is_none() => {
            call.inner = Some(args.place);
        }
        (CompositeOrigin::Block | CompositeOrigin::Import | CompositeOrigin::Prelude, _) => {}
    }
}

fn enter(cx: &mut Context<'_>, scope: Scope, name: &str) -> Scope {
    cx.calls.push(name.to_owned());
    std::mem::replace(&mut cx.scope, scope)
}

/// Lowers the body in the present scope and checks the results against the declared types.
pub(super) fn lower_body(cx: &mut Context<'_>, function: &TensorFn) -> Result<Value, Reported> {
    let value = lower_block(cx, &function.body)?;
    let place = match function.body.stmts.last() {
        Some(syn::Stmt::Expr(expr, None)) => Place::of(expr),
        _ => Place::from(function.name.span()),
    };
    match (&function.results, value) {
        (Results::None, Value::Unit) => Ok(Value::Unit),
        (Results::None, _) => Err(cx.report(messages::result_not_declared(place))),
        (Results::One(_), Value::Tuple(values)) => {
            Err(cx.report(messages::result_count(place, 1, values.len())))
        }
        (Results::One(_), Value::Unit) => Err(cx.report(messages::result_count(place, 1, 0))),
        (Results::One(ty), value) => {
            let expr = match function.body.stmts.last() {
                Some(syn::Stmt::Expr(expr, None)) => Some(expr),
                _ => None,
            };
            check_result(cx, ty, &value, place, expr).map(Value::Node)
        }
        (Results::Tuple(types, _), Value::Tuple(values)) if types.len() == values.len() => {
            let parts: Vec<Option<&syn::Expr>> = match function.body.stmts.last() {
                Some(syn::Stmt::Expr(syn::Expr::Tuple(tuple), None)) if tuple.elems.len() == types.len() => {
                    tuple.elems.iter().map(Some).collect()
                }
                _ => vec![None; types.len()],
            };
            check_result_order(cx, types, &values, place)?;
            let mut nodes = Vec::new();
            let mut failed = None;
            for ((ty, value), part) in types.iter().zip(&values).zip(parts) {
                let place = part.map_or(place, Place::of);
                match check_result(cx, ty, value, place, part) {
                    Ok(node) => nodes.push(Value::Node(node)),
                    Err(reported) => failed = Some(reported),
                }
            }
            failed.map_or(Ok(Value::Tuple(nodes)), Err)
        }
        (Results::Tuple(types, _), value) => {
            let found = match &value {
                Value::Tuple(values) => values.len(),
                Value::Unit => 0,
                Value::Node(_) | Value::Untyped(_) => 1,
            };
            Err(cx.report(messages::result_count(place, types.len(), found)))
        }
    }
}

/// Reports results whose axes are those of other results: one error instead of one for each.
fn check_result_order(
    cx: &mut Context<'_>,
    types: &[crate::syntax::TensorType],
    values: &[Value],
    place: Place,
) -> Result<(), Reported> {
    let sorted = |axes: &[AxisId]| axes.iter().copied().collect::<BTreeSet<_>>();
    let mut declared = Vec::new();
    let mut found = Vec::new();
    for (ty, value) in types.iter().zip(values) {
        let Value::Node(node) = value else { return Ok(()) };
        declared.push(sorted(&resolve_type(cx, ty)?.1));
        found.push(sorted(cx.graph.axes(*node)));
    }
    let text = |all: &[BTreeSet<AxisId>]| {
        let axes = |axes: &BTreeSet<AxisId>| cx.graph.axes_text(&axes.iter().copied().collect::<Vec<_>>());
        all.iter().map(axes).collect::<Vec<_>>().join(", ")
    };
    let (declared_text, found_text) = (text(&declared), text(&found));
    let same_order = declared == found;
    declared.sort();
    found.sort();
    if same_order || declared != found {
        return Ok(());
    }
    Err(cx.report(messages::results_in_other_order(place, &declared_text, &found_text)))
}

fn check_result(
    cx: &mut Context<'_>,
    ty: &crate::syntax::TensorType,
    value: &Value,
    place: Place,
    expr: Option<&syn::Expr>,
) -> Result<NodeId, Reported> {
    let (dtype, axes) = resolve_type(cx, ty)?;
    let mut site = match expr {
        Some(expr) => site_of(cx, expr),
        None => site_of(cx, &cx.scope.function.as_ref().map(|f| f.name.clone())),
    };
    site.place = place;
    let node = match value {
        Value::Untyped(untyped) => adopt(cx, untyped, dtype, &site)?,
        other => expect_node(cx, other, &site)?,
    };
    check_axes(cx, node, &axes, place)?;
    let found = cx.graph.dtype(node);
    if found != dtype && !(found.is_narrow_float() && dtype == DType::F32) {
        return Err(cx.report(messages::result_dtype(place, dtype, found)));
    }
    Ok(cx.graph.cast(node, dtype, &site))
}

/// The expression for each parameter.
fn match_arguments<'a>(
    cx: &mut Context<'_>,
    function: &TensorFn,
    args: &Arguments<'a>,
) -> Result<Vec<&'a syn::Expr>, Reported> {
    let names: Vec<String> = function.params.iter().map(|p| p.name.to_string()).collect();
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    args.only_named(cx, &known)?;
    let mut exprs = Vec::new();
    for (k, name) in names.iter().enumerate() {
        match (args.positional.get(k).copied(), args.named(name)) {
            (Some(expr), None) | (None, Some(expr)) => exprs.push(expr),
            (Some(_), Some(_)) => {
                return Err(cx.report(messages::argument_given_twice(&function.params[k].name)));
            }
            (None, None) => break,
        }
    }
    if exprs.len() != names.len() || args.positional.len() > names.len() {
        let usage = format!("{}({})", args.name, names.join(", "));
        let found = args.positional.len() + args.named.len();
        return Err(cx.report(messages::argument_count(args.place, &args.name, names.len(), found, &usage)));
    }
    Ok(exprs)
}

/// What the generics of the callee stand for, as far as it is known.
#[derive(Default)]
struct Bound {
    axes: BTreeMap<String, AxisId>,
    dtypes: BTreeMap<String, DType>,
    extras: BTreeSet<AxisId>,
}

fn bind_turbofish(
    cx: &mut Context<'_>,
    function: &TensorFn,
    turbofish: &syn::AngleBracketedGenericArguments,
    bound: &mut Bound,
) -> Result<(), Reported> {
    let is_dtype = |kind: &GenericKind| matches!(kind, GenericKind::DType(_));
    let mut dtypes = function.generics.iter().filter(|g| is_dtype(&g.kind));
    let mut axes = function.generics.iter().filter(|g| !is_dtype(&g.kind));
    for argument in &turbofish.args {
        let name = match argument {
            syn::GenericArgument::Type(syn::Type::Path(path)) => path.path.get_ident(),
            syn::GenericArgument::Type(syn::Type::Infer(_)) => {
                axes.next();
                continue;
            }
            _ => None,
        };
        let Some(name) = name else {
            return Err(cx.report(messages::axis_expected(Place::of(argument))));
        };
        if let Some(axis) = cx.find_axis(name) {
            match axes.next() {
                Some(generic) => bound.axes.insert(generic.name.to_string(), axis),
                None => return Err(cx.report(messages::too_many_generics(name, &function.name))),
            };
        } else if let Some(dtype) = cx.find_dtype(&name.to_string()) {
            match dtypes.next() {
                Some(generic) => bound.dtypes.insert(generic.name.to_string(), dtype),
                None => return Err(cx.report(messages::too_many_generics(name, &function.name))),
            };
        } else {
            return Err(report_unknown_axis(cx, name));
        }
    }
    Ok(())
}

/// Generic dtypes are those of the first argument that shows them; a literal shows f32.
fn bind_dtypes(
    cx: &mut Context<'_>,
    function: &TensorFn,
    values: &[Argument],
    exprs: &[&syn::Expr],
    bound: &mut Bound,
) -> Result<(), Reported> {
    for literals in [false, true] {
        for (param, value) in function.params.iter().zip(values) {
            let element = match &param.kind {
                ParamKind::Tensor { ty, .. } => &ty.element,
                ParamKind::Scalar(element) => element,
                ParamKind::Axis(_) => continue,
            };
            let (ElementType::Generic(generic), Argument::Tensor(value)) = (element, value) else { continue };
            if bound.dtypes.contains_key(&generic.to_string()) {
                continue;
            }
            let dtype = match value {
                Value::Node(node) => cx.graph.dtype(*node),
                Value::Untyped(untyped) if literals => default_dtype(untyped),
                Value::Untyped(_) | Value::Tuple(_) | Value::Unit => continue,
            };
            bound.dtypes.insert(generic.to_string(), dtype);
        }
    }
    for (generic, dtype_bound) in function.dtype_generics() {
        match bound.dtypes.get(&generic.to_string()) {
            Some(&dtype) if dtype_bound.admits(dtype) => {}
            Some(&dtype) => {
                let place = exprs.first().map_or(Place::from(generic.span()), |e| Place::of(*e));
                return Err(cx.report(messages::dtype_outside_bound_of_call(
                    place,
                    dtype,
                    dtype_bound.name(),
                    &function.name,
                )));
            }
            None => {
                bound.dtypes.insert(generic.to_string(), dtype_bound.default_dtype());
            }
        }
    }
    Ok(())
}

/// Rule 4: an argument that leaves exactly one axis unbound on both sides binds it, repeatedly.
fn bind_axes(
    cx: &mut Context<'_>,
    function: &TensorFn,
    values: &[Argument],
    place: Place,
    bound: &mut Bound,
) -> Result<(), Reported> {
    let mut tensors: Vec<(Vec<String>, Vec<AxisId>)> = Vec::new();
    for (param, value) in function.params.iter().zip(values) {
        match (&param.kind, value) {
            (ParamKind::Axis(name), Argument::Axis(axis)) => {
                bound.axes.insert(name.to_string(), *axis);
            }
            (ParamKind::Tensor { ty, .. }, Argument::Tensor(value)) => {
                let axes = match value {
                    Value::Node(node) => cx.graph.axes(*node).to_vec(),
                    Value::Untyped(_) | Value::Tuple(_) | Value::Unit => Vec::new(),
                };
                tensors.push((ty.axes.iter().map(ToString::to_string).collect(), axes));
            }
            (ParamKind::Axis(_) | ParamKind::Tensor { .. } | ParamKind::Scalar(_), _) => {}
        }
    }
    loop {
        let mut progress = false;
        for (declared, found) in &tensors {
            let open: Vec<&String> = declared.iter().filter(|n| !bound.axes.contains_key(*n)).collect();
            let taken: Vec<AxisId> = declared.iter().filter_map(|n| bound.axes.get(n).copied()).collect();
            let free: Vec<AxisId> = found.iter().copied().filter(|a| !taken.contains(a)).collect();
            if let ([name], [axis]) = (open.as_slice(), free.as_slice()) {
                bound.axes.insert((*name).clone(), *axis);
                progress = true;
            }
        }
        if !progress {
            break;
        }
    }
    for (declared, found) in &tensors {
        let open: Vec<&str> =
            declared.iter().filter(|n| !bound.axes.contains_key(*n)).map(String::as_str).collect();
        if !open.is_empty() {
            let found = cx.graph.axes_text(found);
            return Err(cx.report(messages::axes_not_bound(place, &function.name, &open.join(", "), &found)));
        }
        let taken: Vec<AxisId> = declared.iter().filter_map(|n| bound.axes.get(n).copied()).collect();
        bound.extras.extend(found.iter().filter(|a| !taken.contains(a)));
    }
    Ok(())
}

/// The scope of the inlined body: bound axes, and new ones for those that the body makes or the generics derive.
fn make_scope(
    cx: &mut Context<'_>,
    function: &Rc<TensorFn>,
    items: &Rc<str>,
    bound: &Bound,
    site: &Site,
) -> Result<Scope, Reported> {
    let mut scope = Scope {
        function: Some(function.clone()),
        items: items.clone(),
        axes: bound.axes.clone(),
        dtypes: bound.dtypes.clone(),
        variables: Vec::new(),
        extras: bound.extras.clone(),
        outer: None,
    };
    for generic in &function.generics {
        let name = generic.name.to_string();
        if !matches!(generic.kind, GenericKind::DType(_)) && !scope.axes.contains_key(&name) {
            scope.axes.insert(name.clone(), cx.graph.add_axis(&name, None));
        }
    }
    let outside = std::mem::replace(&mut cx.scope, scope);
    let result = derive_axes(cx, function, bound, site);
    let scope = std::mem::replace(&mut cx.scope, outside);
    result.map(|()| scope)
}

/// `const F: usize = { 2 * N }`: gives F its extent, or checks it, or solves for the axis that has none.
fn derive_axes(
    cx: &mut Context<'_>,
    function: &TensorFn,
    bound: &Bound,
    site: &Site,
) -> Result<(), Reported> {
    for generic in &function.generics {
        let GenericKind::Derived(dimension) = &generic.kind else { continue };
        let Some(axis) = cx.find_axis(&generic.name) else { continue };
        let extent = lower_dimension(cx, dimension)?;
        if !bound.axes.contains_key(&generic.name.to_string()) {
            let source = match extent {
                IndexExpr::Const(n) => AxisSource::Static(n as u64),
                extent => AxisSource::Derived(extent),
            };
            cx.graph.set_source(axis, source);
            continue;
        }
        if let [unknown] = unsourced_axes(cx, &extent)[..]
            && let Some(solution) = solve_extent(&extent, unknown, IndexExpr::Extent(axis))
        {
            cx.graph.set_source(unknown, AxisSource::Derived(solution));
        }
        let op = function.name.to_string();
        cx.graph.add_check(CheckKind::Equal { op, axis, expected: extent }, None, site);
    }
    Ok(())
}

/// Gives the parameters their values, in the dtypes that they declare.
fn bind_parameters(
    cx: &mut Context<'_>,
    function: &TensorFn,
    values: &[Argument],
    exprs: &[&syn::Expr],
    site: &Site,
) -> Result<(), Reported> {
    let mut failed = None;
    for ((param, value), expr) in function.params.iter().zip(values).zip(exprs) {
        let place = Place::of(*expr);
        let variable = match (&param.kind, value) {
            (ParamKind::Axis(name), _) => {
                let Some(axis) = cx.find_axis(name) else { continue };
                Ok(cx.graph.extent(IndexExpr::Extent(axis), site))
            }
            (ParamKind::Tensor { ty, .. }, Argument::Tensor(value)) => {
                bind_tensor(cx, ty, value, param.name.to_string(), place, site)
            }
            (ParamKind::Scalar(element), Argument::Tensor(value)) => {
                let dtype = resolve_element(cx, element)?;
                expect_dtype(cx, value, dtype, place, site).and_then(|node| {
                    if cx.graph.axes(node).is_empty() {
                        return Ok(node);
                    }
                    let axes = cx.graph.axes_text(cx.graph.axes(node));
                    Err(cx.report(messages::scalar_expected(place, &axes)))
                })
            }
            (ParamKind::Tensor { .. } | ParamKind::Scalar(_), Argument::Axis(_)) => continue,
        };
        match variable {
            Ok(node) => {
                cx.scope.variables.push((param.name.to_string(), Variable::Value(Value::Node(node))));
            }
            Err(reported) => failed = Some(reported),
        }
    }
    failed.map_or(Ok(()), Err)
}

fn bind_tensor(
    cx: &mut Context<'_>,
    ty: &crate::syntax::TensorType,
    value: &Value,
    param: String,
    place: Place,
    site: &Site,
) -> Result<NodeId, Reported> {
    let (dtype, axes) = resolve_type(cx, ty)?;
    let node = expect_dtype(cx, value, dtype, place, site)?;
    let found = cx.graph.axes(node).to_vec();
    match axes.iter().find(|a| !found.contains(a)) {
        None => Ok(node),
        Some(&axis) => {
            let (name, found) = (cx.graph.axis_name(axis).to_owned(), cx.graph.axes_text(&found));
            Err(cx.report(messages::argument_without_axis(place, &param, &name, &found)))
        }
    }
}
