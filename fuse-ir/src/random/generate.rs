//! Random kernels over the whole graph language.

use super::functions::{
    BOOL_BINARY, COMPARE, FLOAT_BINARY, FLOAT_UNARY, INT_BINARY, random_combiner, random_function,
};
use super::inputs::{Filling, random_array, random_value};
use super::{Case, KernelBuilder, Prng};
use crate::dtype::{DType, Value};
use crate::eval::{Input, Inputs};
use crate::graph::{Axis, AxisSource, Check, CheckKind, Op, Origin, OutputTarget, Param, ParamKind, Reducer};
use crate::id::{AxisId, NodeId, ParamId};
use crate::index_map::{Bound, IndexExpr, IndexMap};
use crate::scalar::ScalarOp;

/// The most elements that a node has, except where a long axis is reduced.
const MOST_ELEMENTS: usize = 3000;
/// The most elements in a kernel with a long axis.
const MOST_ELEMENTS_LONG: usize = 40_000;

/// A kernel while it grows, with the extents and inputs of its one call.
pub(super) struct Generator {
    pub(super) rng: Prng,
    pub(super) b: KernelBuilder,
    /// The extent of every axis at the call.
    pub(super) extents: Vec<usize>,
    /// What is passed for every parameter.
    pub(super) inputs: Vec<Input>,
    /// Nodes that others may read.
    pub(super) pool: Vec<NodeId>,
    /// Integer scalars and their values.
    pub(super) integers: Vec<(ParamId, i64)>,
    filling: Filling,
    most: usize,
}

/// The case of a seed: a kernel that verifies, with inputs that bind.
pub fn random_case(seed: u64) -> Case {
    let mut rng = Prng::new(seed);
    let long = rng.one_in(12);
    let mut g = Generator {
        b: KernelBuilder::new("random"),
        extents: Vec::new(),
        inputs: Vec::new(),
        pool: Vec::new(),
        integers: Vec::new(),
        filling: Filling { specials: rng.one_in(2) },
        most: if long { MOST_ELEMENTS_LONG } else { MOST_ELEMENTS },
        rng,
    };
    g.declare_interface(long);
    let steps = 2 + g.rng.below(22);
    let mut writable: Vec<(ParamId, NodeId)> = g.mutable_params();
    for _ in 0..steps {
        g.grow();
        if !writable.is_empty() && g.rng.one_in(6) {
            let (param, old) = writable.swap_remove(0);
            g.write_param(param, old);
        }
    }
    for (param, old) in writable {
        if g.rng.one_in(2) {
            g.write_param(param, old);
        }
    }
    g.choose_results();
    let mut kernel = g.b.build();
    // The builder takes outputs as they come; results stand first, in order.
    kernel.outputs.sort_by_key(|o| match &o.target {
        OutputTarget::Result { index, .. } => (0, *index),
        OutputTarget::Param { param, .. } => (1, param.0),
    });
    kernel.checks.dedup();
    let case = Case { seed, kernel, inputs: Inputs(g.inputs) };
    super::shrink::prune(case)
}

impl Generator {
    fn declare_interface(&mut self, long: bool) {
        let count = 1 + self.rng.below(3);
        for i in 0..count {
            let common = [1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 17];
            let odd = [0, 1, 31, 63, 64, 65, 127, 128];
            let mut extent = if self.rng.one_in(4) { self.rng.pick(&odd) } else { self.rng.pick(&common) };
            if long && i == 0 {
                extent = self.rng.pick(&[4095, 4096, 4097, 8200]);
            }
            let name = ["M", "N", "K"][i];
            let axis = self.b.axis(name);
            // What the planner assumes decides what it does, and need not be what is passed.
            if self.rng.one_in(3) {
                self.b.kernel.axes[axis.index()].assumed = Some(self.rng.pick(&[1, 8, 64, 1024, 65536]));
            }
            self.extents.push(extent);
        }
        let tensors = 1 + self.rng.below(4);
        for i in 0..tensors {
            self.declare_tensor(&format!("x{i}"), None);
        }
        for i in 0..self.rng.below(3) {
            let dtype = self.rng.pick(&[DType::F32, DType::I64, DType::U32, DType::I32, DType::F16]);
            let (param, node) = self.b.scalar(&format!("s{i}"), dtype);
            let value = random_value(&mut self.rng, dtype, Filling { specials: false });
            self.inputs.push(Input::Scalar(value));
            self.pool.push(node);
            if let Some(x) = value.as_i128() {
                self.integers.push((param, x as i64));
            }
        }
        for a in 0..count {
            let axis = AxisId::from_index(a);
            let covered = self.b.kernel.params.iter().any(|p| match &p.kind {
                ParamKind::Tensor { axes, .. } => axes.contains(&axis),
                ParamKind::Scalar { .. } | ParamKind::Axis { .. } => false,
            });
            if covered {
                continue;
            }
            match self.rng.below(3) {
                0 => self.b.kernel.axes[a].source = AxisSource::Static(self.extents[a] as u64),
                1 => {
                    let name = format!("n{a}");
                    let param = ParamId::from_index(self.b.kernel.params.len());
                    self.b.kernel.params.push(Param { name, kind: ParamKind::Axis { axis } });
                    self.b.kernel.axes[a].source = AxisSource::Host(param);
                    self.inputs.push(Input::Axis(self.extents[a]));
                }
                _ => self.declare_tensor(&format!("y{a}"), Some(axis)),
            }
        }
    }

    /// A tensor over some axes in some order, of some dtype, sometimes `&mut`.
    fn declare_tensor(&mut self, name: &str, with: Option<AxisId>) {
        let all: Vec<AxisId> = (0..self.extents.len()).map(AxisId::from_index).collect();
        let mut axes: Vec<AxisId> = Vec::new();
        for a in self.rng.shuffled(&all) {
            if with == Some(a) || (!self.rng.one_in(3) && self.size(&axes) * self.extent(a) <= self.most) {
                axes.push(a);
            }
        }
        let common = [DType::F32, DType::F32, DType::F32, DType::F16, DType::Bf16, DType::I64, DType::I32];
        let dtype = if self.rng.one_in(4) { self.rng.pick(&DType::ALL) } else { self.rng.pick(&common) };
        let node = if self.rng.one_in(4) {
            self.b.tensor_mut(name, dtype, &axes).1
        } else {
            self.b.tensor(name, dtype, &axes)
        };
        let shape: Vec<usize> = axes.iter().map(|&a| self.extent(a)).collect();
        let array = random_array(&mut self.rng, dtype, &shape, self.filling);
        self.inputs.push(Input::Tensor(array));
        self.pool.push(node);
    }

    fn mutable_params(&self) -> Vec<(ParamId, NodeId)> {
        let mutable = |&n: &NodeId| match self.b.kernel.node(n).op {
            Op::Tensor(p) => match self.b.kernel.param(p).kind {
                ParamKind::Tensor { mutable: true, .. } => Some((p, n)),
                ParamKind::Tensor { .. } | ParamKind::Scalar { .. } | ParamKind::Axis { .. } => None,
            },
            _ => None,
        };
        self.pool.iter().filter_map(mutable).collect()
    }

    pub(super) fn extent(&self, axis: AxisId) -> usize {
        self.extents[axis.index()]
    }

    pub(super) fn size(&self, axes: &[AxisId]) -> usize {
        axes.iter().map(|&a| self.extent(a)).product()
    }

    pub(super) fn axes(&self, node: NodeId) -> Vec<AxisId> {
        self.b.kernel.node(node).ty.axes.clone()
    }

    pub(super) fn dtype(&self, node: NodeId) -> DType {
        self.b.kernel.node(node).ty.dtype
    }

    pub(super) fn join(&self, nodes: &[NodeId]) -> Vec<AxisId> {
        let mut axes: Vec<AxisId> = nodes.iter().flat_map(|&n| self.axes(n)).collect();
        axes.sort();
        axes.dedup();
        axes
    }

    pub(super) fn fits(&self, axes: &[AxisId]) -> bool {
        axes.len() <= 5 && self.size(axes) <= self.most
    }

    /// A new axis, given by an expression and its value.
    pub(super) fn new_axis(&mut self, extent: IndexExpr, value: usize) -> AxisId {
        let name = format!("A{}", self.extents.len());
        self.extents.push(value);
        self.b.kernel.axes.push(Axis { name, source: AxisSource::Derived(extent), assumed: None });
        AxisId::from_index(self.extents.len() - 1)
    }

    pub(super) fn check(&mut self, kind: CheckKind) {
        self.b.kernel.checks.push(Check { kind, when: None, origin: Origin::default() });
    }

    /// A node that others may read; later ones more often.
    pub(super) fn pick_node(&mut self) -> NodeId {
        let n = self.pool.len();
        let i = if self.rng.one_in(2) { n - 1 - self.rng.below(n.min(4)) } else { self.rng.below(n) };
        self.pool[i]
    }

    pub(super) fn cast(&mut self, node: NodeId, dtype: DType) -> NodeId {
        if self.dtype(node) == dtype { node } else { self.b.map(ScalarOp::Cast(dtype), &[node]) }
    }

    /// The node as it is computed with: narrow floats widened.
    fn widened(&mut self, node: NodeId) -> NodeId {
        let dtype = self.dtype(node).compute();
        self.cast(node, dtype)
    }

    fn random_constant(&mut self, dtype: DType) -> NodeId {
        let value = random_value(&mut self.rng, dtype, self.filling);
        self.b.constant(value)
    }

    /// A second operand of `dtype` for a node over `axes`; a constant where none fits.
    fn partner(&mut self, axes: &[AxisId], dtype: DType) -> NodeId {
        for _ in 0..4 {
            let n = self.pick_node();
            let mut all = self.axes(n);
            all.extend(axes);
            all.sort();
            all.dedup();
            if self.fits(&all) {
                return self.cast(n, dtype);
            }
        }
        self.random_constant(dtype)
    }

    /// Adds one operation.
    fn grow(&mut self) {
        let node = match self.rng.below(20) {
            0..=6 => self.grow_map(),
            7 => self.grow_select(),
            8 => self.grow_cast(),
            9 => self.grow_call(),
            10..=12 => self.grow_view(),
            13 | 14 => self.grow_reduce(),
            15 if self.rng.one_in(2) => self.grow_reduce(),
            15 => self.grow_dot(),
            16 => self.grow_user_reduce(),
            17 => self.grow_cumsum(),
            18 => self.grow_leaf(),
            _ => self.grow_softmax(),
        };
        if let Some(node) = node {
            self.pool.push(node);
        }
    }

    fn grow_map(&mut self) -> Option<NodeId> {
        let a = self.pick_node();
        let a = self.widened(a);
        let (dtype, axes) = (self.dtype(a), self.axes(a));
        if dtype.is_float() && self.rng.one_in(3) {
            let op = self.rng.pick(&FLOAT_UNARY);
            return Some(self.b.map(op, &[a]));
        }
        let b = self.partner(&axes, dtype);
        let op = match dtype {
            _ if self.rng.one_in(6) => self.rng.pick(&COMPARE),
            DType::Bool => self.rng.pick(&BOOL_BINARY),
            _ if dtype.is_float() => self.rng.pick(&FLOAT_BINARY),
            _ => self.rng.pick(&INT_BINARY),
        };
        if dtype.is_float() && self.rng.one_in(12) {
            let axes = self.join(&[a, b]);
            let c = self.partner(&axes, dtype);
            let op = if self.rng.one_in(2) { ScalarOp::MulAdd } else { ScalarOp::Clamp };
            return Some(self.b.map(op, &[a, b, c]));
        }
        if dtype.is_int() && self.rng.one_in(12) {
            let count = self.cast(b, DType::U32);
            let op = self.rng.pick(&[ScalarOp::Shl, ScalarOp::Shr, ScalarOp::Pow]);
            return Some(self.b.map(op, &[a, count]));
        }
        Some(if self.rng.one_in(2) { self.b.map(op, &[a, b]) } else { self.b.map(op, &[b, a]) })
    }

    fn grow_select(&mut self) -> Option<NodeId> {
        let a = self.pick_node();
        let (dtype, axes) = (self.dtype(a), self.axes(a));
        let b = self.partner(&axes, dtype);
        let axes = self.join(&[a, b]);
        let condition = self.partner(&axes, DType::Bool);
        Some(self.b.map(ScalarOp::Select, &[condition, a, b]))
    }

    fn grow_cast(&mut self) -> Option<NodeId> {
        let a = self.pick_node();
        let to = self.rng.pick(&DType::ALL);
        Some(self.b.map(ScalarOp::Cast(to), &[a]))
    }

    fn grow_call(&mut self) -> Option<NodeId> {
        if self.b.kernel.functions.is_empty() || self.rng.one_in(2) {
            let f = random_function(&mut self.rng, &self.b.kernel.functions);
            self.b.function(f);
        }
        let function = self.rng.below(self.b.kernel.functions.len());
        let callee = &self.b.kernel.functions[function];
        let (dtypes, results) = (callee.parameter_dtypes(), callee.results.len());
        let mut args: Vec<NodeId> = Vec::new();
        for dtype in dtypes {
            let axes = self.join(&args);
            let arg = self.partner(&axes, dtype);
            args.push(arg);
        }
        let result = self.rng.below(results) as u32;
        Some(self.b.call(crate::id::FnId::from_index(function), result, &args))
    }

    /// One to all of the node's axes, in some order.
    fn pick_axes(&mut self, node: NodeId) -> Vec<AxisId> {
        let axes = self.axes(node);
        let axes = self.rng.shuffled(&axes);
        let count = if self.rng.one_in(3) { self.rng.below(axes.len()) + 1 } else { 1 };
        axes[..count.min(axes.len())].to_vec()
    }

    fn grow_reduce(&mut self) -> Option<NodeId> {
        let a = self.pick_node();
        let axes = self.pick_axes(a);
        if axes.is_empty() {
            return None;
        }
        let empty = self.size(&axes) == 0;
        let dtype = self.dtype(a);
        let kinds = if empty { 3 } else { 6 };
        let reducer = match self.rng.below(kinds) {
            0 | 1 => Reducer::Sum,
            2 if self.rng.one_in(2) => Reducer::Prod,
            2 if self.rng.one_in(2) => Reducer::Any,
            2 => Reducer::All,
            3 => Reducer::Max,
            4 => Reducer::Min,
            _ if self.rng.one_in(2) => Reducer::ArgMax,
            _ => Reducer::ArgMin,
        };
        let a = match reducer {
            Reducer::Any | Reducer::All => self.cast(a, DType::Bool),
            Reducer::Sum | Reducer::Prod | Reducer::Dot => self.cast(a, dtype.accumulator()),
            Reducer::Max | Reducer::Min | Reducer::ArgMax | Reducer::ArgMin | Reducer::User { .. } => {
                let to = if dtype == DType::Bool { DType::I32 } else { dtype.compute() };
                self.cast(a, to)
            }
        };
        if matches!(reducer, Reducer::Max | Reducer::Min | Reducer::ArgMax | Reducer::ArgMin) {
            for &axis in &axes {
                self.check(CheckKind::NotEmpty { op: "max".to_owned(), axis });
            }
        }
        Some(self.b.reduce(reducer, a, &axes))
    }

    /// `a.dot(b, axes)`, of what shares an axis and of what is renamed so that it does.
    fn grow_dot(&mut self) -> Option<NodeId> {
        let a = self.pick_node();
        let dtype = self.dtype(a).accumulator();
        let axes = self.pick_axes(a);
        for _ in 0..6 {
            let b = self.pick_node();
            let mut all = self.axes(a);
            all.extend(self.axes(b));
            all.sort();
            all.dedup();
            let common: Vec<AxisId> = axes.iter().copied().filter(|x| self.axes(b).contains(x)).collect();
            if common.is_empty() || !self.fits(&all) {
                continue;
            }
            let sources = vec![self.cast(a, dtype), self.cast(b, dtype)];
            return Some(self.b.push(Op::Reduce { reducer: Reducer::Dot, sources, axes: common, output: 0 }));
        }
        None
    }

    fn grow_user_reduce(&mut self) -> Option<NodeId> {
        let a = self.pick_node();
        let axes = self.pick_axes(a);
        if axes.is_empty() {
            return None;
        }
        let (f, identity) = random_combiner(&mut self.rng);
        let mut sources = vec![self.cast(a, DType::F32)];
        if identity.len() == 2 {
            let second = if self.rng.one_in(2) {
                self.b.push(Op::Index(axes[0]))
            } else {
                let axes = self.axes(a);
                self.partner(&axes, DType::I64)
            };
            sources.push(second);
        }
        let combine = self.b.function(f);
        let reducer = Reducer::User { combine, identity, ordered: self.rng.one_in(2) };
        let count = sources.len();
        let mut last = None;
        for output in 0..count {
            if output == 0 || self.rng.one_in(2) {
                let op = Op::Reduce {
                    reducer: reducer.clone(),
                    sources: sources.clone(),
                    axes: axes.clone(),
                    output: output as u32,
                };
                let node = self.b.push(op);
                self.pool.push(node);
                last = Some(node);
            }
        }
        last
    }

    fn grow_cumsum(&mut self) -> Option<NodeId> {
        let a = self.pick_node();
        let axis = *self.pick_axes(a).first()?;
        let to = self.dtype(a).accumulator();
        let source = self.cast(a, to);
        Some(self.b.push(Op::CumSum { source, axis }))
    }

    fn grow_leaf(&mut self) -> Option<NodeId> {
        let axis = AxisId::from_index(self.rng.below(self.extents.len()));
        Some(match self.rng.below(4) {
            0 => self.b.push(Op::Index(axis)),
            1 => self.b.push(Op::Extent(IndexExpr::extent(axis).times(2).plus(1))),
            2 => {
                let source = self.pick_node();
                self.b.push(Op::Materialize { source })
            }
            _ => {
                let dtype = self.rng.pick(&DType::ALL);
                self.random_constant(dtype)
            }
        })
    }

    /// The pattern of a normalised row, which planners have most to say about.
    fn grow_softmax(&mut self) -> Option<NodeId> {
        let a = self.pick_node();
        let axis = *self.pick_axes(a).first()?;
        if self.extent(axis) == 0 {
            return None;
        }
        let x = self.cast(a, DType::F32);
        self.check(CheckKind::NotEmpty { op: "max".to_owned(), axis });
        let greatest = self.b.reduce(Reducer::Max, x, &[axis]);
        let centred = self.b.map(ScalarOp::Sub, &[x, greatest]);
        let e = self.b.map(ScalarOp::Exp, &[centred]);
        let total = self.b.reduce(Reducer::Sum, e, &[axis]);
        if self.rng.one_in(3) {
            self.pool.push(total);
        }
        Some(self.b.map(ScalarOp::Div, &[e, total]))
    }

    /// `*p = ..` or `p.slice(..) = ..`; what reads it later sees the new value.
    fn write_param(&mut self, param: ParamId, old: NodeId) {
        let ParamKind::Tensor { dtype, axes, .. } = self.b.kernel.param(param).kind.clone() else { return };
        let value = self.pick_node();
        let partial = !axes.is_empty() && self.rng.one_in(2);
        if !partial {
            let value = self.cast(value, dtype);
            let Some(value) = self.with_axes(value, &axes) else { return };
            self.b.store(param, value);
            self.pool.push(value);
            return;
        }
        let sliced = self.rng.below(axes.len());
        let (axis, extent) = (axes[sliced], self.extent(axes[sliced]));
        let start = self.rng.below(extent + 1);
        let length = self.rng.below(extent - start + 1);
        let part = self.new_axis(IndexExpr::Const(length as i64), length);
        let mut of_value = axes.clone();
        of_value[sliced] = part;
        let value = self.cast(value, dtype);
        let Some(value) = self.with_axes(value, &of_value) else { return };
        let start = IndexExpr::Const(start as i64);
        let mut region: Vec<IndexExpr> = axes.iter().map(|&a| IndexExpr::index(a)).collect();
        region[sliced] = IndexExpr::index(part).plus(start.clone());
        self.b.store_at(param, value, region);
        // new = select(in the region, value moved there, old)
        let at = IndexExpr::index(axis).minus(start);
        let bound = Bound { expr: at.clone(), extent: IndexExpr::extent(part) };
        let mut indices: Vec<(AxisId, IndexExpr)> =
            of_value.iter().map(|&a| (a, if a == part { at.clone() } else { IndexExpr::index(a) })).collect();
        indices.sort();
        let map = IndexMap { indices, bounds: vec![bound.clone()] };
        let moved = self.b.view(value, &axes, map, Some(Value::zero(dtype)));
        let truth = self.b.constant(Value::Bool(true));
        let map = IndexMap { indices: Vec::new(), bounds: vec![bound] };
        let inside = self.b.view(truth, &[axis], map, Some(Value::Bool(false)));
        let new = self.b.map(ScalarOp::Select, &[inside, moved, old]);
        self.pool.push(new);
    }

    /// The node reduced along axes that are not wanted and broadcast along those that it lacks.
    fn with_axes(&mut self, node: NodeId, wanted: &[AxisId]) -> Option<NodeId> {
        let mut node = node;
        for a in self.axes(node) {
            if !wanted.contains(&a) {
                if self.extent(a) == 0 {
                    return None;
                }
                let at = IndexExpr::Const(self.rng.below(self.extent(a)) as i64);
                node = self.fix_axis(node, a, at);
            }
        }
        let have = self.axes(node);
        if wanted.iter().all(|a| have.contains(a)) {
            return Some(node);
        }
        Some(self.b.view(node, wanted, IndexMap::identity(&have), None))
    }

    /// `at(axis, i)`.
    pub(super) fn fix_axis(&mut self, node: NodeId, axis: AxisId, at: IndexExpr) -> NodeId {
        self.check(CheckKind::InBounds {
            op: "at".to_owned(),
            axis,
            start: at.clone(),
            length: IndexExpr::Const(1),
        });
        let axes = self.axes(node);
        let position = |a: AxisId| if a == axis { at.clone() } else { IndexExpr::index(a) };
        let indices = axes.iter().map(|&a| (a, position(a))).collect();
        let rest: Vec<AxisId> = axes.into_iter().filter(|&a| a != axis).collect();
        self.b.view(node, &rest, IndexMap { indices, bounds: Vec::new() }, None)
    }

    fn choose_results(&mut self) {
        let mut read = vec![false; self.b.kernel.nodes.len()];
        for node in &self.b.kernel.nodes {
            for operand in node.op.operands() {
                read[operand.index()] = true;
            }
        }
        let stores = std::mem::take(&mut self.b.kernel.outputs);
        let count = if stores.is_empty() { 1 + self.rng.below(3) } else { self.rng.below(3) };
        let ends: Vec<NodeId> = self.pool.iter().copied().filter(|n| !read[n.index()]).collect();
        for i in 0..count {
            let at_end = !ends.is_empty() && (i == 0 || !self.rng.one_in(3));
            let value = if at_end { self.rng.pick(&ends) } else { self.pick_node() };
            let axes = self.axes(value);
            let axes = self.rng.shuffled(&axes);
            self.b.result(value, &axes);
        }
        self.b.kernel.outputs.extend(stores);
    }
}
