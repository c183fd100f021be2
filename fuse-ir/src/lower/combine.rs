//! How two partial results of a reduction become one, as statements: what [`crate::eval`] does on values.

use super::body::{Emitter, Scope};
use crate::dtype::{DType, Value};
use crate::graph::Reducer;
use crate::id::{FnId, NodeId, ValueId};
use crate::kernel_ir::Expr;
use crate::scalar::ScalarOp;
use crate::schedule::{BodyOp, ScheduledGroup};

/// The values of a pass that one reduction gives.
#[derive(Clone, Debug)]
pub(super) struct Reduction<'a> {
    reducer: &'a Reducer,
    /// What is reduced.
    pub(super) sources: &'a [ValueId],
    /// The values of the body, with the component of the finished tuple that each is.
    pub(super) values: Vec<(ValueId, u32)>,
    /// The dtypes of a partial result.
    pub(super) components: Vec<DType>,
    /// What an empty row gives.
    pub(super) identity: Vec<Value>,
    node: Option<NodeId>,
}

/// The distinct reductions of these values.
pub(super) fn collect_reductions<'a>(group: &'a ScheduledGroup, ids: &[ValueId]) -> Vec<Reduction<'a>> {
    let mut list: Vec<Reduction<'a>> = Vec::new();
    for &id in ids {
        let BodyOp::Reduce { reducer, sources, output } = &group.value(id).op else { continue };
        let same = list.iter_mut().find(|r| r.sources == sources && r.reducer.is_same(reducer));
        if let Some(found) = same {
            found.values.push((id, *output));
            continue;
        }
        let dtypes: Vec<DType> = sources.iter().map(|s| group.value(*s).dtype.compute()).collect();
        let first = dtypes.first().copied().unwrap_or(DType::F32);
        let identity: Vec<Value> =
            reducer.identity(first).iter().map(|v| v.cast(v.dtype().compute())).collect();
        let components = identity.iter().map(|v| v.dtype()).collect();
        let values = vec![(id, *output)];
        list.push(Reduction { reducer, sources, values, components, identity, node: group.value(id).node });
    }
    list
}

impl Reduction<'_> {
    /// Whether elements are combined in order.
    pub(super) fn is_ordered(&self) -> bool {
        matches!(self.reducer, Reducer::User { ordered: true, .. })
    }

    /// The element at `position` of the row as a partial result.
    pub(super) fn lift(&self, mut element: Vec<Expr>, position: &Expr) -> Vec<Expr> {
        match self.reducer {
            Reducer::ArgMax | Reducer::ArgMin => element.push(position.clone().cast(DType::I64)),
            Reducer::Dot => return vec![Expr::Op(ScalarOp::Mul, element)],
            Reducer::Sum | Reducer::Prod | Reducer::Max | Reducer::Min => {}
            Reducer::Any | Reducer::All | Reducer::User { .. } => {}
        }
        element
    }

    /// What the reduction gives of the last partial result.
    pub(super) fn finish(&self, partial: &[Expr], output: u32) -> Expr {
        let component = match self.reducer {
            Reducer::ArgMax | Reducer::ArgMin => 1,
            Reducer::Sum | Reducer::Dot | Reducer::Prod | Reducer::Max | Reducer::Min => 0,
            Reducer::Any | Reducer::All => 0,
            Reducer::User { .. } => output as usize,
        };
        partial[component].clone()
    }

    /// Whether combining calls a function of the user, which may fault.
    pub(super) fn calls(&self) -> bool {
        self.function().is_some()
    }

    fn function(&self) -> Option<FnId> {
        match self.reducer {
            Reducer::User { combine, .. } => Some(*combine),
            _ => None,
        }
    }
}

impl Emitter<'_> {
    /// `left ⊕ right`.
    pub(super) fn combine(
        &mut self,
        reduction: &Reduction<'_>,
        left: &[Expr],
        right: &[Expr],
        scope: &Scope,
    ) -> Vec<Expr> {
        if let Some(function) = reduction.function() {
            return self.call("combined", reduction.node, function, [left, right].concat(), scope);
        }
        let float = matches!(reduction.components[0], DType::F32 | DType::F64);
        match (reduction.reducer, reduction.reducer.operation(float)) {
            (Reducer::ArgMax | Reducer::ArgMin, Some(before)) => self.choose(left, right, before, float),
            (_, Some(op)) => vec![Expr::Op(op, vec![left[0].clone(), right[0].clone()])],
            (_, None) => Vec::new(),
        }
    }

    /// Of two (value, position) the one that comes first: a NaN, then the value by `before`, then the position.
    fn choose(&mut self, left: &[Expr], right: &[Expr], before: ScalarOp, float: bool) -> Vec<Expr> {
        let [a, b] = [&left[0], &right[0]];
        let not = |e: Expr| e.unary(ScalarOp::Not);
        let earlier = left[1].clone().le(&right[1]);
        let wins = |a: &Expr, b: &Expr| Expr::Op(before, vec![a.clone(), b.clone()]);
        let by_value = wins(a, b) | (not(wins(b, a)) & earlier.clone());
        let left_wins = if float {
            let [a_nan, b_nan] = [a, b].map(|e| e.clone().unary(ScalarOp::IsNan));
            (a_nan.clone() & (not(b_nan.clone()) | earlier)) | (not(a_nan) & not(b_nan) & by_value)
        } else {
            by_value
        };
        let left_wins = self.builder.bind("left_wins", left_wins);
        vec![left_wins.clone().select(a, b), left_wins.select(&left[1], &right[1])]
    }

    /// A partial result under names, so that it is computed once.
    pub(super) fn bind_all(&mut self, name: &str, partial: Vec<Expr>) -> Vec<Expr> {
        partial.into_iter().map(|e| self.builder.bind(name, e)).collect()
    }
}
