//! Simplification of a graph before it is planned.

use super::{Kernel, MapFn, Node, Op, Output, OutputTarget};
use crate::dtype::{DType, Value};
use crate::id::NodeId;
use crate::index_map::polynomial::ExtentFacts;
use crate::index_map::{IndexExpr, IndexMap};
use crate::scalar::ScalarOp;
use std::collections::HashMap;

/// Merges equal nodes, composes views of views, drops views and casts that do nothing, simplifies index expressions by
/// what is known of extents, and drops nodes that no output needs.
///
/// Takes a verified kernel and gives one of equal values: no float operation is rewritten, and of merged nodes the first
/// keeps its place in the source. Interface, axes, functions, checks and the order of outputs stay as they are. Views
/// that read through computed indices are not composed: each checks its own range.
pub fn simplify_graph(kernel: Kernel) -> Kernel {
    let facts = ExtentFacts::compute(&kernel);
    let mut simplifier = Simplifier { facts, nodes: Vec::new(), origins: Vec::new(), known: HashMap::new() };
    let mut renamed: Vec<NodeId> = Vec::with_capacity(kernel.nodes.len());
    for (node, origin) in kernel.nodes.iter().zip(&kernel.origins) {
        let op = rename_operands(&node.op, &renamed);
        let id = simplifier.add(Node { op, ty: node.ty.clone() }, origin);
        renamed.push(id);
    }
    let outputs: Vec<Output> = kernel
        .outputs
        .iter()
        .map(|output| {
            let target = match &output.target {
                OutputTarget::Param { param, region } => OutputTarget::Param {
                    param: *param,
                    region: region.iter().map(|e| rename_indirect(e, &renamed)).collect(),
                },
                OutputTarget::Result { .. } => output.target.clone(),
            };
            Output { value: renamed[output.value.index()], target }
        })
        .collect();
    let simplified = Kernel { nodes: simplifier.nodes, origins: simplifier.origins, outputs, ..kernel };
    drop_dead_nodes(simplified)
}

struct Simplifier {
    facts: ExtentFacts,
    nodes: Vec<Node>,
    origins: Vec<super::Origin>,
    known: HashMap<Vec<u8>, NodeId>,
}

impl Simplifier {
    /// The node that gives the value of `node`, an earlier one where there is one.
    fn add(&mut self, mut node: Node, origin: &super::Origin) -> NodeId {
        match &mut node.op {
            Op::Map { function: MapFn::Op(ScalarOp::Cast(to)), args } => {
                if let Some(same) = self.skip_cast(args[0], *to) {
                    return same;
                }
            }
            Op::View { source, map, fill } => {
                (*source, *map, *fill) = self.compose_views(*source, map, *fill);
                *map = self.facts.simplify_map(map);
                if map.bounds.is_empty() {
                    *fill = None;
                }
                let from = &self.nodes[source.index()];
                if map.is_identity() && from.ty == node.ty {
                    return *source;
                }
            }
            Op::Extent(expr) => *expr = self.facts.simplify(expr),
            Op::Tensor(_) | Op::Scalar(_) | Op::Constant(_) | Op::Index(_) => {}
            Op::Map { .. } | Op::Reduce { .. } | Op::CumSum { .. } | Op::Materialize { .. } => {}
        }
        // Floats are compared by their bits, so that -0.0 and NaN keep their identity.
        let key = postcard::to_allocvec(&(&node.op, &node.ty)).ok();
        if let Some(same) = key.as_ref().and_then(|k| self.known.get(k)) {
            return *same;
        }
        let id = NodeId::from_index(self.nodes.len());
        self.nodes.push(node);
        self.origins.push(origin.clone());
        if let Some(key) = key {
            self.known.insert(key, id);
        }
        id
    }

    /// What a cast gives back unchanged: its operand if the dtype is the same already, or what that was widened from.
    fn skip_cast(&self, arg: NodeId, to: DType) -> Option<NodeId> {
        let node = &self.nodes[arg.index()];
        if node.ty.dtype == to {
            return Some(arg);
        }
        if let Op::Map { function: MapFn::Op(ScalarOp::Cast(_)), args } = &node.op {
            let inner = &self.nodes[args[0].index()];
            if inner.ty.dtype == to && is_exact(to, node.ty.dtype) {
                return Some(args[0]);
            }
        }
        None
    }

    /// The view as one of a source that is no view itself, where the two make one.
    fn compose_views(
        &self,
        source: NodeId,
        map: &IndexMap,
        fill: Option<Value>,
    ) -> (NodeId, IndexMap, Option<Value>) {
        let (mut source, mut map, mut fill) = (source, map.clone(), fill);
        while let Op::View { source: inner, map: through, fill: inner_fill } = &self.nodes[source.index()].op
        {
            let fills_agree = match (fill, inner_fill) {
                (Some(a), Some(b)) => postcard::to_allocvec(&a).ok() == postcard::to_allocvec(b).ok(),
                (None, _) | (_, None) => true,
            };
            if !fills_agree || is_indirect(&map) || is_indirect(through) {
                break;
            }
            map = through.compose(&map);
            fill = fill.or(*inner_fill);
            source = *inner;
        }
        (source, map, fill)
    }
}

/// Whether every value of `from` survives a cast to `to` and back.
fn is_exact(from: DType, to: DType) -> bool {
    match (from, to) {
        (DType::F16 | DType::Bf16 | DType::F8E4M3 | DType::F8E5M2, DType::F32 | DType::F64) => true,
        (DType::F32, DType::F64) => true,
        _ => from.is_int() && to.is_int() && from.size() <= to.size(),
    }
}

fn is_indirect(map: &IndexMap) -> bool {
    let mut found = false;
    let bounds = map.bounds.iter().map(|b| &b.expr);
    for e in map.indices.iter().map(|(_, e)| e).chain(bounds) {
        e.for_each_leaf(&mut |leaf| found |= matches!(leaf, IndexExpr::Indirect(_)));
    }
    found
}

fn rename_indirect(expr: &IndexExpr, renamed: &[NodeId]) -> IndexExpr {
    expr.map_leaves(&mut |leaf| match leaf {
        IndexExpr::Indirect(n) => IndexExpr::Indirect(renamed[n.index()]),
        _ => leaf.clone(),
    })
}

/// The operation with its operands renamed.
fn rename_operands(op: &Op, renamed: &[NodeId]) -> Op {
    let name = |n: &NodeId| renamed[n.index()];
    match op {
        Op::Tensor(_) | Op::Scalar(_) | Op::Constant(_) | Op::Index(_) | Op::Extent(_) => op.clone(),
        Op::Map { function, args } => Op::Map { function: *function, args: args.iter().map(name).collect() },
        Op::View { source, map, fill } => {
            let indices = map.indices.iter().map(|(a, e)| (*a, rename_indirect(e, renamed))).collect();
            let bounds = map.bounds.iter().map(|b| crate::index_map::Bound {
                expr: rename_indirect(&b.expr, renamed),
                extent: b.extent.clone(),
            });
            let map = IndexMap { indices, bounds: bounds.collect() };
            Op::View { source: name(source), map, fill: *fill }
        }
        Op::Reduce { reducer, sources, axes, output } => Op::Reduce {
            reducer: reducer.clone(),
            sources: sources.iter().map(name).collect(),
            axes: axes.clone(),
            output: *output,
        },
        Op::CumSum { source, axis } => Op::CumSum { source: name(source), axis: *axis },
        Op::Materialize { source } => Op::Materialize { source: name(source) },
    }
}

fn drop_dead_nodes(kernel: Kernel) -> Kernel {
    let mut alive = vec![false; kernel.nodes.len()];
    let mut stack: Vec<NodeId> = kernel.outputs.iter().map(|o| o.value).collect();
    for output in &kernel.outputs {
        if let OutputTarget::Param { region, .. } = &output.target {
            for expr in region {
                expr.for_each_leaf(&mut |leaf| {
                    if let IndexExpr::Indirect(n) = leaf {
                        stack.push(*n);
                    }
                });
            }
        }
    }
    while let Some(id) = stack.pop() {
        if !std::mem::replace(&mut alive[id.index()], true) {
            stack.extend(kernel.node(id).op.operands());
        }
    }
    let mut renamed = vec![NodeId(u32::MAX); kernel.nodes.len()];
    let (mut nodes, mut origins) = (Vec::new(), Vec::new());
    for (k, (node, origin)) in kernel.nodes.iter().zip(&kernel.origins).enumerate() {
        if alive[k] {
            renamed[k] = NodeId::from_index(nodes.len());
            nodes.push(Node { op: rename_operands(&node.op, &renamed), ty: node.ty.clone() });
            origins.push(origin.clone());
        }
    }
    let outputs = kernel.outputs.iter().map(|o| Output {
        value: renamed[o.value.index()],
        target: match &o.target {
            OutputTarget::Param { param, region } => OutputTarget::Param {
                param: *param,
                region: region.iter().map(|e| rename_indirect(e, &renamed)).collect(),
            },
            OutputTarget::Result { .. } => o.target.clone(),
        },
    });
    Kernel { outputs: outputs.collect(), nodes, origins, ..kernel }
}
