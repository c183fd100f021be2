//! Random kernels through the lowering: the same bits as the graph.

use super::call::{How, call};
use fuse_ir::eval::{Outputs, Precision, evaluate};
use fuse_ir::graph::Op;
use fuse_ir::plan::{PlanOptions, plan_kernel, plan_unfused};
use fuse_ir::program::Program;
use fuse_ir::random::{Case, random_case, shrink};
use fuse_ir::target::Target;

fn find_fault(case: &Case, want: &Outputs, program: &Program, how: How) -> Result<(), String> {
    let run = std::panic::AssertUnwindSafe(|| call(program, &case.inputs, how));
    let got = std::panic::catch_unwind(run)
        .map_err(|e| e.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic".into()))??;
    if !got.outputs.same_bits(want) {
        return Err(format!("the graph gives {want:?}\nthe kernels {:?}", got.outputs));
    }
    let reads_all = case.kernel.nodes.iter().all(|n| !matches!(n.op, Op::View { .. }));
    match (got.faults.first(), want.fault) {
        (Some(fault), None) => Err(format!("the kernels fault with {fault:?} and the graph does not")),
        (None, Some(fault)) if reads_all => {
            Err(format!("the graph faults with {fault:?}, the kernels do not"))
        }
        _ => Ok(()),
    }
}

fn find_fault_of_case(case: &Case, how: How) -> Result<(), String> {
    let Ok(want) = evaluate(&case.kernel, &case.inputs, Precision::Exact) else { return Ok(()) };
    let target = Target::gpu("sm_80").unwrap();
    for fused in [true, false] {
        let plan = match fused {
            true => plan_kernel(&case.kernel, &target, &PlanOptions::default()),
            false => plan_unfused(&case.kernel, &target),
        };
        let Ok(plan) = plan else { continue };
        let program = Program { kernel: case.kernel.clone(), plan };
        find_fault(case, &want, &program, how).map_err(|e| format!("fused {fused}: {e}"))?;
    }
    Ok(())
}

/// The seeds to try: `FUSE_SEEDS=4000..5000` tries others.
fn seeds() -> std::ops::Range<u64> {
    let given = std::env::var("FUSE_SEEDS").ok().and_then(|s| {
        let (start, end) = s.split_once("..")?;
        Some(start.parse().ok()?..end.parse().ok()?)
    });
    given.unwrap_or(0..100)
}

fn check(how: How) {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let mut failures = Vec::new();
    for seed in seeds() {
        if let Err(fault) = find_fault_of_case(&random_case(seed), how) {
            failures.push((seed, fault.chars().take(160).collect::<String>()));
        }
    }
    let shrunk = failures.first().map(|(first, _)| {
        let small = shrink(random_case(*first), |c| find_fault_of_case(c, how).is_err());
        let fault = find_fault_of_case(&small, how).expect_err("shrinking keeps the failure");
        format!("{small}\n{fault}")
    });
    std::panic::set_hook(hook);
    if let Some(shrunk) = shrunk {
        let count = failures.len();
        failures.truncate(20);
        panic!("{count} fail: {failures:#?}; the first, shrunk:\n{shrunk}");
    }
}

#[test]
fn random_kernels_give_the_same_bits() {
    check(How { wide: false, last: false, spread: 1 });
}

#[test]
fn the_variant_that_fits_every_call_gives_the_same_bits() {
    check(How { wide: true, last: true, spread: 1 });
}

#[test]
fn strided_arguments_give_the_same_bits() {
    check(How { wide: false, last: false, spread: 3 });
}
