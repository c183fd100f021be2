//! Cutting the loop of a stage where transcendental functions depend on one another.
//!
//! A polynomial is a chain of dependent multiply-adds, so one vector of it waits most of the time; a processor hides
//! that by working on several iterations at once. It sees only a few hundred instructions ahead, though, and a loop that
//! takes `tanh` of `exp` of `sigmoid` is longer than that: on AVX-512 and AVX2 such loops ran at half the speed of their
//! parts. So the loop runs over blocks of [`BLOCK`] positions, and within a block over one *segment* after the other: no
//! path through a segment meets two transcendental functions. What later segments read stays in arrays of a block, in the
//! first cache, which costs far less than what is gained. Independent functions of one input stay in one segment.

use fuse_ir::graph::{Kernel, MapFn};
use fuse_ir::id::ValueId;
use fuse_ir::scalar::{Expr, ScalarFn, Stmt};
use fuse_ir::schedule::{BodyOp, ScheduledGroup};
use fuse_ir::stage::Stage;

/// Positions of a block. Shorter ones leave too few independent iterations, longer ones fall out of the first cache.
pub(super) const BLOCK: usize = 128;

/// The most arrays of a block that a stage may need: 16 KiB of f64.
const MOST_ARRAYS: usize = 16;

/// A part of a stage that has a loop of its own.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Segment {
    /// What it computes, in order.
    pub(super) values: Vec<ValueId>,
    /// What it reads of earlier segments.
    pub(super) takes: Vec<ValueId>,
    /// What later segments read of it.
    pub(super) keeps: Vec<ValueId>,
}

/// The segments of a stage: one, unless transcendental functions follow one another.
pub(super) fn cut_into_segments(kernel: &Kernel, group: &ScheduledGroup, stage: &Stage) -> Vec<Segment> {
    let whole = || vec![Segment { values: stage.values.clone(), ..Segment::default() }];
    let heavy = find_transcendental_functions(&kernel.functions);
    let position = |v: ValueId| stage.values.iter().position(|&u| u == v);

    // How many transcendental functions the longest path to each value meets.
    let mut depths: Vec<usize> = Vec::with_capacity(stage.values.len());
    for &v in &stage.values {
        let BodyOp::Map { function, args } = &group.value(v).op else { return whole() };
        let before = args.iter().filter_map(|&a| position(a)).map(|k| depths[k]).max().unwrap_or(0);
        let own = match function {
            MapFn::Op(op) => op.is_transcendental(),
            MapFn::Call { function, .. } => heavy[function.index()],
        };
        depths.push(before + usize::from(own));
    }
    let count = depths.iter().copied().max().unwrap_or(0);
    if count < 2 {
        return whole();
    }

    // What comes before the first of them needs no loop of its own.
    let segment_of = |k: usize| depths[k].saturating_sub(1);
    let mut segments = vec![Segment::default(); count];
    let mut kept: Vec<ValueId> = Vec::new();
    for (k, &v) in stage.values.iter().enumerate() {
        let here = segment_of(k);
        segments[here].values.push(v);
        let BodyOp::Map { args, .. } = &group.value(v).op else { return whole() };
        for &a in args {
            let Some(there) = position(a).map(segment_of) else { continue };
            if there == here {
                continue;
            }
            if !segments[here].takes.contains(&a) {
                segments[here].takes.push(a);
            }
            if !kept.contains(&a) {
                kept.push(a);
                segments[there].keeps.push(a);
            }
        }
    }
    if kept.len() > MOST_ARRAYS { whole() } else { segments }
}

/// Whether each function, or one that it calls, is transcendental.
fn find_transcendental_functions(functions: &[ScalarFn]) -> Vec<bool> {
    let mut heavy: Vec<bool> = Vec::with_capacity(functions.len());
    for function in functions {
        let own = function.results.iter().any(|e| expr_is_heavy(e, &heavy))
            || function.body.iter().any(|s| stmt_is_heavy(s, &heavy));
        heavy.push(own);
    }
    heavy
}

fn stmt_is_heavy(stmt: &Stmt, earlier: &[bool]) -> bool {
    match stmt {
        Stmt::Assign { value, .. } => expr_is_heavy(value, earlier),
        Stmt::If { condition, then, otherwise } => {
            expr_is_heavy(condition, earlier)
                || then.iter().chain(otherwise).any(|s| stmt_is_heavy(s, earlier))
        }
        Stmt::For { body, .. } => body.iter().any(|s| stmt_is_heavy(s, earlier)),
    }
}

fn expr_is_heavy(expr: &Expr, earlier: &[bool]) -> bool {
    match expr {
        Expr::Constant(_) | Expr::Variable(_) => false,
        Expr::Op(op, args) => op.is_transcendental() || args.iter().any(|a| expr_is_heavy(a, earlier)),
        Expr::Call { function, args, .. } => {
            earlier.get(function.index()).copied().unwrap_or(true)
                || args.iter().any(|a| expr_is_heavy(a, earlier))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fuse_ir::dtype::DType;
    use fuse_ir::id::{GroupId, OperandId};
    use fuse_ir::scalar::ScalarOp;
    use fuse_ir::schedule::{BodyValue, Level};
    use fuse_ir::stage::Place;

    /// The segments of a loop over `x0`, whose further values are these operations of earlier ones.
    fn check(operations: &[(ScalarOp, &[u32])], expected: &[(&[u32], &[u32], &[u32])]) {
        let value = |op| BodyValue { op, dtype: DType::F32, level: Level::Inner, node: None };
        let mut values = vec![value(BodyOp::Load(OperandId(0)))];
        for &(op, args) in operations {
            let args = args.iter().map(|&a| ValueId(a)).collect();
            values.push(value(BodyOp::Map { function: MapFn::Op(op), args }));
        }
        let group = ScheduledGroup { values, ..ScheduledGroup::empty(GroupId(0)) };
        let stage = Stage {
            name: "sweep0".to_owned(),
            place: Place::Inner,
            inputs: vec![ValueId(0)],
            scalars: Vec::new(),
            prelude: Vec::new(),
            values: (1..=operations.len() as u32).map(ValueId).collect(),
            outputs: vec![ValueId(operations.len() as u32)],
            reductions: Vec::new(),
            faults: Vec::new(),
        };
        let ids = |list: &[u32]| list.iter().map(|&v| ValueId(v)).collect::<Vec<_>>();
        let expected: Vec<Segment> = expected
            .iter()
            .map(|(values, takes, keeps)| Segment {
                values: ids(values),
                takes: ids(takes),
                keeps: ids(keeps),
            })
            .collect();
        assert_eq!(cut_into_segments(&Kernel::default(), &group, &stage), expected);
    }

    #[test]
    fn light_operations_share_one_loop() {
        check(
            &[(ScalarOp::Neg, &[0]), (ScalarOp::Exp, &[1]), (ScalarOp::Add, &[0, 2])],
            &[(&[1, 2, 3], &[], &[])],
        );
    }

    #[test]
    fn independent_functions_share_one_loop() {
        check(
            &[(ScalarOp::Exp, &[0]), (ScalarOp::Tanh, &[0]), (ScalarOp::Add, &[1, 2])],
            &[(&[1, 2, 3], &[], &[])],
        );
    }

    #[test]
    fn dependent_functions_have_loops_of_their_own() {
        check(
            &[(ScalarOp::Tanh, &[0]), (ScalarOp::Neg, &[1]), (ScalarOp::Exp, &[2]), (ScalarOp::Add, &[3, 1])],
            &[(&[1, 2], &[], &[2, 1]), (&[3, 4], &[2, 1], &[])],
        );
    }

    #[test]
    fn a_value_that_skips_a_loop_is_kept_for_the_next() {
        check(
            &[(ScalarOp::Exp, &[0]), (ScalarOp::Ln, &[1]), (ScalarOp::Tanh, &[2]), (ScalarOp::Add, &[3, 1])],
            &[(&[1], &[], &[1]), (&[2], &[1], &[2]), (&[3, 4], &[2, 1], &[])],
        );
    }
}
