//! Every reason for which fusion is refused, in a kernel that meets it, and what becomes of the kernel when the remedy is
//! applied.

use super::build::Build;
use super::check::{check_numbers, find_refused, plan, plan_large};
use super::search::random_kernel;
use fuse_ir::dtype::{DType, Value};
use fuse_ir::graph::{Kernel, Op};
use fuse_ir::id::NodeId;
use fuse_ir::index_map::{Bound, IndexExpr};
use fuse_ir::plan::{PlanOptions, Refusal, plan_kernel};
use fuse_ir::random::random_case;
use fuse_ir::scalar::{Expr, ScalarFn, ScalarOp, Stmt, Variable};
use fuse_ir::target::Target;

/// The kernel meets the refusal with this remedy; the one with the remedy applied does not, and takes fewer launches.
fn check_remedy(kernel: &Kernel, refusal: Refusal, remedy: &str, mended: &Kernel) {
    let (before, after) = (plan_large(kernel), plan_large(mended));
    let shown = format!("{}\n{}", before.display(kernel), after.display(mended));
    let remedies = |d: &&fuse_ir::plan::Decision| d.refusal == Some(refusal) && d.remedy.is_some();
    let refused = before.decisions.iter().find(remedies);
    let found = refused.unwrap_or_else(|| panic!("no remedy for {refusal:?} in\n{shown}"));
    assert_eq!(found.remedy.as_deref(), Some(remedy), "{shown}");
    assert!(find_refused(&after, refusal).is_none(), "{shown}");
    assert!(after.launch_count() < before.launch_count(), "{shown}");
}

fn exp_plus_one(cut: bool) -> Kernel {
    let mut b = Build::new("cut");
    let n = b.axis("N");
    let x = b.f32("x", &[n]);
    let mut y = b.unary(ScalarOp::Exp, x);
    if cut {
        y = b.b.push(Op::Materialize { source: y });
    }
    let one = b.number(1.0);
    let y = b.add(y, one);
    b.result(y, &[n]);
    b.build()
}

#[test]
fn materialized() {
    check_remedy(&exp_plus_one(true), Refusal::Materialized, "drop `materialize()`", &exp_plus_one(false));
}

/// The product and the sum of 60 values: one after the other, or both as the values come.
fn product_and_sum(interleaved: bool) -> Kernel {
    let mut b = Build::new("live");
    let n = b.axis("N");
    let x = b.f32("x", &[n]);
    let mut values = vec![x];
    for _ in 0..60 {
        values.push(b.unary(ScalarOp::Sin, values[values.len() - 1]));
    }
    let mut sum = values[0];
    if interleaved {
        for &v in &values[1..] {
            let product = b.mul(sum, v);
            sum = b.add(product, v);
        }
    } else {
        for &v in &values[1..] {
            sum = b.add(sum, v);
        }
        for &v in &values[1..] {
            sum = b.mul(sum, v);
        }
    }
    b.result(sum, &[n]);
    b.build()
}

#[test]
fn registers() {
    let remedy = "use values up soon after they are computed: 48 can wait for their last use";
    check_remedy(&product_and_sum(false), Refusal::Registers, remedy, &product_and_sum(true));
}

/// 200 tensors scaled, each a parameter or all of them one.
#[test]
fn parameters() {
    let mut b = Build::new("many");
    let n = b.axis("N");
    for k in 0..100 {
        let x = b.f32(&format!("x{k}"), &[n]);
        let y = b.unary(ScalarOp::Exp, x);
        b.result(y, &[n]);
    }
    let mut one = Build::new("one");
    let (k, n) = (one.b.static_axis("K", 100), one.axis("N"));
    let x = one.f32("x", &[k, n]);
    let y = one.unary(ScalarOp::Exp, x);
    one.result(y, &[k, n]);
    let remedy = "pass tensors of one shape as one tensor with another axis";
    check_remedy(&b.build(), Refusal::Parameters, remedy, &one.build());
}

/// 300 steps of `x * 1.5 + 0.5`, each an operation or all of them a loop of an `#[op]`.
fn steps(as_op: bool) -> Kernel {
    let mut b = Build::new("steps");
    let n = b.axis("N");
    let mut x = b.f32("x", &[n]);
    if as_op {
        let variable = |name: &str, dtype| Variable { name: name.into(), dtype };
        let id = fuse_ir::id::VarId;
        let constant = |c: f32| Expr::Constant(Value::F32(c));
        let product = Expr::Op(ScalarOp::Mul, vec![Expr::Variable(id(0)), constant(1.5)]);
        let value = Expr::Op(ScalarOp::Add, vec![product, constant(0.5)]);
        let step = Stmt::Assign { variable: id(0), value };
        let function = b.b.function(ScalarFn {
            name: "steps".into(),
            parameters: 1,
            variables: vec![variable("x", DType::F32), variable("k", DType::I64)],
            body: vec![Stmt::For { variable: id(1), start: 0, end: 300, body: vec![step] }],
            results: vec![Expr::Variable(id(0))],
        });
        x = b.b.call(function, 0, &[x]);
    } else {
        let (c, d) = (b.number(1.5), b.number(0.5));
        for _ in 0..300 {
            x = b.mul(x, c);
            x = b.add(x, d);
        }
    }
    b.result(x, &[n]);
    b.build()
}

#[test]
fn code_size() {
    let remedy = "write elementwise steps as one `#[op]`: its code counts as 64 operations at most";
    check_remedy(&steps(false), Refusal::CodeSize, remedy, &steps(true));
}

#[test]
fn too_many_reductions_are_too_much_code() {
    let mut b = Build::new("reductions");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let x = b.f32("x", &[m, n]);
    for k in 0..9 {
        let factor = b.number(k as f32);
        let y = b.mul(x, factor);
        let sum = b.sum(y, &[n]);
        b.result(sum, &[m]);
    }
    let kernel = b.build();
    let plan = plan(&kernel);
    assert_eq!(plan.launch_count(), 2, "{}", plan.display(&kernel));
    let refused = find_refused(&plan, Refusal::CodeSize).expect("a refused merge");
    assert_eq!(refused.reason, "9 reductions, 8 fit a group");
}

/// A quotient of integers, padded; or the quotient of what is padded.
fn padded_quotient(pad_first: bool) -> Kernel {
    let mut b = Build::new("padded");
    let n = b.axis("N");
    let m = b.b.derived_axis("M", IndexExpr::extent(n).plus(2));
    let (x, y) = (b.b.tensor("x", DType::I32, &[n]), b.b.tensor("y", DType::I32, &[n]));
    let z = b.b.tensor("z", DType::I32, &[m]);
    // No zeros to divide by.
    let one = b.b.constant(Value::I32(1));
    let y = b.map(ScalarOp::Or, &[y, one]);
    let at = IndexExpr::index(m).minus(1);
    let bound = Bound { expr: at.clone(), extent: IndexExpr::extent(n) };
    let pad = |b: &mut Build, x: NodeId, fill: i32| {
        b.remap(x, &[(n, at.clone())], std::slice::from_ref(&bound), Some(Value::I32(fill)))
    };
    let q = if pad_first {
        let (x, y) = (pad(&mut b, x, 0), pad(&mut b, y, 1));
        b.map(ScalarOp::Div, &[x, y])
    } else {
        let q = b.map(ScalarOp::Div, &[x, y]);
        pad(&mut b, q, 0)
    };
    let sum = b.add(q, z);
    b.result(sum, &[m]);
    b.build()
}

#[test]
fn index_mismatch() {
    let remedy = "pad what `div` is computed from, with values for which it cannot fault";
    let (kernel, mended) = (padded_quotient(false), padded_quotient(true));
    check_numbers(&kernel);
    check_numbers(&mended);
    check_remedy(&kernel, Refusal::IndexMismatch, remedy, &mended);
}

/// Each row's share of the whole, whose sum is taken of the rows' sums or of everything.
fn shares(of_rows: bool) -> Kernel {
    let mut b = Build::new("shares");
    let (m, n) = (b.assumed("M", 1 << 24), b.assumed("N", 4));
    let x = b.f32("x", &[m, n]);
    let rows = b.sum(x, &[n]);
    let all = if of_rows { b.sum(rows, &[m]) } else { b.sum(x, &[m, n]) };
    let share = b.div(rows, all);
    b.result(share, &[m]);
    b.build()
}

#[test]
fn cycle() {
    let (kernel, mended) = (shares(true), shares(false));
    let before = plan(&kernel);
    let refused = find_refused(&before, Refusal::Cycle).expect("a refused merge");
    assert_eq!(refused.reason, "another launch lies between `sum(N)` and it");
    assert_eq!(refused.remedy.as_deref(), Some("compute `sum(M)` without `sum(N)`"));
    let after = plan(&mended);
    let shown = after.display(&mended).to_string();
    let taken = |d: &fuse_ir::plan::Decision| {
        d.refusal.is_none() && d.producer == refused.producer && d.consumer == refused.consumer
    };
    assert!(after.decisions.iter().any(taken), "{shown}");
}

/// The difference from the mean of everything.
fn centred(extents: Option<u64>) -> Kernel {
    let mut b = Build::new("centred");
    let (m, n) = (b.axis("M"), b.axis("N"));
    for axis in [m, n] {
        b.b.kernel.axes[axis.index()].assumed = extents;
    }
    let x = b.f32("x", &[m, n]);
    let mean = b.mean(x, &[m, n]);
    let y = b.sub(x, mean);
    b.result(y, &[m, n]);
    b.build()
}

#[test]
fn lost_parallelism() {
    let remedy = "if the reduced axes are short, say so: `assume(M = 64, N = 64)`";
    check_remedy(&centred(None), Refusal::LostParallelism, remedy, &centred(Some(64)));
}

/// What is assumed to be long is not said to be short: the contract is what is left.
#[test]
fn lost_parallelism_of_long_axes() {
    let mut kernel = centred(Some(4096));
    let plan = plan(&kernel);
    let refused = find_refused(&plan, Refusal::LostParallelism).expect("a refused merge");
    assert_eq!(plan.launch_count(), 3, "{}", plan.display(&kernel));
    assert_eq!(refused.remedy.as_deref(), Some("`launches = 2` saves the launch all the same"));
    kernel.launches = Some(2);
    let kept = plan_large(&kernel);
    assert!(kept.launch_count() <= 2, "{}", kept.display(&kernel));
}

/// A row of dear values that every row reads.
fn dear_row(launches: Option<u32>) -> Kernel {
    let mut b = Build::new("dear");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let (x, mut w) = (b.f32("x", &[m, n]), b.f32("w", &[n]));
    for _ in 0..8 {
        w = b.unary(ScalarOp::Atan, w);
    }
    let y = b.add(x, w);
    b.result(y, &[m, n]);
    let mut kernel = b.build();
    kernel.launches = launches;
    kernel
}

#[test]
fn recomputation() {
    let remedy = "`launches = 1` saves the launch all the same";
    check_remedy(&dear_row(None), Refusal::Recomputation, remedy, &dear_row(Some(1)));
}

/// Two long sweeps that share nothing: they are apart, and in one launch where the contract says so.
#[test]
fn slower() {
    let apart = |launches: Option<u32>| {
        let mut b = Build::new("apart");
        for name in ["N", "M"] {
            let n = b.assumed(name, 1 << 24);
            let x = b.f32(&name.to_lowercase(), &[n]);
            let y = b.unary(ScalarOp::Exp, x);
            b.result(y, &[n]);
        }
        let mut kernel = b.build();
        kernel.launches = launches;
        kernel
    };
    let remedy = "`launches = 1` saves the launch all the same";
    check_remedy(&apart(None), Refusal::Slower, remedy, &apart(Some(1)));
}

#[test]
fn different_axes() {
    let mut b = Build::new("both_ways");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let x = b.f32("x", &[m, n]);
    let y = b.softmax(x, &[n]);
    let y = b.softmax(y, &[m]);
    b.result(y, &[m, n]);
    let mut kernel = b.build();
    kernel.launches = Some(1);
    let error = plan_kernel(&kernel, &Target::cpu(), &PlanOptions::default()).expect_err("no plan");
    let fuse_ir::plan::PlanError::Contract { blocking, .. } = error else { panic!("{error}") };
    let refused =
        blocking.iter().find(|d| d.refusal == Some(Refusal::DifferentAxes)).expect("a refused merge");
    assert!(refused.reason.contains("reduces [N] for each [M]"), "{}", refused.reason);
    // What was asked for is not offered again.
    assert!(blocking.iter().all(|d| d.remedy.as_ref().is_none_or(|r| !r.contains("launches"))));
}

#[test]
fn incomplete_reduction() {
    let mut b = Build::new("total");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let x = b.f32("x", &[m, n]);
    let rows = b.sum(x, &[n]);
    let rows = b.unary(ScalarOp::Exp, rows);
    let all = b.sum(rows, &[m]);
    b.result(all, &[]);
    let kernel = b.build();
    assert!(find_refused(&plan(&kernel), Refusal::IncompleteReduction).is_some());
}

/// A tensor reversed over itself or as a new one.
#[test]
fn in_place_hazard() {
    let reversed = |in_place: bool| {
        let mut b = Build::new("reverse");
        let n = b.axis("N");
        let (p, x) = b.f32_mut("x", &[n]);
        let back = IndexExpr::extent(n).minus(1).minus(IndexExpr::index(n));
        let y = b.remap(x, &[(n, back)], &[], None);
        let y = b.unary(ScalarOp::Exp, y);
        if in_place {
            b.b.store(p, y);
        } else {
            b.result(y, &[n]);
        }
        b.build()
    };
    let mended = reversed(false);
    let refused = plan(&reversed(true));
    let refused = find_refused(&refused, Refusal::InPlaceHazard).expect("a refused merge");
    assert_eq!(refused.remedy.as_deref(), Some("return a new tensor instead of writing in place"));
    assert_eq!(plan(&mended).launch_count(), 1);
}

#[test]
fn fewer_launches_that_a_plan_offers_can_be_had() {
    let mut offers = 0;
    for seed in 0..300 {
        for kernel in [random_kernel(seed), random_case(seed).kernel] {
            let plan = plan_kernel(&kernel, &Target::cpu(), &PlanOptions::default()).expect("a plan");
            let offered =
                |d: &&fuse_ir::plan::Decision| d.remedy.as_ref().is_some_and(|r| r.contains("launches = "));
            if plan.decisions.iter().find(offered).is_none() {
                continue;
            }
            offers += 1;
            let launches = Some(plan.launch_count() - 1);
            let kept = plan_kernel(&kernel, &Target::cpu(), &PlanOptions { launches });
            assert!(kept.is_ok(), "seed {seed}: {:?}\n{}\n{kernel}", kept.err(), plan.display(&kernel));
        }
    }
    assert!(offers > 50, "{offers} plans offer fewer launches");
}
