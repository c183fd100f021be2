//! Comparing a run with the reference, element by element, and the reference's nodes with f64.

use super::perturb::{has_transcendental, perturb_kernel};
use super::report::{Failure, Place, Report};
use super::{Got, output_name};
use crate::error::Error;
use fuse_ir::dtype::Value;
use fuse_ir::eval::{Array, Inputs, NodeError, Outputs, Precision, compare_nodes, evaluate};
use fuse_ir::graph::{Kernel, MapFn, Op, OutputTarget, Reducer};
use fuse_ir::id::NodeId;
use fuse_ir::schedule::BufferRef;

/// How much further than the moved references a result may be, since the real functions move each its own way.
const SLACK: f64 = 4.0;

/// What the kernel must give for one set of inputs.
pub(super) struct Reference {
    exact: Outputs,
    /// The same with transcendental functions moved by what they may; empty if there are none.
    moved: Vec<Outputs>,
}

impl Reference {
    pub(super) fn evaluate(kernel: &Kernel, inputs: &Inputs, seed: u64) -> Result<Reference, Error> {
        let run = |kernel: &Kernel| {
            evaluate(kernel, inputs, Precision::Exact)
                .map_err(|error| Error::Verification(Box::new(Failure::reference(kernel, &error))))
        };
        let mut moved = Vec::new();
        if has_transcendental(kernel) {
            let mut random = super::cases::Random::new(seed);
            moved.push(run(&perturb_kernel(kernel, &mut || true))?);
            moved.push(run(&perturb_kernel(kernel, &mut || false))?);
            moved.push(run(&perturb_kernel(kernel, &mut || random.below(2) == 0))?);
        }
        Ok(Reference { exact: run(kernel)?, moved })
    }

    /// Compares every element of every output.
    pub(super) fn compare(
        &self,
        kernel: &Kernel,
        got: &Got,
        place: &dyn Fn() -> Place,
        report: &mut Report,
    ) -> Result<(), Error> {
        if got.faulted != self.exact.fault.is_some() {
            return Err(Error::Verification(Box::new(Failure::fault(kernel, got.faulted, place()))));
        }
        for (k, (array, want)) in got.results.iter().zip(&self.exact.results).enumerate() {
            let moved: Vec<&Array> = self.moved.iter().filter_map(|m| m.results.get(k)).collect();
            let buffer = BufferRef::Result(k as u32);
            compare_arrays(kernel, buffer, array, want, &moved, place, report)?;
        }
        for (k, ((param, array), (_, want))) in got.params.iter().zip(&self.exact.params).enumerate() {
            let moved: Vec<&Array> =
                self.moved.iter().filter_map(|m| m.params.get(k).map(|p| &p.1)).collect();
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
    for (k, (&g, &w)) in got.data.iter().zip(&want.data).enumerate() {
        report.elements += 1;
        if same_bits(g, w) {
            continue;
        }
        let others: Vec<Value> = moved.iter().filter_map(|array| array.data.get(k).copied()).collect();
        match within_moves(g, w, &others) {
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
    if moved.iter().all(|&m| same_bits(m, want)) {
        return Verdict::Apart;
    }
    let numbers: Option<Vec<f64>> = moved.iter().map(|m| m.as_f64()).collect();
    let (Some(g), Some(w), Some(numbers)) = (got.as_f64(), want.as_f64(), numbers) else {
        // An integer or bool that depends on the last bits of a float.
        return Verdict::Undecided;
    };
    let all_finite = numbers.iter().all(|m| m.is_finite()) && w.is_finite();
    if !all_finite || !g.is_finite() {
        // On the edge of overflow, or of a function's domain. All of one kind would have equal bits.
        let edge = numbers.iter().any(|m| m.is_finite() != w.is_finite()) || !all_finite;
        return if edge { Verdict::Undecided } else { Verdict::Apart };
    }
    let spread = numbers.iter().map(|m| (m - w).abs()).fold(0.0, f64::max);
    if (g - w).abs() <= SLACK * spread { Verdict::Within } else { Verdict::Apart }
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
    for error in errors {
        let Some(bound) = error_bound(kernel, error.node) else { continue };
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

/// How far one operation may be from f64, in ulp; for sums in ε·Σ|x|. `None` for what is not one operation.
fn error_bound(kernel: &Kernel, node: NodeId) -> Option<f64> {
    match &kernel.node(node).op {
        Op::Tensor(_) | Op::Scalar(_) | Op::Constant(_) | Op::Index(_) | Op::Extent(_) => Some(0.0),
        Op::View { .. } | Op::Materialize { .. } => Some(0.0),
        Op::Map { function: MapFn::Op(op), .. } => Some(if op.is_transcendental() { 2.0 } else { 1.0 }),
        // A function may cancel and compare inside; its own operations are what is bounded.
        Op::Map { function: MapFn::Call { .. }, .. } => None,
        // 64 additions in a lane, six halvings, and the pairs of chunks.
        Op::Reduce { reducer: Reducer::Sum, .. } => Some(100.0),
        Op::Reduce { reducer, .. } => match reducer {
            Reducer::Max | Reducer::Min | Reducer::Any | Reducer::All => Some(0.0),
            Reducer::ArgMax | Reducer::ArgMin => Some(0.0),
            Reducer::Sum | Reducer::Prod | Reducer::User { .. } => None,
        },
        Op::CumSum { .. } => None,
    }
}
