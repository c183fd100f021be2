//! What this machine has that kernels can use, and what is missing: for `cargo fuse doctor` and for reports of faults.

use crate::cpu::InstructionSet;
use crate::cuda::{CudaUnavailable, find_cache, find_compiler, find_driver, find_gpus};
use std::path::PathBuf;

/// What was found. Nothing is changed by looking, except that the folder of compiled kernels is made.
#[derive(Clone, PartialEq, Debug)]
pub struct Survey {
    /// The instruction sets that this processor has, of those for which loops are compiled; the best first.
    pub instruction_sets: Vec<String>,
    /// The one that is used: the best, unless `FUSE_ISA` asks for a lesser one.
    pub instruction_set: String,
    /// Threads of the pool that runs kernels on the CPU.
    pub threads: usize,
    /// The version of CUDA for which NVIDIA's driver is, major and minor; or why there is no driver.
    pub driver: Result<(i32, i32), CudaUnavailable>,
    /// The GPUs that the driver finds, by number; or why there is no driver. Each that can be used is described.
    pub gpus: Result<Vec<Result<Gpu, CudaUnavailable>>, CudaUnavailable>,
    /// NVRTC, or why there is none.
    pub compiler: Result<Compiler, CudaUnavailable>,
    /// The folder of compiled kernels, or why there is none.
    pub cache: Result<Cache, String>,
}

/// A GPU that kernels run on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gpu {
    /// As the driver calls it.
    pub name: String,
    /// E.g. `sm_90`.
    pub architecture: String,
    /// Bytes of shared memory of a block.
    pub shared_memory: u64,
}

/// NVRTC, NVIDIA's run-time compiler.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Compiler {
    /// Major and minor.
    pub version: (i32, i32),
    /// The architectures that it compiles for, ascending, e.g. `sm_90`.
    pub architectures: Vec<String>,
}

/// The folder of compiled kernels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cache {
    /// Where it is.
    pub folder: PathBuf,
    /// How many kernels it holds.
    pub kernels: usize,
    /// Their bytes.
    pub bytes: u64,
}

impl Survey {
    /// Looks.
    pub fn take() -> Survey {
        Survey {
            instruction_sets: InstructionSet::available().iter().map(ToString::to_string).collect(),
            instruction_set: InstructionSet::current().to_string(),
            threads: rayon::current_num_threads(),
            driver: find_driver(),
            gpus: find_gpus(),
            compiler: find_compiler(),
            cache: find_cache(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Survey;
    use crate::Device;

    #[test]
    fn a_survey_agrees_with_the_devices() {
        let survey = Survey::take();
        assert!(survey.instruction_sets.contains(&survey.instruction_set), "{survey:?}");
        assert_eq!(survey.instruction_sets.last().map(String::as_str), Some("baseline"));
        assert!(survey.threads > 0);
        assert_eq!(survey.driver.as_ref().err(), survey.gpus.as_ref().err());
        let found = survey.gpus.as_ref().map_or(0, Vec::len);
        assert_eq!(found, Device::cuda_count());
        let first = survey.gpus.map(|gpus| gpus.into_iter().next());
        match Device::why_not_cuda() {
            None => assert!(matches!(first, Ok(Some(Ok(_)))), "{first:?}"),
            Some(why) => match first {
                Ok(Some(gpu)) => assert_eq!(gpu.err(), Some(why)),
                Ok(None) => {
                    assert!(matches!(why, crate::CudaUnavailable::NoDevice { count: 0, .. }), "{why:?}")
                }
                Err(error) => assert_eq!(error, why),
            },
        }
    }
}
