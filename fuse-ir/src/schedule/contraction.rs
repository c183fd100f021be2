//! Contractions: which axes of a group are the rows, columns and batches of its matrix products, and the parts into which
//! a group falls that computes them by panels.
//!
//! A [`Reducer::Dot`] is a contraction where each of its two sources has outer axes of its own. Those of the left source
//! alone are *rows*, those of the right source alone *columns*, those of both *batch*. Nothing else is asked: whether it
//! is a matrix product, a batched one or a convolution is a matter of the index maps by which the sources are loaded.
//! Where one side has no axes of its own (a product of a matrix and a vector) nothing is read more often than once, and
//! the reduction is a sum of products like any other.
//!
//! ```text
//! panels     a pointwise group for each source: batch × rows × reduced, batch × columns × reduced
//! products   rows × columns of a tile, by a matrix multiplication over the reduced positions
//! epilogue   a pointwise group over batch × rows × columns that finds the products as values
//! ```

use super::build::Body;
use super::{BodyOp, BodyValue, Level, Operand, Pass, ScheduleKind, ScheduledGroup, Store};
use crate::dtype::DType;
use crate::graph::{MapFn, Reducer};
use crate::id::{AxisId, NodeId, OperandId, ValueId};
use crate::index_map::{Bound, IndexExpr};
use crate::scalar::ScalarOp;
use std::collections::BTreeSet;

/// The outer axes of a contraction by what they are to its products, each in the order of the group's.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sides {
    /// Axes of both sources.
    pub batch: Vec<AxisId>,
    /// Axes of the left source alone.
    pub rows: Vec<AxisId>,
    /// Axes of the right source alone; the last outer axis is one of them if it is no batch.
    pub columns: Vec<AxisId>,
}

/// One product of a contraction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Product {
    /// The reduced value.
    pub value: ValueId,
    /// The source that has the rows.
    pub left: ValueId,
    /// The source that has the columns.
    pub right: ValueId,
}

/// Why the reductions of a body are no contraction and yet no sums of products either.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mixed {
    /// Another reduction shares the loop.
    OtherReduction(ValueId),
    /// A product reads the result of another one.
    Chained(ValueId),
}

/// The sides and products of a body whose reductions are contractions; `None` if they are sums of products.
///
/// # Errors
/// If some are contractions and the rest of the body does not allow to compute them as such.
pub fn find_contraction(
    outer: &[AxisId],
    reduced: &[AxisId],
    operands: &[Operand],
    values: &[BodyValue],
) -> Result<Option<(Sides, Vec<Product>)>, Mixed> {
    let axes = collect_axes(operands, values, reduced);
    let mut products = Vec::new();
    let mut other = None;
    for (k, value) in values.iter().enumerate() {
        let id = ValueId::from_index(k);
        match &value.op {
            BodyOp::Reduce { reducer: Reducer::Dot, sources, .. } => {
                products.push(Product { value: id, left: sources[0], right: sources[1] });
            }
            BodyOp::Reduce { .. } | BodyOp::CumSum { .. } => other = other.or(Some(id)),
            BodyOp::Load(_) | BodyOp::Param(_) | BodyOp::Constant(_) => {}
            BodyOp::Extent(_) | BodyOp::Map { .. } => {}
        }
    }
    let own = |a: ValueId, b: ValueId| -> BTreeSet<AxisId> {
        let (a, b) = (&axes[a.index()], &axes[b.index()]);
        outer.iter().copied().filter(|x| a.contains(x) && !b.contains(x)).collect()
    };
    // A product is only as good as its worst side.
    let two_sided = |p: &Product| !own(p.left, p.right).is_empty() && !own(p.right, p.left).is_empty();
    if !products.iter().any(two_sided) {
        return Ok(None);
    }
    if let Some(id) = other {
        return Err(Mixed::OtherReduction(id));
    }
    let reads = |id: ValueId| match &values[id.index()].op {
        BodyOp::Load(operand) => operands[operand.index()].reads(),
        BodyOp::Map { args, .. } => args.clone(),
        BodyOp::Reduce { sources, .. } => sources.clone(),
        BodyOp::CumSum { source } => vec![*source],
        BodyOp::Param(_) | BodyOp::Constant(_) | BodyOp::Extent(_) => Vec::new(),
    };
    for p in &products {
        let mut stack = vec![p.left, p.right];
        let mut seen = BTreeSet::new();
        while let Some(id) = stack.pop() {
            if matches!(values[id.index()].op, BodyOp::Reduce { .. }) {
                return Err(Mixed::Chained(p.value));
            }
            if seen.insert(id) {
                stack.extend(reads(id));
            }
        }
    }
    // The first two-sided product decides which sides there are; others take the order that agrees with it most.
    let Some(first) = products.iter().copied().find(two_sided) else { return Ok(None) };
    let (mut rows, mut columns) = (own(first.left, first.right), own(first.right, first.left));
    for p in &mut products {
        let agree = |a: ValueId, b: ValueId| {
            own(a, b).intersection(&rows).count() + own(b, a).intersection(&columns).count()
        };
        if agree(p.right, p.left) > agree(p.left, p.right) {
            (p.left, p.right) = (p.right, p.left);
        }
    }
    // An axis that another product reads otherwise is a batch: each of its positions has products of its own.
    for p in &products {
        let (left, right) = (own(p.left, p.right), own(p.right, p.left));
        rows.retain(|a| left.contains(a));
        columns.retain(|a| right.contains(a));
    }
    if outer.last().is_some_and(|last| rows.contains(last)) {
        std::mem::swap(&mut rows, &mut columns);
        products.iter_mut().for_each(|p| (p.left, p.right) = (p.right, p.left));
    }
    let pick = |set: &BTreeSet<AxisId>| outer.iter().copied().filter(|a| set.contains(a)).collect();
    let sides = Sides {
        batch: outer.iter().copied().filter(|a| !rows.contains(a) && !columns.contains(a)).collect(),
        rows: pick(&rows),
        columns: pick(&columns),
    };
    Ok(Some((sides, products)))
}

/// The sides and products of a scheduled contraction.
pub fn contraction_of(group: &ScheduledGroup) -> Option<(Sides, Vec<Product>)> {
    find_contraction(&group.outer, &group.reduced, &group.operands, &group.values).ok().flatten()
}

/// The domain axes on which each value depends.
pub fn collect_axes(operands: &[Operand], values: &[BodyValue], reduced: &[AxisId]) -> Vec<BTreeSet<AxisId>> {
    let mut axes: Vec<BTreeSet<AxisId>> = Vec::with_capacity(values.len());
    for value in values {
        let mut own = BTreeSet::new();
        let mut join = |ids: &[ValueId]| ids.iter().for_each(|v| own.extend(&axes[v.index()]));
        match &value.op {
            BodyOp::Load(operand) => {
                let operand = &operands[operand.index()];
                join(&operand.reads());
                operand.for_each_expr(|e| {
                    e.for_each_leaf(&mut |leaf| {
                        if let IndexExpr::Index(a) = leaf {
                            own.insert(*a);
                        }
                    });
                });
            }
            BodyOp::Map { args, .. } => join(args),
            BodyOp::Reduce { sources, .. } => {
                join(sources);
                own.retain(|a| !reduced.contains(a));
            }
            BodyOp::CumSum { source } => join(&[*source]),
            BodyOp::Param(_) | BodyOp::Constant(_) | BodyOp::Extent(_) => {}
        }
        axes.push(own);
    }
    axes
}

/// Turns every [`Reducer::Dot`] of a body into a product of its sources and their sum.
pub(crate) fn multiply_and_sum(body: &mut Body) {
    let mut renamed: Vec<ValueId> = Vec::with_capacity(body.values.len());
    let mut values: Vec<BodyValue> = Vec::with_capacity(body.values.len() + 1);
    for mut value in std::mem::take(&mut body.values) {
        rename_reads(&mut value.op, &renamed);
        if let BodyOp::Reduce { reducer: reducer @ Reducer::Dot, sources, .. } = &mut value.op {
            let args = std::mem::take(sources);
            let op = BodyOp::Map { function: MapFn::Op(ScalarOp::Mul), args };
            // A product of sources that are constant along the reduced axes is summed all the same.
            values.push(BodyValue { op, dtype: value.dtype, level: Level::Inner, node: value.node });
            *sources = vec![ValueId::from_index(values.len() - 1)];
            *reducer = Reducer::Sum;
        }
        renamed.push(ValueId::from_index(values.len()));
        values.push(value);
    }
    body.values = values;
    body.operands.iter_mut().for_each(|o| rename_operand(o, &renamed));
    body.stores.iter_mut().for_each(|s| s.value = renamed[s.value.index()]);
}

pub(super) fn rename_reads(op: &mut BodyOp, renamed: &[ValueId]) {
    match op {
        BodyOp::Map { args: list, .. } | BodyOp::Reduce { sources: list, .. } => {
            list.iter_mut().for_each(|v| *v = renamed[v.index()]);
        }
        BodyOp::CumSum { source } => *source = renamed[source.index()],
        BodyOp::Load(_) | BodyOp::Param(_) | BodyOp::Constant(_) | BodyOp::Extent(_) => {}
    }
}

/// The operand with the values of its indirect reads renamed.
pub(super) fn rename_operand(operand: &mut Operand, renamed: &[ValueId]) {
    let rename = |e: &mut IndexExpr| {
        *e = e.map_leaves(&mut |leaf| match leaf {
            IndexExpr::Indirect(n) => IndexExpr::Indirect(NodeId(renamed[n.index()].0)),
            _ => leaf.clone(),
        });
    };
    let of_bounds = |bounds: &mut Vec<Bound>| bounds.iter_mut().for_each(|b| rename(&mut b.expr));
    match operand {
        Operand::Buffer { map, .. } => {
            map.indices.iter_mut().for_each(|(_, e)| rename(e));
            of_bounds(&mut map.bounds);
        }
        Operand::Index(e) => rename(e),
        Operand::Mask(bounds) => of_bounds(bounds),
        Operand::Check { when, bounds } => {
            of_bounds(when);
            of_bounds(bounds);
        }
    }
}

/// The parts of a contraction.
#[derive(Clone, PartialEq, Debug)]
pub struct Parts {
    /// What each axis is.
    pub sides: Sides,
    /// The sources: pointwise groups without stores. One that computes its panel keeps it in a row buffer; one that only
    /// loads has nothing to compute.
    pub panels: Vec<Panel>,
    /// What is made of the products: a pointwise group in which a product is a [`BodyOp::Reduce`] without sources.
    pub epilogue: ScheduledGroup,
    /// The products, by their values in the epilogue.
    pub products: Vec<PartProduct>,
}

/// A source of products.
#[derive(Clone, PartialEq, Debug)]
pub struct Panel {
    /// Its group, over batch, its side and the reduced axes.
    pub group: ScheduledGroup,
    /// The value of the group that it is.
    pub value: ValueId,
    /// Whether it has the rows; else the columns.
    pub is_left: bool,
}

/// A product by its panels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartProduct {
    /// The value in the epilogue.
    pub value: ValueId,
    /// The panel that has the rows.
    pub left: usize,
    /// The panel that has the columns.
    pub right: usize,
    /// The dtype of sources and sums.
    pub dtype: DType,
}

/// Takes a contraction apart; `None` if the group is none.
pub fn cut_contraction(group: &ScheduledGroup) -> Option<Parts> {
    if group.kind != ScheduleKind::Contraction {
        return None;
    }
    let (sides, products) = contraction_of(group)?;
    Some(cut_products(group, sides, &products))
}

/// [`cut_contraction`] for a machine that goes through tiles row by row: what the epilogue makes of rows and batch alone, such
/// as the root of a variance, is an outer value, computed once for each row. Products of bytes have the bytes for sources,
/// where all are signed or none is: the multiplication widens them.
pub fn cut_contraction_by_rows(group: &ScheduledGroup) -> Option<Parts> {
    let mut parts = cut_contraction(group)?;
    hoist_row_values(&mut parts);
    narrow_panels(&mut parts);
    Some(parts)
}

/// Leaves the widening of bytes to the products, if it is the last thing in every panel.
fn narrow_panels(parts: &mut Parts) {
    let mut narrow = Vec::new();
    for panel in &parts.panels {
        let BodyOp::Map { function: MapFn::Op(ScalarOp::Cast(DType::I32)), args } =
            &panel.group.value(panel.value).op
        else {
            return;
        };
        narrow.push(args[0]);
    }
    let dtype = |(panel, id): (&Panel, &ValueId)| panel.group.value(*id).dtype;
    let dtypes: BTreeSet<DType> = parts.panels.iter().zip(&narrow).map(dtype).collect();
    let is_last = |(panel, id): (&Panel, &ValueId)| id.index() + 2 == panel.group.values.len();
    let of_bytes = [DType::I8, DType::U8].iter().any(|d| dtypes == BTreeSet::from([*d]));
    if !of_bytes || !parts.panels.iter().zip(&narrow).all(is_last) {
        return;
    }
    for (panel, value) in parts.panels.iter_mut().zip(narrow) {
        panel.group.values.pop();
        let is_loaded = matches!(panel.group.value(value).op, BodyOp::Load(_));
        let pass = &mut panel.group.passes[0];
        pass.values.retain(|v| *v != panel.value);
        pass.buffered = if is_loaded { Vec::new() } else { vec![value] };
        panel.value = value;
    }
}

fn hoist_row_values(parts: &mut Parts) {
    let (epilogue, sides) = (&mut parts.epilogue, &parts.sides);
    let axes = collect_axes(&epilogue.operands, &epilogue.values, &[]);
    let mut of_row: Vec<bool> = Vec::with_capacity(epilogue.values.len());
    for (value, axes) in epilogue.values.iter().zip(&axes) {
        let is_float = |v: &ValueId| epilogue.value(*v).dtype.is_float();
        of_row.push(match &value.op {
            BodyOp::Load(operand) => {
                let operand = &epilogue.operands[operand.index()];
                let is_plain = matches!(operand, Operand::Buffer { .. }) && operand.reads().is_empty();
                is_plain && axes.iter().all(|a| sides.rows.contains(a) || sides.batch.contains(a))
            }
            // Nothing of floats faults.
            BodyOp::Map { function: MapFn::Op(_), args } => {
                args.iter().all(|a| of_row[a.index()] && is_float(a)) && value.dtype.is_float()
            }
            BodyOp::Param(_) | BodyOp::Constant(_) => true,
            BodyOp::Map { .. } | BodyOp::Reduce { .. } | BodyOp::CumSum { .. } | BodyOp::Extent(_) => false,
        });
    }
    let is_hoisted = |epilogue: &ScheduledGroup, v: usize| {
        let value = &epilogue.values[v];
        let is_stored = epilogue.stores.iter().any(|s| s.value.index() == v);
        of_row[v] && !is_stored && value.level == Level::Inner && matches!(value.op, BodyOp::Map { .. })
    };
    let hoisted: Vec<usize> = (0..epilogue.values.len()).filter(|&v| is_hoisted(epilogue, v)).collect();
    if hoisted.is_empty() {
        return;
    }
    hoisted.into_iter().for_each(|v| epilogue.values[v].level = Level::Outer);
    let stores = std::mem::take(&mut epilogue.passes[0].stores);
    epilogue.prologue.clear();
    fill_pass(epilogue);
    epilogue.passes[0].stores = stores;
}

/// Takes a contraction apart whose sides are given: every axis of both sources is among the batch, which may have more.
pub(super) fn cut_products(group: &ScheduledGroup, sides: Sides, products: &[Product]) -> Parts {
    let mut sources: Vec<(ValueId, bool)> = Vec::new();
    let mut panels = Vec::new();
    let mut panel_of = |value: ValueId, is_left: bool| {
        let value = peel_widening(group, value);
        if let Some(k) = sources.iter().position(|s| *s == (value, is_left)) {
            return k;
        }
        sources.push((value, is_left));
        let side = if is_left { &sides.rows } else { &sides.columns };
        let outer = [sides.batch.as_slice(), side, &group.reduced].concat();
        let mut cut = extract(group, &[value], outer);
        let value = ValueId::from_index(cut.values.len() - 1);
        if !matches!(cut.value(value).op, BodyOp::Load(_)) {
            cut.passes[0].buffered = vec![value];
        }
        panels.push(Panel { group: cut, value, is_left });
        panels.len() - 1
    };
    let pairs: Vec<(usize, usize)> =
        products.iter().map(|p| (panel_of(p.left, true), panel_of(p.right, false))).collect();
    let roots: Vec<ValueId> = group.stores.iter().map(|s| s.value).collect();
    let kept: Vec<ValueId> = products.iter().map(|p| p.value).collect();
    let (mut epilogue, renamed) = extract_epilogue(group, &roots, &kept);
    epilogue.outer = [sides.batch.as_slice(), &sides.rows, &sides.columns].concat();
    let products = products
        .iter()
        .zip(pairs)
        .filter_map(|(p, (left, right))| {
            let value = renamed[p.value.index()]?;
            Some(PartProduct { value, left, right, dtype: group.value(p.value).dtype })
        })
        .collect();
    Parts { sides, panels, epilogue, products }
}

/// What a source that only widens a loaded narrow float loads: loads widen by themselves.
pub(super) fn peel_widening(group: &ScheduledGroup, value: ValueId) -> ValueId {
    let BodyOp::Map { function: MapFn::Op(ScalarOp::Cast(DType::F32)), args } = &group.value(value).op else {
        return value;
    };
    let from = group.value(args[0]);
    let widens = from.dtype.is_narrow_float() && matches!(from.op, BodyOp::Load(_));
    if widens { args[0] } else { value }
}

/// The pointwise group over these axes that computes `roots`, the last of them last, and stores nothing.
pub(super) fn extract(group: &ScheduledGroup, roots: &[ValueId], outer: Vec<AxisId>) -> ScheduledGroup {
    let (mut cut, _) = copy_values(group, roots, &[]);
    cut.outer = outer;
    fill_pass(&mut cut);
    cut
}

/// The pointwise group of what is stored, in which `kept` are given.
pub(super) fn extract_epilogue(
    group: &ScheduledGroup,
    roots: &[ValueId],
    kept: &[ValueId],
) -> (ScheduledGroup, Vec<Option<ValueId>>) {
    let (mut cut, renamed) = copy_values(group, roots, kept);
    cut.outer.clone_from(&group.outer);
    for store in &group.stores {
        let Some(value) = renamed[store.value.index()] else { continue };
        cut.stores.push(Store { value, ..store.clone() });
    }
    fill_pass(&mut cut);
    cut.passes[0].stores = (0..cut.stores.len() as u32).collect();
    (cut, renamed)
}

/// Copies the values that `roots` need, `kept` without what they reduce, with new numbers.
fn copy_values(
    group: &ScheduledGroup,
    roots: &[ValueId],
    kept: &[ValueId],
) -> (ScheduledGroup, Vec<Option<ValueId>>) {
    let mut needed = vec![false; group.values.len()];
    let mut stack = roots.to_vec();
    while let Some(v) = stack.pop() {
        if std::mem::replace(&mut needed[v.index()], true) || kept.contains(&v) {
            continue;
        }
        stack.extend(group.reads(v));
    }
    let mut cut = ScheduledGroup::empty(group.id);
    let mut renamed: Vec<Option<ValueId>> = vec![None; group.values.len()];
    // Of a value that is not needed nobody asks.
    let numbers = |renamed: &[Option<ValueId>]| -> Vec<ValueId> {
        renamed.iter().map(|v| v.unwrap_or(ValueId(0))).collect()
    };
    for (k, value) in group.values.iter().enumerate().filter(|(k, _)| needed[*k]) {
        let mut value = value.clone();
        if value.level == Level::Outer {
            value.level = Level::Inner;
        }
        if kept.contains(&ValueId::from_index(k)) {
            value.level = Level::Inner;
            value.op = BodyOp::Reduce { reducer: Reducer::Dot, sources: Vec::new(), output: 0 };
        } else if let BodyOp::Load(operand) = &mut value.op {
            let mut copy = group.operands[operand.index()].clone();
            rename_operand(&mut copy, &numbers(&renamed));
            cut.operands.push(copy);
            *operand = OperandId::from_index(cut.operands.len() - 1);
        } else {
            rename_reads(&mut value.op, &numbers(&renamed));
        }
        renamed[k] = Some(ValueId::from_index(cut.values.len()));
        cut.values.push(value);
    }
    (cut, renamed)
}

/// The one pass of a pointwise group, and its uniform values.
pub(super) fn fill_pass(cut: &mut ScheduledGroup) {
    let mut pass = Pass::default();
    for k in 0..cut.values.len() {
        let id = ValueId::from_index(k);
        let value = cut.value(id);
        match (&value.op, value.level) {
            (BodyOp::Reduce { .. }, _) => {}
            (_, Level::Inner) => pass.values.push(id),
            (_, Level::Uniform | Level::Outer) => cut.prologue.push(id),
        }
    }
    cut.passes = vec![pass];
}
