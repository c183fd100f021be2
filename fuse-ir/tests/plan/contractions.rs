//! Contractions: what is one follows from the index maps, and what shares a launch with it.

use super::build::Build;
use super::check::{check, find_refused, is_taken, plan};
use fuse_ir::graph::Kernel;
use fuse_ir::id::AxisId;
use fuse_ir::index_map::{Bound, IndexExpr};
use fuse_ir::plan::{Plan, Refusal, Rule};
use fuse_ir::schedule::ScheduleKind;
use fuse_ir::schedule::contraction::{Sides, contraction_of, cut_contraction, cut_contraction_by_rows};

fn names(kernel: &Kernel, axes: &[AxisId]) -> Vec<String> {
    axes.iter().map(|a| kernel.axis(*a).name.clone()).collect()
}

/// Checks rows, columns and batch of the first group.
#[track_caller]
fn check_sides(kernel: &Kernel, plan: &Plan, rows: &[&str], columns: &[&str], batch: &[&str]) {
    let group = &plan.launches[0].parts[0];
    assert_eq!(group.kind, ScheduleKind::Contraction);
    let (Sides { batch: b, rows: r, columns: c }, _) = contraction_of(group).expect("a contraction");
    assert_eq!(
        (names(kernel, &r), names(kernel, &c), names(kernel, &b)),
        (
            rows.iter().map(|s| s.to_string()).collect(),
            columns.iter().map(|s| s.to_string()).collect(),
            batch.iter().map(|s| s.to_string()).collect()
        )
    );
}

#[test]
fn sides_follow_from_the_maps() {
    let mut b = Build::new("batched");
    let (g, m, k, n) = (b.axis("G"), b.axis("M"), b.axis("K"), b.axis("N"));
    let (x, w) = (b.f32("x", &[g, m, k]), b.f32("w", &[g, k, n]));
    let y = b.dot(x, w, &[k]);
    let y = b.relu(y);
    b.result(y, &[g, m, n]);
    let kernel = b.build();
    let plan = check(&kernel, 1, 2);
    check_sides(&kernel, &plan, &["M"], &["N"], &["G"]);
    assert!(is_taken(&plan, Rule::ContractionEpilogue));
}

#[test]
fn columns_lie_along_the_result() {
    let mut b = Build::new("transposed");
    let (m, k, n) = (b.axis("M"), b.axis("K"), b.axis("N"));
    let (x, w) = (b.f32("x", &[m, k]), b.f32("w", &[k, n]));
    let y = b.dot(x, w, &[k]);
    b.result(y, &[n, m]);
    let kernel = b.build();
    check_sides(&kernel, &plan(&kernel), &["N"], &["M"], &[]);
}

#[test]
fn a_window_makes_a_product_a_convolution() {
    let mut b = Build::new("convolution");
    let (c, l, k, r) = (b.axis("C"), b.axis("L"), b.axis("K"), b.axis("R"));
    let p = b.axis("P");
    let (x, w, bias) = (b.f32("x", &[c, l]), b.f32("w", &[k, c, r]), b.f32("b", &[k, p]));
    let at = IndexExpr::index(p).plus(IndexExpr::index(r)).minus(1);
    let bound = Bound { expr: at.clone(), extent: IndexExpr::extent(l) };
    let zero = fuse_ir::dtype::Value::F32(0.0);
    let windows = b.remap(x, &[(l, at)], &[bound], Some(zero));
    let y = b.dot(windows, w, &[c, r]);
    let y = b.add(y, bias);
    b.result(y, &[k, p]);
    let kernel = b.build();
    let plan = check(&kernel, 1, 2);
    check_sides(&kernel, &plan, &["K"], &["P"], &[]);
    // Nothing is computed for a source that is only loaded, window or not.
    let parts = cut_contraction(&plan.launches[0].parts[0]).expect("a contraction");
    assert_eq!(parts.panels.len(), 2);
    assert!(parts.panels.iter().all(|p| p.group.passes[0].buffered.is_empty()));
}

#[test]
fn a_prologue_is_computed_in_its_panel() {
    let mut b = Build::new("prologue");
    let (m, k, n) = (b.assumed("M", 512), b.assumed("K", 512), b.assumed("N", 512));
    let (x, s, w) = (b.f32("x", &[m, k]), b.f32("s", &[m]), b.f32("w", &[k, n]));
    let scaled = b.mul(x, s);
    let y = b.dot(scaled, w, &[k]);
    b.result(y, &[m, n]);
    let plan = check(&b.build(), 1, 2);
    assert!(is_taken(&plan, Rule::ContractionPrologue));
    let parts = cut_contraction(&plan.launches[0].parts[0]).expect("a contraction");
    let computed: Vec<bool> = parts.panels.iter().map(|p| !p.group.passes[0].buffered.is_empty()).collect();
    assert_eq!(computed, [true, false]);
}

#[test]
fn what_depends_on_rows_alone_is_computed_once_a_row() {
    let mut b = Build::new("normalised");
    let (g, m, k, n) = (b.assumed("G", 4), b.assumed("M", 64), b.assumed("K", 512), b.assumed("N", 64));
    let (x, w) = (b.f32("x", &[g, m, k]), b.f32("w", &[g, k, n]));
    let (of_row, of_column) = (b.f32("v", &[g, m]), b.f32("u", &[n]));
    let y = b.dot(x, w, &[k]);
    let row = b.mul(of_row, of_row);
    let y = b.mul(y, row);
    let y = b.mul(y, of_column);
    b.result(y, &[g, m, n]);
    let plan = check(&b.build(), 1, 4);
    let group = &plan.launches[0].parts[0];
    let plain = cut_contraction(group).expect("a contraction").epilogue;
    let by_rows = cut_contraction_by_rows(group).expect("a contraction").epilogue;
    assert!(plain.prologue.is_empty());
    assert_eq!(by_rows.prologue.len(), 1);
    assert_eq!(by_rows.passes[0].values.len() + 1, plain.passes[0].values.len());
    assert_eq!(by_rows.passes[0].stores, plain.passes[0].stores);
}

#[test]
fn a_product_with_a_vector_is_a_sum() {
    let mut b = Build::new("vector");
    let (m, k) = (b.axis("M"), b.axis("K"));
    let (x, v) = (b.f32("x", &[m, k]), b.f32("v", &[k]));
    let y = b.dot(x, v, &[k]);
    b.result(y, &[m]);
    let plan = check(&b.build(), 1, 1);
    assert_eq!(plan.launches[0].parts[0].kind, ScheduleKind::Row);
}

#[test]
fn a_row_reduction_does_not_share_the_loop_of_a_product() {
    let mut b = Build::new("softmax_of_product");
    let (m, k, n) = (b.axis("M"), b.axis("K"), b.axis("N"));
    let (x, w) = (b.f32("x", &[m, k]), b.f32("w", &[k, n]));
    let y = b.dot(x, w, &[k]);
    let y = b.sum(y, &[n]);
    b.result(y, &[m]);
    let plan = check(&b.build(), 2, 2);
    let refused = find_refused(&plan, Refusal::IncompleteReduction).expect("a refusal");
    assert_eq!(refused.rule, Rule::ContractionEpilogue);
}

#[test]
fn a_product_is_not_computed_twice() {
    // Read over a further axis: each of its positions would have the products again.
    let mut b = Build::new("spread");
    let (m, k, n, p) = (b.axis("M"), b.axis("K"), b.axis("N"), b.axis("P"));
    let (x, w, z) = (b.f32("x", &[m, k]), b.f32("w", &[k, n]), b.f32("z", &[m, n, p]));
    let y = b.dot(x, w, &[k]);
    let y = b.add(y, z);
    b.result(y, &[m, n, p]);
    check(&b.build(), 2, 2);
}
