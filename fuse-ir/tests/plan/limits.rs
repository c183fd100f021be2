//! The limits of a launch, met in every way in which a plan can meet them.

use super::build::Build;
use super::check::{check_numbers, find_refused, plan_large};
use fuse_ir::dtype::{DType, Value};
use fuse_ir::graph::Kernel;
use fuse_ir::id::{AxisId, NodeId, VarId};
use fuse_ir::index_map::IndexExpr;
use fuse_ir::plan::{Decision, Plan, Refusal, Rule};
use fuse_ir::scalar::{Expr, ScalarFn, ScalarOp, Stmt, Variable};

/// The first refusal of unrelated groups in one launch, for that reason.
fn find_apart(plan: &Plan, refusal: Refusal) -> Option<&Decision> {
    plan.decisions.iter().find(|d| d.rule == Rule::Horizontal && d.refusal == Some(refusal))
}

#[test]
fn small_groups_share_a_launch_up_to_its_parameters() {
    let mut b = Build::new("many_small");
    for k in 0..60 {
        let n = b.assumed(&format!("N{k}"), 16);
        let x = b.f32(&format!("x{k}"), &[n]);
        let y = b.unary(ScalarOp::Exp, x);
        b.result(y, &[n]);
    }
    let mut one = Build::new("one");
    let (k, n) = (one.b.static_axis("K", 60), one.assumed("N", 16));
    let x = one.f32("x", &[k, n]);
    let y = one.unary(ScalarOp::Exp, x);
    one.result(y, &[k, n]);
    let (kernel, mended) = (b.build(), one.build());
    let plan = plan_large(&kernel);
    assert_eq!(plan.launch_count(), 2, "{}", plan.display(&kernel));
    let refused = find_apart(&plan, Refusal::Parameters).expect("a refused launch");
    assert!(refused.reason.contains("96 fit a launch"), "{}", refused.reason);
    assert_eq!(refused.remedy.as_deref(), Some("pass tensors of one shape as one tensor with another axis"));
    assert_eq!(plan_large(&mended).launch_count(), 1);
}

/// Unrelated groups of 100 scalings each, as operations or each group's as an `#[op]`.
fn chains(count: usize, as_op: bool) -> Kernel {
    let mut b = Build::new("chains");
    for k in 0..count {
        let n = b.assumed(&format!("N{k}"), 16);
        let mut x = b.f32(&format!("x{k}"), &[n]);
        if as_op {
            let id = VarId;
            let factor = Expr::Constant(Value::F32(1.5));
            let value = Expr::Op(ScalarOp::Mul, vec![Expr::Variable(id(0)), factor]);
            let step = Stmt::Assign { variable: id(0), value };
            let variable = |name: &str, dtype| Variable { name: name.into(), dtype };
            let function = b.b.function(ScalarFn {
                name: format!("scale{k}"),
                parameters: 1,
                variables: vec![variable("x", DType::F32), variable("k", DType::I64)],
                body: vec![Stmt::For { variable: id(1), start: 0, end: 100, body: vec![step] }],
                results: vec![Expr::Variable(id(0))],
            });
            x = b.b.call(function, 0, &[x]);
        } else {
            let factor = b.number(1.5);
            for _ in 0..100 {
                x = b.mul(x, factor);
            }
        }
        b.result(x, &[n]);
    }
    b.build()
}

/// Functions that count as much as they can: nothing would be gained by writing them as others.
#[test]
fn what_is_an_op_is_not_told_to_become_one() {
    let kernel = chains(4, true);
    let plan = plan_large(&kernel);
    let refused = find_apart(&plan, Refusal::CodeSize).expect("a refused launch");
    assert_eq!(refused.reason, "about 260 operations, 256 fit a launch");
    assert_eq!(refused.remedy, None);
}

#[test]
fn small_groups_share_a_launch_up_to_its_code() {
    let (kernel, mended) = (chains(3, false), chains(3, true));
    let plan = plan_large(&kernel);
    assert_eq!(plan.launch_count(), 2, "{}", plan.display(&kernel));
    let refused = find_apart(&plan, Refusal::CodeSize).expect("a refused launch");
    assert_eq!(refused.reason, "about 303 operations, 256 fit a launch");
    let remedy = "write elementwise steps as one `#[op]`: its code counts as 64 operations at most";
    assert_eq!(refused.remedy.as_deref(), Some(remedy));
    let after = plan_large(&mended);
    assert_eq!(after.launch_count(), 1, "{}", after.display(&mended));
}

/// A tensor whose axes are merged, as many into each.
fn merge_parts(b: &mut Build, x: NodeId, parts: &[AxisId], merged: &[AxisId]) -> NodeId {
    let mut replaced = Vec::new();
    for (parts, &whole) in parts.chunks(parts.len() / merged.len()).zip(merged) {
        let mut inner = IndexExpr::Const(1);
        for (k, &part) in parts.iter().enumerate().rev() {
            let mut at = IndexExpr::index(whole);
            if inner != IndexExpr::Const(1) {
                at = at.floor_div(inner.clone());
            }
            if k > 0 {
                at = at.modulo(IndexExpr::extent(part));
            }
            replaced.push((part, at));
            inner = inner.times(IndexExpr::extent(part));
        }
    }
    b.remap(x, &replaced, &[], None)
}

#[test]
fn a_launch_has_sixteen_dimensions() {
    let mut b = Build::new("dimensions");
    let names: Vec<String> = (0..16).map(|k| format!("A{k}")).collect();
    let parts: Vec<AxisId> =
        names.iter().enumerate().map(|(k, name)| b.b.static_axis(name, if k == 0 { 3 } else { 2 })).collect();
    let merged: Vec<AxisId> = (0..4)
        .map(|k| {
            let whole = (1..4)
                .fold(IndexExpr::extent(parts[4 * k]), |e, j| e.times(IndexExpr::extent(parts[4 * k + j])));
            b.b.derived_axis(&format!("F{k}"), whole)
        })
        .collect();
    let x = b.f32("x", &parts);
    let x = merge_parts(&mut b, x, &parts, &merged);
    let x = b.unary(ScalarOp::Exp, x);
    // One more part of an axis than fit.
    let (p, q) = (b.b.static_axis("P", 8), b.b.static_axis("Q", 3));
    let y = b.f32("y", &[p, q]);
    let y = merge_parts(&mut b, y, &[p, q], &merged[..1]);
    let z = b.mul(x, y);
    b.result(z, &merged);
    let kernel = b.build();
    let plan = plan_large(&kernel);
    let refused = find_refused(&plan, Refusal::Parameters);
    let refused = refused.unwrap_or_else(|| panic!("nothing refused in\n{}", plan.display(&kernel)));
    assert!(refused.reason.ends_with("axes and parts of axes, 16 fit a launch"), "{}", refused.reason);
}

/// A long chain that is read at many positions: all of it would be computed for each.
#[test]
fn chains_are_not_computed_again_for_many_neighbours() {
    let mut b = Build::new("neighbours");
    let n = b.axis("N");
    let mut x = b.f32("x", &[n]);
    for _ in 0..120 {
        x = b.unary(ScalarOp::Sin, x);
    }
    let mut sum = x;
    for k in 1..60 {
        let at = IndexExpr::index(n).plus(k).modulo(IndexExpr::extent(n));
        let neighbour = b.remap(x, &[(n, at)], &[], None);
        sum = b.add(sum, neighbour);
    }
    b.result(sum, &[n]);
    let kernel = b.build();
    let plan = plan_large(&kernel);
    let too_many = |d: &&Decision| d.reason.contains("the body would have more than");
    let refused = plan.decisions.iter().find(too_many);
    let refused = refused.unwrap_or_else(|| panic!("nothing refused in\n{}", plan.display(&kernel)));
    assert_eq!(refused.refusal, Some(Refusal::CodeSize));
    // An `#[op]` does not see its neighbours.
    assert_eq!(refused.remedy, None);
}

#[test]
fn sums_are_not_read_at_other_positions() {
    let mut b = Build::new("reversed_sums");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let x = b.f32("x", &[m, n]);
    let sums = b.sum(x, &[n]);
    let back = IndexExpr::extent(m).minus(1).minus(IndexExpr::index(m));
    let turned = b.remap(sums, &[(m, back)], &[], None);
    let y = b.sub(x, turned);
    b.result(y, &[m, n]);
    let kernel = b.build();
    check_numbers(&kernel);
    let plan = plan_large(&kernel);
    let refused = find_refused(&plan, Refusal::IncompleteReduction).expect("a refused merge");
    assert!(refused.reason.contains("is read at positions other than"), "{}", refused.reason);
}

#[test]
fn running_sums_are_not_read_at_other_positions() {
    let mut b = Build::new("reversed_running_sum");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let x = b.f32("x", &[m, n]);
    let sums = b.cumsum(x, n);
    let back = IndexExpr::extent(n).minus(1).minus(IndexExpr::index(n));
    let turned = b.remap(sums, &[(n, back)], &[], None);
    // Both ways: one alone would be summed in the order in which it is read.
    let y = b.sub(sums, turned);
    b.result(y, &[m, n]);
    let kernel = b.build();
    check_numbers(&kernel);
    let plan = plan_large(&kernel);
    let refused = find_refused(&plan, Refusal::IncompleteReduction);
    let refused = refused.unwrap_or_else(|| panic!("nothing refused in\n{}", plan.display(&kernel)));
    assert!(refused.reason.contains("is read at other positions"), "{}", refused.reason);
}
