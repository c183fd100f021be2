//! What planning asks of a graph again and again, computed once.

use crate::graph::{Kernel, MapFn, Op, OutputTarget, Reducer};
use crate::id::{AxisId, FnId, NodeId};
use crate::index_map::IndexExpr;
use crate::index_map::polynomial::{ExtentFacts, Polynomial};
use crate::scalar::{Expr, ScalarFn, ScalarOp, Stmt};

/// Users, layouts, extents and inverse views of a kernel.
#[derive(Clone, Debug)]
pub struct GraphFacts {
    /// The nodes that read each node, each once, in order.
    pub users: Vec<Vec<NodeId>>,
    /// The layout in which each node would be stored: that of the tensor it mostly comes from.
    pub layouts: Vec<Vec<AxisId>>,
    /// What is known of extents.
    pub extents: ExtentFacts,
    /// Whether each node is a map that may fault.
    pub may_fault: Vec<bool>,
    /// The first output that is a result and holds each node.
    pub results: Vec<Option<u32>>,
}

impl GraphFacts {
    /// The facts of a kernel, in time linear in its nodes.
    pub fn compute(kernel: &Kernel) -> Self {
        let mut users = vec![Vec::new(); kernel.nodes.len()];
        let mut layouts: Vec<Vec<AxisId>> = Vec::with_capacity(kernel.nodes.len());
        let faulting: Vec<bool> = kernel.functions.iter().map(|f| function_may_fault(kernel, f)).collect();
        let mut may_fault = Vec::with_capacity(kernel.nodes.len());
        for id in kernel.node_ids() {
            let node = kernel.node(id);
            for operand in node.op.operands() {
                let list: &mut Vec<NodeId> = &mut users[operand.index()];
                if list.last() != Some(&id) {
                    list.push(id);
                }
            }
            layouts.push(layout_of(kernel, id, &layouts));
            may_fault.push(match &node.op {
                Op::Map { function: MapFn::Op(op), .. } => op.may_fault(node.ty.dtype),
                Op::Map { function: MapFn::Call { function, .. }, .. } => faulting[function.index()],
                Op::Tensor(_) | Op::Scalar(_) | Op::Constant(_) | Op::Index(_) | Op::Extent(_) => false,
                Op::View { .. } | Op::Reduce { .. } | Op::CumSum { .. } | Op::Materialize { .. } => false,
            });
        }
        let mut results = vec![None; kernel.nodes.len()];
        for (k, output) in kernel.outputs.iter().enumerate().rev() {
            if let OutputTarget::Result { .. } = output.target {
                results[output.value.index()] = Some(k as u32);
            }
        }
        GraphFacts { users, layouts, extents: ExtentFacts::compute(kernel), may_fault, results }
    }

    /// For a view that is a bijection (rename, reverse, split, merge): each axis of the node as an expression over the
    /// axes of its source.
    pub fn invert_view(&self, kernel: &Kernel, id: NodeId) -> Option<Vec<(AxisId, IndexExpr)>> {
        let node = kernel.node(id);
        let Op::View { map, .. } = &node.op else { return None };
        if !map.bounds.is_empty() {
            return None;
        }
        let mut inverse: Vec<(AxisId, IndexExpr)> = Vec::new();
        let mut pending: Vec<(AxisId, &IndexExpr)> = map.indices.iter().map(|(a, e)| (*a, e)).collect();
        while let Some((source, expr)) = pending.pop() {
            let here = IndexExpr::Index(source);
            match expr {
                IndexExpr::Index(a) if self.extents.same_extent(*a, source) => inverse.push((*a, here)),
                IndexExpr::FloorDiv(..) | IndexExpr::Mod(..) => {
                    let at = pending.iter().position(|(_, other)| are_parts(expr, other))?;
                    let (other, other_expr) = pending.remove(at);
                    let (high, low) =
                        if matches!(expr, IndexExpr::Mod(..)) { (other, source) } else { (source, other) };
                    let low_expr = if high == source { other_expr } else { expr };
                    let IndexExpr::Mod(whole, size) = low_expr else { return None };
                    let IndexExpr::Index(axis) = **whole else { return None };
                    let length = self.extents.extent(high).times(&self.extents.extent(low));
                    if length != self.extents.extent(axis)
                        || self.extents.normalize(size) != self.extents.extent(low)
                    {
                        return None;
                    }
                    let stride = self.extents.simplify(&IndexExpr::Extent(low));
                    inverse.push((axis, IndexExpr::Index(high).times(stride).plus(IndexExpr::Index(low))));
                }
                _ => self.invert_sum(source, expr, &mut inverse)?,
            }
        }
        let mut axes: Vec<AxisId> = inverse.iter().map(|(a, _)| *a).collect();
        axes.sort();
        (axes == node.ty.axes).then_some(inverse)
    }

    /// Inverts `|s| - 1 - i` (reverse) and `i * |j| + j` (split).
    fn invert_sum(
        &self,
        source: AxisId,
        expr: &IndexExpr,
        inverse: &mut Vec<(AxisId, IndexExpr)>,
    ) -> Option<()> {
        let here = IndexExpr::Index(source);
        let mut axes = Vec::new();
        expr.for_each_leaf(&mut |leaf| {
            if let IndexExpr::Index(a) = leaf
                && !axes.contains(a)
            {
                axes.push(*a);
            }
        });
        let value = self.extents.normalize(expr);
        match axes[..] {
            [a] => {
                let last = self.extents.extent(source).plus(&Polynomial::constant(1), -1);
                let reversed = last.plus(&Polynomial::atom(IndexExpr::Index(a)), -1);
                if value != reversed || !self.extents.same_extent(a, source) {
                    return None;
                }
                inverse.push((a, last.to_expr().minus(here)));
            }
            [a, b] => {
                let matches = |high: AxisId, low: AxisId| {
                    let high = Polynomial::atom(IndexExpr::Index(high)).times(&self.extents.extent(low));
                    value == high.plus(&Polynomial::atom(IndexExpr::Index(low)), 1)
                };
                let (high, low) = if matches(a, b) { (a, b) } else { (b, a) };
                let length = self.extents.extent(high).times(&self.extents.extent(low));
                if !matches(high, low) || length != self.extents.extent(source) {
                    return None;
                }
                let stride = self.extents.extent(low).to_expr();
                inverse.push((high, here.clone().floor_div(stride.clone())));
                inverse.push((low, here.modulo(stride)));
            }
            _ => return None,
        }
        Some(())
    }
}

/// Whether two expressions are quotient and remainder of one division.
fn are_parts(a: &IndexExpr, b: &IndexExpr) -> bool {
    match (a, b) {
        (IndexExpr::FloorDiv(x, d), IndexExpr::Mod(y, e))
        | (IndexExpr::Mod(x, d), IndexExpr::FloorDiv(y, e)) => x == y && d == e,
        _ => false,
    }
}

/// The axes of a node, outermost first: those of the operand with the most, then what others add, outside.
fn layout_of(kernel: &Kernel, id: NodeId, layouts: &[Vec<AxisId>]) -> Vec<AxisId> {
    let node = kernel.node(id);
    let mut order: Vec<AxisId> = Vec::with_capacity(node.ty.axes.len());
    match &node.op {
        Op::Tensor(p) => {
            if let crate::graph::ParamKind::Tensor { axes, .. } = &kernel.param(*p).kind {
                order.extend(axes);
            }
        }
        Op::View { source, map, .. } => {
            for axis in &layouts[source.index()] {
                let Some(expr) = map.get(*axis) else { continue };
                expr.for_each_leaf(&mut |leaf| {
                    if let IndexExpr::Index(a) = leaf
                        && !order.contains(a)
                    {
                        order.push(*a);
                    }
                });
            }
        }
        // Rows, then columns: as matrices are written.
        Op::Reduce { reducer: Reducer::Dot, sources, .. } => {
            for axis in sources.iter().flat_map(|s| &layouts[s.index()]) {
                if node.ty.axes.contains(axis) && !order.contains(axis) {
                    order.push(*axis);
                }
            }
        }
        Op::Map { .. } | Op::Reduce { .. } | Op::CumSum { .. } | Op::Materialize { .. } => {
            let operands = node.op.operands();
            let main = operands.iter().rev().max_by_key(|o| layouts[o.index()].len());
            if let Some(main) = main {
                order.extend(layouts[main.index()].iter().filter(|a| node.ty.axes.contains(a)));
            }
        }
        Op::Scalar(_) | Op::Constant(_) | Op::Index(_) | Op::Extent(_) => {}
    }
    let missing: Vec<AxisId> = node.ty.axes.iter().copied().filter(|a| !order.contains(a)).collect();
    order.splice(0..0, missing);
    order
}

/// Whether a scalar function may fault.
fn function_may_fault(kernel: &Kernel, function: &ScalarFn) -> bool {
    let mut found = false;
    for_each_op(kernel, function, 1, &mut |op, _| {
        use ScalarOp::*;
        // The dtype of an inner operation is not recorded; a division of integers is assumed where one is possible.
        let ints = function.variables.iter().any(|v| v.dtype.is_int());
        found |= ints && matches!(op, Div | Rem | DivEuclid | RemEuclid);
    });
    found
}

/// Calls `f` on every operation of a scalar function with how often it is executed at most, calls inlined.
pub fn for_each_op(kernel: &Kernel, function: &ScalarFn, times: u64, f: &mut impl FnMut(ScalarOp, u64)) {
    function.body.iter().for_each(|s| visit_stmt(kernel, s, times, f));
    function.results.iter().for_each(|e| visit_expr(kernel, e, times, f));
}

fn visit_stmt(kernel: &Kernel, stmt: &Stmt, times: u64, f: &mut impl FnMut(ScalarOp, u64)) {
    match stmt {
        Stmt::Assign { value, .. } => visit_expr(kernel, value, times, f),
        Stmt::If { condition, then, otherwise } => {
            visit_expr(kernel, condition, times, f);
            then.iter().chain(otherwise).for_each(|s| visit_stmt(kernel, s, times, f));
        }
        Stmt::For { start, end, body, .. } => {
            let trips = u64::try_from(end.saturating_sub(*start)).unwrap_or(0);
            body.iter().for_each(|s| visit_stmt(kernel, s, times.saturating_mul(trips), f));
        }
    }
}

fn visit_expr(kernel: &Kernel, expr: &Expr, times: u64, f: &mut impl FnMut(ScalarOp, u64)) {
    match expr {
        Expr::Constant(_) | Expr::Variable(_) => {}
        Expr::Op(op, args) => {
            args.iter().for_each(|a| visit_expr(kernel, a, times, f));
            f(*op, times);
        }
        Expr::Call { function, args, .. } => {
            args.iter().for_each(|a| visit_expr(kernel, a, times, f));
            call_ops(kernel, *function, times, f);
        }
    }
}

fn call_ops(kernel: &Kernel, function: FnId, times: u64, f: &mut impl FnMut(ScalarOp, u64)) {
    let Some(function) = kernel.functions.get(function.index()) else { return };
    function.body.iter().for_each(|s| visit_stmt(kernel, s, times, f));
    function.results.iter().for_each(|e| visit_expr(kernel, e, times, f));
}
