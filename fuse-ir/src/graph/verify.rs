//! The typing rules of the graph, checked between passes.

use super::{
    AxisSource, CheckKind, Condition, Kernel, MapFn, Node, Op, OutputTarget, ParamKind, Reducer, Type,
};
use crate::dtype::DType;
use crate::id::{AxisId, FnId, NodeId, ParamId};
use crate::index_map::{IndexExpr, IndexMap};
use crate::scalar::verify_function;
use std::collections::BTreeSet;

/// Checks every rule that [`Kernel`] and [`Op`] document: ids in range, operands before users, axes as sorted sets,
/// dtypes, index maps, reductions, outputs and the scalar functions.
///
/// It does not check what only a call decides: extents, and whether an index map stays within its source.
///
/// # Errors
/// The first rule that is broken, naming the node, function, axis or output.
pub fn verify_graph(kernel: &Kernel) -> Result<(), String> {
    verify_interface(kernel)?;
    for (i, function) in kernel.functions.iter().enumerate() {
        verify_function(&kernel.functions[..i], function)
            .map_err(|e| format!("{} `{}`: {e}", FnId::from_index(i), function.name))?;
    }
    if kernel.origins.len() != kernel.nodes.len() {
        return Err(format!("{} nodes have {} origins", kernel.nodes.len(), kernel.origins.len()));
    }
    for id in kernel.node_ids() {
        verify_node(kernel, id).map_err(|e| format!("{id}: {e}"))?;
    }
    verify_outputs(kernel)?;
    for check in &kernel.checks {
        verify_check(kernel, &check.kind)
            .and_then(|()| check.when.as_ref().map_or(Ok(()), |when| verify_condition(kernel, when)))
            .map_err(|e| format!("check `{}`: {e}", check.origin.label))?;
    }
    Ok(())
}

fn verify_interface(kernel: &Kernel) -> Result<(), String> {
    for (i, axis) in kernel.axes.iter().enumerate() {
        let id = AxisId::from_index(i);
        let verified = match &axis.source {
            AxisSource::Shape => {
                let in_shape = kernel.params.iter().any(|p| match &p.kind {
                    ParamKind::Tensor { axes, .. } => axes.contains(&id),
                    ParamKind::Scalar { .. } | ParamKind::Axis { .. } => false,
                });
                // The parts of a `split` may have no source but its check, which is solved for them.
                let checked = kernel.checks.iter().any(|c| match &c.kind {
                    CheckKind::Equal { axis, expected, .. } => *axis == id || uses_extent(expected, id),
                    CheckKind::NotEmpty { .. } | CheckKind::InBounds { .. } | CheckKind::AtLeast { .. } => {
                        false
                    }
                });
                // So may an axis of an equation.
                let in_equation = kernel.axes.iter().any(|other| match &other.source {
                    AxisSource::Derived(e) => uses_extent(e, id),
                    AxisSource::Shape | AxisSource::Host(_) | AxisSource::Static(_) => false,
                });
                if in_shape || checked || in_equation {
                    Ok(())
                } else {
                    Err("no parameter has it".to_owned())
                }
            }
            AxisSource::Host(p) => match kernel.params.get(p.index()).map(|p| &p.kind) {
                Some(ParamKind::Axis { axis }) if *axis == id => Ok(()),
                _ => Err(format!("{p} is no parameter that fixes it")),
            },
            AxisSource::Static(_) => Ok(()),
            AxisSource::Derived(e) => verify_extent(kernel, e),
        };
        verified.map_err(|e| format!("{id} `{}`: {e}", axis.name))?;
    }
    for (i, param) in kernel.params.iter().enumerate() {
        let id = ParamId::from_index(i);
        let verified = match &param.kind {
            ParamKind::Tensor { axes, .. } => verify_axis_list(kernel, axes),
            ParamKind::Scalar { .. } => Ok(()),
            ParamKind::Axis { axis } => verify_axis_list(kernel, &[*axis]),
        };
        verified.map_err(|e| format!("{id} `{}`: {e}", param.name))?;
    }
    Ok(())
}

/// Axes in range, none twice.
fn verify_axis_list(kernel: &Kernel, axes: &[AxisId]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for &a in axes {
        if a.index() >= kernel.axes.len() {
            return Err(format!("{a} does not exist"));
        }
        if !seen.insert(a) {
            return Err(format!("{a} stands twice"));
        }
    }
    Ok(())
}

fn uses_extent(e: &IndexExpr, axis: AxisId) -> bool {
    let mut found = false;
    e.for_each_leaf(&mut |leaf| found |= *leaf == IndexExpr::Extent(axis));
    found
}

fn verify_extent(kernel: &Kernel, e: &IndexExpr) -> Result<(), String> {
    verify_index_expr(kernel, e, &[], None)
}

/// Leaves in range: positions on `axes` only; indirect reads only of integer nodes before `reader` over these axes.
fn verify_index_expr(
    kernel: &Kernel,
    e: &IndexExpr,
    axes: &[AxisId],
    reader: Option<NodeId>,
) -> Result<(), String> {
    let mut result = Ok(());
    e.for_each_leaf(&mut |leaf| {
        if result.is_ok() {
            result = verify_index_leaf(kernel, leaf, axes, reader);
        }
    });
    result
}

fn verify_index_leaf(
    kernel: &Kernel,
    leaf: &IndexExpr,
    axes: &[AxisId],
    reader: Option<NodeId>,
) -> Result<(), String> {
    match leaf {
        IndexExpr::Index(a) if !axes.contains(a) => Err(format!("the position on {a} has no meaning here")),
        IndexExpr::Extent(a) if a.index() >= kernel.axes.len() => Err(format!("{a} does not exist")),
        IndexExpr::Param(p) => match kernel.params.get(p.index()).map(|p| &p.kind) {
            Some(ParamKind::Scalar { dtype }) if dtype.is_int() => Ok(()),
            Some(ParamKind::Axis { .. }) => Ok(()),
            _ => Err(format!("{p} is no integer parameter")),
        },
        IndexExpr::Indirect(n) => {
            let Some(reader) = reader else { return Err(format!("{n} is read where nothing may be")) };
            if *n >= reader {
                return Err(format!("{n} does not come before it"));
            }
            let ty = &kernel.node(*n).ty;
            if !ty.dtype.is_int() {
                return Err(format!("{n} is used as an index and is {}", ty.dtype));
            }
            match ty.axes.iter().find(|a| !axes.contains(a)) {
                Some(a) => Err(format!("{n} is used as an index and has the further axis {a}")),
                None => Ok(()),
            }
        }
        IndexExpr::Const(_) | IndexExpr::Index(_) | IndexExpr::Extent(_) => Ok(()),
        IndexExpr::Add(..)
        | IndexExpr::Sub(..)
        | IndexExpr::Mul(..)
        | IndexExpr::FloorDiv(..)
        | IndexExpr::Mod(..) => Err("an inner node was given as a leaf".to_owned()),
    }
}

fn verify_node(kernel: &Kernel, id: NodeId) -> Result<(), String> {
    let node = kernel.node(id);
    if !node.ty.axes.is_sorted_by(|a, b| a < b) {
        return Err("its axes are not sorted".to_owned());
    }
    verify_axis_list(kernel, &node.ty.axes)?;
    let want = infer_type(kernel, id, node)?;
    if want != node.ty {
        let show =
            |t: &Type| format!("{}{:?}", t.dtype, t.axes.iter().map(|a| a.to_string()).collect::<Vec<_>>());
        return Err(format!("its type is {} and should be {}", show(&node.ty), show(&want)));
    }
    Ok(())
}

/// The type that the operation gives; of a view, whose axes are its own, after checking the map.
pub(crate) fn infer_type(kernel: &Kernel, id: NodeId, node: &Node) -> Result<Type, String> {
    if let Some(operand) = node.op.operands().iter().find(|&&n| n >= id) {
        return Err(format!("its operand {operand} does not come before it"));
    }
    let scalar = |dtype| Type { dtype, axes: Vec::new() };
    let ty = |n: NodeId| &kernel.node(n).ty;
    match &node.op {
        Op::Tensor(p) => match kernel.params.get(p.index()).map(|p| &p.kind) {
            Some(ParamKind::Tensor { dtype, axes, .. }) => Ok(Type { dtype: *dtype, axes: sorted(axes) }),
            _ => Err(format!("{p} is no tensor parameter")),
        },
        Op::Scalar(p) => match kernel.params.get(p.index()).map(|p| &p.kind) {
            Some(ParamKind::Scalar { dtype }) => Ok(scalar(*dtype)),
            _ => Err(format!("{p} is no scalar parameter")),
        },
        Op::Constant(v) => Ok(scalar(v.dtype())),
        Op::Index(a) => {
            verify_axis_list(kernel, &[*a])?;
            Ok(Type { dtype: DType::I64, axes: vec![*a] })
        }
        Op::Extent(e) => {
            verify_extent(kernel, e)?;
            Ok(scalar(DType::I64))
        }
        Op::Map { function, args } => {
            let dtypes: Vec<DType> = args.iter().map(|&n| ty(n).dtype).collect();
            let dtype = infer_map(kernel, *function, &dtypes)?;
            Ok(Type { dtype, axes: join_axes(kernel, args) })
        }
        Op::View { source, map, fill } => {
            verify_map(kernel, id, *source, map)?;
            if fill.is_some() == map.bounds.is_empty() {
                return Err("a fill is given exactly where the map has bounds".to_owned());
            }
            match fill {
                Some(v) if v.dtype() != ty(*source).dtype => {
                    Err(format!("its fill is {} and its source {}", v.dtype(), ty(*source).dtype))
                }
                Some(_) | None => Ok(Type { dtype: ty(*source).dtype, axes: node.ty.axes.clone() }),
            }
        }
        Op::Reduce { reducer, sources, axes, output } => {
            let dtypes: Vec<DType> = sources.iter().map(|&n| ty(n).dtype).collect();
            let dtype = infer_reduction(kernel, reducer, &dtypes, *output)?;
            verify_axis_list(kernel, axes)?;
            let all = join_axes(kernel, sources);
            if axes.is_empty() {
                return Err("it reduces no axis".to_owned());
            }
            if let Some(a) = axes.iter().find(|a| !all.contains(a)) {
                return Err(format!("it reduces {a}, which no source has"));
            }
            Ok(Type { dtype, axes: all.into_iter().filter(|a| !axes.contains(a)).collect() })
        }
        Op::CumSum { source, axis } => {
            if !ty(*source).axes.contains(axis) {
                return Err(format!("it sums along {axis}, which its source has not"));
            }
            if !is_number(ty(*source).dtype) {
                return Err(format!("{} has no running sum", ty(*source).dtype));
            }
            Ok(ty(*source).clone())
        }
        Op::Materialize { source } => Ok(ty(*source).clone()),
    }
}

fn is_number(dtype: DType) -> bool {
    dtype.is_int() || matches!(dtype, DType::F32 | DType::F64)
}

fn sorted(axes: &[AxisId]) -> Vec<AxisId> {
    let mut axes = axes.to_vec();
    axes.sort();
    axes
}

fn join_axes(kernel: &Kernel, nodes: &[NodeId]) -> Vec<AxisId> {
    let all: BTreeSet<AxisId> = nodes.iter().flat_map(|&n| kernel.node(n).ty.axes.iter().copied()).collect();
    all.into_iter().collect()
}

fn infer_map(kernel: &Kernel, function: MapFn, args: &[DType]) -> Result<DType, String> {
    match function {
        MapFn::Op(op) => op.result_dtype(args).ok_or_else(|| format!("{op} does not take {args:?}")),
        MapFn::Call { function, result } => {
            let Some(f) = kernel.functions.get(function.index()) else {
                return Err(format!("{function} does not exist"));
            };
            let parameters: Vec<DType> = f.parameter_dtypes();
            if parameters != args {
                return Err(format!("`{}` takes {parameters:?} and is given {args:?}", f.name));
            }
            let Some(result) = f.results.get(result as usize) else {
                return Err(format!("`{}` has no result {result}", f.name));
            };
            f.expr_dtype(&kernel.functions, result)
                .ok_or_else(|| format!("`{}` has an untyped result", f.name))
        }
    }
}

fn verify_map(kernel: &Kernel, id: NodeId, source: NodeId, map: &IndexMap) -> Result<(), String> {
    let axes = &kernel.node(id).ty.axes;
    if !map.indices.iter().map(|(a, _)| a).eq(&kernel.node(source).ty.axes) {
        return Err(format!("its map has not one entry for each axis of {source}, in order"));
    }
    for (_, e) in &map.indices {
        verify_index_expr(kernel, e, axes, Some(id))?;
    }
    for bound in &map.bounds {
        verify_index_expr(kernel, &bound.expr, axes, Some(id))?;
        verify_extent(kernel, &bound.extent)?;
    }
    Ok(())
}

fn infer_reduction(
    kernel: &Kernel,
    reducer: &Reducer,
    sources: &[DType],
    output: u32,
) -> Result<DType, String> {
    let one = |accepts: bool, gives: DType| match sources {
        [_] if output != 0 => Err(format!("it has no component {output}")),
        [_] if accepts => Ok(gives),
        _ => Err(format!("{reducer:?} does not take {sources:?}")),
    };
    let Some(&first) = sources.first() else { return Err("it has no source".to_owned()) };
    match reducer {
        Reducer::Sum | Reducer::Prod | Reducer::Max | Reducer::Min => one(is_number(first), first),
        Reducer::Dot => match sources {
            [a, b] if a == b && is_number(*a) && output == 0 => Ok(*a),
            _ => Err(format!("a product of {sources:?} cannot be summed")),
        },
        Reducer::Any | Reducer::All => one(first == DType::Bool, DType::Bool),
        Reducer::ArgMax | Reducer::ArgMin => one(is_number(first), DType::I64),
        Reducer::User { combine, identity, ordered: _ } => {
            let Some(f) = kernel.functions.get(combine.index()) else {
                return Err(format!("{combine} does not exist"));
            };
            let results: Vec<Option<DType>> =
                f.results.iter().map(|e| f.expr_dtype(&kernel.functions, e)).collect();
            let fits = f.parameter_dtypes() == [sources, sources].concat()
                && results == sources.iter().map(|&d| Some(d)).collect::<Vec<_>>();
            if !fits {
                return Err(format!("`{}` does not combine two of {sources:?} to one", f.name));
            }
            if !identity.iter().map(|v| v.dtype()).eq(sources.iter().copied()) {
                return Err(format!("its identity is not of {sources:?}"));
            }
            sources.get(output as usize).copied().ok_or_else(|| format!("it has no component {output}"))
        }
    }
}

fn verify_outputs(kernel: &Kernel) -> Result<(), String> {
    let mut results = 0;
    let mut after_params = false;
    for (i, output) in kernel.outputs.iter().enumerate() {
        if output.value.index() >= kernel.nodes.len() {
            return Err(format!("output {i}: {} does not exist", output.value));
        }
        let ty = &kernel.node(output.value).ty;
        match &output.target {
            OutputTarget::Result { index, axes } => {
                if *index != results || after_params {
                    return Err(format!("output {i}: results do not come in order and first"));
                }
                results += 1;
                verify_axis_list(kernel, axes).map_err(|e| format!("output {i}: {e}"))?;
                if sorted(axes) != ty.axes {
                    return Err(format!("output {i}: the axes of {} are not those declared", output.value));
                }
            }
            OutputTarget::Param { param, region } => {
                after_params = true;
                verify_region(kernel, ty, *param, region)
                    .map_err(|e| format!("output {i}: {}: {e}", output.value))?;
            }
        }
    }
    Ok(())
}

fn verify_region(kernel: &Kernel, ty: &Type, param: ParamId, region: &[IndexExpr]) -> Result<(), String> {
    let Some(ParamKind::Tensor { dtype, axes, mutable: true }) =
        kernel.params.get(param.index()).map(|p| &p.kind)
    else {
        return Err(format!("{param} is no `&mut` tensor"));
    };
    if *dtype != ty.dtype {
        return Err(format!("{param} holds {dtype} and is given {}", ty.dtype));
    }
    if region.len() != axes.len() {
        return Err(format!("{param} has {} axes and its region {}", axes.len(), region.len()));
    }
    for e in region {
        verify_index_expr(kernel, e, &ty.axes, None)?;
    }
    match ty.axes.iter().find(|&&a| !region.iter().any(|e| e.uses_index(a))) {
        Some(a) => Err(format!("its elements along {a} are all written to one place")),
        None => Ok(()),
    }
}

/// A bool, well typed.
fn verify_condition(kernel: &Kernel, condition: &Condition) -> Result<(), String> {
    match condition_dtype(kernel, condition)? {
        DType::Bool => Ok(()),
        other => Err(format!("its condition is {other}")),
    }
}

fn condition_dtype(kernel: &Kernel, condition: &Condition) -> Result<DType, String> {
    let all = |args: &[Condition]| {
        args.iter().map(|arg| condition_dtype(kernel, arg)).collect::<Result<Vec<_>, _>>()
    };
    match condition {
        Condition::Constant(value) => Ok(value.dtype()),
        Condition::Param(param) => match kernel.params.get(param.index()).map(|p| &p.kind) {
            Some(ParamKind::Scalar { dtype }) => Ok(*dtype),
            _ => Err(format!("{param} is no scalar")),
        },
        Condition::Extent(extent) => verify_extent(kernel, extent).map(|()| DType::I64),
        Condition::Op(op, args) => {
            let dtypes = all(args)?;
            op.result_dtype(&dtypes).ok_or_else(|| format!("{op} does not take {dtypes:?}"))
        }
        Condition::Call { function, args, result } => {
            let Some(callee) = kernel.functions.get(function.index()) else {
                return Err(format!("{function} does not exist"));
            };
            if callee.parameter_dtypes() != all(args)? {
                return Err(format!("`{}` takes other arguments", callee.name));
            }
            let result = callee.results.get(*result as usize);
            result
                .and_then(|e| callee.expr_dtype(&kernel.functions, e))
                .ok_or_else(|| format!("`{}` has no such result", callee.name))
        }
    }
}

fn verify_check(kernel: &Kernel, check: &CheckKind) -> Result<(), String> {
    match check {
        CheckKind::NotEmpty { op: _, axis } => verify_axis_list(kernel, &[*axis]),
        CheckKind::InBounds { op: _, axis, start, length } => {
            verify_axis_list(kernel, &[*axis])?;
            verify_extent(kernel, start)?;
            verify_extent(kernel, length)
        }
        CheckKind::Equal { op: _, axis, expected } => {
            verify_axis_list(kernel, &[*axis])?;
            verify_extent(kernel, expected)
        }
        CheckKind::AtLeast { op: _, name: _, value, least: _ } => verify_extent(kernel, value),
    }
}
