//! The dimensions of a group: its axes, and the parts of those that `split` and `merge` divide.

use super::ScheduledGroup;
use crate::id::AxisId;
use crate::index_map::IndexExpr;

/// The most dimensions of a group. A launch keeps extents and strides of that many on the stack.
pub const MOST_DIMENSIONS: usize = 16;

impl ScheduledGroup {
    /// The strides at which the index expressions of the group divide axes (`i / |E|`, `i % |E|`), each once.
    pub fn axis_cuts(&self) -> Vec<(AxisId, IndexExpr)> {
        let mut cuts = Vec::new();
        for operand in &self.operands {
            operand.for_each_expr(|e| collect_cuts(e, &mut cuts));
        }
        for store in &self.stores {
            store.indices.iter().for_each(|(_, e)| collect_cuts(e, &mut cuts));
        }
        cuts
    }

    /// How many dimensions there are at most, at most [`MOST_DIMENSIONS`].
    pub fn count_dimensions(&self) -> usize {
        self.outer.len() + self.reduced.len() + self.axis_cuts().len()
    }
}

/// The strides at which an expression divides axes.
fn collect_cuts(expr: &IndexExpr, cuts: &mut Vec<(AxisId, IndexExpr)>) {
    /// The axis that the expression is a part of, and the step on it of one.
    fn part(expr: &IndexExpr, cuts: &mut Vec<(AxisId, IndexExpr)>) -> Option<(AxisId, IndexExpr)> {
        match expr {
            IndexExpr::Index(axis) => Some((*axis, IndexExpr::Const(1))),
            IndexExpr::FloorDiv(a, b) => {
                let (axis, step) = part(a, cuts)?;
                let cut = (axis, step.times((**b).clone()));
                add_cut(&cut, cuts);
                Some(cut)
            }
            IndexExpr::Mod(a, b) => {
                let (axis, step) = part(a, cuts)?;
                add_cut(&(axis, step.clone().times((**b).clone())), cuts);
                Some((axis, step))
            }
            IndexExpr::Add(a, b) | IndexExpr::Sub(a, b) | IndexExpr::Mul(a, b) => {
                part(a, cuts);
                part(b, cuts);
                None
            }
            IndexExpr::Const(_) | IndexExpr::Extent(_) | IndexExpr::Param(_) | IndexExpr::Indirect(_) => None,
        }
    }
    fn add_cut(cut: &(AxisId, IndexExpr), cuts: &mut Vec<(AxisId, IndexExpr)>) {
        let mut constant = true;
        cut.1.for_each_leaf(&mut |leaf| {
            constant &= !matches!(leaf, IndexExpr::Index(_) | IndexExpr::Indirect(_));
        });
        if constant && !cuts.contains(cut) {
            cuts.push(cut.clone());
        }
    }
    part(expr, cuts);
}
