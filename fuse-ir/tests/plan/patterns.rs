//! The patterns that users write, each with the launches it must take.

use super::build::Build;
use super::check::{check, check_golden, find_refused, is_taken, plan};
use fuse_ir::dtype::{DType, Value};
use fuse_ir::graph::Op;
use fuse_ir::index_map::IndexExpr;
use fuse_ir::plan::{Refusal, Rule};
use fuse_ir::scalar::ScalarOp;
use fuse_ir::schedule::ScheduleKind;

#[test]
fn sigmoid_mul_add() {
    let mut b = Build::new("sigmoid_mul_add");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let (x, y, z) = (b.f32("x", &[m, n]), b.f32("y", &[m, n]), b.f32("z", &[n]));
    let s = b.unary(ScalarOp::Sigmoid, x);
    let t = b.mul(s, y);
    let t = b.add(t, z);
    b.result(t, &[m, n]);
    let kernel = b.build();
    let plan = check(&kernel, 1, 3);
    assert_eq!(plan.assume(&plan.bytes), 4 * (3 * 1024 * 1024 + 1024));
    assert_eq!(plan.assume(&plan.bytes_unfused), 4 * (7 * 1024 * 1024 + 1024));
    assert_eq!(plan.assume(&plan.flops), 3 * 1024 * 1024);
    assert!(is_taken(&plan, Rule::Vertical));
    check_golden(&kernel, "sigmoid_mul_add");
}

#[test]
fn add_relu_mul() {
    let mut b = Build::new("add_relu_mul");
    let n = b.axis("N");
    let (x, y) = (b.f32("x", &[n]), b.f32("y", &[n]));
    let t = b.add(x, y);
    let t = b.relu(t);
    let t = b.mul(t, y);
    b.result(t, &[n]);
    check(&b.build(), 1, 3);
}

#[test]
fn four_activations_of_one_input() {
    let mut b = Build::new("activations");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let x = b.f32("x", &[m, n]);
    for op in [ScalarOp::Sigmoid, ScalarOp::Tanh, ScalarOp::Erf, ScalarOp::Abs] {
        let y = b.unary(op, x);
        b.result(y, &[m, n]);
    }
    let kernel = b.build();
    let plan = check(&kernel, 1, 4);
    assert_eq!(plan.assume(&plan.bytes), 4 * 5 * 1024 * 1024);
    assert!(is_taken(&plan, Rule::Siblings));
    check_golden(&kernel, "activations");
}

#[test]
fn layer_norm() {
    let mut b = Build::new("layer_norm");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let (x, g, beta) = (b.f32("x", &[m, n]), b.f32("g", &[n]), b.f32("b", &[n]));
    let y = b.layer_norm(x, n);
    let y = b.mul(y, g);
    let y = b.add(y, beta);
    b.result(y, &[m, n]);
    let kernel = b.build();
    let plan = check(&kernel, 1, 11);
    assert_eq!(plan.groups().next().map(|g| g.passes.len()), Some(3));
    assert!(is_taken(&plan, Rule::ReductionPrologue) && is_taken(&plan, Rule::ReductionEpilogue));
    check_golden(&kernel, "layer_norm");
}

#[test]
fn rms_norm_silu() {
    let mut b = Build::new("rms_norm_silu");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let (x, g) = (b.f32("x", &[m, n]), b.f32("g", &[n]));
    let square = b.mul(x, x);
    let mean = b.mean(square, &[n]);
    let eps = b.number(1e-6);
    let mean = b.add(mean, eps);
    let scale = b.unary(ScalarOp::Rsqrt, mean);
    let y = b.mul(x, scale);
    let y = b.mul(y, g);
    let y = b.silu(y);
    b.result(y, &[m, n]);
    let plan = check(&b.build(), 1, 9);
    assert_eq!(plan.groups().next().map(|g| g.passes.len()), Some(2));
}

#[test]
fn softmax_over_the_inner_axis() {
    let mut b = Build::new("softmax_inner");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let x = b.f32("x", &[m, n]);
    let y = b.softmax(x, &[n]);
    b.result(y, &[m, n]);
    let kernel = b.build();
    let plan = check(&kernel, 1, 9);
    let group = plan.groups().next().expect("a group");
    assert_eq!(group.kind, ScheduleKind::Row);
    assert_eq!(group.passes.iter().map(|p| p.buffered.len()).sum::<usize>(), 1);
    check_golden(&kernel, "softmax_inner");
}

#[test]
fn softmax_over_the_outer_axis_runs_by_column() {
    let mut b = Build::new("softmax_outer");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let x = b.f32("x", &[m, n]);
    let y = b.softmax(x, &[m]);
    b.result(y, &[m, n]);
    let plan = check(&b.build(), 1, 9);
    assert_eq!(plan.groups().next().map(|g| g.kind), Some(ScheduleKind::Column));
}

#[test]
fn softmax_over_two_axes() {
    let mut b = Build::new("softmax_two");
    let (batch, m, n) = (b.axis("B"), b.assumed("M", 32), b.assumed("N", 32));
    let x = b.f32("x", &[batch, m, n]);
    let y = b.softmax(x, &[m, n]);
    b.result(y, &[batch, m, n]);
    check(&b.build(), 1, 9);
}

#[test]
fn dequantise_operate_quantise() {
    let mut b = Build::new("requantise");
    let (c, n) = (b.axis("C"), b.axis("N"));
    let q = b.b.tensor("q", DType::I8, &[c, n]);
    let (scale, zero) = (b.f32("scale", &[c]), b.f32("zero", &[c]));
    let x = b.unary(ScalarOp::Cast(DType::F32), q);
    let x = b.sub(x, zero);
    let x = b.mul(x, scale);
    let x = b.relu(x);
    let x = b.unary(ScalarOp::Round, x);
    let x = b.unary(ScalarOp::Cast(DType::I8), x);
    b.result(x, &[c, n]);
    let plan = check(&b.build(), 1, 6);
    assert_eq!(plan.assume(&plan.bytes), 2 * 1024 * 1024 + 2 * 4 * 1024);
}

#[test]
fn reduction_elementwise_reduction_over_other_axes_is_cut() {
    let mut b = Build::new("two_reductions");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let x = b.f32("x", &[m, n]);
    let rows = b.sum(x, &[n]);
    let rows = b.unary(ScalarOp::Exp, rows);
    let all = b.sum(rows, &[m]);
    b.result(all, &[]);
    let kernel = b.build();
    let plan = plan(&kernel);
    let refused = find_refused(&plan, Refusal::IncompleteReduction).expect("a refused merge");
    assert!(refused.reason.contains("sum(N)"), "{}", refused.reason);
    assert!(plan.launch_count() <= 3, "{}", plan.display(&kernel));
    check_golden(&kernel, "two_reductions");
}

#[test]
fn reductions_of_one_input_share_the_sweep() {
    let mut b = Build::new("sum_and_max");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let x = b.f32("x", &[m, n]);
    let (s, t) = (b.sum(x, &[m, n]), b.max(x, &[m, n]));
    b.result(s, &[]);
    b.result(t, &[]);
    let kernel = b.build();
    let plan = check(&kernel, 2, 4);
    assert_eq!(plan.groups().map(|g| g.kind).collect::<Vec<_>>(), [ScheduleKind::Split]);
    assert_eq!(plan.assume(&plan.bytes), 4 * 1024 * 1024 + 8);
    check_golden(&kernel, "sum_and_max");
}

#[test]
fn mean_over_all_then_normalise_is_split() {
    let mut b = Build::new("normalise_all");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let x = b.f32("x", &[m, n]);
    let mean = b.mean(x, &[m, n]);
    let y = b.sub(x, mean);
    b.result(y, &[m, n]);
    let kernel = b.build();
    let plan = check(&kernel, 3, 4);
    let refused = find_refused(&plan, Refusal::LostParallelism).expect("a refused merge");
    assert!(refused.remedy.as_deref().is_some_and(|r| r.contains("assume(M = 64, N = 64)")));
    check_golden(&kernel, "normalise_all");
}

#[test]
fn what_the_remedy_says_makes_it_one_launch() {
    let mut b = Build::new("normalise_small");
    let (m, n) = (b.assumed("M", 64), b.assumed("N", 64));
    let x = b.f32("x", &[m, n]);
    let mean = b.mean(x, &[m, n]);
    let y = b.sub(x, mean);
    b.result(y, &[m, n]);
    check(&b.build(), 1, 3);
}

#[test]
fn independent_small_kernels_share_a_launch() {
    let mut b = Build::new("small");
    for k in 0..3 {
        let n = b.axis(&format!("N{k}"));
        let x = b.f32(&format!("x{k}"), &[n]);
        let y = b.unary(ScalarOp::Exp, x);
        b.result(y, &[n]);
    }
    let kernel = b.build();
    let plan = check(&kernel, 1, 3);
    assert!(is_taken(&plan, Rule::Horizontal));
    check_golden(&kernel, "small");
}

#[test]
fn independent_large_kernels_do_not() {
    let mut b = Build::new("large");
    for k in 0..2 {
        let n = b.assumed(&format!("N{k}"), 1 << 24);
        let x = b.f32(&format!("x{k}"), &[n]);
        let y = b.unary(ScalarOp::Exp, x);
        b.result(y, &[n]);
    }
    let plan = check(&b.build(), 2, 2);
    assert!(plan.decisions.iter().any(|d| d.rule == Rule::Horizontal && d.refusal == Some(Refusal::Slower)));
}

#[test]
fn a_row_norm_and_an_activation_of_one_input_read_it_once() {
    let mut b = Build::new("norm_and_relu");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let x = b.f32("x", &[m, n]);
    let y = b.layer_norm(x, n);
    let z = b.relu(x);
    b.result(y, &[m, n]);
    b.result(z, &[m, n]);
    let plan = check(&b.build(), 1, 10);
    assert_eq!(plan.assume(&plan.bytes), 4 * 3 * 1024 * 1024);
}

#[test]
fn a_slice_computes_what_it_reads() {
    let mut b = Build::new("slice");
    let n = b.assumed("N", 4096);
    let p = b.b.static_axis("P", 2);
    let x = b.f32("x", &[n]);
    let y = b.unary(ScalarOp::Exp, x);
    let y = b.slice(y, n, 1, p);
    b.result(y, &[p]);
    let plan = check(&b.build(), 1, 2);
    assert!(plan.assume(&plan.bytes) <= 4 * 4);
}

#[test]
fn padding_of_a_computed_value_selects_the_fill() {
    let mut b = Build::new("pad");
    let n = b.axis("N");
    let p = b.b.derived_axis("P", IndexExpr::extent(n).plus(3));
    let x = b.f32("x", &[n]);
    let y = b.unary(ScalarOp::Exp, x);
    let expr = IndexExpr::index(p).minus(1);
    let bound = fuse_ir::index_map::Bound { expr: expr.clone(), extent: IndexExpr::extent(n) };
    for fill in [0.0, -0.0, 2.0] {
        let z = b.remap(y, &[(n, expr.clone())], std::slice::from_ref(&bound), Some(Value::F32(fill)));
        let direct = b.remap(x, &[(n, expr.clone())], std::slice::from_ref(&bound), Some(Value::F32(fill)));
        let z = b.add(z, direct);
        b.result(z, &[p]);
    }
    let kernel = b.build();
    let plan = plan(&kernel);
    assert_eq!(plan.launch_count(), 1, "{}", plan.display(&kernel));
    check_golden(&kernel, "pad");
}

#[test]
fn a_gather_of_a_computed_value_fuses() {
    let mut b = Build::new("gather");
    let (v, e, t) = (b.static_vocabulary(), b.axis("E"), b.assumed("T", 64));
    b.b.kernel.axes[v.index()].assumed = Some(50_000);
    let table = b.f32("table", &[v, e]);
    let ids = b.b.tensor("ids", DType::I64, &[t]);
    let table = b.unary(ScalarOp::Exp, table);
    let y = b.remap(table, &[(v, IndexExpr::Indirect(ids))], &[], None);
    let y = b.relu(y);
    b.result(y, &[t, e]);
    let kernel = b.build();
    let plan = plan(&kernel);
    assert_eq!(plan.launch_count(), 1, "{}", plan.display(&kernel));
    check_golden(&kernel, "gather");
}

/// A position that was looked up is itself looked up: the operand holds no element of a buffer, but reads a value.
#[test]
fn a_gather_of_positions_computes_where_it_reads() {
    let mut b = Build::new("positions");
    let (v, m, n) = (b.static_vocabulary(), b.axis("M"), b.axis("N"));
    let x = b.f32("x", &[m, n]);
    let ids = b.b.tensor("ids", DType::I64, &[n]);
    let positions = b.b.push(Op::Index(v));
    let at = b.remap(positions, &[(v, IndexExpr::Indirect(ids))], &[], None);
    let at = b.map(ScalarOp::Cast(DType::F32), &[at]);
    let top = b.max(x, &[n]);
    let y = b.sub(x, top);
    let y = b.mul(y, at);
    b.result(y, &[m, n]);
    let kernel = b.build();
    let plan = plan(&kernel);
    assert_eq!(plan.launch_count(), 1, "{}", plan.display(&kernel));
    let positions = |g: &fuse_ir::schedule::ScheduledGroup| {
        g.operands.iter().any(|o| matches!(o, fuse_ir::schedule::Operand::Index(_)) && !o.reads().is_empty())
    };
    assert!(plan.groups().any(positions), "{}", plan.display(&kernel));
}

#[test]
fn cross_entropy_is_one_launch() {
    let mut b = Build::new("cross_entropy");
    let (m, v) = (b.axis("M"), b.static_vocabulary());
    let logits = b.f32("logits", &[m, v]);
    let ids = b.b.tensor("ids", DType::I64, &[m]);
    let top = b.max(logits, &[v]);
    let shifted = b.sub(logits, top);
    let e = b.unary(ScalarOp::Exp, shifted);
    let s = b.sum(e, &[v]);
    let log = b.unary(ScalarOp::Ln, s);
    let y = b.sub(shifted, log);
    let y = b.remap(y, &[(v, IndexExpr::Indirect(ids))], &[], None);
    let y = b.unary(ScalarOp::Neg, y);
    b.result(y, &[m]);
    let kernel = b.build();
    let plan = plan(&kernel);
    assert_eq!(plan.launch_count(), 1, "{}", plan.display(&kernel));
    check_golden(&kernel, "cross_entropy");
}

#[test]
fn a_norm_over_the_parts_of_a_split_axis_stores_merged() {
    let mut b = Build::new("head_norm");
    let (m, h) = (b.axis("M"), b.axis("H"));
    let e = b.axis("E");
    let f = b.b.derived_axis("F", IndexExpr::extent(h).times(IndexExpr::extent(e)));
    // H and E stand in a parameter of their own, so that shapes fix them.
    let scale = b.f32("scale", &[h, e]);
    let x = b.f32("x", &[m, f]);
    let bias = b.f32("bias", &[f]);
    let position = IndexExpr::index(h).times(IndexExpr::extent(e)).plus(IndexExpr::index(e));
    let split = b.remap(x, &[(f, position)], &[], None);
    let y = b.layer_norm(split, e);
    let y = b.mul(y, scale);
    let (high, low) = (
        IndexExpr::index(f).floor_div(IndexExpr::extent(e)),
        IndexExpr::index(f).modulo(IndexExpr::extent(e)),
    );
    let y = b.remap(y, &[(h, high), (e, low)], &[], None);
    let y = b.add(y, bias);
    b.result(y, &[m, f]);
    let kernel = b.build();
    let plan = plan(&kernel);
    assert_eq!(plan.launch_count(), 1, "{}", plan.display(&kernel));
    check_golden(&kernel, "head_norm");
}

#[test]
fn a_running_sum_has_prologue_and_epilogue() {
    let mut b = Build::new("running_sum");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let x = b.f32("x", &[m, n]);
    let y = b.unary(ScalarOp::Exp, x);
    let c = b.cumsum(y, n);
    let total = b.sum(y, &[n]);
    let z = b.div(c, total);
    b.result(z, &[m, n]);
    let plan = check(&b.build(), 1, 4);
    assert_eq!(plan.groups().next().map(|g| g.passes.len()), Some(2));
}
