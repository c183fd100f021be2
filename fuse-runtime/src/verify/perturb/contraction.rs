//! Contractions moved by what the order of their additions may change: `Σ a·b ± c·ε·Σ|a·b|`.

use super::Pattern;
use fuse_ir::dtype::{DType, Value};
use fuse_ir::graph::{Kernel, MapFn, Node, Op, Reducer, Type};
use fuse_ir::id::{FnId, NodeId, VarId};
use fuse_ir::index_map::IndexExpr;
use fuse_ir::scalar::{Expr, ScalarFn, ScalarOp, Variable};

/// The c of the bound, with the slack of the comparison a fourth of what is asserted. Adding K terms of one sign in a row
/// is off by about √K/6 ε of their sum, of mixed signs by less than one.
const ROUNDINGS: f64 = 8.0;

/// The same for factors of tf32, of which ten bits are kept and the rest may be cut off: each is off by one in 2^10 at most, a
/// product of two by twice that.
const OF_FACTORS: f64 = 2.0 / 1024.0 / 4.0;

/// Whether a node is a contraction of floats.
pub(in crate::verify) fn is_contraction(node: &Node) -> bool {
    matches!(node.op, Op::Reduce { reducer: Reducer::Dot, .. }) && node.ty.dtype.is_float()
}

/// Puts after every contraction of floats a call that moves it. `functions` are the numbers of those for f32 and f64.
pub(super) fn move_contractions(kernel: &mut Kernel, functions: [FnId; 2]) {
    if !kernel.nodes.iter().any(is_contraction) {
        return;
    }
    let mut renamed: Vec<NodeId> = Vec::with_capacity(kernel.nodes.len());
    let mut nodes: Vec<Node> = Vec::new();
    let mut origins = Vec::new();
    for (k, mut node) in std::mem::take(&mut kernel.nodes).into_iter().enumerate() {
        let origin = kernel.origins.get(k).cloned().unwrap_or_default();
        rename(&mut node.op, &renamed);
        let ty = node.ty.clone();
        let mut push = |op: Op, ty: Type| {
            nodes.push(Node { op, ty });
            origins.push(origin.clone());
            NodeId::from_index(nodes.len() - 1)
        };
        let contracted = match &node.op {
            Op::Reduce { reducer: Reducer::Dot, sources, axes, .. } if ty.dtype.is_float() => {
                Some((sources.clone(), axes.clone()))
            }
            _ => None,
        };
        let own = push(node.op, ty.clone());
        let Some((sources, axes)) = contracted else {
            renamed.push(own);
            continue;
        };
        let mut magnitudes = Vec::new();
        for source in sources {
            let function = MapFn::Op(ScalarOp::Abs);
            let of_source = nodes[source.index()].ty.clone();
            nodes.push(Node { op: Op::Map { function, args: vec![source] }, ty: of_source });
            origins.push(origin.clone());
            magnitudes.push(NodeId::from_index(nodes.len() - 1));
        }
        let mut push = |op: Op| {
            nodes.push(Node { op, ty: ty.clone() });
            origins.push(origin.clone());
            NodeId::from_index(nodes.len() - 1)
        };
        let terms = push(Op::Reduce { reducer: Reducer::Dot, sources: magnitudes, axes, output: 0 });
        let function = functions[usize::from(ty.dtype == DType::F64)];
        let function = MapFn::Call { function, result: 0 };
        renamed.push(push(Op::Map { function, args: vec![own, terms] }));
    }
    kernel.nodes = nodes;
    kernel.origins = origins;
    kernel.outputs.iter_mut().for_each(|o| o.value = renamed[o.value.index()]);
}

fn rename(op: &mut Op, renamed: &[NodeId]) {
    let of = |n: &mut NodeId| *n = renamed[n.index()];
    match op {
        Op::Tensor(_) | Op::Scalar(_) | Op::Constant(_) | Op::Index(_) | Op::Extent(_) => {}
        Op::Map { args: list, .. } | Op::Reduce { sources: list, .. } => list.iter_mut().for_each(of),
        Op::CumSum { source, .. } | Op::Materialize { source } => of(source),
        Op::View { source, map, .. } => {
            of(source);
            let of_expr = |e: &mut IndexExpr| {
                *e = e.map_leaves(&mut |leaf| match leaf {
                    IndexExpr::Indirect(n) => IndexExpr::Indirect(renamed[n.index()]),
                    _ => leaf.clone(),
                });
            };
            map.indices.iter_mut().for_each(|(_, e)| of_expr(e));
            map.bounds.iter_mut().for_each(|b| of_expr(&mut b.expr));
        }
    }
}

/// `t ± c·ε·terms`. Where the terms overflow the order decides what of the sum does: it may be anything.
pub(super) fn moving_function(dtype: DType, fast: bool, pattern: Pattern) -> ScalarFn {
    let variable = |k: usize| Expr::Variable(VarId::from_index(k));
    let epsilon = if dtype == DType::F64 { f64::EPSILON } else { f32::EPSILON.into() };
    let of_factors = if fast && dtype == DType::F32 { OF_FACTORS } else { 0.0 };
    let factor = Value::from_f64(dtype, ROUNDINGS * epsilon + of_factors).unwrap_or(Value::zero(dtype));
    let reach = Expr::Op(ScalarOp::Mul, vec![variable(1), Expr::Constant(factor)]);
    let overflows = Expr::Op(ScalarOp::IsInfinite, vec![variable(1)]);
    let moved = |op, infinite| {
        let sum = Expr::Op(op, vec![variable(0), reach.clone()]);
        Expr::Op(ScalarOp::Select, vec![overflows.clone(), infinite, sum])
    };
    let up = moved(ScalarOp::Add, variable(1));
    let down = moved(ScalarOp::Sub, Expr::Op(ScalarOp::Neg, vec![variable(1)]));
    let result = super::choose(dtype, pattern, &variable(0), up, down);
    let variables = ["t", "terms"].map(|name| Variable { name: name.to_owned(), dtype });
    ScalarFn {
        name: "moved_sum".to_owned(),
        parameters: 2,
        variables: variables.to_vec(),
        body: Vec::new(),
        results: vec![result],
    }
}
