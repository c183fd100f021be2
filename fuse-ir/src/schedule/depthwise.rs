//! Depthwise convolutions: sums of products of a source with taps of a filter under it, of which neither has columns.
//!
//! A [`Reducer::Dot`] whose sources do not both have outer axes of their own is no matrix product: each filter serves the
//! positions of one channel only. Where the source is read through windows that slide its elements are read once for each
//! tap, though, and a machine that holds sums of neighbouring positions in registers reads them from its nearest cache. What
//! decides is the index maps: an axis of the source moves with an outer axis that the filter does not have and with a reduced
//! one.
//!
//! ```text
//! x[b, p·stride + r − before, q·stride + s − before, c] · w[r, s, c]   slides along p and q
//! x[m, k] · v[k]                                                       does not: a row reduction
//! ```
//!
//! The sums are those of a contraction: they have an error bound, and no order that every backend keeps to.

use super::contraction::{collect_axes, extract_epilogue, rename_operand, rename_reads};
use super::{BodyOp, BodyValue, Level, Operand, ScheduleKind, ScheduledGroup, Store};
use crate::dtype::DType;
use crate::graph::{MapFn, Reducer};
use crate::id::{AxisId, OperandId, ValueId};
use crate::index_map::{IndexExpr, IndexMap};
use crate::scalar::ScalarOp;
use std::collections::BTreeSet;

/// What is multiplied and summed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Depthwise {
    /// The reduced value.
    pub value: ValueId,
    /// What is read through windows that slide; zeros where its bounds fail.
    pub source: OperandId,
    /// The taps; nothing bounds them.
    pub filter: OperandId,
}

/// The depthwise convolution that a body is, if it is one: its only reduction, of two loads of f32 from memory, of which
/// nothing but the reduction is read for each reduced position.
pub fn find_depthwise(
    outer: &[AxisId],
    reduced: &[AxisId],
    operands: &[Operand],
    values: &[BodyValue],
    stores: &[Store],
) -> Option<Depthwise> {
    let mut found = None;
    for (k, value) in values.iter().enumerate() {
        match &value.op {
            BodyOp::Reduce { reducer: Reducer::Dot, sources, .. } if found.is_none() => {
                found = Some((ValueId::from_index(k), [sources[0], sources[1]]));
            }
            BodyOp::Reduce { .. } | BodyOp::CumSum { .. } => return None,
            BodyOp::Load(_) | BodyOp::Param(_) | BodyOp::Constant(_) => {}
            BodyOp::Extent(_) | BodyOp::Map { .. } => {}
        }
    }
    let (value, sources) = found?;
    // A product is an outer value, and so is all that is stored; what else is computed inside has nobody to read it.
    if outer.is_empty() || stores.iter().any(|s| values[s.value.index()].level == Level::Inner) {
        return None;
    }
    let axes = collect_axes(operands, values, reduced);
    let load = |v: ValueId| match values[v.index()].op {
        BodyOp::Load(operand) => Some((operand, affine_map(&operands[operand.index()])?)),
        BodyOp::Param(_) | BodyOp::Constant(_) | BodyOp::Extent(_) => None,
        BodyOp::Map { .. } | BodyOp::Reduce { .. } | BodyOp::CumSum { .. } => None,
    };
    let (first, second) = (load(sources[0])?, load(sources[1])?);
    let slides = |source: &IndexMap, filter: ValueId| {
        let of_source_alone = |a: &AxisId| outer.contains(a) && !axes[filter.index()].contains(a);
        source.indices.iter().any(|(_, e)| {
            let moved = indices_of(e);
            moved.iter().any(of_source_alone) && moved.iter().any(|a| reduced.contains(a))
        })
    };
    let covers = |source: ValueId, filter: ValueId| axes[filter.index()].is_subset(&axes[source.index()]);
    let is_pair = |source: (&IndexMap, ValueId), filter: (&IndexMap, ValueId)| {
        filter.0.bounds.is_empty() && covers(source.1, filter.1) && slides(source.0, filter.1)
    };
    let (one, two) = ((first.1, sources[0]), (second.1, sources[1]));
    if is_pair(one, two) {
        Some(Depthwise { value, source: first.0, filter: second.0 })
    } else if is_pair(two, one) {
        Some(Depthwise { value, source: second.0, filter: first.0 })
    } else {
        None
    }
}

/// The map of an operand in memory of f32 of which every position is affine in the positions of the domain.
fn affine_map(operand: &Operand) -> Option<&IndexMap> {
    let Operand::Buffer { dtype: DType::F32, map, .. } = operand else { return None };
    let exprs = map.indices.iter().map(|(_, e)| e).chain(map.bounds.iter().map(|b| &b.expr));
    exprs.into_iter().all(is_affine).then_some(map)
}

fn is_affine(expr: &IndexExpr) -> bool {
    match expr {
        IndexExpr::Const(_) | IndexExpr::Index(_) | IndexExpr::Extent(_) | IndexExpr::Param(_) => true,
        IndexExpr::Add(a, b) | IndexExpr::Sub(a, b) => is_affine(a) && is_affine(b),
        IndexExpr::Mul(a, b) => {
            is_affine(a) && is_affine(b) && (indices_of(a).is_empty() || indices_of(b).is_empty())
        }
        IndexExpr::FloorDiv(..) | IndexExpr::Mod(..) | IndexExpr::Indirect(_) => false,
    }
}

fn indices_of(expr: &IndexExpr) -> BTreeSet<AxisId> {
    let mut axes = BTreeSet::new();
    expr.for_each_leaf(&mut |leaf| {
        if let IndexExpr::Index(a) = leaf {
            axes.insert(*a);
        }
    });
    axes
}

/// The parts of a depthwise convolution.
#[derive(Clone, PartialEq, Debug)]
pub struct DepthwiseParts {
    /// What is read through windows, over the outer and the reduced axes.
    pub source: Operand,
    /// The taps.
    pub filter: Operand,
    /// What is made of the sums: a pointwise group over the outer axes in which the sum is a [`BodyOp::Reduce`] without
    /// sources.
    pub epilogue: ScheduledGroup,
    /// The sum, by its value in the epilogue; `None` if nobody reads it.
    pub value: Option<ValueId>,
}

/// Takes a depthwise convolution apart; `None` if the group is none.
pub fn cut_depthwise(group: &ScheduledGroup) -> Option<DepthwiseParts> {
    if group.kind != ScheduleKind::Depthwise {
        return None;
    }
    let found = depthwise_of(group)?;
    let roots: Vec<ValueId> = group.stores.iter().map(|s| s.value).collect();
    let (epilogue, renamed) = extract_epilogue(group, &roots, &[found.value]);
    Some(DepthwiseParts {
        source: group.operands[found.source.index()].clone(),
        filter: group.operands[found.filter.index()].clone(),
        epilogue,
        value: renamed[found.value.index()],
    })
}

/// The depthwise convolution that a group is.
pub fn depthwise_of(group: &ScheduledGroup) -> Option<Depthwise> {
    find_depthwise(&group.outer, &group.reduced, &group.operands, &group.values, &group.stores)
}

/// The same sums as reductions by column of products, for machines that have no other loop for them.
pub fn as_column(group: &ScheduledGroup) -> ScheduledGroup {
    let mut group = group.clone();
    group.kind = ScheduleKind::Column;
    let Some(found) = depthwise_of(&group) else { return group };
    // The product stands before the sum; what comes behind it moves up.
    let product = found.value;
    let moved = |v: ValueId| if v < product { v } else { ValueId(v.0 + 1) };
    let renamed: Vec<ValueId> = (0..group.values.len()).map(|k| moved(ValueId::from_index(k))).collect();
    group.values.iter_mut().for_each(|v| rename_reads(&mut v.op, &renamed));
    group.operands.iter_mut().for_each(|o| rename_operand(o, &renamed));
    group.stores.iter_mut().for_each(|s| s.value = moved(s.value));
    group.prologue.iter_mut().for_each(|v| *v = moved(*v));
    for pass in &mut group.passes {
        let lists = [&mut pass.values, &mut pass.reductions, &mut pass.buffered, &mut pass.epilogue];
        lists.into_iter().flatten().for_each(|v| *v = moved(*v));
        pass.values.push(product);
    }
    let sum = &mut group.values[product.index()];
    let (dtype, node) = (sum.dtype, sum.node);
    if let BodyOp::Reduce { reducer, sources, .. } = &mut sum.op {
        let args = std::mem::replace(sources, vec![product]);
        *reducer = Reducer::Sum;
        let op = BodyOp::Map { function: MapFn::Op(ScalarOp::Mul), args };
        group.values.insert(product.index(), BodyValue { op, dtype, level: Level::Inner, node });
    }
    group
}
