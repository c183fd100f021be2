//! From a set of roots to the body of a group.
//!
//! A *root* is something that must be in memory when the group is done: an output of the kernel or an intermediate
//! value. The body is what is found by walking back from the roots until values that are already in memory. A value
//! read through a view is computed at the position that the view gives: a *place* maps the axes of a node to index
//! expressions over the domain of the group. Two reads of a node at one place are one value.
//!
//! ```text
//!   x ── exp ── slice ── + ── out        place of exp and x: {N: 3 + i1}
//!                        y ──┘           place of y: identity
//! ```
//!
//! The domain is that of the reductions found, else that of the roots. A reduction stands at the identity: all its
//! readers in the group want it at the position they own. Contractions alone may also be computed where their readers want
//! them, over the domain of the roots, as long as no product is computed twice: parts of one product (gate and value of
//! a gated unit; queries, keys and values) become products of their own that share what they read.

use crate::dtype::{DType, Value};
use crate::graph::facts::GraphFacts;
use crate::graph::{Kernel, MapFn, Op, OutputTarget, ParamKind, Reducer};
use crate::id::{AxisId, NodeId, OperandId, ParamId, ValueId};
use crate::index_map::{Bound, IndexExpr, IndexMap};
use crate::plan::Refusal;
use crate::plan::cost::MOST_OP_CODE;
use crate::scalar::ScalarOp;
use crate::schedule::contraction::{Mixed, collect_axes, find_contraction, multiply_and_sum};
use crate::schedule::depthwise::find_depthwise;
use crate::schedule::{BodyOp, BodyValue, BufferRef, Level, Operand, Store};
use std::collections::BTreeMap;

/// Something that a group must leave in memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Root {
    /// The output of the kernel of that number.
    Output(u32),
    /// A value that later groups read.
    Temp(NodeId),
}

impl Root {
    /// The node that is stored.
    pub fn node(self, kernel: &Kernel) -> NodeId {
        match self {
            Root::Output(k) => kernel.outputs[k as usize].value,
            Root::Temp(n) => n,
        }
    }
}

/// Why a set of roots is no group.
#[derive(Clone, PartialEq, Debug)]
pub struct Refused {
    /// The kind of reason.
    pub refusal: Refusal,
    /// The node at which it shows.
    pub node: Option<NodeId>,
    /// One sentence without a final full stop; nodes and axes by the user's names.
    pub because: String,
    /// What the user could write to make it one.
    pub remedy: Option<String>,
}

impl Refused {
    /// A refusal that nothing the user could write would mend.
    pub fn new(refusal: Refusal, node: Option<NodeId>, because: impl Into<String>) -> Self {
        Refused { refusal, node, because: because.into(), remedy: None }
    }

    /// The same, with what the user could write.
    pub fn unless(self, remedy: impl Into<String>) -> Self {
        Refused { remedy: Some(remedy.into()), ..self }
    }
}

/// What a group is made of, before it is scheduled.
#[derive(Clone, Debug, Default)]
pub struct Body {
    /// The axes that are not reduced, a set.
    pub outer: Vec<AxisId>,
    /// The reduced axes in the order of the reductions.
    pub reduced: Vec<AxisId>,
    /// What is loaded.
    pub operands: Vec<Operand>,
    /// The values, operands before users.
    pub values: Vec<BodyValue>,
    /// What is stored.
    pub stores: Vec<Store>,
    /// Whether the reductions are contractions, see [`super::contraction`].
    pub contraction: bool,
    /// Whether they are one depthwise convolution, see [`super::depthwise`].
    pub depthwise: bool,
}

/// What [`build_body`] needs to know.
#[derive(Clone, Copy)]
pub struct BodyContext<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// Its facts.
    pub facts: &'a GraphFacts,
    /// The buffer of a value that another group stores and this one loads; `None` if it is computed here.
    pub memory: &'a dyn Fn(NodeId) -> Option<(BufferRef, Vec<AxisId>)>,
    /// Values of a body at most.
    pub code_size: u32,
    /// Whether depthwise convolutions have a schedule of their own.
    pub depthwise: bool,
}

/// The body that computes `roots`.
///
/// # Errors
/// If the roots cannot be computed over one domain; the reason names the node.
pub fn build_body(context: BodyContext<'_>, roots: &[Root]) -> Result<Body, Refused> {
    let mut builder = Builder::new(context, false);
    match builder.build(roots) {
        Ok(()) => Ok(builder.body),
        Err(refused) if builder.contracts => {
            let mut builder = Builder::new(context, true);
            builder.build(roots).map(|()| builder.body).map_err(|_| refused)
        }
        Err(refused) => Err(refused),
    }
}

/// Positions on the axes of a node.
type Positions = Vec<(AxisId, IndexExpr)>;

/// Positions on the axes of a node where they differ from the domain's own, and the bounds that guard them.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
struct Spot {
    indices: Vec<(AxisId, IndexExpr)>,
    bounds: Vec<Bound>,
}

struct Builder<'a> {
    context: BodyContext<'a>,
    body: Body,
    /// Interned places; the first is the identity.
    places: Vec<Spot>,
    /// The values of nodes at the identity, one more than their ids; 0 where there is none.
    own: Vec<u32>,
    /// The values of nodes at other places.
    moved: BTreeMap<(NodeId, u32), ValueId>,
    loads: BTreeMap<(BufferRef, u32), ValueId>,
    depth: u32,
    /// Whether the domain is that of the roots, and contractions are computed where they are read.
    of_roots: bool,
    /// Whether all reductions found are contractions.
    contracts: bool,
}

/// Values of a body, constants and loads included, for each operation that fits a launch.
const VALUES_PER_OPERATION: usize = 4;
/// Deeper chains are cut rather than walked: the stack of a compiler thread is finite.
const MAX_DEPTH: u32 = 600;

impl<'a> Builder<'a> {
    fn new(context: BodyContext<'a>, of_roots: bool) -> Self {
        Builder {
            context,
            body: Body::default(),
            places: vec![Spot::default()],
            own: vec![0; context.kernel.nodes.len()],
            moved: BTreeMap::new(),
            loads: BTreeMap::new(),
            depth: 0,
            of_roots,
            contracts: false,
        }
    }

    fn build(&mut self, roots: &[Root]) -> Result<(), Refused> {
        self.find_domain(roots)?;
        for root in roots {
            self.store_root(*root)?;
        }
        self.settle_contraction()
    }

    /// Decides whether the reductions are contractions; those that are none become sums of products.
    fn settle_contraction(&mut self) -> Result<(), Refused> {
        let Body { outer, reduced, operands, values, stores, .. } = &self.body;
        let dots = |v: &BodyValue| matches!(v.op, BodyOp::Reduce { reducer: Reducer::Dot, .. });
        if !values.iter().any(dots) {
            return Ok(());
        }
        if self.of_roots {
            let axes = collect_axes(operands, values, reduced);
            let twice = |k: &usize| dots(&values[*k]) && outer.iter().any(|a| !axes[*k].contains(a));
            if let Some(k) = (0..values.len()).find(twice) {
                let node = values[k].node.unwrap_or(NodeId(0));
                let because =
                    format!("`{}` would be computed more than once", label(self.context.kernel, node));
                return self.refuse(Refusal::IncompleteReduction, node, because);
            }
        }
        match find_contraction(outer, reduced, operands, values) {
            Ok(Some(_)) => self.body.contraction = true,
            Ok(None) => {
                let is_depthwise = self.context.depthwise
                    && find_depthwise(outer, reduced, operands, values, stores).is_some();
                match is_depthwise {
                    true => self.body.depthwise = true,
                    false => multiply_and_sum(&mut self.body),
                }
            }
            Err(Mixed::OtherReduction(v)) => {
                let node = values[v.index()].node.unwrap_or(NodeId(0));
                let because = format!(
                    "`{}` is no contraction and would share the loop of one",
                    label(self.context.kernel, node)
                );
                return self.refuse(Refusal::DifferentAxes, node, because);
            }
            Err(Mixed::Chained(v)) => {
                let node = values[v.index()].node.unwrap_or(NodeId(0));
                let because =
                    format!("`{}` reads a product that is not complete", label(self.context.kernel, node));
                return self.refuse(Refusal::IncompleteReduction, node, because);
            }
        }
        Ok(())
    }

    fn refuse<T>(&self, refusal: Refusal, node: NodeId, because: impl Into<String>) -> Result<T, Refused> {
        Err(Refused::new(refusal, Some(node), because))
    }

    fn axis_names(&self, axes: &[AxisId]) -> String {
        let names: Vec<&str> = axes.iter().map(|a| self.context.kernel.axis(*a).name.as_str()).collect();
        format!("[{}]", names.join(", "))
    }

    /// Sets the domain: that of the reductions inside, else that of the roots.
    fn find_domain(&mut self, roots: &[Root]) -> Result<(), Refused> {
        let kernel = self.context.kernel;
        let mut seen = vec![false; kernel.nodes.len()];
        let mut stack: Vec<NodeId> = roots.iter().map(|r| r.node(kernel)).collect();
        let mut found: Option<(NodeId, Vec<AxisId>, Vec<AxisId>)> = None;
        let mut others = false;
        let mut differ = Ok(());
        while let Some(id) = stack.pop() {
            if std::mem::replace(&mut seen[id.index()], true) || (self.context.memory)(id).is_some() {
                continue;
            }
            let node = kernel.node(id);
            let (reduced, outer) = match &node.op {
                Op::Reduce { axes, reducer, .. } => {
                    others |= *reducer != Reducer::Dot;
                    (axes.clone(), node.ty.axes.clone())
                }
                Op::CumSum { axis, .. } => {
                    others = true;
                    (vec![*axis], node.ty.axes.iter().copied().filter(|a| a != axis).collect())
                }
                Op::Tensor(_) | Op::Scalar(_) | Op::Constant(_) | Op::Index(_) | Op::Extent(_) => continue,
                Op::Map { .. } | Op::View { .. } | Op::Materialize { .. } => {
                    stack.extend(node.op.operands());
                    continue;
                }
            };
            stack.extend(node.op.operands());
            match &found {
                Some((_, r, _)) if self.of_roots && *r == reduced => {}
                Some((first, r, o)) if differ.is_ok() && (*r != reduced || *o != outer) => {
                    let because = format!(
                        "`{}` reduces {} for each {} and `{}` reduces {} for each {}",
                        label(kernel, *first),
                        self.axis_names(r),
                        self.axis_names(o),
                        label(kernel, id),
                        self.axis_names(&reduced),
                        self.axis_names(&outer),
                    );
                    let incomplete = reaches(kernel, id, *first) || reaches(kernel, *first, id);
                    let kind = if incomplete && outer.len() + reduced.len() != o.len() + r.len() {
                        Refusal::IncompleteReduction
                    } else {
                        Refusal::DifferentAxes
                    };
                    differ = self.refuse(kind, id, because);
                }
                Some(_) => {}
                None => found = Some((id, reduced, outer)),
            }
        }
        self.contracts = found.is_some() && !others;
        differ?;
        match found {
            Some((id, reduced, _)) if self.of_roots => {
                let outer = roots.first().map_or(Vec::new(), |r| kernel.node(r.node(kernel)).ty.axes.clone());
                if outer.iter().any(|a| reduced.contains(a)) {
                    let because = format!("`{}` is read over an axis that it reduces", label(kernel, id));
                    return self.refuse(Refusal::DifferentAxes, id, because);
                }
                (self.body.reduced, self.body.outer) = (reduced, outer);
            }
            Some((_, reduced, outer)) => (self.body.reduced, self.body.outer) = (reduced, outer),
            None => {
                let axes = roots.first().map(|r| kernel.node(r.node(kernel)).ty.axes.clone());
                self.body.outer = axes.unwrap_or_default();
            }
        }
        Ok(())
    }

    /// The place of a root: where on its own axes each position of the domain stores.
    fn place_root(&self, id: NodeId) -> Result<(Positions, Level), Refused> {
        let kernel = self.context.kernel;
        let axes = &kernel.node(id).ty.axes;
        let mut domain = [self.body.outer.as_slice(), &self.body.reduced].concat();
        domain.sort();
        let mut outer = self.body.outer.clone();
        outer.sort();
        if !self.body.reduced.is_empty()
            && let Some((place, at)) = self.find_inverse(id, &domain, &outer)
        {
            let level = if at == domain { Level::Inner } else { Level::Outer };
            return Ok((place, if at.is_empty() { Level::Uniform } else { level }));
        }
        if *axes == domain {
            let level = if axes.is_empty() { Level::Uniform } else { Level::Inner };
            return Ok((Vec::new(), level));
        }
        if *axes == outer && !self.body.reduced.is_empty() {
            return Ok((Vec::new(), if axes.is_empty() { Level::Uniform } else { Level::Outer }));
        }
        let because = format!(
            "`{}` has the axes {}, the loop runs over {}",
            label(kernel, id),
            self.axis_names(&self.context.facts.layouts[id.index()]),
            self.axis_names(&domain),
        );
        self.refuse(Refusal::DifferentAxes, id, because)
    }

    /// Walks from a root through bijective views to a reduction, or to what combines one with its domain, and inverts
    /// the views on the way: the group owns positions of the reduction, so the root is stored where the views put them.
    fn find_inverse(
        &self,
        id: NodeId,
        domain: &[AxisId],
        outer: &[AxisId],
    ) -> Option<(Positions, Vec<AxisId>)> {
        let kernel = self.context.kernel;
        let identity = IndexMap::identity(&kernel.node(id).ty.axes).indices;
        let mut stack = vec![(id, identity)];
        let mut seen = vec![id];
        while let Some((at, place)) = stack.pop() {
            let node = kernel.node(at);
            if at != id && (self.context.memory)(at).is_some() {
                continue;
            }
            let combines = match &node.op {
                Op::Reduce { .. } | Op::CumSum { .. } => true,
                Op::Map { args, .. } => args.iter().any(|a| {
                    let arg = kernel.node(*a);
                    let reduced = matches!(arg.op, Op::Reduce { .. } | Op::CumSum { .. } | Op::Map { .. });
                    reduced && arg.ty.axes != node.ty.axes
                }),
                Op::View { .. } | Op::Materialize { .. } => false,
                Op::Tensor(_) | Op::Scalar(_) | Op::Constant(_) | Op::Index(_) | Op::Extent(_) => false,
            };
            if combines && (node.ty.axes == domain || node.ty.axes == outer) {
                return Some((place, node.ty.axes.clone()));
            }
            let mut push = |n: NodeId, place: Vec<(AxisId, IndexExpr)>| {
                if !seen.contains(&n) && seen.len() < 256 {
                    seen.push(n);
                    stack.push((n, place));
                }
            };
            match &node.op {
                Op::View { source, .. } => {
                    if let Some(inverse) = self.context.facts.invert_view(kernel, at) {
                        let inner = |a: AxisId| {
                            let expr = inverse.iter().find(|(b, _)| *b == a).map(|(_, e)| e.clone());
                            expr.unwrap_or(IndexExpr::Index(a))
                        };
                        let place = place.iter().map(|(a, e)| (*a, e.substitute(&mut { inner }))).collect();
                        push(*source, place);
                    }
                }
                Op::Map { args, .. } => {
                    for arg in args {
                        if kernel.node(*arg).ty.axes == node.ty.axes {
                            push(*arg, place.clone());
                        }
                    }
                }
                Op::Materialize { source } => push(*source, place),
                Op::CumSum { .. } | Op::Tensor(_) | Op::Scalar(_) | Op::Constant(_) | Op::Index(_) => {}
                Op::Extent(_) | Op::Reduce { .. } => {}
            }
        }
        None
    }

    fn store_root(&mut self, root: Root) -> Result<(), Refused> {
        let kernel = self.context.kernel;
        let id = root.node(kernel);
        let (place, level) = self.place_root(id)?;
        let spot = self.intern(Spot { indices: place.clone(), bounds: Vec::new() });
        let value = match &kernel.node(id).op {
            // The root of a cut is the only place at which its source may be computed.
            Op::Materialize { source } if (self.context.memory)(id).is_none() => self.eval(*source, spot)?,
            _ => self.eval(id, spot)?,
        };
        let value = self.raise_level(value, level);
        let position = |a: AxisId| {
            let expr = place.iter().find(|(b, _)| *b == a).map(|(_, e)| e.clone());
            expr.unwrap_or(IndexExpr::Index(a))
        };
        let extents = &self.context.facts.extents;
        let (buffer, indices) = match root {
            Root::Temp(n) => {
                let layout = &self.context.facts.layouts[n.index()];
                let indices = layout.iter().map(|a| (*a, extents.simplify(&position(*a)))).collect();
                (BufferRef::Temp(crate::id::TempId(n.0)), indices)
            }
            Root::Output(k) => match &kernel.outputs[k as usize].target {
                OutputTarget::Result { index, axes } => {
                    let indices = axes.iter().map(|a| (*a, extents.simplify(&position(*a)))).collect();
                    (BufferRef::Result(*index), indices)
                }
                OutputTarget::Param { param, region } => {
                    let axes = tensor_axes(kernel, *param);
                    let at = |e: &IndexExpr| extents.simplify(&e.substitute(&mut { position }));
                    let indices = axes.iter().zip(region).map(|(a, e)| (*a, at(e))).collect();
                    (BufferRef::Param(*param), indices)
                }
            },
        };
        self.body.stores.push(Store { value, buffer, dtype: kernel.node(id).ty.dtype, indices });
        Ok(())
    }

    /// A value at the level at which it is stored, where it depends on fewer axes.
    fn raise_level(&mut self, value: ValueId, level: Level) -> ValueId {
        let old = self.body.values[value.index()].clone();
        if old.level == level {
            return value;
        }
        let op = match old.op {
            BodyOp::Reduce { .. } | BodyOp::CumSum { .. } => {
                let yes = self.push(BodyOp::Constant(Value::Bool(true)), DType::Bool, Level::Uniform, None);
                BodyOp::Map { function: MapFn::Op(ScalarOp::Select), args: vec![yes, value, value] }
            }
            op => op,
        };
        self.push(op, old.dtype, level, old.node)
    }

    fn push(&mut self, op: BodyOp, dtype: DType, level: Level, node: Option<NodeId>) -> ValueId {
        self.body.values.push(BodyValue { op, dtype, level, node });
        ValueId::from_index(self.body.values.len() - 1)
    }

    fn level_of(&self, value: ValueId) -> Level {
        self.body.values[value.index()].level
    }

    fn intern(&mut self, mut spot: Spot) -> u32 {
        // At its own positions a value exists whatever the reader's bounds say.
        if spot.indices.iter().all(|(a, e)| *e == IndexExpr::Index(*a)) {
            spot.bounds.clear();
        }
        self.intern_guarded(spot)
    }

    /// Whether the kernel stores over a parameter.
    fn is_overwritten(&self, param: ParamId) -> bool {
        let mut outputs = self.context.kernel.outputs.iter();
        outputs.any(|o| matches!(o.target, OutputTarget::Param { param: written, .. } if written == param))
    }

    /// The place with these bounds, also where it is the reader's own.
    fn intern_guarded(&mut self, spot: Spot) -> u32 {
        let indices = spot.indices.into_iter().filter(|(a, e)| *e != IndexExpr::Index(*a)).collect();
        let spot = Spot { indices, bounds: spot.bounds };
        if let Some(k) = self.places.iter().position(|s| *s == spot) {
            return k as u32;
        }
        self.places.push(spot);
        self.places.len() as u32 - 1
    }

    /// The part of a place that concerns a node.
    fn restrict(&mut self, id: NodeId, place: u32) -> u32 {
        if place == 0 {
            return 0;
        }
        let axes = &self.context.kernel.node(id).ty.axes;
        let spot = &self.places[place as usize];
        if spot.indices.iter().all(|(a, _)| axes.contains(a)) {
            return place;
        }
        let indices = spot.indices.iter().filter(|(a, _)| axes.contains(a)).cloned().collect();
        let bounds = spot.bounds.clone();
        self.intern(Spot { indices, bounds })
    }

    fn position(&self, place: u32, axis: AxisId) -> IndexExpr {
        let spot = &self.places[place as usize];
        let found = spot.indices.iter().find(|(a, _)| *a == axis);
        found.map_or(IndexExpr::Index(axis), |(_, e)| e.clone())
    }

    fn level_of_expr(&self, expr: &IndexExpr) -> Level {
        let mut level = Level::Uniform;
        expr.for_each_leaf(&mut |leaf| match leaf {
            IndexExpr::Index(a) => {
                let inner = self.body.reduced.is_empty() || self.body.reduced.contains(a);
                level = level.max(if inner { Level::Inner } else { Level::Outer });
            }
            IndexExpr::Indirect(n) => level = level.max(self.level_of(ValueId(n.0))),
            IndexExpr::Const(_) | IndexExpr::Extent(_) | IndexExpr::Param(_) => {}
            IndexExpr::Add(..) | IndexExpr::Sub(..) | IndexExpr::Mul(..) => {}
            IndexExpr::FloorDiv(..) | IndexExpr::Mod(..) => {}
        });
        level
    }

    fn load(&mut self, operand: Operand, dtype: DType, node: NodeId) -> ValueId {
        let mut level = Level::Uniform;
        operand.for_each_expr(|e| level = level.max(self.level_of_expr(e)));
        self.body.operands.push(operand);
        let operand = OperandId::from_index(self.body.operands.len() - 1);
        self.push(BodyOp::Load(operand), dtype, level, Some(node))
    }

    fn load_buffer(&mut self, id: NodeId, buffer: BufferRef, layout: &[AxisId], place: u32) -> ValueId {
        if let Some(value) = self.loads.get(&(buffer, place)) {
            return *value;
        }
        let extents = &self.context.facts.extents;
        let indices = layout.iter().map(|a| (*a, extents.simplify(&self.position(place, *a)))).collect();
        let map = IndexMap { indices, bounds: self.places[place as usize].bounds.clone() };
        let dtype = self.context.kernel.node(id).ty.dtype;
        let value = self.load(Operand::Buffer { buffer, dtype, map }, dtype, id);
        self.loads.insert((buffer, place), value);
        value
    }

    /// The value of a node at a place.
    fn eval(&mut self, id: NodeId, place: u32) -> Result<ValueId, Refused> {
        let place = self.restrict(id, place);
        let known = match place {
            0 => self.own[id.index()].checked_sub(1).map(ValueId),
            _ => self.moved.get(&(id, place)).copied(),
        };
        if let Some(value) = known {
            return Ok(value);
        }
        // Loads and constants are values too; the limit on the code counts operations, and is the caller's.
        let limit = VALUES_PER_OPERATION * self.context.code_size as usize;
        if self.depth > MAX_DEPTH || self.body.values.len() > limit {
            let because = format!("the body would have more than {limit} values");
            let refused = Refused::new(Refusal::CodeSize, Some(id), because);
            // An `#[op]` holds the steps at one position; it does not see others.
            let at_one_position = self.places.len() == 1;
            return Err(if at_one_position { refused.unless(write_an_op()) } else { refused });
        }
        self.depth += 1;
        let value = match (self.context.memory)(id) {
            Some((buffer, layout)) => self.load_buffer(id, buffer, &layout, place),
            None => self.compute(id, place)?,
        };
        self.depth -= 1;
        match place {
            0 => self.own[id.index()] = value.0 + 1,
            _ => {
                self.moved.insert((id, place), value);
            }
        }
        Ok(value)
    }

    fn compute(&mut self, id: NodeId, place: u32) -> Result<ValueId, Refused> {
        let kernel = self.context.kernel;
        let node = kernel.node(id);
        let dtype = node.ty.dtype;
        Ok(match &node.op {
            Op::Tensor(p) => self.load_buffer(id, BufferRef::Param(*p), &tensor_axes(kernel, *p), place),
            Op::Scalar(p) => self.push(BodyOp::Param(*p), dtype, Level::Uniform, Some(id)),
            Op::Constant(v) => self.push(BodyOp::Constant(*v), dtype, Level::Uniform, None),
            Op::Extent(e) => self.push(BodyOp::Extent(e.clone()), dtype, Level::Uniform, Some(id)),
            Op::Index(a) => {
                let expr = self.context.facts.extents.simplify(&self.position(place, *a));
                self.load(Operand::Index(expr), dtype, id)
            }
            Op::Map { function, args } => {
                if self.context.facts.may_fault[id.index()] && !self.places[place as usize].bounds.is_empty()
                {
                    let name = label(kernel, id);
                    let because = format!("`{name}` may fault where the padding is");
                    let remedy =
                        format!("pad what `{name}` is computed from, with values for which it cannot fault");
                    return Err(Refused::new(Refusal::IndexMismatch, Some(id), because).unless(remedy));
                }
                let mut values = Vec::with_capacity(args.len());
                for arg in args {
                    values.push(self.eval(*arg, place)?);
                }
                let mut level = values.iter().map(|v| self.level_of(*v)).max().unwrap_or(Level::Uniform);
                // What may fault is not taken out of a loop: over an empty axis the graph computes it nowhere.
                if self.context.facts.may_fault[id.index()] {
                    let axes = node.ty.axes.iter().map(|a| self.level_of_expr(&self.position(place, *a)));
                    level = axes.fold(level, Level::max);
                }
                let op = BodyOp::Map { function: *function, args: values };
                self.push(op, dtype, level, Some(id))
            }
            Op::View { source, map, fill } => self.compute_view(id, *source, map, *fill, place)?,
            Op::Reduce { reducer, sources, output, .. } => {
                if place != 0 && !self.can_move(place) {
                    let because = format!("`{}` is read at positions other than those it is reduced for", {
                        label(kernel, id)
                    });
                    return self.refuse(Refusal::IncompleteReduction, id, because);
                }
                let mut values = Vec::with_capacity(sources.len());
                for source in sources {
                    values.push(self.eval(*source, place)?);
                }
                let level = if self.body.outer.is_empty() { Level::Uniform } else { Level::Outer };
                let op = BodyOp::Reduce { reducer: reducer.clone(), sources: values, output: *output };
                self.push(op, dtype, level, Some(id))
            }
            Op::CumSum { source, .. } => {
                if place != 0 {
                    let because = format!("`{}` is read at other positions", label(kernel, id));
                    return self.refuse(Refusal::IncompleteReduction, id, because);
                }
                let source = self.eval(*source, 0)?;
                self.push(BodyOp::CumSum { source }, dtype, Level::Inner, Some(id))
            }
            Op::Materialize { .. } => {
                let because = format!("`{}` asks for the value in memory", label(kernel, id));
                let refused = Refused::new(Refusal::Materialized, Some(id), because);
                return Err(refused.unless("drop `materialize()`"));
            }
        })
    }

    /// Whether contractions may be computed at a place: positions that are known before the data, everywhere.
    fn can_move(&self, place: u32) -> bool {
        let spot = &self.places[place as usize];
        let mut known = self.of_roots && spot.bounds.is_empty();
        for (_, e) in &spot.indices {
            e.for_each_leaf(&mut |leaf| known &= !matches!(leaf, IndexExpr::Indirect(_)));
        }
        known
    }

    fn compute_view(
        &mut self,
        id: NodeId,
        source: NodeId,
        map: &IndexMap,
        fill: Option<Value>,
        place: u32,
    ) -> Result<ValueId, Refused> {
        let kernel = self.context.kernel;
        let mut names: Vec<(NodeId, ValueId)> = Vec::new();
        for operand in &kernel.node(id).op.operands()[1..] {
            names.push((*operand, self.eval(*operand, place)?));
        }
        // Indices of the view in terms of the domain.
        let extents = &self.context.facts.extents;
        let here = |e: &IndexExpr| {
            let e = e.map_leaves(&mut |leaf| match leaf {
                IndexExpr::Index(a) => self.position(place, *a),
                IndexExpr::Indirect(n) => {
                    let value = names.iter().find(|(m, _)| m == n).map_or(n.0, |(_, v)| v.0);
                    IndexExpr::Indirect(NodeId(value))
                }
                _ => leaf.clone(),
            });
            extents.simplify(&e)
        };
        let mut own = Vec::new();
        for b in &map.bounds {
            let b = Bound { expr: here(&b.expr), extent: extents.simplify(&b.extent) };
            if !extents.always_holds(&b) && !own.contains(&b) {
                own.push(b);
            }
        }
        let indices: Vec<(AxisId, IndexExpr)> = map.indices.iter().map(|(a, e)| (*a, here(e))).collect();
        // A gather without fill checks its indices: out of range is a fault and gives zero.
        let mut checks = Vec::new();
        for ((axis, expr), (_, written)) in indices.iter().zip(&map.indices) {
            let b = Bound { expr: expr.clone(), extent: extents.simplify(&IndexExpr::Extent(*axis)) };
            let mut indirect = false;
            written.for_each_leaf(&mut |leaf| indirect |= matches!(leaf, IndexExpr::Indirect(_)));
            if indirect && !own.contains(&b) {
                checks.push(b);
            }
        }
        let outer_bounds = self.places[place as usize].bounds.clone();
        let mut bounds = outer_bounds.clone();
        for b in own.iter().chain(&checks) {
            if !bounds.contains(b) {
                bounds.push(b.clone());
            }
        }
        let spot = Spot { indices, bounds };
        let spot = match kernel.node(source).op {
            // What a store of another group may overwrite meanwhile is read only where it is asked for.
            Op::Tensor(param) if self.is_overwritten(param) => self.intern_guarded(spot),
            _ => self.intern(spot),
        };
        let dtype = kernel.node(id).ty.dtype;
        let zero = Value::zero(dtype);
        let mut value = self.eval(source, spot)?;
        if !checks.is_empty() {
            let when = outer_bounds.iter().chain(&own).cloned().collect();
            let check = self.load(Operand::Check { when, bounds: checks }, DType::Bool, id);
            value = self.select(check, value, zero, id);
        }
        // A load gives zero itself where its bounds fail.
        let loads_zero = match &self.body.values[value.index()].op {
            BodyOp::Load(operand) => match &self.body.operands[operand.index()] {
                Operand::Buffer { map, .. } => own.iter().all(|b| map.bounds.contains(b)),
                Operand::Index(_) | Operand::Mask(_) | Operand::Check { .. } => false,
            },
            BodyOp::Param(_) | BodyOp::Constant(_) | BodyOp::Extent(_) => false,
            BodyOp::Map { .. } | BodyOp::Reduce { .. } | BodyOp::CumSum { .. } => false,
        };
        let fill = fill.unwrap_or(zero);
        let is_zero = fill == zero && fill.as_f64().is_none_or(f64::is_sign_positive);
        let given = loads_zero && is_zero;
        if !own.is_empty() && !given {
            let mask = self.load(Operand::Mask(own), DType::Bool, id);
            value = self.select(mask, value, fill, id);
        }
        Ok(value)
    }

    fn select(&mut self, condition: ValueId, value: ValueId, fill: Value, id: NodeId) -> ValueId {
        let other = self.push(BodyOp::Constant(fill), fill.dtype(), Level::Uniform, None);
        let level = self.level_of(condition).max(self.level_of(value));
        let dtype = self.context.kernel.node(id).ty.dtype;
        let op = BodyOp::Map { function: MapFn::Op(ScalarOp::Select), args: vec![condition, value, other] };
        self.push(op, dtype, level, Some(id))
    }
}

/// What helps where there is too much code.
pub(crate) fn write_an_op() -> String {
    format!("write elementwise steps as one `#[op]`: its code counts as {MOST_OP_CODE} operations at most")
}

/// The declared axes of a tensor parameter, outermost first.
pub fn tensor_axes(kernel: &Kernel, param: crate::id::ParamId) -> Vec<AxisId> {
    match &kernel.param(param).kind {
        ParamKind::Tensor { axes, .. } => axes.clone(),
        ParamKind::Scalar { .. } | ParamKind::Axis { .. } => Vec::new(),
    }
}

/// How a node is called in messages: as the user wrote it, else by its operation.
pub fn label(kernel: &Kernel, id: NodeId) -> String {
    let written = kernel.origins.get(id.index()).map(|o| o.name.as_deref().unwrap_or(&o.label));
    if let Some(text) = written
        && !text.is_empty()
    {
        return text.to_owned();
    }
    match &kernel.node(id).op {
        Op::Tensor(p) | Op::Scalar(p) => kernel.param(*p).name.clone(),
        Op::Constant(v) => v.to_string(),
        Op::Index(a) => format!("index({})", kernel.axis(*a).name),
        Op::Extent(_) => "extent".into(),
        Op::Map { function: MapFn::Op(op), .. } => match op {
            ScalarOp::Cast(to) => format!("as {to}"),
            op => format!("{op:?}").to_lowercase(),
        },
        Op::Map { function: MapFn::Call { function, .. }, .. } => {
            kernel.functions.get(function.index()).map_or_else(|| "call".into(), |f| f.name.clone())
        }
        Op::View { .. } => "view".into(),
        Op::Reduce { reducer, axes, .. } => {
            let name = format!("{reducer:?}").to_lowercase();
            let name = name.split([' ', '{']).next().unwrap_or_default();
            let axes: Vec<&str> = axes.iter().map(|a| kernel.axis(*a).name.as_str()).collect();
            format!("{name}({})", axes.join(", "))
        }
        Op::CumSum { axis, .. } => format!("cumsum({})", kernel.axis(*axis).name),
        Op::Materialize { .. } => "materialize()".into(),
    }
}

/// Whether `to` depends on `from`.
fn reaches(kernel: &Kernel, from: NodeId, to: NodeId) -> bool {
    let mut seen = vec![false; kernel.nodes.len()];
    let mut stack = vec![to];
    while let Some(id) = stack.pop() {
        if id == from {
            return true;
        }
        if id > from && !std::mem::replace(&mut seen[id.index()], true) {
            stack.extend(kernel.node(id).op.operands());
        }
    }
    false
}
