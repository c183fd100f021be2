//! A scalar body under a schedule: one fusion group, ready for emission or interpretation.
//!
//! The *body* is typed SSA: values in order, each at a [`Level`] (once, once for each outer position, or for each
//! position of the whole domain). The *schedule* says which axes are outer and which are reduced, what runs along the
//! vector lanes, and in how many passes over the reduced axes the values are computed. Semantics live in the body;
//! loops live in whoever reads it.
//!
//! # The reduction tree
//!
//! One tree, chosen by the reduced extent alone, which every backend follows. The flattened reduced positions are cut
//! into chunks of [`CHUNK`]. In a chunk position `r` goes to lane `r % LANES`; each of the [`LANES`] lanes starts with
//! the identity and combines its elements in order; the lanes are folded by halving: `lane[i] = lane[i] ⊕
//! lane[i + LANES / 2]`, then quarters, to one. Chunk results are combined as adjacent pairs, level by level, an odd
//! last one passing through (equal to a binary counter of partial results). `ordered` user reducers combine the
//! elements of a chunk from first to last instead, starting with the identity, and chunks by the same adjacent pairs.
//! `ArgMax`/`ArgMin` carry (value, position); of equals the smaller position wins, so that any tree gives the first.
//! `cumsum` starts at zero and runs from first to last.

pub(crate) mod apart;
pub mod build;
pub mod contraction;
pub mod depthwise;
mod dimensions;
pub mod edges;
pub mod passes;
pub mod streamed;

pub use dimensions::MOST_DIMENSIONS;

use crate::dtype::{DType, Value};
use crate::graph::{MapFn, Reducer};
use crate::id::{AxisId, GroupId, NodeId, OperandId, ParamId, TempId, ValueId};
use crate::index_map::{Bound, Extent, IndexExpr, IndexMap};
use serde::{Deserialize, Serialize};

/// Positions of a chunk of the reduction tree.
pub const CHUNK: usize = 4096;
/// Accumulators of a chunk of the reduction tree.
pub const LANES: usize = 64;

/// How often a value is computed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Level {
    /// Once: it depends on no axis.
    Uniform,
    /// Once for each position of the outer axes.
    Outer,
    /// For each position of outer and reduced axes; in a pointwise group of the domain.
    Inner,
}

/// How the domain is walked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum ScheduleKind {
    /// No reductions: every position of the outer axes on its own; all values but uniform ones are `Inner`.
    Pointwise,
    /// Each outer position owns its reduced positions; lanes run along the reduced axes.
    Row,
    /// Each outer position owns its reduced positions; lanes run along the innermost outer axis.
    Column,
    /// The reduced positions of an outer position are cut into chunks that run in parallel; a second launch folds the
    /// partial results and computes what depends on them. One pass, no row buffers. Two launches.
    Split,
    /// Every reduction is a [`Reducer::Dot`] whose sources both have outer axes of their own; see [`contraction`]. Outer
    /// axes are those of both sources first, then rows, then columns. One pass; nothing is stored in the sweep.
    Contraction,
    /// One [`Reducer::Dot`] of a source under windows that slide with a filter that has no outer axes of its own; see
    /// [`depthwise`]. Lanes run along the innermost outer axis. One pass; nothing is stored in the sweep.
    Depthwise,
    /// A contraction of weights that reductions along its own reduced axes normalise: scores, statistics of their rows and
    /// the contraction are the [`ScheduledGroup::links`], and what lies between them is made and used up tile by tile; see
    /// [`streamed`]. No passes of its own.
    Streamed,
}

/// A buffer that a group reads or writes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum BufferRef {
    /// The tensor passed for a parameter.
    Param(ParamId),
    /// The component of the result of that number.
    Result(u32),
    /// An intermediate buffer of the plan.
    Temp(TempId),
}

/// What a body loads at a position of its domain. In the expressions of an operand [`IndexExpr::Indirect`] names an
/// earlier *value of the body* of the same number (`Indirect(%4)` is `x4`), not a node of the graph. Where bounds fail,
/// other expressions of the operand may be out of range or meaningless.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Operand {
    /// An element of a buffer; where the bounds of the map fail, zero of the dtype (and no access).
    Buffer {
        /// Which buffer.
        buffer: BufferRef,
        /// Its dtype in memory; the value loaded has [`DType::compute`] of it.
        dtype: DType,
        /// For each axis of the buffer, in layout order, the position as an expression over the group's domain axes.
        map: IndexMap,
    },
    /// An i64 expression over the domain axes: `index(N)`.
    Index(IndexExpr),
    /// Whether all bounds hold at the position: selects the fill of a padded view.
    Mask(Vec<Bound>),
    /// Whether all of `bounds` hold. Where those of `when` hold and one of `bounds` does not, it is a fault of the node
    /// of the loading value (a gather out of range, language rule 15).
    Check {
        /// Where the element is wanted at all: the bounds of padded views that read it.
        when: Vec<Bound>,
        /// What must hold there.
        bounds: Vec<Bound>,
    },
}

impl Operand {
    /// Calls `f` on every index expression, those of bounds included.
    pub fn for_each_expr(&self, mut f: impl FnMut(&IndexExpr)) {
        let (indices, bounds): (&[(AxisId, IndexExpr)], [&[Bound]; 2]) = match self {
            Operand::Buffer { map, .. } => (&map.indices, [&map.bounds, &[]]),
            Operand::Index(e) => return f(e),
            Operand::Mask(bounds) => (&[], [bounds, &[]]),
            Operand::Check { when, bounds } => (&[], [when, bounds]),
        };
        indices.iter().for_each(|(_, e)| f(e));
        bounds.into_iter().flatten().for_each(|b| f(&b.expr));
    }

    /// The values of the body that its index expressions name.
    pub fn reads(&self) -> Vec<ValueId> {
        let mut values = Vec::new();
        self.for_each_expr(|e| {
            e.for_each_leaf(&mut |leaf| {
                if let IndexExpr::Indirect(n) = leaf
                    && !values.contains(&ValueId(n.0))
                {
                    values.push(ValueId(n.0));
                }
            });
        });
        values
    }
}

/// How a value of a body is computed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum BodyOp {
    /// An operand's element.
    Load(OperandId),
    /// A scalar parameter.
    Param(ParamId),
    /// A literal.
    Constant(Value),
    /// An i64 that the shapes decide.
    Extent(Extent),
    /// A function of earlier values. Narrow dtypes do not occur but in `Cast`, which rounds and stays in f32.
    Map {
        /// What is done.
        function: MapFn,
        /// To what.
        args: Vec<ValueId>,
    },
    /// The reduction of inner values over the reduced axes; level `Outer` (`Uniform` if there are no outer axes).
    /// Values equal but for `output` are one reduction.
    Reduce {
        /// How.
        reducer: Reducer,
        /// One source, or one for each component.
        sources: Vec<ValueId>,
        /// Which component of the result.
        output: u32,
    },
    /// The running sum of an inner value along the reduced axis (there is exactly one); level `Inner`, always in a row
    /// buffer. It stands in `values` and in `buffered` of the pass that computes its source; what reads it stands in
    /// later passes, so that the scan may run over the buffered source when the sweep is over. Only in `Row` and
    /// `Column` schedules.
    CumSum {
        /// What is summed.
        source: ValueId,
    },
}

/// A value of a body. Operands come before users.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct BodyValue {
    /// How it is computed.
    pub op: BodyOp,
    /// The dtype it is rounded to; it travels as [`DType::compute`] of it.
    pub dtype: DType,
    /// How often.
    pub level: Level,
    /// The node of the graph that it computes, for names, source lines and faults.
    pub node: Option<NodeId>,
}

/// A store of a value at every position of its level.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Store {
    /// What.
    pub value: ValueId,
    /// To which buffer.
    pub buffer: BufferRef,
    /// Its dtype in memory, the value's.
    pub dtype: DType,
    /// For each axis of the buffer, in layout order, the position as an expression over the domain axes; injective.
    pub indices: Vec<(AxisId, IndexExpr)>,
}

/// One sweep over the reduced axes (in a pointwise group, over the domain).
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Pass {
    /// Inner values computed in this sweep, in order. One that an earlier pass computed and did not buffer is computed
    /// again and stands here again; a buffered one is read from its row buffer and does not.
    pub values: Vec<ValueId>,
    /// `Reduce` values completed by this sweep.
    pub reductions: Vec<ValueId>,
    /// Inner values computed here that later passes read: kept in a row buffer of the reduced extent.
    pub buffered: Vec<ValueId>,
    /// Inner stores made in this sweep, by position in [`ScheduledGroup::stores`].
    pub stores: Vec<u32>,
    /// Outer and uniform values computed after the sweep, in order (those that need no reduction stand in
    /// [`ScheduledGroup::prologue`]).
    pub epilogue: Vec<ValueId>,
    /// Outer stores made after the sweep.
    pub outer_stores: Vec<u32>,
}

/// A fusion group as body and schedule.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ScheduledGroup {
    /// Which group of the plan.
    pub id: GroupId,
    /// How the domain is walked.
    pub kind: ScheduleKind,
    /// The axes that are not reduced, outermost first, by the layout of what is read and written.
    pub outer: Vec<AxisId>,
    /// The reduced axes, outermost first, in the order of the reductions. Empty for `Pointwise`.
    pub reduced: Vec<AxisId>,
    /// What is loaded.
    pub operands: Vec<Operand>,
    /// The body.
    pub values: Vec<BodyValue>,
    /// Uniform and outer values that need no reduction, in order, computed before the first pass.
    pub prologue: Vec<ValueId>,
    /// The sweeps. A pointwise group has one.
    pub passes: Vec<Pass>,
    /// What is stored.
    pub stores: Vec<Store>,
    /// Of a streamed group the loops that it is made of, in order: each is a group of its own that reads what earlier ones
    /// store in [`crate::plan::Temp::streamed`] buffers. The values of the group are theirs in one body.
    pub links: Vec<ScheduledGroup>,
}

impl ScheduledGroup {
    /// A pointwise group of nothing yet.
    pub fn empty(id: GroupId) -> ScheduledGroup {
        ScheduledGroup {
            id,
            kind: ScheduleKind::Pointwise,
            outer: Vec::new(),
            reduced: Vec::new(),
            operands: Vec::new(),
            values: Vec::new(),
            prologue: Vec::new(),
            passes: Vec::new(),
            stores: Vec::new(),
            links: Vec::new(),
        }
    }

    /// The loops of the group in order: its links if it is streamed, else itself.
    pub fn loops(&self) -> &[ScheduledGroup] {
        if self.links.is_empty() { std::slice::from_ref(self) } else { &self.links }
    }

    /// The same, to be changed.
    pub(crate) fn loops_mut(&mut self) -> &mut [ScheduledGroup] {
        if self.links.is_empty() { std::slice::from_mut(self) } else { &mut self.links }
    }

    /// The launches this schedule takes.
    pub fn launches(&self) -> u32 {
        if self.kind == ScheduleKind::Split { 2 } else { 1 }
    }

    /// The values that a value reads: its arguments, and for a load those that its operand's index expressions name.
    pub fn reads(&self, id: ValueId) -> Vec<ValueId> {
        match &self.value(id).op {
            BodyOp::Load(operand) => self.operands[operand.index()].reads(),
            BodyOp::Param(_) | BodyOp::Constant(_) | BodyOp::Extent(_) => Vec::new(),
            BodyOp::Map { args, .. } => args.clone(),
            BodyOp::Reduce { sources, .. } => sources.clone(),
            BodyOp::CumSum { source } => vec![*source],
        }
    }

    /// The value of that id.
    pub fn value(&self, id: ValueId) -> &BodyValue {
        &self.values[id.index()]
    }
}
