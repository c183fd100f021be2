//! The laws of the user's reducers: a combiner is associative, commutative unless it is ordered, and has its identity.
//!
//! They are tried on the tuples that the kernel's own reductions take, so that a combiner is not refused for values that
//! it never meets: a count that is negative, a weight that is no probability. Components that are computed from different
//! parameters may meet in any combination, so they are combined anew, which makes ties.
//!
//! A law that breaks on ordinary numbers is a failure. With NaN, infinities and overflow honest combiners break laws,
//! because IEEE arithmetic does: `if b > a { b } else { a }` with NaN, `(a.0 * b.0, a.1 * b.0 + b.1)` with `0 · ∞`. The
//! result is one all the same, since the tree of a reduction is fixed; the report tells of it.

use super::report::Failure;
use crate::error::Error;
use fuse_ir::dtype::Value;
use fuse_ir::eval::{Inputs, eval_fn, sample_reductions};
use fuse_ir::graph::{Kernel, Op, Reducer};
use fuse_ir::id::{FnId, NodeId, ParamId};
use std::collections::{BTreeMap, BTreeSet};

/// How far two orders of combining may be apart, relative to the greatest value in play.
const ROUNDING: f64 = 1e-4;

/// Greater numbers may overflow when they are combined.
const ORDINARY: f64 = 1e6;

/// How many tuples of a reduction are looked at in one case.
const OF_A_CASE: usize = 64;

/// How many tuples of each [`kind_of`] are tried of one combiner.
const MOST: [usize; 4] = [10, 1, 2, 2];

/// The tuples that each combiner was seen to take.
#[derive(Default)]
pub(super) struct Laws {
    seen: BTreeMap<FnId, Seen>,
}

/// What was seen of one combiner.
struct Seen {
    identity: Vec<Value>,
    ordered: bool,
    tuples: Vec<Vec<Value>>,
}

/// What was found of all combiners.
#[derive(Default)]
pub(super) struct Verdict {
    /// How many keep their laws on ordinary numbers.
    pub(super) kept: usize,
    /// Where laws break on other values.
    pub(super) notes: Vec<String>,
}

impl Laws {
    /// Takes tuples of every reduction by a user's combiner in one case.
    pub(super) fn collect(&mut self, kernel: &Kernel, inputs: &Inputs) -> Result<(), Error> {
        let reduces = |op: &Op| matches!(op, Op::Reduce { reducer: Reducer::User { .. }, .. });
        if !kernel.nodes.iter().any(|node| reduces(&node.op)) {
            return Ok(());
        }
        let samples = sample_reductions(kernel, inputs, OF_A_CASE)
            .map_err(|error| Error::Verification(Box::new(Failure::reference(kernel, &error))))?;
        for (node, tuples) in samples {
            let Op::Reduce { reducer: Reducer::User { combine, identity, ordered }, sources, .. } =
                &kernel.node(node).op
            else {
                continue;
            };
            let fresh = || Seen { identity: identity.clone(), ordered: *ordered, tuples: Vec::new() };
            let seen = self.seen.entry(*combine).or_insert_with(fresh);
            for tuple in mix_components(kernel, sources, tuples) {
                let known = seen.tuples.iter().any(|t| t.iter().zip(&tuple).all(|(a, b)| same(*a, *b)));
                let kind = kind_of(&tuple);
                let alike = seen.tuples.iter().filter(|t| kind_of(t) == kind).count();
                if !known && alike < MOST[kind] {
                    seen.tuples.push(tuple);
                }
            }
        }
        Ok(())
    }

    /// Tries the laws on what was collected.
    pub(super) fn check(&self, kernel: &Kernel) -> Result<Verdict, Error> {
        let mut verdict = Verdict::default();
        for (&combine, seen) in self.seen.iter().filter(|(_, seen)| !seen.tuples.is_empty()) {
            if let Some(note) = check_laws(kernel, combine, seen)? {
                verdict.notes.push(note);
            }
            verdict.kept += 1;
        }
        Ok(verdict)
    }
}

fn same(a: Value, b: Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a.to_bits() == b.to_bits(),
        _ => a == b,
    }
}

/// The tuples, and each with the components of the next that share no parameter with its others.
fn mix_components(kernel: &Kernel, sources: &[NodeId], tuples: Vec<Vec<Value>>) -> Vec<Vec<Value>> {
    let reads: Vec<BTreeSet<Leaf>> = sources.iter().map(|&source| find_leaves(kernel, source)).collect();
    let free = |k: usize| (0..reads.len()).all(|other| other == k || reads[k].is_disjoint(&reads[other]));
    let mut mixed = Vec::new();
    for (i, tuple) in tuples.iter().enumerate() {
        mixed.push(tuple.clone());
        let next = &tuples[(i + 1) % tuples.len()];
        for k in (0..tuple.len()).filter(|&k| tuple.len() > 1 && free(k)) {
            let mut other = tuple.clone();
            other[k] = next[k];
            mixed.push(other);
        }
    }
    mixed
}

/// What a value depends on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Leaf {
    Param(ParamId),
    Index(fuse_ir::id::AxisId),
}

fn find_leaves(kernel: &Kernel, node: NodeId) -> BTreeSet<Leaf> {
    let mut leaves = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut stack = vec![node];
    while let Some(id) = stack.pop() {
        if !seen.insert(id) {
            continue;
        }
        match &kernel.node(id).op {
            Op::Tensor(p) | Op::Scalar(p) => drop(leaves.insert(Leaf::Param(*p))),
            Op::Index(axis) => drop(leaves.insert(Leaf::Index(*axis))),
            op => stack.extend(op.operands()),
        }
    }
    leaves
}

/// The first law that breaks on values that are no ordinary numbers, in words.
fn check_laws(kernel: &Kernel, combine: FnId, seen: &Seen) -> Result<Option<String>, Error> {
    let call = |a: &[Value], b: &[Value]| {
        let args: Vec<Value> = a.iter().chain(b).copied().collect();
        eval_fn(&kernel.functions, combine, &args).0
    };
    let mut note = None;
    let mut require = |law: &str, values: &[&[Value]], left: &[Value], right: &[Value]| {
        if agree(left, right, values) {
            return Ok(());
        }
        let name = &kernel.functions[combine.index()].name;
        let failure = Failure::law(kernel, name, law, values, left, right);
        if values.iter().all(|tuple| kind_of(tuple) == 0) {
            return Err(Error::Verification(Box::new(failure)));
        }
        note.get_or_insert(failure.message);
        Ok(())
    };
    let (identity, samples) = (&seen.identity, &seen.tuples);
    for a in samples {
        for combined in [call(identity, a), call(a, identity)] {
            require("has no identity", &[a], &combined, a)?;
        }
        for b in samples {
            let (ab, ba) = (call(a, b), call(b, a));
            if !seen.ordered {
                require("is not commutative", &[a, b], &ab, &ba)?;
            }
            for c in samples {
                require("is not associative", &[a, b, c], &call(&ab, c), &call(a, &call(b, c)))?;
            }
        }
    }
    Ok(note)
}

/// 0 if arithmetic on the values is that of numbers up to rounding, which that of integers always is, since they wrap;
/// 1 if there is a great number among them, 2 an infinity, 3 a NaN.
fn kind_of(tuple: &[Value]) -> usize {
    let kind = |x: f64| match x.abs() {
        x if x <= ORDINARY => 0,
        x if x.is_finite() => 1,
        x if x.is_infinite() => 2,
        _ => 3,
    };
    tuple.iter().filter_map(|value| value.as_f64()).map(kind).max().unwrap_or(0)
}

/// Whether two results are equal up to rounding of the values that went in.
fn agree(left: &[Value], right: &[Value], inputs: &[&[Value]]) -> bool {
    let finite = |x: f64| if x.is_finite() { x.abs() } else { 0.0 };
    let scale =
        inputs.iter().flat_map(|v| v.iter()).filter_map(|v| v.as_f64()).map(finite).fold(0.0, f64::max);
    left.iter().zip(right).all(|(l, r)| match (l.as_f64(), r.as_f64()) {
        (Some(l), Some(r)) => {
            (l.is_nan() && r.is_nan())
                || l == r
                || (l - r).abs() <= ROUNDING * scale.max(finite(l)).max(finite(r))
        }
        _ => l == r,
    })
}
