//! `cargo fuse doctor`: what this machine has that kernels can use, and what to do about what it lacks.

use crate::failure::{Failure, Outcome};
use crate::units::{Bytes, count};
use fuse_runtime::CudaUnavailable;
use fuse_runtime::survey::Survey;
use std::process::{Command, Stdio};

/// Runs the command.
///
/// # Errors
/// If something is there and cannot be used. What is not there is said, and is no error.
pub(crate) fn run() -> Outcome {
    let rustfmt = Command::new("rustfmt").arg("--version").stderr(Stdio::null()).output().ok();
    let rustfmt = rustfmt.filter(|output| output.status.success());
    let rustfmt = rustfmt.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let (text, wrong) = describe(&Survey::take(), rustfmt.as_deref());
    match wrong {
        0 => Ok(text),
        wrong => {
            let what =
                count(wrong, "thing is there and cannot be used", "things are there and cannot be used");
            Err(Failure::found(what).with_text(text))
        }
    }
}

/// A line for each thing, and how many are there and cannot be used.
fn describe(survey: &Survey, rustfmt: Option<&str>) -> (String, usize) {
    let mut wrong = 0;
    let mut lines = Vec::new();

    let best = survey.instruction_sets.first();
    let sets = survey.instruction_sets.join(", ");
    let threads = count(survey.threads, "thread", "threads");
    lines.push(format!("cpu      {} of {sets}; {threads}", survey.instruction_set));
    if best != Some(&survey.instruction_set) {
        lines
            .push("         FUSE_ISA asks for less than there is; unset it for the fastest loops".to_owned());
    }

    if let Ok((major, minor)) = &survey.driver {
        lines.push(format!("driver   for CUDA {major}.{minor}"));
    }
    match &survey.gpus {
        Ok(gpus) if gpus.is_empty() => {
            lines.push(
                "gpu      none: the driver finds no GPU; check `nvidia-smi` and CUDA_VISIBLE_DEVICES"
                    .to_owned(),
            );
        }
        Ok(gpus) => {
            for (number, gpu) in gpus.iter().enumerate() {
                lines.push(match gpu {
                    Ok(gpu) => {
                        let shared = Bytes(gpu.shared_memory);
                        format!(
                            "gpu      {number}: {}, {}, {shared} of shared memory a block",
                            gpu.name, gpu.architecture
                        )
                    }
                    Err(error) => {
                        wrong += 1;
                        format!("gpu      {number}: cannot be used: {error}")
                    }
                });
            }
        }
        Err(error) => {
            wrong += usize::from(!is_absence(error));
            lines.push(format!("gpu      none: {error}"));
        }
    }

    lines.push(match &survey.compiler {
        Ok(compiler) => {
            let (major, minor) = compiler.version;
            format!("nvrtc    {major}.{minor}, for {}", compiler.architectures.join(", "))
        }
        Err(error) => format!("nvrtc    none, and none is needed without a GPU: {error}"),
    });
    if survey.compiler.is_err() && survey.gpus.as_ref().is_ok_and(|gpus| !gpus.is_empty()) {
        // Each GPU says it already.
        lines.pop();
    }

    lines.push(match &survey.cache {
        Ok(cache) => {
            let kernels = count(cache.kernels, "compiled kernel", "compiled kernels");
            format!("cache    {}: {kernels}, {}", cache.folder.display(), Bytes(cache.bytes))
        }
        Err(error) => {
            // That it is switched off is a choice.
            wrong += usize::from(!error.starts_with("FUSE_CACHE_DIR is empty"));
            format!("cache    none: {error}")
        }
    });

    lines.push(match rustfmt {
        Some(version) => format!("rustfmt  {version}"),
        None => "rustfmt  none: `rustup component add rustfmt` adds it; without it generated Rust is not formatted"
            .to_owned(),
    });
    (lines.join("\n") + "\n", wrong)
}

/// Whether there only is nothing, and nothing wrong.
fn is_absence(error: &CudaUnavailable) -> bool {
    matches!(
        error,
        CudaUnavailable::NotBuilt | CudaUnavailable::NoDriver | CudaUnavailable::NoDevice { count: 0, .. }
    )
}

#[cfg(test)]
mod tests {
    use super::describe;
    use fuse_runtime::CudaUnavailable;
    use fuse_runtime::survey::{Cache, Compiler, Gpu, Survey};

    fn survey() -> Survey {
        Survey {
            instruction_sets: vec!["avx2".into(), "baseline".into()],
            instruction_set: "avx2".into(),
            threads: 8,
            driver: Ok((12, 8)),
            gpus: Ok(vec![Ok(Gpu {
                name: "NVIDIA H200".into(),
                architecture: "sm_90".into(),
                shared_memory: 232448,
            })]),
            compiler: Ok(Compiler { version: (12, 8), architectures: vec!["sm_80".into(), "sm_90".into()] }),
            cache: Ok(Cache { folder: "/home/a/.cache/fuse-kernels".into(), kernels: 3, bytes: 40_000 }),
        }
    }

    #[test]
    fn what_is_there_is_listed() {
        let expected = "\
cpu      avx2 of avx2, baseline; 8 threads
driver   for CUDA 12.8
gpu      0: NVIDIA H200, sm_90, 227.0 KiB of shared memory a block
nvrtc    12.8, for sm_80, sm_90
cache    /home/a/.cache/fuse-kernels: 3 compiled kernels, 39.1 KiB
rustfmt  rustfmt 1.9.0
";
        assert_eq!(describe(&survey(), Some("rustfmt 1.9.0")), (expected.to_owned(), 0));
    }

    #[test]
    fn what_is_not_there_says_how_to_get_it_and_is_no_error() {
        let survey = Survey {
            instruction_set: "baseline".into(),
            driver: Err(CudaUnavailable::NoDriver),
            gpus: Err(CudaUnavailable::NoDriver),
            compiler: Err(CudaUnavailable::NoCompiler),
            cache: Err(
                "FUSE_CACHE_DIR is empty, so nothing is kept; unset it, or let it name a folder".into()
            ),
            ..survey()
        };
        let expected = "\
cpu      baseline of avx2, baseline; 8 threads
         FUSE_ISA asks for less than there is; unset it for the fastest loops
gpu      none: no NVIDIA driver: `libcuda` is not found; install the driver, or add its folder to LD_LIBRARY_PATH
nvrtc    none, and none is needed without a GPU: no NVRTC: `libnvrtc` is not found; install it (`pip install \
nvidia-cuda-nvrtc`, or the CUDA toolkit) and add its folder to LD_LIBRARY_PATH
cache    none: FUSE_CACHE_DIR is empty, so nothing is kept; unset it, or let it name a folder
rustfmt  none: `rustup component add rustfmt` adds it; without it generated Rust is not formatted
";
        assert_eq!(describe(&survey, None), (expected.to_owned(), 0));
        let (text, wrong) = describe(&Survey { gpus: Ok(vec![]), ..survey }, None);
        assert!(text.contains("gpu      none: the driver finds no GPU; check `nvidia-smi`"), "{text}");
        assert_eq!(wrong, 0);
    }

    #[test]
    fn what_cannot_be_used_is_found() {
        let (text, wrong) = describe(
            &Survey {
                gpus: Ok(vec![Err(CudaUnavailable::NoCompiler)]),
                compiler: Err(CudaUnavailable::NoCompiler),
                cache: Err("`/x` cannot be made, or others than its user may write it".into()),
                ..survey()
            },
            None,
        );
        assert_eq!(wrong, 2, "{text}");
        assert!(
            text.contains("gpu      0: cannot be used: no NVRTC") && !text.contains("nvrtc    none"),
            "{text}"
        );
        let old = CudaUnavailable::OldDriver { missing: "cuGraphLaunch".into(), version: Some((11, 2)) };
        assert_eq!(describe(&Survey { gpus: Err(old), ..survey() }, None).1, 1);
    }
}
