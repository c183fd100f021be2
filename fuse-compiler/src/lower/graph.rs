//! The graph under construction: nodes are appended with their types, leaves are shared.

use super::site::Site;
use crate::diagnostic::Place;
use fuse_ir::dtype::{DType, Value};
use fuse_ir::graph::{Axis, AxisSource, Check, CheckKind, Condition, Kernel, MapFn, Node, Op, Reducer, Type};
use fuse_ir::id::{AxisId, FnId, NodeId, ParamId};
use fuse_ir::index_map::{Extent, IndexExpr, IndexMap};
use fuse_ir::scalar::{Expr, ScalarFn, ScalarOp, Stmt};
use std::collections::{BTreeMap, BTreeSet};

/// The kernel so far, and what is known of its nodes and axes beside it.
#[derive(Default)]
pub(super) struct Graph {
    /// What is built.
    pub(super) kernel: Kernel,
    /// Where each node stands.
    pub(super) places: Vec<Place>,
    /// Whether each axis has a source of its extent yet.
    pub(super) sourced: Vec<bool>,
    /// Whether each node depends on the elements of a tensor parameter.
    stored: Vec<bool>,
    /// Nodes without operands.
    leaves: Vec<NodeId>,
    /// The kernel's copy of each scalar function of the block.
    functions: BTreeMap<FnId, FnId>,
}

/// The most operations of a kernel. Planning takes seconds for as many, and what is inlined twice at each of many levels
/// has no end.
pub(super) const MOST_OPERATIONS: usize = 4096;

impl Graph {
    /// Whether there are more operations than a kernel may have.
    pub(super) fn is_too_large(&self) -> bool {
        self.kernel.nodes.len() > MOST_OPERATIONS
    }

    /// The type of a node.
    pub(super) fn ty(&self, node: NodeId) -> &Type {
        &self.kernel.node(node).ty
    }

    /// The dtype of a node.
    pub(super) fn dtype(&self, node: NodeId) -> DType {
        self.ty(node).dtype
    }

    /// The axes of a node.
    pub(super) fn axes(&self, node: NodeId) -> &[AxisId] {
        &self.ty(node).axes
    }

    /// Whether a node depends on the elements of a tensor parameter.
    pub(super) fn is_stored(&self, node: NodeId) -> bool {
        self.stored[node.index()]
    }

    /// The name of an axis.
    pub(super) fn axis_name(&self, axis: AxisId) -> &str {
        &self.kernel.axis(axis).name
    }

    /// `[M, N]`, for messages.
    pub(super) fn axes_text(&self, axes: &[AxisId]) -> String {
        let names: Vec<&str> = axes.iter().map(|&a| self.axis_name(a)).collect();
        format!("[{}]", names.join(", "))
    }

    /// Adds an axis. Its name is made distinct if another has it.
    pub(super) fn add_axis(&mut self, name: &str, assumed: Option<u64>) -> AxisId {
        let taken = |name: &str| self.kernel.axes.iter().any(|a| a.name == name);
        let mut unique = name.to_owned();
        let mut number = 0;
        while taken(&unique) {
            number += 1;
            unique = format!("{name}.{number}");
        }
        self.kernel.axes.push(Axis { name: unique, source: AxisSource::Shape, assumed });
        self.sourced.push(false);
        AxisId::from_index(self.kernel.axes.len() - 1)
    }

    /// Says where the extent of an axis comes from.
    pub(super) fn set_source(&mut self, axis: AxisId, source: AxisSource) {
        self.kernel.axes[axis.index()].source = source;
        self.sourced[axis.index()] = true;
    }

    /// Records what must hold at a call, or at those where `when` is true, once.
    pub(super) fn add_check(&mut self, kind: CheckKind, when: Option<Condition>, site: &Site) {
        let covers = |c: &Check| c.kind == kind && (c.when.is_none() || c.when == when);
        if !self.kernel.checks.iter().any(covers) {
            self.kernel.checks.push(Check { kind, when, origin: site.origin.clone() });
        }
    }

    /// A value of scalar parameters, extents and constants alone, as an expression of at most `size` parts.
    pub(super) fn as_condition(&self, node: NodeId, size: &mut usize) -> Option<Condition> {
        *size = size.checked_sub(1)?;
        let mut all = |args: &[NodeId]| -> Option<Vec<Condition>> {
            args.iter().map(|&arg| self.as_condition(arg, size)).collect()
        };
        match &self.kernel.node(node).op {
            Op::Constant(value) => Some(Condition::Constant(*value)),
            Op::Scalar(param) => Some(Condition::Param(*param)),
            Op::Extent(extent) => Some(Condition::Extent(extent.clone())),
            Op::Map { function: MapFn::Op(op), args } => Some(Condition::Op(*op, all(args)?)),
            Op::Map { function: MapFn::Call { function, result }, args } => {
                Some(Condition::Call { function: *function, args: all(args)?, result: *result })
            }
            Op::Tensor(_) | Op::Index(_) | Op::View { .. } | Op::Reduce { .. } => None,
            Op::CumSum { .. } | Op::Materialize { .. } => None,
        }
    }

    fn add(&mut self, op: Op, dtype: DType, axes: Vec<AxisId>, site: &Site) -> NodeId {
        let operands = op.operands();
        if operands.is_empty() {
            let same = |n: &&NodeId| self.kernel.node(**n).op == op;
            if let Some(&leaf) = self.leaves.iter().find(same) {
                return leaf;
            }
        }
        let id = NodeId::from_index(self.kernel.nodes.len());
        let stored = matches!(op, Op::Tensor(_)) || operands.iter().any(|&n| self.is_stored(n));
        if operands.is_empty() {
            self.leaves.push(id);
        }
        self.kernel.nodes.push(Node { op, ty: Type { dtype, axes } });
        self.kernel.origins.push(site.origin.clone());
        self.places.push(site.place);
        self.stored.push(stored);
        id
    }

    /// The value of a tensor parameter when the call starts.
    pub(super) fn tensor(&mut self, param: ParamId, dtype: DType, axes: &[AxisId], site: &Site) -> NodeId {
        self.add(Op::Tensor(param), dtype, sorted(axes), site)
    }

    /// A scalar parameter.
    pub(super) fn scalar(&mut self, param: ParamId, dtype: DType, site: &Site) -> NodeId {
        self.add(Op::Scalar(param), dtype, Vec::new(), site)
    }

    /// A literal.
    pub(super) fn constant(&mut self, value: Value, site: &Site) -> NodeId {
        self.add(Op::Constant(value), value.dtype(), Vec::new(), site)
    }

    /// `index(N)`.
    pub(super) fn index(&mut self, axis: AxisId, site: &Site) -> NodeId {
        self.add(Op::Index(axis), DType::I64, vec![axis], site)
    }

    /// `extent(N)`, or what else shapes alone decide.
    pub(super) fn extent(&mut self, extent: Extent, site: &Site) -> NodeId {
        self.add(Op::Extent(extent), DType::I64, Vec::new(), site)
    }

    /// One operation on elements. The caller has checked the dtypes: `None` if they do not fit.
    pub(super) fn map(&mut self, op: ScalarOp, args: &[NodeId], site: &Site) -> Option<NodeId> {
        let dtypes: Vec<DType> = args.iter().map(|&n| self.dtype(n)).collect();
        let dtype = op.result_dtype(&dtypes)?;
        let axes = self.join_axes(args);
        Some(self.add(Op::Map { function: MapFn::Op(op), args: args.to_vec() }, dtype, axes, site))
    }

    /// One result of a scalar function of the kernel.
    pub(super) fn call(
        &mut self,
        function: FnId,
        result: u32,
        dtype: DType,
        args: &[NodeId],
        site: &Site,
    ) -> NodeId {
        let axes = self.join_axes(args);
        let function = MapFn::Call { function, result };
        self.add(Op::Map { function, args: args.to_vec() }, dtype, axes, site)
    }

    /// `a as dtype`; nothing if it is that already.
    pub(super) fn cast(&mut self, node: NodeId, dtype: DType, site: &Site) -> NodeId {
        if self.dtype(node) == dtype {
            return node;
        }
        let axes = self.axes(node).to_vec();
        self.add(Op::Map { function: MapFn::Op(ScalarOp::Cast(dtype)), args: vec![node] }, dtype, axes, site)
    }

    /// A narrow float as f32; anything else as it is.
    pub(super) fn widen(&mut self, node: NodeId, site: &Site) -> NodeId {
        let dtype = self.dtype(node).compute();
        self.cast(node, dtype, site)
    }

    /// `source` read through `map` by a value with these axes.
    pub(super) fn view(
        &mut self,
        source: NodeId,
        map: IndexMap,
        axes: &[AxisId],
        fill: Option<Value>,
        site: &Site,
    ) -> NodeId {
        let dtype = self.dtype(source);
        self.add(Op::View { source, map, fill }, dtype, sorted(axes), site)
    }

    /// The source with further axes, along which it repeats.
    pub(super) fn broadcast(&mut self, source: NodeId, axes: &[AxisId], site: &Site) -> NodeId {
        if axes.iter().all(|a| self.axes(source).contains(a)) {
            return source;
        }
        let mut all: Vec<AxisId> = self.axes(source).to_vec();
        all.extend(axes);
        let map = IndexMap::identity(self.axes(source));
        self.view(source, map, &all, None, site)
    }

    /// A reduction; `dtype` is that of the component.
    pub(super) fn reduce(
        &mut self,
        reducer: Reducer,
        sources: &[NodeId],
        axes: &[AxisId],
        output: (u32, DType),
        site: &Site,
    ) -> NodeId {
        let mut kept = self.join_axes(sources);
        kept.retain(|a| !axes.contains(a));
        let op = Op::Reduce { reducer, sources: sources.to_vec(), axes: axes.to_vec(), output: output.0 };
        self.add(op, output.1, kept, site)
    }

    /// The running sum along an axis.
    pub(super) fn cumsum(&mut self, source: NodeId, axis: AxisId, site: &Site) -> NodeId {
        let ty = self.ty(source).clone();
        self.add(Op::CumSum { source, axis }, ty.dtype, ty.axes, site)
    }

    /// The same value, stored.
    pub(super) fn materialize(&mut self, source: NodeId, site: &Site) -> NodeId {
        let ty = self.ty(source).clone();
        self.add(Op::Materialize { source }, ty.dtype, ty.axes, site)
    }

    /// The union of the axes of some nodes.
    pub(super) fn join_axes(&self, nodes: &[NodeId]) -> Vec<AxisId> {
        let all: BTreeSet<AxisId> = nodes.iter().flat_map(|&n| self.axes(n).iter().copied()).collect();
        all.into_iter().collect()
    }

    /// The kernel's copy of a scalar function of the block and of what it calls.
    pub(super) fn use_function(&mut self, all: &[ScalarFn], function: FnId) -> FnId {
        if let Some(&copy) = self.functions.get(&function) {
            return copy;
        }
        let mut copied = all[function.index()].clone();
        let results = copied.results.iter_mut();
        results.for_each(|e| self.copy_calls(all, e));
        self.copy_calls_of_body(all, &mut copied.body);
        self.kernel.functions.push(copied);
        let copy = FnId::from_index(self.kernel.functions.len() - 1);
        self.functions.insert(function, copy);
        copy
    }

    fn copy_calls_of_body(&mut self, all: &[ScalarFn], body: &mut [Stmt]) {
        for statement in body {
            match statement {
                Stmt::Assign { value, .. } => self.copy_calls(all, value),
                Stmt::If { condition, then, otherwise } => {
                    self.copy_calls(all, condition);
                    self.copy_calls_of_body(all, then);
                    self.copy_calls_of_body(all, otherwise);
                }
                Stmt::For { body, .. } => self.copy_calls_of_body(all, body),
            }
        }
    }

    fn copy_calls(&mut self, all: &[ScalarFn], expr: &mut Expr) {
        match expr {
            Expr::Constant(_) | Expr::Variable(_) => {}
            Expr::Op(_, args) => args.iter_mut().for_each(|e| self.copy_calls(all, e)),
            Expr::Call { function, args, .. } => {
                *function = self.use_function(all, *function);
                args.iter_mut().for_each(|e| self.copy_calls(all, e));
            }
        }
    }

    /// Adds a scalar function that no item of the block is.
    pub(super) fn add_function(&mut self, function: ScalarFn) -> FnId {
        self.kernel.functions.push(function);
        FnId::from_index(self.kernel.functions.len() - 1)
    }

    /// The product of the extents of some axes.
    pub(super) fn count(axes: &[AxisId]) -> Extent {
        axes.iter().fold(IndexExpr::Const(1), |n, &a| match n {
            IndexExpr::Const(1) => IndexExpr::Extent(a),
            n => n.times(IndexExpr::Extent(a)),
        })
    }
}

/// A list of axes as a set.
pub(super) fn sorted(axes: &[AxisId]) -> Vec<AxisId> {
    let set: BTreeSet<AxisId> = axes.iter().copied().collect();
    set.into_iter().collect()
}
