//! Index expressions and index maps: how a value reads its operands.
//!
//! One expression type serves indices and extents: an extent is an expression without [`IndexExpr::Index`]. Broadcast,
//! transpose, slice, window, pad and concat are maps over it, never copies.

pub mod polynomial;

use crate::id::{AxisId, NodeId, ParamId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// An integer expression over the reading value's own axes, extents and integer parameters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum IndexExpr {
    /// A number.
    Const(i64),
    /// The position along an axis of the reading value.
    Index(AxisId),
    /// The extent of an axis, fixed at the call.
    Extent(AxisId),
    /// An integer scalar parameter, fixed at the call.
    Param(ParamId),
    /// The element of an integer node at the reading value's own position: an indirect read.
    Indirect(NodeId),
    /// `a + b`.
    Add(Box<IndexExpr>, Box<IndexExpr>),
    /// `a - b`.
    Sub(Box<IndexExpr>, Box<IndexExpr>),
    /// `a * b`.
    Mul(Box<IndexExpr>, Box<IndexExpr>),
    /// `a / b` rounded down, `b > 0`.
    FloorDiv(Box<IndexExpr>, Box<IndexExpr>),
    /// `a - b * floor(a / b)`, `b > 0`.
    Mod(Box<IndexExpr>, Box<IndexExpr>),
}

/// The extent of an axis as an expression over other extents, parameters and numbers.
pub type Extent = IndexExpr;

/// What an index expression needs to become a number.
pub trait IndexEnv {
    /// The position along `axis`.
    fn index(&self, axis: AxisId) -> i64;
    /// The extent of `axis`.
    fn extent(&self, axis: AxisId) -> i64;
    /// The value of an integer parameter.
    fn param(&self, param: ParamId) -> i64;
    /// The element of `node` at the current position.
    fn indirect(&self, node: NodeId) -> i64;
}

impl IndexExpr {
    /// The position along `axis`.
    pub fn index(axis: AxisId) -> Self {
        IndexExpr::Index(axis)
    }

    /// The extent of `axis`.
    pub fn extent(axis: AxisId) -> Self {
        IndexExpr::Extent(axis)
    }

    /// `self + other`, folded where it is trivial.
    pub fn plus(self, other: impl Into<Self>) -> Self {
        match (self, other.into()) {
            (IndexExpr::Const(a), IndexExpr::Const(b)) => IndexExpr::Const(a.wrapping_add(b)),
            (a, IndexExpr::Const(0)) => a,
            (IndexExpr::Const(0), b) => b,
            (IndexExpr::Sub(a, b), c) if *b == c => *a,
            (a, b) => IndexExpr::Add(Box::new(a), Box::new(b)),
        }
    }

    /// `self - other`, folded where it is trivial.
    pub fn minus(self, other: impl Into<Self>) -> Self {
        match (self, other.into()) {
            (IndexExpr::Const(a), IndexExpr::Const(b)) => IndexExpr::Const(a.wrapping_sub(b)),
            (a, IndexExpr::Const(0)) => a,
            (a, b) if a == b => IndexExpr::Const(0),
            (IndexExpr::Add(a, b), c) if *b == c => *a,
            (IndexExpr::Add(a, b), c) if *a == c => *b,
            (a, b) => IndexExpr::Sub(Box::new(a), Box::new(b)),
        }
    }

    /// `self * other`, folded where it is trivial.
    pub fn times(self, other: impl Into<Self>) -> Self {
        match (self, other.into()) {
            (IndexExpr::Const(a), IndexExpr::Const(b)) => IndexExpr::Const(a.wrapping_mul(b)),
            (IndexExpr::Const(0), _) | (_, IndexExpr::Const(0)) => IndexExpr::Const(0),
            (a, IndexExpr::Const(1)) => a,
            (IndexExpr::Const(1), b) => b,
            (a, b) => IndexExpr::Mul(Box::new(a), Box::new(b)),
        }
    }

    /// `self / other` rounded down, folded where it is trivial.
    pub fn floor_div(self, other: impl Into<Self>) -> Self {
        match (self, other.into()) {
            (IndexExpr::Const(a), IndexExpr::Const(b)) if b > 0 => IndexExpr::Const(a.div_euclid(b)),
            (a, IndexExpr::Const(1)) => a,
            (a, b) => IndexExpr::FloorDiv(Box::new(a), Box::new(b)),
        }
    }

    /// `self` modulo `other`, folded where it is trivial.
    pub fn modulo(self, other: impl Into<Self>) -> Self {
        match (self, other.into()) {
            (IndexExpr::Const(a), IndexExpr::Const(b)) if b > 0 => IndexExpr::Const(a.rem_euclid(b)),
            (_, IndexExpr::Const(1)) => IndexExpr::Const(0),
            (a, b) => IndexExpr::Mod(Box::new(a), Box::new(b)),
        }
    }

    /// Its number in `env`. Arithmetic wraps; division by zero or less gives 0 (an axis of extent 0 reads nothing).
    pub fn eval(&self, env: &impl IndexEnv) -> i64 {
        match self {
            IndexExpr::Const(c) => *c,
            IndexExpr::Index(a) => env.index(*a),
            IndexExpr::Extent(a) => env.extent(*a),
            IndexExpr::Param(p) => env.param(*p),
            IndexExpr::Indirect(n) => env.indirect(*n),
            IndexExpr::Add(a, b) => a.eval(env).wrapping_add(b.eval(env)),
            IndexExpr::Sub(a, b) => a.eval(env).wrapping_sub(b.eval(env)),
            IndexExpr::Mul(a, b) => a.eval(env).wrapping_mul(b.eval(env)),
            IndexExpr::FloorDiv(a, b) => match b.eval(env) {
                d if d > 0 => a.eval(env).div_euclid(d),
                _ => 0,
            },
            IndexExpr::Mod(a, b) => match b.eval(env) {
                d if d > 0 => a.eval(env).rem_euclid(d),
                _ => 0,
            },
        }
    }

    /// Calls `f` on every leaf.
    pub fn for_each_leaf(&self, f: &mut impl FnMut(&IndexExpr)) {
        match self {
            IndexExpr::Const(_)
            | IndexExpr::Index(_)
            | IndexExpr::Extent(_)
            | IndexExpr::Param(_)
            | IndexExpr::Indirect(_) => f(self),
            IndexExpr::Add(a, b)
            | IndexExpr::Sub(a, b)
            | IndexExpr::Mul(a, b)
            | IndexExpr::FloorDiv(a, b)
            | IndexExpr::Mod(a, b) => {
                a.for_each_leaf(f);
                b.for_each_leaf(f);
            }
        }
    }

    /// The same expression with every leaf replaced by what `f` gives for it, folded again.
    pub fn map_leaves(&self, f: &mut impl FnMut(&IndexExpr) -> IndexExpr) -> IndexExpr {
        match self {
            IndexExpr::Const(_)
            | IndexExpr::Index(_)
            | IndexExpr::Extent(_)
            | IndexExpr::Param(_)
            | IndexExpr::Indirect(_) => f(self),
            IndexExpr::Add(a, b) => a.map_leaves(f).plus(b.map_leaves(f)),
            IndexExpr::Sub(a, b) => a.map_leaves(f).minus(b.map_leaves(f)),
            IndexExpr::Mul(a, b) => a.map_leaves(f).times(b.map_leaves(f)),
            IndexExpr::FloorDiv(a, b) => a.map_leaves(f).floor_div(b.map_leaves(f)),
            IndexExpr::Mod(a, b) => a.map_leaves(f).modulo(b.map_leaves(f)),
        }
    }

    /// The same expression with the position along each axis replaced by what `f` gives for it.
    pub fn substitute(&self, f: &mut impl FnMut(AxisId) -> IndexExpr) -> IndexExpr {
        self.map_leaves(&mut |leaf| match leaf {
            IndexExpr::Index(a) => f(*a),
            IndexExpr::Const(_) | IndexExpr::Extent(_) | IndexExpr::Param(_) | IndexExpr::Indirect(_) => {
                leaf.clone()
            }
            IndexExpr::Add(..)
            | IndexExpr::Sub(..)
            | IndexExpr::Mul(..)
            | IndexExpr::FloorDiv(..)
            | IndexExpr::Mod(..) => unreachable!("leaves only"),
        })
    }

    /// Whether it reads the position along `axis`.
    pub fn uses_index(&self, axis: AxisId) -> bool {
        let mut found = false;
        self.for_each_leaf(&mut |leaf| found |= *leaf == IndexExpr::Index(axis));
        found
    }
}

impl From<i64> for IndexExpr {
    fn from(c: i64) -> Self {
        IndexExpr::Const(c)
    }
}

impl fmt::Display for IndexExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IndexExpr::Const(c) => write!(f, "{c}"),
            IndexExpr::Index(a) => write!(f, "{a}"),
            IndexExpr::Extent(a) => write!(f, "|{a}|"),
            IndexExpr::Param(p) => write!(f, "{p}"),
            IndexExpr::Indirect(n) => write!(f, "[{n}]"),
            IndexExpr::Add(a, b) => write!(f, "({a} + {b})"),
            IndexExpr::Sub(a, b) => write!(f, "({a} - {b})"),
            IndexExpr::Mul(a, b) => write!(f, "{a} * {b}"),
            IndexExpr::FloorDiv(a, b) => write!(f, "({a} / {b})"),
            IndexExpr::Mod(a, b) => write!(f, "({a} % {b})"),
        }
    }
}

/// A predicate: `0 <= expr < extent`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Bound {
    /// What is tested.
    pub expr: IndexExpr,
    /// The exclusive upper limit.
    pub extent: Extent,
}

/// Where a reading value finds its operand: for each axis of the source the position on it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct IndexMap {
    /// One entry for each axis of the source, in the source's order.
    pub indices: Vec<(AxisId, IndexExpr)>,
    /// Where these fail the read gives the fill of the view and touches no memory.
    pub bounds: Vec<Bound>,
}

impl IndexMap {
    /// Reads each of `axes` at the reader's own position on the axis of the same name.
    pub fn identity(axes: &[AxisId]) -> Self {
        let indices = axes.iter().map(|&a| (a, IndexExpr::Index(a))).collect();
        IndexMap { indices, bounds: Vec::new() }
    }

    /// Whether it reads every axis at its own position, everywhere.
    pub fn is_identity(&self) -> bool {
        self.bounds.is_empty() && self.indices.iter().all(|(a, e)| *e == IndexExpr::Index(*a))
    }

    /// The position on `axis` of the source.
    pub fn get(&self, axis: AxisId) -> Option<&IndexExpr> {
        self.indices.iter().find(|(a, _)| *a == axis).map(|(_, e)| e)
    }

    /// The map of a reader that reads this map's reader through `outer`: positions are replaced, bounds are joined.
    pub fn compose(&self, outer: &IndexMap) -> IndexMap {
        let mut position = |a: AxisId| outer.get(a).cloned().unwrap_or(IndexExpr::Index(a));
        let indices = self.indices.iter().map(|(a, e)| (*a, e.substitute(&mut position))).collect();
        let mut bounds: Vec<Bound> = outer.bounds.clone();
        for b in &self.bounds {
            let b = Bound { expr: b.expr.substitute(&mut position), extent: b.extent.clone() };
            if !bounds.contains(&b) {
                bounds.push(b);
            }
        }
        IndexMap { indices, bounds }
    }
}

impl fmt::Display for IndexMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (k, (a, e)) in self.indices.iter().enumerate() {
            let comma = if k == 0 { "" } else { ", " };
            write!(f, "{comma}{a}: {e}")?;
        }
        f.write_str("]")?;
        for b in &self.bounds {
            write!(f, " if 0 <= {} < {}", b.expr, b.extent)?;
        }
        Ok(())
    }
}
