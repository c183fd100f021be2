//! Smaller cases that still fail.

use super::Case;
use crate::dtype::Value;
use crate::eval::{Array, Input};
use crate::graph::{AxisSource, Kernel, MapFn, Node, Op, Origin, OutputTarget, ParamKind, Reducer};
use crate::id::{AxisId, FnId, NodeId};
use crate::index_map::{IndexExpr, IndexMap};
use crate::scalar::{Expr, ScalarFn, Stmt};

/// The smallest case that is found by deleting outputs and nodes, replacing nodes by operands or constants, and halving
/// extents, while `fails` says that it fails.
///
/// `fails` must say no for cases that it cannot judge, such as those that no longer bind.
pub fn shrink(case: Case, mut fails: impl FnMut(&Case) -> bool) -> Case {
    let mut best = case;
    loop {
        let before = weight(&best);
        for candidates in
            [without_outputs, with_earlier_outputs, without_nodes, with_smaller_axes, with_plain_inputs]
        {
            let mut i = 0;
            // What is drawn depends on the case, so the list is made anew after each success.
            while let Some(candidate) = candidates(&best, i) {
                if let Some(candidate) = candidate.filter(|c| weight(c) < weight(&best)).filter(|c| fails(c))
                {
                    best = candidate;
                } else {
                    i += 1;
                }
            }
        }
        if weight(&best) >= before {
            return best;
        }
    }
}

/// What shrinking makes less: nodes and outputs, then elements, then odd values.
fn weight(case: &Case) -> (usize, usize, usize) {
    let nodes = case.kernel.nodes.iter().filter(|n| !matches!(n.op, Op::Constant(_))).count();
    let arrays = || {
        case.inputs.0.iter().filter_map(|i| match i {
            Input::Tensor(array) => Some(array),
            Input::Scalar(_) | Input::Axis(_) => None,
        })
    };
    let elements = arrays().map(|a| a.data.len()).sum::<usize>();
    let odd = arrays().flat_map(|a| &a.data).filter(|v| !is_plain(**v)).count();
    (nodes + case.kernel.outputs.len(), elements + case.kernel.axes.len(), odd)
}

fn is_plain(v: Value) -> bool {
    v == Value::I64(1).cast(v.dtype())
}

/// The case without output `i`.
fn without_outputs(case: &Case, i: usize) -> Option<Option<Case>> {
    if i >= case.kernel.outputs.len() {
        return None;
    }
    let mut smaller = case.clone();
    smaller.kernel.outputs.remove(i);
    let mut next = 0;
    for output in &mut smaller.kernel.outputs {
        if let OutputTarget::Result { index, .. } = &mut output.target {
            *index = next;
            next += 1;
        }
    }
    Some((!smaller.kernel.outputs.is_empty()).then(|| prune(smaller)))
}

/// The case with a result that is an operand of what it was.
fn with_earlier_outputs(case: &Case, i: usize) -> Option<Option<Case>> {
    const WAYS: usize = 3;
    let output = case.kernel.outputs.get(i / WAYS)?;
    let operand = case.kernel.node(output.value).op.operands().get(i % WAYS).copied();
    let is_result = matches!(output.target, OutputTarget::Result { .. });
    Some(operand.filter(|_| is_result).map(|operand| {
        let mut smaller = case.clone();
        let output = &mut smaller.kernel.outputs[i / WAYS];
        output.value = operand;
        if let OutputTarget::Result { axes, .. } = &mut output.target {
            *axes = case.kernel.node(operand).ty.axes.clone();
        }
        prune(smaller)
    }))
}

/// The case with one node replaced: by each operand of its type, then by a constant. The last nodes come first.
fn without_nodes(case: &Case, i: usize) -> Option<Option<Case>> {
    const WAYS: usize = 4;
    let count = case.kernel.nodes.len();
    if i >= count * WAYS {
        return None;
    }
    let (id, way) = (NodeId::from_index(count - 1 - i / WAYS), i % WAYS);
    let node = case.kernel.node(id);
    if way < WAYS - 1 {
        let operand = node.op.operands().get(way).copied();
        let operand = operand.filter(|&o| case.kernel.node(o).ty == node.ty);
        return Some(operand.map(|o| prune(replace_node(case, id, o))));
    }
    let is_small = matches!(node.op, Op::Constant(_) | Op::Tensor(_) | Op::Scalar(_));
    Some((!is_small).then(|| {
        let mut smaller = case.clone();
        let value = Value::I64(1).cast(node.ty.dtype);
        let kernel = &mut smaller.kernel;
        if node.ty.axes.is_empty() {
            kernel.nodes[id.index()].op = Op::Constant(value);
        } else {
            // A constant has no axes, so it is put before all nodes and broadcast.
            let ty = crate::graph::Type { dtype: node.ty.dtype, axes: Vec::new() };
            let shift = |n: NodeId| NodeId(n.0 + 1);
            kernel.nodes.iter_mut().for_each(|n| map_operands(&mut n.op, &shift));
            kernel.outputs.iter_mut().for_each(|o| o.value = shift(o.value));
            kernel.nodes.insert(0, Node { op: Op::Constant(value), ty });
            kernel.origins.insert(0, Origin::default());
            kernel.nodes[id.index() + 1].op =
                Op::View { source: NodeId(0), map: IndexMap::default(), fill: None };
        }
        prune(smaller)
    }))
}

fn replace_node(case: &Case, id: NodeId, by: NodeId) -> Case {
    let mut smaller = case.clone();
    let put = |n: NodeId| if n == id { by } else { n };
    smaller.kernel.nodes.iter_mut().for_each(|n| map_operands(&mut n.op, &put));
    smaller.kernel.outputs.iter_mut().for_each(|o| o.value = put(o.value));
    smaller
}

/// The case with one axis of a parameter's shape shorter: 1, 2, half, one less.
fn with_smaller_axes(case: &Case, i: usize) -> Option<Option<Case>> {
    const WAYS: usize = 4;
    let axis = AxisId::from_index(i / WAYS);
    if axis.index() >= case.kernel.axes.len() {
        return None;
    }
    let extent = extent_of(case, axis);
    let shorter = extent.map(|n| [1, 2, n / 2, n.saturating_sub(1)][i % WAYS]);
    Some(extent.zip(shorter).filter(|(n, to)| to < n).map(|(_, to)| {
        let mut smaller = case.clone();
        for (param, input) in case.kernel.params.iter().zip(&mut smaller.inputs.0) {
            match (&param.kind, input) {
                (ParamKind::Tensor { axes, .. }, Input::Tensor(array)) => {
                    for dimension in (0..axes.len()).filter(|&d| axes[d] == axis) {
                        *array = cut(array, dimension, to);
                    }
                }
                (ParamKind::Axis { axis: a }, Input::Axis(n)) if *a == axis => *n = to,
                _ => {}
            }
        }
        if let AxisSource::Static(n) = &mut smaller.kernel.axes[axis.index()].source {
            *n = to as u64;
        }
        smaller
    }))
}

fn extent_of(case: &Case, axis: AxisId) -> Option<usize> {
    let of_param =
        case.kernel.params.iter().zip(&case.inputs.0).find_map(|(param, input)| match (&param.kind, input) {
            (ParamKind::Tensor { axes, .. }, Input::Tensor(array)) => {
                axes.iter().position(|&a| a == axis).map(|d| array.shape[d])
            }
            (ParamKind::Axis { axis: a }, Input::Axis(n)) if *a == axis => Some(*n),
            _ => None,
        });
    of_param.or(match case.kernel.axis(axis).source {
        AxisSource::Static(n) => Some(n as usize),
        AxisSource::Shape | AxisSource::Host(_) | AxisSource::Derived(_) => None,
    })
}

/// The first `to` positions of a dimension.
fn cut(array: &Array, dimension: usize, to: usize) -> Array {
    let inner: usize = array.shape[dimension + 1..].iter().product();
    let of_dimension = array.shape[dimension];
    let kept = |&(i, _): &(usize, &Value)| (i / inner.max(1)) % of_dimension < to;
    let data = array.data.iter().enumerate().filter(kept).map(|(_, &v)| v).collect();
    let mut shape = array.shape.clone();
    shape[dimension] = to;
    Array { dtype: array.dtype, shape, data }
}

/// The case with one input all ones.
fn with_plain_inputs(case: &Case, i: usize) -> Option<Option<Case>> {
    let input = case.inputs.0.get(i)?;
    let Input::Tensor(array) = input else { return Some(None) };
    let mut smaller = case.clone();
    let data = array.data.iter().map(|v| Value::I64(1).cast(v.dtype())).collect();
    smaller.inputs.0[i] = Input::Tensor(Array { data, ..array.clone() });
    Some(Some(smaller))
}

fn map_operands(op: &mut Op, f: &impl Fn(NodeId) -> NodeId) {
    match op {
        Op::Tensor(_) | Op::Scalar(_) | Op::Constant(_) | Op::Index(_) | Op::Extent(_) => {}
        Op::Map { args, .. } => args.iter_mut().for_each(|n| *n = f(*n)),
        Op::View { source, map, .. } => {
            *source = f(*source);
            let mut leaf = |leaf: &IndexExpr| match leaf {
                IndexExpr::Indirect(n) => IndexExpr::Indirect(f(*n)),
                other => other.clone(),
            };
            map.indices.iter_mut().for_each(|(_, e)| *e = e.map_leaves(&mut leaf));
            map.bounds.iter_mut().for_each(|b| b.expr = b.expr.map_leaves(&mut leaf));
        }
        Op::Reduce { sources, .. } => sources.iter_mut().for_each(|n| *n = f(*n)),
        Op::CumSum { source, .. } | Op::Materialize { source } => *source = f(*source),
    }
}

/// The case without nodes and functions that no output needs.
pub(super) fn prune(mut case: Case) -> Case {
    let kernel = &mut case.kernel;
    let mut live = vec![false; kernel.nodes.len()];
    kernel.outputs.iter().for_each(|o| live[o.value.index()] = true);
    for id in kernel.node_ids().rev() {
        if live[id.index()] {
            kernel.node(id).op.operands().iter().for_each(|o| live[o.index()] = true);
        }
    }
    let moved = positions_after(&live);
    let at = |n: NodeId| NodeId::from_index(moved[n.index()]);
    keep_only(&mut kernel.nodes, &live);
    keep_only(&mut kernel.origins, &live);
    kernel.nodes.iter_mut().for_each(|n| map_operands(&mut n.op, &at));
    kernel.outputs.iter_mut().for_each(|o| o.value = at(o.value));
    prune_functions(kernel);
    case
}

fn positions_after(live: &[bool]) -> Vec<usize> {
    let mut next = 0;
    live.iter()
        .map(|&l| {
            let at = next;
            next += usize::from(l);
            at
        })
        .collect()
}

fn keep_only<T>(items: &mut Vec<T>, live: &[bool]) {
    let mut i = 0;
    items.retain(|_| {
        i += 1;
        live[i - 1]
    });
}

fn prune_functions(kernel: &mut Kernel) {
    let mut live = vec![false; kernel.functions.len()];
    for node in &mut kernel.nodes {
        if let Some(f) = called(&mut node.op) {
            live[f.index()] = true;
        }
    }
    for i in (0..kernel.functions.len()).rev() {
        if live[i] {
            for_each_call(&mut kernel.functions[i].clone(), &mut |f| live[f.index()] = true);
        }
    }
    let moved = positions_after(&live);
    keep_only(&mut kernel.functions, &live);
    let at = |f: &mut FnId| *f = FnId::from_index(moved[f.index()]);
    kernel.nodes.iter_mut().filter_map(|n| called(&mut n.op)).for_each(at);
    kernel.functions.iter_mut().for_each(|f| for_each_call(f, &mut |g| at(g)));
}

fn called(op: &mut Op) -> Option<&mut FnId> {
    match op {
        Op::Map { function: MapFn::Call { function, .. }, .. } => Some(function),
        Op::Reduce { reducer: Reducer::User { combine, .. }, .. } => Some(combine),
        Op::Tensor(_)
        | Op::Scalar(_)
        | Op::Constant(_)
        | Op::Index(_)
        | Op::Extent(_)
        | Op::Map { .. }
        | Op::View { .. }
        | Op::Reduce { .. }
        | Op::CumSum { .. }
        | Op::Materialize { .. } => None,
    }
}

fn for_each_call(function: &mut ScalarFn, f: &mut dyn FnMut(&mut FnId)) {
    fn in_expr(e: &mut Expr, f: &mut dyn FnMut(&mut FnId)) {
        match e {
            Expr::Constant(_) | Expr::Variable(_) => {}
            Expr::Op(_, args) => args.iter_mut().for_each(|a| in_expr(a, f)),
            Expr::Call { function, args, .. } => {
                f(function);
                args.iter_mut().for_each(|a| in_expr(a, f));
            }
        }
    }
    fn in_block(block: &mut [Stmt], f: &mut dyn FnMut(&mut FnId)) {
        for stmt in block {
            match stmt {
                Stmt::Assign { value, .. } => in_expr(value, f),
                Stmt::If { condition, then, otherwise } => {
                    in_expr(condition, f);
                    in_block(then, f);
                    in_block(otherwise, f);
                }
                Stmt::For { body, .. } => in_block(body, f),
            }
        }
    }
    in_block(&mut function.body, f);
    function.results.iter_mut().for_each(|e| in_expr(e, f));
}
