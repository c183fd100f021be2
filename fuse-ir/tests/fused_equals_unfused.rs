//! Random kernels: the graph, its plan and its unfused plan give the same bits.

use fuse_ir::eval::{Outputs, Precision, evaluate};
use fuse_ir::graph::{Op, simplify_graph};
use fuse_ir::interpret::interpret;
use fuse_ir::plan::{Plan, PlanError, PlanOptions, plan_kernel, plan_unfused};
use fuse_ir::program::{Program, verify_plan};
use fuse_ir::random::{Case, random_case, shrink};
use fuse_ir::target::Target;

/// What is wrong with a plan of the case, if anything.
fn find_fault(case: &Case, want: &Outputs, plan: Result<Plan, PlanError>) -> Result<(), String> {
    let program = Program { kernel: case.kernel.clone(), plan: plan.map_err(|e| e.to_string())? };
    verify_plan(&program)?;
    // What runs is what travelled as bytes.
    let bytes = program.to_bytes().map_err(|e| e.to_string())?;
    let program = Program::from_bytes(&bytes).map_err(|e| e.to_string())?;
    let got = interpret(&program, &case.inputs).map_err(|e| e.to_string())?;
    if !got.same_bits(want) {
        return Err(format!("the graph gives {want:?}\nthe plan {got:?}"));
    }
    // A plan may compute less than the graph, so it may miss a fault of an element that nobody reads; never more.
    let reads_all = case.kernel.nodes.iter().all(|n| !matches!(n.op, Op::View { .. }));
    match (got.fault, want.fault) {
        (Some(fault), None) => Err(format!("the plan faults with {fault:?} and the graph does not")),
        (None, Some(fault)) if reads_all => {
            Err(format!("the graph faults with {fault:?} and the plan does not"))
        }
        (Some(_) | None, Some(_)) | (None, None) => Ok(()),
    }
}

/// What is wrong with the plans of the case: of its graph, of its graph simplified, and with every operation on its own.
fn find_fault_of_case(case: &Case) -> Result<(), String> {
    let Ok(want) = evaluate(&case.kernel, &case.inputs, Precision::Exact) else { return Ok(()) };
    let (target, options) = (Target::cpu(), PlanOptions::default());
    let fused = plan_kernel(&case.kernel, &target, &options);
    find_fault(case, &want, fused).map_err(|e| format!("fused: {e}"))?;
    let simple = Case { kernel: simplify_graph(case.kernel.clone()), ..case.clone() };
    let fused = plan_kernel(&simple.kernel, &target, &options);
    find_fault(&simple, &want, fused).map_err(|e| format!("simplified: {e}\n{}", simple.kernel))?;
    find_fault(case, &want, plan_unfused(&case.kernel, &target)).map_err(|e| format!("unfused: {e}"))
}

/// The seeds to try: `FUSE_SEEDS=4000..5000` tries others.
fn seeds() -> std::ops::Range<u64> {
    let given = std::env::var("FUSE_SEEDS").ok().and_then(|s| {
        let (start, end) = s.split_once("..")?;
        Some(start.parse().ok()?..end.parse().ok()?)
    });
    given.unwrap_or(0..1000)
}

#[test]
fn fused_equals_unfused() {
    let mut failures = Vec::new();
    for seed in seeds() {
        if let Err(fault) = find_fault_of_case(&random_case(seed)) {
            failures.push((seed, fault.chars().take(120).collect::<String>()));
        }
    }
    if let Some((first, _)) = failures.first() {
        let small = shrink(random_case(*first), |c| find_fault_of_case(c).is_err());
        let fault = find_fault_of_case(&small).expect_err("shrinking keeps the failure");
        panic!("{failures:#?} fail; the first, shrunk:\n{small}\n{fault}");
    }
}
