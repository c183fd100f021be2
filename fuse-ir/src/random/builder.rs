//! Kernels by hand, for tests: types are inferred, so that a test states operations only.

use crate::dtype::{DType, Value};
use crate::graph::{
    Axis, AxisSource, Kernel, MapFn, Node, Op, Origin, Output, OutputTarget, Param, ParamKind, Reducer, Type,
    infer_type,
};
use crate::id::{AxisId, FnId, NodeId, ParamId};
use crate::index_map::{Extent, IndexExpr, IndexMap};
use crate::scalar::{ScalarFn, ScalarOp};

/// Builds a kernel node by node. What it builds need not verify: `verify_graph` says.
#[derive(Clone, Debug, Default)]
pub struct KernelBuilder {
    /// The kernel so far.
    pub kernel: Kernel,
}

impl KernelBuilder {
    /// An empty kernel.
    pub fn new(name: &str) -> Self {
        KernelBuilder { kernel: Kernel { name: name.to_owned(), ..Kernel::default() } }
    }

    fn push_axis(&mut self, name: &str, source: AxisSource) -> AxisId {
        self.kernel.axes.push(Axis { name: name.to_owned(), source, assumed: None });
        AxisId::from_index(self.kernel.axes.len() - 1)
    }

    /// An axis whose extent a parameter's shape gives.
    pub fn axis(&mut self, name: &str) -> AxisId {
        self.push_axis(name, AxisSource::Shape)
    }

    /// An axis of a constant extent.
    pub fn static_axis(&mut self, name: &str, extent: u64) -> AxisId {
        self.push_axis(name, AxisSource::Static(extent))
    }

    /// An axis whose extent follows from others.
    pub fn derived_axis(&mut self, name: &str, extent: Extent) -> AxisId {
        self.push_axis(name, AxisSource::Derived(extent))
    }

    fn push_param(&mut self, name: &str, kind: ParamKind) -> ParamId {
        self.kernel.params.push(Param { name: name.to_owned(), kind });
        ParamId::from_index(self.kernel.params.len() - 1)
    }

    /// A tensor parameter and the node of its value.
    pub fn tensor(&mut self, name: &str, dtype: DType, axes: &[AxisId]) -> NodeId {
        let param = self.push_param(name, ParamKind::Tensor { dtype, axes: axes.to_vec(), mutable: false });
        self.push(Op::Tensor(param))
    }

    /// A `&mut` tensor parameter and the node of the value that it starts with.
    pub fn tensor_mut(&mut self, name: &str, dtype: DType, axes: &[AxisId]) -> (ParamId, NodeId) {
        let param = self.push_param(name, ParamKind::Tensor { dtype, axes: axes.to_vec(), mutable: true });
        (param, self.push(Op::Tensor(param)))
    }

    /// A scalar parameter and its node.
    pub fn scalar(&mut self, name: &str, dtype: DType) -> (ParamId, NodeId) {
        let param = self.push_param(name, ParamKind::Scalar { dtype });
        (param, self.push(Op::Scalar(param)))
    }

    /// A node of an inferred type. Of an operation that has none the type is f32 without axes.
    pub fn push(&mut self, op: Op) -> NodeId {
        let label = String::new();
        self.push_typed(op, Vec::new(), label)
    }

    fn push_typed(&mut self, op: Op, axes: Vec<AxisId>, label: String) -> NodeId {
        let id = NodeId::from_index(self.kernel.nodes.len());
        let node = Node { op, ty: Type { dtype: DType::F32, axes } };
        self.kernel.nodes.push(node.clone());
        if let Ok(ty) = infer_type(&self.kernel, id, &node) {
            self.kernel.nodes[id.index()].ty = ty;
        }
        self.kernel.origins.push(Origin { label, ..Origin::default() });
        id
    }

    /// A literal.
    pub fn constant(&mut self, value: Value) -> NodeId {
        self.push(Op::Constant(value))
    }

    /// An operation on elements.
    pub fn map(&mut self, op: ScalarOp, args: &[NodeId]) -> NodeId {
        self.push(Op::Map { function: MapFn::Op(op), args: args.to_vec() })
    }

    /// A function on elements; `result` picks one of its results.
    pub fn call(&mut self, function: FnId, result: u32, args: &[NodeId]) -> NodeId {
        self.push(Op::Map { function: MapFn::Call { function, result }, args: args.to_vec() })
    }

    /// A scalar function.
    pub fn function(&mut self, function: ScalarFn) -> FnId {
        self.kernel.functions.push(function);
        FnId::from_index(self.kernel.functions.len() - 1)
    }

    /// A view with these axes.
    pub fn view(&mut self, source: NodeId, axes: &[AxisId], map: IndexMap, fill: Option<Value>) -> NodeId {
        let mut axes = axes.to_vec();
        axes.sort();
        self.push_typed(Op::View { source, map, fill }, axes, String::new())
    }

    /// A reduction of one source.
    pub fn reduce(&mut self, reducer: Reducer, source: NodeId, axes: &[AxisId]) -> NodeId {
        self.push(Op::Reduce { reducer, sources: vec![source], axes: axes.to_vec(), output: 0 })
    }

    /// The next component of the result.
    pub fn result(&mut self, value: NodeId, axes: &[AxisId]) {
        let index = self.kernel.outputs.len() as u32;
        let target = OutputTarget::Result { index, axes: axes.to_vec() };
        self.kernel.outputs.push(Output { value, target });
    }

    /// A write to a `&mut` parameter, at its own positions.
    pub fn store(&mut self, param: ParamId, value: NodeId) {
        let region = match &self.kernel.param(param).kind {
            ParamKind::Tensor { axes, .. } => axes.iter().map(|&a| IndexExpr::Index(a)).collect(),
            ParamKind::Scalar { .. } | ParamKind::Axis { .. } => Vec::new(),
        };
        self.store_at(param, value, region);
    }

    /// A write to a region of a `&mut` parameter.
    pub fn store_at(&mut self, param: ParamId, value: NodeId, region: Vec<IndexExpr>) {
        self.kernel.outputs.push(Output { value, target: OutputTarget::Param { param, region } });
    }

    /// The kernel.
    pub fn build(self) -> Kernel {
        self.kernel
    }
}
