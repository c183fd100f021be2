//! Random programs, planned and lowered in process, on the simulator and on a GPU if there is one that can be used, against the
//! reference. `FUSE_SEEDS=4000..4250` tries others.

use fuse_ir::plan::{PlanOptions, plan_kernel, plan_unfused};
use fuse_ir::program::Program;
use fuse_ir::random::random_case;
use fuse_ir::target::Target;
use fuse_runtime::Device;
use fuse_runtime::verify::verify_program;

fn seeds(most: u64) -> std::ops::Range<u64> {
    let given = std::env::var("FUSE_SEEDS").ok().and_then(|s| {
        let (start, end) = s.split_once("..")?;
        Some(start.parse().ok()?..end.parse().ok()?)
    });
    given.unwrap_or(0..most)
}

/// Fused and unfused plans of each program; how many runs were compared.
fn check(device: &Device, seeds: std::ops::Range<u64>) -> usize {
    let (target, mut runs) = (Target::cpu(), 0);
    for seed in seeds {
        let case = random_case(seed);
        for fused in [true, false] {
            let plan = match fused {
                true => plan_kernel(&case.kernel, &target, &PlanOptions::default()),
                false => plan_unfused(&case.kernel, &target),
            };
            let Ok(plan) = plan else { continue };
            let program = Program { kernel: case.kernel.clone(), plan };
            match verify_program(program, &case.inputs, std::slice::from_ref(device)) {
                Ok(n) => runs += n,
                Err(error) => panic!("seed {seed}, fused {fused}: {error}\n{case}"),
            }
        }
    }
    runs
}

#[test]
fn random_programs_on_the_simulator() {
    let seeds = seeds(60);
    assert!(check(&Device::simulator(), seeds.clone()) as u64 > seeds.end - seeds.start);
}

/// Without a GPU that can be used this has nothing to do.
#[test]
fn random_programs_on_a_gpu() {
    if let Ok(gpu) = Device::cuda(0) {
        let seeds = seeds(250);
        assert!(check(&gpu, seeds.clone()) as u64 > seeds.end - seeds.start);
    }
}
