//! Kernels of the tests: a thin layer over the builder, one method for each operation the patterns need.

use fuse_ir::dtype::{DType, Value};
use fuse_ir::graph::{Kernel, Op, Reducer};
use fuse_ir::id::{AxisId, NodeId, ParamId};
use fuse_ir::index_map::{Bound, IndexExpr, IndexMap};
use fuse_ir::random::KernelBuilder;
use fuse_ir::scalar::ScalarOp;

/// A kernel under construction.
pub(crate) struct Build {
    pub(crate) b: KernelBuilder,
}

impl Build {
    pub(crate) fn new(name: &str) -> Self {
        Build { b: KernelBuilder::new(name) }
    }

    pub(crate) fn axis(&mut self, name: &str) -> AxisId {
        self.b.axis(name)
    }

    /// An axis of an assumed extent.
    pub(crate) fn assumed(&mut self, name: &str, extent: u64) -> AxisId {
        let axis = self.b.axis(name);
        self.b.kernel.axes[axis.index()].assumed = Some(extent);
        axis
    }

    pub(crate) fn f32(&mut self, name: &str, axes: &[AxisId]) -> NodeId {
        self.b.tensor(name, DType::F32, axes)
    }

    pub(crate) fn f32_mut(&mut self, name: &str, axes: &[AxisId]) -> (ParamId, NodeId) {
        self.b.tensor_mut(name, DType::F32, axes)
    }

    pub(crate) fn number(&mut self, x: f32) -> NodeId {
        self.b.constant(Value::F32(x))
    }

    pub(crate) fn integer(&mut self, x: i64) -> NodeId {
        self.b.constant(Value::I64(x))
    }

    pub(crate) fn map(&mut self, op: ScalarOp, args: &[NodeId]) -> NodeId {
        self.b.map(op, args)
    }

    pub(crate) fn add(&mut self, a: NodeId, b: NodeId) -> NodeId {
        self.map(ScalarOp::Add, &[a, b])
    }

    pub(crate) fn sub(&mut self, a: NodeId, b: NodeId) -> NodeId {
        self.map(ScalarOp::Sub, &[a, b])
    }

    pub(crate) fn mul(&mut self, a: NodeId, b: NodeId) -> NodeId {
        self.map(ScalarOp::Mul, &[a, b])
    }

    pub(crate) fn div(&mut self, a: NodeId, b: NodeId) -> NodeId {
        self.map(ScalarOp::Div, &[a, b])
    }

    pub(crate) fn unary(&mut self, op: ScalarOp, a: NodeId) -> NodeId {
        self.map(op, &[a])
    }

    pub(crate) fn relu(&mut self, a: NodeId) -> NodeId {
        let zero = self.number(0.0);
        self.map(ScalarOp::Max, &[a, zero])
    }

    pub(crate) fn silu(&mut self, a: NodeId) -> NodeId {
        let s = self.unary(ScalarOp::Sigmoid, a);
        self.mul(a, s)
    }

    pub(crate) fn sum(&mut self, a: NodeId, axes: &[AxisId]) -> NodeId {
        self.b.reduce(Reducer::Sum, a, axes)
    }

    pub(crate) fn dot(&mut self, a: NodeId, b: NodeId, axes: &[AxisId]) -> NodeId {
        self.b.push(Op::Reduce { reducer: Reducer::Dot, sources: vec![a, b], axes: axes.to_vec(), output: 0 })
    }

    pub(crate) fn max(&mut self, a: NodeId, axes: &[AxisId]) -> NodeId {
        self.b.reduce(Reducer::Max, a, axes)
    }

    /// Sum over the extent, as the language lowers `mean`.
    pub(crate) fn mean(&mut self, a: NodeId, axes: &[AxisId]) -> NodeId {
        let sum = self.sum(a, axes);
        let extent = axes.iter().fold(IndexExpr::Const(1), |e, a| e.times(IndexExpr::extent(*a)));
        let count = self.b.push(Op::Extent(extent));
        let count = self.map(ScalarOp::Cast(DType::F32), &[count]);
        self.div(sum, count)
    }

    /// As the language lowers `softmax`.
    pub(crate) fn softmax(&mut self, x: NodeId, axes: &[AxisId]) -> NodeId {
        let m = self.max(x, axes);
        let (low, zero, one) = (self.number(f32::NEG_INFINITY), self.number(0.0), self.number(1.0));
        let empty = self.map(ScalarOp::Eq, &[m, low]);
        let m = self.map(ScalarOp::Select, &[empty, zero, m]);
        let shifted = self.sub(x, m);
        let e = self.unary(ScalarOp::Exp, shifted);
        let s = self.sum(e, axes);
        let nothing = self.map(ScalarOp::Eq, &[s, zero]);
        let s = self.map(ScalarOp::Select, &[nothing, one, s]);
        self.div(e, s)
    }

    pub(crate) fn layer_norm(&mut self, x: NodeId, axis: AxisId) -> NodeId {
        let mean = self.mean(x, &[axis]);
        let centred = self.sub(x, mean);
        let square = self.mul(centred, centred);
        let var = self.mean(square, &[axis]);
        let eps = self.number(1e-5);
        let var = self.add(var, eps);
        let scale = self.unary(ScalarOp::Rsqrt, var);
        self.mul(centred, scale)
    }

    pub(crate) fn cumsum(&mut self, source: NodeId, axis: AxisId) -> NodeId {
        self.b.push(Op::CumSum { source, axis })
    }

    /// An axis to gather from: as long as the indices of the tests reach, less one.
    pub(crate) fn static_vocabulary(&mut self) -> AxisId {
        self.b.static_axis("V", 2)
    }

    /// `x.slice(axis, start, to)`.
    pub(crate) fn slice(&mut self, x: NodeId, axis: AxisId, start: i64, to: AxisId) -> NodeId {
        self.remap(x, &[(axis, IndexExpr::index(to).plus(start))], &[], None)
    }

    /// The source with some positions replaced.
    pub(crate) fn remap(
        &mut self,
        x: NodeId,
        replaced: &[(AxisId, IndexExpr)],
        bounds: &[Bound],
        fill: Option<Value>,
    ) -> NodeId {
        let mut indices = Vec::new();
        let mut axes: Vec<AxisId> = Vec::new();
        for axis in self.b.kernel.node(x).ty.axes.clone() {
            let expr = replaced.iter().find(|(a, _)| *a == axis).map(|(_, e)| e.clone());
            let expr = expr.unwrap_or(IndexExpr::Index(axis));
            expr.for_each_leaf(&mut |leaf| {
                if let IndexExpr::Index(a) = leaf
                    && !axes.contains(a)
                {
                    axes.push(*a);
                }
                if let IndexExpr::Indirect(n) = leaf {
                    axes.extend(
                        self.b
                            .kernel
                            .node(*n)
                            .ty
                            .axes
                            .iter()
                            .filter(|a| !axes.contains(a))
                            .copied()
                            .collect::<Vec<_>>(),
                    );
                }
            });
            indices.push((axis, expr));
        }
        self.b.view(x, &axes, IndexMap { indices, bounds: bounds.to_vec() }, fill)
    }

    pub(crate) fn result(&mut self, value: NodeId, axes: &[AxisId]) {
        self.b.result(value, axes);
    }

    pub(crate) fn build(self) -> Kernel {
        let kernel = self.b.build();
        fuse_ir::graph::verify_graph(&kernel).expect("the test's kernel verifies");
        kernel
    }
}
