//! The graph of a kernel: typed dataflow over named axes, immutable and without order.
//!
//! What a node *is* (elementwise, broadcast, injective, reduction) follows from the index maps by which it reads, never
//! from a name. The operands of [`Op::Map`] align by axis: an operand without one of the node's axes is broadcast along
//! it. Every other way to read is an [`Op::View`].

pub mod facts;

use crate::dtype::{DType, Value};
use crate::id::{AxisId, FnId, NodeId, ParamId};
use crate::index_map::{Extent, IndexExpr, IndexMap};
use crate::scalar::{ScalarFn, ScalarOp};
use serde::{Deserialize, Serialize};

mod verify;

mod display;

mod reducer;

mod simplify;

pub use simplify::simplify_graph;
pub use verify::verify_graph;

pub(crate) use verify::infer_type;

/// dtype and axes of a node.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Type {
    /// The element type; may be narrow.
    pub dtype: DType,
    /// The axes, sorted by id: a set. Order is not observable (language rule 3).
    pub axes: Vec<AxisId>,
}

/// An axis of a kernel, after inlining.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Axis {
    /// The user's name; names of inlined composites are made distinct (`N`, `N.1`).
    pub name: String,
    /// What fixes its extent at the call.
    pub source: AxisSource,
    /// The extent the planner assumes (`assume(M = 4096)`), if the user gave one.
    pub assumed: Option<u64>,
}

/// Where an extent comes from (language rule 2).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum AxisSource {
    /// The shape of every tensor parameter that has the axis; they must agree.
    Shape,
    /// The parameter `heads: Axis<H>`.
    Host(ParamId),
    /// `const C: usize = 3`.
    Static(u64),
    /// `const F: usize = { 2 * N }`, or an operation that makes the axis (`pad`, `concat`, `merge` …). If the axis also
    /// stands in the shape of a parameter the two must agree, and the equation can be solved for one unbound axis of
    /// the expression in which it is linear.
    Derived(Extent),
}

/// A parameter of a kernel, in the order of its signature.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Param {
    /// The user's name.
    pub name: String,
    /// What is passed.
    pub kind: ParamKind,
}

/// What is passed for a parameter.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum ParamKind {
    /// A tensor; `axes` in the declared order, which is its memory layout.
    Tensor {
        /// The element type.
        dtype: DType,
        /// The declared axes, outermost first.
        axes: Vec<AxisId>,
        /// `&mut Tensor<..>`.
        mutable: bool,
    },
    /// A scalar.
    Scalar {
        /// Its type.
        dtype: DType,
    },
    /// `Axis<H>`: a `usize` that fixes the extent of an axis.
    Axis {
        /// Which one.
        axis: AxisId,
    },
}

/// How the elements along the reduced axes become one. The order is by the list of axes, the first outermost.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Reducer {
    /// Sum of numbers in the source's dtype (the graph casts to the accumulator before). Empty: 0.
    Sum,
    /// Product of numbers. Empty: 1.
    Prod,
    /// A contraction: the sum of the products of two sources of one dtype, in the source's dtype (the graph casts to the
    /// accumulator before). Empty: 0. Of floats no order of the additions is promised, only that the error is at most
    /// c·ε·Σ|a·b|; the reference rounds each product and sums by the tree.
    Dot,
    /// Greatest, NaN if any is. Empty: −∞, or the least integer; where that is an error the kernel has a check.
    Max,
    /// Least, NaN if any is. Empty: ∞, or the greatest integer; where that is an error the kernel has a check.
    Min,
    /// Whether any is true. Empty: false.
    Any,
    /// Whether all are true. Empty: true.
    All,
    /// Position of the first greatest in reduction order, i64; the first NaN wins. Empty: an error.
    ArgMax,
    /// Position of the first least in reduction order, i64; the first NaN wins. Empty: an error.
    ArgMin,
    /// A user's combiner over the tuple of sources. Empty: the identity.
    User {
        /// `(left.., right..) -> tuple`.
        combine: FnId,
        /// One value for each component.
        identity: Vec<Value>,
        /// Associative only: elements are combined in order.
        ordered: bool,
    },
}

/// What a [`Op::Map`] does to each element.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum MapFn {
    /// One operation, typed as [`ScalarOp::result_dtype`] says.
    Op(ScalarOp),
    /// A scalar function; `result` picks one of a tuple.
    Call {
        /// Which function.
        function: FnId,
        /// Which of its results.
        result: u32,
    },
}

/// A node of the graph.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Op {
    /// The tensor passed for a parameter: the value it has when the call starts. Axes: those declared.
    Tensor(ParamId),
    /// The scalar passed for a parameter. No axes.
    Scalar(ParamId),
    /// A literal. No axes.
    Constant(Value),
    /// `index(N)`: the position along the axis, i64. Axes: that one.
    Index(AxisId),
    /// An i64 that shapes and integer parameters alone decide (`extent(N)`). No axes, no [`IndexExpr::Index`].
    Extent(Extent),
    /// One function of the operands' elements at the same named positions. Axes: the union of the operands'.
    Map {
        /// What is done.
        function: MapFn,
        /// The operands.
        args: Vec<NodeId>,
    },
    /// The source read through an index map: slice, pad, window, split, merge, rename, reverse, at, and the parts of
    /// concat and stack. The dtype is the source's; the axes are the node's own, each index of the map ranges over them.
    View {
        /// What is read.
        source: NodeId,
        /// Where; one entry for each axis of the source.
        map: IndexMap,
        /// The value where the bounds of the map fail. `None` if the map has none.
        fill: Option<Value>,
    },
    /// A reduction. Axes: those of the sources without the reduced ones. `User` reducers over tuples give one node for
    /// each component that is used, equal but for `output`; they are one reduction. Sources are of compute dtypes.
    Reduce {
        /// How.
        reducer: Reducer,
        /// One source, or one for each component of a user's tuple; all have the union of their axes.
        sources: Vec<NodeId>,
        /// The reduced axes in the order the call lists them.
        axes: Vec<AxisId>,
        /// Which component of the result.
        output: u32,
    },
    /// `cumsum(N)`: the inclusive running sum along an axis, in the source's dtype. Axes: the source's.
    CumSum {
        /// What is summed.
        source: NodeId,
        /// Along which axis.
        axis: AxisId,
    },
    /// `materialize()`: the same value, which must reach memory; nothing fuses across it.
    Materialize {
        /// What is stored.
        source: NodeId,
    },
}

/// A node with its type.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Node {
    /// What it does.
    pub op: Op,
    /// What it gives.
    pub ty: Type,
}

/// Where a node stands in the user's source, for messages, faults and names in generated code.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Origin {
    /// The expression as written, shortened, e.g. `x.max(N)` or `gelu(..)`.
    pub label: String,
    /// The `let` that names it, if one does.
    pub name: Option<String>,
    /// The file, as rustc names it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

/// What the kernel gives back.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Output {
    /// What is stored.
    pub value: NodeId,
    /// Where.
    pub target: OutputTarget,
}

/// Where an output goes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum OutputTarget {
    /// The result, or its component of that number; `axes` in the declared order, which is its memory layout. A result
    /// without axes is a rank-0 tensor.
    Result {
        /// The component of the result's tuple.
        index: u32,
        /// The declared axes, outermost first.
        axes: Vec<AxisId>,
    },
    /// The tensor of a `&mut` parameter. `region` says for each axis of the parameter, in declared order, at which
    /// position the value's element is written: injective, affine in the value's axes; elements outside keep theirs.
    Param {
        /// Which parameter.
        param: ParamId,
        /// The position on each of its axes.
        region: Vec<IndexExpr>,
    },
}

/// Something that must hold when the kernel is called; else the call is an error.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Check {
    /// What must hold.
    pub kind: CheckKind,
    /// When it must: where an uniform branch around it is taken, as far as the arguments decide that. Always if `None`.
    pub when: Option<Condition>,
    /// The node or, before there is one, the place that asks for it.
    pub origin: Origin,
}

/// A value that the scalar arguments and extents of a call decide.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Condition {
    /// A number.
    Constant(Value),
    /// A scalar parameter.
    Param(ParamId),
    /// An i64 that the shapes decide.
    Extent(Extent),
    /// An operation.
    Op(ScalarOp, Vec<Condition>),
    /// A call of one of the kernel's functions; `result` picks one of a tuple.
    Call {
        /// Which function.
        function: FnId,
        /// One for each flattened parameter.
        args: Vec<Condition>,
        /// Which of its results.
        result: u32,
    },
}

/// What must hold at a call.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum CheckKind {
    /// The axis is not empty: `max`, `min`, `argmax`, `argmin`.
    NotEmpty {
        /// The operation's name.
        op: String,
        /// The axis.
        axis: AxisId,
    },
    /// `0 <= start` and `start + length <= extent(axis)`: `slice` and `at`.
    InBounds {
        /// The operation's name.
        op: String,
        /// The axis that is sliced.
        axis: AxisId,
        /// The first position.
        start: Extent,
        /// How many positions.
        length: Extent,
    },
    /// Two extents are equal, e.g. the product of `split`.
    Equal {
        /// The operation's name.
        op: String,
        /// The axis whose extent is given.
        axis: AxisId,
        /// What it must be.
        expected: Extent,
    },
    /// A number is large enough: the step of `window`.
    AtLeast {
        /// The operation's name.
        op: String,
        /// The name of the number: `stride`.
        name: String,
        /// The number.
        value: Extent,
        /// The least that it may be.
        least: i64,
    },
}

/// A kernel: its interface, its graph and the scalar functions it calls.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Kernel {
    /// The user's name; for an instance of a generic kernel with the dtypes: `softmax::<f16>`.
    pub name: String,
    /// All axes; those of the kernel's generics first, in their order (language rule 3).
    pub axes: Vec<Axis>,
    /// The parameters, in order.
    pub params: Vec<Param>,
    /// Scalar functions, callees before callers.
    pub functions: Vec<ScalarFn>,
    /// The nodes, operands before users.
    pub nodes: Vec<Node>,
    /// Where each node stands in the source.
    pub origins: Vec<Origin>,
    /// What is stored, in the order of the results, then of the parameters.
    pub outputs: Vec<Output>,
    /// What must hold at a call.
    pub checks: Vec<Check>,
    /// `launches = N`.
    pub launches: Option<u32>,
    /// `#[kernel(fast)]`.
    pub fast: bool,
}

impl Kernel {
    /// The node of that id.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// The axis of that id.
    pub fn axis(&self, id: AxisId) -> &Axis {
        &self.axes[id.index()]
    }

    /// The parameter of that id.
    pub fn param(&self, id: ParamId) -> &Param {
        &self.params[id.index()]
    }

    /// All node ids, operands before users.
    pub fn node_ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + use<> {
        (0..self.nodes.len() as u32).map(NodeId)
    }
}

impl Op {
    /// The nodes it reads, in order. Of a view the source, then the nodes that give positions, each once: one of them may be
    /// the source itself.
    pub fn operands(&self) -> Vec<NodeId> {
        match self {
            Op::Tensor(_) | Op::Scalar(_) | Op::Constant(_) | Op::Index(_) | Op::Extent(_) => Vec::new(),
            Op::Map { args, .. } => args.clone(),
            Op::View { source, map, .. } => {
                let mut nodes = vec![*source];
                let exprs = map.indices.iter().map(|(_, e)| e).chain(map.bounds.iter().map(|b| &b.expr));
                for e in exprs {
                    e.for_each_leaf(&mut |leaf| {
                        if let IndexExpr::Indirect(n) = leaf
                            && !nodes[1..].contains(n)
                        {
                            nodes.push(*n);
                        }
                    });
                }
                nodes
            }
            Op::Reduce { sources, .. } => sources.clone(),
            Op::CumSum { source, .. } | Op::Materialize { source } => vec![*source],
        }
    }
}
