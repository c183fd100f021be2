//! Plans that differ from one GPU to another, each for a reason that its decisions print.

use super::build::Build;
use super::check::check_numbers;
use fuse_ir::graph::Kernel;
use fuse_ir::plan::{Plan, PlanOptions, plan_kernel};
use fuse_ir::scalar::ScalarOp;
use fuse_ir::schedule::ScheduleKind;
use fuse_ir::target::Target;

/// The plans for an A100 and for an H100, as text in `golden/targets`.
fn check(kernel: &Kernel) -> [Plan; 2] {
    check_numbers(kernel);
    let plans = ["sm_80", "sm_90"].map(|name| {
        let target = Target::gpu(name).expect("a target");
        plan_kernel(kernel, &target, &PlanOptions::default()).expect("a plan")
    });
    let text: String = plans.iter().map(|plan| plan.display(kernel).to_string()).collect();
    let folder = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/targets");
    let path = folder.join(format!("{}.txt", kernel.name));
    if std::env::var_os("FUSE_BLESS").is_some() {
        std::fs::create_dir_all(&folder).expect("a folder for golden files");
        std::fs::write(&path, &text).expect("the golden file is written");
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, golden, "plans of `{}` changed; `cargo xtask bless` rewrites them", kernel.name);
    plans
}

/// Asserts that a decision of each plan says these words.
#[track_caller]
fn assert_says(plans: &[Plan; 2], words: [&str; 2]) {
    for (plan, words) in plans.iter().zip(words) {
        let says = plan.decisions.iter().any(|d| d.reason.contains(words));
        assert!(says, "nothing says `{words}`: {:#?}", plan.decisions);
    }
}

fn kept(plan: &Plan) -> usize {
    let groups = plan.launches.iter().flat_map(|l| &l.parts);
    groups.flat_map(|g| &g.passes).map(|p| p.buffered.len()).sum()
}

/// A row of 50 000 exponentials fits the shared memory of one and not that of the other.
#[test]
fn a_row_that_fits_larger_shared_memory() {
    let mut b = Build::new("long_softmax");
    let (m, n) = (b.assumed("M", 1024), b.assumed("N", 50_000));
    let x = b.f32("x", &[m, n]);
    let y = b.softmax(x, &[n]);
    b.result(y, &[m, n]);
    let plans = check(&b.build());
    assert_eq!(plans.each_ref().map(kept), [0, 1]);
    assert_says(
        &plans,
        [
            "computed again in each sweep: a row takes 195.3 KiB of shared memory, a block has 163.0 KiB",
            "kept in shared memory between sweeps: a row takes 195.3 KiB of 227.0 KiB",
        ],
    );
}

/// Half of 108 multiprocessors draw all of the bandwidth, and 60 rows keep them busy; of 132 they do not.
#[test]
fn few_rows_for_more_multiprocessors() {
    let mut b = Build::new("few_long_rows");
    let (m, n) = (b.assumed("M", 60), b.assumed("N", 4 << 20));
    let x = b.f32("x", &[m, n]);
    let square = b.mul(x, x);
    let y = b.sum(square, &[n]);
    b.result(y, &[m]);
    let plans = check(&b.build());
    let kind = |plan: &Plan| plan.launches[0].parts[0].kind;
    assert_eq!(plans.each_ref().map(kind), [ScheduleKind::Row, ScheduleKind::Split]);
    assert_says(
        &plans,
        [
            "in one piece: 60 rows keep 108 multiprocessors busy",
            "cut into chunks of 4096: 60 rows do not keep 132 multiprocessors busy",
        ],
    );
}

/// Where there is more arithmetic for each byte, a value is computed again rather than stored.
#[test]
fn arithmetic_that_is_cheaper_than_memory() {
    let mut b = Build::new("shared_value");
    let (m, n, p) = (b.assumed("M", 4096), b.assumed("N", 1024), b.assumed("P", 8));
    let (x, y) = (b.f32("x", &[m, n]), b.f32("y", &[m, n, p]));
    let mut e = x;
    for op in [ScalarOp::Exp, ScalarOp::Tanh, ScalarOp::Exp] {
        e = b.unary(op, e);
    }
    let product = b.mul(y, e);
    let one = b.number(1.0);
    let more = b.add(e, one);
    b.result(product, &[m, n, p]);
    b.result(more, &[m, n]);
    let plans = check(&b.build());
    assert_eq!(plans.each_ref().map(|plan| plan.temps.len()), [1, 0]);
    assert_says(&plans, ["for each reader takes", "computed again in 2 loops: cheaper than"]);
}
