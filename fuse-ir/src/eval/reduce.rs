//! The reduction tree of [`crate::schedule`] on the elements of one row, and the plain loop of the f64 reference.

use super::scalar_fn::{audit_fn, eval_fn_in};
use super::{Fault, Precision, eval_op};
use crate::dtype::{DType, Value};
use crate::graph::Reducer;
use crate::scalar::{ScalarFn, ScalarOp};
use crate::schedule::{CHUNK, LANES};

/// How two partial results of a reduction become one: a tuple of one value, of (value, position) or of a user's.
pub(crate) struct Combiner<'a> {
    reducer: &'a Reducer,
    functions: &'a [ScalarFn],
    precision: Precision,
    identity: Vec<Value>,
    /// The first fault of a user's combiner.
    pub(crate) fault: Option<Fault>,
    /// The worst error of an operation of a user's combiner in ulp, where it is asked for.
    pub(super) worst: Option<f64>,
}

impl<'a> Combiner<'a> {
    /// The combiner of a reduction over sources of these dtypes.
    pub(crate) fn new(
        reducer: &'a Reducer,
        sources: &[DType],
        functions: &'a [ScalarFn],
        precision: Precision,
    ) -> Self {
        let dtype = sources.first().copied().unwrap_or(DType::F32);
        let identity = reducer.identity(dtype).into_iter().map(|v| precision.admit(v)).collect();
        Combiner { reducer, functions, precision, identity, fault: None, worst: None }
    }

    /// What an empty row gives and every accumulator starts with.
    pub(crate) fn identity(&self) -> &[Value] {
        &self.identity
    }

    /// Makes the element at `position` of the row a partial result.
    pub(crate) fn lift(&self, element: &mut Vec<Value>, position: usize) {
        match self.reducer {
            Reducer::ArgMax | Reducer::ArgMin => element.push(Value::I64(position as i64)),
            Reducer::Dot => {
                let product = eval_op(ScalarOp::Mul, element).0;
                element.clear();
                element.push(product);
            }
            Reducer::Sum
            | Reducer::Prod
            | Reducer::Max
            | Reducer::Min
            | Reducer::Any
            | Reducer::All
            | Reducer::User { .. } => {}
        }
    }

    /// `left = left ⊕ right`.
    pub(crate) fn combine(&mut self, left: &mut Vec<Value>, right: &[Value]) {
        let op = self.reducer.operation(left[0].as_f64().is_some());
        match (self.reducer, op) {
            (Reducer::ArgMax | Reducer::ArgMin, Some(before)) => {
                if !precedes(left, right, before) {
                    left.copy_from_slice(right);
                }
            }
            (_, Some(op)) => left[0] = eval_op(op, &[left[0], right[0]]).0,
            (reducer, None) => self.combine_by_function(reducer, left, right),
        }
    }

    fn combine_by_function(&mut self, reducer: &Reducer, left: &mut Vec<Value>, right: &[Value]) {
        let Reducer::User { combine, .. } = reducer else { return };
        let args = [left.as_slice(), right].concat();
        let (values, fault) = match &mut self.worst {
            None => eval_fn_in(self.precision, self.functions, *combine, &args),
            Some(worst) => audit_fn(self.functions, *combine, &args, worst),
        };
        self.fault = self.fault.or(fault);
        *left = values;
    }

    /// What the reduction gives of the last partial result: of (value, position) the position.
    pub(crate) fn finish(&self, partial: &[Value]) -> Vec<Value> {
        match self.reducer {
            Reducer::ArgMax | Reducer::ArgMin => vec![partial[1]],
            Reducer::Sum
            | Reducer::Dot
            | Reducer::Prod
            | Reducer::Max
            | Reducer::Min
            | Reducer::Any
            | Reducer::All
            | Reducer::User { .. } => partial.to_vec(),
        }
    }

    fn keeps_order(&self) -> bool {
        matches!(self.reducer, Reducer::User { ordered: true, .. })
    }
}

/// Of two (value, position) whether the left one wins: a NaN before any number, then by `before`, then the smaller
/// position.
fn precedes(left: &[Value], right: &[Value], before: ScalarOp) -> bool {
    let is_nan = |v: &[Value]| v[0].as_f64().is_some_and(f64::is_nan);
    let wins = |a: &[Value], b: &[Value]| eval_op(before, &[a[0], b[0]]).0 == Value::Bool(true);
    let comes_first = left[1].as_i128() <= right[1].as_i128();
    match (is_nan(left), is_nan(right)) {
        (true, false) => true,
        (false, true) => false,
        (true, true) => comes_first,
        (false, false) => wins(left, right) || (!wins(right, left) && comes_first),
    }
}

/// The reduction of a row of `len` elements; `element(r, to)` puts the tuple at position `r` in `to`.
pub(crate) fn reduce_row(
    combiner: &mut Combiner<'_>,
    len: usize,
    mut element: impl FnMut(usize, &mut Vec<Value>),
) -> Vec<Value> {
    if combiner.precision == Precision::F64 {
        let (mut total, mut lifted) = (combiner.identity().to_vec(), Vec::new());
        for r in 0..len {
            element(r, &mut lifted);
            combiner.lift(&mut lifted, r);
            combiner.combine(&mut total, &lifted);
        }
        return combiner.finish(&total);
    }
    let mut partials = Vec::new();
    for start in (0..len).step_by(CHUNK) {
        partials.push(reduce_chunk(combiner, start, len.min(start + CHUNK), &mut element));
    }
    let total = fold_chunks(combiner, partials);
    combiner.finish(&total)
}

/// The partial result of one chunk.
fn reduce_chunk(
    combiner: &mut Combiner<'_>,
    start: usize,
    end: usize,
    element: &mut impl FnMut(usize, &mut Vec<Value>),
) -> Vec<Value> {
    let mut lifted = Vec::new();
    let lanes = if combiner.keeps_order() { 1 } else { LANES };
    let mut accumulators = vec![combiner.identity().to_vec(); lanes];
    for r in start..end {
        element(r, &mut lifted);
        combiner.lift(&mut lifted, r);
        combiner.combine(&mut accumulators[(r - start) % lanes], &lifted);
    }
    let mut width = lanes;
    while width > 1 {
        width /= 2;
        let (lower, upper) = accumulators.split_at_mut(width);
        for (left, right) in lower.iter_mut().zip(upper) {
            combiner.combine(left, right);
        }
    }
    accumulators.swap_remove(0)
}

/// Adjacent pairs, level by level, an odd last one passing through; the identity of no chunks.
fn fold_chunks(combiner: &mut Combiner<'_>, mut partials: Vec<Vec<Value>>) -> Vec<Value> {
    while partials.len() > 1 {
        let mut level = Vec::with_capacity(partials.len().div_ceil(2));
        for pair in partials.chunks_mut(2) {
            let mut left = std::mem::take(&mut pair[0]);
            if let Some(right) = pair.get(1) {
                combiner.combine(&mut left, right);
            }
            level.push(left);
        }
        partials = level;
    }
    partials.pop().unwrap_or_else(|| combiner.identity().to_vec())
}
