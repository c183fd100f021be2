//! What does not fuse, and what the plan says about it.

use super::build::Build;
use super::check::{check, check_golden, check_numbers, find_refused, is_taken, plan, plan_large};
use fuse_ir::graph::{Kernel, Op};
use fuse_ir::id::NodeId;
use fuse_ir::index_map::IndexExpr;
use fuse_ir::plan::{PlanError, PlanOptions, Refusal, Rule, plan_kernel};
use fuse_ir::scalar::ScalarOp;
use fuse_ir::schedule::{BufferRef, ScheduleKind};
use fuse_ir::target::Target;

#[test]
fn materialize_cuts() {
    let mut b = Build::new("cut");
    let n = b.axis("N");
    let x = b.f32("x", &[n]);
    let y = b.unary(ScalarOp::Exp, x);
    let y = b.b.push(Op::Materialize { source: y });
    let y = b.relu(y);
    b.result(y, &[n]);
    let kernel = b.build();
    let plan = plan(&kernel);
    assert_eq!(plan.launch_count(), 2, "{}", plan.display(&kernel));
    let refused = find_refused(&plan, Refusal::Materialized).expect("a refused merge");
    assert_eq!(refused.remedy.as_deref(), Some("drop `materialize()`"));
}

#[test]
fn two_hundred_scalings_split_at_the_limit_of_parameters() {
    let mut b = Build::new("many");
    let n = b.axis("N");
    for k in 0..200 {
        let x = b.f32(&format!("x{k}"), &[n]);
        let two = b.number(2.0);
        let y = b.mul(two, x);
        b.result(y, &[n]);
    }
    let kernel = b.build();
    let plan = plan_large(&kernel);
    assert_eq!(plan.launch_count(), 5);
    let refused = find_refused(&plan, Refusal::Parameters).expect("a refused merge");
    assert!(refused.reason.contains("96 fit a launch"), "{}", refused.reason);
}

/// 64 values that all stay alive until a second round reads them again, about 300 operations.
fn many_live_values() -> Kernel {
    let mut b = Build::new("live");
    let n = b.axis("N");
    let x = b.f32("x", &[n]);
    let mut values: Vec<NodeId> = Vec::new();
    let mut last = x;
    for _ in 0..64 {
        last = b.unary(ScalarOp::Sin, last);
        values.push(last);
    }
    let mut sum = values[0];
    for v in &values[1..] {
        sum = b.add(sum, *v);
    }
    let mut product = sum;
    for v in values.iter().rev() {
        product = b.mul(product, *v);
        let shifted = b.add(product, *v);
        product = shifted;
    }
    b.result(product, &[n]);
    b.build()
}

#[test]
fn a_chain_with_64_live_values_splits_at_the_registers() {
    let kernel = many_live_values();
    let plan = plan_large(&kernel);
    assert!(plan.launch_count() > 1, "{}", plan.display(&kernel));
    let refused = find_refused(&plan, Refusal::Registers).expect("a refused merge");
    assert!(refused.reason.contains("live at once"), "{}", refused.reason);
}

#[test]
fn long_chains_split_at_the_code_size() {
    for length in [250, 1000] {
        let mut b = Build::new("long");
        let n = b.axis("N");
        let x = b.f32("x", &[n]);
        let mut y = x;
        for k in 0..length {
            // A constant of its own in each operation: constants are values of the body, but no code.
            let c = b.number(k as f32 + 0.5);
            y = if k % 2 == 0 { b.mul(y, c) } else { b.add(y, c) };
        }
        b.result(y, &[n]);
        let plan = plan_large(&b.build());
        assert!(plan.launch_count() > length / 256 && plan.launch_count() <= 2 + length / 128);
    }
}

#[test]
fn a_chain_in_place_reuses_its_memory() {
    let mut b = Build::new("in_place");
    let n = b.axis("N");
    let (p, x) = b.f32_mut("x", &[n]);
    let two = b.number(2.0);
    let y = b.mul(x, two);
    let one = b.number(1.0);
    let y = b.add(y, one);
    b.b.store(p, y);
    let kernel = b.build();
    let plan = plan(&kernel);
    assert_eq!(plan.launch_count(), 1);
    assert_eq!(plan.in_place.len(), 1);
    assert_eq!(plan.in_place[0].1, BufferRef::Param(p));
    assert!(plan.temps.is_empty() && is_taken(&plan, Rule::InPlace), "{}", plan.display(&kernel));
}

#[test]
fn reversing_in_place_copies() {
    let mut b = Build::new("reverse");
    let n = b.axis("N");
    let (p, x) = b.f32_mut("x", &[n]);
    let back = IndexExpr::extent(n).minus(1).minus(IndexExpr::index(n));
    let y = b.remap(x, &[(n, back)], &[], None);
    b.b.store(p, y);
    let kernel = b.build();
    let plan = plan(&kernel);
    assert_eq!(plan.launch_count(), 2, "{}", plan.display(&kernel));
    let refused = find_refused(&plan, Refusal::InPlaceHazard).expect("a recorded hazard");
    assert_eq!(refused.rule, Rule::InPlace);
    check_golden(&kernel, "reverse_in_place");
}

#[test]
fn two_parameters_are_swapped() {
    let mut b = Build::new("swap");
    let n = b.axis("N");
    let (p, x) = b.f32_mut("x", &[n]);
    let (q, y) = b.f32_mut("y", &[n]);
    b.b.store(p, y);
    b.b.store(q, x);
    let kernel = b.build();
    let plan = plan(&kernel);
    assert_eq!(plan.launch_count(), 1, "{}", plan.display(&kernel));
}

#[test]
fn two_parameters_are_swapped_in_reverse() {
    let mut b = Build::new("swap_in_reverse");
    let n = b.axis("N");
    let (p, x) = b.f32_mut("x", &[n]);
    let (q, y) = b.f32_mut("y", &[n]);
    let back = IndexExpr::extent(n).minus(1).minus(IndexExpr::index(n));
    let x = b.remap(x, &[(n, back.clone())], &[], None);
    let y = b.remap(y, &[(n, back)], &[], None);
    b.b.store(p, y);
    b.b.store(q, x);
    let kernel = b.build();
    let plan = plan(&kernel);
    assert!(find_refused(&plan, Refusal::InPlaceHazard).is_some(), "{}", plan.display(&kernel));
}

#[test]
fn another_reader_of_the_old_value_runs_first() {
    let mut b = Build::new("two_readers");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let (p, x) = b.f32_mut("x", &[n]);
    let t = b.f32("t", &[m, n]);
    let y = b.relu(x);
    b.b.store(p, y);
    let z = b.add(t, x);
    let total = b.sum(z, &[n]);
    b.result(total, &[m]);
    // The result stands first among the outputs.
    b.b.kernel.outputs.reverse();
    if let fuse_ir::graph::OutputTarget::Result { index, .. } = &mut b.b.kernel.outputs[0].target {
        *index = 0;
    }
    check_numbers(&b.build());
}

#[test]
fn a_copy_over_a_region_waits_for_what_reads_the_old_value() {
    let mut b = Build::new("cache");
    let (l, s) = (b.b.static_axis("L", 5), b.b.static_axis("S", 2));
    let (p, cache) = b.f32_mut("cache", &[l]);
    let k = b.f32("k", &[s]);
    let k = b.unary(ScalarOp::Exp, k);
    // What `cache.slice(L, 1, S) = k` makes of a later read of `cache`.
    let index = b.b.push(Op::Index(l));
    let (one, three) = (b.integer(1), b.integer(3));
    let low = b.map(ScalarOp::Ge, &[index, one]);
    let high = b.map(ScalarOp::Lt, &[index, three]);
    let inside = b.map(ScalarOp::And, &[low, high]);
    let at = IndexExpr::index(l).minus(1);
    let bound = fuse_ir::index_map::Bound { expr: at.clone(), extent: IndexExpr::extent(s) };
    let new = b.remap(k, &[(s, at)], &[bound], Some(fuse_ir::dtype::Value::F32(0.0)));
    let now = b.map(ScalarOp::Select, &[inside, new, cache]);
    let total = b.sum(now, &[l]);
    b.result(total, &[]);
    b.b.store_at(p, k, vec![IndexExpr::index(s).plus(1)]);
    let kernel = b.build();
    check_numbers(&kernel);
}

#[test]
fn a_dear_producer_of_many_rows_is_stored() {
    let mut b = Build::new("broadcast");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let (x, w) = (b.f32("x", &[m, n]), b.f32("w", &[n]));
    let (mut w, x) = (w, x);
    for _ in 0..8 {
        w = b.unary(ScalarOp::Atan, w);
    }
    let y = b.add(x, w);
    b.result(y, &[m, n]);
    let kernel = b.build();
    let plan = check(&kernel, 2, 9);
    let refused = find_refused(&plan, Refusal::Recomputation).expect("a refused merge");
    assert!(refused.reason.contains("slower"), "{}", refused.reason);
}

#[test]
fn a_cheap_producer_is_computed_by_each_of_its_readers() {
    let mut b = Build::new("recompute");
    let (m, n, k) = (b.axis("M"), b.axis("N"), b.axis("K"));
    let (x, y, z) = (b.f32("x", &[n]), b.f32("y", &[m, n]), b.f32("z", &[k, n]));
    let two = b.number(2.0);
    let w = b.mul(x, two);
    let (s, t) = (b.add(y, w), b.add(z, w));
    b.result(s, &[m, n]);
    b.result(t, &[k, n]);
    let kernel = b.build();
    let plan = plan(&kernel);
    assert!(plan.temps.is_empty(), "{}", plan.display(&kernel));
    assert!(is_taken(&plan, Rule::Recomputation));
}

#[test]
fn merging_around_a_third_launch_is_a_cycle() {
    let mut b = Build::new("cycle");
    let (m, n) = (b.assumed("M", 4096), b.assumed("N", 4096));
    let x = b.f32("x", &[m, n]);
    let y = b.unary(ScalarOp::Exp, x);
    let all = b.sum(y, &[m, n]);
    let z = b.div(y, all);
    b.result(y, &[m, n]);
    b.result(z, &[m, n]);
    let kernel = b.build();
    let plan = plan(&kernel);
    assert!(plan.launch_count() >= 3, "{}", plan.display(&kernel));
}

#[test]
fn a_contract_is_kept_by_a_slower_plan() {
    let mut b = Build::new("kept");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let x = b.f32("x", &[m, n]);
    let mean = b.mean(x, &[m, n]);
    let y = b.sub(x, mean);
    b.result(y, &[m, n]);
    let mut kernel = b.build();
    kernel.launches = Some(1);
    let plan = plan(&kernel);
    assert_eq!(plan.launch_count(), 1);
    assert_eq!(plan.groups().next().map(|g| g.kind), Some(ScheduleKind::Row));
    let cost = plan.decisions.iter().find(|d| d.reason.contains("`launches = 1` is kept")).expect("its cost");
    assert!(cost.seconds.0 > cost.seconds.1);
}

#[test]
fn a_contract_that_cannot_be_kept_names_what_stands_between() {
    let mut b = Build::new("broken");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let x = b.f32("x", &[m, n]);
    let rows = b.sum(x, &[n]);
    let e = b.unary(ScalarOp::Exp, rows);
    let all = b.sum(e, &[m]);
    b.result(all, &[]);
    let mut kernel = b.build();
    kernel.launches = Some(1);
    let error = plan_kernel(&kernel, &Target::cpu(), &PlanOptions::default()).expect_err("no plan");
    let PlanError::Contract { wanted, needed, blocking } = error else { panic!("{error}") };
    assert_eq!((wanted, needed), (1, 2));
    assert!(blocking.iter().any(|d| d.refusal == Some(Refusal::IncompleteReduction)), "{blocking:?}");
}
