//! Removal of nodes that no output needs: literals that were folded into positions, values that are not used.

use crate::diagnostic::Place;
use fuse_ir::graph::{Kernel, Node, Op};
use fuse_ir::id::NodeId;
use fuse_ir::index_map::IndexExpr;

/// Takes a kernel with the place of each node; gives both without the nodes on which no output depends. The order of
/// the others stays.
pub(super) fn prune_nodes(mut kernel: Kernel, places: &[Place]) -> (Kernel, Vec<Place>) {
    let mut used = vec![false; kernel.nodes.len()];
    for output in &kernel.outputs {
        used[output.value.index()] = true;
    }
    for id in kernel.node_ids().rev() {
        if used[id.index()] {
            kernel.node(id).op.operands().into_iter().for_each(|n| used[n.index()] = true);
        }
    }
    let mut renumbered = Vec::new();
    let mut next = 0;
    for &kept in &used {
        renumbered.push(NodeId(next));
        next += u32::from(kept);
    }
    let new = |n: NodeId| renumbered[n.index()];
    let kept = |k: &usize| used[*k];
    let places = (0..used.len()).filter(kept).map(|k| places[k]).collect();
    let nodes = std::mem::take(&mut kernel.nodes);
    let origins = std::mem::take(&mut kernel.origins);
    for (k, (node, origin)) in nodes.into_iter().zip(origins).enumerate() {
        if used[k] {
            kernel.nodes.push(Node { op: renumber_operands(node.op, &new), ty: node.ty });
            kernel.origins.push(origin);
        }
    }
    for output in &mut kernel.outputs {
        output.value = new(output.value);
    }
    (kernel, places)
}

fn renumber_operands(op: Op, new: &impl Fn(NodeId) -> NodeId) -> Op {
    let all = |nodes: Vec<NodeId>| nodes.into_iter().map(new).collect();
    let expr = |e: &IndexExpr| {
        e.map_leaves(&mut |leaf| match leaf {
            IndexExpr::Indirect(n) => IndexExpr::Indirect(new(*n)),
            other => other.clone(),
        })
    };
    match op {
        Op::Tensor(_) | Op::Scalar(_) | Op::Constant(_) | Op::Index(_) | Op::Extent(_) => op,
        Op::Map { function, args } => Op::Map { function, args: all(args) },
        Op::View { source, mut map, fill } => {
            for (_, position) in &mut map.indices {
                *position = expr(position);
            }
            for bound in &mut map.bounds {
                bound.expr = expr(&bound.expr);
            }
            Op::View { source: new(source), map, fill }
        }
        Op::Reduce { reducer, sources, axes, output } => {
            Op::Reduce { reducer, sources: all(sources), axes, output }
        }
        Op::CumSum { source, axis } => Op::CumSum { source: new(source), axis },
        Op::Materialize { source } => Op::Materialize { source: new(source) },
    }
}
