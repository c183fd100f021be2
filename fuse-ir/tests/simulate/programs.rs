//! Random programs: planned, lowered and run on the simulator, the same bits as the reference and no fault.

use fuse_ir::eval::{Outputs, Precision, evaluate};
use fuse_ir::graph::Op;
use fuse_ir::plan::{PlanOptions, plan_kernel, plan_unfused};
use fuse_ir::program::Program;
use fuse_ir::random::{Case, random_case, shrink};
use fuse_ir::simulate::{
    Layout, ProgramError, ProgramOptions, SimulateOptions, VariantChoice, simulate_program,
};
use fuse_ir::target::Target;

/// What came of a case.
#[derive(Default)]
struct Tried {
    kernels: usize,
    /// Why something was not lowered.
    missing: Vec<String>,
}

/// Runs a program; an error says what is wrong.
fn try_program(
    case: &Case,
    want: &Outputs,
    program: &Program,
    options: &ProgramOptions,
    tried: &mut Tried,
) -> Result<(), String> {
    let report = match simulate_program(program, &case.inputs, options) {
        Err(ProgramError::Lower(why @ fuse_ir::lower::LowerError::Unsupported { .. })) => {
            tried.missing.push(why.to_string());
            return Ok(());
        }
        other => other.map_err(|e| e.to_string())?,
    };
    tried.kernels += report.kernels.len();
    if let Some(fault) = report.faults().next() {
        return Err(fault.to_string());
    }
    if !report.outputs.same_bits(want) {
        return Err(format!("the graph gives {want:?}\nthe kernels {:?}", report.outputs));
    }
    // A plan may compute less than the graph, so it may miss a fault of an element that nobody reads; never more.
    let reads_all = case.kernel.nodes.iter().all(|n| !matches!(n.op, Op::View { .. }));
    match (report.outputs.fault, want.fault) {
        (Some(fault), None) => Err(format!("the kernels fault with {fault:?} and the graph does not")),
        (None, Some(fault)) if reads_all => {
            Err(format!("the graph faults with {fault:?} and the kernels do not"))
        }
        (Some(_) | None, Some(_)) | (None, None) => Ok(()),
    }
}

fn try_case(case: &Case, fused: bool, options: &ProgramOptions, tried: &mut Tried) -> Result<(), String> {
    let Ok(want) = evaluate(&case.kernel, &case.inputs, Precision::Exact) else { return Ok(()) };
    let Some(target) = Target::gpu("sm_80") else { return Err("no target".into()) };
    let plan = match fused {
        true => plan_kernel(&case.kernel, &target, &PlanOptions::default()),
        false => plan_unfused(&case.kernel, &target),
    };
    let Ok(plan) = plan else { return Ok(()) };
    let program = Program { kernel: case.kernel.clone(), plan };
    try_program(case, &want, &program, options, tried)
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

/// Tries cases. At most `missing` programs may be beyond the lowering, and at most `racing` may have a race: a group of
/// one position that works in place, whose threads all read what one of them writes.
fn check(count: u64, fused: bool, missing: usize, racing: usize) {
    let mut tried = Tried::default();
    let mut failures = Vec::new();
    let mut races = Vec::new();
    for seed in seeds(count) {
        if let Err(fault) = try_case(&random_case(seed), fused, &options_of(seed), &mut tried) {
            let list = if fault.contains("nothing orders the two") { &mut races } else { &mut failures };
            list.push((seed, fault.chars().take(200).collect::<String>()));
        }
    }
    if races.len() > racing {
        failures.append(&mut races);
    }
    if let Some((first, _)) = failures.first() {
        let options = options_of(*first);
        let fails = |c: &Case| try_case(c, fused, &options, &mut Tried::default());
        let small = shrink(random_case(*first), |c| fails(c).is_err());
        let fault = fails(&small).expect_err("shrinking keeps the failure");
        let count = failures.len();
        failures.truncate(20);
        panic!("{count} fail: {failures:#?}; the first, shrunk, with {options:?}:\n{small}\n{fault}");
    }
    assert!(tried.kernels > 0);
    let found = tried.missing.len();
    assert!(
        found <= missing,
        "{found} programs are not lowered, {missing} were before: {:#?}",
        tried.missing
    );
}

#[test]
fn random_programs_give_the_same_bits_without_a_fault() {
    check(1000, true, 0, 23);
}

#[test]
fn unfused_programs_give_the_same_bits_without_a_fault() {
    check(200, false, 0, 1);
}
