//! The interface of a kernel: axes with their sources, parameters, instances of generic dtypes (rules 2, 20).

use super::axis::{lower_dimension, report_unknown_axis, solve_extent, unsourced_axes};
use super::context::{Context, Scope, Variable};
use super::mutable::State;
use super::site::{Site, site_of};
use super::statement::{resolve_element, resolve_type, site_with_name};
use super::value::Value;
use crate::diagnostic::{Reported, messages};
use crate::syntax::{GenericKind, KernelArgs, ParamKind, TensorFn};
use fuse_ir::dtype::DType;
use fuse_ir::graph::{self, AxisSource};
use fuse_ir::id::{AxisId, ParamId};
use fuse_ir::index_map::IndexExpr;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The dtypes of each instance of a kernel: all combinations of those that its attribute lists. A generic dtype that it
/// does not list has one: f32, of `Int` i32.
pub(super) fn list_instances(function: &TensorFn) -> Vec<Vec<(String, DType)>> {
    let listed = |args: &KernelArgs, name: &str| {
        let found = args.dtypes.iter().find(|(n, _)| n == name);
        found.map(|(_, dtypes)| dtypes.iter().map(|(d, _)| *d).collect::<Vec<_>>())
    };
    let mut instances = vec![Vec::new()];
    for (name, bound) in function.dtype_generics() {
        let dtypes = function.kernel.as_ref().and_then(|args| listed(args, &name.to_string()));
        let dtypes = dtypes.filter(|d| !d.is_empty()).unwrap_or_else(|| vec![bound.default_dtype()]);
        instances = instances
            .into_iter()
            .flat_map(|instance: Vec<(String, DType)>| {
                let extend = move |&dtype: &DType| {
                    let mut longer = instance.clone();
                    longer.push((name.to_string(), dtype));
                    longer
                };
                dtypes.iter().map(extend).collect::<Vec<_>>()
            })
            .collect();
    }
    instances
}

/// `softmax`, or `softmax::<f16>` for an instance.
pub(super) fn instance_name(function: &TensorFn, instance: &[(String, DType)]) -> String {
    if instance.is_empty() {
        return function.name.to_string();
    }
    let dtypes: Vec<&str> = instance.iter().map(|(_, d)| d.name()).collect();
    format!("{}::<{}>", function.name, dtypes.join(", "))
}

/// Makes axes and parameters and the scope in which the body is lowered.
pub(super) fn lower_signature(
    cx: &mut Context<'_>,
    function: &Rc<TensorFn>,
    instance: &[(String, DType)],
) -> Result<(), Reported> {
    let dtypes: BTreeMap<String, DType> = instance.iter().cloned().collect();
    cx.scope = Scope { function: Some(function.clone()), dtypes, ..Scope::default() };
    let assumed = |name: &str| {
        let args = function.kernel.as_ref()?;
        args.assume.iter().find(|(n, _)| n == name).map(|(_, extent)| *extent)
    };
    for generic in &function.generics {
        let name = generic.name.to_string();
        if !matches!(generic.kind, GenericKind::DType(_)) {
            let axis = cx.graph.add_axis(&name, assumed(&name));
            cx.scope.axes.insert(name, axis);
        }
    }
    for (k, param) in function.params.iter().enumerate() {
        let id = ParamId::from_index(k);
        let name = param.name.to_string();
        let site = site_with_name(site_of(cx, &param.name), &name);
        let (kind, variable) = lower_param(cx, id, &param.kind, &site)?;
        cx.graph.kernel.params.push(graph::Param { name: name.clone(), kind });
        cx.scope.variables.push((name, variable));
    }
    derive_axes(cx, function)
}

fn lower_param(
    cx: &mut Context<'_>,
    id: ParamId,
    kind: &ParamKind,
    site: &Site,
) -> Result<(graph::ParamKind, Variable), Reported> {
    Ok(match kind {
        ParamKind::Tensor { ty, mutable } => {
            let (dtype, axes) = resolve_type(cx, ty)?;
            for &axis in &axes {
                // A tensor's shape shows the extent; an `Axis` parameter still counts as the source.
                if !cx.graph.sourced[axis.index()] {
                    cx.graph.set_source(axis, AxisSource::Shape);
                }
            }
            let node = cx.graph.tensor(id, dtype, &axes, site);
            let variable = if *mutable {
                cx.states.insert(id, State::new(node));
                Variable::Mutable(id)
            } else {
                Variable::Value(Value::Node(node))
            };
            (graph::ParamKind::Tensor { dtype, axes, mutable: *mutable }, variable)
        }
        ParamKind::Scalar(element) => {
            let dtype = resolve_element(cx, element)?;
            let node = cx.graph.scalar(id, dtype, site);
            (graph::ParamKind::Scalar { dtype }, Variable::Value(Value::Node(node)))
        }
        ParamKind::Axis(name) => {
            let Some(axis) = cx.find_axis(name) else {
                return Err(report_unknown_axis(cx, name));
            };
            if matches!(cx.graph.kernel.axis(axis).source, AxisSource::Host(_)) {
                return Err(cx.report(messages::axis_with_two_sources(name)));
            }
            cx.graph.set_source(axis, AxisSource::Host(id));
            let extent = cx.graph.extent(IndexExpr::Extent(axis), site);
            (graph::ParamKind::Axis { axis }, Variable::Value(Value::Node(extent)))
        }
    })
}

/// Gives the const generics their sources, and marks the axes for which a call can solve them.
fn derive_axes(cx: &mut Context<'_>, function: &TensorFn) -> Result<(), Reported> {
    let mut equations: Vec<(AxisId, IndexExpr, bool)> = Vec::new();
    for generic in &function.generics {
        let GenericKind::Derived(dimension) = &generic.kind else { continue };
        let Some(axis) = cx.find_axis(&generic.name) else { continue };
        if matches!(cx.graph.kernel.axis(axis).source, AxisSource::Host(_)) {
            return Err(cx.report(messages::axis_with_two_sources(&generic.name)));
        }
        let shown = cx.graph.sourced[axis.index()];
        match lower_dimension(cx, dimension)? {
            IndexExpr::Const(n) if n >= 0 => cx.graph.set_source(axis, AxisSource::Static(n as u64)),
            IndexExpr::Const(_) => return Err(cx.report(messages::extent_not_a_size(&generic.name))),
            extent => {
                cx.graph.kernel.axes[axis.index()].source = AxisSource::Derived(extent.clone());
                equations.push((axis, extent, shown));
            }
        }
    }
    // An equation has a direction once all axes of its right side, or its left side and all but one of them, are known.
    loop {
        let mut progress = false;
        for (axis, extent, shown) in &mut equations {
            let unknown: Vec<AxisId> = unsourced_axes(cx, extent).into_iter().filter(|a| a != axis).collect();
            let circular = unsourced_axes(cx, extent).contains(axis);
            match unknown.as_slice() {
                [] if !circular && !cx.graph.sourced[axis.index()] => {
                    cx.graph.sourced[axis.index()] = true;
                    progress = true;
                }
                [one] if *shown && solve_extent(extent, *one, IndexExpr::Extent(*axis)).is_some() => {
                    cx.graph.sourced[one.index()] = true;
                    progress = true;
                }
                _ => {}
            }
        }
        if !progress {
            break;
        }
    }
    Ok(())
}

/// Rule 2: reports axes that nothing gives an extent to.
pub(super) fn report_unsourced_axes(cx: &mut Context<'_>, function: &TensorFn) -> Result<(), Reported> {
    let mut failed = Ok(());
    for generic in &function.generics {
        let Some(axis) = cx.find_axis(&generic.name) else { continue };
        if !cx.graph.sourced[axis.index()] {
            let derived = matches!(generic.kind, GenericKind::Derived(_));
            failed = Err(cx.report(messages::axis_without_source(&generic.name, derived)));
        }
    }
    failed
}
