//! Each node against f64 on that node's own inputs: the error that one operation makes, whatever came before it.

use super::node::NodeValue;
use super::{EvalError, Evaluation, Inputs, Precision};
use crate::dtype::{DType, Value};
use crate::graph::{Kernel, Op, Reducer};
use crate::id::NodeId;

/// The worst error of one node over its elements.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NodeError {
    /// Which node.
    pub node: NodeId,
    /// The greatest difference; infinite where one side is NaN and the other not, or integers or bools differ.
    pub absolute: f64,
    /// The greatest difference in units of the spacing of the node's dtype at the f64 value.
    pub ulps: f64,
    /// The error to hold against a bound. For sums, contractions and running sums the greatest difference over ε·Σ|x| of the terms: one
    /// that cancels has a large error in `ulps` and a small one here. For products `ulps` of the elements of which no
    /// partial product can overflow or vanish. For functions `ulps` of the worst operation inside. For other nodes `ulps`.
    pub relative_to_terms: f64,
}

/// The worst error of every node: its [`Precision::Exact`] elements against an f64 evaluation of that node alone on the
/// exact elements of its operands.
///
/// # Errors
/// As [`super::evaluate`].
pub fn compare_nodes(kernel: &Kernel, inputs: &Inputs) -> Result<Vec<NodeError>, EvalError> {
    let exact = Evaluation::run(kernel, inputs, Precision::Exact)?;
    let wide: Vec<NodeValue> = exact.values.iter().map(NodeValue::widened).collect();
    let mut errors = Vec::with_capacity(kernel.nodes.len());
    for id in kernel.node_ids() {
        let (reference, _) = exact.eval_node(kernel, inputs, Precision::F64, id, &wide)?;
        let terms = sum_magnitudes(kernel, inputs, &exact, &wide, id)?;
        let reach = sum_exponents(kernel, inputs, &exact, &wide, id)?;
        let audited = exact.audit_functions(kernel, id)?;
        let dtype = kernel.node(id).ty.dtype;
        let mut error = NodeError { node: id, absolute: 0.0, ulps: 0.0, relative_to_terms: 0.0 };
        for (i, (got, want)) in exact.values[id.index()].data.iter().zip(&reference.data).enumerate() {
            let (absolute, ulps) = difference(dtype, *got, *want);
            let over_terms = match &terms {
                Some(terms) if absolute > 0.0 => {
                    absolute / (epsilon(dtype) * terms.data[i].as_f64().unwrap_or(0.0))
                }
                Some(_) => 0.0,
                None if audited.is_some() => 0.0,
                None => match &reach {
                    Some(reach) if !is_within_range(dtype, reach.data[i]) => 0.0,
                    Some(_) | None => ulps,
                },
            };
            error.absolute = error.absolute.max(absolute);
            error.ulps = error.ulps.max(ulps);
            error.relative_to_terms = error.relative_to_terms.max(over_terms);
        }
        error.relative_to_terms = error.relative_to_terms.max(audited.unwrap_or(0.0));
        errors.push(error);
    }
    Ok(errors)
}

/// Whether no product of factors of which Σ|log₂|x|| is this overflows or loses bits to denormals.
fn is_within_range(dtype: DType, exponents: Value) -> bool {
    exponents.as_f64().is_some_and(|sum| sum < f64::from(-format_of(dtype).1))
}

/// Σ|log₂|x|| of the factors, for each element of a node that is a product of floats.
fn sum_exponents(
    kernel: &Kernel,
    inputs: &Inputs,
    exact: &Evaluation,
    wide: &[NodeValue],
    id: NodeId,
) -> Result<Option<NodeValue>, EvalError> {
    let Op::Reduce { reducer: Reducer::Prod, sources, .. } = &kernel.node(id).op else { return Ok(None) };
    let source = sources[0];
    if !kernel.node(source).ty.dtype.is_float() {
        return Ok(None);
    }
    let mut exponents = wide.to_vec();
    for v in &mut exponents[source.index()].data {
        *v = Value::F64(v.as_f64().unwrap_or(0.0).abs().log2().abs());
    }
    let mut sums = kernel.clone();
    if let Op::Reduce { reducer, .. } = &mut sums.nodes[id.index()].op {
        *reducer = Reducer::Sum;
    }
    let (sums, _) = exact.eval_node(&sums, inputs, Precision::F64, id, &exponents)?;
    Ok(Some(sums))
}

/// The sum of the magnitudes of the terms, for each element of a node that is a sum of floats.
fn sum_magnitudes(
    kernel: &Kernel,
    inputs: &Inputs,
    exact: &Evaluation,
    wide: &[NodeValue],
    id: NodeId,
) -> Result<Option<NodeValue>, EvalError> {
    let summed = match &kernel.node(id).op {
        Op::Reduce { reducer: Reducer::Sum | Reducer::Dot, sources, .. } => sources.clone(),
        Op::CumSum { source, .. } => vec![*source],
        Op::Tensor(_)
        | Op::Scalar(_)
        | Op::Constant(_)
        | Op::Index(_)
        | Op::Extent(_)
        | Op::Map { .. }
        | Op::View { .. }
        | Op::Reduce { .. }
        | Op::Materialize { .. } => return Ok(None),
    };
    if !kernel.node(summed[0]).ty.dtype.is_float() {
        return Ok(None);
    }
    let mut magnitudes = wide.to_vec();
    for source in summed {
        for v in &mut magnitudes[source.index()].data {
            *v = Value::F64(v.as_f64().unwrap_or(0.0).abs());
        }
    }
    let (terms, _) = exact.eval_node(kernel, inputs, Precision::F64, id, &magnitudes)?;
    Ok(Some(terms))
}

/// The difference, absolute and in spacings of `dtype` at the reference.
pub(super) fn difference(dtype: DType, got: Value, want: Value) -> (f64, f64) {
    let (Some(g), Some(w)) = (got.as_f64(), want.as_f64()) else {
        return if got == want { (0.0, 0.0) } else { (f64::INFINITY, f64::INFINITY) };
    };
    let rounds_to = |x: f64| Value::from_f64(dtype, x).and_then(Value::as_f64).unwrap_or(x);
    if g == w || (g.is_nan() && w.is_nan()) || g == rounds_to(w) && g.is_infinite() {
        return (0.0, 0.0);
    }
    let absolute = (g - w).abs();
    if !absolute.is_finite() {
        return (f64::INFINITY, f64::INFINITY);
    }
    (absolute, absolute / spacing(dtype, w))
}

/// Bits of the mantissa that are stored, and the least exponent.
fn format_of(dtype: DType) -> (i32, i32) {
    match dtype {
        DType::F32 => (23, -126),
        DType::F64 => (52, -1022),
        DType::F16 => (10, -14),
        DType::Bf16 => (7, -126),
        DType::F8E4M3 => (3, -6),
        DType::F8E5M2 => (2, -14),
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => (0, 0),
        DType::U8 | DType::U16 | DType::U32 | DType::U64 | DType::Bool => (0, 0),
    }
}

fn epsilon(dtype: DType) -> f64 {
    2f64.powi(-format_of(dtype).0)
}

/// The distance of neighbours of `dtype` around `x`.
fn spacing(dtype: DType, x: f64) -> f64 {
    let (mantissa, least) = format_of(dtype);
    let exponent = if x == 0.0 { least } else { ((x.to_bits() >> 52) & 0x7ff) as i32 - 1023 };
    let exponent = exponent.max(least) - mantissa;
    // A spacing of f64 below the least normal number is no power that `powi` reaches in one step.
    2f64.powi(exponent.max(-1022)) * 2f64.powi(exponent.min(-1022) + 1022)
}
