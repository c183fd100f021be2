//! Comparing a run with the reference, element by element, and the reference's nodes with f64.

use super::cases::bind;
use super::perturb::{PATTERNS, is_contraction, may_move, perturb_kernel};
use super::report::{Failure, Place, Report};
use super::{Got, output_name};
use crate::error::Error;
use fuse_ir::dtype::{DType, Value};
use fuse_ir::eval::{Array, Inputs, NodeError, Outputs, Precision, compare_nodes, evaluate};
use fuse_ir::graph::{Kernel, MapFn, Op, OutputTarget, Reducer};
use fuse_ir::id::{AxisId, NodeId};
use fuse_ir::schedule::BufferRef;

/// How much further than the moved references a result may be, since the real functions move each its own way.
const SLACK: f64 = 4.0;

/// What the kernel must give for one set of inputs.
pub(super) struct Reference {
    exact: Outputs,
    /// The same with transcendental functions moved by what they may; empty if there are none.
    moved: Vec<Outputs>,
    /// The same with everything moved by what a fast kernel may on a device; empty if it is none.
    moved_fast: Vec<Outputs>,
    /// Whether an axis is empty. What is broadcast along it alone is read by nobody, so that a plan need not compute it,
    /// faults included.
    has_empty_axis: bool,
}

impl Reference {
    pub(super) fn evaluate(kernel: &Kernel, inputs: &Inputs) -> Result<Reference, Error> {
        let run = |kernel: &Kernel| {
            evaluate(kernel, inputs, Precision::Exact)
                .map_err(|error| Error::Verification(Box::new(Failure::reference(kernel, &error))))
        };
        let move_all = |kernel: &Kernel| -> Result<Vec<Outputs>, Error> {
            let patterns = PATTERNS.into_iter().filter(|_| may_move(kernel));
            patterns.map(|pattern| run(&perturb_kernel(kernel, pattern))).collect()
        };
        let strict = Kernel { fast: false, ..kernel.clone() };
        let moved = move_all(&strict)?;
        let moved_fast = if kernel.fast { move_all(kernel)? } else { Vec::new() };
        let has_empty_axis = bind(kernel, inputs).unwrap_or_default().contains(&0);
        Ok(Reference { exact: run(kernel)?, moved, moved_fast, has_empty_axis })
    }

    /// Whether the reference faults.
    pub(super) fn faults(&self) -> bool {
        self.exact.fault.is_some()
    }

    /// Compares every element of every output. On CPUs fast kernels are as precise as others.
    pub(super) fn compare(
        &self,
        kernel: &Kernel,
        (got, on_cpu): (&Got, bool),
        place: &dyn Fn() -> Place,
        report: &mut Report,
    ) -> Result<(), Error> {
        let may_be_missed = self.has_empty_axis && !got.faulted;
        if got.faulted != self.faults() && !may_be_missed {
            return Err(Error::Verification(Box::new(Failure::fault(kernel, got.faulted, place()))));
        }
        let all_moved = if kernel.fast && !on_cpu { &self.moved_fast } else { &self.moved };
        for (k, (array, want)) in got.results.iter().zip(&self.exact.results).enumerate() {
            let moved: Vec<&Array> = all_moved.iter().filter_map(|m| m.results.get(k)).collect();
            let buffer = BufferRef::Result(k as u32);
            compare_arrays(kernel, buffer, array, want, &moved, place, report)?;
        }
        for (k, ((param, array), (_, want))) in got.params.iter().zip(&self.exact.params).enumerate() {
            let moved: Vec<&Array> = all_moved.iter().filter_map(|m| m.params.get(k).map(|p| &p.1)).collect();
            compare_arrays(kernel, BufferRef::Param(*param), array, want, &moved, place, report)?;
        }
        Ok(())
    }
}

fn compare_arrays(
    kernel: &Kernel,
    buffer: BufferRef,
    got: &Array,
    want: &Array,
    moved: &[&Array],
    place: &dyn Fn() -> Place,
    report: &mut Report,
) -> Result<(), Error> {
    // A sum of products without a promised order has no promised sign of zero either.
    let contracts = kernel.nodes.iter().any(is_contraction);
    let is_zero = |value: Value| value.as_f64() == Some(0.0);
    // Whether a transcendental function reaches this output.
    let reached =
        moved.iter().any(|array| array.data.iter().zip(&want.data).any(|(&m, &w)| !same_bits(m, w)));
    for (k, (&g, &w)) in got.data.iter().zip(&want.data).enumerate() {
        report.elements += 1;
        if same_bits(g, w) || (contracts && is_zero(g) && is_zero(w)) {
            continue;
        }
        let others: Vec<Value> = moved.iter().filter_map(|array| array.data.get(k).copied()).collect();
        match if reached { within_moves(g, w, &others) } else { Verdict::Apart } {
            Verdict::Within => report.within_ulp += 1,
            Verdict::Undecided => report.undecided += 1,
            Verdict::Apart => {
                let node = find_output_node(kernel, buffer);
                let position = position_of(&got.shape, k);
                let output = output_name(kernel, buffer);
                return Err(Error::Verification(Box::new(Failure::difference(
                    kernel,
                    node,
                    output,
                    position,
                    (g, w),
                    place(),
                ))));
            }
        }
    }
    Ok(())
}

/// What becomes of two elements whose bits differ.
enum Verdict {
    /// No further apart than moved transcendental functions put them.
    Within,
    /// The moved references do not agree on more than the kind of the value, so that nothing can be said.
    Undecided,
    /// Further apart.
    Apart,
}

fn same_bits(a: Value, b: Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(x), Some(y)) => x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan()),
        _ => a == b,
    }
}

fn within_moves(got: Value, want: Value, moved: &[Value]) -> Verdict {
    let numbers: Option<Vec<f64>> = moved.iter().map(|m| m.as_f64()).collect();
    let (Some(g), Some(w), Some(numbers)) = (got.as_f64(), want.as_f64(), numbers) else {
        return discrete_verdict(got, want, moved);
    };
    if !(g.is_finite() && w.is_finite() && numbers.iter().all(|m| m.is_finite())) {
        // On the edge of overflow, or of a function's domain, the moved references are not of one kind.
        let one_kind = moved.iter().all(|&m| same_bits(m, want));
        return if one_kind { Verdict::Apart } else { Verdict::Undecided };
    }
    let spread = numbers.iter().map(|m| (m - w).abs()).fold(ulp_of(want), f64::max);
    if (g - w).abs() <= SLACK * spread { Verdict::Within } else { Verdict::Apart }
}

/// An integer or bool that depends on the last bits of a float.
fn discrete_verdict(got: Value, want: Value, moved: &[Value]) -> Verdict {
    let next = match (got.as_i128(), want.as_i128()) {
        (Some(g), Some(w)) => (g - w).abs() <= 1,
        _ => false,
    };
    if next || moved.iter().any(|&m| m != want) { Verdict::Undecided } else { Verdict::Apart }
}

/// The spacing of the value's dtype at it, at least that of the least normal number.
fn ulp_of(value: Value) -> f64 {
    let (mantissa, least) = match value.dtype() {
        DType::F64 => (52, -1022),
        DType::F16 => (10, -14),
        DType::Bf16 => (7, -126),
        DType::F8E4M3 => (3, -6),
        DType::F8E5M2 => (2, -14),
        _ => (23, -126),
    };
    let x = value.as_f64().unwrap_or(0.0).abs();
    let exponent = if x == 0.0 { least } else { (x.log2().floor() as i32).max(least) };
    2f64.powi(exponent - mantissa)
}

fn find_output_node(kernel: &Kernel, buffer: BufferRef) -> Option<NodeId> {
    let matches = |target: &OutputTarget| match (target, buffer) {
        (OutputTarget::Result { index, .. }, BufferRef::Result(k)) => *index == k,
        (OutputTarget::Param { param, .. }, BufferRef::Param(p)) => *param == p,
        _ => false,
    };
    kernel.outputs.iter().rev().find(|output| matches(&output.target)).map(|output| output.value)
}

fn position_of(shape: &[usize], k: usize) -> Vec<usize> {
    let mut rest = k;
    let mut position: Vec<usize> = shape
        .iter()
        .rev()
        .map(|&n| {
            let at = rest % n;
            rest /= n;
            at
        })
        .collect();
    position.reverse();
    position
}

/// Compares each node of the reference with f64 on that node's own inputs.
pub(super) fn check_nodes(kernel: &Kernel, inputs: &Inputs, report: &mut Report) -> Result<(), Error> {
    let errors = compare_nodes(kernel, inputs)
        .map_err(|error| Error::Verification(Box::new(Failure::reference(kernel, &error))))?;
    let extents = bind(kernel, inputs).unwrap_or_default();
    for error in errors {
        let bound = error_bound(kernel, &extents, error.node);
        report.worst_node_ulp = report.worst_node_ulp.max(error.relative_to_terms);
        if !within(&error, bound) {
            return Err(Error::Verification(Box::new(Failure::node(kernel, &error, bound))));
        }
    }
    Ok(())
}

fn within(error: &NodeError, bound: f64) -> bool {
    error.relative_to_terms <= bound
}

/// How far one operation may be from f64, in ulp; for sums in ε·Σ|x|. See [`NodeError::relative_to_terms`].
fn error_bound(kernel: &Kernel, extents: &[i64], node: NodeId) -> f64 {
    // Of the dtype itself the reference in f64 has as many roundings.
    let doubled = if kernel.node(node).ty.dtype == DType::F64 { 2.0 } else { 1.0 };
    let length = |axes: &[AxisId]| axes.iter().map(|a| extents[a.index()] as f64).product::<f64>();
    match &kernel.node(node).op {
        Op::Tensor(_) | Op::Scalar(_) | Op::Constant(_) | Op::Index(_) | Op::Extent(_) => 0.0,
        Op::View { .. } | Op::Materialize { .. } => 0.0,
        // Two roundings of an operation that is two, `rsqrt`, are a little more than one ulp.
        Op::Map { function: MapFn::Op(op), .. } => {
            if op.is_transcendental() {
                2.0
            } else {
                1.5
            }
        }
        // The worst operation inside.
        Op::Map { function: MapFn::Call { .. }, .. } => 2.0,
        Op::Reduce { reducer, axes, .. } => match reducer {
            // 64 additions in a lane, six halvings, and the pairs of chunks.
            Reducer::Sum => 100.0,
            // The same with a rounding of each product.
            Reducer::Dot => 101.0,
            // Half an ulp of relative error for each product, which is up to one at the result, and a little for the
            // products of errors.
            Reducer::Prod => doubled * 1.01 * length(axes),
            Reducer::Max | Reducer::Min | Reducer::Any | Reducer::All => 0.0,
            Reducer::ArgMax | Reducer::ArgMin => 0.0,
            Reducer::User { .. } => 2.0,
        },
        // Half an ε of what was summed so far for each addition.
        Op::CumSum { axis, .. } => doubled * 0.505 * length(&[*axis]),
    }
}
