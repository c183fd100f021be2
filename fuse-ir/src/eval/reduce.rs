//! The reduction tree of [`crate::schedule`] on the elements of one row, and the plain loop of the f64 reference.

use super::scalar_fn::eval_fn_in;
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
        let identity = match reducer {
            Reducer::Sum => vec![Value::zero(dtype)],
            Reducer::Prod => vec![Value::I64(1).cast(dtype)],
            Reducer::Max => vec![least(dtype)],
            Reducer::Min => vec![greatest(dtype)],
            Reducer::Any => vec![Value::Bool(false)],
            Reducer::All => vec![Value::Bool(true)],
            // A position beyond all others marks that nothing was seen.
            Reducer::ArgMax => vec![least(dtype), Value::I64(i64::MAX)],
            Reducer::ArgMin => vec![greatest(dtype), Value::I64(i64::MAX)],
            Reducer::User { identity, .. } => identity.clone(),
        };
        let identity = identity.into_iter().map(|v| precision.admit(v)).collect();
        Combiner { reducer, functions, precision, identity, fault: None }
    }

    /// What an empty row gives and every accumulator starts with.
    pub(crate) fn identity(&self) -> &[Value] {
        &self.identity
    }

    /// The element at `position` of the row as a partial result.
    pub(crate) fn lift(&self, element: &[Value], position: usize) -> Vec<Value> {
        match self.reducer {
            Reducer::ArgMax | Reducer::ArgMin => vec![element[0], Value::I64(position as i64)],
            Reducer::Sum
            | Reducer::Prod
            | Reducer::Max
            | Reducer::Min
            | Reducer::Any
            | Reducer::All
            | Reducer::User { .. } => element.to_vec(),
        }
    }

    /// `left ⊕ right`.
    pub(crate) fn combine(&mut self, left: &[Value], right: &[Value]) -> Vec<Value> {
        let op = |op: ScalarOp| vec![eval_op(op, &[left[0], right[0]]).0];
        let float = left[0].as_f64().is_some();
        match self.reducer {
            Reducer::Sum => op(ScalarOp::Add),
            Reducer::Prod => op(ScalarOp::Mul),
            Reducer::Max => op(if float { ScalarOp::Maximum } else { ScalarOp::Max }),
            Reducer::Min => op(if float { ScalarOp::Minimum } else { ScalarOp::Min }),
            Reducer::Any => op(ScalarOp::Or),
            Reducer::All => op(ScalarOp::And),
            Reducer::ArgMax => self.pick(left, right, ScalarOp::Gt),
            Reducer::ArgMin => self.pick(left, right, ScalarOp::Lt),
            Reducer::User { combine, .. } => {
                let (values, fault) =
                    eval_fn_in(self.precision, self.functions, *combine, &[left, right].concat());
                self.fault = self.fault.or(fault);
                values
            }
        }
    }

    /// Of two (value, position) the better: a NaN before any number, then by `before`, then the smaller position.
    fn pick(&self, left: &[Value], right: &[Value], before: ScalarOp) -> Vec<Value> {
        let is_nan = |v: &[Value]| v[0].as_f64().is_some_and(f64::is_nan);
        let precedes = |a: &[Value], b: &[Value]| eval_op(before, &[a[0], b[0]]).0 == Value::Bool(true);
        let position = |v: &[Value]| v[1].as_i128();
        let left_wins = match (is_nan(left), is_nan(right)) {
            (true, false) => true,
            (false, true) => false,
            (true, true) => position(left) <= position(right),
            (false, false) => {
                precedes(left, right) || (!precedes(right, left) && position(left) <= position(right))
            }
        };
        if left_wins { left.to_vec() } else { right.to_vec() }
    }

    /// What the reduction gives of the last partial result: of (value, position) the position.
    pub(crate) fn finish(&self, partial: &[Value]) -> Vec<Value> {
        match self.reducer {
            Reducer::ArgMax | Reducer::ArgMin => vec![partial[1]],
            Reducer::Sum
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

/// The least value: −∞ or the least integer.
fn least(dtype: DType) -> Value {
    Value::from_f64(dtype, f64::NEG_INFINITY).unwrap_or_else(|| Value::F64(f64::NEG_INFINITY).cast(dtype))
}

/// The greatest value: ∞ or the greatest integer.
fn greatest(dtype: DType) -> Value {
    Value::from_f64(dtype, f64::INFINITY).unwrap_or_else(|| Value::F64(f64::INFINITY).cast(dtype))
}

/// The reduction of a row of `len` elements; `element(r)` gives the tuple at position `r`.
pub(crate) fn reduce_row(
    combiner: &mut Combiner<'_>,
    len: usize,
    mut element: impl FnMut(usize, &mut Vec<Value>),
) -> Vec<Value> {
    let mut buffer = Vec::new();
    if combiner.precision == Precision::F64 {
        let mut total = combiner.identity().to_vec();
        for r in 0..len {
            element(r, &mut buffer);
            let lifted = combiner.lift(&buffer, r);
            total = combiner.combine(&total, &lifted);
        }
        return combiner.finish(&total);
    }
    let mut partials = Vec::new();
    for start in (0..len).step_by(CHUNK) {
        let end = len.min(start + CHUNK);
        partials.push(reduce_chunk(combiner, start, end, &mut element));
    }
    let total = fold_chunks(combiner, partials);
    combiner.finish(&total)
}

/// The partial result of one chunk.
pub(crate) fn reduce_chunk(
    combiner: &mut Combiner<'_>,
    start: usize,
    end: usize,
    element: &mut impl FnMut(usize, &mut Vec<Value>),
) -> Vec<Value> {
    let mut buffer = Vec::new();
    let lanes = if combiner.keeps_order() { 1 } else { LANES };
    let mut accumulators = vec![combiner.identity().to_vec(); lanes];
    for r in start..end {
        element(r, &mut buffer);
        let lifted = combiner.lift(&buffer, r);
        let lane = &mut accumulators[(r - start) % lanes];
        *lane = combiner.combine(lane, &lifted);
    }
    let mut width = lanes;
    while width > 1 {
        width /= 2;
        for i in 0..width {
            accumulators[i] = combiner.combine(&accumulators[i], &accumulators[i + width]);
        }
    }
    accumulators.swap_remove(0)
}

/// Adjacent pairs, level by level, an odd last one passing through; the identity of no chunks.
pub(crate) fn fold_chunks(combiner: &mut Combiner<'_>, mut partials: Vec<Vec<Value>>) -> Vec<Value> {
    while partials.len() > 1 {
        let pairs: Vec<Vec<Value>> = partials
            .chunks(2)
            .map(|pair| match pair {
                [left, right] => combiner.combine(left, right),
                single => single.concat(),
            })
            .collect();
        partials = pairs;
    }
    partials.pop().unwrap_or_else(|| combiner.identity().to_vec())
}
