//! Random programs: planned, lowered and run on the simulator, the same bits as the reference and no fault.

use fuse_ir::eval::{Outputs, Precision, evaluate};
use fuse_ir::graph::Op;
use fuse_ir::plan::{PlanOptions, plan_kernel, plan_unfused};
use fuse_ir::program::Program;
use fuse_ir::random::{Case, random_case, shrink};
use fuse_ir::schedule::{BodyOp, BodyValue, ScheduleKind, ScheduledGroup};
use fuse_ir::simulate::{Layout, ProgramOptions, SimulateOptions, VariantChoice, simulate_program};
use fuse_ir::target::Target;

/// Whether sums of products are added in the order of a tile, so that their last bits are not the reference's. Their numbers
/// are held against the bound where nothing hides them: by the tests of lowering, and by verification on every device.
fn contracts_floats(program: &Program) -> bool {
    let groups = program.plan.launches.iter().flat_map(|l| &l.parts).flat_map(ScheduledGroup::loops);
    let dots = |g: &ScheduledGroup| {
        let is_dot = |v: &BodyValue| matches!(v.op, BodyOp::Reduce { .. }) && v.dtype.is_float();
        g.kind == ScheduleKind::Contraction && g.values.iter().any(is_dot)
    };
    groups.into_iter().any(dots)
}

/// Runs a program and says how many kernels ran, or what is wrong.
fn try_program(
    case: &Case,
    want: &Outputs,
    program: &Program,
    options: &ProgramOptions,
) -> Result<usize, String> {
    let report = simulate_program(program, &case.inputs, options).map_err(|e| e.to_string())?;
    if let Some(fault) = report.faults().next() {
        return Err(fault.to_string());
    }
    if !contracts_floats(program) && !report.outputs.same_bits(want) {
        return Err(format!("the graph gives {want:?}\nthe kernels {:?}", report.outputs));
    }
    // A plan may compute less than the graph, so it may miss a fault of an element that nobody reads; never more.
    let reads_all = case.kernel.nodes.iter().all(|n| !matches!(n.op, Op::View { .. }));
    match (report.outputs.fault, want.fault) {
        (Some(fault), None) => Err(format!("the kernels fault with {fault:?} and the graph does not")),
        (None, Some(fault)) if reads_all => {
            Err(format!("the graph faults with {fault:?} and the kernels do not"))
        }
        (Some(_) | None, Some(_)) | (None, None) => Ok(report.kernels.len()),
    }
}

fn try_case(case: &Case, fused: bool, options: &ProgramOptions) -> Result<usize, String> {
    let Ok(want) = evaluate(&case.kernel, &case.inputs, Precision::Exact) else { return Ok(0) };
    let Some(target) = Target::gpu("sm_80") else { return Err("no target".into()) };
    let plan = match fused {
        true => plan_kernel(&case.kernel, &target, &PlanOptions::default()),
        false => plan_unfused(&case.kernel, &target),
    };
    let Ok(plan) = plan else { return Ok(0) };
    let program = Program { kernel: case.kernel.clone(), plan };
    try_program(case, &want, &program, options)
}

/// How the case of a seed is run: every way comes up.
fn options_of(seed: u64) -> ProgramOptions {
    let layouts =
        [Layout::Contiguous, Layout::Contiguous, Layout::Spread(3), Layout::Transposed, Layout::Backwards];
    ProgramOptions {
        layout: layouts[(seed % 5) as usize],
        shift: (seed / 5 % 2) as usize,
        variant: if seed / 10 % 3 == 2 { VariantChoice::Last } else { VariantChoice::First },
        wide: seed / 30 % 4 == 3,
        simulate: SimulateOptions { max_instructions: 1 << 26 },
        ..ProgramOptions::default()
    }
}

/// The seeds to try: `FUSE_SEEDS=4000..5000` tries others.
fn seeds(count: u64) -> std::ops::Range<u64> {
    let given = std::env::var("FUSE_SEEDS").ok().and_then(|s| {
        let (start, end) = s.split_once("..")?;
        Some(start.parse().ok()?..end.parse().ok()?)
    });
    given.unwrap_or(0..count)
}

/// Tries cases, each run as `options_of` its seed says.
fn check(count: u64, fused: bool, options_of: fn(u64) -> ProgramOptions) {
    let mut kernels = 0;
    let mut failures = Vec::new();
    for seed in seeds(count) {
        match try_case(&random_case(seed), fused, &options_of(seed)) {
            Ok(ran) => kernels += ran,
            Err(fault) => failures.push((seed, fault.chars().take(200).collect::<String>())),
        }
    }
    if let Some((first, _)) = failures.first() {
        let options = options_of(*first);
        let fails = |c: &Case| try_case(c, fused, &options);
        let small = shrink(random_case(*first), |c| fails(c).is_err());
        let fault = fails(&small).expect_err("shrinking keeps the failure");
        let count = failures.len();
        failures.truncate(20);
        panic!("{count} fail: {failures:#?}; the first, shrunk, with {options:?}:\n{small}\n{fault}");
    }
    assert!(kernels > 0);
}

#[test]
fn random_programs_give_the_same_bits_without_a_fault() {
    check(1000, true, options_of);
}

#[test]
fn unfused_programs_give_the_same_bits_without_a_fault() {
    check(200, false, options_of);
}

#[test]
fn the_variant_that_fits_every_call_gives_the_same_bits() {
    check(100, true, |_| ProgramOptions {
        wide: true,
        variant: VariantChoice::Last,
        ..ProgramOptions::default()
    });
}

#[test]
fn strided_arguments_give_the_same_bits() {
    check(100, true, |_| ProgramOptions { layout: Layout::Spread(3), ..ProgramOptions::default() });
}
