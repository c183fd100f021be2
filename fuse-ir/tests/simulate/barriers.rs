//! Each barrier of the kernels written by hand deleted in turn: a race is reported, or the barrier is not needed.

use super::kernels::{launch_attention, launch_row_sum, launch_transpose};
use super::run::Launch;
use fuse_ir::kernel_ir::{Block, Kernel, Stmt, examples, verify_kernel};
use fuse_ir::simulate::FaultKind;

/// The kernel without its barrier, or wait, of that number; `None` if there are fewer.
pub(super) fn without(kernel: &Kernel, number: usize) -> Option<Kernel> {
    fn remove(block: &mut Block, number: &mut usize) -> bool {
        for at in 0..block.len() {
            let synchronises = matches!(block[at], Stmt::Barrier(_) | Stmt::WaitAsync { .. });
            if synchronises && *number == 0 {
                block.remove(at);
                return true;
            }
            *number -= usize::from(synchronises);
            let found = match &mut block[at] {
                Stmt::If { then, otherwise, .. } => remove(then, number) || remove(otherwise, number),
                Stmt::For { body, .. } => remove(body, number),
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
    remove(&mut shorter.body, &mut number).then_some(shorter)
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
