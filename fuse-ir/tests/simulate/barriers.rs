//! Each barrier of the kernels written by hand deleted in turn: a race is reported, or the barrier is not needed.

use super::kernels::{launch_attention, launch_row_sum, launch_transpose};
use super::run::Launch;
use fuse_ir::eval::{Input, Precision, evaluate};
use fuse_ir::kernel_ir::{Block, Kernel, Stmt, examples, verify_kernel};
use fuse_ir::plan::{PlanOptions, plan_kernel};
use fuse_ir::program::Program;
use fuse_ir::random::random_case;
use fuse_ir::simulate::{FaultKind, ProgramOptions, ProgramReport, simulate_program_with};
use fuse_ir::target::Target;

/// The kernel without its barrier, or wait, of that number; `None` if there are fewer.
pub(super) fn without(kernel: &Kernel, number: usize) -> Option<Kernel> {
    without_one(kernel, number, |stmt| matches!(stmt, Stmt::Barrier(_) | Stmt::WaitAsync { .. }))
}

/// The kernel without that one of the statements that are meant; `None` if there are fewer.
fn without_one(kernel: &Kernel, number: usize, is_meant: fn(&Stmt) -> bool) -> Option<Kernel> {
    fn remove(block: &mut Block, number: &mut usize, is_meant: fn(&Stmt) -> bool) -> bool {
        for at in 0..block.len() {
            let meant = is_meant(&block[at]);
            if meant && *number == 0 {
                block.remove(at);
                return true;
            }
            *number -= usize::from(meant);
            let found = match &mut block[at] {
                Stmt::If { then, otherwise, .. } => {
                    remove(then, number, is_meant) || remove(otherwise, number, is_meant)
                }
                Stmt::For { body, .. } => remove(body, number, is_meant),
                _ => false,
            };
            if found {
                return true;
            }
        }
        false
    }
    let mut shorter = kernel.clone();
    let mut number = number;
    remove(&mut shorter.body, &mut number, is_meant).then_some(shorter)
}

/// Deletes each in turn; for each whether that is reported. As addresses and branches of these kernels depend on no
/// data, a silent run proves that for its arguments no order of lanes gives another result.
fn delete_each(kernel: &Kernel, launch: impl Fn() -> Launch) -> Vec<bool> {
    let mut found = Vec::new();
    while let Some(shorter) = without(kernel, found.len()) {
        verify_kernel(&shorter).unwrap();
        let report = launch().run(&shorter);
        let expected = |k: &FaultKind| {
            matches!(k, FaultKind::Race { .. } | FaultKind::InFlight { .. } | FaultKind::Unfinished)
        };
        assert!(report.faults.iter().all(|f| expected(&f.kind)), "{:?}", report.faults);
        found.push(!report.faults.is_empty());
    }
    found
}

#[test]
fn barriers_of_row_sum() {
    let kernel = examples::row_sum().unwrap();
    let found = |cols| delete_each(&kernel, || launch_row_sum(1, cols).0);
    assert_eq!(found(5 * 4096), [true, true]);
    assert_eq!(found(2 * 4096), [true, false], "one level, whose result the thread that made it reads");
    assert_eq!(found(4096), [false, false], "one chunk: thread 0 made the sum");
}

#[test]
fn barriers_of_transpose() {
    let kernel = examples::transpose().unwrap();
    assert_eq!(delete_each(&kernel, || launch_transpose(40, 70).0), [true]);
    assert_eq!(delete_each(&kernel, || launch_transpose(1, 1).0), [false]);
}

#[test]
fn barriers_and_waits_of_attention() {
    let kernel = examples::attention().unwrap();
    // Wait and barrier for the queries, wait and barrier for a stage, barrier after its use, the last wait.
    let found = |t| delete_each(&kernel, || launch_attention(1, 64, t).0);
    assert_eq!(found(200), [true, true, true, true, true, false]);
}

/// Positions of the shortest axis of kernels whose barriers are deleted: more than a run of one thread.
const SHORTEST: usize = 12;

/// Each barrier of random kernels deleted in turn, until fifty kernels have some and a hundred were deleted: a fault is
/// reported, or the run is silent and gives the same bits, which proves the barrier redundant for this call: without a race
/// every order of the lanes is like this one. At least 95 % are reported. Barriers that a call does not come by are none of
/// its own: with a row that fits a chunk, say, those between chunks. Axes are long enough that several threads share a row.
#[test]
fn barriers_of_random_kernels() {
    let target = Target::gpu("sm_80").unwrap();
    let (mut kernels, mut reported, mut redundant) = (0, 0, Vec::new());
    for seed in 0..4000 {
        if kernels >= 50 && reported >= 100 {
            break;
        }
        let case = random_case(seed);
        let shapes = case.inputs.0.iter().filter_map(|input| match input {
            Input::Tensor(array) => Some(&array.shape),
            Input::Scalar(_) | Input::Axis(_) => None,
        });
        if shapes.flatten().any(|n| *n < SHORTEST) {
            continue;
        }
        let Ok(want) = evaluate(&case.kernel, &case.inputs, Precision::Exact) else { continue };
        let Ok(plan) = plan_kernel(&case.kernel, &target, &PlanOptions::default()) else { continue };
        let program = Program { kernel: case.kernel.clone(), plan };
        let options = ProgramOptions::default();
        // How often each barrier can be deleted, by the kernel's number in the call.
        let mut counts = Vec::new();
        let without = |kernel: &Kernel, n| without_one(kernel, n, |s| matches!(s, Stmt::Barrier(_)));
        let whole = simulate_program_with(&program, &case.inputs, &options, &mut |kernel| {
            counts.push((0..).take_while(|n| without(kernel, *n).is_some()).count());
        });
        let whole = whole.unwrap();
        if whole.faults().next().is_some() {
            continue;
        }
        for (k, count) in counts.into_iter().enumerate() {
            let mut ran = 0;
            for barrier in 0..count {
                let mut number = 0;
                let report = simulate_program_with(&program, &case.inputs, &options, &mut |kernel| {
                    if number == k {
                        *kernel = without(kernel, barrier).unwrap();
                    }
                    number += 1;
                });
                let report = report.unwrap();
                if report.faults().next().is_some() {
                    reported += 1;
                    ran += 1;
                    continue;
                }
                assert!(report.outputs.same_bits(&want), "seed {seed}, kernel {k}, barrier {barrier}");
                let passed = |r: &ProgramReport| {
                    let counters = &r.kernels[k].report.counters;
                    (counters.block_barriers, counters.warp_barriers)
                };
                if passed(&report) != passed(&whole) {
                    redundant.push((seed, k, barrier));
                    ran += 1;
                }
            }
            kernels += usize::from(ran > 0);
        }
    }
    let all = reported + redundant.len();
    assert!(kernels >= 50 && reported >= 100, "{kernels} kernels, {reported} reported");
    assert!(reported * 100 >= all * 95, "of {all} deleted {reported} are reported, not {redundant:?}");
}
